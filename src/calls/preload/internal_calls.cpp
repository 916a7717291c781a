// The library is linked with --wrap for these names, so that its own parts (service, engine, the
// C++ runtime) make the real calls: on the threads of Ioweave nothing is tracked, and a call that
// were to come back through the wrappers could meet itself.

#include <cstdarg>

#include "calls/preload/real.hpp"

#define IOWEAVE_INTERNAL(result, name, parameters)                       \
  extern "C" result internal_##name parameters __asm__("__wrap_" #name); \
  extern "C" result internal_##name parameters

namespace ioweave::calls {

IOWEAVE_INTERNAL(int, open, (const char* path, int flags, mode_t mode)) {
  return real::open(path, flags, mode);
}
IOWEAVE_INTERNAL(int, open64, (const char* path, int flags, mode_t mode)) {
  return real::open(path, flags, mode);
}
IOWEAVE_INTERNAL(int, openat, (int dir, const char* path, int flags, mode_t mode)) {
  return real::openat(dir, path, flags, mode);
}
IOWEAVE_INTERNAL(int, close, (int fd)) {
  return real::close(fd);
}
IOWEAVE_INTERNAL(ssize_t, read, (int fd, void* buffer, size_t bytes)) {
  return real::read(fd, buffer, bytes);
}
IOWEAVE_INTERNAL(ssize_t, write, (int fd, const void* buffer, size_t bytes)) {
  return real::write(fd, buffer, bytes);
}
IOWEAVE_INTERNAL(ssize_t, pread, (int fd, void* buffer, size_t bytes, off_t offset)) {
  return real::pread(fd, buffer, bytes, offset);
}
IOWEAVE_INTERNAL(ssize_t, pwrite, (int fd, const void* buffer, size_t bytes, off_t offset)) {
  return real::pwrite(fd, buffer, bytes, offset);
}
IOWEAVE_INTERNAL(ssize_t, readv, (int fd, const iovec* vectors, int count)) {
  return real::readv(fd, vectors, count);
}
IOWEAVE_INTERNAL(ssize_t, writev, (int fd, const iovec* vectors, int count)) {
  return real::writev(fd, vectors, count);
}
IOWEAVE_INTERNAL(ssize_t, preadv, (int fd, const iovec* vectors, int count, off_t offset)) {
  return real::preadv(fd, vectors, count, offset);
}
IOWEAVE_INTERNAL(ssize_t, pwritev, (int fd, const iovec* vectors, int count, off_t offset)) {
  return real::pwritev(fd, vectors, count, offset);
}
IOWEAVE_INTERNAL(ssize_t, preadv2,
                 (int fd, const iovec* vectors, int count, off_t offset, int flags)) {
  return real::preadv2(fd, vectors, count, offset, flags);
}
IOWEAVE_INTERNAL(ssize_t, pwritev2,
                 (int fd, const iovec* vectors, int count, off_t offset, int flags)) {
  return real::pwritev2(fd, vectors, count, offset, flags);
}
IOWEAVE_INTERNAL(off_t, lseek, (int fd, off_t offset, int whence)) {
  return real::lseek(fd, offset, whence);
}
IOWEAVE_INTERNAL(off_t, lseek64, (int fd, off_t offset, int whence)) {
  return real::lseek(fd, offset, whence);
}
IOWEAVE_INTERNAL(int, fsync, (int fd)) {
  return real::fsync(fd);
}
IOWEAVE_INTERNAL(int, fdatasync, (int fd)) {
  return real::fdatasync(fd);
}
IOWEAVE_INTERNAL(int, fcntl, (int fd, int command, void* argument)) {
  return real::fcntl(fd, command, argument);
}
IOWEAVE_INTERNAL(int, fcntl64, (int fd, int command, void* argument)) {
  return real::fcntl(fd, command, argument);
}
IOWEAVE_INTERNAL(FILE*, fdopen, (int fd, const char* mode)) {
  return real::fdopen(fd, mode);
}
IOWEAVE_INTERNAL(int, ftruncate, (int fd, off_t bytes)) {
  return real::ftruncate(fd, bytes);
}
IOWEAVE_INTERNAL(void*, mmap,
                 (void* at, size_t bytes, int protection, int flags, int fd, off_t offset)) {
  return real::mmap(at, bytes, protection, flags, fd, offset);
}

}  // namespace ioweave::calls
