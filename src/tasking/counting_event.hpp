#pragma once

// A task of a runtime that has no external events of its own. It is a count that begins at one.
// Each transfer of the task adds one, and drops it when it ends; the end of the body drops the
// first one. At zero, whoever dropped the last one runs the task's `done`. So transfers that end at
// once are safe, and the runtime's own event, which is boolean in OpenMP, is fulfilled exactly
// once.

#include <atomic>
#include <cstdint>

namespace ioweave::tasking {

/// Made by begin() and freed by the last drop(). Thread-safe but for begin() and end().
class CountingEvent {
 public:
  using Done = void (*)(void* user);

  /// Begins a task, which becomes the innermost one of the calling thread. `owner` tells the tasks
  /// of several services apart. Returns false if memory ran out.
  [[nodiscard]] static bool begin(const void* owner, Done done, void* user) noexcept;
  /// Ends the innermost task of this thread and drops its own count. Returns false if there is none
  /// or it has another owner.
  [[nodiscard]] static bool end(const void* owner) noexcept;
  /// Returns the innermost task of this thread if it has this owner, or null.
  [[nodiscard]] static CountingEvent* current(const void* owner) noexcept;
  /// Returns true if this thread is in a task of any owner.
  [[nodiscard]] static bool any() noexcept;

  /// While it lives, this thread is in no task, since what runs on it does not belong to the task
  /// that began there.
  class Hidden {
   public:
    Hidden() noexcept;
    ~Hidden();
    Hidden(const Hidden&) = delete;
    Hidden& operator=(const Hidden&) = delete;

   private:
    CountingEvent* const innermost_;
  };

  void hold() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  /// Publishes everything written before to whoever runs `done`, and so to the successors.
  void drop() noexcept;

 private:
  CountingEvent(const void* owner, Done done, void* user, CountingEvent* outer) noexcept
      : owner_(owner), done_(done), user_(user), outer_(outer) {}

  const void* const owner_;
  const Done done_;
  void* const user_;
  CountingEvent* const outer_;
  std::atomic<uint32_t> count_{1};
};

}  // namespace ioweave::tasking
