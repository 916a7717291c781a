#pragma once

// Whether to leave a reader to the kernel's own read-ahead.
//
// The kernel asks for the next window while the program is in a read anyway: no thread has to wake
// for it, and the device is at work from the first moment of the computation. Slices of ours come a
// wake-up later and reach further into the program's next call. So where reads are small beside the
// window, and the program waits little for them, everything is well as it is. From 1 MiB on slices
// pay whatever the window: on a disk limited to 400 MB/s with a window of 8 MiB a program took 1.07
// to 1.13 of its time when they came after a judgement first, and 0.76 with slices from the start.

#include <cstdint>

namespace ioweave::calls {

/// One file. Pure logic; one thread. Times in ticks of any length.
class ReadAheadJudge {
 public:
  static constexpr uint64_t kReadsPerWindow = 2;          ///< smaller reads are "small"
  static constexpr uint64_t kMostSmallBytes = 512 << 10;  ///< of a read, whatever the window
  static constexpr uint64_t kLeastReads = 16;             ///< to judge by
  static constexpr uint64_t kFewTicks = 8;  ///< a share of the time below 1/8 is "little"

  static constexpr uint64_t kWaitedLooks = 3;  ///< in a row: read-ahead needs time to get going

  /// What the program has read of the file, in total.
  struct Totals {
    uint64_t calls = 0;
    uint64_t bytes = 0;
    uint64_t ticks = 0;  ///< inside the calls
  };

  /// Looks at the totals as of `now`; an opinion on small reads needs `least_ticks` since the last.
  void look(const Totals& totals, uint64_t now, uint64_t window_bytes,
            uint64_t least_ticks) noexcept {
    if (waits_) {
      return;
    }
    if (since_ == 0 || totals.calls < at_.calls) {
      mark(totals, now);
      return;
    }
    const uint64_t calls = totals.calls - at_.calls;
    if (calls < kLeastReads) {
      return;
    }
    const uint64_t read_bytes = (totals.bytes - at_.bytes) / calls;
    const bool small =
        read_bytes * kReadsPerWindow <= window_bytes && read_bytes <= kMostSmallBytes;
    suffices_ = small;  // until more is known
    if (small && now - since_ < least_ticks) {
      return;
    }
    const bool waited = small && (totals.ticks - at_.ticks) * kFewTicks > now - since_;
    waited_looks_ = waited ? waited_looks_ + 1 : 0;
    waits_ = waited_looks_ == kWaitedLooks;
    suffices_ = small && !waits_;
    mark(totals, now);
  }

  /// Whether to leave it to the kernel. False until something is known.
  [[nodiscard]] bool suffices() const noexcept { return suffices_; }

 private:
  void mark(const Totals& totals, uint64_t now) noexcept {
    at_ = totals;
    since_ = now;
  }

  Totals at_;
  uint64_t since_ = 0;  // 0: nothing seen yet
  bool suffices_ = false;
  uint64_t waited_looks_ = 0;
  // It did not: for good, since with slices of ours the program waits little in any case.
  bool waits_ = false;
};

}  // namespace ioweave::calls
