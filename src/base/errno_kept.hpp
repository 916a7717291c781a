#pragma once

#include <cerrno>

namespace ioweave {

/// errno is the caller's; system calls of ours, and callbacks, change it. It is as it was when this
/// ends, on the thread that made it.
class ErrnoKept {
 public:
  ErrnoKept() = default;
  ~ErrnoKept() { word_ = value_; }
  ErrnoKept(const ErrnoKept&) = delete;
  ErrnoKept& operator=(const ErrnoKept&) = delete;

 private:
  int& word_ = errno;
  const int value_ = word_;
};

}  // namespace ioweave
