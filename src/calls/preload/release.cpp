#include "calls/preload/release.hpp"

#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>

#include "base/clock.hpp"
#include "base/signals_masked.hpp"
#include "calls/preload/process.hpp"
#include "engine/raw_syscall.hpp"

namespace ioweave::calls {
namespace {

using engine::raw_syscall;

constexpr uint64_t kMostWaitNs = 100'000'000;

/// A descriptor for a moment, by system calls that are no cancellation points.
class Fifo {
 public:
  Fifo(const char* name, int flags) noexcept {
    char path[Process::kMostDirectoryBytes + 16];
    stpcpy(stpcpy(stpcpy(path, process.directory()), "/"), name);
    fd_ = static_cast<int>(raw_syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0));
  }
  ~Fifo() {
    if (is_open()) raw_syscall(SYS_close, fd_);
  }
  Fifo(const Fifo&) = delete;
  Fifo& operator=(const Fifo&) = delete;

  [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }

  [[nodiscard]] bool write(char byte) const noexcept {
    return raw_syscall(SYS_write, fd_, &byte, 1) == 1;
  }
  /// 0 where nothing comes until then.
  [[nodiscard]] char read_until(uint64_t then_ns) const noexcept {
    for (uint64_t now = now_ns(); now < then_ns; now = now_ns()) {
      pollfd ready{fd_, POLLIN, 0};
      timespec timeout{0, static_cast<long>(then_ns - now)};
      (void)raw_syscall(SYS_ppoll, &ready, 1, &timeout, nullptr, 0);
      char byte = 0;
      // Somebody else who asked may have been quicker.
      if ((ready.revents & POLLIN) != 0 && raw_syscall(SYS_read, fd_, &byte, 1) == 1) {
        return byte;
      }
    }
    return 0;
  }

 private:
  int fd_ = -1;
};

}  // namespace

Released ask_for_release() noexcept {
  if (process.left_alone() || *process.directory() == '\0') {
    return Released::nobody;
  }
  const int saved = errno;
  char answer = 0;
  {
    const SignalsMasked masked;
    // The answer's first: the command does not wait for somebody to read it.
    const Fifo released(stats::kReleasedName, O_RDONLY | O_NONBLOCK);
    const Fifo release(stats::kReleaseName, O_WRONLY | O_NONBLOCK);
    if (released.is_open() && release.is_open() && release.write(1)) {
      answer = released.read_until(now_ns() + kMostWaitNs);
    }
  }
  errno = saved;
  return answer == stats::kHadFilesOpen  ? Released::closed
         : answer == stats::kHadNoneOpen ? Released::nothing
                                         : Released::nobody;
}

}  // namespace ioweave::calls
