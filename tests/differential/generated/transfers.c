/* Reads, writes and what moves bytes between descriptors. */
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <aio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

ssize_t __read_chk(int fd, void* buffer, size_t count, size_t size);
ssize_t __pread_chk(int fd, void* buffer, size_t count, off_t offset, size_t size);
ssize_t __pread64_chk(int fd, void* buffer, size_t count, off_t offset, size_t size);

enum { kGuard = 64 };

#ifndef RWF_NOAPPEND
#define RWF_NOAPPEND 0x20
#endif

void fill_bytes(char* at, long count) {
  const uint64_t salt = next() | 1;
  uint64_t word = salt;
  for (; count >= 8; count -= 8, at += 8) {
    word = word * 0xd1342543de82ef95u + salt;
    memcpy(at, &word, 8);
  }
  for (; count > 0; --count) *at++ = (char)(word >> (count * 7));
}

/* A piece of memory and a place in a file. */
struct place {
  int fd;
  char* at;
  long size, offset;
  struct iovec parts[4];
  int count;
};

static int is_direct(int fd) {
  const long flags = syscall(SYS_fcntl, fd, F_GETFL);
  return flags >= 0 && (flags & O_DIRECT) != 0;
}

/* The kernel may have written or zeroed some of a direct write before it finds out that the rest is
 * misaligned, which depends on where the blocks of the file lie. So its offset is misaligned, or
 * its memory where nothing is but whole blocks, or nothing. */
static void align_for_device(struct place* place, int is_misaligned) {
  place->size = (place->size + 511) & ~511L;
  if (place->offset > 0) place->offset &= ~511L;
  if (!is_misaligned) return;
  const long position = syscall(SYS_lseek, place->fd, 0, SEEK_CUR);
  const long flags = syscall(SYS_fcntl, place->fd, F_GETFL);
  const int is_in_blocks = ((position | place->offset | place->size) & 4095) == 0;
  if (is_in_blocks && (flags & O_APPEND) == 0)
    place->at += 1 + below(kGuard - 1);
  else
    place->offset |= 1;
}

static struct place any_place(int writes) {
  struct place place = {any_fd(), bytes, any_size(), any_offset(), {{0}}, 3};
  const long kind = below(4);
  const int is_on_device = is_direct(place.fd);
  const int to_device = is_on_device && (writes || below(4) != 0);
  if (to_device) {
    align_for_device(&place, kind == 0);
  } else if (kind == 0) {
    place.at += 1 + below(kGuard - 1);
  } else if (kind != 1 && place.size > 300) {
    align_for_device(&place, 0);
  }
  const long unit = to_device || kind > 1 ? 512 : 1;
  const long first = place.size / 3 / unit * unit;
  place.parts[0] = (struct iovec){place.at, (size_t)first};
  place.parts[1] = (struct iovec){place.at + first, (size_t)(place.size - first)};
  place.parts[2] = (struct iovec){place.at, 0};
  if (below(40) == 0) place.count = below(2) != 0 ? -1 : 1025;
  /* EFAULT, or a short transfer; of a direct one, which error comes first depends on its blocks. */
  if (below(60) == 0 && !is_on_device) place.parts[1].iov_base = (void*)8;
  return place;
}

static int any_read_flags(void) {
  static const int flags[] = {0, 0, 0, RWF_HIPRI, RWF_DSYNC, RWF_APPEND, 0x4000};
  return flags[below(7)];
}

static int any_write_flags(void) {
  static const int flags[] = {
      0, 0, RWF_HIPRI, RWF_DSYNC, RWF_SYNC, RWF_APPEND, RWF_NOAPPEND, RWF_APPEND, 0x4000};
  const int chosen = flags[below(9)];
  return (chosen & (RWF_DSYNC | RWF_SYNC)) != 0 && below(4) != 0 ? 0 : chosen;
}

/* At an offset, where most programs of this theme are. */
static int is_positional(void) {
  return (theme & kThemeDirect) != 0 && below(3) != 0;
}

static long read_by(long kind, struct place* p) {
  const long position_or_offset = below(2) != 0 ? -1 : p->offset;
  switch (kind) {
    case 0:
    case 1:
      return DO(read)(p->fd, p->at, (size_t)p->size);
    case 2:
      return DO(__read_chk)(p->fd, p->at, (size_t)p->size, kBytes);
    case 3:
    case 4:
      return DO(pread)(p->fd, p->at, (size_t)p->size, p->offset);
    case 5:
      return DO(pread64)(p->fd, p->at, (size_t)p->size, p->offset);
    case 6:
      return DO(__pread_chk)(p->fd, p->at, (size_t)p->size, p->offset, kBytes);
    case 7:
      return DO(__pread64_chk)(p->fd, p->at, (size_t)p->size, p->offset, kBytes);
    case 8:
      return DO(readv)(p->fd, p->parts, p->count);
    case 9:
      return DO(preadv)(p->fd, p->parts, p->count, p->offset);
    case 10:
      return DO(preadv64)(p->fd, p->parts, p->count, p->offset);
    case 11:
      return DO(preadv2)(p->fd, p->parts, p->count, position_or_offset, any_read_flags());
    case 12:
      return DO(preadv64v2)(p->fd, p->parts, p->count, position_or_offset, any_read_flags());
    case 13:
      return DO(syscall)(SYS_read, p->fd, p->at, p->size);
    case 14:
      return DO(syscall)(SYS_pread64, p->fd, p->at, p->size, p->offset);
    default:
      if (is_direct(p->fd)) return DO(read)(p->fd, NULL, 0);
      return DO(read)(p->fd, below(2) != 0 ? NULL : (void*)8, (size_t)p->size);
  }
}

void read_somehow(void) {
  struct place place = any_place(0);
  memset(bytes, 0, (size_t)place.size + 2 * kGuard);
  const long kind = is_positional() ? 3 + below(10) : below(below(10) != 0 ? 15 : 16);
  const long got = read_by(kind, &place);
  report_on(place.fd, "read", kind, place.size, got);
  if (got > 0) {
    const uint64_t sum = hash_of(place.at, got);
    report("  bytes", (long)sum, 0, 0, 0);
  }
  /* What lies around the buffer is not touched. */
  long touched = 0;
  for (const char* at = bytes; at < place.at; ++at) touched += *at != 0;
  for (int i = 0; i < kGuard; ++i) touched += place.at[place.size + i] != 0;
  if (touched != 0) say("touched %ld bytes around the buffer", touched);
}

static long write_by(long kind, struct place* p) {
  const long position_or_offset = below(2) != 0 ? -1 : p->offset;
  switch (kind) {
    case 0:
    case 1:
    case 2:
      return DO(write)(p->fd, p->at, (size_t)p->size);
    case 3:
    case 4:
      return DO(pwrite)(p->fd, p->at, (size_t)p->size, p->offset);
    case 5:
      return DO(pwrite64)(p->fd, p->at, (size_t)p->size, p->offset);
    case 6:
      return DO(writev)(p->fd, p->parts, p->count);
    case 7:
      return DO(pwritev)(p->fd, p->parts, p->count, p->offset);
    case 8:
      return DO(pwritev64)(p->fd, p->parts, p->count, p->offset);
    case 9:
      return DO(pwritev2)(p->fd, p->parts, p->count, position_or_offset, any_write_flags());
    case 10:
      return DO(pwritev64v2)(p->fd, p->parts, p->count, position_or_offset, any_write_flags());
    case 11:
      return DO(syscall)(SYS_write, p->fd, p->at, p->size);
    case 12:
      return DO(syscall)(SYS_pwrite64, p->fd, p->at, p->size, p->offset);
    default:
      if (is_direct(p->fd)) return DO(write)(p->fd, NULL, 0);
      return DO(write)(p->fd, below(2) != 0 ? NULL : (void*)8, (size_t)p->size);
  }
}

void write_somehow(void) {
  struct place place = any_place(1);
  fill_bytes(place.at, place.size);
  const long kind = is_positional() ? 3 + below(8) : below(below(10) != 0 ? 13 : 14);
  report_on(place.fd, "write", kind, place.size, write_by(kind, &place));
}

static long transfer_asynchronously(struct place* p) {
  struct aiocb request;
  memset(&request, 0, sizeof request);
  request.aio_fildes = p->fd;
  request.aio_buf = p->at;
  request.aio_nbytes = (size_t)p->size;
  request.aio_offset = p->offset;
  request.aio_sigevent.sigev_notify = SIGEV_NONE;
  const struct aiocb* const list[] = {&request};
  if ((below(2) != 0 ? DO(aio_read)(&request) : DO(aio_write)(&request)) != 0) return -1;
  while (aio_error(&request) == EINPROGRESS) aio_suspend(list, 1, NULL);
  errno = aio_error(&request);
  return aio_return(&request);
}

/* These stop early where a signal waits. */
void move_bytes(void) {
  const int from = any_fd();
  const int to = any_fd();
  if (is_direct(to)) return; /* pieces of any length: see align_for_device() */
  const long size = any_size();
  off_t in = any_offset();
  off_t out = any_offset();
  off_t* const has_in = below(2) != 0 ? &in : NULL;
  off_t* const has_out = below(2) != 0 ? &out : NULL;
  long moved = 0;
  hold_alarms();
  const long kind = below(9);
  switch (kind) {
    case 0:
    case 1:
      moved = DO(sendfile)(to, from, has_in, (size_t)size);
      break;
    case 2:
      moved = DO(sendfile64)(to, from, has_in, (size_t)size);
      break;
    case 3:
    case 4:
    case 5:
      moved = DO(copy_file_range)(from, has_in, to, has_out, (size_t)size, below(20) == 0);
      break;
    default:
      moved = DO(splice)(from, has_in, to, has_out, (size_t)size, SPLICE_F_NONBLOCK);
      break;
  }
  report_on(from, "move", kind, size, moved);
  report_on(to, "  to", (long)in, (long)out, 0);
  if (below(12) == 0 && depth == 0) {
    struct place place = any_place(1);
    fill_bytes(place.at, place.size);
    moved = transfer_asynchronously(&place);
    report_on(place.fd, "aio", place.size, 0, moved);
    if (moved > 0) report("  bytes", (long)hash_of(place.at, moved), 0, 0, 0);
  }
  let_alarms();
}

void seek_somehow(void) {
  static const int whences[] = {SEEK_SET, SEEK_SET, SEEK_CUR, SEEK_END, SEEK_CUR, 9};
  const int fd = any_fd();
  const int whence = whences[below(below(8) != 0 ? 5 : 6)];
  const long by = whence == SEEK_SET ? any_offset() : below(20000) - 10000;
  const long kind = below(4);
  const long result = kind == 0   ? DO(lseek64)(fd, by, whence)
                      : kind == 1 ? DO(syscall)(SYS_lseek, fd, by, whence)
                                  : DO(lseek)(fd, by, whence);
  report("lseek", fd, by, whence, result);
}

static uint64_t hash_of_file(int fd, long* size) {
  uint64_t sum = 0;
  long at = 0;
  long got = 0;
  while ((got = syscall(SYS_pread64, fd, bytes, kBytes, at)) > 0) {
    sum = sum * 31 + hash_of(bytes, got);
    at += got;
  }
  *size = got < 0 ? -errno : at;
  return sum;
}

/* All bytes of a file, by its name. */
void verify_file(void) {
  const char* const name = any_name();
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  if (fd < 0) {
    report("verify", 0, 0, 0, fd);
    return;
  }
  long size = 0;
  const uint64_t sum = hash_of_file(fd, &size);
  syscall(SYS_close, fd);
  report("verify", size, 0, 0, (long)sum);
}

/* What prefetching and early writeback look for: a long file in order, synced, and read again from
 * the device. */
void stream_file(void) {
  if ((theme & kThemeBig) == 0) return;
  static const char* const names[] = {"b0", "b1"};
  const char* const name = names[below(2)];
  const long pieces = 40 + below(60);
  const long piece = below(2) != 0 ? 65536 : 131072;
  const int flags = O_RDWR | O_CREAT | (below(2) != 0 ? O_TRUNC : 0);
  const int fd = DO(open)(name, flags, 0600);
  uint64_t sum = 0;
  long moved = 0;
  for (long i = 0; i < pieces; ++i) {
    if (i % 8 == 0) fill_bytes(bytes, piece);
    const long put = DO(write)(fd, bytes, (size_t)piece);
    moved += put;
    if (put != piece) break;
  }
  report_on(fd, "stream out", pieces, piece, moved);
  if (below(3) == 0) report("  fsync", fd, 0, 0, DO(fsync)(fd));
  if (below(2) != 0) report("  advice", fd, 0, 0, DO(posix_fadvise)(fd, 0, 0, POSIX_FADV_DONTNEED));
  const long stride = below(2) != 0 ? 1 : 3;
  DO(lseek)(fd, 0, SEEK_SET);
  long got = 0;
  moved = 0;
  for (long i = 0; i < pieces; ++i) {
    got = stride == 1 ? DO(read)(fd, bytes, (size_t)piece)
                      : DO(pread)(fd, bytes, (size_t)piece / 2, i * stride * 4096 * 8);
    if (got > 0) sum = sum * 31 + hash_of(bytes, got);
    moved += got;
  }
  report_on(fd, "stream in", stride, (long)sum, moved);
  const int result = DO(close)(fd);
  report("  close", fd, 0, 0, result);
  if (below(3) == 0) report("  unlink", 0, 0, 0, DO(unlink)(name));
}

/* Which times of a file a call changes. */
void check_times(void) {
  struct place place = any_place(1);
  place.count = 3;
  place.parts[1].iov_base = place.at + place.parts[0].iov_len;
  fill_bytes(place.at, place.size);
  const struct timespec old[2] = {{1000000000, 5}, {1000000000, 5}};
  const int set = DO(futimens)(place.fd, old);
  const long kind = below(2) != 0 ? below(15) : 20 + below(13);
  const long result = kind >= 20 ? write_by(kind - 20, &place) : read_by(kind, &place);
  const int error = errno;
  struct stat status;
  if (set != 0 || DO(fstat)(place.fd, &status) != 0) {
    errno = error;
    report("times", place.fd, kind, set, result);
    return;
  }
  errno = error;
  report("times", place.fd, kind,
         (status.st_mtim.tv_sec != 1000000000) * 2 + (status.st_atim.tv_sec != 1000000000), result);
}
