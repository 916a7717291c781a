#pragma once

// Policies `sync`, `writes` and `auto`: a read or write of the program at an offset, past the page
// cache (O_DIRECT), becomes one engine operation on the calling thread's lane, or several at once,
// and the thread waits for the end. Through the page cache io_uring has nothing to give a thread
// that waits, and would need threads of its own in the program (call_lane.hpp).
//
// What the kernel does for a plain call, and how a carried one keeps it:
//
//   the position      io_uring takes no lock on it, so a transfer there stays the real call
//   RLIMIT_FSIZE      the limit is looked at before each write: SIGXFSZ must reach this thread
//   errors, EAGAIN    an operation that fails moved nothing; the real call is made, and answers.
//                     The same where it ended early
//   signals           held, as a plain transfer of a device holds them, but for those that end the
//                     process where the transfer does not end
//   cancellation      the thread is asked before; what is carried out is then not cancelled
//   locks             of the process and the open file: no file outlives its operation in the ring
//   the descriptor    is looked at before each operation: it must be the file that was opened
//   listeners         (inotify, fanotify) in the run are told of real calls only
//   confinement       by another thread comes after the operations that are under way
//
// Where the engine is `threads`, the calling thread is the one that carries a call out. So it is
// for `aio`: the kernel lets go of the file after it has told of the end, which a lock would show.

#include <cstddef>
#include <cstdint>

#include "calls/preload/call_lane.hpp"
#include "stats/segment.hpp"

namespace ioweave::calls {

/// Carries the call out by the engine, one of a single buffer perhaps in pieces. True with the
/// bytes in `result`; false where the program's own call must be made instead: no engine, no
/// offset, an error, a descriptor that is not `file` any more, a forked child, possibly a signal
/// handler, a file size limit. Async-signal-safe.
[[nodiscard]] bool carry_out(const Transfer& transfer, const stats::FileRecord& file,
                             choice::Pieces pieces, int64_t& result);

/// Returns true if the descriptor is still that of the file. It may have been closed behind our
/// back and be another file's, or a pipe's, whose transfer might never end.
[[nodiscard]] bool still_is(const stats::FileRecord& file, int fd) noexcept;

/// Returns true if the descriptor is, besides, open past the page cache; then with the file's size.
[[nodiscard]] bool is_still_direct(const stats::FileRecord& file, int fd, uint64_t& size) noexcept;

/// A transfer, or what prepares one, by system calls that are not the program's.
class TransferUnderWay {
 public:
  TransferUnderWay() noexcept;
  ~TransferUnderWay();
  TransferUnderWay(const TransferUnderWay&) = delete;
  TransferUnderWay& operator=(const TransferUnderWay&) = delete;

  /// False: the process is left alone, and nothing may be done.
  [[nodiscard]] bool may_go() const noexcept { return may_go_; }

 private:
  bool may_go_;
};

/// Returns when no transfer is under way. No other begins once the process is left alone.
void wait_for_transfers() noexcept;

/// In a child after fork(2): plain calls from now on.
void forget_engine() noexcept;

}  // namespace ioweave::calls
