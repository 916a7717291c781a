#pragma once

#include <cerrno>

namespace ioweave::calls {

// A call that paused its task may return on another thread than it was made on. The address of
// errno must not be carried across it, as the compiler would where it sees both uses: so these are
// not to be inlined.

__attribute__((noinline)) inline int errno_of_this_thread() noexcept {
  return errno;
}
__attribute__((noinline)) inline void set_errno_of_this_thread(int value) noexcept {
  errno = value;
}

}  // namespace ioweave::calls
