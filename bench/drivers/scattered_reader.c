// A reader of many pieces of a file, as people write them: pread(2), or lseek(2) and read(2). It
// knows nothing of Ioweave.
//
// Usage: bench_scattered_reader FILE random|seek|stride|sequential BYTES COUNT
//
// random, seek: pieces all over the file, in an order that is the same in each run; seek by lseek.
// stride: each fourth piece in order. sequential: one piece behind the other, by read alone, from
// the beginning again behind the end.
// Prints the bytes and a sum of what was read.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char* what) {
  fprintf(stderr, "scattered_reader: %s: %s\n", what, strerror(errno));
  return EXIT_FAILURE;
}

static uint64_t next_random(uint64_t* state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 24;
}

static uint64_t sum_of(const unsigned char* data, size_t bytes) {
  uint64_t sum = 0;
  for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += 512) {
    uint64_t word;
    memcpy(&word, data + at, sizeof(word));
    sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  }
  return sum;
}

static int read_pieces(int file, const char* how, unsigned char* piece, size_t bytes,
                       uint64_t count) {
  struct stat status;
  if (fstat(file, &status) != 0) {
    return fail("fstat");
  }
  const uint64_t pieces = (uint64_t)status.st_size / bytes;
  const int is_sequential = strcmp(how, "sequential") == 0;
  const int is_strided = strcmp(how, "stride") == 0;
  const int seeks = strcmp(how, "seek") == 0;
  uint64_t state = 1;
  uint64_t total = 0;
  uint64_t sum = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t place = is_strided ? 4 * i : next_random(&state);
    const off_t at = (off_t)(place % pieces * bytes);
    const int begins_again = is_sequential && i > 0 && i % pieces == 0;
    if ((seeks || begins_again) && lseek(file, seeks ? at : 0, SEEK_SET) == -1) {
      return fail("lseek");
    }
    const ssize_t got =
        seeks || is_sequential ? read(file, piece, bytes) : pread(file, piece, bytes, at);
    if (got == -1) {
      return fail("read");
    }
    total += (uint64_t)got;
    sum += sum_of(piece, (size_t)got);
  }
  printf("%" PRIu64 " %" PRIx64 "\n", total, sum);
  return EXIT_SUCCESS;
}

int main(int argc, char** argv) {
  const size_t bytes = argc == 5 ? strtoull(argv[3], NULL, 10) : 0;
  if (bytes == 0) {
    fprintf(stderr, "usage: scattered_reader FILE random|seek|stride|sequential BYTES COUNT\n");
    return EXIT_FAILURE;
  }
  const int file = open(argv[1], O_RDONLY | O_CLOEXEC);
  if (file == -1) {
    return fail(argv[1]);
  }
  unsigned char* const piece = malloc(bytes);
  const int status = piece == NULL
                         ? fail("malloc")
                         : read_pieces(file, argv[2], piece, bytes, strtoull(argv[4], NULL, 10));
  free(piece);
  close(file);
  return status;
}
