/* differential_fuzz SEED STEPS [DESCRIPTOR...]: a program made of a seed. It does STEPS random
 * calls on a few files in the current folder, on the main thread, on others, in forked children and
 * in executed ones, and prints each with its result. The same seed prints the same every time:
 * calls on what is shared follow one another, and what runs at once has files of its own, or prints
 * only what does not depend on the order.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
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
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kSlots = 16, kWorkers = 3, kBytes = 1 << 18, kRecord = 16 };

static uint64_t state;    /* of the generator of this process */
static int slots[kSlots]; /* descriptors, some of them closed */
static char* bytes;       /* aligned, what is written from and read into */
static int depth;         /* of forks: bounded */
static int workers_exist;

static uint64_t next_of(uint64_t* of) {
  uint64_t z = (*of += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
static long below_of(uint64_t* of, long bound) {
  return (long)(next_of(of) % (uint64_t)bound);
}
static long below(long bound) {
  return below_of(&state, bound);
}

static void say(const char* format, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  line[length++] = '\n';
  (void)!syscall(SYS_write, 1, line, (size_t)length);
}

static uint64_t hash_of(const char* at, long count) {
  uint64_t sum = 14695981039346656037u;
  for (long i = 0; i < count; ++i) sum = (sum ^ (unsigned char)at[i]) * 1099511628211u;
  return sum;
}

static void report(const char* what, long a, long b, long c, long result) {
  const int error = result == -1 ? errno : 0;
  say("%s %ld %ld %ld = %ld %s", what, a, b, c, result, error != 0 ? strerrorname_np(error) : "");
}

static void report_data(const char* what, long a, long b, long c, long result) {
  report(what, a, b, c, result);
  if (result > 0) say("  %016lx", (unsigned long)hash_of(bytes, result));
}

static void on_signal(int number) {
  (void)number;
}

static long any_size(void) {
  static const long sizes[] = {1, 100, 511, 512, 4095, 4096, 4097, 65536, 131072, 200000};
  const long size = sizes[below(10)];
  return below(3) == 0 ? below(size + 1) : size;
}
static long any_offset(void) {
  switch (below(5)) {
    case 0:
      return below(1 << 20);
    case 1:
      return below(256) * 4096;
    case 2:
      return below(100);
    case 3:
      return below(30) == 0 ? -1 : 0;
    default:
      return below(40000);
  }
}
static long any_slot(void) {
  return below(kSlots);
}
static int any_fd(void) {
  return slots[any_slot()];
}
static const char* any_name(void) {
  static const char* names[] = {"f0", "f1", "f2", "f3", "f4"};
  return names[below(5)];
}
static void fill_bytes(long count) {
  const uint64_t salt = next_of(&state);
  for (long i = 0; i < count; ++i) bytes[i] = (char)((uint64_t)i * salt >> 23);
}

/* A transfer by one of the calls, to or from pieces. */
static void read_somehow(void) {
  const int fd = any_fd();
  const long size = any_size();
  const long offset = any_offset();
  char* const to = below(4) != 0 ? bytes : bytes + below(64);
  struct iovec parts[3] = {
      {to, (size_t)size / 3}, {to + size / 3, (size_t)(size - size / 3)}, {to, 0}};
  memset(bytes, 0, (size_t)size + 64);
  long got = 0;
  const long kind = below(9);
  errno = 0;
  switch (kind) {
    case 0:
    case 1:
    case 2:
      got = read(fd, to, (size_t)size);
      break;
    case 3:
    case 4:
      got = pread(fd, to, (size_t)size, offset);
      break;
    case 5:
      got = readv(fd, parts, 3);
      break;
    case 6:
      got = preadv(fd, parts, 3, offset);
      break;
    case 7:
      got = preadv2(fd, parts, 2, below(2) != 0 ? -1 : offset, 0);
      break;
    default:
      got = syscall(SYS_read, fd, to, size);
      break;
  }
  const int error = errno;
  if (to != bytes && got > 0) memmove(bytes, to, (size_t)got);
  errno = error;
  report_data("read", kind, fd, size, got);
}

static void write_somehow(void) {
  const int fd = any_fd();
  const long size = any_size();
  const long offset = any_offset();
  fill_bytes(size);
  struct iovec parts[3] = {
      {bytes, (size_t)size / 3}, {bytes + size / 3, (size_t)(size - size / 3)}, {bytes, 0}};
  long put = 0;
  const long kind = below(9);
  errno = 0;
  switch (kind) {
    case 0:
    case 1:
    case 2:
      put = write(fd, bytes, (size_t)size);
      break;
    case 3:
    case 4:
      put = pwrite(fd, bytes, (size_t)size, offset);
      break;
    case 5:
      put = writev(fd, parts, 3);
      break;
    case 6:
      put = pwritev(fd, parts, 3, offset);
      break;
    case 7:
      put = pwritev2(fd, parts, 2, below(2) != 0 ? -1 : offset, below(4) == 0 ? RWF_APPEND : 0);
      break;
    default:
      put = syscall(SYS_write, fd, bytes, size);
      break;
  }
  report("write", kind, fd, size, put);
}

static void open_somehow(void) {
  static const int modes[] = {O_RDONLY, O_RDWR, O_RDWR, O_WRONLY};
  static const int extra[] = {0,      0,        0,         0,      O_APPEND, O_TRUNC,
                              O_EXCL, O_DIRECT, O_CLOEXEC, O_PATH, O_DSYNC};
  const long slot = any_slot();
  const int flags = modes[below(4)] | (below(4) != 0 ? O_CREAT : 0) | extra[below(11)];
  const char* const name = any_name();
  const int fd = below(8) != 0 ? open(name, flags, 0640)
                               : (int)syscall(SYS_openat, AT_FDCWD, name, flags, 0640);
  report(name, flags, slot, 0, fd);
  if (fd >= 0) slots[slot] = fd;
}

static void close_somehow(void) {
  const int fd = any_fd();
  switch (below(6)) {
    case 0:
      report("raw close", fd, 0, 0, fd == 1 ? 0 : syscall(SYS_close, fd));
      break;
    case 1:
      if (below(3) == 0 && fd > 2) {
        report("close_range", fd, 0, 0, close_range((unsigned)fd, (unsigned)fd + 3, 0));
        break;
      }
      if (below(8) == 0 && fd > 2) {
        report("raw close_range", fd, 0, 0, syscall(SYS_close_range, fd, ~0u, 0));
        break;
      }
      /* fall through */
    default:
      report("close", fd, 0, 0, close(fd));
      break;
  }
}

static void copy_descriptor(void) {
  const int fd = any_fd();
  const long slot = any_slot();
  const long onto = below(4) == 0   ? 700 + below(324)
                    : below(3) == 0 ? 3 + below(60)
                                    : slots[any_slot()];
  if (onto == 1) return;
  long result = 0;
  const long kind = below(6);
  switch (kind) {
    case 0:
      result = dup(fd);
      break;
    case 1:
      result = dup2(fd, (int)onto);
      break;
    case 2:
      result = dup3(fd, (int)onto, below(2) != 0 ? O_CLOEXEC : 0);
      break;
    case 3:
      result = fcntl(fd, F_DUPFD, onto < 0 ? 0 : onto);
      break;
    case 4:
      result = fcntl(fd, F_DUPFD_CLOEXEC, 10);
      break;
    default:
      result = syscall(SYS_dup3, fd, (int)onto, 0);
      break;
  }
  report("dup", kind, fd, onto, result);
  if (result >= 0) slots[slot] = (int)result;
}

static void move_bytes(void) {
  const int from = any_fd();
  const int to = any_fd();
  const long size = any_size();
  off_t in = below(30000);
  off_t out = below(30000);
  const int has_in = below(2) != 0;
  const int has_out = below(2) != 0;
  /* These stop early where a signal waits. */
  sigset_t timers;
  sigemptyset(&timers);
  sigaddset(&timers, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &timers, NULL);
  switch (below(3)) {
    case 0:
      report("sendfile", from, to, size, sendfile(to, from, has_in ? &in : NULL, (size_t)size));
      break;
    case 1:
      report(
          "copy_file_range", from, to, size,
          copy_file_range(from, has_in ? &in : NULL, to, has_out ? &out : NULL, (size_t)size, 0));
      break;
    default:
      report("splice", from, to, size,
             splice(from, has_in ? &in : NULL, to, has_out ? &out : NULL, (size_t)size,
                    SPLICE_F_NONBLOCK));
      break;
  }
  pthread_sigmask(SIG_UNBLOCK, &timers, NULL);
  say("  %ld %ld", (long)in, (long)out);
}

static void change_file(void) {
  const int fd = any_fd();
  const long size = below(4) == 0 ? any_offset() : below(300000);
  const char* const name = any_name();
  const char* const other = any_name();
  switch (below(11)) {
    case 0:
      report("ftruncate", fd, size, 0, ftruncate(fd, size));
      break;
    case 1:
      report("truncate", size, 0, 0, truncate(name, size));
      break;
    case 2:
      report("fallocate", fd, size, 0, fallocate(fd, 0, 0, size));
      break;
    case 3:
      report("punch", fd, size, 0,
             fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, size, 9000));
      break;
    case 4:
      report("fsync", fd, 0, 0, fsync(fd));
      break;
    case 5:
      report("fdatasync", fd, 0, 0, fdatasync(fd));
      break;
    case 6:
      report("sync_file_range", fd, 0, 0, sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));
      break;
    case 7:
      if (below(3) == 0) report("unlink", 0, 0, 0, unlink(name));
      break;
    case 8:
      if (below(3) == 0) report("rename", 0, 0, 0, rename(name, other));
      break;
    case 9:
      report("append", fd, 0, 0,
             fcntl(fd, F_SETFL, below(2) != 0 ? O_APPEND | O_NONBLOCK : O_NONBLOCK));
      break;
    default:
      report("raw append", fd, 0, 0, syscall(SYS_fcntl, fd, F_SETFL, O_APPEND | O_NONBLOCK));
      break;
  }
}

static void look(void) {
  const int fd = any_fd();
  struct stat status;
  switch (below(5)) {
    case 0: {
      const long result = fstat(fd, &status);
      report("fstat", fd, result == 0 && S_ISREG(status.st_mode) ? status.st_size : 0,
             result == 0 ? (long)status.st_mode : 0, result);
      break;
    }
    case 1:
      report("F_GETFL", fd, 0, 0, fcntl(fd, F_GETFL));
      break;
    case 2:
      report("F_GETFD", fd, 0, 0, fcntl(fd, F_GETFD));
      break;
    case 3:
      report("raw lseek", fd, 0, 0, syscall(SYS_lseek, fd, 0, SEEK_CUR));
      break;
    default: {
      if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) break;
      const size_t count = status.st_size < kBytes ? (size_t)status.st_size : (size_t)kBytes;
      const char* const map = mmap(NULL, count, PROT_READ, MAP_SHARED, fd, 0);
      if (map == MAP_FAILED) break;
      say("map %d %016lx", fd, (unsigned long)hash_of(map, (long)count));
      munmap((void*)map, count);
      break;
    }
  }
}

static void seek(void) {
  static const int whences[] = {SEEK_SET, SEEK_SET, SEEK_CUR, SEEK_END};
  const int fd = any_fd();
  const int whence = whences[below(4)];
  const long by = whence == SEEK_SET ? any_offset() : below(20000) - 10000;
  report("lseek", fd, by, whence, lseek(fd, by, whence));
}

/* Ends that never block. */
static void make_ends(void) {
  int ends[2];
  const long result = below(2) != 0 ? pipe2(ends, O_NONBLOCK)
                                    : socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends);
  report("ends", 0, 0, 0, result);
  if (result == 0) {
    slots[any_slot()] = ends[0];
    slots[any_slot()] = ends[1];
  }
}

static void surroundings(void) {
  const long choice = below(3);
  if (choice == 0) {
    const struct rlimit limit = {below(2) != 0 ? 150000 : RLIM_INFINITY, RLIM_INFINITY};
    report("RLIMIT_FSIZE", (long)limit.rlim_cur, 0, 0, setrlimit(RLIMIT_FSIZE, &limit));
  } else if (choice == 1) {
    const long us = below(2) * 500;
    const struct itimerval when = {{0, us}, {0, us}};
    report("timer", us, 0, 0, setitimer(ITIMER_REAL, &when, NULL));
  } else {
    const struct rlimit limit = {below(2) != 0 ? 64 : 1024, 1024};
    report("RLIMIT_NOFILE", (long)limit.rlim_cur, 0, 0, setrlimit(RLIMIT_NOFILE, &limit));
  }
}

/* What runs at once: own files by own descriptors, a result that does not depend on the others. */
struct side {
  uint64_t seed, result;
  int number, fd;
};

static void* run_side(void* argument) {
  struct side* const side = argument;
  uint64_t generator = side->seed;
  static const size_t room = 70000;
  char* const mine = calloc(room, 1);
  uint64_t sum = 0;
  for (int i = 0; i < 40; ++i) {
    const long size = below_of(&generator, (long)room);
    const long at = below_of(&generator, 200000);
    long result = 0;
    switch (below_of(&generator, 6)) {
      case 0:
        memset(mine, (int)at, (size_t)size);
        result = write(side->fd, mine, (size_t)size);
        break;
      case 1:
        memset(mine, (int)at, (size_t)size);
        result = pwrite(side->fd, mine, (size_t)size, at);
        break;
      case 2:
        result = lseek(side->fd, at, SEEK_SET);
        break;
      case 3:
        result = pread(side->fd, mine, (size_t)size, at);
        break;
      case 4:
        result = ftruncate(side->fd, at);
        break;
      default:
        result = read(side->fd, mine, (size_t)size);
        break;
    }
    sum = (sum ^ (uint64_t)result) * 1099511628211u;
    if (result > 0 && result <= size) sum ^= hash_of(mine, result);
  }
  free(mine);
  side->result = sum;
  return NULL;
}

static void* run_records(void* argument) {
  struct side* const side = argument;
  char record[kRecord];
  memset(record, 'a' + side->number, kRecord);
  uint64_t failed = 0;
  for (int i = 0; i < 150; ++i) failed += write(side->fd, record, kRecord) != kRecord;
  side->result = failed;
  return NULL;
}

static int compare_records(const void* a, const void* b) {
  return memcmp(a, b, kRecord);
}

static void run_at_once(void) {
  const int count = 2 + (int)below(3);
  const int records = below(2) != 0;
  const int forks = below(3) == 0;
  struct itimerval off;
  memset(&off, 0, sizeof off);
  if (forks) setitimer(ITIMER_REAL, &off, NULL);
  struct side sides[5];
  int fds[5];
  int ready = 1;
  for (int i = 0; i < count; ++i) {
    char name[8];
    snprintf(name, sizeof name, "s%d", records ? 9 : i);
    if (i == 0 || !records)
      fds[i] = open(name, O_RDWR | O_CREAT | (records && below(3) == 0 ? O_APPEND : 0), 0600);
    ready = ready && fds[records ? 0 : i] >= 0;
    sides[i] = (struct side){next_of(&state), 0, i, fds[records ? 0 : i]};
  }
  void* (*const run)(void*) = records ? run_records : run_side;
  if (ready && forks) {
    for (int i = 0; i < count; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        run(&sides[i]);
        _exit((int)(sides[i].result % 251));
      }
      sides[i].seed = (uint64_t)child;
    }
    for (int i = 0; i < count; ++i) {
      int status = 0;
      while (waitpid((pid_t)sides[i].seed, &status, 0) < 0 && errno == EINTR) {
      }
      sides[i].result = (uint64_t)status;
    }
  } else if (ready) {
    pthread_t threads[5];
    for (int i = 0; i < count; ++i) pthread_create(&threads[i], NULL, run, &sides[i]);
    for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  }
  say("at once %d, records %d, forks %d, ready %d", count, records, forks, ready);
  for (int i = 0; ready && i < count; ++i)
    say("  side %d: %016lx", i, (unsigned long)sides[i].result);
  if (ready && records) {
    const long got = syscall(SYS_pread64, fds[0], bytes, kBytes, 0);
    qsort(bytes, got > 0 ? (size_t)got / kRecord : 0, kRecord, compare_records);
    say("  %ld at %ld, %016lx", got, (long)lseek(fds[0], 0, SEEK_CUR),
        (unsigned long)hash_of(bytes, got));
    unlink("s9");
  }
  for (int i = 0; i < (records ? 1 : count); ++i) {
    if (fds[i] >= 0) close(fds[i]);
  }
}

static void steps(long count);

static void in_child(void) {
  if (depth >= 2) return;
  const uint64_t seed = next_of(&state);
  const long count = 5 + below(20);
  const long kind = below(4);
  /* A timer is not inherited; what an executed program does with one is not to be tested here. */
  pid_t child = 0;
  char numbers[kSlots][12];
  char seed_text[24];
  char count_text[24];
  char* arguments[kSlots + 4] = {(char*)"differential_fuzz", seed_text, count_text};
  snprintf(seed_text, sizeof seed_text, "%lu", (unsigned long)seed);
  snprintf(count_text, sizeof count_text, "%ld", count);
  for (int i = 0; i < kSlots; ++i) {
    snprintf(numbers[i], sizeof numbers[i], "%d", slots[i]);
    arguments[i + 3] = numbers[i];
  }
  arguments[kSlots + 3] = NULL;
  say("child %ld of %ld steps", kind, count);
  child = kind == 3 ? vfork() : kind == 2 ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
  if (child == 0 && (kind == 3 || kind == 1)) {
    execv("/proc/self/exe", arguments);
    _exit(77);
  }
  if (child == 0) {
    ++depth;
    workers_exist = 0;
    state = seed;
    steps(count);
    _exit((int)below(100));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  say("child ended %x", (unsigned)status);
}

static void step(void) {
  const long choice = below(100);
  if (choice < 24) {
    read_somehow();
  } else if (choice < 48) {
    write_somehow();
  } else if (choice < 58) {
    open_somehow();
  } else if (choice < 63) {
    close_somehow();
  } else if (choice < 70) {
    copy_descriptor();
  } else if (choice < 76) {
    seek();
  } else if (choice < 81) {
    move_bytes();
  } else if (choice < 88) {
    change_file();
  } else if (choice < 93) {
    look();
  } else if (choice < 95) {
    make_ends();
  } else if (choice < 96) {
    surroundings();
  } else if (choice < 98) {
    run_at_once();
  } else {
    in_child();
  }
}

/* Threads that take one step each when told. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn = -1;

static void* work(void* argument) {
  const int number = (int)(intptr_t)argument;
  pthread_mutex_lock(&mutex);
  for (;;) {
    while (turn != number) pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    step();
    pthread_mutex_lock(&mutex);
    turn = -1;
    pthread_cond_broadcast(&changed);
  }
  return NULL;
}

static void steps(long count) {
  for (long i = 0; i < count; ++i) {
    const long who = below(6);
    if (who >= kWorkers || !workers_exist) {
      step();
      continue;
    }
    pthread_mutex_lock(&mutex);
    turn = (int)who;
    pthread_cond_broadcast(&changed);
    while (turn != -1) pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
  }
}

int main(int count, char** arguments) {
  if (count < 3) return 2;
  state = strtoull(arguments[1], NULL, 10);
  bytes = aligned_alloc(4096, kBytes + 4096);
  if (bytes == NULL) return 3;
  memset(bytes, 0, kBytes + 4096);
  const struct rlimit files = {1024, 1024};
  if (count == 3 && setrlimit(RLIMIT_NOFILE, &files) != 0) return 4;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  for (int i = 0; i < kSlots; ++i)
    slots[i] = count > i + 3 ? (int)strtol(arguments[i + 3], NULL, 10) : -1;
  depth = count > 3 ? 1 : 0;
  if (next_of(&state) % 3 != 0) {
    workers_exist = 1;
    for (int i = 0; i < kWorkers; ++i) {
      pthread_t thread;
      if (pthread_create(&thread, NULL, work, (void*)(intptr_t)i) != 0) return 5;
      pthread_detach(thread);
    }
  }
  if (count == 3) {
    for (int i = 0; i < 6; ++i) open_somehow();
  }
  steps(strtol(arguments[2], NULL, 10));
  for (int i = 0; i < kSlots; ++i)
    report("at the end", i, slots[i], 0, lseek(slots[i], 0, SEEK_CUR));
  return 0;
}
