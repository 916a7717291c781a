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
// open, openat, fcntl, ioctl, prctl, sem_open and semctl are variadic in C; on the psABIs of x86-64
// and aarch64 Linux a call with the arguments in place is the same call.

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
  SAME(__openat64_2, __openat_2)                                                                   \
  CALL(mkstemp, int, (char* path), (path))                                                         \
  SAME(mkstemp64, mkstemp)                                                                         \
  CALL(mkostemp, int, (char* path, int flags), (path, flags))                                      \
  SAME(mkostemp64, mkostemp)                                                                       \
  CALL(mkstemps, int, (char* path, int suffix), (path, suffix))                                    \
  SAME(mkstemps64, mkstemps)                                                                       \
  CALL(mkostemps, int, (char* path, int suffix, int flags), (path, suffix, flags))                 \
  SAME(mkostemps64, mkostemps)

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

/// What tells the program, or somebody else, what is in a file, how long it is, where it is or when
/// it was written; or waits for that. Each comes after the writes that are held back, and is
/// otherwise the real call.
#define IOWEAVE_EXPOSURES(CALL, SAME, NAME)                                                       \
  CALL(mkdir, int, (const char* path, mode_t mode), (path, mode))                                 \
  CALL(mkdirat, int, (int dir, const char* path, mode_t mode), (dir, path, mode))                 \
  CALL(symlink, int, (const char* target, const char* path), (target, path))                      \
  CALL(symlinkat, int, (const char* target, int dir, const char* path), (target, dir, path))      \
  CALL(mknod, int, (const char* path, mode_t mode, dev_t device), (path, mode, device))           \
  CALL(mknodat, int, (int dir, const char* path, mode_t mode, dev_t device),                      \
       (dir, path, mode, device))                                                                 \
  CALL(mkfifo, int, (const char* path, mode_t mode), (path, mode))                                \
  CALL(mkfifoat, int, (int dir, const char* path, mode_t mode), (dir, path, mode))                \
  CALL(setxattr, int,                                                                             \
       (const char* path, const char* name, const void* value, size_t bytes, int flags),          \
       (path, name, value, bytes, flags))                                                         \
  CALL(lsetxattr, int,                                                                            \
       (const char* path, const char* name, const void* value, size_t bytes, int flags),          \
       (path, name, value, bytes, flags))                                                         \
  CALL(fsetxattr, int, (int fd, const char* name, const void* value, size_t bytes, int flags),    \
       (fd, name, value, bytes, flags))                                                           \
  CALL(removexattr, int, (const char* path, const char* name), (path, name))                      \
  CALL(lremovexattr, int, (const char* path, const char* name), (path, name))                     \
  CALL(fremovexattr, int, (int fd, const char* name), (fd, name))                                 \
  CALL(bind, int, (int fd, const struct sockaddr* at, socklen_t at_bytes), (fd, at, at_bytes))    \
  CALL(listen, int, (int fd, int waiting), (fd, waiting))                                         \
  CALL(connect, int, (int fd, const struct sockaddr* to, socklen_t to_bytes), (fd, to, to_bytes)) \
  CALL(shutdown, int, (int fd, int how), (fd, how))                                               \
  CALL(tee, ssize_t, (int from, int to, size_t bytes, unsigned flags), (from, to, bytes, flags))  \
  CALL(vmsplice, ssize_t, (int fd, const iovec* vectors, size_t count, unsigned flags),           \
       (fd, vectors, count, flags))                                                               \
  CALL(eventfd_write, int, (int fd, eventfd_t value), (fd, value))                                \
  CALL(killpg, int, (pid_t group, int signal), (group, signal))                                   \
  CALL(tgkill, int, (pid_t group, pid_t thread, int signal), (group, thread, signal))             \
  CALL(sigqueue, int, (pid_t pid, int signal, const union sigval value), (pid, signal, value))    \
  CALL(raise, int, (int signal), (signal))                                                        \
  CALL(abort, void, (), ())                                                                       \
  CALL(process_vm_writev, ssize_t,                                                                \
       (pid_t pid, const iovec* from, unsigned long from_count, const iovec* to,                  \
        unsigned long to_count, unsigned long flags),                                             \
       (pid, from, from_count, to, to_count, flags))                                              \
  CALL(sem_open, sem_t*, (const char* name, int flags, mode_t mode, unsigned value),              \
       (name, flags, mode, value))                                                                \
  CALL(semctl, int, (int semaphores, int number, int command, void* argument),                    \
       (semaphores, number, command, argument))                                                   \
  CALL(sem_post, int, (sem_t * semaphore), (semaphore))                                           \
  CALL(semop, int, (int semaphores, struct sembuf* operations, size_t count),                     \
       (semaphores, operations, count))                                                           \
  CALL(semtimedop, int,                                                                           \
       (int semaphores, struct sembuf* operations, size_t count, const struct timespec* timeout), \
       (semaphores, operations, count, timeout))                                                  \
  CALL(msgsnd, int, (int queue, const void* message, size_t bytes, int flags),                    \
       (queue, message, bytes, flags))                                                            \
  CALL(mq_send, int, (mqd_t queue, const char* message, size_t bytes, unsigned priority),         \
       (queue, message, bytes, priority))                                                         \
  CALL(mq_timedsend, int,                                                                         \
       (mqd_t queue, const char* message, size_t bytes, unsigned priority,                        \
        const struct timespec* timeout),                                                          \
       (queue, message, bytes, priority, timeout))                                                \
  CALL(fflush, int, (FILE * stream), (stream))                                                    \
  CALL(fclose, int, (FILE * stream), (stream))                                                    \
  CALL(pclose, int, (FILE * stream), (stream))                                                    \
  CALL(ftw, int, (const char* path, __ftw_func_t call, int descriptors),                          \
       (path, call, descriptors))                                                                 \
  SAME(ftw64, ftw)                                                                                \
  CALL(nftw, int, (const char* path, __nftw_func_t call, int descriptors, int flags),             \
       (path, call, descriptors, flags))                                                          \
  SAME(nftw64, nftw)                                                                              \
  CALL(fts_open, FTS*,                                                                            \
       (char* const* paths, int options, int (*compare)(const FTSENT**, const FTSENT**)),         \
       (paths, options, compare))                                                                 \
  SAME(fts64_open, fts_open)                                                                      \
  CALL(fts_read, FTSENT*, (FTS * walk), (walk))                                                   \
  SAME(fts64_read, fts_read)                                                                      \
  CALL(fts_children, FTSENT*, (FTS * walk, int options), (walk, options))                         \
  SAME(fts64_children, fts_children)                                                              \
  CALL(wordexp, int, (const char* words, wordexp_t* expanded, int flags),                         \
       (words, expanded, flags))                                                                  \
  CALL(aio_fsync, int, (int operation, struct aiocb* request), (operation, request))              \
  SAME(aio_fsync64, aio_fsync)                                                                    \
  CALL(stat, int, (const char* path, struct stat* status), (path, status))                        \
  SAME(stat64, stat)                                                                              \
  CALL(lstat, int, (const char* path, struct stat* status), (path, status))                       \
  SAME(lstat64, lstat)                                                                            \
  CALL(fstat, int, (int fd, struct stat* status), (fd, status))                                   \
  SAME(fstat64, fstat)                                                                            \
  CALL(fstatat, int, (int dir, const char* path, struct stat* status, int flags),                 \
       (dir, path, status, flags))                                                                \
  SAME(fstatat64, fstatat)                                                                        \
  CALL(__xstat, int, (int version, const char* path, struct stat* status),                        \
       (version, path, status))                                                                   \
  SAME(__xstat64, __xstat)                                                                        \
  CALL(__lxstat, int, (int version, const char* path, struct stat* status),                       \
       (version, path, status))                                                                   \
  SAME(__lxstat64, __lxstat)                                                                      \
  CALL(__fxstat, int, (int version, int fd, struct stat* status), (version, fd, status))          \
  SAME(__fxstat64, __fxstat)                                                                      \
  CALL(__fxstatat, int, (int version, int dir, const char* path, struct stat* status, int flags), \
       (version, dir, path, status, flags))                                                       \
  SAME(__fxstatat64, __fxstatat)                                                                  \
  CALL(statx, int, (int dir, const char* path, int flags, unsigned mask, struct statx* status),   \
       (dir, path, flags, mask, status))                                                          \
  CALL(statfs, int, (const char* path, struct statfs* status), (path, status))                    \
  SAME(statfs64, statfs)                                                                          \
  CALL(fstatfs, int, (int fd, struct statfs* status), (fd, status))                               \
  SAME(fstatfs64, fstatfs)                                                                        \
  CALL(statvfs, int, (const char* path, struct statvfs* status), (path, status))                  \
  SAME(statvfs64, statvfs)                                                                        \
  CALL(fstatvfs, int, (int fd, struct statvfs* status), (fd, status))                             \
  SAME(fstatvfs64, fstatvfs)                                                                      \
  CALL(truncate, int, (const char* path, off_t bytes), (path, bytes))                             \
  SAME(truncate64, truncate)                                                                      \
  CALL(fallocate, int, (int fd, int mode, off_t offset, off_t bytes), (fd, mode, offset, bytes))  \
  SAME(fallocate64, fallocate)                                                                    \
  CALL(posix_fallocate, int, (int fd, off_t offset, off_t bytes), (fd, offset, bytes))            \
  SAME(posix_fallocate64, posix_fallocate)                                                        \
  CALL(rename, int, (const char* from, const char* to), (from, to))                               \
  CALL(renameat, int, (int from_dir, const char* from, int to_dir, const char* to),               \
       (from_dir, from, to_dir, to))                                                              \
  CALL(renameat2, int,                                                                            \
       (int from_dir, const char* from, int to_dir, const char* to, unsigned flags),              \
       (from_dir, from, to_dir, to, flags))                                                       \
  CALL(link, int, (const char* from, const char* to), (from, to))                                 \
  CALL(linkat, int, (int from_dir, const char* from, int to_dir, const char* to, int flags),      \
       (from_dir, from, to_dir, to, flags))                                                       \
  CALL(unlink, int, (const char* path), (path))                                                   \
  CALL(ioctl, int, (int fd, unsigned long request, void* argument), (fd, request, argument))      \
  CALL(sync, void, (), ())                                                                        \
  CALL(syncfs, int, (int fd), (fd))                                                               \
  CALL(msync, int, (void* address, size_t bytes, int flags), (address, bytes, flags))             \
  CALL(utime, int, (const char* path, const struct utimbuf* times), (path, times))                \
  CALL(utimes, int, (const char* path, const struct timeval* times), (path, times))               \
  CALL(lutimes, int, (const char* path, const struct timeval* times), (path, times))              \
  CALL(futimes, int, (int fd, const struct timeval* times), (fd, times))                          \
  CALL(futimesat, int, (int dir, const char* path, const struct timeval* times),                  \
       (dir, path, times))                                                                        \
  CALL(utimensat, int, (int dir, const char* path, const struct timespec* times, int flags),      \
       (dir, path, times, flags))                                                                 \
  CALL(futimens, int, (int fd, const struct timespec* times), (fd, times))                        \
  CALL(chmod, int, (const char* path, mode_t mode), (path, mode))                                 \
  CALL(fchmod, int, (int fd, mode_t mode), (fd, mode))                                            \
  CALL(fchmodat, int, (int dir, const char* path, mode_t mode, int flags),                        \
       (dir, path, mode, flags))                                                                  \
  CALL(chown, int, (const char* path, uid_t owner, gid_t group), (path, owner, group))            \
  CALL(lchown, int, (const char* path, uid_t owner, gid_t group), (path, owner, group))           \
  CALL(fchown, int, (int fd, uid_t owner, gid_t group), (fd, owner, group))                       \
  CALL(fchownat, int, (int dir, const char* path, uid_t owner, gid_t group, int flags),           \
       (dir, path, owner, group, flags))                                                          \
  CALL(setrlimit, int, (int what, const struct rlimit* limit), (what, limit))                     \
  SAME(setrlimit64, setrlimit)                                                                    \
  CALL(prlimit, int, (pid_t pid, int what, const struct rlimit* limit, struct rlimit* before),    \
       (pid, what, limit, before))                                                                \
  SAME(prlimit64, prlimit)                                                                        \
  CALL(vdprintf, int, (int fd, const char* format, va_list arguments), (fd, format, arguments))   \
  CALL(__vdprintf_chk, int, (int fd, int flag, const char* format, va_list arguments),            \
       (fd, flag, format, arguments))                                                             \
  CALL(send, ssize_t, (int fd, const void* buffer, size_t bytes, int flags),                      \
       (fd, buffer, bytes, flags))                                                                \
  CALL(sendto, ssize_t,                                                                           \
       (int fd, const void* buffer, size_t bytes, int flags, const struct sockaddr* to,           \
        socklen_t to_bytes),                                                                      \
       (fd, buffer, bytes, flags, to, to_bytes))                                                  \
  CALL(sendmsg, ssize_t, (int fd, const struct msghdr* message, int flags), (fd, message, flags)) \
  CALL(sendmmsg, int, (int fd, struct mmsghdr* messages, unsigned count, int flags),              \
       (fd, messages, count, flags))                                                              \
  CALL(kill, int, (pid_t pid, int signal), (pid, signal))                                         \
  CALL(posix_spawn, int,                                                                          \
       (pid_t * pid, const char* path, const posix_spawn_file_actions_t* actions,                 \
        const posix_spawnattr_t* attributes, char* const* argv, char* const* envp),               \
       (pid, path, actions, attributes, argv, envp))                                              \
  CALL(posix_spawnp, int,                                                                         \
       (pid_t * pid, const char* file, const posix_spawn_file_actions_t* actions,                 \
        const posix_spawnattr_t* attributes, char* const* argv, char* const* envp),               \
       (pid, file, actions, attributes, argv, envp))                                              \
  CALL(system, int, (const char* command), (command))                                             \
  CALL(popen, FILE*, (const char* command, const char* mode), (command, mode))

/// What gives the process other rights. What it holds back was written with the old ones.
#define IOWEAVE_CREDENTIALS(CALL, SAME, NAME)                                                  \
  CALL(setuid, int, (uid_t user), (user))                                                      \
  CALL(seteuid, int, (uid_t user), (user))                                                     \
  CALL(setreuid, int, (uid_t user, uid_t effective), (user, effective))                        \
  CALL(setresuid, int, (uid_t user, uid_t effective, uid_t saved), (user, effective, saved))   \
  CALL(setfsuid, int, (uid_t user), (user))                                                    \
  CALL(setgid, int, (gid_t group), (group))                                                    \
  CALL(setegid, int, (gid_t group), (group))                                                   \
  CALL(setregid, int, (gid_t group, gid_t effective), (group, effective))                      \
  CALL(setresgid, int, (gid_t group, gid_t effective, gid_t saved), (group, effective, saved)) \
  CALL(setfsgid, int, (gid_t group), (group))                                                  \
  CALL(setgroups, int, (size_t count, const gid_t* groups), (count, groups))                   \
  CALL(initgroups, int, (const char* user, gid_t group), (user, group))

/// What lets the C library read and write a file by itself, or takes a program with one thread
/// only. Each does something more than to come after the writes that are held back.
#define IOWEAVE_HANDOVERS(CALL, SAME, NAME)                                                      \
  CALL(flock, int, (int fd, int operation), (fd, operation))                                     \
  CALL(lockf, int, (int fd, int command, off_t bytes), (fd, command, bytes))                     \
  SAME(lockf64, lockf)                                                                           \
  CALL(fopen, FILE*, (const char* path, const char* mode), (path, mode))                         \
  SAME(fopen64, fopen)                                                                           \
  CALL(freopen, FILE*, (const char* path, const char* mode, FILE* stream), (path, mode, stream)) \
  SAME(freopen64, freopen)                                                                       \
  CALL(aio_read, int, (struct aiocb * request), (request))                                       \
  SAME(aio_read64, aio_read)                                                                     \
  CALL(aio_write, int, (struct aiocb * request), (request))                                      \
  SAME(aio_write64, aio_write)                                                                   \
  CALL(lio_listio, int,                                                                          \
       (int mode, struct aiocb* const* requests, int count, struct sigevent* event),             \
       (mode, requests, count, event))                                                           \
  SAME(lio_listio64, lio_listio)                                                                 \
  NAME(dprintf)                                                                                  \
  NAME(__dprintf_chk)                                                                            \
  CALL(unshare, int, (int flags), (flags))                                                       \
  CALL(setns, int, (int fd, int type), (fd, type))                                               \
  CALL(shmat, void*, (int id, const void* address, int flags), (id, address, flags))             \
  CALL(wait, pid_t, (int* status), (status))                                                     \
  CALL(waitpid, pid_t, (pid_t which, int* status, int options), (which, status, options))        \
  CALL(wait3, pid_t, (int* status, int options, struct rusage* usage), (status, options, usage)) \
  CALL(wait4, pid_t, (pid_t which, int* status, int options, struct rusage* usage),              \
       (which, status, options, usage))                                                          \
  CALL(waitid, int, (idtype_t type, id_t id, siginfo_t * info, int options),                     \
       (type, id, info, options))

#define IOWEAVE_WRAPPED_CALLS(CALL, SAME, NAME) \
  IOWEAVE_OPENS(CALL, SAME, NAME)               \
  IOWEAVE_CLOSES(CALL, SAME, NAME)              \
  IOWEAVE_TASK_CALLS(CALL, SAME, NAME)          \
  IOWEAVE_TRANSFERS(CALL, SAME, NAME)           \
  IOWEAVE_POSITIONS(CALL, SAME, NAME)           \
  IOWEAVE_SHARES(CALL, SAME, NAME)              \
  IOWEAVE_RELEASES(CALL, SAME, NAME)            \
  IOWEAVE_PROCESSES(CALL, SAME, NAME)

/// What libioweave_preload_behind.so exports: where writes are held back, more calls could tell.
#define IOWEAVE_ALL_CALLS(CALL, SAME, NAME) \
  IOWEAVE_WRAPPED_CALLS(CALL, SAME, NAME)   \
  IOWEAVE_EXPOSURES(CALL, SAME, NAME)       \
  IOWEAVE_CREDENTIALS(CALL, SAME, NAME)     \
  IOWEAVE_HANDOVERS(CALL, SAME, NAME)

/// A macro for rows that are of no interest.
#define IOWEAVE_SKIP(...)
