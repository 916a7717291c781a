/* Signals that arrive in, between and because of transfers. */
#include <sys/signalfd.h>

#include <setjmp.h>

#include "scenario.h"

static volatile sig_atomic_t caught;
static void count(int number) {
  (void)number;
  ++caught;
}

static void alarm_in_us(long us, long again_us) {
  const struct itimerval when = {{0, again_us}, {0, us}};
  NEED(setitimer(ITIMER_REAL, &when, NULL) == 0);
}

SCENARIO(pipe_read_interrupted, 0) {
  int ends[2];
  NEED(pipe(ends) == 0);
  handle(SIGALRM, count, 0);
  alarm_in_us(30000, 0);
  DO(read(ends[0], buffer, 1));
  say("caught %d", (int)caught);
}

static int late[2];
static void write_late(int number) {
  (void)number;
  ++caught;
  (void)!write(late[1], "late", 4);
}

SCENARIO(pipe_read_restarted, 0) {
  NEED(pipe(late) == 0);
  handle(SIGALRM, write_late, SA_RESTART);
  alarm_in_us(30000, 0);
  DO(read(late[0], buffer, 4));
  say("caught %d", (int)caught);
}

SCENARIO(file_reads_in_a_storm, kRacy) {
  make_cold_file("a", 8 << 20);
  handle(SIGALRM, count, SA_RESTART);
  const int fd = open("a", O_RDONLY);
  alarm_in_us(300, 300);
  for (int i = 0; i < 5; ++i) {
    say_rest(fd, 65536);
    DO(lseek(fd, 0, SEEK_SET));
  }
  alarm_in_us(0, 0);
  say("caught some %d", caught > 0);
}

SCENARIO(file_writes_in_a_storm, kRacy) {
  handle(SIGALRM, count, 0);
  const int fd = open("a", O_RDWR | O_CREAT, 0600);
  fill(buffer, 0, 65536);
  alarm_in_us(300, 300);
  for (int i = 0; i < 100; ++i) {
    if (write(fd, buffer, 65536) != 65536) say("short write");
    if (i % 10 == 0 && fsync(fd) != 0) say("fsync %s", strerrorname_np(errno));
  }
  alarm_in_us(0, 0);
}

static int handlers_fd;
static void transfer(int number) {
  (void)number;
  const int saved = errno;
  char byte = 0;
  if (pread(handlers_fd, &byte, 1, 5) != 1 || byte != pattern(5)) say("the handler's read failed");
  if (pwrite(handlers_fd, "h", 1, 7) != 1) say("the handler's write failed");
  ++caught;
  errno = saved;
}

SCENARIO(handler_transfers, kRacy) {
  make_file("a", 8 << 20);
  handlers_fd = open("a", O_RDWR);
  handle(SIGALRM, transfer, SA_RESTART);
  const int fd = open("a", O_RDWR);
  alarm_in_us(300, 300);
  for (int i = 0; i < 500; ++i) {
    if (pread(fd, buffer, 16384, 16384L * i) != 16384) say("read %d", i);
    if (pwrite(fd, buffer, 16384, 16384L * i) != 16384) say("write %d", i);
  }
  while (caught == 0) usleep(100);
  alarm_in_us(0, 0);
  /* Whether the byte was written between a read and a write is chance. */
  DO(pwrite(fd, "h", 1, 7));
}

static sigjmp_buf back;
static void jump(int number) {
  (void)number;
  ++caught;
  siglongjmp(back, 1);
}

SCENARIO(jump_out_of_a_pipe_read, 0) {
  int ends[2];
  NEED(pipe(ends) == 0);
  make_file("a", 10000);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 10));
  handle(SIGALRM, jump, 0);
  for (int i = 0; i < 5; ++i) {
    if (sigsetjmp(back, 1) == 0) {
      alarm_in_us(5000, 0);
      (void)!read(ends[0], buffer, 1);
      say("returned");
    }
    DO(read(fd, buffer, 10));
    DO(write(fd, "x", 1));
  }
  say("caught %d", (int)caught);
}

SCENARIO(jump_out_of_file_transfers, kRacy) {
  make_file("a", 1 << 20);
  const int fd = open("a", O_RDWR);
  handle(SIGALRM, jump, 0);
  for (volatile int i = 0; i < 200; ++i) {
    if (sigsetjmp(back, 1) == 0) {
      alarm_in_us(200, 0);
      for (;;) {
        (void)!pread(fd, buffer, 65536, 0);
        (void)!pwrite(fd, buffer, 65536, 0);
      }
    }
  }
  say("caught %d", (int)caught);
  DO(pread(fd, buffer, 65536, 65536));
  say_hash("data", buffer, 65536);
  DO(pwrite(fd, "end", 3, 1 << 20));
}

static void leave(int number) {
  (void)number;
  _exit(42);
}

SCENARIO(exit_in_a_handler, kRacy) {
  make_file("a", 1 << 20);
  const int fd = open("a", O_RDWR);
  handle(SIGALRM, leave, 0);
  alarm_in_us(20000, 0);
  for (;;) (void)!pread(fd, buffer, 65536, 0);
}

static void fork_here(int number) {
  (void)number;
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    _exit(pread(handlers_fd, &byte, 1, 0) == 1 && pwrite(handlers_fd, &byte, 1, 0) == 1 ? 0 : 1);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) say("the child of the handler: %d", status);
  ++caught;
}

SCENARIO(fork_in_a_handler, kRacy) {
  make_file("a", 1 << 20);
  handlers_fd = open("a", O_RDWR);
  handle(SIGALRM, fork_here, SA_RESTART);
  alarm_in_us(2000, 2000);
  for (int i = 0; caught < 20; ++i) {
    if (pread(handlers_fd, buffer, 65536, 0) != 65536) say("read %d", i);
    if (pwrite(handlers_fd, buffer, 65536, 0) != 65536) say("write %d", i);
  }
  alarm_in_us(0, 0);
}

SCENARIO(mask_and_dispositions, 0) {
  make_cold_file("a", 3 << 20);
  const int fd = open("a", O_RDWR);
  say_rest(fd, 1 << 20);
  DO(write(fd, "x", 1));
  sigset_t mask;
  NEED(sigprocmask(SIG_SETMASK, NULL, &mask) == 0);
  for (int i = 1; i < 65; ++i) {
    struct sigaction action;
    const int blocked = sigismember(&mask, i);
    if (sigaction(i, NULL, &action) != 0) continue;
    if (blocked == 1 || action.sa_handler != SIG_DFL) {
      say("signal %d blocked %d ignored %d", i, blocked, action.sa_handler == SIG_IGN);
    }
  }
}

SCENARIO(blocked_signal_stays_pending, 0) {
  make_cold_file("a", 3 << 20);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR1);
  sigaddset(&mask, SIGALRM);
  NEED(sigprocmask(SIG_BLOCK, &mask, NULL) == 0);
  handle(SIGUSR1, count, 0);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 1 << 20));
  kill(getpid(), SIGUSR1);
  say_rest(fd, 1 << 20);
  DO(pwrite(fd, "x", 1, 0));
  sigset_t pending;
  sigpending(&pending);
  say("pending %d caught %d", sigismember(&pending, SIGUSR1), (int)caught);
  const int signals = signalfd(-1, &mask, 0);
  struct signalfd_siginfo told;
  DO(read(signals, &told, sizeof told));
  say("signal %u", told.ssi_signo);
}

SCENARIO(signal_of_child_during_reads, kRacy) {
  make_cold_file("a", 8 << 20);
  handle(SIGCHLD, count, 0);
  const int fd = open("a", O_RDONLY);
  const pid_t child = fork();
  if (child == 0) _exit(0);
  say_rest(fd, 100000);
  say_child(child);
  say("caught %d", (int)caught);
}

SCENARIO(stopped_and_continued, kRacy) {
  make_file("a", 8 << 20);
  int ends[2];
  NEED(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const int fd = open("a", O_RDWR);
    (void)!syscall(SYS_write, ends[1], "x", 1);
    for (int i = 0; i < 5; ++i) {
      say_rest(fd, 65536);
      lseek(fd, 0, SEEK_SET);
    }
    _exit(0);
  }
  NEED(syscall(SYS_read, ends[0], buffer, 1) == 1);
  for (int i = 0; i < 20; ++i) {
    kill(child, SIGSTOP);
    usleep(500);
    kill(child, SIGCONT);
    usleep(500);
  }
  say_child(child);
}

SCENARIO(alternate_stack, kRacy) {
  make_file("a", 8 << 20);
  handlers_fd = open("a", O_RDWR);
  stack_t stack = {.ss_sp = malloc(16384), .ss_size = 16384, .ss_flags = 0};
  NEED(sigaltstack(&stack, NULL) == 0);
  handle(SIGALRM, transfer, SA_RESTART | SA_ONSTACK);
  alarm_in_us(300, 300);
  for (int i = 0; caught < 50; ++i) {
    if (pread(handlers_fd, buffer, 16384, 16384L * (i % 500)) != 16384) say("read %d", i);
  }
  alarm_in_us(0, 0);
}

SCENARIO(fault_is_the_programs, 0) {
  make_file("a", 100000);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 100));
  handle(SIGSEGV, jump, 0);
  for (int i = 0; i < 3; ++i) {
    if (sigsetjmp(back, 1) == 0) *(volatile char*)16 = 1;
    DO(read(fd, buffer, 100));
    DO(write(fd, "x", 1));
  }
  handle(SIGSEGV, SIG_DFL, 0);
  *(volatile char*)16 = 1;
}

SCENARIO(bus_error_of_a_mapping, 0) {
  make_file("a", 100000);
  const int fd = open("a", O_RDWR);
  const char* map = mmap(NULL, 100000, PROT_READ, MAP_SHARED, fd, 0);
  NEED(map != MAP_FAILED);
  DO(ftruncate(fd, 100));
  DO(write(open("b", O_WRONLY | O_CREAT, 0600), map + 50000, 100));
  DO(read(fd, buffer, 1000));
  handle(SIGBUS, jump, 0);
  if (sigsetjmp(back, 1) == 0) {
    say("%d", map[50000]);
  } else {
    say("SIGBUS");
  }
}

SCENARIO(abort_after_transfers, 0) {
  const int fd = open("a", O_RDWR | O_CREAT, 0600);
  DO(write(fd, "before", 6));
  abort();
}

/* A handler on a small stack of its own, as crash reporters have. */
static void reporting(int number) {
  char line[700];
  memset(line, 'x', sizeof line);
  const int fd = open("report", O_CREAT | O_WRONLY | O_TRUNC, 0600);
  if (write(fd, line, sizeof line) != (ssize_t)sizeof line) _exit(number);
  close(fd);
}

SCENARIO(handler_on_a_small_stack_writes_a_report, 0) {
  enum { kStack = 8192, kGuard = 65536 };
  char* const memory =
      mmap(NULL, kGuard + kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  NEED(memory != MAP_FAILED && mprotect(memory, kGuard, PROT_NONE) == 0);
  const stack_t stack = {.ss_sp = memory + kGuard, .ss_size = kStack};
  NEED(sigaltstack(&stack, NULL) == 0);
  handle(SIGUSR1, reporting, SA_ONSTACK);
  DO(raise(SIGUSR1));
  say_file("report");
}

static int direct_file;
static _Alignas(4096) char read_into[65536];
static void* transfers_until_cancelled(void* argument) {
  int before = 0;
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
  for (uint64_t i = 0;; ++i) {
    const off_t at = (off_t)(i % 4 * 65536);
    if ((intptr_t)argument == 0) {
      if (pread(direct_file, read_into, 65536, at) < 0) break;
    } else if (pwrite(direct_file, buffer, 65536, 0) < 0) {
      break;
    }
  }
  return NULL;
}

SCENARIO(threads_in_direct_transfers_are_cancelled_at_once, kRacy) {
  make_file("a", 4 * 65536);
  direct_file = open("a", O_RDWR | O_DIRECT);
  if (direct_file < 0) direct_file = open("a", O_RDWR);
  fill(buffer, 0, 65536);
  for (int i = 0; i < 200; ++i) {
    pthread_t thread;
    NEED(pthread_create(&thread, NULL, transfers_until_cancelled, (void*)(intptr_t)(i % 2)) == 0);
    usleep((useconds_t)(i * 7 % 500));
    pthread_cancel(thread);
    void* result = NULL;
    pthread_join(thread, &result);
    if (result != PTHREAD_CANCELED) say("%d was not cancelled", i);
  }
}
