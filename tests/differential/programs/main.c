/* differential_programs NAME: runs one scenario in the current folder. Without a name: lists them
 * all with their flags.
 */
#include <stdarg.h>

#include "scenario.h"

_Alignas(4096) char buffer[kBuffer]; /* for O_DIRECT */
static struct scenario* first;

void scenario_add(struct scenario* one) {
  struct scenario** place = &first;
  while (*place != NULL && strcmp((*place)->name, one->name) < 0) place = &(*place)->next;
  one->next = *place;
  *place = one;
}

void say(const char* format, ...) {
  char line[2048];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  if (length > (int)sizeof line - 2) length = (int)sizeof line - 2;
  line[length] = '\n';
  (void)!syscall(SYS_write, 1, line, (size_t)length + 1);
}

long said(const char* call, long result) {
  const int saved = errno;
  if (result == -1) {
    say("%s = -1 %s", call, strerrorname_np(saved));
  } else {
    say("%s = %ld", call, result);
  }
  errno = saved;
  return result;
}

uint64_t hash_of(const void* bytes, size_t count) {
  uint64_t sum = 14695981039346656037u;
  for (size_t i = 0; i < count; ++i)
    sum = (sum ^ ((const unsigned char*)bytes)[i]) * 1099511628211u;
  return sum;
}

void say_hash(const char* what, const void* bytes, size_t count) {
  say("%s: %zu bytes, %016lx", what, count, (unsigned long)hash_of(bytes, count));
}

char pattern(uint64_t position) {
  return (char)((position * 2654435761u) >> 11);
}

void fill(char* to, uint64_t position, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = pattern(position + i);
}

void make_file(const char* name, size_t bytes) {
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  NEED(fd >= 0);
  static char piece[1 << 16];
  for (size_t at = 0; at < bytes;) {
    const size_t count = bytes - at < sizeof piece ? bytes - at : sizeof piece;
    fill(piece, at, count);
    NEED(syscall(SYS_write, fd, piece, count) == (long)count);
    at += count;
  }
  NEED(syscall(SYS_close, fd) == 0);
}

void make_cold_file(const char* name, size_t bytes) {
  make_file(name, bytes);
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY, 0);
  NEED(fd >= 0 && syscall(SYS_fdatasync, fd) == 0);
  syscall(SYS_fadvise64, fd, 0, 0, POSIX_FADV_DONTNEED);
  syscall(SYS_close, fd);
}

void say_file(const char* name) {
  static char piece[1 << 16];
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY, 0);
  if (fd < 0) {
    say("file %s: %s", name, strerrorname_np(errno));
    return;
  }
  uint64_t sum = 0;
  size_t total = 0;
  for (;;) {
    const long got = syscall(SYS_read, fd, piece, sizeof piece);
    if (got <= 0) break;
    for (long i = 0; i < got; ++i) sum = sum * 1099511628211u + (unsigned char)piece[i];
    total += (size_t)got;
  }
  syscall(SYS_close, fd);
  say("file %s: %zu bytes, %016lx", name, total, (unsigned long)sum);
}

void say_rest(int fd, size_t piece) {
  uint64_t sum = 0;
  size_t total = 0;
  ssize_t got = 0;
  while ((got = read(fd, buffer, piece)) > 0) {
    for (ssize_t i = 0; i < got; ++i) sum = sum * 1099511628211u + (unsigned char)buffer[i];
    total += (size_t)got;
  }
  say("rest: %zu bytes, %016lx, then %zd", total, (unsigned long)sum, got);
}

void say_child(pid_t child) {
  int status = 0;
  NEED(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) {
    say("child exit %d", WEXITSTATUS(status));
  } else {
    say("child signal %d", WTERMSIG(status));
  }
}

void become(const char* scenario) {
  char* const arguments[] = {(char*)"differential_programs", (char*)scenario, NULL};
  execv("/proc/self/exe", arguments);
  _exit(98);
}

/* Those who run at once begin at once: who is alone for long races with nobody. */
struct start {
  void* (*run)(void*);
  _Atomic int ready;
  int count;
};
static struct start* start_of;

static void* begin(void* argument) {
  ++start_of->ready;
  while (start_of->ready < start_of->count) sched_yield();
  return start_of->run(argument);
}

static void prepare_start(int count, void* (*run)(void*)) {
  start_of =
      mmap(NULL, sizeof *start_of, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  NEED(start_of != MAP_FAILED);
  start_of->run = run;
  start_of->count = count;
}

void on_threads(int count, void* (*run)(void*)) {
  pthread_t threads[64];
  prepare_start(count, run);
  for (int i = 0; i < count; ++i) {
    NEED(pthread_create(&threads[i], NULL, begin, (void*)(intptr_t)i) == 0);
  }
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
}

void on_forks(int count, void* (*run)(void*)) {
  pid_t children[64];
  prepare_start(count, run);
  for (int i = 0; i < count; ++i) {
    children[i] = fork();
    NEED(children[i] >= 0);
    if (children[i] == 0) {
      begin((void*)(intptr_t)i);
      _exit(0);
    }
  }
  for (int i = 0; i < count; ++i) say_child(children[i]);
}

void set_limit(int resource, rlim_t soft, rlim_t hard) {
  const struct rlimit limit = {soft, hard};
  NEED(setrlimit((__rlimit_resource_t)resource, &limit) == 0);
}

void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = flags;
  NEED(sigaction(signal, &action, NULL) == 0);
}

int main(int count, char** arguments) {
  for (struct scenario* one = first; one != NULL; one = one->next) {
    if (count < 2) {
      printf("%s%s%s%s\n", one->name, one->flags & kRacy ? " racy" : "",
             one->flags & kLonger ? " longer" : "", one->flags & kShape ? " shape" : "");
    } else if (strcmp(one->name, arguments[1]) == 0) {
      one->run();
      return 0;
    }
  }
  return count < 2 ? 0 : 2;
}
