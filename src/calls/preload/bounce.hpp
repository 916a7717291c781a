#pragma once

// Reads past the page cache by way of memory in large pages, from where they are copied to the
// program's buffer: where a device takes long for buffers in small pages, that is faster. It is for
// reads whose buffers cannot be laid in large pages themselves (large_buffers.hpp).
//
// What the kernel does for a plain call, and how a copied one keeps it:
//
//   the call          is the same system call on this thread, with another buffer: position, locks,
//                     listeners, its end at the end of the file
//   errors            a read that fails has moved nothing: the program's call is made, and answers
//   bad addresses     the kernel copies the bytes (process_vm_readv), as the program's thread would
//                     store them. If it cannot, the position is put back, and the program's call is
//                     made
//   the last bytes    of a file are read by the program's call: behind them the kernel fills the
//                     buffer to the end of a block
//   alignment         buffers that are not aligned to pages are left alone: who must hear EINVAL
//                     hears it
//   signals           held, as a plain read of a device holds them, but for those that end the
//                     process
//   the descriptor    is looked at before: it must be the file that was opened
//   confinement       by another thread comes after the reads that are under way
//
// The memory is made when it is first needed, at most 32 MiB, each 2 MiB of it when first used. A
// forked child begins with none of its contents: pages that two processes share would be split.

#include <cstdint>

#include "calls/preload/call_lane.hpp"
#include "stats/segment.hpp"

namespace ioweave::calls {

/// Larger reads are left alone: their buffers can be laid in large pages.
inline constexpr uint64_t kMostBouncedBytes = 4 << 20;
inline constexpr uint64_t kLeastBouncedBytes = 32 << 10;

/// Returns true with the bytes in `result`; false where the program's own call must be made: no
/// memory, an error, another buffer than one that is aligned to pages. Async-signal-safe.
[[nodiscard]] bool read_by_bounce(const Transfer& transfer, const stats::FileRecord& file,
                                  int64_t& result) noexcept;

/// In a child after fork(2): whoever had taken memory is a thread of the parent's.
void forget_bounces() noexcept;

}  // namespace ioweave::calls
