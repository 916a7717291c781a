#pragma once

// The functions of the C library that our libraries replace, by class of action: the only place
// that lists them. No declaration and no include, for the linker's input is made of it, too.
//
// What comes of it: the real functions (real.hpp); the calls of our own parts (own_calls.cpp, and
// own_calls.in for the linker); what the two libraries export (exports.map.in); the other names of
// a function (IOWEAVE_VARIANTS of wrap.hpp). A wrapper of a name that is not here is not compiled,
// and the tests of the exports fail where a name here has no wrapper.
//
// Every list takes the macros that its rows are given to:
//
//   CALL(name, result, parameters, arguments, system call)   has a real function. Before that has
//       been looked up, the system call is made; where there is none, it is looked up then
//   SAME(name, target)   another name of `target`: on 64-bit Linux off64_t is off_t
//   NAME(name)           a wrapper that needs no real function of its own
//
// open, openat, fcntl and prctl are variadic in C; on the psABIs of x86-64 and aarch64 Linux a call
// with the arguments in place is the same call.

#define IOWEAVE_OPENS(CALL, SAME, NAME)                                                            \
  CALL(open, int, (const char* path, int flags, mode_t mode), (path, flags, mode), SYS_openat,     \
       AT_FDCWD, path, flags, mode)                                                                \
  SAME(open64, open)                                                                               \
  CALL(openat, int, (int dir, const char* path, int flags, mode_t mode), (dir, path, flags, mode), \
       SYS_openat, dir, path, flags, mode)                                                         \
  SAME(openat64, openat)                                                                           \
  CALL(creat, int, (const char* path, mode_t mode), (path, mode), SYS_openat, AT_FDCWD, path,      \
       O_CREAT | O_WRONLY | O_TRUNC, mode)                                                         \
  SAME(creat64, creat)                                                                             \
  CALL(__open_2, int, (const char* path, int flags), (path, flags))                                \
  SAME(__open64_2, __open_2)                                                                       \
  CALL(__openat_2, int, (int dir, const char* path, int flags), (dir, path, flags))                \
  SAME(__openat64_2, __openat_2)

#define IOWEAVE_CLOSES(CALL, SAME, NAME)                                                   \
  CALL(close, int, (int fd), (fd), SYS_close, fd)                                          \
  CALL(close_range, int, (unsigned first, unsigned last, int flags), (first, last, flags), \
       SYS_close_range, first, last, flags)                                                \
  CALL(closefrom, void, (int first), (first))

/// At an offset, and to the device: what pauses a task under libioweave_tasks.so, which exports
/// these alone.
#define IOWEAVE_TASK_CALLS(CALL, SAME, NAME)                                                  \
  CALL(pread, ssize_t, (int fd, void* buffer, size_t bytes, off_t offset),                    \
       (fd, buffer, bytes, offset), SYS_pread64, fd, buffer, bytes, offset)                   \
  SAME(pread64, pread)                                                                        \
  CALL(__pread_chk, ssize_t, (int fd, void* buffer, size_t bytes, off_t offset, size_t size), \
       (fd, buffer, bytes, offset, size))                                                     \
  SAME(__pread64_chk, __pread_chk)                                                            \
  CALL(preadv, ssize_t, (int fd, const iovec* vectors, int count, off_t offset),              \
       (fd, vectors, count, offset), SYS_preadv, fd, vectors, count, offset, 0L)              \
  SAME(preadv64, preadv)                                                                      \
  CALL(pwrite, ssize_t, (int fd, const void* buffer, size_t bytes, off_t offset),             \
       (fd, buffer, bytes, offset), SYS_pwrite64, fd, buffer, bytes, offset)                  \
  SAME(pwrite64, pwrite)                                                                      \
  CALL(pwritev, ssize_t, (int fd, const iovec* vectors, int count, off_t offset),             \
       (fd, vectors, count, offset), SYS_pwritev, fd, vectors, count, offset, 0L)             \
  SAME(pwritev64, pwritev)                                                                    \
  CALL(fsync, int, (int fd), (fd), SYS_fsync, fd)                                             \
  CALL(fdatasync, int, (int fd), (fd), SYS_fdatasync, fd)

/// At the position of the descriptor, with flags, and between descriptors.
#define IOWEAVE_TRANSFERS(CALL, SAME, NAME)                                                        \
  CALL(read, ssize_t, (int fd, void* buffer, size_t bytes), (fd, buffer, bytes), SYS_read, fd,     \
       buffer, bytes)                                                                              \
  CALL(__read_chk, ssize_t, (int fd, void* buffer, size_t bytes, size_t size),                     \
       (fd, buffer, bytes, size))                                                                  \
  CALL(readv, ssize_t, (int fd, const iovec* vectors, int count), (fd, vectors, count), SYS_readv, \
       fd, vectors, count)                                                                         \
  CALL(preadv2, ssize_t, (int fd, const iovec* vectors, int count, off_t offset, int flags),       \
       (fd, vectors, count, offset, flags), SYS_preadv2, fd, vectors, count, offset, 0L, flags)    \
  SAME(preadv64v2, preadv2)                                                                        \
  CALL(write, ssize_t, (int fd, const void* buffer, size_t bytes), (fd, buffer, bytes), SYS_write, \
       fd, buffer, bytes)                                                                          \
  CALL(writev, ssize_t, (int fd, const iovec* vectors, int count), (fd, vectors, count),           \
       SYS_writev, fd, vectors, count)                                                             \
  CALL(pwritev2, ssize_t, (int fd, const iovec* vectors, int count, off_t offset, int flags),      \
       (fd, vectors, count, offset, flags), SYS_pwritev2, fd, vectors, count, offset, 0L, flags)   \
  SAME(pwritev64v2, pwritev2)                                                                      \
  CALL(sendfile, ssize_t, (int to, int from, off_t* offset, size_t bytes),                         \
       (to, from, offset, bytes), SYS_sendfile, to, from, offset, bytes)                           \
  SAME(sendfile64, sendfile)                                                                       \
  CALL(copy_file_range, ssize_t,                                                                   \
       (int from, off_t* from_at, int to, off_t* to_at, size_t bytes, unsigned flags),             \
       (from, from_at, to, to_at, bytes, flags), SYS_copy_file_range, from, from_at, to, to_at,    \
       bytes, flags)                                                                               \
  CALL(splice, ssize_t,                                                                            \
       (int from, off_t* from_at, int to, off_t* to_at, size_t bytes, unsigned flags),             \
       (from, from_at, to, to_at, bytes, flags), SYS_splice, from, from_at, to, to_at, bytes,      \
       flags)

/// The position of a descriptor, the size of its file, and the ranges of it that are flushed.
#define IOWEAVE_POSITIONS(CALL, SAME, NAME)                                                   \
  CALL(lseek, off_t, (int fd, off_t offset, int whence), (fd, offset, whence), SYS_lseek, fd, \
       offset, whence)                                                                        \
  SAME(lseek64, lseek)                                                                        \
  CALL(ftruncate, int, (int fd, off_t bytes), (fd, bytes), SYS_ftruncate, fd, bytes)          \
  SAME(ftruncate64, ftruncate)                                                                \
  CALL(sync_file_range, int, (int fd, off_t offset, off_t bytes, unsigned flags),             \
       (fd, offset, bytes, flags), SYS_sync_file_range, fd, offset, bytes, flags)

/// What gives a file to another descriptor, a stream or memory.
#define IOWEAVE_SHARES(CALL, SAME, NAME)                                                          \
  CALL(dup, int, (int fd), (fd), SYS_dup, fd)                                                     \
  CALL(dup2, int, (int fd, int to), (fd, to))                                                     \
  CALL(dup3, int, (int fd, int to, int flags), (fd, to, flags), SYS_dup3, fd, to, flags)          \
  CALL(fcntl, int, (int fd, int command, void* argument), (fd, command, argument), SYS_fcntl, fd, \
       command, argument)                                                                         \
  SAME(fcntl64, fcntl)                                                                            \
  CALL(fdopen, FILE*, (int fd, const char* mode), (fd, mode))                                     \
  CALL(mmap, void*, (void* at, size_t bytes, int protection, int flags, int fd, off_t offset),    \
       (at, bytes, protection, flags, fd, offset), SYS_mmap, at, bytes, protection, flags, fd,    \
       offset)                                                                                    \
  SAME(mmap64, mmap)

/// What an open descriptor of the command's would disturb.
#define IOWEAVE_RELEASES(CALL, SAME, NAME)                                                         \
  CALL(umount2, int, (const char* target, int flags), (target, flags), SYS_umount2, target, flags) \
  CALL(umount, int, (const char* target), (target))                                                \
  CALL(rmdir, int, (const char* path), (path), SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR)         \
  CALL(unlinkat, int, (int dir, const char* path, int flags), (dir, path, flags), SYS_unlinkat,    \
       dir, path, flags)                                                                           \
  CALL(remove, int, (const char* path), (path))                                                    \
  CALL(inotify_init1, int, (int flags), (flags), SYS_inotify_init1, flags)                         \
  CALL(inotify_init, int, (), ())                                                                  \
  CALL(fanotify_init, int, (unsigned flags, unsigned event_flags), (flags, event_flags),           \
       SYS_fanotify_init, flags, event_flags)

/// The life of the process: fork, exec, exit, and what confines it.
#define IOWEAVE_PROCESSES(CALL, SAME, NAME)                                                        \
  CALL(_Fork, pid_t, (), ())                                                                       \
  NAME(vfork)                                                                                      \
  NAME(clone)                                                                                      \
  CALL(execve, int, (const char* path, char* const* argv, char* const* envp), (path, argv, envp),  \
       SYS_execve, path, argv, envp)                                                               \
  NAME(execv)                                                                                      \
  CALL(execvpe, int, (const char* file, char* const* argv, char* const* envp), (file, argv, envp)) \
  NAME(execvp)                                                                                     \
  CALL(fexecve, int, (int fd, char* const* argv, char* const* envp), (fd, argv, envp))             \
  CALL(execveat, int,                                                                              \
       (int dir, const char* path, char* const* argv, char* const* envp, int flags),               \
       (dir, path, argv, envp, flags), SYS_execveat, dir, path, argv, envp, flags)                 \
  NAME(execl)                                                                                      \
  NAME(execlp)                                                                                     \
  NAME(execle)                                                                                     \
  NAME(_exit)                                                                                      \
  NAME(_Exit)                                                                                      \
  CALL(quick_exit, void, (int status), (status))                                                   \
  CALL(prctl, int,                                                                                 \
       (int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d),           \
       (option, a, b, c, d))                                                                       \
  NAME(syscall)

#define IOWEAVE_WRAPPED_CALLS(CALL, SAME, NAME) \
  IOWEAVE_OPENS(CALL, SAME, NAME)               \
  IOWEAVE_CLOSES(CALL, SAME, NAME)              \
  IOWEAVE_TASK_CALLS(CALL, SAME, NAME)          \
  IOWEAVE_TRANSFERS(CALL, SAME, NAME)           \
  IOWEAVE_POSITIONS(CALL, SAME, NAME)           \
  IOWEAVE_SHARES(CALL, SAME, NAME)              \
  IOWEAVE_RELEASES(CALL, SAME, NAME)            \
  IOWEAVE_PROCESSES(CALL, SAME, NAME)

/// A macro for rows that are of no interest.
#define IOWEAVE_SKIP(...)
