/* Where choices come from: for each step from a generator that begins with the seed and the number
 * of the step, or from kRecordBytes bytes of a file, and then from a generator that begins with
 * these. */
#include <sys/stat.h>
#include <sys/syscall.h>

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { kRecordBytes = 16 };

static struct choices chosen;
static uint64_t seed_of_steps;
static unsigned char* records;
static long record_count;

static uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t next_of(struct choices* of) {
  return mix(of->state += 0x9e3779b97f4a7c15u);
}

long below_of(struct choices* of, long bound) {
  if (of->left == 0) return (long)(next_of(of) % (uint64_t)bound);
  long value = 0;
  for (long reach = 1; reach < bound && of->left > 0; reach <<= 8) {
    value = value << 8 | *of->bytes++;
    --of->left;
  }
  return value % bound;
}

uint64_t next(void) {
  return next_of(&chosen);
}

long below(long bound) {
  return below_of(&chosen, bound);
}

void choose_by_seed(uint64_t seed) {
  seed_of_steps = mix(seed + 0x632be59bd9b4e019u);
}

int choose_by_file(const char* path, long* steps) {
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  const long bytes_there = fd < 0 ? -1 : (long)syscall(SYS_lseek, fd, 0, SEEK_END);
  if (bytes_there < 0) return 0;
  records = calloc((size_t)bytes_there + kRecordBytes, 1);
  const long got = records == NULL ? -1 : syscall(SYS_pread64, fd, records, bytes_there, 0);
  syscall(SYS_close, fd);
  if (got < 0) return 0;
  record_count = (got + kRecordBytes - 1) / kRecordBytes;
  *steps = record_count > 0 ? record_count - 1 : 0; /* the first record decides the theme */
  return 1;
}

/* Step -1 decides what holds for the whole program. */
void choose_for_step(long number) {
  chosen = (struct choices){mix(seed_of_steps + (uint64_t)(number + 1)), NULL, 0};
  if (number + 1 < record_count) {
    chosen.bytes = records + (number + 1) * kRecordBytes;
    chosen.left = kRecordBytes;
    chosen.state = hash_of(chosen.bytes, kRecordBytes);
  }
}

long any_size(void) {
  static const long sizes[] = {1,    100,  511,  512,   1024,  4095,  4096,   4097,
                               4096, 8192, 8192, 16384, 65536, 70000, 131072, 200000};
  const long size = sizes[below(below(8) != 0 ? 12 : 16)];
  return below(3) == 0 ? below(size + 1) : size;
}

long any_offset(void) {
  switch (below(8)) {
    case 0:
      return below((theme & kThemeBig) != 0 ? 10 << 20 : 1 << 20);
    case 1:
    case 2:
      return below(64) * 4096;
    case 3:
      return below(128) * 512;
    case 4:
      return below(100);
    case 5:
      return below(30) == 0 ? -1 - below(2) : 0;
    default:
      return below(40000);
  }
}

int any_slot(void) {
  return (int)below(kSlots);
}

/* Seldom one that was never opened. */
int any_fd(void) {
  int slot = any_slot();
  for (int i = 0; i < 3 && slots[slot] < 0; ++i) slot = any_slot();
  return slots[slot];
}

const char* any_name(void) {
  static const char* const names[] = {"f0",    "f1",    "f2",    "f3", "f4", "f0",    "f1",
                                      "d0/f0", "d0/f1", "d1/f0", "d0", "d1", "d0/d2", "l0"};
  return names[below(below(3) != 0 ? 7 : 14)];
}

/* Most of what a slot had is closed: a program must not run out of descriptors by accident. */
void keep(int slot, long fd) {
  if (fd < 0) return;
  if (slots[slot] > 2 && slots[slot] != fd && below(10) != 0) close(slots[slot]);
  slots[slot] = (int)fd;
}
