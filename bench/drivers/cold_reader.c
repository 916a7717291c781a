// A plain reader as people write them: read(2) in chunks from beginning to end, and a computation
// on each. It knows nothing of Ioweave and is the same program linked dynamically and statically
// (bench_cold_reader, bench_cold_reader_static), to see what `ioweave run` does to either.
//
// Usage: bench_cold_reader FILE CHUNK_BYTES PASSES
//
// A pass is a chain of multiplications over the chunk, about 0.2 ms per MiB; 0 computes nothing.
// Prints the bytes and the result of the computation, which depends on every byte.

#include <fcntl.h>
#include <unistd.h>

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char* what) {
  fprintf(stderr, "cold_reader: %s: %s\n", what, strerror(errno));
  return EXIT_FAILURE;
}

static uint64_t hash_of(const unsigned char* data, size_t bytes, uint64_t hash) {
  for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
    uint64_t word;
    memcpy(&word, data + at, sizeof(word));
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  }
  return hash;
}

int main(int argc, char** argv) {
  const size_t chunk_bytes = argc == 4 ? strtoull(argv[2], NULL, 10) : 0;
  if (chunk_bytes == 0) {
    fprintf(stderr, "usage: cold_reader FILE CHUNK_BYTES PASSES\n");
    return EXIT_FAILURE;
  }
  const unsigned long passes = strtoul(argv[3], NULL, 10);
  const int file = open(argv[1], O_RDONLY | O_CLOEXEC);
  if (file == -1) {
    return fail(argv[1]);
  }
  unsigned char* chunk = malloc(chunk_bytes);
  if (chunk == NULL) {
    return fail("malloc");
  }
  uint64_t total = 0;
  uint64_t hash = 1;
  ssize_t count = 0;
  do {
    count = read(file, chunk, chunk_bytes);
    for (unsigned long pass = 0; count > 0 && pass < passes; ++pass) {
      hash = hash_of(chunk, (size_t)count, hash);
    }
    total += count > 0 ? (uint64_t)count : 0;
  } while (count > 0);
  if (count == -1) {
    return fail("read");
  }
  free(chunk);
  close(file);
  printf("%" PRIu64 " %" PRIx64 "\n", total, hash);
  return EXIT_SUCCESS;
}
