#pragma once

#include <string>

#include "stats/run_report.hpp"

namespace ioweave::cli {

/// Returns the time now, as "2026-01-31T12:00:00.000Z".
[[nodiscard]] std::string utc_now();

/// Adds to each file its file system, and to the report the mounts that hold files.
void add_file_systems(stats::RunReport& report);

}  // namespace ioweave::cli
