#pragma once

// How large a slice of a prefetch should be on a device: what is in flight when the program enters
// a call of its own delays that call, so as small as the device allows without getting slower.

#include <algorithm>
#include <cstdint>

namespace ioweave::calls {

/// Starts at the least size and doubles it while that makes the device clearly faster, as it does
/// where latency dominates; a larger size that does not pay is given up, and tried again only after
/// a while. Pure logic; one thread.
class SliceSizer {
 public:
  static constexpr uint64_t kLeastBytes = 128u << 10;  ///< a usual read-ahead window
  static constexpr double kWorthwhile = 1.25;          ///< gain in rate that a doubling must bring
  static constexpr unsigned kSamples = 8;              ///< slices of one size to judge it by
  static constexpr unsigned kPatience = 1024;          ///< slices before a size is tried again

  explicit SliceSizer(uint64_t most_bytes) noexcept
      : most_bytes_(most_bytes), bytes_(std::min(most_bytes, kLeastBytes)) {}

  [[nodiscard]] uint64_t bytes() const noexcept { return bytes_; }

  /// A slice that the program did not hold back took `seconds` from submission to end.
  void completed(uint64_t bytes, double seconds) noexcept {
    if (bytes != bytes_ || seconds <= 0) {
      return;  // a rest at the end of a window or file says little about the size
    }
    if (resting_ > 0) {
      --resting_;
      return;
    }
    seconds_ += seconds;
    if (++samples_ == kSamples) {
      judge(static_cast<double>(bytes_) * kSamples / seconds_);
      samples_ = 0;
      seconds_ = 0;
    }
  }

 private:
  void judge(double rate) noexcept {
    if (rate_before_ > 0 && rate < kWorthwhile * rate_before_) {
      bytes_ /= 2;
      rate_before_ = 0;
      resting_ = kPatience;
    } else if (bytes_ * 2 <= most_bytes_) {
      rate_before_ = rate;
      bytes_ *= 2;
    } else {
      rate_before_ = 0;
      resting_ = kPatience;
    }
  }

  const uint64_t most_bytes_;
  uint64_t bytes_;
  double rate_before_ = 0;  // at half the size; 0: nothing to compare with
  double seconds_ = 0;
  unsigned samples_ = 0;
  unsigned resting_ = 0;
};

}  // namespace ioweave::calls
