#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <sys/types.h>

namespace ioweave::engine {

/// How much one POSIX_FADV_WILLNEED brings in: the kernel silently cuts it at the read-ahead
/// window of the device. Thread-safe: a mutex around the few devices remembered.
class ReadAheadWindows {
 public:
  /// Where the device does not tell (btrfs, overlay): the kernel's default.
  static constexpr uint64_t kDefaultBytes = 128 << 10;
  /// The kernel cuts larger requests into chunks of this size itself.
  static constexpr uint64_t kMaxBytes = 2 << 20;

  /// A multiple of the page size in [4 KiB, kMaxBytes].
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

/// Brings [offset, offset + length) of a file into the page cache, in pieces of one read-ahead
/// window, and returns when it is there: the bytes now in the cache (less than `length` at the end
/// of the file, 0 beyond it), or -errno. Never changes the file, its position or what is cached.
/// -EINVAL for a descriptor opened with O_DIRECT, which does not use the cache; -ESPIPE for pipes.
/// Gives up between pieces with -ECANCELED once `cancelled` is set. Blocks: for worker threads.
[[nodiscard]] int64_t prefetch(int fd, int64_t offset, uint64_t length, ReadAheadWindows& windows,
                               const std::atomic<bool>& cancelled) noexcept;

}  // namespace ioweave::engine
