#pragma once

// The calls we wrap may be made from signal handlers; opening an engine may not: the interrupted
// code could be inside malloc. These tell the one from the other, and keep
// handlers out while the engine works on a stack frame of the program.

#include <cstdint>

namespace ioweave::calls {

/// Whether the calling thread may be inside a signal handler. A handler runs with its own signal
/// and its sa_mask blocked, so it is ruled out where no handler's mask is wholly blocked; handlers
/// with SA_NODEFER cannot be ruled out, unless they run on an alternate stack. About 64 system
/// calls: for rare moments. Errs towards true.
[[nodiscard]] bool may_be_in_signal_handler() noexcept;

/// No handler runs on this thread, and the thread is not cancelled, while this lives: as in the
/// kernel, where a transfer of a regular file is not interrupted. SIGSETXID stays open, which
/// setuid(2) in another thread waits for.
class SignalsHeld {
 public:
  SignalsHeld() noexcept;
  ~SignalsHeld();
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

  /// The mask to wait with where a transfer does not end: lets those signals in that end or stop
  /// the process by default, which a plain call would not keep from doing so.
  [[nodiscard]] uint64_t but_for_fatal_ones() const noexcept;

 private:
  uint64_t before_;
};

}  // namespace ioweave::calls
