/* The same by raw system calls, which no wrapper sees. */
#include "scenario.h"

SCENARIO(raw_calls_between, 0) {
  make_file("a", 100000);
  const int fd = (int)DO(open("a", O_RDWR));
  DO(read(fd, buffer, 1000));
  DO(syscall(SYS_read, fd, buffer, 1000));
  DO(read(fd, buffer, 1000));
  DO(syscall(SYS_lseek, fd, 50000, SEEK_SET));
  DO(read(fd, buffer, 1000));
  say_hash("data", buffer, 1000);
  DO(syscall(SYS_write, fd, "raw", 3));
  DO(write(fd, "call", 4));
  DO(syscall(SYS_pread64, fd, buffer, 100, 51000));
  say_hash("data", buffer, 100);
  DO(syscall(SYS_ftruncate, fd, 51002));
  DO(read(fd, buffer, 1000));
  DO(lseek(fd, 0, SEEK_CUR));
}

SCENARIO(raw_close_then_pipe, 0) {
  make_file("a", 100000);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 1000));
  DO(write(fd, "x", 1));
  DO(syscall(SYS_close, fd));
  int ends[2];
  NEED(pipe(ends) == 0);
  say("ends %d %d", ends[0] - fd, ends[1] - fd);
  const pid_t child = fork();
  if (child == 0) {
    usleep(50000);
    (void)!syscall(SYS_write, ends[1], "from the child", 14);
    _exit(0);
  }
  DO(read(ends[0], buffer, 100));
  say_child(child);
  DO(write(ends[1], "own", 3));
  DO(read(ends[0], buffer, 100));
}

static void on_alarm(int number) {
  (void)number;
}

SCENARIO(raw_close_then_pipe_and_a_signal, 0) {
  make_file("a", 100000);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 1000));
  DO(syscall(SYS_close, fd));
  int ends[2];
  NEED(pipe(ends) == 0);
  handle(SIGALRM, on_alarm, 0);
  const struct itimerval soon = {{0, 0}, {0, 50000}};
  NEED(setitimer(ITIMER_REAL, &soon, NULL) == 0);
  DO(read(ends[0], buffer, 100));
}

SCENARIO(raw_close_then_another_file, 0) {
  make_file("a", 100000);
  make_file("b", 50);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 70000));
  DO(syscall(SYS_close, fd));
  DO(read(fd, buffer, 10));
  DO(write(fd, buffer, 10));
  DO(syscall(SYS_openat, AT_FDCWD, "b", O_RDWR | O_APPEND, 0) - fd);
  DO(read(fd, buffer, 1000));
  say_hash("data", buffer, 50);
  DO(write(fd, "more", 4));
  DO(pread(fd, buffer, 1000, 0));
  DO(close(fd));
}

SCENARIO(raw_close_then_socket, 0) {
  make_file("a", 100000);
  const int first = open("a", O_RDWR);
  const int second = open("a", O_RDWR);
  DO(write(first, "x", 1));
  DO(read(second, buffer, 100));
  DO(syscall(SYS_close, first));
  DO(syscall(SYS_close, second));
  int pair[2];
  NEED(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
  DO(write(pair[0], "packet", 6));
  DO(write(pair[0], "second", 6));
  DO(read(pair[1], buffer, 3));
  DO(read(pair[1], buffer, 100));
  NEED(fcntl(pair[1], F_SETFL, O_NONBLOCK) == 0);
  DO(read(pair[1], buffer, 100));
}

SCENARIO(raw_close_range_then_write, 0) {
  make_file("a", 100000);
  const int fd = open("a", O_RDWR);
  DO(write(fd, "x", 1));
  DO(read(fd, buffer, 1000));
  DO(syscall(SYS_close_range, 3, ~0u, 0));
  DO(write(fd, "x", 1));
  const int again = (int)DO(open("a", O_RDWR));
  DO(write(again, "yz", 2));
  DO(read(again, buffer, 1000));
  DO(pwrite(again, "yz", 2, 5000));
}

SCENARIO(raw_close_of_all_then_other_files, 0) {
  make_file("a", 100000);
  const int fd = open("a", O_RDWR);
  DO(write(fd, "x", 1));
  DO(read(fd, buffer, 1000));
  for (int i = 3; i < 2048; ++i) syscall(SYS_close, i);
  /* Whatever numbers were ours are the program's now. */
  for (int i = 0; i < 1000; ++i) {
    if (syscall(SYS_openat, AT_FDCWD, "a", O_RDONLY, 0) < 0) break;
  }
  DO(read(3, buffer, 50000));
  const int again = (int)DO(open("b", O_RDWR | O_CREAT, 0600));
  DO(write(again, "yz", 2));
  DO(pread(again, buffer, 1000, 0));
}

SCENARIO(raw_dup2_over_a_followed_file, 0) {
  make_file("a", 100000);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 1000));
  int ends[2];
  NEED(pipe(ends) == 0);
  DO(write(ends[1], "from the pipe", 13));
  DO(syscall(SYS_dup2, ends[0], fd) - fd);
  DO(read(fd, buffer, 5));
  DO(read(fd, buffer, 100));
  DO(pread(fd, buffer, 100, 0));
  DO(lseek(fd, 0, SEEK_SET));
}

SCENARIO(raw_dup2_onto_high_numbers, 0) {
  make_file("a", 100000);
  set_limit(RLIMIT_NOFILE, 1024, 1024);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 1000));
  DO(write(fd, "x", 1));
  const int zero = open("/dev/zero", O_RDWR);
  for (int to = 500; to < 1024; ++to) {
    if (syscall(SYS_dup3, zero, to, 0) != to) say("dup3 onto %d: %s", to, strerrorname_np(errno));
  }
  DO(read(fd, buffer, 1000));
  say_hash("data", buffer, 1000);
  DO(write(fd, "x", 1));
  DO(lseek(fd, 0, SEEK_CUR));
}

SCENARIO(raw_fork_and_exit, 0) {
  make_file("a", 100000);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 1000));
  DO(write(fd, "x", 1));
  const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) {
    DO(read(fd, buffer, 1000));
    DO(write(fd, "y", 1));
    syscall(SYS_exit_group, 7);
  }
  say_child(child);
  DO(read(fd, buffer, 1000));
  DO(lseek(fd, 0, SEEK_CUR));
}

static _Atomic int is_over;

static void* read_directly(void* unused) {
  (void)unused;
  void* const at = aligned_alloc(4096, 4096);
  const int fd = open("a", O_RDONLY | O_DIRECT);
  while (!is_over) (void)!pread(fd, at, 4096, 4096);
  close(fd);
  free(at);
  return NULL;
}

/* The child has the memory of a process whose other thread is transferring, and not that thread. */
SCENARIO(raw_fork_of_a_busy_process_then_confined, kRacy) {
  make_file("a", 100000);
  pthread_t reader;
  NEED(pthread_create(&reader, NULL, read_directly, NULL) == 0);
  int failed = 0;
  for (int i = 0; i < 100; ++i) {
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
      const int result = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      syscall(SYS_exit_group, result == 0 ? 7 : 8);
    }
    int status = 0;
    NEED(waitpid(child, &status, 0) == child);
    failed += !WIFEXITED(status) || WEXITSTATUS(status) != 7;
  }
  is_over = 1;
  pthread_join(reader, NULL);
  say("%d children failed", failed);
}

SCENARIO(raw_exec, 0) {
  make_file("a", 1000);
  const int fd = open("a", O_RDWR);
  DO(write(fd, "x", 1));
  NEED(fd == 3);
  char* const arguments[] = {(char*)"differential_programs", (char*)"child_of_exec", NULL};
  extern char** environ;
  syscall(SYS_execve, "/proc/self/exe", arguments, environ);
}

SCENARIO(raw_vfork_like_clone, 0) {
  make_file("a", 100000);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 1000));
  const pid_t child = vfork();
  if (child == 0) {
    (void)!read(fd, buffer, 500);
    (void)!write(fd, "child", 5);
    _exit(3);
  }
  say_child(child);
  DO(lseek(fd, 0, SEEK_CUR));
  DO(read(fd, buffer, 1000));
  DO(write(fd, "x", 1));
}

SCENARIO(raw_open_then_calls, 0) {
  make_file("a", 100000);
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, "a", O_RDWR, 0);
  DO(read(fd, buffer, 1000));
  const int twin = dup(fd);
  DO(write(twin, "x", 1));
  DO(close(fd));
  DO(read(twin, buffer, 1000));
  say_rest(twin, 4096);
}

SCENARIO(raw_fcntl_append, 0) {
  make_file("a", 1000);
  const int fd = open("a", O_RDWR);
  DO(write(fd, "x", 1));
  DO(syscall(SYS_fcntl, fd, F_SETFL, O_APPEND));
  DO(write(fd, "at the end", 10));
  DO(lseek(fd, 0, SEEK_CUR));
  DO(syscall(SYS_fcntl, fd, F_SETFL, O_NONBLOCK));
  DO(pwrite(fd, "begin", 5, 0));
}

SCENARIO(raw_nonblocking_pipe_in_place, 0) {
  make_file("a", 1000);
  const int fd = open("a", O_RDWR);
  DO(write(fd, "x", 1));
  DO(syscall(SYS_close, fd));
  int ends[2];
  NEED(pipe2(ends, O_NONBLOCK) == 0);
  DO(read(ends[0], buffer, 10));
  long total = 0;
  for (long got; (got = write(ends[1], buffer, 4096)) > 0;) total += got;
  say("%ld until %s", total, strerrorname_np(errno));
}
