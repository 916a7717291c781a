#pragma once

#include <string>

#include "stats/run_report.hpp"

namespace ioweave::cli {

[[nodiscard]] stats::Machine this_machine();

/// Now, as "2026-01-31T12:00:00.000Z".
[[nodiscard]] std::string utc_now();

/// Notes for each file its file system, and in the report the mounts that hold any.
void add_file_systems(stats::RunReport& report);

}  // namespace ioweave::cli
