/* A task program that knows nothing of Ioweave: its tasks read and write a file, and what it prints
 * must be the same with libioweave_tasks.so and without.
 *
 *   alpi_io io FILE        each task writes and reads its part of the file, all calls
 *   alpi_io errors FILE    calls that fail, with their errno
 *   alpi_io signal FILE    a task reads in a signal handler
 *   alpi_io limit FILE     a task writes beyond the limit on the size of files (ulimit -f)
 *   alpi_io fork FILE      a task forks, and the child reads
 *   alpi_io plain FILE     reads outside tasks
 *   alpi_io closes FILE    as io, then FILE.own becomes descriptor 2
 *   alpi_io daemon FILE    no environment, folder / and FILE.own as descriptor 2; then a child does
 * io
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/alpi_provider/alpi.h"
#include "support/alpi_provider/alpi_test.h"

enum { kTasks = 32, kBlock = 4096, kPart = 4 * kBlock };

static int direct = -1;
static int cached = -1;
static char results[kTasks][400];

static unsigned char* aligned(size_t bytes) {
  unsigned char* memory = aligned_alloc(kBlock, bytes);
  if (memory == NULL) {
    abort();
  }
  memset(memory, 0, bytes);
  return memory;
}

static unsigned sum_of(const unsigned char* bytes, size_t count) {
  unsigned sum = 1;
  for (size_t i = 0; i < count; ++i) {
    sum = sum * 31 + bytes[i];
  }
  return sum;
}

static sem_t completed;

static void note_completion(void* unused) {
  (void)unused;
  sem_post(&completed);
}

static void io(void* argument) {
  const long task = (long)argument;
  const off_t begin = task * kPart;
  unsigned char* memory = aligned(kPart);
  for (int i = 0; i < kPart; ++i) {
    memory[i] = (unsigned char)(i * 7 + task);
  }
  errno = EXDEV;
  const struct iovec out[2] = {{memory + kBlock, kBlock}, {memory + 2 * kBlock, 2 * kBlock}};
  const ssize_t written = pwrite(direct, memory, kBlock, begin);
  const ssize_t vectors = pwritev(direct, out, 2, begin + kBlock);
  const int synced = fsync(direct) + fdatasync(direct);
  memset(memory, 0, kPart);
  const ssize_t first = pread(direct, memory, kBlock, begin);
  const ssize_t second = pread64(direct, memory + kBlock, kBlock, begin + kBlock);
  const struct iovec in[2] = {{memory + 2 * kBlock, kBlock}, {memory + 3 * kBlock, kBlock}};
  const ssize_t rest = preadv(direct, in, 2, begin + 2 * kBlock);
  const int kept = errno;
  unsigned char of_cache[100];
  const ssize_t bytes = pread(cached, of_cache, sizeof of_cache, begin);
  snprintf(results[task], sizeof results[task], "%zd %zd %d %zd %zd %zd %d %08x %zd", written,
           vectors, synced, first, second, rest, kept, sum_of(memory, kPart), bytes);
  free(memory);
}

static void errors(void* argument) {
  const long task = (long)argument;
  unsigned char* memory = aligned(kPart);
  char* text = results[task];
  size_t length = 0;
  volatile int wrong_count = -1; /* the compiler would warn */
  const int fds[] = {direct, cached, -1, STDIN_FILENO};
  for (size_t i = 0; i < sizeof fds / sizeof fds[0]; ++i) {
    errno = 0;
    const ssize_t got = pread(fds[i], memory + 1, 100, 3);
    length += (size_t)snprintf(text + length, 60, "%zd %d, ", got, errno);
    errno = 0;
    const ssize_t negative = pread(fds[i], memory, kBlock, -1);
    length += (size_t)snprintf(text + length, 60, "%zd %d, ", negative, errno);
    errno = 0;
    const ssize_t end = pread(fds[i], memory, kBlock, 1 << 30);
    length += (size_t)snprintf(text + length, 60, "%zd %d, ", end, errno);
    errno = 0;
    const ssize_t count = preadv(fds[i], NULL, wrong_count, 0);
    length += (size_t)snprintf(text + length, 60, "%zd %d, ", count, errno);
    errno = 0;
    const int synced = fsync(fds[i]);
    length += (size_t)snprintf(text + length, 60, "%d %d, ", synced, errno);
  }
  free(memory);
}

static unsigned char* of_handler;
static ssize_t read_by_handler = -1;

static void on_signal(int number) {
  (void)number;
  /* NOLINTNEXTLINE(bugprone-signal-handler): this is what is tested. */
  read_by_handler = pread(direct, of_handler, kBlock, kBlock);
}

static void in_handler(void* argument) {
  (void)argument;
  of_handler = aligned(kBlock);
  unsigned char* memory = aligned(kBlock);
  const ssize_t before = pread(direct, memory, kBlock, 0);
  raise(SIGUSR1);
  const ssize_t after = pread(direct, memory, kBlock, 0);
  snprintf(results[0], sizeof results[0], "%zd %zd %zd %08x", before, read_by_handler, after,
           sum_of(of_handler, kBlock));
}

static _Thread_local volatile sig_atomic_t this_thread_was_told;

static void on_limit(int number) {
  (void)number;
  this_thread_was_told = 1;
}

static void beyond_limit(void* argument) {
  (void)argument;
  unsigned char* memory = aligned(kBlock);
  errno = 0;
  const ssize_t got = pwrite(direct, memory, kBlock, (off_t)1 << 40);
  snprintf(results[0], sizeof results[0], "%zd %d %d", got, errno, (int)this_thread_was_told);
}

static void forks(void* argument) {
  (void)argument;
  unsigned char* memory = aligned(kBlock);
  const ssize_t before = pread(direct, memory, kBlock, 0);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    exit(pread(direct, memory, kBlock, kBlock) == kBlock ? 7 : 8);
  }
  int status = 0;
  waitpid(child, &status, 0);
  const ssize_t after = pread(direct, memory, kBlock, 0);
  snprintf(results[0], sizeof results[0], "%zd %d %zd", before, WEXITSTATUS(status), after);
}

static void spawn(void (*body)(void*), long tasks) {
  sem_init(&completed, 0, 0);
  alpi_test_start(2);
  for (long task = 0; task < tasks; ++task) {
    if (alpi_task_spawn(body, (void*)task, note_completion, NULL, "io", NULL) != ALPI_SUCCESS) {
      abort();
    }
  }
  for (long task = 0; task < tasks; ++task) { /* of its own: a library may have others */
    while (sem_wait(&completed) != 0) {
    }
  }
  for (long task = 0; task < tasks; ++task) {
    printf("%ld: %s\n", task, results[task]);
  }
}

static int make_descriptor_2(const char* file) {
  char own[4096];
  snprintf(own, sizeof own, "%s.own", file);
  close(STDERR_FILENO);
  return open(own, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

/* What daemons do before they do anything else. Returns in the child. */
static void become_daemon(const char* file) {
  clearenv();
  if (chdir("/") != 0 || make_descriptor_2(file) != STDERR_FILENO) {
    exit(5);
  }
  const pid_t child = fork();
  if (child != 0) {
    int status = 0;
    waitpid(child, &status, 0);
    exit(WEXITSTATUS(status));
  }
}

int main(int argc, char** argv) {
  if (argc != 3) {
    return 2;
  }
  direct = open(argv[2], O_RDWR | O_DIRECT | O_CLOEXEC);
  cached = open(argv[2], O_RDONLY | O_CLOEXEC);
  if (direct < 0 || cached < 0) {
    return 77;
  }
  signal(SIGUSR1, on_signal);
  signal(SIGXFSZ, on_limit);
  const char* mode = argv[1];
  if (strcmp(mode, "daemon") == 0) {
    become_daemon(argv[2]);
    mode = "io";
  }
  char byte;
  if (pread(cached, &byte, 1, 0) != 1) { /* outside tasks */
    return 4;
  }
  if (strcmp(mode, "io") == 0) {
    spawn(io, kTasks);
  } else if (strcmp(mode, "errors") == 0) {
    spawn(errors, kTasks);
  } else if (strcmp(mode, "signal") == 0) {
    spawn(in_handler, 1);
  } else if (strcmp(mode, "limit") == 0) {
    spawn(beyond_limit, 1);
  } else if (strcmp(mode, "fork") == 0) {
    spawn(forks, 1);
  } else if (strcmp(mode, "closes") == 0) {
    spawn(io, kTasks);
    printf("%d\n", make_descriptor_2(argv[2]));
  } else {
    unsigned char* memory = aligned(kBlock);
    printf("%zd\n", pread(direct, memory, kBlock, 0));
  }
  return 3;
}
