#pragma once

// Reads what the interposer notes of a process's reads that move no position (pread) and of its
// jumps (lseek).
//
// A segment is data that another program writes. It is read by read(2) and never mapped, so that a
// file truncated meanwhile is an error here and not a SIGBUS.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/descriptor.hpp"
#include "base/file_id.hpp"
#include "stats/segment.hpp"

namespace ioweave::stream {

/// The last reads at explicit offsets, or seeks, in a file of a process.
struct Places {
  struct Place {
    uint64_t offset = 0;
    uint64_t bytes = 0;  ///< 0: a seek
  };
  FileId id;
  uint32_t count = 0;       ///< all of them; the last ones are in `last`, oldest first
  uint64_t read_bytes = 0;  ///< of the file, by any call
  uint64_t read_calls = 0;
  std::vector<Place> last;
};

/// A pattern that the last places follow.
struct PlacePattern {
  uint64_t offset = 0;  ///< end of the last read if `stride` is 0, else begin of the last record
  int64_t stride = 0;
  uint64_t record_bytes = 0;
};
[[nodiscard]] std::optional<PlacePattern> pattern_of(const Places& places);

/// The segment of the current image of a process.
class ProcessSegment {
 public:
  /// `run_directory`: the directory of the segments; empty: there are none.
  ProcessSegment(const std::string& run_directory, pid_t process);

  /// Looks for the segment of a newer image. Returns false if there is no segment at all.
  bool refresh();

  /// Returns the numbers of the records that have places.
  [[nodiscard]] std::vector<uint32_t> placed_records() const;
  [[nodiscard]] std::optional<Places> places_of(uint32_t record) const;

 private:
  [[nodiscard]] bool read_at(uint64_t offset, void* to, size_t bytes) const;

  std::string prefix_;  // "DIRECTORY/PID-"; empty: no segments
  int image_ = -1;
  Descriptor file_;
};

}  // namespace ioweave::stream
