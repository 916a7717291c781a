/* prefetch_reader HOW FILE CHUNK_BYTES COMPUTE_US [STRIDE_BYTES]: reads a chunk, "computes"
 * (sleeps), reads the next one. Prints the number of chunks, how many of them were in the page
 * cache before they were asked for (-1 without cachestat(2), Linux 6.5), and what it was told:
 *
 *   input    standard input by read(2); FILE is not looked at
 *   stdio    fread(3)
 *   pread    in order, or each STRIDE_BYTES
 *   sendfile in order at an offset, to nowhere
 *   held     read(2), after it has held FILE for a while, sought in it, and read something else
 *   syscall  as pread, by syscall(2)
 *   uring    the same through io_uring. Exit code 77 where it is not to be had
 *   aio      the same through the kernel's asynchronous I/O
 *   posixaio the same through the C library's, which has threads for it
 *   damaged  read(2); prints each place where it fails, and goes on behind the page. Told: the sum
 *            of what was read
 *   mapped   through a memory map, in order or each STRIDE_BYTES
 *   inotify  read(2); told: how often somebody else opened FILE, on which it has a watch
 *   lease    read(2); told: whether somebody opened FILE, on which it holds a lease. Exit code 77
 *            where none is to be had
 *   after    read(2); told: whether somebody has FILE open half a second after the end was read
 *   pause    the same after half of it
 *
 * Of the following each reads half of FILE by read(2), and is told at once by a call behind it:
 *
 *   listen   reads the other half with a watch; told: how often somebody else opened or closed FILE
 *   own      told: whether a lease for writing is refused
 *   unmount  closes FILE; told: whether the file system of its folder cannot be unmounted
 *   remove   closes and removes FILE; told: whether its folder cannot be removed
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <linux/aio_abi.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <aio.h>
#include <errno.h>
#include <libgen.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/is_resident.h"

static volatile sig_atomic_t lease_breaks;

static void on_lease_break(int number) {
  (void)number;
  ++lease_breaks;
}

/* Events of those kinds that came, without waiting. */
static int heard(int watcher, uint32_t kinds) {
  union {
    struct inotify_event event;
    char bytes[4096];
  } buffer;
  int events = 0;
  for (ssize_t got; (got = read(watcher, &buffer, sizeof buffer)) > 0;) {
    for (ssize_t at = 0; at < got;) {
      struct inotify_event event;
      memcpy(&event, buffer.bytes + at, sizeof event);
      events += (event.mask & kinds) != 0;
      at += (ssize_t)(sizeof event + event.len);
    }
  }
  return events;
}

/* What was done to the file is undone by nobody: the test made it for this. */
static int cannot(const char* how, int fd, char* path) {
  if (strcmp(how, "own") == 0) return fcntl(fd, F_SETLEASE, F_WRLCK) != 0;
  close(fd);
  if (strcmp(how, "unmount") == 0) return umount2(dirname(path), 0) != 0;
  return unlink(path) != 0 || rmdir(dirname(path)) != 0;
}

/* For 0.3 s. What is read is too small to be followed, and in the page cache. */
static void hold(int fd, uint64_t size) {
  usleep(20000); /* the position is seen where it is */
  lseek(fd, (off_t)(size / 2), SEEK_SET);
  const int other = open("/proc/self/exe", O_RDONLY);
  static char buffer[64 << 10];
  for (int i = 0; i < 300; ++i) {
    for (off_t at = 0; pread(other, buffer, sizeof buffer, at) > 0;) at += sizeof buffer;
    usleep(1000);
  }
  close(other);
  lseek(fd, 0, SEEK_SET);
}

/* Reads a byte of each page. */
static size_t touch(const volatile char* from, size_t bytes) {
  const size_t page = (size_t)getpagesize();
  for (size_t at = 0; at < bytes; at += page) (void)from[at];
  return bytes;
}

/* Bytes that io_uring read; negative: an error. */
static ssize_t read_by_ring(struct io_uring* ring, int fd, char* to, size_t bytes, uint64_t from) {
  io_uring_prep_read(io_uring_get_sqe(ring), fd, to, (unsigned)bytes, from);
  struct io_uring_cqe* done = NULL;
  if (io_uring_submit(ring) != 1 || io_uring_wait_cqe(ring, &done) != 0) return -1;
  const ssize_t got = done->res;
  io_uring_cqe_seen(ring, done);
  return got;
}

static ssize_t read_by_aio(aio_context_t context, int fd, char* to, size_t bytes, uint64_t from) {
  struct iocb call = {.aio_lio_opcode = IOCB_CMD_PREAD,
                      .aio_fildes = (uint32_t)fd,
                      .aio_buf = (uintptr_t)to,
                      .aio_nbytes = bytes,
                      .aio_offset = (int64_t)from};
  struct iocb* calls[] = {&call};
  struct io_event done;
  if (syscall(SYS_io_submit, context, 1L, calls) != 1) return -1;
  return syscall(SYS_io_getevents, context, 1L, 1L, &done, NULL) == 1 ? (ssize_t)done.res : -1;
}

static ssize_t read_by_posix_aio(int fd, char* to, size_t bytes, uint64_t from) {
  struct aiocb call = {
      .aio_fildes = fd, .aio_buf = to, .aio_nbytes = bytes, .aio_offset = (off_t)from};
  const struct aiocb* const calls[] = {&call};
  if (aio_read(&call) != 0) return -1;
  while (aio_error(&call) == EINPROGRESS) aio_suspend(calls, 1, NULL);
  return aio_return(&call);
}

/* Prints what main() prints. A read may end in front of what cannot be read. */
static int read_damaged(int fd, char* buffer, size_t chunk, uint64_t size, useconds_t compute_us) {
  const uint64_t page = (uint64_t)getpagesize();
  unsigned sum = 0;
  int chunks = 0;
  int resident = 0;
  for (uint64_t at = 0; at < size; ++chunks) {
    const int there = is_resident(fd, at, at + chunk < size ? chunk : size - at);
    resident = there < 0 ? -1 : resident + there;
    const ssize_t got = read(fd, buffer, chunk);
    if (got == 0) return 4;
    if (got < 0) {
      printf("%s at %lu\n", strerrorname_np(errno), (unsigned long)at);
      at = (at / page + 1) * page;
      lseek(fd, (off_t)at, SEEK_SET);
      continue;
    }
    for (ssize_t i = 0; i < got; ++i) sum = sum * 31 + (unsigned char)buffer[i];
    at += (uint64_t)got;
    if (compute_us != 0) usleep(compute_us);
  }
  printf("%d %d %u\n", chunks, resident, sum % 1000000007u);
  return 0;
}

static ssize_t send_nowhere(int fd, size_t bytes, off_t from) {
  static int nowhere = -1;
  if (nowhere < 0) nowhere = open("/dev/null", O_WRONLY);
  return sendfile(nowhere, fd, &from, bytes);
}

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const char* const how = argv[1];
  const size_t chunk = strtoull(argv[3], NULL, 10);
  const useconds_t compute_us = (useconds_t)strtoul(argv[4], NULL, 10);
  const size_t stride = argc > 5 ? strtoull(argv[5], NULL, 10) : chunk;
  const int is_stdio = strcmp(how, "stdio") == 0;
  const int is_pread = strcmp(how, "pread") == 0;
  const int is_sendfile = strcmp(how, "sendfile") == 0;
  const int is_syscall = strcmp(how, "syscall") == 0;
  const int is_mapped = strcmp(how, "mapped") == 0;
  const int is_uring = strcmp(how, "uring") == 0;
  const int is_aio = strcmp(how, "aio") == 0;
  const int is_posix_aio = strcmp(how, "posixaio") == 0;
  const int has_lease = strcmp(how, "lease") == 0;
  const int pauses = strcmp(how, "pause") == 0;
  const int asks_after = pauses || strcmp(how, "after") == 0;
  const int listens = strcmp(how, "listen") == 0;
  const int has_call =
      strcmp(how, "own") == 0 || strcmp(how, "unmount") == 0 || strcmp(how, "remove") == 0;
  struct io_uring ring;
  if (is_uring && io_uring_queue_init(2, &ring, 0) != 0) return 77;
  aio_context_t context = 0;
  if (is_aio && syscall(SYS_io_setup, 1L, &context) != 0) return 77;
  int watcher = -1;
  if (strcmp(how, "inotify") == 0) {
    watcher = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (inotify_add_watch(watcher, argv[2], IN_OPEN) < 0) return 77;
  }
  FILE* const stream = is_stdio ? fopen(argv[2], "r") : NULL;
  int fd = STDIN_FILENO;
  if (is_stdio) {
    fd = stream != NULL ? fileno(stream) : -1;
  } else if (strcmp(how, "input") != 0) {
    fd = open(argv[2], has_lease || asks_after || has_call ? O_RDWR : O_RDONLY);
  }
  if (has_lease) {
    signal(SIGIO, on_lease_break);
    if (fcntl(fd, F_SETLEASE, F_WRLCK) != 0) return 77;
  }
  char* const buffer = malloc(chunk);
  struct stat status;
  if (fd < 0 || buffer == NULL || fstat(fd, &status) != 0) return 3;
  const uint64_t size = (uint64_t)status.st_size;
  const char* const map = is_mapped ? mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0) : NULL;
  if (map == MAP_FAILED) return 3;
  if (strcmp(how, "damaged") == 0) return read_damaged(fd, buffer, chunk, size, compute_us);
  if (strcmp(how, "held") == 0) hold(fd, size);
  int chunks = 0;
  int resident = 0;
  for (uint64_t at = 0; at < (pauses || has_call ? size / 2 : size); at += stride, ++chunks) {
    const size_t bytes = at + chunk < size ? chunk : size - at;
    if (listens && watcher < 0 && at >= size / 2) {
      watcher = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
      if (inotify_add_watch(watcher, argv[2], IN_OPEN | IN_CLOSE) < 0) return 77;
    }
    const int there = is_resident(fd, at, bytes);
    resident = there < 0 ? -1 : resident + there;
    size_t got = 0;
    if (is_stdio) {
      got = fread(buffer, 1, chunk, stream);
    } else if (is_mapped) {
      got = touch(map + at, bytes);
    } else {
      const ssize_t result = is_sendfile    ? send_nowhere(fd, bytes, (off_t)at)
                             : is_uring     ? read_by_ring(&ring, fd, buffer, bytes, at)
                             : is_aio       ? read_by_aio(context, fd, buffer, bytes, at)
                             : is_posix_aio ? read_by_posix_aio(fd, buffer, bytes, at)
                             : is_syscall   ? syscall(SYS_pread64, fd, buffer, bytes, at)
                             : is_pread     ? pread(fd, buffer, chunk, (off_t)at)
                                            : read(fd, buffer, chunk);
      got = result > 0 ? (size_t)result : 0;
    }
    if (got == 0) return 4;
    if (compute_us != 0) usleep(compute_us);
  }
  int told = listens ? heard(watcher, IN_OPEN | IN_CLOSE) : 0;
  if (strcmp(how, "inotify") == 0) told = heard(watcher, IN_OPEN) - 1; /* its own */
  if (has_call) told = cannot(how, fd, argv[2]);
  if (has_lease) told = lease_breaks != 0 || fcntl(fd, F_GETLEASE) != F_WRLCK;
  if (asks_after) {
    usleep(500000);
    told = fcntl(fd, F_SETLEASE, F_WRLCK) != 0; /* only where nobody else has it open */
  }
  printf("%d %d %d\n", chunks, resident, told);
  free(buffer);
  return 0;
}
