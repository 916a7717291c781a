/*
 * Sums blocks of a file in an order of its own. Two ways: by a list of the reads to come, and by a
 * function that names them one by one.
 *
 *   prefetch FILE BLOCKS
 */
#include <fcntl.h>
#include <unistd.h>

#include <errno.h>
#include <ioweave/plans.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64 * 1024 };

struct blocks {
  int fd;
  uint64_t count;
  uint64_t named; /* by next_block() so far */
};

/* Where the i-th block lies: scattered, so that no read-ahead of the kernel's finds it. */
static int64_t place(const struct blocks* blocks, uint64_t i) {
  return (int64_t)(i * 7919 % blocks->count * BLOCK);
}

static int next_block(iow_planned_read* read, void* user) {
  struct blocks* blocks = user;
  if (blocks->named == blocks->count) return 0;
  read->fd = blocks->fd;
  read->offset = place(blocks, blocks->named++);
  read->bytes = BLOCK;
  return 1;
}

static int fail(const char* what, int64_t error) {
  fprintf(stderr, "prefetch: %s: %s\n", what, strerror((int)-error));
  return EXIT_FAILURE;
}

/* Reads all blocks; the sum of their bytes goes to *sum. Returns 0 or -errno. */
static int64_t add_up(iow_plan* plan, const struct blocks* blocks, uint64_t* sum) {
  static unsigned char block[BLOCK];
  *sum = 0;
  for (uint64_t i = 0; i < blocks->count; ++i) {
    const int64_t got = iow_plan_read(plan, blocks->fd, block, BLOCK, place(blocks, i));
    if (got < 0) return got;
    for (int64_t j = 0; j < got; ++j) *sum += block[j]; /* the next ones are read meanwhile */
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 3 || strtoull(argv[2], NULL, 10) == 0) {
    fprintf(stderr, "usage: prefetch FILE BLOCKS\n");
    return 2;
  }
  struct blocks blocks = {open(argv[1], O_RDONLY | O_CLOEXEC), strtoull(argv[2], NULL, 10), 0};
  if (blocks.fd == -1) return fail(argv[1], -errno);
  iow_service* service = NULL;
  iow_plan* plan = NULL;
  int64_t error = iow_service_open(&service, NULL, NULL);
  if (error == 0) error = iow_plan_open(service, &plan, NULL, NULL);
  if (error != 0) return fail("cannot open a plan", error);

  uint64_t sum = 0;
  for (uint64_t i = 0; error == 0 && i < blocks.count; ++i) {
    error = iow_plan_add(plan, blocks.fd, place(&blocks, i), BLOCK);
  }
  if (error == 0) error = add_up(plan, &blocks, &sum);
  if (error == 0) {
    printf("by plan: %llu\n", (unsigned long long)sum);
    error = iow_plan_generate(plan, &next_block, &blocks);
  }
  if (error == 0) error = add_up(plan, &blocks, &sum);
  if (error == 0) printf("by generator: %llu\n", (unsigned long long)sum);
  iow_plan_close(plan);
  iow_service_close(service);
  close(blocks.fd);
  return error == 0 ? EXIT_SUCCESS : fail("cannot read", error);
}
