#pragma once

// A task of a runtime that has no external events of its own: a count that begins at one, which the
// end of the body drops, and to which each transfer of the task adds one. At zero, whoever dropped
// the last one runs the task's `done`. So transfers that end at once are safe, and the runtime's
// own event, which is boolean in OpenMP, is fulfilled exactly once.

#include <atomic>
#include <cstdint>

namespace ioweave::tasking {

/// Made by begin() and freed by the last drop(). Thread-safe but for begin() and end().
class CountingEvent {
 public:
  using Done = void (*)(void* user);

  /// Becomes the calling thread's innermost task. `owner` tells apart whose tasks they are. False
  /// without memory.
  [[nodiscard]] static bool begin(const void* owner, Done done, void* user) noexcept;
  /// The innermost task of this thread stops being it and drops its own count. False where there is
  /// none or it is somebody else's.
  [[nodiscard]] static bool end(const void* owner) noexcept;
  /// The innermost task of this thread if it is of this owner, or null.
  [[nodiscard]] static CountingEvent* current(const void* owner) noexcept;
  /// Whether this thread is in a task of any owner.
  [[nodiscard]] static bool any() noexcept;

  /// While it lives, this thread is in no task: who runs on it has nothing to do with the one that
  /// began there.
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
  /// Publishes everything written before to whoever runs `done`, and through it to its successors.
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
