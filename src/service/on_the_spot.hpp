#pragma once

#include <atomic>
#include <cstdint>

namespace ioweave::service {

/// Whether calls of a kind are worth making on the spot, with the task's core: they are until one
/// takes long. After that, some go the asynchronous way before the next is tried.
class OnTheSpot {
 public:
  constexpr OnTheSpot(uint64_t patience_ns, uint64_t ns_per_byte, uint32_t away) noexcept
      : patience_ns_(patience_ns), ns_per_byte_(ns_per_byte), away_after_(away) {}

  [[nodiscard]] bool is_worth_it() noexcept {
    uint32_t left = away_.load(std::memory_order_relaxed);
    while (left != 0) {
      if (away_.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {
        return false;
      }
    }
    return true;
  }
  void note_duration(uint64_t bytes, uint64_t ns) noexcept {
    if (ns > patience_ns_ + bytes * ns_per_byte_) {
      stay_away(away_after_);
    }
  }
  /// The next ones are not.
  void stay_away(uint32_t calls) noexcept { away_.store(calls, std::memory_order_relaxed); }

 private:
  const uint64_t patience_ns_;
  const uint64_t ns_per_byte_;
  const uint32_t away_after_;  ///< one that took long
  std::atomic<uint32_t> away_{0};
};

}  // namespace ioweave::service
