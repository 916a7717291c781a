#pragma once

#include <algorithm>
#include <cstdint>

namespace ioweave::stream {

/// Bounds the bytes that are asked of a device: in any period at most what the rate allows in that
/// period and a tenth of a second more, plus one range. Pure logic; one thread; times in
/// nanoseconds from any origin.
class BandwidthBudget {
 public:
  /// `mb_per_s`: the rate in 10^6 bytes, above 0.
  explicit BandwidthBudget(double mb_per_s) noexcept : ns_per_byte_(1e3 / mb_per_s) {}

  /// Returns from when on the next range may be asked for.
  [[nodiscard]] uint64_t free_at_ns() const noexcept { return free_ns_; }

  /// Notes that a range was asked for.
  void spend(uint64_t bytes, uint64_t now_ns) noexcept {
    constexpr uint64_t kSavedNs = 100'000'000;  // unspent time is saved for so long
    const uint64_t least = now_ns - std::min(now_ns, kSavedNs);
    // A range that would take years stops all further ranges.
    const double cost_ns = std::min(static_cast<double>(bytes) * ns_per_byte_, 1e18);
    free_ns_ = std::max(free_ns_, least) + static_cast<uint64_t>(cost_ns);
  }

 private:
  double ns_per_byte_;
  uint64_t free_ns_ = 0;
};

}  // namespace ioweave::stream
