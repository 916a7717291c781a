#pragma once

// How many slices at once a device serves best. Pure logic: ends of slices in, a depth out.
//
// An epoch is a stretch in which `depth` slices are under way all the time. Its throughput is
// measured from one end of a slice to another, over rounds of `depth` ends: at least `kEnds` of
// them, or `kFewEnds` if these took long. It begins with two slices, so that the device has work
// while one ends and another begins, and compares them with one: they stay unless they slow each
// other down. From there on the depth doubles while that brings at least a tenth, and grows
// fourfold where the last step brought nearly all that it could; the last depth that did stays.
//
// Such a depth is the least that keeps the device at work while ends are noticed at once. On a
// machine whose processors compute, whoever notices them may get one late, by a time slice of the
// kernel's scheduler or more: spare slices keep the device at work until then.

#include <cstdint>

namespace ioweave::stream {

/// One thread at a time.
class DepthTrial {
 public:
  static constexpr uint32_t kMost = 256;

  /// `fixed`: the depth, or 0: to be found.
  explicit DepthTrial(uint32_t fixed) noexcept
      : depth_(fixed != 0 ? fixed : 2), is_settled_(fixed != 0) {}

  [[nodiscard]] uint32_t depth() const noexcept { return depth_; }
  /// The same with spare slices, where nobody minds to wait for them.
  [[nodiscard]] uint32_t depth_with_spare() const noexcept {
    return depth_ > spare_depth_ ? depth_ : spare_depth_;
  }
  [[nodiscard]] bool is_settled() const noexcept { return is_settled_; }
  /// Throughput with two slices at once over that with one; 0 while it is unknown.
  [[nodiscard]] double gain_of_two() const noexcept { return gain_of_two_; }

  /// No more at once from now on.
  void limit(uint32_t most) noexcept {
    most_ = most < kMost ? most : kMost;
    if (depth_ > most_) {
      depth_ = most_;
      step_ = 1;  // what it had grown by is no way back any more
      interrupt();
    }
  }

  /// Fewer slices than the depth are under way, or others use the device: an epoch begins anew.
  void interrupt() noexcept { ends_ = 0; }

  /// A slice of so many bytes has ended.
  void note_end(uint64_t bytes, uint64_t now_ns) noexcept {
    if (is_settled_) {
      return;
    }
    // Those that were under way before the epoch do not count.
    if (++ends_ <= depth_) {
      begin_ns_ = now_ns;
      bytes_ = 0;
      return;
    }
    bytes_ += bytes;
    const uint32_t counted = ends_ - depth_;
    const uint64_t passed_ns = now_ns - begin_ns_;
    const bool is_enough = counted >= kEnds || (counted >= kFewEnds && passed_ns >= kLongNs);
    if (counted % depth_ != 0 || !is_enough || passed_ns == 0) {
      return;
    }
    judge(static_cast<double>(bytes_) / static_cast<double>(passed_ns));
    if (is_settled_ && depth_ > 1) {
      const uint64_t served = (counted * kLateNs + passed_ns - 1) / passed_ns;
      spare_depth_ = served < kMostWithSpare ? static_cast<uint32_t>(served) : kMostWithSpare;
    }
    ends_ = 0;
  }

 private:
  static constexpr uint32_t kEnds = 8;
  static constexpr uint32_t kFewEnds = 4;
  static constexpr uint64_t kLongNs = 5'000'000;
  static constexpr double kWorthIt = 1.1;
  static constexpr double kNoWorse = 0.95;
  static constexpr double kNearlyAll = 0.8;  ///< of what a step could bring
  static constexpr uint64_t kLateNs = 20'000'000;
  static constexpr uint32_t kMostWithSpare = 16;

  void judge(double throughput) noexcept {
    if (throughput_ == 0) {  // of two
      throughput_ = throughput;
      depth_ = 1;
      return;
    }
    const double gain = depth_ == 1 ? throughput_ / throughput : throughput / throughput_;
    if (depth_ == 1) {
      gain_of_two_ = gain;
      step_ = 2;
      if (gain < kNoWorse) {
        is_settled_ = true;
        return;
      }
      depth_ = 2;
    } else if (gain < kWorthIt) {
      depth_ /= step_;
      is_settled_ = true;
      return;
    } else {
      throughput_ = throughput;
    }
    const uint32_t wanted = depth_ * (gain >= kNearlyAll * step_ ? 4 : 2);
    step_ = (wanted < most_ ? wanted : most_) / depth_;
    depth_ *= step_ != 0 ? step_ : 1;
    is_settled_ = step_ <= 1;
  }

  uint32_t depth_;
  uint32_t most_ = kMost;
  uint32_t step_ = 1;  ///< by which it grew last
  bool is_settled_;
  uint32_t spare_depth_ = 0;
  uint32_t ends_ = 0;      ///< in this epoch, those that do not count included
  uint64_t begin_ns_ = 0;  ///< the last end that did not count
  uint64_t bytes_ = 0;     ///< since then
  double throughput_ = 0;  ///< of two, or of the depth before this one; bytes per ns
  double gain_of_two_ = 0;
};

}  // namespace ioweave::stream
