/* held_writer FILE HOW SEED COUNT [ACKNOWLEDGED]: random writes of a file, as a seed says, by all
 * calls that write; then it ends as HOW says:
 *
 *   close    by closing the file
 *   fault    by an invalid address
 *   forever  never: it goes on writing, and says in the file ACKNOWLEDGED how many writes have
 *            returned
 *   small    COUNT writes of 512 bytes in order, an fsync, and a close
 *   full     writes of 64 KiB in order until one fails, an fsync, and a close; each error is
 *            printed
 *   calls=   by the calls that the letters behind it stand for, on one descriptor; each error is
 *            printed: w a write of 512 bytes, s stat, u setuid to the same user, d dup, f fsync,
 *            D fdatasync, c close, C close of what dup gave
 *   mapped   as close, but the file is mapped into memory first
 *   sharing  as close, but memory is shared with others first
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kFileBytes = 16 << 20, kMostBytes = 50000 };

static unsigned long state;

static unsigned long next(void) {
  unsigned long value = state += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  return (value ^ (value >> 27)) % 0x7fffffff;
}

static void tell(const char* what, long result) {
  if (result < 0) printf("%s: %s\n", what, strerrorname_np(errno));
}

static void make_call(char call, const char* path, int fd, const char* buffer) {
  static int copy = -1;
  struct stat status;
  if (call == 'w') tell("write", write(fd, buffer, 512));
  if (call == 's') tell("stat", stat(path, &status));
  if (call == 'u') tell("setuid", setuid(getuid()));
  if (call == 'd') tell("dup", copy = dup(fd));
  if (call == 'f') tell("fsync", fsync(fd));
  if (call == 'D') tell("fdatasync", fdatasync(fd));
  if (call == 'c') tell("close", close(fd));
  if (call == 'C') tell("close", close(copy));
}

static void write_somewhere(int fd, char* buffer, long number) {
  const size_t bytes = 1 + next() % kMostBytes;
  const off_t at = (off_t)(next() % kFileBytes);
  memset(buffer, (int)(number & 255), bytes);
  struct iovec parts[2] = {{buffer, bytes / 2}, {buffer + bytes / 2, bytes - bytes / 2}};
  ssize_t written = 0;
  switch (number % 4) {
    case 0:
      written = pwrite(fd, buffer, bytes, at);
      break;
    case 1:
      lseek(fd, at, SEEK_SET);
      written = write(fd, buffer, bytes);
      break;
    case 2:
      written = pwritev(fd, parts, 2, at);
      break;
    default:
      lseek(fd, at, SEEK_SET);
      written = writev(fd, parts, 2);
  }
  if (written != (ssize_t)bytes) abort();
}

int main(int count, char** words) {
  if (count < 5) return 2;
  const char* const how = words[2];
  state = strtoul(words[3], NULL, 10);
  const long writes = atol(words[4]);
  char* const buffer = malloc(1 << 16);
  const int fd = open(words[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (fd < 0) return 3;
  const int log = count > 5 ? open(words[5], O_RDWR | O_CREAT | O_TRUNC, 0644) : -1;
  if (count > 5 && log < 0) return 3;
  if (strcmp(how, "small") == 0) {
    memset(buffer, 'x', 512);
    for (long i = 0; i < writes; ++i) tell("write", write(fd, buffer, 512));
    tell("fsync", fsync(fd));
    tell("close", close(fd));
    return 0;
  }
  if (strncmp(how, "calls=", 6) == 0) {
    memset(buffer, 'x', 512);
    for (const char* call = how + 6; *call != '\0'; ++call) make_call(*call, words[1], fd, buffer);
    return 0;
  }
  if (strcmp(how, "full") == 0) {
    long result = 0;
    memset(buffer, 'x', 1 << 16);
    for (long i = 0; i < writes && result >= 0; ++i)
      tell("write", result = write(fd, buffer, 1 << 16));
    tell("fsync", fsync(fd));
    tell("close", close(fd));
    return 0;
  }
  if (strcmp(how, "mapped") == 0 && mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED) {
    return 3;
  }
  const int flags = MAP_SHARED | MAP_ANONYMOUS;
  if (strcmp(how, "sharing") == 0 &&
      mmap(NULL, 4096, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) {
    return 3;
  }
  const int is_endless = strcmp(how, "forever") == 0;
  for (long i = 1; is_endless || i <= writes; ++i) {
    write_somewhere(fd, buffer, i);
    if (log >= 0 && pwrite(log, &i, sizeof i, 0) != sizeof i) return 5;
  }
  if (strcmp(how, "fault") == 0) *(volatile int*)1 = 1;
  return close(fd) == 0 ? 0 : 4;
}
