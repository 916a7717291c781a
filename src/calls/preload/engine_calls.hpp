#pragma once

// Policies `sync` and `writes`: a read or write of the program at an offset becomes one engine
// operation on the calling thread's lane, and the thread waits for it.
//
// What the kernel does for a plain call, and how a carried one keeps it:
//
//   the position      io_uring takes no lock on it, so a transfer there stays the real call
//   O_APPEND          the same code of the kernel, under the same lock of the inode, sets the
//   offset writev in one     not tried without waiting first (IOSQE_ASYNC), which could split it
//   RLIMIT_FSIZE      the limit is looked at before each write: SIGXFSZ must reach this thread
//   errors, EAGAIN    an operation that fails moved nothing; the real call is made, and answers
//   signals           held, as a plain transfer of a file holds them, but for those that end the
//                     process where the transfer does not end
//   cancellation      the thread is asked before; what is carried out is then not cancelled
//   locks             of the process and the open file: no file outlives its operation in the ring
//   the descriptor    is looked at before each operation: it must be the file that was opened
//
// Where the engine is `threads`, the calling thread is the one that carries a call out, and with
// AIO whatever AIO cannot carry.

#include <cstddef>
#include <cstdint>

#include "calls/preload/call_lane.hpp"
#include "calls/preload/lane_trial.hpp"
#include "stats/segment.hpp"

namespace ioweave::calls {

/// Carries the call out by the engine. True with the bytes in `result`; false where the program's
/// own call must be made instead: no engine, no offset, an error, a descriptor that is not `file`
/// any more, a forked child, possibly a signal handler, a file size limit. Async-signal-safe.
/// `trial` is for note_trial() afterwards.
[[nodiscard]] bool carry_out(const Transfer& transfer, const stats::FileRecord& file,
                             LaneTrial*& trial, int64_t& result);

/// Past the page cache a lane must not cost time. Transfers of a kind are made in turn by the lane
/// and plainly; what is faster then makes most of them, and the other is tried now and then.
/// Through the page cache one of 64 is made plainly. So the segment has what the lane's calls cost
/// beyond plain ones, as a mean of their kind.
void note_trial(LaneTrial& trial, bool carried, uint64_t ticks) noexcept;

/// Whether some call has gone through the engine in this process.
[[nodiscard]] bool engine_is_open() noexcept;

/// In a child after fork(2): plain calls from now on.
void forget_engine() noexcept;

}  // namespace ioweave::calls
