#pragma once

// What to bring in ahead of a reader of whom nothing is known but where it was at some moments.
// Pure logic without I/O, clock or thread.
//
// How it works. Somebody looks now and then at the position of an open file, or at the last offsets
// it was read at, and at the bytes that were read. A position that moves forward by no more than
// was read belongs to a sequential reader; equal distances between reads to a strided one. Ahead of
// either are two windows, a read and a window, or 8 MiB; ahead of a sequential one twice as much
// each time that it is seen to wait, for what is far ahead has left the processor's cache when it
// is read (md5sum and numpy take 1.15 of plain's time with 128 MiB ahead). It is never more than
// three times what was read, so that a reader that stops early has cost as much at most. For a
// sequential reader it begins beyond the window that the kernel keeps for this reader itself, in
// whole windows; for a strided one it is the records and nothing between them. Every byte is handed
// out once. Whether to hand out anything is the trial's to say.

#include <cstdint>
#include <optional>

#include "stream/prefetch/help_trial.hpp"

namespace ioweave::stream {

struct FollowLimits {
  uint64_t window_bytes = 128 << 10;      ///< the kernel's read-ahead window, >= 4096
  uint64_t lookahead_bytes = 128u << 20;  ///< most bytes ahead, unless one read is larger
};

struct FileRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  [[nodiscard]] uint64_t end() const noexcept { return offset + bytes; }
  bool operator==(const FileRange&) const = default;
};

/// What somebody saw. Times in nanoseconds from any origin.
struct Sighting {
  uint64_t offset = 0;  ///< position, or begin of the last record
  uint64_t file_bytes = 0;
  uint64_t read_bytes = 0;    ///< by this reader in total; it may have read other files as well
  uint64_t read_calls = 0;    ///< in which it did
  int64_t stride = 0;         ///< distance of the records; 0: a position
  uint64_t record_bytes = 0;  ///< of a strided reader, > 0
  uint64_t now_ns = 0;
};

/// One reader of one file. One thread.
class ReadFollower {
 public:
  explicit ReadFollower(const FollowLimits& limits) noexcept;

  void look_ahead(uint64_t bytes) noexcept { limits_.lookahead_bytes = bytes; }

  void observe(const Sighting& seen) noexcept;

  /// The next range to ask for. It counts as asked for.
  [[nodiscard]] std::optional<FileRange> next() noexcept;
  /// What became of it. `cached`: it was there already.
  void answered(FileRange range, bool cached) noexcept;

  /// Where the reader will be when its present read ends, if that was asked for: whoever finds it
  /// not there yet says so by is_waited_for().
  [[nodiscard]] std::optional<uint64_t> end_of_read() const noexcept;
  /// The reader is ahead of the device: from now on twice as much is asked for, once what was asked
  /// for before has been read. More in flight also means a longer wait for the first of it.
  void is_waited_for() noexcept;

  /// The same place while it is to be known whether a reader without help waits; what is found
  /// there goes to note_look(), nothing where that cannot be told.
  [[nodiscard]] std::optional<uint64_t> end_of_read_alone() const noexcept;
  void note_look(const std::optional<HelpTrial::Look>& look, uint64_t now_ns) noexcept {
    look ? trial_.note_look(*look, now_ns) : trial_.note_nothing(now_ns);
  }

  /// Whether nothing but the range itself may be brought in.
  [[nodiscard]] bool is_strided() const noexcept { return stride_ != 0; }
  /// Whether a position in the file is one of this strided reader: in a record, or behind it.
  [[nodiscard]] bool explains(uint64_t offset) const noexcept;
  /// Whether next() may answer something later without anything being seen but progress.
  [[nodiscard]] bool wants_more() const noexcept;
  /// A place in the file that has been read.
  [[nodiscard]] uint64_t read_offset() const noexcept;
  /// Whether it has not moved for so long that it may never move again.
  [[nodiscard]] bool stands_still(uint64_t now_ns) const noexcept;
  /// Whether nothing will be asked for until the reader has come some way, since all was cached.
  [[nodiscard]] bool reads_what_is_cached() const noexcept;
  /// In how long to look again at the latest: a part of what is ahead is read by then. A reader
  /// that stands still is looked at less and less often.
  [[nodiscard]] uint64_t look_again_ns(uint64_t now_ns) const noexcept;

  /// Bytes that were asked for and not there, and those of them that the reader has passed; since
  /// it was last seen at the pace of then.
  [[nodiscard]] uint64_t asked_bytes() const noexcept { return asked_bytes_; }
  [[nodiscard]] uint64_t used_bytes(uint64_t now_ns) const noexcept;
  [[nodiscard]] std::optional<double> saved_seconds() const noexcept {
    return trial_.saved_seconds();
  }
  [[nodiscard]] double trial_seconds() const noexcept { return trial_.trial_seconds(); }

 private:
  void begin_again(const Sighting& seen) noexcept;
  [[nodiscard]] uint64_t most_ahead_bytes() const noexcept;
  [[nodiscard]] uint64_t ahead_bytes() const noexcept;
  [[nodiscard]] uint64_t outstanding_bytes() const noexcept;
  [[nodiscard]] std::optional<FileRange> next_window() noexcept;
  [[nodiscard]] std::optional<FileRange> next_record() noexcept;

  FollowLimits limits_;
  HelpTrial trial_;
  bool seen_ = false;
  uint64_t offset_ = 0;  // position, or begin of the last record
  int64_t stride_ = 0;
  uint64_t record_bytes_ = 0;
  uint64_t file_bytes_ = 0;
  uint64_t total_read_ = 0;  // as last seen
  uint64_t total_calls_ = 0;
  uint64_t moved_ns_ = 0;      // when it last moved
  uint64_t read_bytes_ = 0;    // since the beginning of the pattern
  uint64_t largest_read_ = 0;  // mean size of reads from one look to the next, the largest so far
  uint64_t frontier_ = 0;      // sequential: everything before it was asked for or read
  uint64_t next_record_ = 0;   // strided: begin of the next to ask for
  uint64_t records_ahead_ = 0;
  double pace_ns_ = 0;       // per byte, of late
  double fast_pace_ns_ = 0;  // the fastest of late: a reader that waited comes in bursts
  uint64_t cached_row_ = 0;  // ranges in a row that were there already
  uint64_t rest_bytes_ = 0;
  uint64_t rest_until_ = 0;  // of read_bytes_: nothing is handed out before
  uint64_t asked_bytes_ = 0;
  uint64_t enough_until_ = 0;  // offset before which no more is asked for ahead
  uint64_t needed_bytes_ = 0;  // ahead, as far as the reader has been seen to wait; 0: never
};

}  // namespace ioweave::stream
