#pragma once

#include <optional>
#include <string>

#include "device/mounts.hpp"
#include "stats/run_report.hpp"

namespace ioweave::cli {

/// Returns the time now, as "2026-01-31T12:00:00.000Z".
[[nodiscard]] std::string utc_now();

/// Where a file or folder lies.
struct Place {
  std::string path;     ///< absolute, without links
  device::Mount mount;  ///< empty where it is not known
};

/// Returns the place of a path that exists, else nothing, with errno.
[[nodiscard]] std::optional<Place> find_place(const std::string& path);

/// Adds to each file its file system, and to the report the mounts that hold files.
void add_file_systems(stats::RunReport& report);

}  // namespace ioweave::cli
