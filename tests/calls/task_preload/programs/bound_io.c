/* A task program that binds its reads by libioweave.so, forks, and calls pread(2) in one task, too.
 *
 *   bound_io FILE
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ioweave/ioweave.h>
#include <ioweave/tasks.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/alpi_provider/alpi.h"
#include "support/alpi_provider/alpi_test.h"

enum { kTasks = 32, kBlock = 4096 };

static int direct = -1;
static iow_service* service;
static unsigned char* memory;
static ssize_t results[kTasks];
static sem_t completed;

static void note_completion(void* unused) {
  (void)unused;
  sem_post(&completed);
}

static void bind_read(void* argument) {
  const long task = (long)argument;
  results[task] = -1;
  iow_ta_pread(service, direct, memory + task * kBlock, kBlock, task * kBlock, &results[task]);
}

static void read_plainly(void* argument) {
  (void)argument;
  results[0] += pread(direct, memory, kBlock, 0);
}

static void run(void (*body)(void*), long argument) {
  if (alpi_task_spawn(body, (void*)argument, note_completion, NULL, "io", NULL) != ALPI_SUCCESS) {
    abort();
  }
}

int main(int argc, char** argv) {
  direct = argc == 2 ? open(argv[1], O_RDONLY | O_DIRECT) : -1;
  if (direct < 0) {
    return 77;
  }
  memory = aligned_alloc(kBlock, kTasks * kBlock);
  sem_init(&completed, 0, 0);
  if (memory == NULL || alpi_test_start(2) != ALPI_SUCCESS ||
      iow_service_open(&service, NULL, NULL) != 0) {
    return 1;
  }
  for (long task = 0; task < kTasks; ++task) {
    run(bind_read, task);
  }
  for (int i = 0; i < kTasks; ++i) {
    sem_wait(&completed);
  }
  run(read_plainly, 0);
  sem_wait(&completed);
  const pid_t child = fork();
  if (child == 0) {
    iow_service_close(service); /* the parent's, which tells of it */
    _exit(0);
  }
  waitpid(child, NULL, 0);
  iow_service_close(service);
  alpi_test_stop();
  unsigned sum = 1;
  long bytes = 0;
  for (int i = 0; i < kTasks; ++i) {
    bytes += results[i];
    for (int j = 0; j < kBlock; ++j) {
      sum = sum * 31 + memory[i * kBlock + j];
    }
  }
  printf("%ld %08x\n", bytes, sum);
  return 3;
}
