#pragma once

#include <string>
#include <vector>

#include "cli/program.hpp"
#include "stats/run_report.hpp"

namespace ioweave::cli {

/// Returns sentences that say why nothing was observed or why nothing was gained, and what
/// processes reported of themselves. The most important one comes first.
[[nodiscard]] std::vector<std::string> remarks_on(const stats::RunReport& report,
                                                  const Program& program);

}  // namespace ioweave::cli
