#pragma once

// The calls behind our wrappers: the next definition of each symbol in the look-up order (usually
// the C library's), found once by the constructor with dlsym(RTLD_NEXT).
//
// Calls may come before that: constructors of other libraries run first in some link orders, and
// an allocator that dlsym itself wakes up may open files. Those go to the kernel by syscall(2)
// where that is the same thing, which needs no look-up, lock or memory; the few calls that are more
// than a system call are looked up at that moment.
//
// None of these functions is noexcept where the C library's is a cancellation point: cancelling a
// thread unwinds through our frames.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <stdio.h>

namespace ioweave::calls::real {

static_assert(sizeof(off_t) == 8, "64-bit file offsets are assumed throughout");

// X(result, name, parameters, arguments, what to do before the look-up)
#define IOWEAVE_REAL_CALLS(X)                                                                      \
  X(int, open, (const char* path, int flags, mode_t mode), (path, flags, mode),                    \
    static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode)))                          \
  X(int, openat, (int dir, const char* path, int flags, mode_t mode), (dir, path, flags, mode),    \
    static_cast<int>(::syscall(SYS_openat, dir, path, flags, mode)))                               \
  X(int, creat, (const char* path, mode_t mode), (path, mode),                                     \
    static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode)))   \
  X(int, close, (int fd), (fd), static_cast<int>(::syscall(SYS_close, fd)))                        \
  X(int, close_range, (unsigned first, unsigned last, int flags), (first, last, flags),            \
    static_cast<int>(::syscall(SYS_close_range, first, last, flags)))                              \
  X(ssize_t, read, (int fd, void* buffer, size_t bytes), (fd, buffer, bytes),                      \
    ::syscall(SYS_read, fd, buffer, bytes))                                                        \
  X(ssize_t, write, (int fd, const void* buffer, size_t bytes), (fd, buffer, bytes),               \
    ::syscall(SYS_write, fd, buffer, bytes))                                                       \
  X(ssize_t, pread, (int fd, void* buffer, size_t bytes, off_t offset),                            \
    (fd, buffer, bytes, offset), ::syscall(SYS_pread64, fd, buffer, bytes, offset))                \
  X(ssize_t, pwrite, (int fd, const void* buffer, size_t bytes, off_t offset),                     \
    (fd, buffer, bytes, offset), ::syscall(SYS_pwrite64, fd, buffer, bytes, offset))               \
  X(ssize_t, readv, (int fd, const iovec* vectors, int count), (fd, vectors, count),               \
    ::syscall(SYS_readv, fd, vectors, count))                                                      \
  X(ssize_t, writev, (int fd, const iovec* vectors, int count), (fd, vectors, count),              \
    ::syscall(SYS_writev, fd, vectors, count))                                                     \
  X(ssize_t, preadv, (int fd, const iovec* vectors, int count, off_t offset),                      \
    (fd, vectors, count, offset), ::syscall(SYS_preadv, fd, vectors, count, offset, 0L))           \
  X(ssize_t, pwritev, (int fd, const iovec* vectors, int count, off_t offset),                     \
    (fd, vectors, count, offset), ::syscall(SYS_pwritev, fd, vectors, count, offset, 0L))          \
  X(ssize_t, preadv2, (int fd, const iovec* vectors, int count, off_t offset, int flags),          \
    (fd, vectors, count, offset, flags),                                                           \
    ::syscall(SYS_preadv2, fd, vectors, count, offset, 0L, flags))                                 \
  X(ssize_t, pwritev2, (int fd, const iovec* vectors, int count, off_t offset, int flags),         \
    (fd, vectors, count, offset, flags),                                                           \
    ::syscall(SYS_pwritev2, fd, vectors, count, offset, 0L, flags))                                \
  X(off_t, lseek, (int fd, off_t offset, int whence), (fd, offset, whence),                        \
    ::syscall(SYS_lseek, fd, offset, whence))                                                      \
  X(int, fsync, (int fd), (fd), static_cast<int>(::syscall(SYS_fsync, fd)))                        \
  X(int, fdatasync, (int fd), (fd), static_cast<int>(::syscall(SYS_fdatasync, fd)))                \
  X(int, sync_file_range, (int fd, off_t offset, off_t bytes, unsigned flags),                     \
    (fd, offset, bytes, flags),                                                                    \
    static_cast<int>(::syscall(SYS_sync_file_range, fd, offset, bytes, flags)))                    \
  X(int, ftruncate, (int fd, off_t bytes), (fd, bytes),                                            \
    static_cast<int>(::syscall(SYS_ftruncate, fd, bytes)))                                         \
  X(void*, mmap, (void* at, size_t bytes, int protection, int flags, int fd, off_t offset),        \
    (at, bytes, protection, flags, fd, offset),                                                    \
    reinterpret_cast<void*>(::syscall(SYS_mmap, at, bytes, protection, flags, fd, offset)))        \
  X(int, dup, (int fd), (fd), static_cast<int>(::syscall(SYS_dup, fd)))                            \
  X(int, dup3, (int fd, int to, int flags), (fd, to, flags),                                       \
    static_cast<int>(::syscall(SYS_dup3, fd, to, flags)))                                          \
  X(int, fcntl, (int fd, int command, void* argument), (fd, command, argument),                    \
    static_cast<int>(::syscall(SYS_fcntl, fd, command, argument)))                                 \
  X(ssize_t, sendfile, (int to, int from, off_t* offset, size_t bytes), (to, from, offset, bytes), \
    ::syscall(SYS_sendfile, to, from, offset, bytes))                                              \
  X(ssize_t, copy_file_range,                                                                      \
    (int from, off_t* from_at, int to, off_t* to_at, size_t bytes, unsigned flags),                \
    (from, from_at, to, to_at, bytes, flags),                                                      \
    ::syscall(SYS_copy_file_range, from, from_at, to, to_at, bytes, flags))                        \
  X(ssize_t, splice,                                                                               \
    (int from, off_t* from_at, int to, off_t* to_at, size_t bytes, unsigned flags),                \
    (from, from_at, to, to_at, bytes, flags),                                                      \
    ::syscall(SYS_splice, from, from_at, to, to_at, bytes, flags))                                 \
  X(int, umount2, (const char* target, int flags), (target, flags),                                \
    static_cast<int>(::syscall(SYS_umount2, target, flags)))                                       \
  X(int, rmdir, (const char* path), (path),                                                        \
    static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR)))                       \
  X(int, unlinkat, (int dir, const char* path, int flags), (dir, path, flags),                     \
    static_cast<int>(::syscall(SYS_unlinkat, dir, path, flags)))                                   \
  X(int, inotify_init1, (int flags), (flags),                                                      \
    static_cast<int>(::syscall(SYS_inotify_init1, flags)))                                         \
  X(int, fanotify_init, (unsigned flags, unsigned event_flags), (flags, event_flags),              \
    static_cast<int>(::syscall(SYS_fanotify_init, flags, event_flags)))                            \
  X(int, execve, (const char* path, char* const* argv, char* const* envp), (path, argv, envp),     \
    static_cast<int>(::syscall(SYS_execve, path, argv, envp)))                                     \
  X(int, execveat, (int dir, const char* path, char* const* argv, char* const* envp, int flags),   \
    (dir, path, argv, envp, flags),                                                                \
    static_cast<int>(::syscall(SYS_execveat, dir, path, argv, envp, flags)))

// X(result, name, parameters, arguments): no system call does the same.
#define IOWEAVE_REAL_LIBRARY_CALLS(X)                                                             \
  X(int, __open_2, (const char* path, int flags), (path, flags))                                  \
  X(int, __openat_2, (int dir, const char* path, int flags), (dir, path, flags))                  \
  X(ssize_t, __read_chk, (int fd, void* buffer, size_t bytes, size_t size),                       \
    (fd, buffer, bytes, size))                                                                    \
  X(ssize_t, __pread_chk, (int fd, void* buffer, size_t bytes, off_t offset, size_t size),        \
    (fd, buffer, bytes, offset, size))                                                            \
  X(FILE*, fdopen, (int fd, const char* mode), (fd, mode))                                        \
  X(int, dup2, (int fd, int to), (fd, to))                                                        \
  X(void, closefrom, (int first), (first))                                                        \
  X(int, fexecve, (int fd, char* const* argv, char* const* envp), (fd, argv, envp))               \
  X(int, execvpe, (const char* file, char* const* argv, char* const* envp), (file, argv, envp))   \
  X(int, umount, (const char* target), (target))                                                  \
  X(int, remove, (const char* path), (path))                                                      \
  X(int, inotify_init, (), ())                                                                    \
  X(pid_t, _Fork, (), ())                                                                         \
  X(void, quick_exit, (int status), (status))                                                     \
  X(int, prctl, (int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d), \
    (option, a, b, c, d))

struct Table {
  // open, openat, fcntl and prctl are variadic in C; on the psABIs of x86-64 and aarch64 Linux
  // a call with the arguments in place is the same call.
#define IOWEAVE_FIELD(result, name, parameters, ...) result(*name) parameters;
  IOWEAVE_REAL_CALLS(IOWEAVE_FIELD)
  IOWEAVE_REAL_LIBRARY_CALLS(IOWEAVE_FIELD)
#undef IOWEAVE_FIELD
};

/// Written by resolve() while the loader runs constructors, constant afterwards.
extern Table table;

/// Looks everything up. Once, from the constructor.
void resolve() noexcept;

#define IOWEAVE_INLINE(result, name, parameters, arguments, fallback) \
  inline result name parameters {                                     \
    if (auto* const next = table.name; next != nullptr) [[likely]] {  \
      return next arguments;                                          \
    }                                                                 \
    return fallback;                                                  \
  }
IOWEAVE_REAL_CALLS(IOWEAVE_INLINE)
#undef IOWEAVE_INLINE

#define IOWEAVE_INLINE(result, name, parameters, arguments)                          \
  inline result name parameters {                                                    \
    auto* next = table.name;                                                         \
    if (next == nullptr) [[unlikely]] {                                              \
      next = reinterpret_cast<decltype(next)>(dlsym(RTLD_NEXT, #name)); /* NOLINT */ \
    }                                                                                \
    return next arguments;                                                           \
  }
IOWEAVE_REAL_LIBRARY_CALLS(IOWEAVE_INLINE)
#undef IOWEAVE_INLINE

}  // namespace ioweave::calls::real
