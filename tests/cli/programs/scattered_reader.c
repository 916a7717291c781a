/* scattered_reader FILE HOW BYTES COUNT SEED [THREADS [PROCESSES]]: reads COUNT pieces of BYTES in
 * each thread of each process, at places that follow from the seed. HOW:
 *
 *   pread   at explicit offsets      seek    by lseek and read
 *   readv   by lseek and readv       send    by sendfile to /dev/null, at explicit offsets
 *   die     as pread, and kills itself behind the last read
 *
 * Prints a checksum that depends on all that was read and not on the order, and how many pieces
 * were in the page cache before they were asked for.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/is_resident.h"

static const char* path;
static const char* how;
static size_t bytes;
static uint64_t count;
static uint64_t seed;

struct result {
  uint64_t sum;
  uint64_t resident;
};

struct worker {
  pthread_t thread;
  uint64_t seed;
  int fd;
  struct result result;
};

static uint64_t next_random(uint64_t* state) {
  *state += 0x9e3779b97f4a7c15u;
  uint64_t value = *state;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

static ssize_t read_piece(int fd, int null, unsigned char* buffer, off_t at) {
  if (strcmp(how, "send") == 0) {
    off_t offset = at;
    const ssize_t sent = sendfile(null, fd, &offset, bytes);
    const unsigned char* const number = (const unsigned char*)&at;
    memcpy(buffer, number, sizeof at);
    return sent;
  }
  if (strcmp(how, "pread") == 0 || strcmp(how, "die") == 0) return pread(fd, buffer, bytes, at);
  if (lseek(fd, at, SEEK_SET) != at) return -1;
  if (strcmp(how, "seek") == 0) return read(fd, buffer, bytes);
  const struct iovec halves[2] = {{buffer, bytes / 2}, {buffer + bytes / 2, bytes - bytes / 2}};
  return readv(fd, halves, 2);
}

static void* work(void* argument) {
  struct worker* const self = argument;
  const int null = open("/dev/null", O_WRONLY);
  unsigned char* const buffer = calloc(1, bytes);
  struct stat status;
  if (buffer == NULL || fstat(self->fd, &status) != 0) exit(3);
  const uint64_t pieces = (uint64_t)status.st_size / bytes;
  uint64_t state = self->seed;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = next_random(&state) % pieces * bytes;
    self->result.resident += is_resident(self->fd, at, bytes) == 1;
    if (read_piece(self->fd, null, buffer, (off_t)at) != (ssize_t)bytes) exit(4);
    for (size_t b = 0; b < bytes; b += 8) {
      uint64_t word;
      memcpy(&word, buffer + b, sizeof word);
      self->result.sum += word * (2 * at + 1);
    }
  }
  free(buffer);
  close(null);
  return NULL;
}

/* What the threads of a process read. Each has its own descriptor. */
static struct result work_in_threads(unsigned threads, uint64_t first_seed) {
  struct worker workers[64] = {0};
  struct result all = {0, 0};
  for (unsigned i = 0; i < threads; ++i) {
    workers[i].seed = first_seed + i;
    workers[i].fd = open(path, O_RDONLY);
    if (workers[i].fd < 0) exit(3);
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) exit(3);
  }
  for (unsigned i = 0; i < threads; ++i) {
    pthread_join(workers[i].thread, NULL);
    all.sum += workers[i].result.sum;
    all.resident += workers[i].result.resident;
    close(workers[i].fd);
  }
  return all;
}

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  path = argv[1];
  how = argv[2];
  bytes = strtoull(argv[3], NULL, 10);
  count = strtoull(argv[4], NULL, 10);
  seed = strtoull(argv[5], NULL, 10);
  const unsigned threads = argc > 6 ? (unsigned)strtoul(argv[6], NULL, 10) : 1;
  const unsigned processes = argc > 7 ? (unsigned)strtoul(argv[7], NULL, 10) : 1;
  if (bytes < 8 || threads < 1 || threads > 64) return 2;
  int pipes[2];
  if (pipe(pipes) != 0) return 3;
  for (unsigned p = 1; p < processes; ++p) {
    const pid_t child = fork();
    if (child < 0) return 3;
    if (child == 0) {
      const struct result part = work_in_threads(threads, seed + 64 * p);
      return write(pipes[1], &part, sizeof part) == (ssize_t)sizeof part ? 0 : 3;
    }
  }
  struct result all = work_in_threads(threads, seed);
  for (unsigned p = 1; p < processes; ++p) {
    struct result part;
    if (read(pipes[0], &part, sizeof part) != (ssize_t)sizeof part) return 3;
    all.sum += part.sum;
    all.resident += part.resident;
    if (wait(NULL) < 0) return 3;
  }
  if (strcmp(how, "die") == 0) {
    kill(getpid(), SIGKILL);
  }
  printf("%016llx %llu\n", (unsigned long long)all.sum, (unsigned long long)all.resident);
  return 0;
}
