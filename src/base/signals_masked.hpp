#pragma once

#include <csignal>

#include <pthread.h>

namespace ioweave {

/// While it lives, the calling thread takes no signal, and threads that it creates inherit that. A
/// handler of the program must not run on a thread that the program does not know. The C library's
/// own signals (cancellation, setxid) stay open.
class SignalsMasked {
 public:
  SignalsMasked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsMasked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsMasked(const SignalsMasked&) = delete;
  SignalsMasked& operator=(const SignalsMasked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace ioweave
