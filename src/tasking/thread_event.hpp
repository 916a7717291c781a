#pragma once

// The waiter of plain threads, and the model for those of task runtimes. It is a one-shot event: it
// exists before the kernel knows of the request, whoever reaps completes it once, and it makes no
// system call unless somebody sleeps on it.

#include <atomic>
#include <cstdint>

#include "base/futex.hpp"

namespace ioweave::tasking {

/// Zero-initialised memory is a valid idle event. Thread-safe: any number of waiters, one
/// completion. After complete() returns the memory may be gone: the wake needs its address only.
class ThreadEvent {
 public:
  /// Called before submission, since the completion may race with everything after it. Returns
  /// false if the event is already pending.
  [[nodiscard]] bool prepare() noexcept {
    const uint32_t state = state_.load(std::memory_order_relaxed);
    if (state == kPending || state == kWaited) {
      return false;
    }
    state_.store(kPending, std::memory_order_relaxed);  // published by the submission itself
    return true;
  }

  /// Undoes prepare() if the submission did not happen.
  void retract() noexcept { state_.store(kIdle, std::memory_order_relaxed); }

  /// Publishes everything written before (the result) to whoever sees done().
  void complete() noexcept {
    const std::atomic<uint32_t>& word = state_;
    // The release pairs with the acquire in done() and sleep(). The wake may meet a word that was
    // freed and reused, which is harmless: futex(2) waiters check their condition again.
    if (state_.exchange(kDone, std::memory_order_acq_rel) == kWaited) {
      futex_wake(word);
    }
  }

  [[nodiscard]] bool done() const noexcept {
    return state_.load(std::memory_order_acquire) == kDone;
  }
  [[nodiscard]] bool idle() const noexcept {
    return state_.load(std::memory_order_acquire) == kIdle;
  }

  /// Sleeps until completion, a wake, a signal or the timeout (-1: none). Check done() again then.
  void sleep(int64_t timeout_ns) noexcept {
    uint32_t expected = kPending;
    state_.compare_exchange_strong(expected, kWaited, std::memory_order_acq_rel);
    if (expected != kDone && expected != kIdle) {
      futex_wait(state_, kWaited, timeout_ns);
    }
  }

 private:
  static constexpr uint32_t kIdle = 0;
  static constexpr uint32_t kPending = 1;
  static constexpr uint32_t kWaited = 2;
  static constexpr uint32_t kDone = 3;
  std::atomic<uint32_t> state_;
};

}  // namespace ioweave::tasking
