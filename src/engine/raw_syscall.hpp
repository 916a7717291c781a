#pragma once

// System calls without the C library in between. The engine also runs inside libioweave_preload,
// which wraps the C library's I/O functions: a worker that called preadv2(3) there would come back
// to the engine. These never touch errno, are no cancellation points, are
// async-signal-safe and return what the kernel returns: a value or -errno.

#include <cerrno>
#include <type_traits>

#include <sys/syscall.h>
#include <unistd.h>

namespace ioweave::engine {

static_assert(sizeof(long) == 8, "offsets are passed in one register");

/// Six arguments always: the kernel ignores those a call does not take.
inline long raw_syscall6(long number, long a, long b, long c, long d, long e, long f) noexcept {
#if defined(__x86_64__)
  long result = number;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc #0"
               : "+r"(x0)
               : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
               : "memory");
  return x0;
#else
  const int saved = errno;
  const long result = ::syscall(number, a, b, c, d, e, f);
  const long answer = result < 0 ? -errno : result;
  errno = saved;
  return answer;
#endif
}

template <typename T>
long syscall_argument(T value) noexcept {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<long>(value);
  } else if constexpr (std::is_null_pointer_v<T>) {
    return 0;
  } else {
    return static_cast<long>(value);
  }
}

/// raw_syscall(SYS_pread64, fd, buffer, bytes, offset)
template <typename... Arguments>
long raw_syscall(long number, Arguments... arguments) noexcept {
  static_assert(sizeof...(Arguments) <= 6);
  const long list[6] = {syscall_argument(arguments)...};
  return raw_syscall6(number, list[0], list[1], list[2], list[3], list[4], list[5]);
}

}  // namespace ioweave::engine
