/* Opens, closes, copies of descriptors, their flags, locks and leases, and the limits around. */
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int dir, const char* path, int flags);
int __openat64_2(int dir, const char* path, int flags);

enum { kDescriptors = 1024 };

static int any_open_flags(void) {
  static const int modes[] = {O_RDONLY, O_RDWR, O_RDWR, O_WRONLY};
  static const int extra[] = {
      0,          0,          0,        0,         O_APPEND, O_TRUNC,   O_EXCL,
      O_DIRECT,   O_DIRECT,   O_DIRECT, O_CLOEXEC, O_PATH,   O_NOATIME, O_DIRECT | O_APPEND,
      O_NOFOLLOW, O_DIRECTORY};
  if ((theme & kThemeDirect) != 0 && below(4) != 0)
    return O_RDWR | O_CREAT | O_DIRECT | (below(20) == 0 ? O_TRUNC : 0);
  const int synced = below(24) == 0 ? below(2) != 0 ? O_DSYNC : O_SYNC : 0;
  return modes[below(4)] | (below(4) != 0 ? O_CREAT : 0) | extra[below(16)] | synced;
}

static long open_by(long kind, const char* name, int flags) {
  switch (kind) {
    case 0:
      return DO(open64)(name, flags, 0640);
    case 1:
      return DO(openat)(AT_FDCWD, name, flags, 0640);
    case 2:
      return DO(openat64)(AT_FDCWD, name, flags, 0640);
    case 3:
      return DO(creat)(name, 0640);
    case 4:
      return DO(creat64)(name, 0640);
    case 5:
      return DO(__open_2)(name, flags & ~O_CREAT);
    case 6:
      return DO(__open64_2)(name, flags & ~O_CREAT);
    case 7:
      return DO(__openat_2)(AT_FDCWD, name, flags & ~O_CREAT);
    case 8:
      return DO(__openat64_2)(AT_FDCWD, name, flags & ~O_CREAT);
    case 9:
      return DO(syscall)(SYS_openat, AT_FDCWD, name, flags, 0640);
    case 10:
      return DO(open)(".", O_TMPFILE | (flags & (O_DIRECT | O_APPEND)) | O_RDWR, 0640);
    case 11:
      return DO(openat)(any_fd(), name, flags, 0640); /* ENOTDIR, or in a folder */
    default:
      return DO(open)(name, flags, 0640);
  }
}

/* The name is one of chance, so the file gets another one. */
static long open_temporary(const char* name, int flags) {
  char path[] = "tXXXXXX.t";
  const int others = flags & (O_APPEND | O_CLOEXEC | O_DIRECT | O_SYNC | O_DSYNC);
  if (below(2) == 0) path[7] = '\0';
  const int suffix = path[7] != '\0' ? 2 : 0;
  long fd = -1;
  switch (below(8)) {
    case 0:
      fd = DO(mkstemps)(path, suffix);
      break;
    case 1:
      fd = DO(mkstemps64)(path, suffix);
      break;
    case 2:
      fd = DO(mkostemps)(path, suffix, others);
      break;
    case 3:
      fd = DO(mkostemps64)(path, suffix, others);
      break;
    case 4:
      fd = DO(mkstemp)(path); /* EINVAL with a suffix */
      break;
    case 5:
      fd = DO(mkstemp64)(path);
      break;
    case 6:
      fd = DO(mkostemp)(path, others);
      break;
    default:
      fd = DO(mkostemp64)(path, others);
      break;
  }
  const int saved = errno;
  if (fd >= 0 && rename(path, name) != 0) unlink(path);
  errno = saved;
  return fd;
}

void open_somehow(void) {
  const int slot = any_slot();
  const int flags = any_open_flags();
  const char* const name = any_name();
  const long kind = below(24);
  const long fd = kind < 22 ? open_by(kind, name, flags) : open_temporary(name, flags);
  report(name, kind, flags, slot, fd);
  keep(slot, fd);
}

static long close_many(int fd) {
  static const unsigned ends[] = {1, 3, 30};
  const unsigned first = (unsigned)(fd > 2 ? fd : 3);
  const unsigned last = below(6) == 0 ? ~0u : first + ends[below(3)];
  switch (below(5)) {
    case 0:
      return DO(close_range)(first, last, CLOSE_RANGE_CLOEXEC);
    case 1:
      if ((theme & kThemeUnshares) == 0) return DO(close_range)(first, first - 1, 0);
      return DO(close_range)(first, last, CLOSE_RANGE_UNSHARE);
    case 2:
      return DO(syscall)(SYS_close_range, first, last, 0);
    case 3:
      if (below(4) != 0) return DO(close_range)(first, first + 1, 0);
      DO(closefrom)((int)first);
      return 0;
    default:
      return DO(close_range)(first, last, 0);
  }
}

void close_somehow(void) {
  const int fd = any_fd();
  if (fd == 0 || fd == 1 || fd == 2) return;
  const long kind = below(12);
  if (kind == 0) {
    report("raw close", fd, 0, 0, DO(syscall)(SYS_close, fd));
  } else if (kind == 1) {
    report("close many", fd, 0, 0, close_many(fd));
  } else {
    report("close", fd, 0, 0, DO(close)(fd));
    for (int i = 0; i < kSlots; ++i) {
      if (slots[i] == fd && below(2) != 0) slots[i] = -1;
    }
  }
}

void copy_descriptor(void) {
  const int fd = any_fd();
  const int slot = any_slot();
  const long onto = below(6) == 0   ? 700 + below(300)
                    : below(3) == 0 ? 3 + below(60)
                                    : slots[any_slot()];
  if (onto >= 0 && onto < 3) return;
  long result = 0;
  const long kind = below(8);
  switch (kind) {
    case 0:
    case 1:
      result = DO(dup)(fd);
      break;
    case 2:
    case 3:
      result = DO(dup2)(fd, (int)onto);
      break;
    case 4:
      result = DO(dup3)(fd, (int)onto, below(2) != 0 ? O_CLOEXEC : 0);
      break;
    case 5:
      result = DO(fcntl)(fd, F_DUPFD, onto < 0 ? 3 : onto);
      break;
    case 6:
      result = DO(fcntl64)(fd, F_DUPFD_CLOEXEC, 10);
      break;
    default:
      result = DO(syscall)(SYS_dup3, fd, (int)onto, 0);
      break;
  }
  report("dup", kind, fd, onto, result);
  keep(slot, result);
}

/* Everything stays O_NONBLOCK, or a pipe would wait for ever. */
void change_descriptor(void) {
  static const int flags[] = {0, O_APPEND, O_DIRECT, O_APPEND | O_DIRECT, O_NOATIME};
  const int fd = any_fd();
  const int is_kept = (theme & kThemeDirect) != 0 && below(4) != 0;
  const int wanted = (is_kept ? O_DIRECT : flags[below(5)]) | O_NONBLOCK;
  switch (below(6)) {
    case 0:
      report_on(fd, "F_SETFL", wanted, 0, DO(fcntl64)(fd, F_SETFL, wanted));
      break;
    case 1:
      report_on(fd, "raw F_SETFL", wanted, 0, DO(syscall)(SYS_fcntl, fd, F_SETFL, wanted));
      break;
    case 2:
      report("F_SETFD", fd, 0, 0, DO(fcntl)(fd, F_SETFD, below(3) == 0 ? FD_CLOEXEC : 0));
      break;
    case 3:
      report("F_GETFD", fd, 0, 0, DO(fcntl)(fd, F_GETFD));
      break;
    default:
      report_on(fd, "F_SETFL", wanted, 0, DO(fcntl)(fd, F_SETFL, wanted));
      break;
  }
}

void lock_somehow(void) {
  const int fd = any_fd();
  struct flock lock;
  memset(&lock, 0, sizeof lock);
  static const short types[] = {F_RDLCK, F_WRLCK, F_UNLCK, F_WRLCK};
  lock.l_type = types[below(4)];
  lock.l_whence = SEEK_SET;
  lock.l_start = below(10) * 1000;
  lock.l_len = below(3) * 1000;
  const long kind = below(7);
  switch (kind) {
    case 0:
    case 1:
      report("F_SETLK", fd, lock.l_type, lock.l_start, DO(fcntl)(fd, F_SETLK, &lock));
      break;
    case 2:
      report("F_OFD_SETLK", fd, lock.l_type, lock.l_start, DO(fcntl)(fd, F_OFD_SETLK, &lock));
      break;
    case 3: {
      const long result = DO(fcntl64)(fd, F_GETLK, &lock);
      report("F_GETLK", fd, lock.l_type, lock.l_start, result);
      break;
    }
    case 4: {
      /* Taken and given back at once: whoever else opens the file would wait. */
      const int type = below(2) != 0 ? F_WRLCK : F_RDLCK;
      const long result = DO(fcntl)(fd, F_SETLEASE, type);
      report("F_SETLEASE", fd, type, 0, result);
      if (result == 0) report("  gone", fd, 0, 0, DO(fcntl)(fd, F_SETLEASE, F_UNLCK));
      break;
    }
    default: {
      static const int hows[] = {LOCK_SH, LOCK_EX, LOCK_UN};
      const int how = hows[below(3)];
      report("flock", fd, how, 0, DO(flock)(fd, how | LOCK_NB));
      break;
    }
  }
}

void look_somehow(void) {
  const int fd = any_fd();
  const char* const name = any_name();
  struct stat status;
  memset(&status, 0, sizeof status);
  switch (below(5)) {
    case 0: {
      const long result = DO(stat)(name, &status);
      report("stat", S_ISREG(status.st_mode) ? status.st_size : 0, status.st_mode, 0, result);
      break;
    }
    case 1: {
      const long result = DO(lstat)(name, &status);
      report("lstat", S_ISREG(status.st_mode) ? status.st_size : 0, status.st_mode, 0, result);
      break;
    }
    case 2:
      report("fchmod", fd, 0, 0, DO(fchmod)(fd, below(2) != 0 ? 0600 : 0640));
      break;
    case 3: {
      static const int options[] = {PR_GET_DUMPABLE, PR_GET_NO_NEW_PRIVS, PR_GET_KEEPCAPS, -5};
      const int option = options[below(4)];
      report("prctl", option, 0, 0,
             below(2) != 0 ? DO(prctl)(option, 0, 0, 0, 0)
                           : DO(syscall)(SYS_prctl, option, 0, 0, 0, 0));
      break;
    }
    default:
      report_on(fd, "F_GETFL", 0, 0, DO(fcntl)(fd, F_GETFL));
      break;
  }
}

/* Ends that never block. */
void make_ends(void) {
  int ends[2];
  const long result = below(2) != 0 ? DO(pipe2)(ends, O_NONBLOCK)
                                    : DO(socketpair)(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends);
  report("ends", 0, 0, 0, result);
  if (result != 0) return;
  const int first = any_slot();
  keep(first, ends[0]);
  keep((first + 1) % kSlots, ends[1]);
}

void surroundings(void) {
  const long choice = below(3);
  if (choice == 0) {
    /* Whole sectors: a direct write is cut there. */
    const struct rlimit limit = {below(3) == 0 ? 300 * 512 : RLIM_INFINITY, RLIM_INFINITY};
    report("RLIMIT_FSIZE", (long)limit.rlim_cur, 0, 0, DO(setrlimit)(RLIMIT_FSIZE, &limit));
  } else if (choice == 1) {
    const long us = (theme & kThemeAlarms) != 0 && below(3) != 0 ? 700 : 0;
    const struct itimerval when = {{0, us}, {0, us}};
    report("timer", us, 0, 0, DO(setitimer)(ITIMER_REAL, &when, NULL));
  } else {
    const struct rlimit limit = {below(3) == 0 ? 40 : kDescriptors, kDescriptors};
    report("RLIMIT_NOFILE", (long)limit.rlim_cur, 0, 0, DO(setrlimit)(RLIMIT_NOFILE, &limit));
  }
}
