#pragma once

// Reads the segments that the processes of a run leave in its directory. A segment is data written
// by somebody else's program: everything in it is checked, and it is read with read(2), never
// mapped, so that a file truncated underneath is an error here and not a SIGBUS.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stats/run_report.hpp"

namespace ioweave::stats {

/// base/clock.hpp's two clocks at one moment.
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
  invalid,     ///< not a segment of this build; `why` says what is wrong
};

/// True for names of the form PID-N.segment.
[[nodiscard]] bool is_segment_name(std::string_view name) noexcept;

/// Reads the segment `name` in the open directory. `now` is a pair taken by the caller: it ends
/// processes that left no end of their own, and gives their rate of ticks.
[[nodiscard]] SegmentState read_segment(int directory, const std::string& name, ClockPair now,
                                        SegmentContents& out, std::string& why);

}  // namespace ioweave::stats
