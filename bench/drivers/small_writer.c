// A writer of many pieces of a file, as people write them: write(2), or pwrite(2) where they are
// not in order. It knows nothing of Ioweave.
//
// Usage: bench_small_writer FILE order|interleaved|random BYTES COUNT [direct]
//
// order: one piece behind the other. interleaved: every fourth piece, then the next ones, until all
// are written. random: all over a file of 16 times the bytes, the same in each run. `direct` opens
// the file with O_DIRECT. The file is synced and closed in the end.

#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char* what) {
  fprintf(stderr, "small_writer: %s: %s\n", what, strerror(errno));
  return EXIT_FAILURE;
}

static uint64_t next_random(uint64_t* state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 24;
}

int main(int count, char** words) {
  if (count < 5) {
    fprintf(stderr,
            "usage: bench_small_writer FILE order|interleaved|random BYTES COUNT [direct]\n");
    return EXIT_FAILURE;
  }
  const char* const how = words[2];
  const size_t bytes = strtoull(words[3], NULL, 10);
  const uint64_t pieces = strtoull(words[4], NULL, 10);
  const int flags = count > 5 ? O_DIRECT : 0;
  void* piece = NULL;
  if (bytes == 0 || posix_memalign(&piece, 4096, bytes) != 0) return fail("memory");
  const int file = open(words[1], O_WRONLY | O_CREAT | O_TRUNC | flags, 0644);
  if (file < 0) return fail(words[1]);
  uint64_t state = 1;
  for (uint64_t i = 0; i < pieces; ++i) {
    memset(piece, (int)(i % 251), bytes);
    uint64_t place = i;
    if (strcmp(how, "random") == 0) {
      place = next_random(&state) % (16 * pieces);
    } else if (strcmp(how, "interleaved") == 0) {
      const uint64_t quarter = pieces / 4;
      place = i < 4 * quarter ? i % quarter * 4 + i / quarter : i;
    }
    const ssize_t written = strcmp(how, "order") == 0
                                ? write(file, piece, bytes)
                                : pwrite(file, piece, bytes, (off_t)(place * bytes));
    if (written != (ssize_t)bytes) return fail("write");
  }
  if (fsync(file) != 0) return fail("fsync");
  if (close(file) != 0) return fail("close");
  return EXIT_SUCCESS;
}
