/* What the scenarios of differential_programs share. A scenario runs in an empty folder of its own,
 * and what it prints, leaves behind and ends with must be the same in every run of it.
 */
#ifndef IOWEAVE_TESTS_DIFFERENTIAL_SCENARIO_H
#define IOWEAVE_TESTS_DIFFERENTIAL_SCENARIO_H

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  kRacy = 1,   /* which thread gets what is chance: its system calls are not compared */
  kLonger = 2, /* takes more than a second */
  kShape = 4,  /* what it prints is about the process itself: not to be run under strace */
};

struct scenario {
  const char* name;
  int flags;
  void (*run)(void);
  struct scenario* next;
};
void scenario_add(struct scenario* one);

#define SCENARIO(name, flags)                                       \
  static void name(void);                                           \
  static struct scenario name##_entry = {#name, flags, name, NULL}; \
  __attribute__((constructor)) static void name##_add(void) {       \
    scenario_add(&name##_entry);                                    \
  }                                                                 \
  static void name(void)

/* Prints one line, by a raw system call: what prints is not what is tested. */
__attribute__((format(printf, 1, 2))) void say(const char* format, ...);

/* Prints the call, its result, and the error's name where it failed. Returns the result. */
#define DO(call) said(#call, (errno = 0, (long)(call)))
long said(const char* call, long result);

/* Ends the process if what a scenario builds on failed. */
#define NEED(condition) \
  ((condition) ? (void)0 : (say("NEED %s: %s", #condition, strerrorname_np(errno)), _exit(99)))

enum { kBuffer = 1 << 20 };
extern char buffer[kBuffer];

uint64_t hash_of(const void* bytes, size_t count);
void say_hash(const char* what, const void* bytes, size_t count);
/* A byte that tells where in which file it is. */
char pattern(uint64_t position);
void fill(char* to, uint64_t position, size_t count);
/* Makes a file of the pattern; `cold` asks the kernel to forget its pages. */
void make_file(const char* name, size_t bytes);
void make_cold_file(const char* name, size_t bytes);
/* Prints size and hash of a file, by raw system calls. */
void say_file(const char* name);
/* Reads to the end in pieces and prints the count and the hash. */
void say_rest(int fd, size_t piece);
/* Waits for a child and prints how it ended. */
void say_child(pid_t child);
/* Starts this program with another scenario in place of this process. */
void become(const char* scenario);
/* Runs `count` threads of a function with their numbers, and waits for them. */
void on_threads(int count, void* (*run)(void*));
/* Runs `count` forked children of a function with their numbers, and waits for them. */
void on_forks(int count, void* (*run)(void*));
void set_limit(int resource, rlim_t soft, rlim_t hard);
void handle(int signal, void (*handler)(int), int flags);

#endif
