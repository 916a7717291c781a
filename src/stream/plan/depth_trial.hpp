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
// Where the machine has other things to do, an epoch may come out too slow. So two and one are
// compared once more if the result is not one of those that devices have: together they get as much
// as one, or twice as much. A greater depth that brings nothing is measured once more. And a depth
// that was found is doubled now and then to see whether that brings something by now, the more
// seldom the more often it did not.
//
// Such a depth is the least that keeps the device at work while ends are noticed at once. On a
// machine whose processors compute, whoever notices them may get one late, by a time slice of the
// kernel's scheduler or more: spare slices keep the device at work until then.

#include <algorithm>
#include <cstdint>
#include <utility>

namespace ioweave::stream {

/// One thread at a time.
class DepthTrial {
 public:
  static constexpr uint32_t kMost = 256;

  /// `fixed`: the depth, or 0: to be found.
  explicit DepthTrial(uint32_t fixed) noexcept
      : depth_(fixed != 0 ? fixed : 2),
        state_(fixed != 0 ? State::settled : State::two),
        is_fixed_(fixed != 0) {}

  [[nodiscard]] uint32_t depth() const noexcept { return depth_; }
  /// The same with spare slices, where nobody minds to wait for them.
  [[nodiscard]] uint32_t depth_with_spare() const noexcept {
    return std::max(depth_, spare_depth_);
  }
  /// Whether a depth was found; a greater one may be tried at the moment.
  [[nodiscard]] bool is_settled() const noexcept { return !is_measuring() || was_found_; }
  /// Whether throughput is measured: then every read is to be a slice whose end is known.
  [[nodiscard]] bool is_measuring() const noexcept { return state_ != State::settled; }
  /// Throughput with two slices at once over that with one; 0 while it is unknown.
  [[nodiscard]] double gain_of_two() const noexcept { return gain_of_two_; }

  /// No more at once from now on.
  void limit(uint32_t most) noexcept {
    most_ = std::clamp(most, 1u, kMost);
    if (depth_ > most_) {
      depth_ = most_;
      step_ = 1;  // what it had grown by is no way back any more
      interrupt();
    }
  }

  /// Fewer slices than the depth are under way, or others use the device: an epoch begins anew.
  void interrupt() noexcept { ends_ = 0; }

  /// A slice has ended, and with it `reads - 1` others of which the ends are not known. Whether
  /// note_end() is to be told.
  [[nodiscard]] bool wants_end(uint32_t reads) noexcept {
    if (is_measuring()) {
      return reads == 1;
    }
    idle_reads_ += reads;
    return !is_fixed_ && idle_reads_ >= next_try_ * depth_;
  }

  /// A slice of so many bytes has ended. Where the depth is settled, it is time to try again.
  void note_end(uint64_t bytes, uint64_t now_ns) noexcept {
    if (!is_measuring()) {
      try_again();
    }
    if (!is_measuring()) {
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
    was_found_ = was_found_ || !is_measuring();
    if (!is_measuring() && depth_ > 1) {
      const uint64_t served = (counted * kLateNs + passed_ns - 1) / passed_ns;
      spare_depth_ = static_cast<uint32_t>(std::min<uint64_t>(served, kMostWithSpare));
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
  static constexpr uint64_t kFirstTry = 16;  ///< times the depth

  enum class State : uint8_t {
    two,    ///< the throughput of two is measured
    one,    ///< and that of one
    base,   ///< that of a depth that is tried again
    grown,  ///< and that of a greater depth
    settled,
  };

  /// Whether devices are like that.
  [[nodiscard]] static bool is_plausible(double gain) noexcept {
    return (gain >= kNoWorse && gain <= 1.25) || (gain >= 1.7 && gain <= 2.3);
  }

  void judge(double throughput) noexcept {
    switch (state_) {
      case State::two:
        two_ = std::max(throughput, two_);
        depth_ = 1;
        state_ = State::one;
        return;
      case State::one: {
        one_ = std::max(throughput, one_);
        const double gain = two_ / one_;
        depth_ = 2;
        if (!is_plausible(gain) && !was_repeated_) {
          was_repeated_ = true;
          state_ = State::two;
          return;
        }
        gain_of_two_ = gain;
        if (gain < kNoWorse) {
          depth_ = 1;
          state_ = State::settled;
          return;
        }
        throughput_ = two_;
        grow(gain >= kNearlyAll * 2);
        return;
      }
      case State::base:
        throughput_ = throughput;
        grow(false);
        return;
      case State::grown: {
        best_ = std::max(throughput, best_);
        const double gain = best_ / throughput_;
        const bool is_of_two = depth_ == 2 && step_ == 2;
        const bool is_worth_it = gain >= (is_of_two ? kNoWorse : kWorthIt);
        if (!is_worth_it && !is_once_more_) {
          is_once_more_ = true;
          return;
        }
        is_once_more_ = false;
        if (is_of_two) {
          gain_of_two_ = gain;
        }
        if (!is_worth_it) {
          best_ = 0;
          depth_ /= step_;
          depth_ = depth_ == tried_depth_ ? found_depth_ : depth_;
          state_ = State::settled;
          return;
        }
        throughput_ = std::exchange(best_, 0);
        tried_depth_ = 0;
        next_try_ = kFirstTry;
        grow(gain >= kNearlyAll * step_);
        return;
      }
      case State::settled:
        return;
    }
  }

  /// To twice or four times the depth, if there may be more.
  void grow(bool is_fast) noexcept {
    const uint32_t wanted = depth_ * (is_fast ? 4 : 2);
    step_ = std::min(wanted, most_) / depth_;
    depth_ *= std::max(step_, 1u);
    state_ = step_ <= 1 ? State::settled : State::grown;
  }

  void try_again() noexcept {
    idle_reads_ = 0;
    next_try_ *= 2;
    const uint32_t all = std::max(depth_with_spare(), 1u);
    if (!is_fixed_ && 2 * all <= most_) {
      found_depth_ = depth_;
      depth_ = tried_depth_ = all;
      state_ = State::base;
      interrupt();
    }
  }

  uint32_t depth_;
  uint32_t most_ = kMost;
  uint32_t step_ = 1;  ///< by which it grew last
  State state_;
  const bool is_fixed_;
  bool was_found_ = false;
  bool was_repeated_ = false;  ///< the comparison of two with one
  uint32_t tried_depth_ = 0;   ///< the one that was doubled to try again, or 0
  uint32_t found_depth_ = 0;   ///< the one to go back to if that brings nothing
  uint32_t spare_depth_ = 0;
  uint32_t ends_ = 0;              ///< in this epoch, those that do not count included
  uint64_t begin_ns_ = 0;          ///< the last end that did not count
  uint64_t bytes_ = 0;             ///< since then
  uint64_t idle_reads_ = 0;        ///< since the depth was found, or tried again
  uint64_t next_try_ = kFirstTry;  ///< when they are so many times the depth
  double two_ = 0;                 ///< throughput of two, and of one; bytes per ns
  double one_ = 0;
  bool is_once_more_ = false;
  double best_ = 0;        ///< of the depth that is measured
  double throughput_ = 0;  ///< of the depth before this one
  double gain_of_two_ = 0;
};

}  // namespace ioweave::stream
