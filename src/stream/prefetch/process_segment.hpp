#pragma once

// What the interposer tells of a process's reads that move no position (pread) or jump (lseek).
//
// A segment is data written by somebody else's program: it is read by read(2), never mapped, so
// that a file truncated underneath is an error here and not a SIGBUS.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/descriptor.hpp"
#include "stats/segment.hpp"

namespace ioweave::stream {

/// The last reads at explicit offsets, or seeks, in a file of a process.
struct Places {
  struct Place {
    uint64_t offset = 0;
    uint64_t bytes = 0;  ///< 0: a seek
  };
  uint64_t device = 0;
  uint64_t inode = 0;
  uint32_t count = 0;       ///< in total; the last ones are in `last`, oldest first
  uint64_t read_bytes = 0;  ///< of the file, by whatever call
  uint64_t read_calls = 0;
  std::vector<Place> last;
};

/// A pattern that the last places follow.
struct PlacePattern {
  uint64_t offset = 0;  ///< end of the last read where `stride` is 0, else begin of the last record
  int64_t stride = 0;
  uint64_t record_bytes = 0;
};
[[nodiscard]] std::optional<PlacePattern> pattern_of(const Places& places);

/// The segment of the present image of a process.
class ProcessSegment {
 public:
  /// `run_directory`: where segments are; empty: there are none.
  ProcessSegment(const std::string& run_directory, pid_t process);

  /// Looks for the segment of a newer image. False: there is none at all.
  bool refresh();

  /// Records of which places are told.
  [[nodiscard]] std::vector<uint32_t> placed_records() const;
  [[nodiscard]] std::optional<Places> places_of(uint32_t record) const;

 private:
  [[nodiscard]] bool read_at(uint64_t offset, void* to, size_t bytes) const;

  std::string prefix_;  // "DIRECTORY/PID-"; empty: no segments
  int image_ = -1;
  Descriptor file_;
};

}  // namespace ioweave::stream
