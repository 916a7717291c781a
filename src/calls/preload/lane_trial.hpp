#pragma once

// Whether calls of one kind go faster by the lane or plainly, found out by the calls themselves.
// Pure logic without I/O, clock or thread of its own.

#include <atomic>
#include <cstdint>
#include <optional>

namespace ioweave::calls {

/// Tests define this to have every call of a kind by the lane, that may be.
#if defined(IOWEAVE_ALWAYS_CARRY)
inline constexpr bool kAlwaysCarries = true;
#else
inline constexpr bool kAlwaysCarries = false;
#endif

/// Calls of one kind. Thread-safe: figures that steer, relaxed throughout.
class LaneTrial {
 public:
  /// Whether the lane makes the next call: in turn at first, then by the faster of the two ways,
  /// but for a look at the other now and then.
  [[nodiscard]] bool carries() noexcept {
    if (kAlwaysCarries) return true;
    const uint32_t number = calls_.fetch_add(1, std::memory_order_relaxed);
    if (number < kInTurn) return number % 2 == 0;
    const bool lane_is_faster =
        carried_.load(std::memory_order_relaxed) < plain_.load(std::memory_order_relaxed);
    return lane_is_faster != (number % kLookEvery == kLookEvery - 1);
  }

  /// A call took so long. What it cost beyond a plain one, as far as those are known; nothing for a
  /// plain one.
  std::optional<int64_t> note(bool carried, uint64_t ticks) noexcept {
    std::atomic<uint64_t>& mean = carried ? carried_ : plain_;
    const uint64_t before = mean.load(std::memory_order_relaxed);
    mean.store(before == 0 ? ticks : before - before / 8 + ticks / 8, std::memory_order_relaxed);
    const uint64_t plain = plain_.load(std::memory_order_relaxed);
    if (!carried || plain == 0) return std::nullopt;
    return static_cast<int64_t>(ticks - plain);
  }

 private:
  static constexpr uint32_t kInTurn = 16;
  static constexpr uint32_t kLookEvery = 32;

  std::atomic<uint32_t> calls_{0};
  std::atomic<uint64_t> plain_{0};  // ticks of a call, as a running mean; 0: none yet
  std::atomic<uint64_t> carried_{0};
};

}  // namespace ioweave::calls
