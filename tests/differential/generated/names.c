/* Names of files, folders, sizes, holes, and who listens to what becomes of them. */
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

static const char* any_folder(void) {
  static const char* const folders[] = {"d0", "d1", "d0/d2", "d1/d2", "f0"};
  return folders[below(5)];
}

static void remove_somehow(const char* name, const char* folder) {
  switch (below(8)) {
    case 0:
      report("remove", 0, 0, 0, DO(remove)(name));
      break;
    case 1:
      report("remove folder", 0, 0, 0, DO(remove)(folder));
      break;
    case 2:
      report("unlinkat", 0, 0, 0, DO(unlinkat)(AT_FDCWD, name, 0));
      break;
    case 3:
      report("unlinkat folder", 0, 0, 0, DO(unlinkat)(AT_FDCWD, folder, AT_REMOVEDIR));
      break;
    case 4:
    case 5:
      report("rmdir", 0, 0, 0, DO(rmdir)(folder));
      break;
    default:
      report("unlink", 0, 0, 0, DO(unlink)(name));
      break;
  }
}

void change_names(void) {
  const char* const name = any_name();
  const char* const other = any_name();
  const char* const folder = any_folder();
  switch (below(10)) {
    case 0:
    case 1:
      report("mkdir", 0, 0, 0, DO(mkdir)(folder, 0750));
      break;
    case 2:
      report("rename", 0, 0, 0, DO(rename)(name, other));
      break;
    case 3:
      report("rename folder", 0, 0, 0, DO(rename)(folder, any_folder()));
      break;
    case 4:
      report("renameat2", 0, 0, 0,
             DO(renameat2)(AT_FDCWD, name, AT_FDCWD, other, below(2) != 0 ? 1 : 2));
      break;
    case 5:
      report("link", 0, 0, 0, DO(link)(name, other));
      break;
    case 6:
      report("symlink", 0, 0, 0, DO(symlink)(below(2) != 0 ? "f0" : "d0/f0", "l0"));
      break;
    default:
      remove_somehow(name, folder);
      break;
  }
}

void change_size(void) {
  const int fd = any_fd();
  const long size = below(4) == 0 ? any_offset() : below(200000);
  const char* const name = any_name();
  static const int modes[] = {0,
                              FALLOC_FL_KEEP_SIZE,
                              FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                              FALLOC_FL_COLLAPSE_RANGE,
                              FALLOC_FL_ZERO_RANGE,
                              FALLOC_FL_INSERT_RANGE,
                              FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE};
  hold_alarms();
  switch (below(10)) {
    case 0:
    case 1:
      report_on(fd, "ftruncate", size, 0, DO(ftruncate)(fd, size));
      break;
    case 2:
      report_on(fd, "ftruncate64", size, 0, DO(ftruncate64)(fd, size));
      break;
    case 3:
      report("truncate", size, 0, 0, DO(truncate)(name, size));
      break;
    case 4:
    case 5: {
      const int mode = modes[below(7)];
      const long at = below(2) != 0 ? size & ~4095L : size;
      const long count = below(2) != 0 ? 8192 : 1 + below(9000);
      report_on(fd, "fallocate", mode, at, DO(fallocate)(fd, mode, at, count));
      break;
    }
    case 6:
      report_on(fd, "fsync", 0, 0, DO(fsync)(fd));
      break;
    case 7:
      report_on(fd, "fdatasync", 0, 0, DO(fdatasync)(fd));
      break;
    case 8:
      report_on(fd, "posix_fallocate", size, 0, DO(posix_fallocate)(fd, size % 4096, 1 + size));
      break;
    default:
      report_on(fd, "sync_file_range", size, 0,
                DO(sync_file_range)(fd, below(2) != 0 ? size : 0, 0,
                                    below(5) == 0 ? 8 : SYNC_FILE_RANGE_WRITE));
      break;
  }
  let_alarms();
}

/* A file of its own, where nothing is allocated that was not written. */
void sparse_file(void) {
  const int fd = DO(open)("h0", O_RDWR | O_CREAT | (below(3) == 0 ? O_DIRECT : 0), 0600);
  hold_alarms();
  if (below(3) != 0) report_on(fd, "grow", 0, 0, DO(ftruncate)(fd, 4096 * below(200)));
  for (long i = below(4); i >= 0; --i) {
    fill_bytes(bytes, 8192);
    report_on(fd, "write", i, 0, DO(pwrite)(fd, bytes, 8192, 4096 * below(190)));
  }
  const int mode =
      below(3) != 0 ? FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE : FALLOC_FL_COLLAPSE_RANGE;
  report_on(fd, "hole", mode, 0, DO(fallocate)(fd, mode, 4096 * below(180), 4096 * (1 + below(9))));
  long at = 0;
  for (int i = 0; i < 40 && at >= 0; ++i) {
    const int whence = i % 2 == 0 ? SEEK_DATA : SEEK_HOLE;
    at = DO(lseek)(fd, at, whence);
    report("seek", fd, i, 0, at);
  }
  let_alarms();
  report("close", fd, 0, 0, DO(close)(fd));
  if (below(3) == 0) DO(unlink)("h0");
}

/* Events of one file whose accesses follow one another. The numbers that connect the two parts of a
 * rename are the kernel's. */
static void read_events(int fd) {
  char events[4096] __attribute__((aligned(8)));
  long got = 0;
  while ((got = syscall(SYS_read, fd, events, sizeof events)) > 0) {
    for (long at = 0; at + (long)sizeof(struct inotify_event) <= got;) {
      const struct inotify_event* const event = (const struct inotify_event*)(events + at);
      report("event", event->wd, event->mask, event->len, 0);
      at += (long)sizeof *event + event->len;
    }
  }
}

void listen_somehow(void) {
  static dev_t device;
  static ino_t inode;
  static int listener = -1;
  struct stat status;
  if ((theme & kThemeListens) == 0) return;
  if (listener >= 0 && fstat(listener, &status) == 0 && status.st_dev == device &&
      status.st_ino == inode && depth == 0) {
    char link[64];
    char target[64] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", listener);
    if (readlink(link, target, sizeof target - 1) > 0 && strstr(target, "inotify") != NULL) {
      read_events(listener);
      return;
    }
  }
  if (below(4) == 0) {
    const int fd = DO(fanotify_init)(FAN_CLASS_NOTIF | FAN_NONBLOCK | FAN_CLOEXEC, O_RDONLY);
    report("fanotify_init", 0, 0, 0, fd < 0 ? -1 : 0);
    if (fd >= 0) close(fd);
    return;
  }
  const int low = below(3) == 0 ? DO(inotify_init)() : DO(inotify_init1)(IN_NONBLOCK);
  report("inotify_init", 0, 0, 0, low);
  if (low < 0) return;
  /* Out of the way of all that reads from some low number: events have numbers of chance. */
  const int fd = fcntl(low, F_DUPFD, 1002);
  close(low);
  if (fd < 0) return;
  fcntl(fd, F_SETFL, O_NONBLOCK);
  report("watch", 0, 0, 0, inotify_add_watch(fd, any_name(), IN_ALL_EVENTS));
  if (depth != 0 || fstat(fd, &status) != 0) {
    close(fd);
    return;
  }
  listener = fd;
  device = status.st_dev;
  inode = status.st_ino;
}

/* Calls that are refused: whoever stands before them must pass on why. */
void wrong_somehow(void) {
  switch (below(6)) {
    case 0:
      report("umount", 0, 0, 0, DO(umount)(any_name()));
      break;
    case 1:
      report("umount2", 0, 0, 0, DO(umount2)(any_name(), below(2) != 0 ? MNT_DETACH : 99));
      break;
    case 2: {
      const int fd = DO(inotify_init1)(12345);
      report("inotify_init1", 0, 0, 0, fd);
      break;
    }
    case 3: {
      const int fd = DO(fanotify_init)(0xfffffff, 0);
      report("fanotify_init", 0, 0, 0, fd);
      break;
    }
    case 4: {
      const int fd = any_fd();
      FILE* const file = DO(fdopen)(fd, "nonsense");
      report("fdopen", fd, 0, 0, file == NULL ? -1 : 0);
      break;
    }
    default: {
      const int fd = below(2) != 0 ? -7 : 100000;
      report("dup2", fd, 0, 0, DO(dup2)(fd, 500));
      report("fcntl", fd, 0, 0, DO(fcntl)(fd, F_GETFL));
      report("pread", fd, 0, 0, DO(pread)(fd, bytes, 1, 0));
      break;
    }
  }
}
