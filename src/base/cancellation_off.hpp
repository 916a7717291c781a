#pragma once

#include <pthread.h>

namespace ioweave {

/// While it lives, the calling thread is not cancelled (pthread_cancel(3)): what it calls may be a
/// cancellation point, and that would end the program in a function that is noexcept. Not in a call
/// that may pause its task, which may go on on another thread.
class CancellationOff {
 public:
  CancellationOff() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~CancellationOff() { pthread_setcancelstate(before_, nullptr); }
  CancellationOff(const CancellationOff&) = delete;
  CancellationOff& operator=(const CancellationOff&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace ioweave
