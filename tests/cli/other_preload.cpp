// A library that somebody else preloads, and that wraps calls as Darshan does: it counts them and
// makes the next function of that name. At the end it says on standard error what it has counted.

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

namespace {

std::atomic<long> opens;  // of the program's files: Ioweave opens its own in front of them
std::atomic<long> reads;
std::atomic<long> writes;

template <class Call>
Call next(const char* name) {
  return reinterpret_cast<Call>(dlsym(RTLD_NEXT, name));
}

int open_next(const char* name, const char* path, int flags, mode_t mode) {
  if (std::strstr(path, "/ioweave-run-") == nullptr) ++opens;
  return next<int (*)(const char*, int, mode_t)>(name)(path, flags, mode);
}

mode_t mode_behind(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

__attribute__((destructor)) void tell() {
  (void)dprintf(STDERR_FILENO, "opens %ld reads %ld writes %ld\n", opens.load(), reads.load(),
                writes.load());
}

}  // namespace

extern "C" {

#define VISIBLE __attribute__((visibility("default")))

VISIBLE int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_behind(flags, arguments);
  va_end(arguments);
  return open_next("open", path, flags, mode);
}
VISIBLE int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_behind(flags, arguments);
  va_end(arguments);
  return open_next("open64", path, flags, mode);
}
VISIBLE ssize_t read(int fd, void* buffer, size_t bytes) {
  ++reads;
  static const auto real = next<decltype(&read)>("read");
  return real(fd, buffer, bytes);
}
VISIBLE ssize_t write(int fd, const void* buffer, size_t bytes) {
  ++writes;
  static const auto real = next<decltype(&write)>("write");
  return real(fd, buffer, bytes);
}
VISIBLE int close(int fd) {
  static const auto real = next<decltype(&close)>("close");
  return real(fd);
}

}  // extern "C"
