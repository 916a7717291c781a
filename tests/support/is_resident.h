#pragma once

/* For programs in C that are run by tests. */

#include <sys/syscall.h>
#include <unistd.h>

#include <stdint.h>

/* Whether a range of a file is in the page cache: 1, 0, or -1 without cachestat(2) (Linux 6.5). */
static inline int is_resident(int fd, uint64_t offset, uint64_t bytes) {
  const struct {
    uint64_t offset, bytes;
  } range = {offset, bytes};
  struct {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } answer = {0, 0, 0, 0, 0};
  if (syscall(451 /* cachestat */, fd, &range, &answer, 0) != 0) return -1;
  const uint64_t page = (uint64_t)getpagesize();
  return answer.cached >= (offset + bytes - 1) / page - offset / page + 1;
}
