#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace ioweave {

/// Whether a file system of that type, as /proc/self/mountinfo has it, is one that several nodes
/// use at once, so that what one of them moves the others lack. Not known of FUSE in general, 9p
/// and virtiofs: false.
inline bool is_shared_file_system(std::string_view type) noexcept {
  constexpr auto kShared = std::to_array<std::string_view>(
      {"afs",      "beegfs",    "ceph",    "ceph-fuse", "cifs", "daos",  "dfuse", "gfs2",
       "gpfs",     "glusterfs", "juicefs", "lustre",    "mfs",  "nfs",   "nfs4",  "ocfs2",
       "orangefs", "panfs",     "pvfs2",   "s3fs",      "smb3", "smbfs", "sshfs", "wekafs"});
  if (type.starts_with("fuse.")) type.remove_prefix(5);
  return std::ranges::find(kShared, type) != kShared.end();
}

}  // namespace ioweave
