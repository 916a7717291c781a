/*
 * An OmpSs-2 program that knows nothing of Ioweave: it reads a file by blocks, transforms each, and
 * writes another file, a task each with plain pread(2) and pwrite(2). It is written as a compiler
 * of OmpSs-2 would translate it, against the C interface of NODES, so that it can be tried without
 * that compiler; the pragmas it stands for are beside the calls. Afterwards it computes the result
 * once more, without tasks, and compares.
 *
 * NOT PART OF THE BUILD: it needs the headers and libraries of an installed NODES (tried with 1.3.0
 * on nOS-V 4.1.0), which Ioweave neither contains nor links. The tests build and run it where
 * IOWEAVE_TEST_NODES_PREFIX names one. By hand, where $NODES and $NOSV are their prefixes:
 *
 *   gcc -std=gnu11 -O2 -I$NODES/include pipeline_ompss2.c $NODES/lib/nodes-main-wrapper.o \
 *     -Wl,--no-as-needed -L$NODES/lib -lnodes -L$NOSV/lib -lnosv \
 *     -Wl,-rpath,$NODES/lib,-rpath,$NOSV/lib -o pipeline_ompss2
 *
 * The wrapper makes main() a task. --no-as-needed matters: both libraries must stand before the C
 * library, and the linker would drop -lnosv, of which nothing here is called. Then
 *
 *   ./pipeline_ompss2 IN OUT
 *   LD_PRELOAD=libioweave_tasks.so IOWEAVE_TASK_REPORT=report ./pipeline_ompss2 IN OUT
 *
 *   pipeline_ompss2 [--block KIB] [--window BLOCKS] [--compute US] [--direct] IN OUT
 *
 * IN is a multiple of the block long (64 KiB); a window of so many blocks is in memory at once
 * (64); each is computed on for so long (200 us).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <errno.h>
#include <nodes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The program's own part. */

static int in_fd, out_fd;
static size_t block_bytes = 64 * 1024;
static double compute_us = 200;

static void fail(const char* what) {
  fprintf(stderr, "pipeline_ompss2: %s: %s\n", what, strerror(errno));
  exit(1);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void read_block(char* block, long index) {
  const ssize_t bytes = pread(in_fd, block, block_bytes, (off_t)index * (off_t)block_bytes);
  if (bytes != (ssize_t)block_bytes) {
    fail("pread");
  }
}

static void transform(char* block, long index) {
  uint64_t* const words = (uint64_t*)(void*)block;
  for (size_t i = 0; i < block_bytes / sizeof *words; ++i) {
    words[i] = (words[i] ^ (uint64_t)index) * 0x9e3779b97f4a7c15u;
  }
}

static void compute(char* block, long index) {
  const double end = seconds() + 1e-6 * compute_us;
  transform(block, index);
  while (seconds() < end) {
  }
}

static void write_block(const char* block, long index) {
  const ssize_t bytes = pwrite(out_fd, block, block_bytes, (off_t)index * (off_t)block_bytes);
  if (bytes != (ssize_t)block_bytes) {
    fail("pwrite");
  }
}

/* What a compiler makes of the pragmas: a block of arguments, a function that names its
 * dependencies, one that runs the body, and a description of both. */

typedef struct {
  char* block;
  long index;
} Arguments;

static void block_is_written(void* given, void* bounds, void* handler) {
  Arguments* const task = given;
  (void)bounds;
  nanos6_register_write_depinfo(handler, task->block, block_bytes, 0);
}

static void block_is_changed(void* given, void* bounds, void* handler) {
  Arguments* const task = given;
  (void)bounds;
  nanos6_register_readwrite_depinfo(handler, task->block, block_bytes, 0);
}

static void block_is_read(void* given, void* bounds, void* handler) {
  Arguments* const task = given;
  (void)bounds;
  nanos6_register_read_depinfo(handler, task->block, block_bytes, 0);
}

static void run_read(void* given, void* device, nanos6_address_translation_entry_t* table) {
  Arguments* const task = given;
  (void)device, (void)table;
  read_block(task->block, task->index);
}

static void run_compute(void* given, void* device, nanos6_address_translation_entry_t* table) {
  Arguments* const task = given;
  (void)device, (void)table;
  compute(task->block, task->index);
}

static void run_write(void* given, void* device, nanos6_address_translation_entry_t* table) {
  Arguments* const task = given;
  (void)device, (void)table;
  write_block(task->block, task->index);
}

#define TASK_KIND(name, text)                                                         \
  static nanos6_task_implementation_info_t name##_implementation = {                  \
      .device_type_id = nanos6_host_device,                                           \
      .run = run_##name,                                                              \
      .task_type_label = text,                                                        \
      .declaration_source = __FILE__};                                                \
  static nanos6_task_info_t name##_info = {.num_symbols = 1,                          \
                                           .implementation_count = 1,                 \
                                           .implementations = &name##_implementation, \
                                           .coro_handle_idx = -1} /* no coroutine */

TASK_KIND(read, "read");
TASK_KIND(compute, "compute");
TASK_KIND(write, "write");

__attribute__((constructor)) static void register_kinds(void) {
  read_info.register_depinfo = block_is_written;
  compute_info.register_depinfo = block_is_changed;
  write_info.register_depinfo = block_is_read;
  nanos6_register_task_info(&read_info);
  nanos6_register_task_info(&compute_info);
  nanos6_register_task_info(&write_info);
}

static void submit(nanos6_task_info_t* kind, char* block, long index) {
  static nanos6_task_invocation_info_t here = {.invocation_source = __FILE__};
  void* arguments = NULL;
  void* task = NULL;
  nanos6_create_task(kind, &here, kind->implementations->task_type_label, sizeof(Arguments),
                     &arguments, &task, 0, 1);
  *(Arguments*)arguments = (Arguments){block, index};
  nanos6_submit_task(task);
}

/* The program again. */

static long number(const char* option, const char* text, long least) {
  char* end = NULL;
  const long value = text != NULL ? strtol(text, &end, 10) : 0;
  if (text == NULL || end == text || *end != '\0' || value < least) {
    fprintf(stderr, "pipeline_ompss2: %s needs a number from %ld\n", option, least);
    exit(2);
  }
  return value;
}

static long wrong_blocks(char* expected, char* found, long blocks) {
  long wrong = 0;
  for (long i = 0; i < blocks; ++i) {
    const off_t offset = (off_t)i * (off_t)block_bytes;
    read_block(expected, i);
    transform(expected, i);
    if (pread(out_fd, found, block_bytes, offset) != (ssize_t)block_bytes ||
        memcmp(expected, found, block_bytes) != 0) {
      ++wrong;
    }
  }
  return wrong;
}

int main(int argc, char** argv) {
  long window = 64;
  int flags = 0;
  int next = 1;
  for (; next < argc && argv[next][0] == '-'; ++next) {
    if (strcmp(argv[next], "--direct") == 0) {
      flags = O_DIRECT;
    } else if (strcmp(argv[next], "--block") == 0) {
      ++next;
      block_bytes = (size_t)number("--block", argv[next], 4) * 1024;
    } else if (strcmp(argv[next], "--window") == 0) {
      ++next;
      window = number("--window", argv[next], 2);
    } else if (strcmp(argv[next], "--compute") == 0) {
      ++next;
      compute_us = (double)number("--compute", argv[next], 0);
    } else {
      break;
    }
  }
  if (argc - next != 2) {
    fprintf(stderr,
            "usage: pipeline_ompss2 [--block KIB] [--window BLOCKS] [--compute US] [--direct] IN "
            "OUT\n");
    return 2;
  }
  struct stat status;
  in_fd = open(argv[next], O_RDONLY | flags);
  if (in_fd < 0 || fstat(in_fd, &status) != 0) {
    fail(argv[next]);
  }
  if (status.st_size == 0 || status.st_size % (off_t)block_bytes != 0) {
    fprintf(stderr, "pipeline_ompss2: %s is not a multiple of the block long\n", argv[next]);
    return 1;
  }
  const long blocks = (long)(status.st_size / (off_t)block_bytes);
  out_fd = open(argv[next + 1], O_RDWR | O_CREAT | flags, 0644);
  if (out_fd < 0 || ftruncate(out_fd, status.st_size) != 0) {
    fail(argv[next + 1]);
  }
  char* const memory = aligned_alloc(4096, (size_t)window * block_bytes);
  if (memory == NULL) {
    fail("memory");
  }
  memset(memory, 0, (size_t)window * block_bytes);

  const double begin = seconds();
  for (long i = 0; i < blocks; ++i) {
    char* const block = memory + (size_t)(i % window) * block_bytes;
    submit(&read_info, block, i);    /* #pragma oss task out(block[0;block_bytes]) */
    submit(&compute_info, block, i); /* #pragma oss task inout(block[0;block_bytes]) */
    submit(&write_info, block, i);   /* #pragma oss task in(block[0;block_bytes]) */
  }
  nanos6_taskwait(__FILE__); /* #pragma oss taskwait */
  const double took = seconds() - begin;

  const long wrong = wrong_blocks(memory, memory + block_bytes, blocks);
  printf("%ld blocks of %zu KiB: %.3f s, %ld wrong\n", blocks, block_bytes / 1024, took, wrong);
  free(memory);
  close(in_fd);
  close(out_fd);
  return wrong != 0;
}
