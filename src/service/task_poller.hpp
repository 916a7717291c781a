#pragma once

// A task of the runtime that reaps, as in the TASIO paper, instead of a thread of ours: it drives
// the reaper's pump, lets others run for a while, and drives it again. The while is short as long
// as it finds something and doubles otherwise; while nothing is in flight the task is paused.

#include <atomic>
#include <cstdint>

#include "service/pump.hpp"
#include "tasking/task_host.hpp"

namespace ioweave::service {

/// Thread-safe, but for start() and stop().
class TaskPoller {
 public:
  /// `unfinished` counts what must be polled for; whoever raises it calls wake() afterwards.
  TaskPoller(Pump& pump, const std::atomic<uint32_t>& unfinished) noexcept
      : pump_(pump), unfinished_(unfinished) {}

  /// False where the runtime refuses to run the task.
  [[nodiscard]] bool start(tasking::TaskHost& host, uint64_t min_ns, uint64_t max_ns) noexcept;
  [[nodiscard]] bool started() const noexcept { return host_ != nullptr; }

  void wake() noexcept;

  /// Waits until `unfinished` is zero, then until the task has ended. The caller may be a task, and
  /// the only virtual processor its own.
  void stop() noexcept;

 private:
  class Park;
  void run() noexcept;
  void park() noexcept;

  Pump& pump_;
  const std::atomic<uint32_t>& unfinished_;
  tasking::TaskHost* host_ = nullptr;
  uint64_t min_ns_ = 0;
  uint64_t max_ns_ = 0;
  std::atomic<Park*> parked_{nullptr};
  std::atomic<bool> stop_{false};
  std::atomic<uint32_t> running_{0};  ///< tasks; a futex word
};

}  // namespace ioweave::service
