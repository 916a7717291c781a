/* chunk_reader FILE CHUNK_BYTES COMPUTE_US [STRIDE_BYTES]: reads a chunk, "computes" (sleeps),
 * reads the next one. Prints a checksum of what it read, the number of chunks, and how many of them
 * were in the page cache before they were asked for (-1 without cachestat(2), Linux 6.5); on
 * standard error the seconds inside read(2). With a stride it seeks to every STRIDE_BYTES instead.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "support/is_resident.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const size_t chunk = strtoull(argv[2], NULL, 10);
  const useconds_t compute_us = (useconds_t)strtoul(argv[3], NULL, 10);
  const uint64_t stride = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
  const int fd = open(argv[1], O_RDONLY);
  unsigned char* buffer = malloc(chunk);
  struct stat status;
  if (fd < 0 || buffer == NULL || fstat(fd, &status) != 0) return 3;
  const uint64_t size = (uint64_t)status.st_size;
  uint64_t sum = 14695981039346656037u;
  double inside = 0;
  int chunks = 0;
  int resident = 0;
  for (uint64_t at = 0; at < size; at += stride != 0 ? stride : chunk, ++chunks) {
    const int there = is_resident(fd, at, at + chunk < size ? chunk : size - at);
    resident = there < 0 ? -1 : resident + there;
    const double begin = now();
    if (stride != 0) lseek(fd, (off_t)at, SEEK_SET);
    const ssize_t got = read(fd, buffer, chunk);
    inside += now() - begin;
    if (got <= 0) return 4;
    for (ssize_t i = 0; i < got; i += 512) sum = (sum ^ buffer[i]) * 1099511628211u;
    if (compute_us != 0) usleep(compute_us);
  }
  printf("%016lx %d %d\n", (unsigned long)sum, chunks, resident);
  fprintf(stderr, "%.4f\n", inside);
  close(fd);
  free(buffer);
  return 0;
}
