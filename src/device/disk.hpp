#pragma once

// The block device below a file, and what the kernel tells of it.

#include <cstdint>
#include <optional>
#include <string>

#include <sys/types.h>

#include "device/mounts.hpp"

namespace ioweave::device {

/// The block device below a file of this st_dev; nothing where there is none that one could name:
/// tmpfs, NFS, FUSE, overlayfs, a file system on several disks.
[[nodiscard]] std::optional<dev_t> disk_below(dev_t number, const char* mountinfo = kMountinfo);

/// Whether the disk says that it turns: a partition as its disk. Where that cannot be told, it does
/// not. Paravirtual disks (virtio, Xen) say what their drivers begin with, whatever is behind them,
/// and are not asked. `sys`: /sys/dev/block.
[[nodiscard]] bool is_rotational(dev_t disk, const std::string& sys);

/// What a block device moved, partitions and device-mapper volumes as themselves.
class DiskCounter {
 public:
  static constexpr const char* kDiskstats = "/proc/diskstats";

  explicit DiskCounter(dev_t disk, std::string diskstats = kDiskstats)
      : disk_(disk), diskstats_(std::move(diskstats)) {}

  [[nodiscard]] dev_t disk() const noexcept { return disk_; }

  /// Bytes read and written since the machine started; -errno, -ENODEV where the kernel does not
  /// count there.
  [[nodiscard]] int64_t read() const;

 private:
  dev_t disk_;
  std::string diskstats_;
};

}  // namespace ioweave::device
