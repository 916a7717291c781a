#pragma once

// Reads the segments that the processes of a run leave in its directory. A segment is data that
// another program writes, so everything in it is checked. It is read by read(2) and never mapped,
// so that a file truncated meanwhile is an error here and not a SIGBUS.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stats/run_report.hpp"

namespace ioweave::stats {

/// The two clocks of base/clock.hpp at the same moment.
struct ClockPair {
  uint64_t ns = 0;
  uint64_t ticks = 0;

  [[nodiscard]] static ClockPair now() noexcept;
};

struct SegmentContents {
  ProcessReport process;
  std::vector<FileReport> files;
};

enum class SegmentState : uint8_t {
  usable,
  incomplete,  ///< its process was killed while it wrote the head
  invalid,     ///< it is not a segment of this build; `why` says what is wrong
};

/// Returns true for names of the form PID-N.segment.
[[nodiscard]] bool is_segment_name(std::string_view name) noexcept;

/// Reads the segment `name` in the open directory. `now` is a pair taken by the caller. It is the
/// end of processes that left none, and gives their rate of ticks.
[[nodiscard]] SegmentState read_segment(int directory, const std::string& name, ClockPair now,
                                        SegmentContents& out, std::string& why);

}  // namespace ioweave::stats
