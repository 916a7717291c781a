#pragma once

// Signal handlers may make the calls that we wrap, but they must not open an engine, because the
// interrupted code could be inside malloc. These functions find out whether a handler calls, and
// keep handlers out while the engine works on a stack frame of the program.

#include <cstdint>

namespace ioweave::calls {

/// Returns true if the calling thread may be inside a signal handler. A handler runs with its own
/// signal and its sa_mask blocked, so there is none if no handler's mask is wholly blocked.
/// Handlers with SA_NODEFER cannot be excluded, unless they run on an alternate stack. In doubt it
/// returns true. It makes about 64 system calls, so it is for rare moments.
[[nodiscard]] bool may_be_in_signal_handler() noexcept;

/// While this lives, no handler runs on this thread, and the thread is not cancelled. So a transfer
/// is not interrupted, like one of a regular file in the kernel. SIGSETXID stays open, since
/// setuid(2) in another thread waits for it.
class SignalsHeld {
 public:
  SignalsHeld() noexcept;
  ~SignalsHeld();
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

  /// Returns the mask to wait with if a transfer does not end. It lets in the signals that end or
  /// stop the process by default, as they would during a plain call.
  [[nodiscard]] uint64_t but_for_fatal_ones() const noexcept;
  /// Lets these in from now on.
  void let_fatal_ones_in() const noexcept;

 private:
  uint64_t before_;
};

}  // namespace ioweave::calls
