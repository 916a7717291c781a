#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stats/run_report.hpp"

namespace ioweave::cli {

[[nodiscard]] stats::Machine this_machine();

/// Returns the time now, as "2026-01-31T12:00:00.000Z".
[[nodiscard]] std::string utc_now();

/// Parses /proc/PID/mountinfo.
[[nodiscard]] std::vector<stats::MountPoint> parse_mountinfo(std::string_view text);

/// Returns the mounts of this process.
[[nodiscard]] std::vector<stats::MountPoint> this_mounts();

/// Returns the mount that holds an absolute path (the last of the longest), or null.
[[nodiscard]] const stats::MountPoint* mount_of(const std::vector<stats::MountPoint>& mounts,
                                                std::string_view path);

/// Adds to each file its file system, and to the report the mounts that hold files.
void add_file_systems(stats::RunReport& report);

}  // namespace ioweave::cli
