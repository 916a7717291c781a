#pragma once

// The plans of `ioweave run --record` and `--replay` as files: checked before the program starts,
// written when it has ended.

#include <string>
#include <vector>

#include "stats/run_report.hpp"
#include "stream/watch/replay/plan_recorder.hpp"

namespace ioweave::cli {

/// Returns why a plan cannot be written to this path, and what to do about it; empty if nothing
/// speaks against it.
[[nodiscard]] std::string explain_unwritable_plan(const std::string& path);

/// Writes what was recorded, unless that is nothing, and fills in the report. Returns what is to be
/// said of it, as sentences.
[[nodiscard]] std::vector<std::string> write_plan(const stream::PlanRecorder::Recorded& recorded,
                                                  stats::RecordReport& report);

/// Returns what is to be said of a plan that was replayed, as sentences.
[[nodiscard]] std::vector<std::string> remarks_on_replay(const stats::ReplayReport& report);

}  // namespace ioweave::cli
