#pragma once

// How much a ring with IOPOLL may carry at once.
//
// A polled transfer must not wait in the kernel (REQ_NOWAIT), and what must not wait is not split
// to the limits of its device since 2023, also in stable versions of older kernels: it ends in
// EAGAIN. io_uring then hands it to a worker. Before Linux 6.3 the worker's try is polled too, and
// is repeated for ever: the transfer never ends, can hardly be cancelled, and what needs a worker
// after it waits as well. From 6.3 on the worker's try is split; its parts end by interrupts.
//
// A write that a file system waits for by itself, since it begins or ends inside a block, comes
// from memory that does, or crosses the end of the file, hangs until the driver's timeout (30 s):
// nobody polls meanwhile.
//
// Measured on 6.1 with an emulated NVMe (tests/engine/iopoll_vm); on 6.12 neither happens. We are
// careful with what is older than that.

#include <array>
#include <cstddef>
#include <cstdint>

#include <sys/types.h>

#include "engine/backend.hpp"

namespace ioweave::engine {

/// What a block device takes as one request, from /sys/dev/block/MAJOR:MINOR/queue.
struct RequestLimits {
  uint64_t bytes = 0;        ///< max_sectors_kb
  uint64_t segments = 0;     ///< max_segments: pieces of memory that do not adjoin
  uint64_t chunk_bytes = 0;  ///< chunk_sectors: no request crosses a multiple of it; 0: any may
};

/// The most bytes of a buffer, of whatever pages, that are one request of the device: a power of
/// two, so that what follows is aligned as the whole was. 0: none are for sure, since where on the
/// device a file's blocks lie is not known.
[[nodiscard]] uint64_t largest_polled_bytes(const RequestLimits& limits) noexcept;

/// The bytes at the beginning of a transfer that go as one request where `most` do: all, `most`, or
/// 0 where the operation cannot be carried in part. Vectors are carried as a whole or not at all,
/// and not where memory has a gap inside a page, at which a device may want the request split.
[[nodiscard]] uint64_t polled_part(const Operation& operation, uint64_t most) noexcept;

/// Whether a file system that polls would wait for a write by itself: see above. `file_bytes` is
/// the size of the file.
[[nodiscard]] bool is_waited_for(const Operation& operation, uint64_t file_bytes) noexcept;

/// Returns true if the kernel splits what is polled (Linux 6.12): then any size ends.
[[nodiscard]] bool splits_polled_transfers() noexcept;

/// The limits of the devices that a backend meets. One thread: the backend's owner.
class PolledSizes {
 public:
  /// polled_part() of the operation on its descriptor's device; 0 also of a write to a file that
  /// is_waited_for(). All of it on a newer kernel, and where there is no such device: nothing is
  /// polled there.
  [[nodiscard]] uint64_t bytes(const Operation& operation) noexcept;

 private:
  struct Entry {
    dev_t device = 0;
    uint64_t most = 0;
  };
  static constexpr size_t kEntries = 8;

  [[nodiscard]] uint64_t most_on(dev_t device) noexcept;

  int is_newer_kernel_ = -1;  ///< not asked yet
  std::array<Entry, kEntries> entries_{};
  size_t known_ = 0;
};

}  // namespace ioweave::engine
