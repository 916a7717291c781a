/*
 * The numerics of the checkpointing stencil, the same for every form of it in this folder, C11 and
 * C++20. A form adds only the tasks.
 *
 * What it computes: heat in a square plate of `size` by `size` points, by Jacobi steps. The upper
 * edge is kept hot, the other three cold; a step makes every inner point the mean of its four
 * neighbours. Two grids take turns: step s reads the grid of step s-1 and writes the other one, the
 * one that step s-2 wrote.
 *
 * What is a task: the plate is cut into `blocks` blocks of whole rows.
 *
 *   stencil_compute(s, step, b)   reads  stencil_block(s, step - 1, b - 1 .. b + 1)
 *                                 writes stencil_block(s, step, b)
 *   a checkpoint of block b       reads  stencil_block(s, step, b)
 *
 * So the checkpoint of a step may go on while the next step computes, and must have ended before
 * the step after that, which writes the same memory again. These are all the dependencies there
 * are; stencil_block() is a fit address to name each of them by.
 *
 * What a checkpoint is: after every `every` steps, and after the last one, all blocks are written
 * to the file. Block b of checkpoint c is at (c * blocks + b) * block_bytes. block_bytes is padded
 * to 4096 and the memory of a block is aligned to it, so that O_DIRECT works.
 */
#ifndef IOWEAVE_EXAMPLES_STENCIL_H
#define IOWEAVE_EXAMPLES_STENCIL_H

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef O_DIRECT /* strict C11 hides it; the programs are built with _GNU_SOURCE */
#error "Define _GNU_SOURCE before the first include: the stencil uses O_DIRECT."
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum { STENCIL_ALIGNMENT = 4096 };

typedef struct stencil_options {
  int size;         /* points in each direction */
  int blocks;       /* blocks of rows */
  int steps;        /* Jacobi steps */
  int every;        /* steps from one checkpoint to the next */
  int direct;       /* open the file with O_DIRECT */
  int blocking;     /* pause the task that writes */
  int recompute;    /* check every checkpoint, not only the last one */
  const char* path; /* the checkpoint file */
} stencil_options;

typedef struct stencil {
  stencil_options options;
  int checkpoints;    /* how many the run makes */
  size_t block_bytes; /* of each block, in memory and in the file */
  double* grids[2];
  ssize_t* results; /* of each block of each checkpoint; outlives the tasks, as it must */
} stencil;

/* ---- Options ---- */

static inline void stencil_usage(FILE* to, const char* program) {
  fprintf(
      to,
      "usage: %s [--size N] [--steps N] [--every N] [--blocks N] [--direct] [--blocking]\n"
      "       [--recompute] FILE\n"
      "  --size N      points in each direction (1024)\n"
      "  --steps N     Jacobi steps (40)\n"
      "  --every N     steps from one checkpoint to the next (10)\n"
      "  --blocks N    blocks of rows, a task each (16)\n"
      "  --direct      write past the page cache (O_DIRECT)\n"
      "  --blocking    pause the task that writes, where the runtime can (oneTBB, ALPI), instead "
      "of\n"
      "                binding the write to it\n"
      "  --recompute   check every checkpoint against a second computation, not only the last\n",
      program);
}

/* The number `text` in 1..most, or 0 after a message that names the option. */
static inline int stencil_number(const char* option, const char* text, int most) {
  char* end = NULL;
  const long value = text != NULL ? strtol(text, &end, 10) : 0;
  if (text != NULL && end != text && *end == '\0' && value >= 1 && value <= most) return (int)value;
  fprintf(stderr, "%s needs a number from 1 to %d, not '%s'\n", option, most,
          text != NULL ? text : "");
  return 0;
}

/* Takes argv[*at], and its value where it has one. 0 where it is not an option or a bad one. */
static inline int stencil_take_option(stencil_options* options, char** argv, int* at) {
  const char* const word = argv[*at];
  if (strcmp(word, "--direct") == 0) return options->direct = 1;
  if (strcmp(word, "--blocking") == 0) return options->blocking = 1;
  if (strcmp(word, "--recompute") == 0) return options->recompute = 1;
  int* number = NULL;
  if (strcmp(word, "--size") == 0) number = &options->size;
  if (strcmp(word, "--steps") == 0) number = &options->steps;
  if (strcmp(word, "--every") == 0) number = &options->every;
  if (strcmp(word, "--blocks") == 0) number = &options->blocks;
  if (number == NULL) {
    fprintf(stderr, "unknown option '%s'\n", word);
    return 0;
  }
  *number = stencil_number(word, argv[++*at], number == &options->steps ? 1000000 : 32768);
  return *number != 0;
}

/* 0, or after a message the exit status 2; -1 after --help, which is no error. */
static inline int stencil_parse(stencil_options* options, int argc, char** argv) {
  *options = (stencil_options){1024, 16, 40, 10, 0, 0, 0, NULL};
  for (int at = 1; at < argc; ++at) {
    if (strcmp(argv[at], "--help") == 0) return stencil_usage(stdout, argv[0]), -1;
    if (argv[at][0] != '-' && options->path == NULL) {
      options->path = argv[at];
    } else if (!stencil_take_option(options, argv, &at)) {
      return stencil_usage(stderr, argv[0]), 2;
    }
  }
  if (options->path == NULL) return stencil_usage(stderr, argv[0]), 2;
  if (options->size < 3 || options->blocks > options->size) {
    fprintf(stderr, "--size must be at least 3, and --blocks at most --size\n");
    return 2;
  }
  return 0;
}

/* ---- The plate ---- */

/* The rows of block b are stencil_first_row(s, b) up to, and without, stencil_first_row(s, b + 1).
 */
static inline int stencil_first_row(const stencil* s, int block) {
  return (int)((long long)s->options.size * block / s->options.blocks);
}

/* Block `block` of the grid as it is after `step` steps; step 0 is the start. */
static inline double* stencil_block(const stencil* s, int step, int block) {
  return s->grids[step % 2] + (size_t)block * (s->block_bytes / sizeof(double));
}

static inline double* stencil_row(const stencil* s, int step, int block, int row) {
  const size_t columns = (size_t)s->options.size;
  return stencil_block(s, step, block) + (size_t)(row - stencil_first_row(s, block)) * columns;
}

static inline void stencil_free(stencil* s) {
  free(s->grids[0]);
  free(s->grids[1]);
  free(s->results);
  memset(s, 0, sizeof *s);
}

/* Allocates the grids and sets the start: the upper edge 1, all else 0. 0, or -ENOMEM. */
static inline int stencil_init(stencil* s, const stencil_options* options) {
  memset(s, 0, sizeof *s);
  s->options = *options;
  s->checkpoints = (options->steps + options->every - 1) / options->every;
  const size_t rows = (size_t)((options->size + options->blocks - 1) / options->blocks);
  const size_t bytes = rows * (size_t)options->size * sizeof(double);
  s->block_bytes = (bytes + STENCIL_ALIGNMENT - 1) / STENCIL_ALIGNMENT * STENCIL_ALIGNMENT;
  const size_t grid_bytes = (size_t)options->blocks * s->block_bytes;
  s->results = (ssize_t*)calloc((size_t)s->checkpoints * (size_t)options->blocks, sizeof(ssize_t));
  for (int i = 0; i < 2; ++i) s->grids[i] = (double*)aligned_alloc(STENCIL_ALIGNMENT, grid_bytes);
  if (s->results == NULL || s->grids[0] == NULL || s->grids[1] == NULL) {
    stencil_free(s);
    return -ENOMEM;
  }
  for (int i = 0; i < 2; ++i) {
    memset(s->grids[i], 0, grid_bytes); /* the padding, too: it is written to the file */
    for (int column = 0; column < options->size; ++column) s->grids[i][column] = 1.0;
  }
  return 0;
}

/* Computes block `block` of step `step`, 1 or more, from the step before. */
static inline void stencil_compute(const stencil* s, int step, int block) {
  const int size = s->options.size;
  const int end = stencil_first_row(s, block + 1);
  for (int row = stencil_first_row(s, block); row < end; ++row) {
    if (row == 0 || row == size - 1) continue; /* edges keep their value */
    const int above_is_ours = row > stencil_first_row(s, block);
    const int below_is_ours = row + 1 < end;
    const double* above = stencil_row(s, step - 1, above_is_ours ? block : block - 1, row - 1);
    const double* here = stencil_row(s, step - 1, block, row);
    const double* below = stencil_row(s, step - 1, below_is_ours ? block : block + 1, row + 1);
    double* to = stencil_row(s, step, block, row);
    for (int column = 1; column < size - 1; ++column) {
      to[column] = 0.25 * ((above[column] + below[column]) + (here[column - 1] + here[column + 1]));
    }
  }
}

/* The sum of all points after `step` steps, in order of the rows: the same in every form. */
static inline double stencil_checksum(const stencil* s, int step) {
  double sum = 0;
  for (int block = 0; block < s->options.blocks; ++block) {
    const double* row = stencil_block(s, step, block);
    const int rows = stencil_first_row(s, block + 1) - stencil_first_row(s, block);
    for (size_t i = 0; i < (size_t)rows * (size_t)s->options.size; ++i) sum += row[i];
  }
  return sum;
}

/* ---- Checkpoints ---- */

/* The number of the checkpoint made after step `step`, or -1 where none is made. */
static inline int stencil_checkpoint_of(const stencil* s, int step) {
  if (step % s->options.every != 0 && step != s->options.steps) return -1;
  return (step + s->options.every - 1) / s->options.every - 1;
}

/* The step after which checkpoint `checkpoint` is made. */
static inline int stencil_step_of(const stencil* s, int checkpoint) {
  const long long step = (long long)(checkpoint + 1) * s->options.every;
  return step < s->options.steps ? (int)step : s->options.steps;
}

static inline off_t stencil_offset(const stencil* s, int checkpoint, int block) {
  return ((off_t)checkpoint * s->options.blocks + block) * (off_t)s->block_bytes;
}

/* Where the write of a block is to leave its result. */
static inline ssize_t* stencil_result(const stencil* s, int checkpoint, int block) {
  return &s->results[(size_t)checkpoint * (size_t)s->options.blocks + (size_t)block];
}

/* Creates the checkpoint file. The descriptor, or after a message -1. */
static inline int stencil_create_file(const stencil* s) {
  const int flags = O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | (s->options.direct ? O_DIRECT : 0);
  const int fd = open(s->options.path, flags, 0666);
  if (fd < 0) {
    fprintf(stderr, "cannot create %s: %s%s\n", s->options.path, strerror(errno),
            errno == EINVAL && s->options.direct ? " (the file system has no O_DIRECT?)" : "");
  }
  return fd;
}

/* Whether every write left `block_bytes` as its result; a message says which one did not. */
static inline int stencil_writes_ended_well(const stencil* s) {
  for (int checkpoint = 0; checkpoint < s->checkpoints; ++checkpoint) {
    for (int block = 0; block < s->options.blocks; ++block) {
      const ssize_t result = *stencil_result(s, checkpoint, block);
      if (result == (ssize_t)s->block_bytes) continue;
      fprintf(stderr, "block %d of checkpoint %d: %s\n", block, checkpoint,
              result < 0 ? strerror((int)-result) : "written in part");
      return 0;
    }
  }
  return 1;
}

/* Whether checkpoint `checkpoint` of the file holds what the grid of its step holds now. */
static inline int stencil_file_holds(const stencil* s, int fd, int checkpoint) {
  const int step = stencil_step_of(s, checkpoint);
  void* const buffer = aligned_alloc(STENCIL_ALIGNMENT, s->block_bytes);
  int same = buffer != NULL;
  for (int block = 0; same && block < s->options.blocks; ++block) {
    const ssize_t got = pread(fd, buffer, s->block_bytes, stencil_offset(s, checkpoint, block));
    same = got == (ssize_t)s->block_bytes &&
           memcmp(buffer, stencil_block(s, step, block), s->block_bytes) == 0;
    if (!same) fprintf(stderr, "block %d of checkpoint %d differs\n", block, checkpoint);
  }
  free(buffer);
  return same;
}

/* Computes all again without tasks, and compares every checkpoint of the file on the way. */
static inline int stencil_recompute(const stencil_options* options, int fd) {
  stencil again;
  if (stencil_init(&again, options) != 0) return 0;
  int same = 1;
  for (int step = 1; same && step <= options->steps; ++step) {
    for (int block = 0; block < options->blocks; ++block) stencil_compute(&again, step, block);
    const int checkpoint = stencil_checkpoint_of(&again, step);
    if (checkpoint >= 0) same = stencil_file_holds(&again, fd, checkpoint);
  }
  stencil_free(&again);
  return same;
}

/*
 * To be called when all tasks have ended: checks the results of the writes, reads the last
 * checkpoint (with --recompute: every one) back and compares it. Prints the checksum and returns
 * the exit status, 0 or 1.
 */
static inline int stencil_finish(const stencil* s, int fd) {
  if (!stencil_writes_ended_well(s)) return 1;
  if (!stencil_file_holds(s, fd, s->checkpoints - 1)) return 1;
  if (s->options.recompute && !stencil_recompute(&s->options, fd)) return 1;
  printf("checksum %.10e after %d steps, %d checkpoints of %d blocks of %zu bytes\n",
         stencil_checksum(s, s->options.steps), s->options.steps, s->checkpoints, s->options.blocks,
         s->block_bytes);
  return 0;
}

/* The program around the tasks. `run` carries all out and returns stencil_finish(), or after a
 * message 1. Returns the exit status. */
static inline int stencil_main(int argc, char** argv, int (*run)(const stencil* plate, int fd)) {
  stencil_options options;
  stencil plate;
  const int error = stencil_parse(&options, argc, argv);
  if (error != 0) return error < 0 ? 0 : error;
  if (stencil_init(&plate, &options) != 0) {
    fprintf(stderr, "not enough memory for the plate; choose a smaller --size\n");
    return 1;
  }
  const int fd = stencil_create_file(&plate);
  const int status = fd >= 0 ? run(&plate, fd) : 1;
  if (fd >= 0) close(fd);
  stencil_free(&plate);
  return status;
}

#ifdef __cplusplus
}
#endif

#endif /* IOWEAVE_EXAMPLES_STENCIL_H */
