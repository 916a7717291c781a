/* What runs at once, on threads or in children: files of its own by descriptors of its own, or
 * records on one file, of which only the sorted whole is told. */
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { kSides = 5, kRoom = 40960, kSideCalls = 30, kRecords = 60 };

struct side {
  struct choices choices;
  uint64_t result;
  int number, fd, is_direct;
};

static long call_of_side(struct side* side, char* mine) {
  long size = below_of(&side->choices, kRoom);
  long at = below_of(&side->choices, 100000);
  const int fill = (int)(at + size);
  if (side->is_direct) { /* misaligned at the beginning or not at all: see transfers.c */
    size &= ~511L;
    at &= ~511L;
    if (below_of(&side->choices, 6) == 0) at += 7;
  }
  const size_t half = (size_t)size / 1024 * 512;
  struct iovec parts[2] = {{mine, half}, {mine + half, 512}};
  switch (below_of(&side->choices, 10)) {
    case 0:
    case 1:
      memset(mine, fill, (size_t)size);
      return DO(write)(side->fd, mine, (size_t)size);
    case 2:
    case 3:
      memset(mine, fill, (size_t)size);
      return DO(pwrite)(side->fd, mine, (size_t)size, at);
    case 4:
      memset(mine, fill, (size_t)size);
      return DO(pwritev)(side->fd, parts, 2, at);
    case 5:
      return DO(lseek)(side->fd, at, SEEK_SET);
    case 6:
      return DO(ftruncate)(side->fd, at);
    case 7:
      return DO(preadv)(side->fd, parts, 2, at);
    case 8:
      return DO(pread)(side->fd, mine, (size_t)size, at);
    default:
      return DO(read)(side->fd, mine, (size_t)size);
  }
}

static void* run_side(void* argument) {
  struct side* const side = argument;
  char* const mine = aligned_alloc(4096, kRoom);
  memset(mine, 0, kRoom);
  uint64_t sum = 0;
  for (int i = 0; i < kSideCalls; ++i) {
    const long result = call_of_side(side, mine);
    sum = (sum ^ (uint64_t)result) * 1099511628211u;
    if (result > 0 && result <= kRoom) sum ^= hash_of(mine, result);
  }
  free(mine);
  side->result = sum;
  return NULL;
}

static void* run_records(void* argument) {
  struct side* const side = argument;
  char record[kRecord];
  memset(record, 'a' + side->number, kRecord);
  uint64_t failed = 0;
  for (int i = 0; i < kRecords; ++i) failed += DO(write)(side->fd, record, kRecord) != kRecord;
  side->result = failed;
  return NULL;
}

static int compare_records(const void* a, const void* b) {
  return memcmp(a, b, kRecord);
}

static void run_in_children(struct side* sides, int count, void* (*run)(void*)) {
  pid_t children[kSides];
  hold_alarms();
  for (int i = 0; i < count; ++i) {
    children[i] = DO(fork)();
    if (children[i] == 0) {
      run(&sides[i]);
      _exit((int)(sides[i].result % 251));
    }
  }
  let_alarms();
  for (int i = 0; i < count; ++i) {
    int status = 0;
    while (waitpid(children[i], &status, 0) < 0 && errno == EINTR) {
    }
    sides[i].result = (uint64_t)status;
  }
}

static void run_on_threads(struct side* sides, int count, void* (*run)(void*)) {
  pthread_t threads[kSides];
  hold_alarms();
  for (int i = 0; i < count; ++i) DO(pthread_create)(&threads[i], NULL, run, &sides[i]);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  let_alarms();
}

static void tell_records(int fd) {
  const long got = syscall(SYS_pread64, fd, bytes, kBytes, 0);
  qsort(bytes, got > 0 ? (size_t)got / kRecord : 0, kRecord, compare_records);
  report("records", (long)hash_of(bytes, got > 0 ? got : 0), 0, (long)lseek(fd, 0, SEEK_CUR), got);
  unlink("s9");
}

void run_at_once(void) {
  const int count = 2 + (int)below(3);
  const int is_records = below(3) == 0;
  const int forks = below(3) == 0;
  struct side sides[kSides];
  int ready = 1;
  for (int i = 0; i < count; ++i) {
    char name[8];
    snprintf(name, sizeof name, "s%d", is_records ? 9 : i);
    const int is_direct = below(2) != 0 && !is_records;
    const int flags = is_direct ? O_DIRECT : is_records && below(3) == 0 ? O_APPEND : 0;
    const int fd = is_records && i > 0 ? sides[0].fd : open(name, O_RDWR | O_CREAT | flags, 0600);
    ready = ready && fd >= 0;
    sides[i] = (struct side){{next(), NULL, 0}, 0, i, fd, is_direct};
  }
  void* (*const run)(void*) = is_records ? run_records : run_side;
  report("at once", count, is_records, forks, ready);
  if (ready && forks)
    run_in_children(sides, count, run);
  else if (ready)
    run_on_threads(sides, count, run);
  for (int i = 0; ready && i < count; ++i) report("  side", i, (long)sides[i].result, 0, 0);
  if (ready && is_records) tell_records(sides[0].fd);
  for (int i = 0; i < (is_records ? 1 : count); ++i) {
    if (sides[i].fd >= 0) close(sides[i].fd);
  }
}
