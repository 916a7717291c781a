#pragma once

#include <linux/magic.h>
#include <sys/vfs.h>

namespace ioweave {

/// Returns true for file systems whose files are in memory or are generated when read.
inline bool is_memory_file_system(int fd) noexcept {
  struct statfs status {};
  if (fstatfs(fd, &status) != 0) {
    return false;
  }
  switch (static_cast<unsigned long>(status.f_type)) {
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
    case HUGETLBFS_MAGIC:
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
    case SECURITYFS_MAGIC:
    case CGROUP_SUPER_MAGIC:
    case CGROUP2_SUPER_MAGIC:
    case DEVPTS_SUPER_MAGIC:
    case EFIVARFS_MAGIC:
    case BPF_FS_MAGIC:
      return true;
    default:
      return false;
  }
}

/// Returns true for file systems of a disk that one machine has for itself: who writes its files
/// does so through this machine's page cache.
inline bool is_local_file_system(int fd) noexcept {
  struct statfs status {};
  if (fstatfs(fd, &status) != 0) {
    return false;
  }
  switch (static_cast<unsigned long>(status.f_type)) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
      return true;
    default:
      return false;
  }
}

inline bool is_fuse(int fd) noexcept {
  struct statfs status {};
  return fstatfs(fd, &status) == 0 && status.f_type == FUSE_SUPER_MAGIC;
}

/// Returns true if a file that is removed while it is open may stay under another name, as with
/// libfuse's high-level interface and NFS.
inline bool may_keep_removed_files(unsigned long type) noexcept {
  return type == FUSE_SUPER_MAGIC || type == NFS_SUPER_MAGIC;
}
inline bool may_keep_removed_files(int fd) noexcept {
  struct statfs status {};
  return fstatfs(fd, &status) == 0 &&
         may_keep_removed_files(static_cast<unsigned long>(status.f_type));
}

}  // namespace ioweave
