#pragma once

// Descriptors that the library keeps open in somebody else's process. Programs expect the lowest
// free number from open(2), put files on numbers of their choice with dup2(2), and close whole
// ranges. So the library's descriptors are moved out of their way. The interposer, which sees those
// calls, asks is_private_descriptor() before it lets one through.

#include <atomic>
#include <cstdint>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ioweave {

/// Numbers from here on cannot be private, since a higher number makes the kernel's table larger.
inline constexpr unsigned kPrivateDescriptorEnd = 4096;

namespace detail {
// Relaxed: a number is marked before another thread can know it. A stale value only misses to guard
// against a program that closes descriptors which it never opened.
inline std::atomic<uint64_t> private_descriptors[kPrivateDescriptorEnd / 64];
}  // namespace detail

[[nodiscard]] inline bool is_private_descriptor(int fd) noexcept {
  const auto number = static_cast<unsigned>(fd);
  return number < kPrivateDescriptorEnd &&
         (detail::private_descriptors[number / 64].load(std::memory_order_relaxed) >>
              (number % 64) &
          1u) != 0;
}

/// Moves a new close-on-exec descriptor up and marks it. Returns its new number, or the old one if
/// the limit leaves no room. `system_call` makes a system call past all wrappers, and returns a
/// number below 0 for an error.
template <class SystemCall>
[[nodiscard]] int make_descriptor_private(int fd, SystemCall system_call) noexcept {
  constexpr rlim_t kRoom = 256;
  rlimit limit{};
  if (fd < 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return fd;
  }
  const rlim_t end =
      limit.rlim_cur < kPrivateDescriptorEnd ? limit.rlim_cur : rlim_t{kPrivateDescriptorEnd};
  const rlim_t floor = end > 2 * kRoom ? end - kRoom : end / 2;
  const long moved = system_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, static_cast<long>(floor));
  if (moved < 0 || static_cast<unsigned long>(moved) >= kPrivateDescriptorEnd) {
    if (moved >= 0) {
      system_call(SYS_close, static_cast<int>(moved));
    }
    return fd;
  }
  system_call(SYS_close, fd);
  const auto number = static_cast<unsigned>(moved);
  detail::private_descriptors[number / 64].fetch_or(uint64_t{1} << (number % 64),
                                                    std::memory_order_relaxed);
  return static_cast<int>(moved);
}

/// Unmarks a descriptor. Call it before it is closed.
inline void forget_private_descriptor(int fd) noexcept {
  const auto number = static_cast<unsigned>(fd);
  if (number < kPrivateDescriptorEnd) {
    detail::private_descriptors[number / 64].fetch_and(~(uint64_t{1} << (number % 64)),
                                                       std::memory_order_relaxed);
  }
}

}  // namespace ioweave
