#pragma once

// Something that ends once, perhaps on another thread, and that somebody waits for who may be a
// task: an admission, a buffer, the end of all writes to a file. Service::wait_for() pauses the
// task where the caller is one that can be paused; otherwise the thread sleeps.

#include "tasking/task_host.hpp"
#include "tasking/thread_event.hpp"

namespace ioweave::service {

/// One wait of one caller. It lives on the caller's stack, so whoever ends it must not touch it
/// afterwards.
class Wait {
 public:
  Wait() = default;
  virtual ~Wait() = default;
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  /// Begins what is waited for. Returns true if there is nothing to wait for: then nobody calls
  /// end(). Otherwise somebody calls it once, maybe before this returns: `this` may be gone then.
  [[nodiscard]] virtual bool begin() noexcept = 0;

  /// By the waiting thread. Takes it back: returns true if nobody will call end() any more.
  [[nodiscard]] virtual bool withdraw() noexcept = 0;

  /// The wait is over: wakes the caller.
  void end() noexcept;

 private:
  friend class Service;
  class Pause;
  Pause* pause_ = nullptr;  ///< of the task that waits; null: a thread does
  tasking::ThreadEvent event_{};
};

}  // namespace ioweave::service
