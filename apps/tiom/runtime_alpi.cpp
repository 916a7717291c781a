// ALPI, the tasking interface of OmpSs-2 (Nanos6, NODES) and nOS-V, by names looked up in the
// process at run time (start_again.hpp brings it there). The prototypes are written from the
// published names and semantics. The variants:
//
//   standalone    a task makes the system call, and its processor waits in it
//   blocking      iow_pread() blocks the task, and the processor runs another
//   nonblocking   iow_ta_pread() adds an event to the task; the runtime completes the task, and so
//                 starts its successor, when its body and the event have ended

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <vector>

#include <dlfcn.h>

#include "ioweave/tasks.h"
#include "runtime.hpp"

struct alpi_attr;

namespace tiom {
namespace {

template <typename Function>
bool find(const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, symbol));
  return function != nullptr;
}

struct Alpi {
  int (*spawn)(void (*body)(void*), void* user, void (*completed)(void*), void* completed_user,
               const char* label, const ::alpi_attr* attributes) = nullptr;
  int (*cpu_count)(uint64_t* count) = nullptr;
  const char* (*error_string)(int error) = nullptr;
};

Alpi look_up() {
  Alpi alpi;
  if (!find("alpi_task_spawn", alpi.spawn) || !find("alpi_cpu_count", alpi.cpu_count) ||
      !find("alpi_error_string", alpi.error_string)) {
    throw std::runtime_error(
        "this process has no ALPI runtime; link it with one, or preload one by LD_PRELOAD");
  }
  return alpi;
}

/// nOS-V, started and ended; other runtimes do that themselves. It belongs to one thread: since 4.1
/// nOS-V wants to be ended by the one that started it, and counts the starts of a process.
class StartedNosv {
 public:
  StartedNosv() {
    int (*start)() = nullptr;
    if (!find("nosv_init", start)) return;
    if (const int error = start(); error != 0) {
      throw std::runtime_error("nosv_init() failed (" + std::to_string(error) +
                               "); see nOS-V's messages");
    }
    find("nosv_shutdown", end_);
  }
  ~StartedNosv() {
    const int error = end_ != nullptr ? end_() : 0;
    if (error != 0) std::fprintf(stderr, "ioweave tiom: nosv_shutdown() failed (%d)\n", error);
  }
  StartedNosv(const StartedNosv&) = delete;
  StartedNosv& operator=(const StartedNosv&) = delete;

 private:
  int (*end_)() = nullptr;
};

/// Made and destroyed by the same thread, see StartedNosv.
class AlpiRuntime final : public Runtime {
 public:
  explicit AlpiRuntime(const RuntimeSettings& settings)
      : alpi_(look_up()),
        workers_(count_workers(settings)),
        service_(IOW_TASKS_ALPI, settings.most_in_flight,
                 settings.reap_in_task ? IOW_REAPER_TASK : IOW_REAPER_THREAD) {}

  void execute(Variant variant, Run& run) override {
    {
      const std::lock_guard lock(mutex_);
      variant_ = variant;
      run_ = &run;
      finished_ = false;
      pending_ = std::vector<Pending>(run.task_lanes());
    }
    run.start([this](const Task& task) { spawn(task); });
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return finished_; });
  }

  [[nodiscard]] std::string name() const override {
    return iow_service_tasks(service_.get(), nullptr);
  }
  [[nodiscard]] unsigned workers() const override { return workers_; }
  [[nodiscard]] iow_service* service() const override { return service_.get(); }

 private:
  struct Pending {
    AlpiRuntime* runtime = nullptr;
    Task task{};
    ssize_t result = 0;
    bool worked = false;
    bool bound = false;  ///< its I/O ends with the task
  };

  [[noreturn]] void fail(const char* what, int error) const {
    throw std::runtime_error(std::string(what) + ": " + alpi_.error_string(error));
  }

  /// How many processors the runtime has is its own affair. It may have to be started to tell.
  [[nodiscard]] unsigned count_workers(const RuntimeSettings& settings) {
    run_one_task();
    uint64_t count = 0;
    if (const int error = alpi_.cpu_count(&count); error != 0) fail("alpi_cpu_count", error);
    if (count == 0) fail("alpi_cpu_count", 0);
    if (settings.workers_given && settings.workers != count) {
      throw UsageError("--threads " + std::to_string(settings.workers) + ": the ALPI runtime has " +
                       std::to_string(count) +
                       " processors; set their number by the runtime's own configuration or "
                       "taskset(1)");
    }
    return static_cast<unsigned>(count);
  }

  void run_one_task() {
    finished_ = false;
    const auto completed = [](void* user) { static_cast<AlpiRuntime*>(user)->finish(); };
    const int error = alpi_.spawn([](void*) {}, nullptr, completed, this, "tiom", nullptr);
    if (error != 0) fail("alpi_task_spawn", error);
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return finished_; });
  }

  void spawn(const Task& task) {
    Pending& pending = pending_[run_->task_lane(task)];
    pending = {this, task, 0, false, false};
    const int error = alpi_.spawn(
        [](void* user) { perform(*static_cast<Pending*>(user)); }, &pending,
        [](void* user) { completed(*static_cast<Pending*>(user)); }, &pending, "tiom", nullptr);
    if (error == 0) return;
    // Without the task the series would never end.
    run_->fail(ENOMEM);
    completed(pending);
  }

  static void perform(Pending& pending) {
    AlpiRuntime& runtime = *pending.runtime;
    Run& run = *runtime.run_;
    pending.worked = run.begin();
    if (!pending.worked) return;
    run.compute(pending.task);
    if (!run.does_io(pending.task)) return;
    const Transfer transfer = run.transfer(pending.task);
    if (runtime.variant_ == Variant::nonblocking) {
      pending.bound = true;
      transfer_bound(runtime.service(), transfer, &pending.result);
    } else {
      run.moved(pending.task, runtime.variant_ == Variant::standalone
                                  ? transfer_plainly(transfer)
                                  : transfer_blocking(runtime.service(), transfer));
    }
  }

  /// Body and events have ended.
  static void completed(Pending& pending) {
    AlpiRuntime& runtime = *pending.runtime;
    if (pending.bound) runtime.run_->moved(pending.task, pending.result);
    const Task task = pending.task;
    if (runtime.run_->ended(task, pending.worked, [&](const Task& next) { runtime.spawn(next); })) {
      runtime.finish();
    }
  }

  void finish() {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    idle_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable idle_;
  bool finished_ = false;
  const Alpi alpi_;
  const StartedNosv nosv_;  // ends behind service_: a polling task of the service would hold it up
  const unsigned workers_;
  Service service_;
  Run* run_ = nullptr;
  Variant variant_ = Variant::standalone;
  std::vector<Pending> pending_;
};

}  // namespace

std::unique_ptr<Runtime> make_alpi_runtime(const RuntimeSettings& settings) {
  return std::make_unique<AlpiRuntime>(settings);
}

}  // namespace tiom
