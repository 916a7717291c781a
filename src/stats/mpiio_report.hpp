#pragma once

#include <string_view>

#include "stats/run_report.hpp"

namespace ioweave::stats {

/// Adds what ranks told of themselves (config::kMpiioReportName), a line each. Ignores lines that
/// no rank writes. The engine and what is hidden take part in it: the report has to be finished.
void add_mpiio_lines(std::string_view lines, RunReport& report);

}  // namespace ioweave::stats
