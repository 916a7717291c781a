/* Files in memory: mapped, written, synced, cut while they are mapped. */
#include <sys/mman.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <signal.h>
#include <string.h>

#include "fuzz.h"

enum { kMaps = 2, kMapBytes = 1 << 16 };

static struct {
  char* at;
  int is_writable;
  dev_t device;
  ino_t inode;
  long offset;
} maps[kMaps];

static sigjmp_buf beyond_the_end;

static void on_bus_error(int number) {
  (void)number;
  siglongjmp(beyond_the_end, 1);
}

void catch_bus_errors(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_bus_error;
  sigaction(SIGBUS, &action, NULL);
}

/* Reads or writes a piece of a map; the end of the file may lie before it. */
static long touch(char* at, long count, int writes) {
  if (sigsetjmp(beyond_the_end, 1) != 0) return -7;
  if (writes) {
    memset(at, (int)(step_now % 251), (size_t)count);
    return 0;
  }
  return (long)hash_of(at, count);
}

static void map_anew(int which) {
  if (maps[which].at != NULL) {
    report("munmap", which, 0, 0, DO(munmap)(maps[which].at, kMapBytes));
    maps[which].at = NULL;
  }
  const int fd = any_fd();
  const int is_shared = below(3) != 0;
  const int is_writable = below(2) != 0;
  const long offset = below(4) != 0 ? 0 : below(2) != 0 ? 4096 : 100;
  const int protection = is_writable ? PROT_READ | PROT_WRITE : PROT_READ;
  const int flags = is_shared ? MAP_SHARED : MAP_PRIVATE;
  char* const at = below(3) != 0 ? DO(mmap)(NULL, kMapBytes, protection, flags, fd, offset)
                                 : DO(mmap64)(NULL, kMapBytes, protection, flags, fd, offset);
  report_on(fd, "mmap", flags, offset, at == MAP_FAILED ? -1 : 0);
  if (at == MAP_FAILED) return;
  struct stat status;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) { /* /dev/zero and its like */
    munmap(at, kMapBytes);
    return;
  }
  maps[which].at = at;
  maps[which].is_writable = is_writable;
  maps[which].device = status.st_dev;
  maps[which].inode = status.st_ino;
  maps[which].offset = offset;
}

/* How much of a map may be written. What is written behind the end of a file becomes part of it, or
 * does not, with the chance of the kernel's writeback. Nothing where no descriptor tells the end.
 */
static long writable_bytes(int which) {
  if (!maps[which].is_writable) return 0;
  for (int i = 0; i < kSlots; ++i) {
    struct stat status;
    if (fstat(slots[i], &status) == 0 && status.st_dev == maps[which].device &&
        status.st_ino == maps[which].inode) {
      return (long)status.st_size - maps[which].offset;
    }
  }
  return 0;
}

void map_somehow(void) {
  const int which = (int)below(kMaps);
  char* const map = maps[which].at;
  const long kind = below(8);
  if (map == NULL || kind == 0) {
    map_anew(which);
    return;
  }
  const long at = below(kMapBytes - 5000);
  const long count = 1 + below(4900);
  switch (kind) {
    case 1:
    case 2:
      report("map write", which, at, count,
             at + count <= writable_bytes(which) ? touch(map + at, count, 1) : -5);
      break;
    case 3:
      report("msync", which, 0, 0, DO(msync)(map, kMapBytes, below(2) != 0 ? MS_SYNC : MS_ASYNC));
      break;
    case 4: {
      /* From the map of a file into a file, perhaps the same one. */
      const int fd = any_fd();
      if ((fcntl(fd, F_GETFL) & O_DIRECT) != 0) break;
      const long put = DO(pwrite)(fd, map + at, (size_t)count, any_offset());
      report_on(fd, "write of map", which, count, put);
      break;
    }
    case 5: {
      const int fd = any_fd();
      if (at + count > writable_bytes(which)) break;
      const long got = DO(pread)(fd, map + (at & ~511L), (size_t)(count & ~511L), at & ~511L);
      report_on(fd, "read into map", which, count, got);
      break;
    }
    default:
      report("map read", which, at, count, touch(map + at, count, 0));
      break;
  }
}
