/* A generated program: what its files share.
 *
 * main.c runs steps. A step is a few calls that its number and the seed decide (choices.c), so that
 * leaving out one step leaves the choices of all others as they are: the shrinker of compare.py
 * lives on that. What a step does is in a file for each group of calls. What it saw is told to
 * journal.c, which keeps a hash of it, or prints it.
 *
 * The same seed tells the same every time: steps follow one another, on whatever thread or process
 * they run, and what runs at once (sides.c) has files of its own, or tells only what does not
 * depend on the order.
 */
#ifndef IOWEAVE_TESTS_DIFFERENTIAL_GENERATED_FUZZ_H
#define IOWEAVE_TESTS_DIFFERENTIAL_GENERATED_FUZZ_H

#include <fcntl.h>
#include <sched.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include "calls/libc/wrapped_calls.hpp"

/* Calls that are counted, too, though no wrapper stands before them. */
/* clang-format off */
#define FUZZ_OTHER_CALLS(X) \
  X(fopen) X(freopen) X(fclose) X(fread) X(fwrite) X(fseek) X(ftell) X(fflush) X(setvbuf) \
  X(fgetc) X(ungetc) X(fprintf) X(rename) X(renameat2) X(link) X(symlink) X(unlink) X(mkdir) \
  X(truncate) X(fallocate) X(futimens) X(fchmod) X(stat) X(statx) X(fstat) X(lstat) X(msync) \
  X(munmap) X(flock) X(pipe2) X(socketpair) X(setrlimit) X(setitimer) X(fork) X(posix_spawn) \
  X(pthread_create) X(exit) X(posix_fadvise) X(posix_fallocate) X(aio_read) X(aio_write)
/* clang-format on */

#define FUZZ_ENUMERATOR(name, ...) kCall_##name,
enum {
  IOWEAVE_WRAPPED_CALLS(FUZZ_ENUMERATOR, FUZZ_ENUMERATOR, FUZZ_ENUMERATOR) kWrappedCalls,
  kBeforeOthers = kWrappedCalls - 1,
  FUZZ_OTHER_CALLS(FUZZ_ENUMERATOR) kCalls
};

/* DO(pread)(...) counts the call and makes it. What is told includes errno after a success, which
 * must stay as the C library leaves it. */
#define DO(name) (count_call(kCall_##name), errno = kErrnoBefore, name)
enum { kErrnoBefore = 88 };
#define COUNT(name) count_call(kCall_##name)

enum { kSlots = 16, kWorkers = 3, kBytes = 1 << 18, kRecord = 16, kFeatures = 4096 };

/* Memory that all processes of the program share: a file, since executed ones must find it. */
struct shared {
  uint64_t hash, lines;
  uint64_t calls[kCalls];
  unsigned char features[kFeatures]; /* which answers were seen: for fuzz targets */
  /* What an executed child begins with. */
  int slots[kSlots];
  long from, until, theme;
  int depth;
};
extern struct shared* shared;

/* main.c */
extern int slots[kSlots]; /* descriptors, some of them closed */
extern char* bytes;       /* aligned, kBytes and a page of what is written from and read into */
extern int depth;         /* of children: bounded */
extern int workers_exist;
extern long step_now, resume_at, last_step;
extern long theme;
extern volatile long excesses; /* SIGXFSZ */
/* What a whole program is about. */
enum {
  kThemeWorkers = 1,
  kThemeListens = 2,
  kThemeAlarms = 4,
  kThemeBig = 8,
  kThemeUnshares = 16,
  kThemeDirect = 32
};
void run_steps(long from, long until);
void simple_step(void);
void begin_as_child(void); /* in a forked child */
const char* own_path(void);
const char* state_path(void);
/* Signals that would cut what may be cut. */
void hold_alarms(void);
void let_alarms(void);

/* choices.c */
struct choices {
  uint64_t state;
  const unsigned char* bytes;
  long left;
};
uint64_t next_of(struct choices* of);
long below_of(struct choices* of, long bound);
uint64_t next(void);
long below(long bound);
void choose_for_step(long number);
void choose_by_seed(uint64_t seed);
int choose_by_file(const char* path, long* steps);
long any_size(void);
long any_offset(void);
int any_fd(void);
int any_slot(void);
const char* any_name(void);
void keep(int slot, long fd);

/* journal.c */
extern int prints;
void count_call(int call);
void say(const char* format, ...) __attribute__((format(printf, 1, 2)));
void report(const char* what, long a, long b, long c, long result);
void report_on(int fd, const char* what, long a, long b, long result); /* and how the file is now */
uint64_t hash_of(const void* at, long count);
int open_journal(const char* path, int create);
void print_counts(void);

/* transfers.c */
void read_somehow(void);
void write_somehow(void);
void move_bytes(void);
void seek_somehow(void);
void verify_file(void);
void stream_file(void);
void check_times(void);
void fill_bytes(char* at, long count);

/* descriptors.c */
void open_somehow(void);
void close_somehow(void);
void copy_descriptor(void);
void change_descriptor(void);
void lock_somehow(void);
void look_somehow(void);
void make_ends(void);
void surroundings(void);

/* names.c */
void change_names(void);
void change_size(void);
void sparse_file(void);
void listen_somehow(void);
void wrong_somehow(void);

/* memory.c */
void map_somehow(void);
void catch_bus_errors(void);

/* streams.c */
void stream_somehow(void);
void make_streams_cached(void); /* before the C library flushes them */

/* processes.c */
void in_child(void);

/* sides.c */
void run_at_once(void);

#endif
