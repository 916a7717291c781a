#pragma once

#include <string>
#include <vector>

#include "cli/program.hpp"
#include "stats/run_report.hpp"

namespace ioweave::cli {

/// Sentences that say honestly why nothing was seen, or why nothing was gained, and what processes
/// reported of themselves; the most telling first. A ratio alone would hide it.
[[nodiscard]] std::vector<std::string> remarks_on(const stats::RunReport& report,
                                                  const Program& program);

}  // namespace ioweave::cli
