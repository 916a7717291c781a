/* Limits, seccomp and what else a process may set on itself. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include <stddef.h>

#include "scenario.h"

static volatile sig_atomic_t caught;
static void count(int number) {
  (void)number;
  ++caught;
}

SCENARIO(fsize_limit_caught, 0) {
  handle(SIGXFSZ, count, 0);
  set_limit(RLIMIT_FSIZE, 10000, 10000);
  const int fd = open("a", O_RDWR | O_CREAT, 0600);
  fill(buffer, 0, 100000);
  DO(write(fd, buffer, 8000));
  DO(write(fd, buffer, 8000));
  say("caught %d", (int)caught);
  DO(write(fd, buffer, 8000));
  say("caught %d", (int)caught);
  DO(pwrite(fd, buffer, 100, 9950));
  DO(pwrite(fd, buffer, 100, 10000));
  say("caught %d", (int)caught);
  DO(ftruncate(fd, 20000));
  DO(fallocate(fd, 0, 0, 20000));
  say("caught %d", (int)caught);
  struct iovec parts[2] = {{buffer, 100}, {buffer, 5000}};
  DO(lseek(fd, 9000, SEEK_SET));
  DO(writev(fd, parts, 2));
  DO(writev(fd, parts, 2));
  say("caught %d", (int)caught);
}

SCENARIO(fsize_limit_ignored, 0) {
  handle(SIGXFSZ, SIG_IGN, 0);
  const int fd = open("a", O_RDWR | O_CREAT | O_APPEND, 0600);
  fill(buffer, 0, 100000);
  DO(write(fd, buffer, 8000));
  set_limit(RLIMIT_FSIZE, 10000, RLIM_INFINITY);
  DO(write(fd, buffer, 8000));
  DO(write(fd, buffer, 8000));
  set_limit(RLIMIT_FSIZE, RLIM_INFINITY, RLIM_INFINITY);
  DO(write(fd, buffer, 8000));
}

SCENARIO(fsize_limit_kills, 0) {
  const int fd = open("a", O_RDWR | O_CREAT, 0600);
  fill(buffer, 0, 100000);
  DO(write(fd, buffer, 8000));
  set_limit(RLIMIT_FSIZE, 10000, 10000);
  set_limit(RLIMIT_CORE, 0, 0);
  DO(write(fd, buffer, 8000));
  DO(write(fd, buffer, 8000));
}

static int limited;
static void* beyond_limit(void* argument) {
  (void)argument;
  DO(pwrite(limited, "x", 1, 20000));
  return NULL;
}

SCENARIO(fsize_limit_in_a_thread, 0) {
  handle(SIGXFSZ, count, 0);
  limited = open("a", O_RDWR | O_CREAT, 0600);
  DO(write(limited, "x", 1));
  set_limit(RLIMIT_FSIZE, 10000, 10000);
  on_threads(1, beyond_limit);
  say("caught %d", (int)caught);
}

SCENARIO(fsize_limit_of_zero_and_exec, 0) {
  set_limit(RLIMIT_FSIZE, 0, 0);
  handle(SIGXFSZ, SIG_IGN, 0);
  become("limited_child");
}

SCENARIO(limited_child, 0) {
  const int fd = open("a", O_RDWR | O_CREAT, 0600);
  DO(write(fd, "x", 1));
  DO(read(fd, buffer, 1));
  const char* all[] = {"NOFILE", "FSIZE", "AS", "STACK", "CORE", "MEMLOCK"};
  const int numbers[] = {RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_AS,
                         RLIMIT_STACK,  RLIMIT_CORE,  RLIMIT_MEMLOCK};
  for (int i = 0; i < 6; ++i) {
    struct rlimit limit;
    NEED(getrlimit((__rlimit_resource_t)numbers[i], &limit) == 0);
    say("%s %ld %ld", all[i], (long)limit.rlim_cur, (long)limit.rlim_max);
  }
}

SCENARIO(memory_after_a_limit_and_exec, kShape) {
  make_cold_file("a", 8 << 20);
  set_limit(RLIMIT_AS, 64 << 20, 64 << 20);
  become("memory_in_the_limit");
}

SCENARIO(memory_in_the_limit, kShape) {
  make_cold_file("b", 8 << 20);
  const int fd = open("b", O_RDWR);
  say_rest(fd, 65536);
  say_rest(open("b", O_RDONLY), 1 << 20);
  DO(write(fd, "x", 1));
  /* 50 of the 64 MiB, in pieces, as an allocator would. */
  int got = 0;
  for (int i = 0; i < 50; ++i) {
    got += mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
           MAP_FAILED;
  }
  say("%d MiB", got);
}

SCENARIO(no_locked_memory, 0) {
  set_limit(RLIMIT_MEMLOCK, 0, 0);
  become("limited_child");
}

SCENARIO(no_more_processes, 0) {
  make_cold_file("a", 3 << 20);
  if (geteuid() == 0) NEED(chmod("a", 0666) == 0 && setuid(12345) == 0);
  set_limit(RLIMIT_NPROC, 0, 0);
  const int fd = open("a", O_RDWR);
  say_rest(fd, 1 << 20);
  DO(write(fd, "x", 1));
}

SCENARIO(no_memory_left_for_a_thread, kShape) {
  make_cold_file("a", 8 << 20);
  struct rlimit limit;
  NEED(getrlimit(RLIMIT_AS, &limit) == 0);
  set_limit(RLIMIT_AS, 1 << 20, limit.rlim_max);
  const int fd = open("a", O_RDWR);
  say_rest(fd, 1 << 20);
  DO(write(fd, "x", 1));
}

SCENARIO(limits_as_given, kShape) {
  const int numbers[] = {RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_AS,
                         RLIMIT_STACK,  RLIMIT_CORE,  RLIMIT_MEMLOCK};
  for (int i = 0; i < 6; ++i) {
    struct rlimit limit;
    NEED(getrlimit((__rlimit_resource_t)numbers[i], &limit) == 0);
    say("%d: %ld %ld", numbers[i], (long)limit.rlim_cur, (long)limit.rlim_max);
  }
  char line[64];
  DO(umask(022));
  say("group is the session %d", getpgrp() == getsid(0));
  say("dumpable %d, no new privileges %d, nice %d", prctl(PR_GET_DUMPABLE),
      prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), getpriority(PRIO_PROCESS, 0));
  int death = 0;
  NEED(prctl(PR_GET_PDEATHSIG, &death) == 0 && prctl(PR_GET_NAME, line) == 0);
  say("parent's death %d, name %s", death, line);
}

/* The first reads and writes are through before the doors close. */
static int begun(void) {
  make_cold_file("a", 3 << 20);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 1 << 20));
  DO(write(fd, "x", 1));
  return fd;
}

SCENARIO(seccomp_strict, 0) {
  const int fd = begun();
  NEED(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
  DO(read(fd, buffer, 1000));
  DO(write(fd, "y", 1));
  syscall(SYS_exit, 5);
}

SCENARIO(seccomp_strict_raw, 0) {
  const int fd = begun();
  NEED(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL) == 0);
  DO(read(fd, buffer, 1000));
  DO(write(fd, "y", 1));
  syscall(SYS_exit, 5);
}

SCENARIO(seccomp_strict_kills, 0) {
  const int fd = begun();
  NEED(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
  DO(read(fd, buffer, 1000));
  DO(pread(fd, buffer, 1000, 0));
}

static void* strict_thread(void* argument) {
  DO(read((int)(intptr_t)argument + limited, buffer, 1000));
  NEED(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL) == 0);
  DO(read(limited, buffer, 1000));
  DO(write(limited, "y", 1));
  syscall(SYS_exit, 0);
  return NULL;
}

SCENARIO(seccomp_strict_in_a_thread, 0) {
  limited = begun();
  on_threads(1, strict_thread);
  DO(read(limited, buffer, 1000));
  DO(write(limited, "z", 1));
  DO(pwrite(limited, "z", 1, 0));
}

/* Only the given calls; others end as `otherwise` says. */
static void install_filter(const int* allowed, int count_of_allowed, unsigned otherwise,
                           unsigned flags) {
  struct sock_filter program[80];
  int n = 0;
  program[n++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (int i = 0; i < count_of_allowed; ++i) {
    program[n++] =
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], 0, 1);
    program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
  const struct sock_fprog filter = {(unsigned short)n, program};
  NEED(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  NEED(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter) == 0);
}

static const int plain_calls[] = {SYS_read, SYS_write, SYS_lseek, SYS_exit, SYS_exit_group};

SCENARIO(filter_kills_but_reads_and_writes, 0) {
  const int fd = begun();
  install_filter(plain_calls, 5, SECCOMP_RET_KILL_PROCESS, 0);
  for (int i = 0; i < 10; ++i) DO(read(fd, buffer, 100000));
  DO(write(fd, "y", 1));
  DO(lseek(fd, 0, SEEK_CUR));
  _exit(6);
}

SCENARIO(filter_kills_all_but_two_calls, 0) {
  const int fd = begun();
  static const int calls[] = {SYS_read, SYS_write, SYS_exit_group};
  install_filter(calls, 3, SECCOMP_RET_KILL_PROCESS, 0);
  for (int i = 0; i < 10; ++i) DO(read(fd, buffer, 100000));
  DO(write(fd, "y", 1));
  _exit(6);
}

SCENARIO(filter_before_cold_reads, 0) {
  make_cold_file("a", 6 << 20);
  static const int calls[] = {SYS_read, SYS_write, SYS_openat, SYS_close, SYS_exit_group};
  install_filter(calls, 5, SECCOMP_RET_KILL_PROCESS, 0);
  const int fd = open("a", O_RDWR);
  for (int i = 0; i < 6; ++i) DO(read(fd, buffer, 1 << 20));
  DO(write(fd, "y", 1));
  DO(close(fd));
  _exit(6);
}

SCENARIO(filter_kills_all_threads, 0) {
  const int fd = begun();
  install_filter(plain_calls, 5, SECCOMP_RET_KILL_PROCESS, SECCOMP_FILTER_FLAG_TSYNC);
  for (int i = 0; i < 10; ++i) DO(read(fd, buffer, 100000));
  DO(write(fd, "y", 1));
  _exit(6);
}

SCENARIO(filter_traps, 0) {
  const int fd = begun();
  static const int calls[] = {SYS_read, SYS_write, SYS_lseek, SYS_exit_group, SYS_rt_sigreturn};
  handle(SIGSYS, count, 0);
  install_filter(calls, 5, SECCOMP_RET_TRAP, 0);
  for (int i = 0; i < 10; ++i) DO(read(fd, buffer, 100000));
  DO(write(fd, "y", 1));
  say("caught %d", (int)caught);
  _exit(6);
}

SCENARIO(filter_refuses, 0) {
  const int fd = begun();
  install_filter(plain_calls, 5, SECCOMP_RET_ERRNO | EPERM, 0);
  for (int i = 0; i < 10; ++i) DO(read(fd, buffer, 100000));
  DO(write(fd, "y", 1));
  DO(pread(fd, buffer, 100, 0));
  DO(pwrite(fd, "y", 1, 0));
  DO(open("a", O_RDONLY));
  DO(dup(fd));
  DO(close(fd));
  DO(write(fd, "y", 1));
  _exit(6);
}

SCENARIO(filter_refuses_reads, 0) {
  make_file("a", 100000);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 100));
  static const int calls[] = {SYS_write, SYS_pwrite64, SYS_exit_group, SYS_close};
  install_filter(calls, 4, SECCOMP_RET_ERRNO | EXDEV, 0);
  DO(read(fd, buffer, 100));
  DO(pread(fd, buffer, 100, 0));
  DO(write(fd, "y", 1));
  DO(pwrite(fd, "y", 1, 5));
  DO(fsync(fd));
  DO(close(fd));
}

SCENARIO(filter_before_the_first_call, 0) {
  make_file("a", 100000);
  static const int calls[] = {SYS_read,  SYS_write,  SYS_lseek,      SYS_pread64,
                              SYS_close, SYS_openat, SYS_exit_group, SYS_pwrite64};
  install_filter(calls, 8, SECCOMP_RET_KILL_PROCESS, 0);
  const int fd = open("a", O_RDWR);
  for (int i = 0; i < 5; ++i) DO(read(fd, buffer, 16384));
  DO(write(fd, "y", 1));
  DO(pread(fd, buffer, 1000, 0));
  DO(pwrite(fd, "y", 1, 0));
  DO(close(fd));
  _exit(6);
}

SCENARIO(no_time_stamp_counter, 0) {
  const int fd = begun();
  NEED(prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0);
  DO(read(fd, buffer, 1000));
  DO(write(fd, "y", 1));
  DO(pread(fd, buffer, 1000, 0));
  DO(fsync(fd));
}

SCENARIO(no_time_stamp_counter_raw, 0) {
  const int fd = begun();
  NEED(syscall(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0);
  DO(read(fd, buffer, 1000));
  DO(write(fd, "y", 1));
  DO(pread(fd, buffer, 1000, 0));
}

SCENARIO(not_dumpable, 0) {
  const int fd = begun();
  NEED(prctl(PR_SET_DUMPABLE, 0) == 0);
  say_rest(fd, 1 << 18);
  DO(write(fd, "y", 1));
}

SCENARIO(another_user, 0) {
  const int fd = begun();
  if (geteuid() == 0) NEED(setgid(12345) == 0 && setuid(12345) == 0);
  DO(open("secret", O_RDWR | O_CREAT, 0600) < 0);
  say_rest(fd, 1 << 18);
  DO(write(fd, "y", 1));
  DO(open("a", O_RDWR) < 0);
}

SCENARIO(another_root, 0) {
  if (geteuid() != 0) {
    say("not root");
    return;
  }
  const int fd = begun();
  NEED(mkdir("jail", 0755) == 0 && chroot("jail") == 0 && chdir("/") == 0);
  say_rest(fd, 1 << 18);
  const int inside = open("/a", O_RDWR | O_CREAT, 0600);
  DO(write(inside, "jailed", 6));
  DO(pread(inside, buffer, 6, 0));
  DO(open("/proc/self/fd", O_RDONLY));
}

SCENARIO(another_namespace, 0) {
  const int fd = begun();
  say_rest(fd, 1 << 18);
  /* Refused to a process of more than one thread. */
  DO(unshare(CLONE_NEWUSER));
}

SCENARIO(pid_namespace, kShape) {
  if (geteuid() != 0) {
    say("not root");
    return;
  }
  const int fd = begun();
  DO(unshare(CLONE_NEWPID));
  const pid_t child = fork();
  if (child == 0) {
    DO(getpid());
    DO(getppid());
    DO(read(fd, buffer, 1000));
    DO(write(fd, "y", 1));
    _exit(0);
  }
  say_child(child);
}

SCENARIO(threads_counted, kShape) {
  const int fd = begun();
  say_rest(fd, 1 << 18);
  struct stat status;
  NEED(stat("/proc/self/task", &status) == 0);
  say("%d threads", (int)status.st_nlink - 2);
}

SCENARIO(parent_is_the_parent, 0) {
  const pid_t self = getpid();
  const int fd = begun();
  const pid_t child = fork();
  if (child == 0) {
    DO(getppid() == self);
    DO(read(fd, buffer, 100));
    DO(getpid() == gettid());
    _exit(0);
  }
  say_child(child);
  DO(waitpid(-1, NULL, WNOHANG));
}

/* A child that confines itself before it has done anything that counts. */
SCENARIO(seccomp_strict_in_a_forked_child, 0) {
  const int fd = begun();
  const pid_t child = fork();
  if (child == 0) {
    NEED(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    DO(read(fd, buffer, 1000));
    syscall(SYS_exit, 7);
  }
  say_child(child);
}

SCENARIO(cycle_counter_forbidden_in_a_forked_child, 0) {
  const int fd = begun();
  const pid_t child = fork();
  if (child == 0) {
    NEED(prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0);
    DO(read(fd, buffer, 1000));
    _exit(7);
  }
  say_child(child);
}

/* After vfork(2) the process id tells a visitor: not to be asked for where that may be death. */
SCENARIO(filter_kills_but_opens_and_closes_after_vfork, 0) {
  const int fd = begun();
  const pid_t child = vfork();
  if (child == 0) _exit(0);
  say_child(child);
  static const int calls[] = {SYS_read, SYS_write, SYS_openat,     SYS_close,
                              SYS_dup,  SYS_fcntl, SYS_exit_group, SYS_lseek};
  install_filter(calls, 8, SECCOMP_RET_KILL_PROCESS, 0);
  DO(read(fd, buffer, 10));
  const int other = (int)DO(dup(fd));
  DO(read(other, buffer, 10));
  DO(close(other));
  DO(close(fd));
  const int again = (int)DO(open("a", O_RDWR));
  DO(read(again, buffer, 10));
  _exit(5);
}
