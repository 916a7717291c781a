#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include <sys/types.h>

namespace ioweave::engine {

/// Where a device does not tell its read-ahead window (btrfs, overlay): the kernel's default.
inline constexpr uint64_t kDefaultReadAheadBytes = 128 << 10;
/// The kernel cuts larger requests into chunks of this size itself.
inline constexpr uint64_t kMostReadAheadBytes = 2 << 20;

/// The read-ahead window of a device (st_dev): how much the kernel asks for at once ahead of a
/// sequential reader. A multiple of the page size, at least 4 KiB. Reads sysfs; async-signal-safe.
[[nodiscard]] uint64_t read_ahead_window_bytes(dev_t device) noexcept;

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

/// The same, and nothing begins. Nothing where cachestat(2) is not allowed.
[[nodiscard]] std::optional<bool> is_known_resident(int fd, uint64_t offset,
                                                    uint64_t bytes) noexcept;

/// How many bytes of pages of [offset, offset + bytes) of a file, bytes > 0, are in the page cache,
/// or on their way into it. Nothing where cachestat(2) is not allowed.
[[nodiscard]] std::optional<uint64_t> cached_bytes(int fd, uint64_t offset,
                                                   uint64_t bytes) noexcept;

/// How many bytes of [offset, offset + bytes) of a file, bytes > 0, are in pages that are changed
/// and not on the device yet, those on their way to it included. Nothing where cachestat(2) is not
/// allowed. 0 on overlayfs, which tells of no page.
[[nodiscard]] std::optional<uint64_t> unwritten_bytes(int fd, uint64_t offset,
                                                      uint64_t bytes) noexcept;

/// Whether the byte can be read at once. Never waits; where its page is missing altogether,
/// read-ahead of it begins.
[[nodiscard]] bool is_ready(int fd, uint64_t offset) noexcept;

/// The same, and nothing begins. Nothing where the kernel does not tell: files of others that may
/// not be written (mincore(2)).
[[nodiscard]] std::optional<bool> has_arrived(int fd, uint64_t offset) noexcept;

/// Brings [offset, offset + length) of a file into the page cache, in pieces of one read-ahead
/// window, and sleeps until it is there. Never changes the file, its position or what is cached.
/// The bytes now in the cache (less than was asked for at the end of the file, 0 beyond it), or
/// -errno: -EINVAL for a descriptor opened with O_DIRECT, which does not use the cache; -ESPIPE for
/// pipes; -ECANCELED once `cancelled` is set, between pieces.
[[nodiscard]] int64_t prefetch(int fd, int64_t offset, uint64_t length, ReadAheadWindows& windows,
                               const std::atomic<bool>& cancelled) noexcept;

}  // namespace ioweave::engine
