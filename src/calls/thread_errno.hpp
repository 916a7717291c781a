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

/// Leaves errno as it was, in a call that may pause its task.
class ThreadErrnoKept {
 public:
  ThreadErrnoKept() = default;
  ~ThreadErrnoKept() { set_errno_of_this_thread(value_); }
  ThreadErrnoKept(const ThreadErrnoKept&) = delete;
  ThreadErrnoKept& operator=(const ThreadErrnoKept&) = delete;

 private:
  const int value_ = errno_of_this_thread();
};

}  // namespace ioweave::calls
