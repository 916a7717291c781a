#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <sys/types.h>

namespace ioweave::engine {

/// Where a device does not tell its read-ahead window (btrfs, overlay): the kernel's default.
inline constexpr uint64_t kDefaultReadAheadBytes = 128 << 10;
/// The kernel cuts larger requests into chunks of this size itself.
inline constexpr uint64_t kMostReadAheadBytes = 2 << 20;

/// How much one POSIX_FADV_WILLNEED brings in: the kernel silently cuts it at the read-ahead window
/// of the device (st_dev). A multiple of the page size in [4 KiB, kMostReadAheadBytes]. Reads
/// sysfs; async-signal-safe.
[[nodiscard]] uint64_t read_ahead_bytes(dev_t device) noexcept;

/// The same, remembered for a few devices. Thread-safe, by a mutex.
class ReadAheadWindows {
 public:
  [[nodiscard]] uint64_t bytes(dev_t device) noexcept;

 private:
  struct Entry {
    dev_t device = 0;
    uint64_t bytes = 0;  ///< 0: empty
  };
  static constexpr size_t kEntries = 16;

  std::mutex lock_;
  Entry entries_[kEntries];
  size_t next_ = 0;  ///< replaced next
};

/// Whether [offset, offset + bytes) of a file, bytes > 0, is in the page cache already, or on its
/// way into it. Errs towards false; never waits for the device. cachestat(2) where it is allowed
/// (6.5, and not for files of other users), else a look at the first and the last byte by a read
/// that must not block.
[[nodiscard]] bool is_resident(int fd, uint64_t offset, uint64_t bytes) noexcept;

/// A range of a file on its way into the page cache. A value; keeps nothing open.
struct PrefetchedRange {
  int fd = -1;
  int64_t begin = 0;
  int64_t end = 0;       ///< at most the end of the file when it was asked for
  uint64_t window = 0;   ///< grain in which it was asked for
  bool missing = false;  ///< some of it was not in the cache, nor on its way there
};

/// Asks the kernel to bring [offset, offset + length) of a file into the page cache, in pieces of
/// one read-ahead window (`window` bytes), and returns as soon as the device has been told. Never
/// changes the file, its position or what is cached. 0 or -errno: -EINVAL for a descriptor opened
/// with O_DIRECT, which does not use the cache; -ESPIPE for pipes; -ECANCELED once `cancelled` is
/// set.
[[nodiscard]] int64_t begin_prefetch(int fd, int64_t offset, uint64_t length, uint64_t window,
                                     const std::atomic<bool>& cancelled,
                                     PrefetchedRange& range) noexcept;

/// Sleeps until it is there: the bytes now in the cache (less than was asked for at the end of the
/// file, 0 beyond it), or -errno. Gives up between pieces with -ECANCELED once `cancelled` is set.
[[nodiscard]] int64_t await_prefetch(const PrefetchedRange& range,
                                     const std::atomic<bool>& cancelled) noexcept;

/// Both, one after the other.
[[nodiscard]] int64_t prefetch(int fd, int64_t offset, uint64_t length, ReadAheadWindows& windows,
                               const std::atomic<bool>& cancelled) noexcept;

}  // namespace ioweave::engine
