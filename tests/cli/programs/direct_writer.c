// Writes blocks of 4 KiB past the page cache, each full of its number.
//
//   direct_writer PATH COUNT HOW...
//
// HOW: close      writes, and closes
//      sync       the same with O_DSYNC
//      shared     maps memory together with others before, for writing
//      stream     has a stream of the C library on the same file before
//      mapped     has the file mapped before
//      halfway    maps such memory after half of the blocks, and tells a child through it, without
//                 a call, to compare the file
//      fork       the same by a child that it forks for each sixteenth block
//      fault      ends by SIGSEGV instead
//      killed     lets a child write, which is killed, and compares the file when it has heard so
//      large      writes 4 MiB at a time instead, COUNT of them, over a file that is there, and
//                 reads them back behind its end
//      hole       the same from memory with a hole, and says what each write returned
// Exit code 77: there is no O_DIRECT here; 3: a child saw something else.

#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBlock = 4096, kLarge = 4 << 20 };

static const char* path;
static unsigned char* block;

static void fail(const char* what) {
  perror(what);
  exit(1);
}

static void write_block(int fd, int number) {
  memset(block, number & 255, kBlock);
  if (pwrite(fd, block, kBlock, (off_t)number * kBlock) != kBlock) fail("pwrite");
}

static int holds_blocks(int count) {
  const int fd = open(path, O_RDONLY);
  unsigned char found[kBlock];
  for (int i = 0; i < count; ++i) {
    if (pread(fd, found, kBlock, (off_t)i * kBlock) != kBlock) return 0;
    for (int j = 0; j < kBlock; ++j) {
      if (found[j] != (i & 255)) return 0;
    }
  }
  close(fd);
  return 1;
}

static void* share(void) {
  void* const memory =
      mmap(NULL, kBlock, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("mmap");
  return memory;
}

static void end_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) exit(3);
}

/// Over a file that is there: a write that makes it longer is not cut into pieces.
static int write_large(int count, int has_hole) {
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  char* const memory =
      mmap(NULL, kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(memory, 'o', kLarge);
  for (int i = 0; i < count; ++i) {
    if (write(fd, memory, kLarge) != kLarge) fail("write");
  }
  if (fsync(fd) != 0) fail("fsync");
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);  // with pages there io_uring would have to wait
  close(fd);
  fd = open(path, O_RDWR | O_DIRECT);
  if (fd < 0) return 77;
  for (int i = 0; i < count; ++i) {
    memset(memory, 'a' + i, kLarge);
    if (has_hole && i > 0) munmap(memory + kLarge / 2, kBlock);
    const ssize_t written = pwrite(fd, memory, kLarge, (off_t)i * kLarge);
    printf("%zd\n", written);
    if (has_hole && i > 0) break;
  }
  for (int i = 0; i <= count && !has_hole; ++i) {
    const off_t at = (off_t)i * kLarge + kLarge / 2;
    printf("%zd %c\n", pread(fd, memory, kLarge, at), memory[0]);
  }
  close(fd);
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  path = argv[1];
  const int count = atoi(argv[2]);
  const char* const how = argv[3];
  if (strcmp(how, "large") == 0 || strcmp(how, "hole") == 0) {
    return write_large(count, strcmp(how, "hole") == 0);
  }
  block = aligned_alloc(kBlock, kBlock);
  FILE* stream = NULL;
  if (strcmp(how, "shared") == 0) (void)share();
  if (strcmp(how, "stream") == 0) stream = fopen(path, "w+");
  if (strcmp(how, "mapped") == 0) {
    const int old = open(path, O_RDWR | O_CREAT, 0600);
    if (ftruncate(old, (off_t)count * kBlock) != 0) fail("ftruncate");
    if (mmap(NULL, kBlock, PROT_READ, MAP_PRIVATE, old, 0) == MAP_FAILED) fail("mmap");
    close(old);
  }
  if (strcmp(how, "killed") == 0) {
    const pid_t child = fork();
    if (child > 0) {
      int status = 0;
      if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) return 1;
      return holds_blocks(count) ? 0 : 3;
    }
  }
  const int more = strcmp(how, "sync") == 0 ? O_DSYNC : 0;
  const int fd = open(path, O_RDWR | O_CREAT | O_DIRECT | more, 0600);
  if (fd < 0) return 77;
  pid_t watcher = -1;
  _Atomic int* written = NULL;
  for (int i = 0; i < count; ++i) {
    if (strcmp(how, "halfway") == 0 && i == count / 2) {
      written = share();
      watcher = fork();
      if (watcher == 0) {
        while (atomic_load(written) == 0) {
        }
        _exit(holds_blocks(count) ? 0 : 3);
      }
    }
    write_block(fd, i);
    if (strcmp(how, "fork") == 0 && i % 16 == 15) {
      const pid_t child = fork();
      if (child == 0) _exit(holds_blocks(i + 1) ? 0 : 3);
      end_of(child);
    }
  }
  if (written != NULL) {
    atomic_store(written, 1);
    end_of(watcher);
  }
  if (strcmp(how, "killed") == 0) raise(SIGKILL);
  if (strcmp(how, "fault") == 0) *(volatile char*)NULL = 0;
  if (stream != NULL && fseek(stream, 0, SEEK_SET) == 0 && fgetc(stream) != 0) return 3;
  return close(fd) == 0 ? 0 : 1;
}
