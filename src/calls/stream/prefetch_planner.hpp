#pragma once

// Which bytes of an open file to bring in next: pure logic without I/O, clock, thread or lock.
//
// How it works. Every read of the program is observed. A *track* is a run of reads that follow one
// another, back to back or at a constant distance (the holes of a rank that reads every n-th chunk,
// also backwards). The planner follows one track and keeps a candidate beside it, so that a stray
// read (an index, a header) does not throw the track away; a candidate that repeats itself takes
// over, and what was planned for the old track is forgotten.
//
// Ahead of the track a window is kept filled: at first only the next chunk, then, for as long as
// what was brought in is really read, twice as much each time up to the look-ahead. A chunk that is
// larger than the look-ahead is still brought in entirely. The window is handed out in slices,
// every byte at most once, within the file and within a budget that all files of the process share.
//
// What must not happen is work for nothing: reads that come at memory speed without help, or
// slices that turn out to be cached, end in the verdict `no_gain`, and reads without a pattern in
// `random_access`; the caller then looks away for a while.

#include <cstdint>
#include <optional>
#include <vector>

namespace ioweave::calls {

struct Range {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  [[nodiscard]] uint64_t end() const noexcept { return offset + bytes; }
  bool operator==(const Range&) const = default;
};

struct PlannerLimits {
  uint64_t slice_bytes = 1u << 20;       ///< grain of a slice, >= 1
  uint64_t lookahead_bytes = 64u << 20;  ///< most bytes ahead, unless one chunk is more
};

/// Bytes asked for and not yet read, over all files. One thread.
class LookaheadBudget {
 public:
  explicit LookaheadBudget(uint64_t limit_bytes) noexcept : limit_bytes_(limit_bytes) {}
  void set_limit(uint64_t limit_bytes) noexcept { limit_bytes_ = limit_bytes; }
  [[nodiscard]] bool take(uint64_t bytes) noexcept {
    if (bytes > limit_bytes_ || taken_bytes_ > limit_bytes_ - bytes) {
      return false;
    }
    taken_bytes_ += bytes;
    return true;
  }
  void give_back(uint64_t bytes) noexcept { taken_bytes_ -= bytes; }
  [[nodiscard]] uint64_t taken() const noexcept { return taken_bytes_; }

 private:
  uint64_t limit_bytes_;
  uint64_t taken_bytes_ = 0;
};

/// One open file. One thread. `budget` must outlive it.
class PrefetchPlanner {
 public:
  enum class Verdict : uint8_t { watching, no_gain, random_access };
  enum class Outcome : uint8_t {
    fetched,  ///< it was not in the page cache and is now
    cached,   ///< it was there already: nothing was done
    failed,   ///< error or cancelled
  };

  PrefetchPlanner(const PlannerLimits& limits, LookaheadBudget& budget) noexcept
      : limits_(limits), budget_(budget) {}
  ~PrefetchPlanner() { forget(); }
  PrefetchPlanner(const PrefetchPlanner&) = delete;
  PrefetchPlanner& operator=(const PrefetchPlanner&) = delete;

  /// The grain of the slices handed out from now on, >= 1.
  void slices_of(uint64_t bytes) noexcept { limits_.slice_bytes = bytes; }

  /// The size of the file as of now; nothing beyond it is asked for.
  void resized(uint64_t file_bytes);

  /// The program has read `read` (one call, or several back to back that moved at memory speed).
  /// `slow`: not at memory speed.
  void observe(Range read, bool slow);

  /// The next slice to bring in; it counts as in flight until completed().
  [[nodiscard]] std::optional<Range> next();
  void completed(Range slice, Outcome outcome);

  /// Drops what is planned or ready, and the pattern with it. Slices in flight may still complete.
  void forget();

  /// Whether following this file is worth it. A verdict other than `watching` stays until rearm().
  [[nodiscard]] Verdict verdict() const noexcept { return verdict_; }
  void rearm() noexcept;

  /// Whether more than the next chunk and half of the window is asked for already: then what
  /// follows is in no hurry and should disturb the program's own calls as little as possible.
  [[nodiscard]] bool comfortable() const noexcept;

  /// How far ahead of the reader the plan reaches at present.
  [[nodiscard]] uint64_t window_bytes() const noexcept;
  /// Bytes brought in by slices and read by the program afterwards, in total.
  [[nodiscard]] uint64_t used_bytes() const noexcept { return used_bytes_; }

 private:
  struct Track {
    Range last;
    int64_t stride = 0;    ///< distance of the starts; 0: back to back
    unsigned repeats = 0;  ///< reads that came as expected
    bool alive = false;

    [[nodiscard]] bool advance(Range read) noexcept;
    void learn(Range read) noexcept;
  };

  [[nodiscard]] bool trusted(const Track& track, bool slow) const noexcept;
  void follow(Range read);
  void weigh(Range read, uint64_t used, bool slow);
  [[nodiscard]] std::optional<Range> next_sequential() const;
  [[nodiscard]] std::optional<Range> next_strided() const;
  [[nodiscard]] uint64_t take_used(Range read);
  void drop_behind();
  void add_ready(Range slice);

  PlannerLimits limits_;
  LookaheadBudget& budget_;
  uint64_t file_bytes_ = 0;
  Track track_;
  Track candidate_;
  Verdict verdict_ = Verdict::watching;

  uint64_t window_ = 0;       // bytes ahead that use has earned so far
  uint64_t cursor_ = 0;       // sequential: everything before it was asked for or read
  uint64_t record_ = 0;       // strided: start of the record being asked for
  uint64_t record_done_ = 0;  // strided: bytes of that record asked for
  std::vector<Range> ready_;  // fetched and unread, ascending, disjoint
  struct Flight {
    Range range;
    uint64_t read_bytes;  // the program read so much of it before it was there
  };
  std::vector<Flight> flying_;  // slices in flight for the present track

  uint64_t used_bytes_ = 0;
  unsigned patternless_ = 0;   // reads in a row that fit no track
  unsigned unhelped_ = 0;      // reads in a row at memory speed that we had no part in
  uint64_t cached_bytes_ = 0;  // of slices in a row that were cached
  uint64_t cached_until_ = 0;  // end of the last of them
};

}  // namespace ioweave::calls
