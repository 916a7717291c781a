#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include <pthread.h>

#include "engine/backends.hpp"
#include "engine/operation_list.hpp"
#include "engine/prefetch.hpp"

namespace ioweave::engine {

/// A pool of worker threads that make plain system calls. See threads.cpp for how it works and
/// Backend for which thread may call what.
class ThreadsBackend final : public Backend {
 public:
  explicit ThreadsBackend(const BackendOptions& options);
  ~ThreadsBackend() override;

  [[nodiscard]] std::string_view name() const noexcept override {
    return backend_name(Kind::threads, UringMode::plain);
  }
  [[nodiscard]] Submitted submit(Operation& operation) noexcept override;
  [[nodiscard]] int flush() noexcept override;
  [[nodiscard]] int reap(std::span<Operation*> out, const Reap& how) noexcept override;
  void wake() noexcept override;
  [[nodiscard]] int cancel(Operation& operation) noexcept override;
  void abandon() noexcept override { abandoned_ = true; }

 private:
  struct Worker {
    pthread_t thread{};
    ThreadsBackend* backend = nullptr;
    Operation* running = nullptr;        ///< under the lock
    std::atomic<bool> cancelled{false};  ///< a prefetch should stop; orders nothing
  };
  /// Everything the threads share. Kept apart so that a forked child can free it without running
  /// destructors: a condition variable waits for its waiters, and they do not exist there.
  struct Shared {
    std::mutex lock;
    std::condition_variable work;       ///< `waiting` is not empty, or stop
    std::condition_variable completed;  ///< enough is done, or woken
    OperationList waiting;
    OperationList done;
    uint32_t idle = 0;          ///< workers asleep in `work`
    uint32_t reaper_wants = 0;  ///< completions the sleeping reaper waits for; 0: none sleeps
    bool woken = false;
    bool stop = false;
  };

  void start_workers(uint32_t wanted) noexcept;
  [[nodiscard]] bool start_worker() noexcept;
  void run_inline() noexcept;
  void work(Worker& worker) noexcept;
  [[nodiscard]] int64_t execute(const Operation& operation,
                                const std::atomic<bool>& cancelled) noexcept;
  /// Under the lock. True where the reaper should be told.
  [[nodiscard]] bool complete(Operation& operation) noexcept;
  void finish(Operation& operation, int64_t result) noexcept;
  static void* worker_main(void* argument);

  const uint32_t max_workers_;
  std::unique_ptr<Worker[]> workers_;  ///< the first started_ exist
  uint32_t started_ = 0;               ///< owner
  OperationList queued_;               ///< owner: submitted and not yet flushed
  Shared* shared_;
  InFlight in_flight_;
  ReadAheadWindows windows_;
  bool abandoned_ = false;
};

}  // namespace ioweave::engine
