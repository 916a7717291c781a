#pragma once

// Decides what to bring in ahead of a reader, knowing only where it was at some moments. Pure logic
// without I/O, clock or thread.
//
// How it works. Somebody looks now and then at the position of an open file, or at the offsets of
// its last reads, and at the bytes that were read. A position that moves forward by no more than
// was read belongs to a sequential reader; equal distances between reads belong to a strided one.
// The look-ahead is two windows, or a read and a window, or 8 MiB. For a sequential reader it
// doubles each time that the reader is seen to wait. It begins small because data far ahead has
// left the processor's cache when it is read (md5sum and numpy take 1.15 of plain's time with
// 128 MiB ahead). It is never more than three times what was read, which bounds the cost of a
// reader that stops early. For a sequential reader it begins beyond the window that the kernel
// itself keeps for this reader, in whole windows. For a strided reader it is the records and
// nothing between them. Every byte is handed out once. The trial (help_trial.hpp) decides whether
// anything is handed out.

#include <cstdint>
#include <optional>

#include "stream/watch/file_range.hpp"
#include "stream/watch/help_trial.hpp"

namespace ioweave::stream {

struct FollowLimits {
  uint64_t window_bytes = 128 << 10;      ///< the kernel's read-ahead window, >= 4096
  uint64_t lookahead_bytes = 128u << 20;  ///< most bytes ahead, unless one read is larger
};

/// What one look saw. Times in nanoseconds from any origin.
struct Sighting {
  uint64_t offset = 0;  ///< position, or begin of the last record
  uint64_t file_bytes = 0;
  uint64_t read_bytes = 0;    ///< all that this reader has read, perhaps of other files, too
  uint64_t read_calls = 0;    ///< the calls in which it did
  int64_t stride = 0;         ///< the distance of the records; 0: a position
  uint64_t record_bytes = 0;  ///< the length of a record of a strided reader, > 0
  uint64_t now_ns = 0;
  /// What is ahead of the reader hides where it is, until it comes to the end of that.
  bool is_hidden_by_help = false;
  bool was_elsewhere = false;  ///< since the last sighting: it does not read on
};

/// One reader of one file. One thread.
class ReadFollower {
 public:
  explicit ReadFollower(const FollowLimits& limits) noexcept;

  void set_lookahead(uint64_t bytes) noexcept { limits_.lookahead_bytes = bytes; }

  void observe(const Sighting& seen) noexcept;
  /// Notes that the reader has read so many bytes, by so many reads, in no order.
  void note_no_order(uint64_t bytes, uint64_t reads) noexcept;

  /// Returns the next range to ask for, which then counts as asked for.
  [[nodiscard]] std::optional<FileRange> next() noexcept;
  /// Notes the result for a range. `cached`: it was in the page cache already. Where that is so
  /// time and again behind the read that is under way, nothing is asked for during a rest.
  void answered(FileRange range, bool cached) noexcept;

  /// Returns the place where the reader will be when its current read ends, if that place was asked
  /// for. A caller that finds it not in the page cache yet calls note_wait().
  [[nodiscard]] std::optional<uint64_t> end_of_read() const noexcept;
  /// Notes that the reader is faster than the device: twice as much is asked for from now on, once
  /// what was asked for before has been read. (More in flight also means a longer wait for the
  /// first of it.)
  void note_wait() noexcept;

  /// Returns the same place while looks are to find out whether a reader without help waits. The
  /// result of such a look goes to note_look(); nothing if it cannot be told.
  [[nodiscard]] std::optional<uint64_t> end_of_read_alone() const noexcept;
  void note_look(const std::optional<HelpTrial::Look>& look, uint64_t now_ns) noexcept {
    look ? trial_.note_look(*look, now_ns) : trial_.note_nothing(now_ns);
  }

  /// Returns a range beyond what the kernel brings in ahead of a reader that has just been found
  /// not to wait. Whether that is in the page cache goes to note_ahead(): then no read-ahead was
  /// needed.
  [[nodiscard]] std::optional<FileRange> ahead_of_kernel() const noexcept;
  void note_ahead(bool is_cached) noexcept {
    knows_ahead_ = true;
    is_ahead_cached_ = is_cached;
  }

  /// Returns the place before which everything may have been asked for; 0 if nothing was.
  [[nodiscard]] uint64_t asked_until() const noexcept { return stride_ == 0 ? frontier_ : 0; }
  /// Returns true if nothing but the range itself may be brought in.
  [[nodiscard]] bool is_strided() const noexcept { return stride_ != 0; }
  /// Returns true if a position in the file fits this strided reader: in a record, or behind it.
  [[nodiscard]] bool explains(uint64_t offset) const noexcept;
  /// Returns true if next() may return something later, when the reader has only moved on.
  [[nodiscard]] bool wants_more() const noexcept;
  /// Returns a place in the file that has been read.
  [[nodiscard]] uint64_t read_offset() const noexcept;
  /// Returns true if the reader has not moved for so long that it may never move again.
  [[nodiscard]] bool stands_still(uint64_t now_ns) const noexcept;
  /// Returns true if nothing will be asked for until the reader has moved some way, because all was
  /// in the page cache.
  [[nodiscard]] bool reads_what_is_cached() const noexcept;
  /// Returns the time until the next look is due: the reader then has read a part of what is ahead.
  /// A reader that stands still gets looks less and less often.
  [[nodiscard]] uint64_t look_again_ns(uint64_t now_ns) const noexcept;

  /// Returns the bytes that were asked for and were not in the page cache; used_bytes() returns
  /// those of them that the reader has passed. Since the last look it assumes the last pace, unless
  /// help hides the reader and has not come to the end of the file.
  [[nodiscard]] uint64_t asked_bytes() const noexcept { return asked_bytes_; }
  [[nodiscard]] uint64_t used_bytes(uint64_t now_ns) const noexcept;
  [[nodiscard]] std::optional<double> saved_seconds() const noexcept {
    return trial_.saved_seconds();
  }
  [[nodiscard]] double trial_seconds() const noexcept { return trial_.trial_seconds(); }
  /// Returns what came of it so far, and why.
  [[nodiscard]] stats::ReadHelpReport help() const noexcept;

 private:
  static constexpr uint64_t kLeastHiddenRead = 4u << 20;

  void begin_again(const Sighting& seen) noexcept;
  void note_break() noexcept;
  void look_farther() noexcept;
  [[nodiscard]] uint64_t most_ahead_bytes() const noexcept;
  [[nodiscard]] uint64_t ahead_bytes() const noexcept;
  [[nodiscard]] uint64_t outstanding_bytes() const noexcept;
  [[nodiscard]] std::optional<FileRange> next_window() noexcept;
  [[nodiscard]] std::optional<FileRange> next_record() noexcept;
  [[nodiscard]] stats::ReadHelp why() const noexcept;

  FollowLimits limits_;
  HelpTrial trial_;
  bool seen_ = false;
  bool is_hidden_ = false;                         // by help, as last seen
  uint64_t least_hidden_read_ = kLeastHiddenRead;  // before anything is asked for
  uint64_t offset_ = 0;                            // position, or begin of the last record
  int64_t stride_ = 0;
  uint64_t record_bytes_ = 0;
  uint64_t file_bytes_ = 0;
  uint64_t total_read_ = 0;  // as last seen
  uint64_t total_calls_ = 0;
  uint64_t moved_ns_ = 0;      // when it last moved
  uint64_t read_bytes_ = 0;    // since the beginning of the pattern
  uint64_t largest_read_ = 0;  // the largest mean size of reads between two looks
  uint64_t frontier_ = 0;      // sequential: everything before it was asked for or read
  uint64_t next_record_ = 0;   // strided: begin of the next record to ask for
  uint64_t records_ahead_ = 0;
  double pace_ns_ = 0;       // per byte, recently
  double fast_pace_ns_ = 0;  // the fastest recent pace: a reader that waited moves in bursts
  uint64_t cached_row_ = 0;  // ranges in a row that were in the page cache already
  uint64_t rest_bytes_ = 0;
  uint64_t rest_until_ = 0;  // nothing is handed out until read_bytes_ is this
  uint64_t asked_bytes_ = 0;
  uint64_t way_bytes_ = 0;        // read, in any order
  uint64_t since_bytes_ = 0;      // of these, before anything was asked for
  uint64_t unordered_bytes_ = 0;  // of these, in no order
  uint64_t unordered_reads_ = 0;
  bool was_cached_ = false;  // a range was in the page cache
  bool knows_ahead_ = false;
  bool is_ahead_cached_ = false;
  uint64_t enough_until_ = 0;  // no more is asked for ahead until the reader passes this offset
  uint64_t needed_bytes_ =
      0;  // the look-ahead with which the reader was last seen to wait; 0: none
};

}  // namespace ioweave::stream
