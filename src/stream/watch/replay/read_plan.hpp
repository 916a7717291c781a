#pragma once

// The reads that a program made, as a plan for its next run: `ioweave run --record` writes it,
// `--replay` reads it. It is text, for people and for other machines:
//
//   ioweave-plan/1
//   file "data/table.bin" size 104857600 mtime 1732690000.123456789
//   read 4096 8192                       OFFSET BYTES
//   read 65536 4096 x100 +8192           100 of them, each 8192 bytes behind the one before
//   read 900000 4096 x3 -4096
//   end 1 files 104 reads
//
// The reads of a file stand below its line, in the order in which the program made them, over all
// threads and processes. Files stand in the order of their first reads. The names of files below
// the folder in which the program was started are relative to it, the others are absolute. In a
// name, \" \\ and \xHH stand for quotes, backslashes and bytes that are no printable UTF-8. Lines
// that are empty or begin with # are ignored.
//
// A plan is data that anybody may have written. What is wrong with it is said with its line.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stream/watch/file_range.hpp"

namespace ioweave::stream {

/// Reads of one size at one distance.
struct PlannedRun {
  uint64_t offset = 0;  ///< of the first
  uint64_t bytes = 0;   ///< of each, > 0
  uint64_t count = 1;
  int64_t stride = 0;         ///< from one to the next; 0 if there is one
  uint64_t first = 0;         ///< how many reads stand before these
  uint64_t bytes_before = 0;  ///< their sum
};

/// The reads of a file, in order. Memory grows with the runs. One thread.
class PlannedReads {
 public:
  static constexpr uint64_t kMostBytes = 1ull << 31;   ///< of one read
  static constexpr uint64_t kMostReads = 1ull << 32;   ///< of one file
  static constexpr uint64_t kMostOffset = 1ull << 62;  ///< behind which no read ends

  /// Adds a read, to the last run if it continues that. Returns false, and adds nothing, if it
  /// exceeds one of the bounds above or is empty.
  bool add(uint64_t offset, uint64_t bytes);
  /// Adds a run of reads likewise; of `run`, the first four members count.
  bool add(const PlannedRun& run);

  [[nodiscard]] uint64_t count() const noexcept { return count_; }
  [[nodiscard]] uint64_t bytes() const noexcept { return bytes_; }
  /// Returns a read, number < count(). Takes a search among the runs.
  [[nodiscard]] FileRange at(uint64_t number) const noexcept;
  /// Returns the sum of the bytes of the reads before this one, number <= count().
  [[nodiscard]] uint64_t bytes_before(uint64_t number) const noexcept;
  /// Returns how often a read does not begin where the one before it ended.
  [[nodiscard]] uint64_t jumps() const noexcept { return jumps_; }
  [[nodiscard]] const std::vector<PlannedRun>& runs() const noexcept { return runs_; }

 private:
  [[nodiscard]] const PlannedRun& run_of(uint64_t number) const noexcept;

  std::vector<PlannedRun> runs_;
  uint64_t count_ = 0;
  uint64_t bytes_ = 0;
  uint64_t jumps_ = 0;
  uint64_t last_offset_ = 0;
  uint64_t end_ = 0;  // of the last read
};

struct PlannedFile {
  std::string name;
  uint64_t size = 0;
  int64_t mtime_ns = 0;  ///< since 1970
  PlannedReads reads;
};

struct ReadPlan {
  static constexpr size_t kMostTextBytes = 256u << 20;
  static constexpr size_t kMostFiles = 1 << 17;
  static constexpr size_t kMostRuns = 1 << 21;  ///< of all files; a line has one, or half of one
  static constexpr size_t kMostNameBytes = 4095;

  std::vector<PlannedFile> files;

  [[nodiscard]] uint64_t reads() const noexcept;
  [[nodiscard]] uint64_t bytes() const noexcept;
};

[[nodiscard]] std::string plan_text(const ReadPlan& plan);

/// Reads a plan from its text. On failure returns false; `why` says in which line what is wrong.
[[nodiscard]] bool parse_plan(std::string_view text, ReadPlan& plan, std::string& why);

/// Reads a plan from a file. On failure returns false; `why` names the file, and the line if the
/// text is wrong, and what to do about it.
[[nodiscard]] bool read_plan(const std::string& path, ReadPlan& plan, std::string& why);

}  // namespace ioweave::stream
