#pragma once

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ioweave {

/// Sleeps while `word` holds `expected`, at most timeout_ns (-1: no limit). It also returns after a
/// wake or a signal, so the caller checks its condition again. Process-private.
inline void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected,
                       int64_t timeout_ns = -1) noexcept {
  timespec limit{};
  if (timeout_ns >= 0) {
    limit.tv_sec = timeout_ns / 1'000'000'000;
    limit.tv_nsec = timeout_ns % 1'000'000'000;
  }
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, timeout_ns >= 0 ? &limit : nullptr,
          nullptr, 0);
}

inline void futex_wake(const std::atomic<uint32_t>& word, int threads = INT_MAX) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

/// The moment when a timeout is over, or never.
class Deadline {
 public:
  /// Never for -1, and for more than the clock can count to.
  explicit Deadline(int64_t timeout_ns) noexcept {
    if (timeout_ns >= 0 && __builtin_add_overflow(monotonic_ns(), timeout_ns, &at_ns_)) {
      at_ns_ = kNever;
    }
  }

  [[nodiscard]] bool passed() const noexcept { return at_ns_ != kNever && left_ns() == 0; }
  /// Returns the time left, as a timeout for futex_wait() and engine::Reap: -1 for never.
  [[nodiscard]] int64_t left_ns() const noexcept {
    if (at_ns_ == kNever) {
      return -1;
    }
    const int64_t left = at_ns_ - monotonic_ns();
    return left > 0 ? left : 0;
  }

 private:
  static constexpr int64_t kNever = INT64_MAX;
  static int64_t monotonic_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
  }
  int64_t at_ns_ = kNever;
};

}  // namespace ioweave
