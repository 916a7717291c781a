#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace ioweave {

/// Returns true if several nodes use a file system of this type at once, so that they share its
/// bandwidth. `type` is written as in /proc/self/mountinfo. Returns false for FUSE in general, 9p
/// and virtiofs, of which this is not known.
inline bool is_shared_file_system(std::string_view type) noexcept {
  constexpr auto kShared = std::to_array<std::string_view>(
      {"afs",      "beegfs",    "ceph",    "ceph-fuse", "cifs", "daos",  "dfuse", "gfs2",
       "gpfs",     "glusterfs", "juicefs", "lustre",    "mfs",  "nfs",   "nfs4",  "ocfs2",
       "orangefs", "panfs",     "pvfs2",   "s3fs",      "smb3", "smbfs", "sshfs", "wekafs"});
  if (type.starts_with("fuse.")) type.remove_prefix(5);
  return std::ranges::find(kShared, type) != kShared.end();
}

}  // namespace ioweave
