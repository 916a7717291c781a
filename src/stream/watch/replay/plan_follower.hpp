#pragma once

// Finds where a program is in a plan of its reads, and decides what to ask for ahead of it. Pure
// logic without I/O, clock or thread.
//
// How it works. The plan of a file is a list of reads (read_plan.hpp). Each read of the program is
// looked up by its offset in a window of the list around the program's *front*, the read behind the
// last one that was found. Threads and processes come by in another order than they did when the
// plan was recorded, so every read of the window that was not found yet counts, before the front
// and behind it. A read near the front moves it. Reads further ahead move it only if three agree
// that the program has skipped a part: an offset may occur anywhere in a plan by chance.
//
// Ahead of the front so many reads, and so many bytes, are handed out; few at first, more with each
// read that was found. Each read of the plan is handed out once, whatever the program does. Reads
// that follow one another in the file are handed out together. Where many answers in a row say that
// all was in the page cache already, a part of the plan is left out before the next try.
//
// If fewer than a quarter of the last 64 reads were found, the program does something else: nothing
// more is handed out.

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "stream/watch/file_range.hpp"
#include "stream/watch/replay/read_plan.hpp"

namespace ioweave::stream {

/// One file of a plan. One thread. Memory is bounded by the window, not by the plan.
class PlanFollower {
 public:
  static constexpr uint64_t kMostAhead = 512;   ///< reads ahead of the front
  static constexpr uint64_t kFirstAhead = 32;   ///< of a program of which nothing was found yet
  static constexpr uint64_t kNear = 256;        ///< a read so far ahead of the front moves it
  static constexpr uint64_t kFar = 4096;        ///< three such reads move it
  static constexpr uint64_t kBehind = 4096;     ///< a read so far behind the front is found
  static constexpr uint64_t kLeastJudged = 16;  ///< reads before the plan is given up

  /// `plan` outlives this. Nothing is handed out that lies behind `file_bytes`.
  PlanFollower(const PlannedReads& plan, uint64_t file_bytes) noexcept
      : plan_(&plan), file_bytes_(file_bytes) {}

  /// Sets how many bytes may be ahead of the program, unless one read is larger.
  void set_lookahead(uint64_t bytes) noexcept { lookahead_bytes_ = bytes; }

  /// Notes a read of the program, bytes > 0. Returns true if the plan named it.
  bool observe(FileRange read);

  /// Returns true if next() returns something.
  [[nodiscard]] bool has_next();
  /// Returns the next range to ask for, which then counts as asked for: one read, or reads that
  /// follow one another, of at most `most_bytes` together.
  [[nodiscard]] std::optional<FileRange> next(uint64_t most_bytes);
  /// Notes the result for a range. `cached`: it was in the page cache already.
  void answered(FileRange range, bool cached) noexcept;

  /// Returns true if the program does something else than the plan says.
  [[nodiscard]] bool has_given_up() const noexcept { return has_given_up_; }
  /// Returns true if next() will never return anything again.
  [[nodiscard]] bool is_done() const noexcept { return has_given_up_ || next_ >= plan_->count(); }

  [[nodiscard]] uint64_t named_reads() const noexcept { return named_reads_; }
  [[nodiscard]] uint64_t named_bytes() const noexcept { return named_bytes_; }
  /// Returns the bytes that were asked for and were not in the page cache; used_bytes() returns
  /// those of them, about, that the program has read since.
  [[nodiscard]] uint64_t asked_bytes() const noexcept { return asked_bytes_; }
  [[nodiscard]] uint64_t used_bytes() const noexcept;
  /// Returns a bound of the reads that are kept in memory, for tests.
  [[nodiscard]] size_t window_reads() const noexcept { return slots_.size(); }

 private:
  static constexpr uint64_t kNone = UINT64_MAX;
  static constexpr uint64_t kMostWindow = kBehind + kNear + kFar;

  /// A read of the window. Those of one offset that were not found yet are a chain.
  struct Slot {
    uint64_t offset = 0;
    uint64_t later = kNone;  ///< the next one of the chain
    bool is_found = false;
    bool is_asked = false;
  };
  struct Chain {
    uint64_t first = kNone;
    uint64_t last = kNone;
  };

  [[nodiscard]] Slot& slot(uint64_t number) noexcept { return slots_[number % slots_.size()]; }
  void extend_window();
  void admit(uint64_t number);
  void expire(uint64_t number);
  [[nodiscard]] uint64_t find(uint64_t offset);
  void take_from_chain(uint64_t number);
  bool take_found(uint64_t number, FileRange read);
  bool take_far(uint64_t number, FileRange read);
  void judge(bool is_named) noexcept;
  void skip_found();
  [[nodiscard]] uint64_t most_ahead() const noexcept;
  [[nodiscard]] bool may_ask(uint64_t number) const noexcept;
  void mark_asked(uint64_t number);

  const PlannedReads* plan_;
  uint64_t file_bytes_;
  uint64_t lookahead_bytes_ = 128u << 20;
  std::vector<Slot> slots_;                     // a ring; empty before the first read
  std::unordered_map<uint64_t, Chain> chains_;  // by offset
  uint64_t begin_ = 0;                          // the window is [begin_, end_)
  uint64_t end_ = 0;
  uint64_t front_ = 0;
  uint64_t next_ = 0;       // the next to hand out
  uint64_t far_ = 0;        // the last read found far ahead,
  uint64_t far_reads_ = 0;  // the reads made until then,
  unsigned far_row_ = 0;    // and how many agree that far
  FileRange last_;          // the last read of the plan that was found
  uint64_t reads_ = 0;
  uint64_t history_ = 0;  // of the last 64: a bit for each that was named
  uint64_t named_reads_ = 0;
  uint64_t named_bytes_ = 0;
  uint64_t asked_bytes_ = 0;
  uint64_t cached_bytes_ = 0;       // asked for, and there already
  uint64_t found_asked_bytes_ = 0;  // read by the program after they were asked for
  unsigned cached_row_ = 0;
  uint64_t rest_ = 0;  // reads to leave out next time; 0: the least
  bool has_given_up_ = false;
};

}  // namespace ioweave::stream
