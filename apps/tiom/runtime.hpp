#pragma once

// A task runtime, as TIOM sees it. Each has a file of its own, runtime_NAME.cpp; a runtime that was
// not found at configure time is not compiled, and asking for it says what to install.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ioweave/ioweave.h"
#include "options.hpp"
#include "run.hpp"

namespace tiom {

class Runtime {
 public:
  virtual ~Runtime() = default;

  /// Carries out all tasks of the run; returns when the last of them and its I/O have ended.
  virtual void execute(Variant variant, Run& run) = 0;

  /// "threads", "oneTBB 2021.8", "OpenMP 201511 (libgomp)".
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual unsigned workers() const = 0;
  [[nodiscard]] virtual iow_service* service() const = 0;
};

struct RuntimeSettings {
  RuntimeKind kind = RuntimeKind::threads;
  unsigned workers = 1;
  bool workers_given = false;   ///< by --threads
  unsigned most_in_flight = 1;  ///< transfers: series times the width of the widest mode
  bool reap_in_task = false;    ///< of ALPI
};

/// What it can do, in order.
std::span<const Variant> variants_of(RuntimeKind kind);

/// Empty where it was built, else what to install.
std::string missing_runtime(RuntimeKind kind);

/// Those asked for, or all; throws UsageError for one that the runtime has not, saying why.
std::vector<Variant> chosen_variants(const Options& options);

/// Throws std::runtime_error with a way out where it cannot be had.
std::unique_ptr<Runtime> make_runtime(const RuntimeSettings& settings);

// Of the single files; only those that were built may be called.
std::unique_ptr<Runtime> make_threads_runtime(const RuntimeSettings& settings);
std::unique_ptr<Runtime> make_openmp_runtime(const RuntimeSettings& settings);
std::unique_ptr<Runtime> make_tbb_runtime(const RuntimeSettings& settings);
std::unique_ptr<Runtime> make_alpi_runtime(const RuntimeSettings& settings);
std::unique_ptr<Runtime> make_coroutine_runtime(const RuntimeSettings& settings);

/// Of a service with room for that many transfers in flight, and as many paused tasks.
iow_options service_options(unsigned most_in_flight);

/// A service with its end. Throws std::runtime_error.
class Service {
 public:
  Service(iow_tasks tasks, unsigned most_in_flight, iow_task_reaper reaper = IOW_REAPER_AUTO);
  ~Service() { iow_service_close(service_); }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  [[nodiscard]] iow_service* get() const { return service_; }

 private:
  iow_service* service_ = nullptr;
};

/// The transfer by iow_pread() or iow_pwrite(), which pause the task where there is one.
ssize_t transfer_blocking(iow_service* service, const Transfer& transfer);

/// Binds the transfer to the calling task by iow_ta_pread() or iow_ta_pwrite(). `result` receives
/// -errno, too, where nothing was started.
void transfer_bound(iow_service* service, const Transfer& transfer, ssize_t* result);

/// The transfer as a request, without a callback.
iow_request request_of(const Transfer& transfer);

/// The steps of a task whose plain and blocking transfers have ended when the call returns:
/// ended(worked) then. That of the nonblocking variant is started by start_io(), and its end is
/// the caller's to tell.
template <typename StartIo, typename Ended>
void perform(Run& run, const Task& task, Variant variant, iow_service* service, StartIo&& start_io,
             Ended&& ended) {
  const bool works = run.begin();
  if (works) run.compute(task);
  if (!works || !run.does_io(task)) {
    ended(works);
  } else if (variant == Variant::nonblocking) {
    start_io();
  } else {
    const Transfer transfer = run.transfer(task);
    run.moved(task, variant == Variant::standalone ? transfer_plainly(transfer)
                                                   : transfer_blocking(service, transfer));
    ended(true);
  }
}

}  // namespace tiom
