/* What the program saw, as a hash or in print, and how often each call was made. */
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

struct shared* shared;
int prints;

static const char* const names[kCalls] = {
#define FUZZ_TEXT(name, ...) [kCall_##name] = #name,
    IOWEAVE_WRAPPED_CALLS(FUZZ_TEXT, FUZZ_TEXT, FUZZ_TEXT) FUZZ_OTHER_CALLS(FUZZ_TEXT)};

/* Wrapped names that no step calls, each with the reason. A name that is neither here nor called
 * fails the test Differential.calls_are_driven. */
static const struct {
  int call;
  const char* reason;
} not_driven[] = {
    {-1, "today every name of the table is called"},
};

void count_call(int call) {
  __atomic_fetch_add(&shared->calls[call], 1, __ATOMIC_RELAXED);
}

static uint64_t turn(uint64_t sum, uint64_t word) {
  return ((sum ^ word) * 0x9fb21c651e98df25u) ^ (sum >> 29);
}

uint64_t hash_of(const void* at, long count) {
  const char* from = at;
  uint64_t lanes[4] = {1, 2, 3, (uint64_t)count};
  for (; count >= 32; count -= 32, from += 32) {
    uint64_t words[4];
    memcpy(words, from, 32);
    for (int i = 0; i < 4; ++i) lanes[i] = turn(lanes[i], words[i]);
  }
  for (; count > 0; --count) lanes[0] = turn(lanes[0], (unsigned char)*from++);
  return turn(turn(lanes[0], lanes[1]), turn(lanes[2], lanes[3]));
}

static void note_line(uint64_t hash) {
  shared->hash = turn(shared->hash, hash);
  ++shared->lines;
}

static void print_line(char* line, int length, int room) {
  if (length >= room) length = room - 1;
  line[length++] = '\n';
  (void)!syscall(SYS_write, 1, line, (size_t)length);
}

void say(const char* format, ...) {
  char line[320];
  const int saved = errno;
  int length = snprintf(line, sizeof line, "%ld ", step_now);
  va_list arguments;
  va_start(arguments, format);
  length += vsnprintf(line + length, sizeof line - (size_t)length - 1, format, arguments);
  va_end(arguments);
  if (length > (int)sizeof line - 2) length = (int)sizeof line - 2;
  note_line(hash_of(line, length));
  if (prints) print_line(line, length, sizeof line);
  errno = saved;
}

void report(const char* what, long a, long b, long c, long result) {
  const int saved = errno;
  const int error = result == -1 || errno != kErrnoBefore ? errno : 0;
  const uint64_t name = hash_of(what, (long)strlen(what));
  const uint64_t seen = turn(name, (uint64_t)(error != 0 ? error : result > 0 ? 1000 : 1001));
  unsigned char* const feature = &shared->features[seen % kFeatures];
  if (*feature < 255) ++*feature;
  if (prints) {
    say("%s %ld %ld %ld = %ld %s", what, a, b, c, result, error != 0 ? strerrorname_np(error) : "");
  } else {
    const uint64_t parts[] = {(uint64_t)step_now, name,        (uint64_t)a,
                              (uint64_t)b,        (uint64_t)c, (uint64_t)result,
                              (uint64_t)error};
    note_line(hash_of(parts, sizeof parts));
  }
  errno = saved;
}

/* Position, flags, size, mode and links, by one of the calls that tell them. */
static void report_file(int fd) {
  long size = -1;
  long mode = -1;
  long links = -1;
  if (step_now % 4 == 0) {
    struct statx status;
    if (DO(statx)(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &status) == 0) {
      size = (long)status.stx_size;
      mode = status.stx_mode;
      links = status.stx_nlink;
    }
  } else {
    struct stat status;
    if (DO(fstat)(fd, &status) == 0) {
      size = status.st_size;
      mode = (long)status.st_mode;
      links = (long)status.st_nlink;
    }
  }
  if (!S_ISREG(mode) && !S_ISDIR(mode)) size = 0;
  if (S_ISDIR(mode)) size = links = 0; /* of a folder, the file system's business */
  const long position = S_ISDIR(mode) ? 0 : syscall(SYS_lseek, fd, 0, SEEK_CUR);
  const long flags = syscall(SYS_fcntl, fd, F_GETFL);
  report("  file", position, size, mode, flags * 100 + links);
}

void report_on(int fd, const char* what, long a, long b, long result) {
  static long told;
  report(what, fd, a, b, result);
  const int saved = errno;
  if (excesses != told) report("  SIGXFSZ", excesses - told, 0, 0, 0);
  told = excesses;
  if (fd >= 0) report_file(fd);
  errno = saved;
}

/* Not by the C library: it must leave no trace in the program's descriptors. */
int open_journal(const char* path, int create) {
  const int flags = O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0);
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
  if (fd < 0 || (create && ftruncate(fd, sizeof *shared) != 0)) return 0;
  void* const at = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  syscall(SYS_close, fd);
  shared = at;
  return at != MAP_FAILED;
}

static const char* reason_of(int call) {
  for (size_t i = 0; i < sizeof not_driven / sizeof not_driven[0]; ++i) {
    if (not_driven[i].call == call) return not_driven[i].reason;
  }
  return NULL;
}

void print_counts(void) {
  char line[256];
  for (int i = 0; i < kCalls; ++i) {
    const char* const reason = reason_of(i);
    print_line(line,
               snprintf(line, sizeof line, "count %s %lu %s%s%s", names[i],
                        (unsigned long)shared->calls[i], i < kWrappedCalls ? "wrapped" : "other",
                        reason != NULL ? " " : "", reason != NULL ? reason : ""),
               sizeof line);
  }
}
