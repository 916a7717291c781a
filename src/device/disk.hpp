#pragma once

// The block device below a file, and what the kernel reports of it.

#include <cstdint>
#include <optional>
#include <string>

#include <sys/types.h>

#include "device/mounts.hpp"

namespace ioweave::device {

/// Returns the block device below a file of this st_dev. Returns nothing if there is no single one:
/// tmpfs, NFS, FUSE, overlayfs, a file system on several disks.
[[nodiscard]] std::optional<dev_t> disk_below(dev_t number, const char* mountinfo = kMountinfo);

/// Returns true if the disk says that it rotates. A partition counts as its disk. Returns false if
/// this is not known. Paravirtual disks (virtio, Xen) are not asked: they report the default of
/// their driver, whatever is behind them. `sys`: /sys/dev/block.
[[nodiscard]] bool is_rotational(dev_t disk, const std::string& sys);

/// Counts the bytes that a block device moved. Partitions and device-mapper volumes have counters
/// of their own.
class DiskCounter {
 public:
  static constexpr const char* kDiskstats = "/proc/diskstats";

  explicit DiskCounter(dev_t disk, std::string diskstats = kDiskstats)
      : disk_(disk), diskstats_(std::move(diskstats)) {}

  [[nodiscard]] dev_t disk() const noexcept { return disk_; }

  /// Returns the bytes read and written since the machine started, or -errno: -ENODEV if the kernel
  /// does not count there.
  [[nodiscard]] int64_t read() const;

 private:
  dev_t disk_;
  std::string diskstats_;
};

}  // namespace ioweave::device
