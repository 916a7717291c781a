#pragma once

// A task of the runtime that reaps, as in the TASIO paper, instead of a thread of ours: it drives
// the reaper's pump, lets others run for a while, and drives it again. The while is short as long
// as it finds something and doubles otherwise. When the pump has no work the task ends, and what is
// posted next spawns another: a runtime that is shut down, or asked to wait for all its tasks,
// waits for no task of ours.

#include <atomic>
#include <cstdint>

#include "service/pump.hpp"
#include "tasking/task_host.hpp"

namespace ioweave::service {

/// Thread-safe, but for start() and stop().
class TaskPoller {
 public:
  /// Whoever posts to `pump` calls wake() afterwards. `unfinished` counts all that the service has
  /// in hand, which may be posted to it yet.
  TaskPoller(Pump& pump, const std::atomic<uint32_t>& unfinished) noexcept
      : pump_(pump), unfinished_(unfinished) {}

  /// False where the runtime refuses to run the task.
  [[nodiscard]] bool start(tasking::TaskHost& host, uint64_t min_ns, uint64_t max_ns) noexcept;
  [[nodiscard]] bool started() const noexcept { return host_ != nullptr; }

  /// Sees to it that somebody polls: a task, or where the runtime has none to give, a thread.
  void wake() noexcept;

  /// Waits until `unfinished` is zero, then until the task has ended. The caller may be a task, and
  /// the only virtual processor its own. The runtime may be gone where nothing is in flight.
  void stop() noexcept;

 private:
  [[nodiscard]] bool spawn() noexcept;
  [[nodiscard]] bool start_thread() noexcept;
  void run() noexcept;
  void end_run() noexcept;

  Pump& pump_;
  const std::atomic<uint32_t>& unfinished_;
  tasking::TaskHost* host_ = nullptr;
  uint64_t min_ns_ = 0;
  uint64_t max_ns_ = 0;
  std::atomic<bool> polls_{false};    ///< a task, or a thread, has been started to poll
  std::atomic<uint32_t> running_{0};  ///< tasks that have not ended; a futex word
};

}  // namespace ioweave::service
