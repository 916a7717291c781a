#pragma once

// Policies `sync` and `writes`: a read or write of the program becomes one engine operation on the
// calling thread's lane, and the thread waits for it. Where the engine is `threads`, the calling
// thread is the one that carries it out, and with AIO whatever AIO cannot carry.

#include <cstddef>
#include <cstdint>

#include "engine/backend.hpp"

namespace ioweave::calls {

/// One call of the program. A vectored call has `vectors` and their number in `bytes`.
struct Transfer {
  engine::Op op;
  int fd;
  void* buffer;  ///< or const iovec*
  size_t bytes;
  int64_t offset;  ///< -1: the descriptor's position
};

/// Carries the call out by the engine. True with bytes or -errno in `result`; false where the
/// program's own call must be made instead: no engine, the caller is the engine's thread, a forked
/// child, possibly a signal handler, a file size limit (SIGXFSZ must reach the right thread).
/// Async-signal-safe.
[[nodiscard]] bool carry_out(const Transfer& transfer, int64_t& result);

/// Whether some call has gone through the engine in this process.
[[nodiscard]] bool engine_is_open() noexcept;

/// In a child after fork(2): plain calls from now on.
void forget_engine() noexcept;

}  // namespace ioweave::calls
