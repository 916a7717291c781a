#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace ioweave::device {

struct Mount {
  std::string path;
  std::string type;    ///< "ext4", "lustre", "fuse.slowfs", ...
  std::string source;  ///< device or server
  dev_t number = 0;    ///< st_dev of its files; on Btrfs, of some of them
};

/// Parses /proc/PID/mountinfo.
[[nodiscard]] std::vector<Mount> parse_mountinfo(std::string_view text);

inline constexpr const char* kMountinfo = "/proc/self/mountinfo";
/// Returns the mounts of this process.
[[nodiscard]] std::vector<Mount> this_mounts(const char* mountinfo = kMountinfo);

/// Returns the mount that holds an absolute path without links (the last of the longest), or null.
[[nodiscard]] const Mount* mount_of(const std::vector<Mount>& mounts, std::string_view path);
/// Returns the first mount with that number, or null.
[[nodiscard]] const Mount* mount_with(const std::vector<Mount>& mounts, dev_t number);

/// Returns true if several nodes use a file system of this type at once, so that they share its
/// bandwidth. `type` is written as in /proc/self/mountinfo. Returns false for FUSE in general, 9p
/// and virtiofs, of which this is not known.
[[nodiscard]] bool is_shared_file_system(std::string_view type) noexcept;

/// Returns true if an absolute path is `folder`, or lies in it.
[[nodiscard]] bool holds(std::string_view folder, std::string_view path) noexcept;

}  // namespace ioweave::device
