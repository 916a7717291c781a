/* many_calls NAME: four threads, then a child, each with a file NAME.0 to NAME.4 of its own, by
 * most calls that a program reads and writes with. Prints what it saw, and whose malloc it has. The
 * exit code is 42; another one is a call that did something else than it should. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kThreads = 4, kPiece = 8192, kPieces = 200, kBuffer = 65536 };

static const char* base;
static unsigned long sums[kThreads + 1];

static unsigned long add(unsigned long sum, const char* bytes, ssize_t count) {
  for (ssize_t i = 0; i < count; ++i) sum = sum * 31 + (unsigned char)bytes[i];
  return sum;
}

static void must(int holds, int code) {
  if (!holds) _exit(code);
}

static void write_all(int fd, char* buffer, long number) {
  for (int i = 0; i < kPieces; ++i) {
    memset(buffer, (int)(i + number), kPiece);
    must(write(fd, buffer, kPiece) == kPiece, 2);
    if (i % 5 == 0) must(pwrite(fd, "hello", 5, i * 100) == 5, 3);
  }
  struct iovec parts[2] = {{buffer, 100}, {buffer + 100, 200}};
  must(writev(fd, parts, 2) == 300, 4);
  must(fsync(fd) == 0, 5);
}

static unsigned long read_all(int fd, char* buffer) {
  unsigned long sum = 0;
  must(lseek(fd, 0, SEEK_SET) == 0, 6);
  for (ssize_t got; (got = read(fd, buffer, kBuffer)) > 0;) sum = add(sum, buffer, got);
  struct stat status;
  must(fstat(fd, &status) == 0 && status.st_size == kPieces * kPiece + 300, 7);
  const int copy = dup(fd);
  must(close(fd) == 0 && pread(copy, buffer, 10, 5) == 10, 8);
  sum = add(sum, buffer, 10);
  must(close(copy) == 0, 9);
  return sum;
}

static unsigned long use_otherwise(const char* name) {
  FILE* const stream = fopen(name, "r+");
  must(stream != NULL && fseek(stream, -3, SEEK_END) == 0 && fputs("END", stream) >= 0, 10);
  must(fclose(stream) == 0, 11);
  const int fd = open(name, O_RDONLY);
  struct stat status;
  must(fd >= 0 && fstat(fd, &status) == 0, 12);
  char* const map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  must(map != MAP_FAILED && close(fd) == 0, 13);
  const unsigned long sum = add(0, map, status.st_size);
  must(munmap(map, (size_t)status.st_size) == 0, 14);
  return sum;
}

static void* work(void* argument) {
  const long number = (long)(intptr_t)argument;
  char name[300];
  snprintf(name, sizeof name, "%s.%ld", base, number);
  const int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
  must(fd >= 0, 15);
  char* const buffer = malloc(kBuffer);
  write_all(fd, buffer, number);
  sums[number] = read_all(fd, buffer);
  sums[number] += use_otherwise(name);
  free(buffer);
  return NULL;
}

int main(int count, char** words) {
  if (count < 2) return 1;
  base = words[1];
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; ++i) {
    must(pthread_create(&threads[i], NULL, work, (void*)(intptr_t)i) == 0, 16);
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  const pid_t child = fork();
  if (child == 0) {
    work((void*)(intptr_t)kThreads);
    _exit(sums[kThreads] != 0 ? 43 : 17);
  }
  int status = 0;
  must(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 43, 18);
  must(read(-1, words, 1) == -1 && errno == EBADF, 19);
  Dl_info allocator = {0};
  dladdr(dlsym(RTLD_DEFAULT, "malloc"), &allocator);
  printf("%lx %lx %lx %lx malloc of %s\n", sums[0], sums[1], sums[2], sums[3],
         allocator.dli_fname != NULL ? allocator.dli_fname : "nobody");
  return 42;
}
