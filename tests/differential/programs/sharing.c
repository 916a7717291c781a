/* One open file shared by threads, forked processes, copies and what is executed. */
#include <sys/file.h>

#include <spawn.h>

#include "scenario.h"

extern char** environ;

enum { kRecord = 24, kRecords = 2000, kSharers = 4 };
static int shared;

static void* write_records(void* argument) {
  for (int i = 0; i < kRecords; ++i) {
    char record[kRecord + 1];
    snprintf(record, sizeof record, "writer %02d record %06d\n", (int)(intptr_t)argument, i);
    if (write(shared, record, kRecord) != kRecord) say("short write");
  }
  return NULL;
}

static void* write_vectors(void* argument) {
  for (int i = 0; i < kRecords; ++i) {
    char record[kRecord + 1];
    snprintf(record, sizeof record, "writer %02d record %06d\n", (int)(intptr_t)argument, i);
    struct iovec parts[3] = {{record, 7}, {record + 7, 10}, {record + 17, 7}};
    if (writev(shared, parts, 3) != kRecord) say("short writev");
  }
  return NULL;
}

static int compare_records(const void* a, const void* b) {
  return memcmp(a, b, kRecord);
}

/* The order of records is chance, the set of them is not. The file is replaced by the sorted one.
 */
static void sort_records(const char* name) {
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDWR, 0);
  const long got = syscall(SYS_read, fd, buffer, kBuffer);
  NEED(got >= 0);
  qsort(buffer, (size_t)got / kRecord, kRecord, compare_records);
  say("%ld bytes", got);
  NEED(syscall(SYS_pwrite64, fd, buffer, got, 0) == got);
  syscall(SYS_close, fd);
}

/* What the sharers write to one open file, each by `write_all`. */
static void share_writing(void (*on_sharers)(int, void* (*)(void*)), void* (*write_all)(void*),
                          int flags) {
  shared = open("a", O_WRONLY | O_CREAT | flags, 0600);
  on_sharers(kSharers, write_all);
  DO(lseek(shared, 0, SEEK_CUR));
  sort_records("a");
}

SCENARIO(threads_write_at_the_position, kRacy) {
  share_writing(on_threads, write_records, 0);
}

SCENARIO(threads_writev_at_the_position, kRacy) {
  share_writing(on_threads, write_vectors, 0);
}

SCENARIO(threads_append, kRacy) {
  share_writing(on_threads, write_records, O_APPEND);
}

SCENARIO(forks_write_at_the_position, kRacy) {
  share_writing(on_forks, write_records, 0);
}

SCENARIO(forks_writev_at_the_position, kRacy) {
  shared = open("a", O_WRONLY | O_CREAT, 0600);
  DO(write(shared, "", 0));
  on_forks(kSharers, write_vectors);
  sort_records("a");
}

static void* append_by_own_descriptor(void* argument) {
  const int fd = open("a", O_WRONLY | O_APPEND);
  for (int i = 0; i < kRecords; ++i) {
    char record[kRecord + 1];
    snprintf(record, sizeof record, "writer %02d record %06d\n", (int)(intptr_t)argument, i);
    if (write(fd, record, kRecord) != kRecord) say("short write");
  }
  close(fd);
  return NULL;
}

SCENARIO(forks_append, kRacy) {
  make_file("a", 0);
  on_forks(kSharers, append_by_own_descriptor);
  sort_records("a");
}

SCENARIO(threads_append_by_own_descriptors, kRacy) {
  make_file("a", 0);
  on_threads(kSharers, append_by_own_descriptor);
  sort_records("a");
}

static void* write_by_copy(void* argument) {
  const int mine = dup(shared);
  for (int i = 0; i < kRecords; ++i) {
    char record[kRecord + 1];
    snprintf(record, sizeof record, "writer %02d record %06d\n", (int)(intptr_t)argument, i);
    if (write(i % 2 == 0 ? mine : shared, record, kRecord) != kRecord) say("short write");
  }
  close(mine);
  return NULL;
}

SCENARIO(threads_write_by_copies, kRacy) {
  share_writing(on_threads, write_by_copy, 0);
}

SCENARIO(threads_of_forks_write, kRacy) {
  shared = open("a", O_WRONLY | O_CREAT, 0600);
  DO(write(shared, "", 0));
  pid_t children[2];
  for (int i = 0; i < 2; ++i) {
    children[i] = fork();
    if (children[i] == 0) {
      on_threads(2, write_records);
      _exit(0);
    }
  }
  on_threads(2, write_records);
  for (int i = 0; i < 2; ++i) say_child(children[i]);
  sort_records("a");
}

enum { kReadBytes = 8 << 20, kPiece = 4096 };

static _Atomic long read_total;
static _Atomic uint64_t read_sum;

/* Adds up what does not depend on who read it. */
static void* read_pieces(void* argument) {
  (void)argument;
  char piece[kPiece];
  for (long got; (got = read(shared, piece, kPiece)) > 0;) {
    uint64_t sum = 0;
    for (long i = 0; i < got; ++i) sum += (unsigned char)piece[i];
    read_total += got;
    read_sum += sum;
  }
  return NULL;
}

SCENARIO(threads_read_at_the_position, kRacy) {
  make_cold_file("a", kReadBytes);
  shared = open("a", O_RDONLY);
  on_threads(kSharers, read_pieces);
  say("%ld bytes, sum %lu", (long)read_total, (unsigned long)read_sum);
  DO(lseek(shared, 0, SEEK_CUR));
}

static void* read_vectors(void* argument) {
  (void)argument;
  char piece[kPiece];
  struct iovec parts[2] = {{piece, 1000}, {piece + 1000, kPiece - 1000}};
  for (long got; (got = readv(shared, parts, 2)) > 0;) read_total += got;
  return NULL;
}

SCENARIO(threads_readv_at_the_position, kRacy) {
  make_cold_file("a", kReadBytes);
  shared = open("a", O_RDONLY);
  on_threads(kSharers, read_vectors);
  say("%ld bytes", (long)read_total);
}

SCENARIO(forks_read_at_the_position, kRacy) {
  make_file("a", kReadBytes);
  shared = open("a", O_RDONLY);
  int ends[2];
  NEED(pipe(ends) == 0);
  for (int i = 0; i < kSharers; ++i) {
    if (fork() == 0) {
      read_pieces(NULL);
      const long figures[2] = {(long)read_total, (long)read_sum};
      (void)!syscall(SYS_write, ends[1], figures, sizeof figures);
      _exit(0);
    }
  }
  long total = 0;
  long sum = 0;
  for (int i = 0; i < kSharers; ++i) {
    long figures[2];
    NEED(syscall(SYS_read, ends[0], figures, sizeof figures) == sizeof figures);
    total += figures[0];
    sum += figures[1];
    wait(NULL);
  }
  say("%ld bytes, sum %ld", total, sum);
}

static void* read_own_part(void* argument) {
  const long part = kReadBytes / kSharers;
  const long begin = part * (long)(intptr_t)argument;
  char piece[kPiece];
  for (long at = begin; at < begin + part; at += kPiece) {
    if (pread(shared, piece, kPiece, at) != kPiece) say("short pread");
    if (piece[77] != pattern((uint64_t)at + 77)) say("wrong at %ld", at);
  }
  return NULL;
}

SCENARIO(threads_pread_own_parts, kRacy) {
  make_cold_file("a", kReadBytes);
  shared = open("a", O_RDONLY);
  on_threads(kSharers, read_own_part);
  DO(lseek(shared, 0, SEEK_CUR));
}

static void* write_own_part(void* argument) {
  char piece[kPiece];
  for (long i = 0; i < 100; ++i) {
    const long at = (i * kSharers + (long)(intptr_t)argument) * kPiece;
    fill(piece, (uint64_t)at, kPiece);
    if (pwrite(shared, piece, kPiece, at) != kPiece) say("short pwrite");
    if (pread(shared, piece, kPiece, at) != kPiece) say("short pread");
    if (piece[9] != pattern((uint64_t)at + 9)) say("wrong at %ld", at);
  }
  return NULL;
}

SCENARIO(threads_pwrite_own_parts, kRacy) {
  shared = open("a", O_RDWR | O_CREAT, 0600);
  on_threads(kSharers, write_own_part);
}

static void* make_read_remove(void* argument) {
  char name[32];
  for (int i = 0; i < 100; ++i) {
    snprintf(name, sizeof name, "t%d-%d", (int)(intptr_t)argument, i);
    const int fd = open(name, O_RDWR | O_CREAT, 0600);
    char bytes[500];
    memset(bytes, i, sizeof bytes);
    if (write(fd, bytes, 500) != 500 || lseek(fd, 0, SEEK_SET) != 0) say("write %s", name);
    if (read(fd, bytes, 500) != 500 || bytes[3] != (char)i) say("read %s", name);
    if (close(fd) != 0) say("close %s", name);
    if (i % 2 == 0) unlink(name);
  }
  return NULL;
}

SCENARIO(threads_open_and_close, kRacy) {
  on_threads(8, make_read_remove);
}

SCENARIO(forks_open_and_close, kRacy) {
  on_forks(8, make_read_remove);
}

SCENARIO(child_of_exec, 0) {
  /* By itself descriptor 3 is closed. */
  DO(read(3, buffer, 100));
  DO(write(3, "from the executed", 17));
  DO(lseek(3, 0, SEEK_CUR));
  DO(fcntl(4, F_GETFD));
  DO(fcntl(5, F_GETFD));
}

SCENARIO(exec_keeps_the_position, 0) {
  make_file("a", 10000);
  const int fd = open("a", O_RDWR);
  NEED(fd == 3 && open("a", O_RDWR | O_CLOEXEC) == 4 && open("a", O_RDWR) == 5);
  DO(read(fd, buffer, 1000));
  DO(write(fd, "x", 1));
  become("child_of_exec");
}

SCENARIO(fork_exec_and_go_on, 0) {
  make_file("a", 10000);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 1000));
  const pid_t child = fork();
  if (child == 0) become("child_of_exec");
  say_child(child);
  DO(read(fd, buffer, 1000));
  say_hash("data", buffer, 1000);
  DO(lseek(fd, 0, SEEK_CUR));
}

SCENARIO(vfork_exec_and_go_on, 0) {
  make_file("a", 10000);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 1000));
  const pid_t child = vfork();
  if (child == 0) become("child_of_exec");
  say_child(child);
  DO(read(fd, buffer, 1000));
  DO(lseek(fd, 0, SEEK_CUR));
}

SCENARIO(spawn_and_go_on, 0) {
  make_file("a", 10000);
  const int fd = open("a", O_RDWR);
  DO(write(fd, "x", 1));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fd, 4);
  posix_spawn_file_actions_addopen(&actions, 5, "a", O_RDONLY, 0);
  char* const arguments[] = {(char*)"differential_programs", (char*)"child_of_exec", NULL};
  pid_t child = 0;
  NEED(posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, environ) == 0);
  say_child(child);
  DO(lseek(fd, 0, SEEK_CUR));
  DO(write(fd, "y", 1));
}

static void* exec_from_here(void* argument) {
  (void)argument;
  become("child_of_exec");
  return NULL;
}

SCENARIO(exec_by_a_thread, 0) {
  make_cold_file("a", 3 << 20);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 1 << 20));
  on_threads(1, exec_from_here);
}

SCENARIO(exec_fails_and_goes_on, 0) {
  make_file("a", 10000);
  const int fd = open("a", O_RDWR);
  DO(write(fd, "x", 1));
  char* const arguments[] = {(char*)"none", NULL};
  DO(execv("./none", arguments));
  DO(execv("./a", arguments));
  DO(execv("/proc/self/fd", arguments));
  DO(write(fd, "y", 1));
  DO(read(fd, buffer, 100));
}

SCENARIO(fork_shares_the_position, 0) {
  make_file("a", 1 << 20);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 100000));
  for (int i = 0; i < 5; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      DO(read(fd, buffer, 1000));
      DO(write(fd, "child", 5));
      if (i == 3) DO(lseek(fd, 5000, SEEK_SET));
      _exit(i);
    }
    say_child(child);
    DO(write(fd, "parent", 6));
    DO(lseek(fd, 0, SEEK_CUR));
  }
}

SCENARIO(grandchild_goes_on, 0) {
  make_file("a", 1 << 20);
  const int fd = open("a", O_RDWR);
  int ends[2];
  int go_on[2];
  NEED(pipe(ends) == 0 && pipe(go_on) == 0);
  DO(read(fd, buffer, 100000));
  const pid_t child = fork();
  if (child == 0) {
    if (fork() == 0) {
      (void)!syscall(SYS_read, go_on[0], buffer, 1);
      setsid();
      DO(read(fd, buffer, 1000));
      DO(write(fd, "daemon", 6));
      (void)!write(ends[1], "done", 4);
      _exit(0);
    }
    _exit(5);
  }
  say_child(child);
  NEED(syscall(SYS_write, go_on[1], "x", 1) == 1);
  DO(read(ends[0], buffer, 4));
  DO(lseek(fd, 0, SEEK_CUR));
}

static void* fork_in_thread(void* argument) {
  (void)argument;
  const pid_t child = fork();
  if (child == 0) {
    DO(read(shared, buffer, 1000));
    DO(write(shared, "child", 5));
    exit(9);
  }
  say_child(child);
  return NULL;
}

SCENARIO(fork_by_a_thread, 0) {
  make_cold_file("a", 3 << 20);
  shared = open("a", O_RDWR);
  DO(read(shared, buffer, 1 << 20));
  on_threads(1, fork_in_thread);
  on_threads(1, fork_in_thread);
  DO(lseek(shared, 0, SEEK_CUR));
}

static _Atomic int stop;
static void* transfer_until_stopped(void* argument) {
  char piece[kPiece];
  const int fd = shared;
  while (!stop) {
    (void)!pread(fd, piece, kPiece, (long)(intptr_t)argument * kPiece);
    (void)!pwrite(fd, piece, kPiece, (long)(intptr_t)argument * kPiece);
  }
  return NULL;
}

SCENARIO(fork_while_threads_transfer, kRacy) {
  make_file("a", 1 << 20);
  shared = open("a", O_RDWR);
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) {
    NEED(pthread_create(&threads[i], NULL, transfer_until_stopped, (void*)(intptr_t)i) == 0);
  }
  for (int i = 0; i < 30; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      char piece[100];
      const int fd = open("a", O_RDWR);
      if (pread(shared, piece, 100, 500000) != 100) _exit(1);
      if (read(fd, piece, 100) != 100) _exit(2);
      if (pwrite(fd, piece, 100, 0) != 100) _exit(3);
      _exit(0);
    }
    say_child(child);
  }
  stop = 1;
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
}

static void* killed_while_writing(void* argument) {
  (void)argument;
  for (;;) (void)!pwrite(shared, "killed", 6, 0);
  return NULL;
}

SCENARIO(killed_while_threads_write, kRacy) {
  make_file("a", 1000);
  const pid_t child = fork();
  if (child == 0) {
    shared = open("a", O_RDWR);
    on_threads(3, killed_while_writing);
  }
  usleep(30000);
  kill(child, SIGKILL);
  say_child(child);
  const int fd = open("a", O_RDWR);
  /* Whether a write came through before is chance. */
  DO(pwrite(fd, "killed", 6, 0));
}

static void* after_main(void* argument) {
  (void)argument;
  usleep(30000);
  DO(read(shared, buffer, 1000));
  DO(write(shared, "x", 1));
  DO(lseek(shared, 0, SEEK_CUR));
  return NULL;
}

SCENARIO(main_thread_ends_first, 0) {
  make_file("a", 100000);
  shared = open("a", O_RDWR);
  DO(read(shared, buffer, 1000));
  DO(write(shared, "x", 1));
  pthread_t thread;
  NEED(pthread_create(&thread, NULL, after_main, NULL) == 0);
  pthread_detach(thread);
  pthread_exit(NULL);
}

SCENARIO(main_thread_alone_ends, 0) {
  make_cold_file("a", 3 << 20);
  shared = open("a", O_RDWR);
  DO(read(shared, buffer, 1 << 20));
  DO(write(shared, "x", 1));
  pthread_exit(NULL);
}

static void* cancelled_in_pipe(void* argument) {
  char byte = 0;
  (void)!read((int)(intptr_t)argument, &byte, 1);
  return (void*)1;
}

SCENARIO(cancel_in_a_pipe_read, 0) {
  int ends[2];
  NEED(pipe(ends) == 0);
  pthread_t thread;
  void* result = NULL;
  NEED(pthread_create(&thread, NULL, cancelled_in_pipe, (void*)(intptr_t)ends[0]) == 0);
  usleep(30000);
  NEED(pthread_cancel(thread) == 0);
  pthread_join(thread, &result);
  say("cancelled %d", result == PTHREAD_CANCELED);
}

static void* cancelled_in_transfers(void* argument) {
  char piece[100];
  fill(piece, 0, sizeof piece);
  for (;;) {
    if (argument == NULL) {
      (void)!pread(shared, piece, sizeof piece, 0);
    } else {
      (void)!pwrite(shared, piece, sizeof piece, 0);
    }
  }
  return NULL;
}

SCENARIO(cancel_in_transfers, kRacy) {
  make_file("a", 1000);
  shared = open("a", O_RDWR);
  for (int i = 0; i < 40; ++i) {
    pthread_t thread;
    void* result = NULL;
    NEED(pthread_create(&thread, NULL, cancelled_in_transfers, (void*)(intptr_t)(i % 2)) == 0);
    usleep(2000);
    NEED(pthread_cancel(thread) == 0);
    pthread_join(thread, &result);
    if (result != PTHREAD_CANCELED) say("not cancelled");
  }
  DO(read(shared, buffer, 100));
  DO(write(shared, buffer, 100));
}

static void* cancelled_before(void* argument) {
  char piece[10];
  pthread_cancel(pthread_self());
  if (argument == NULL) {
    (void)!read(shared, piece, 10);
  } else {
    (void)!write(shared, "never", 5);
  }
  say("went on");
  return NULL;
}

SCENARIO(cancel_pending_at_a_transfer, 0) {
  make_file("a", 1000);
  shared = open("a", O_RDWR);
  on_threads(2, cancelled_before);
  DO(lseek(shared, 0, SEEK_CUR));
}

static void* small_stack(void* argument) {
  (void)argument;
  DO(read(shared, buffer, 100000));
  DO(write(shared, "x", 1));
  DO(pread(shared, buffer, 100, 5));
  DO(fsync(shared));
  return NULL;
}

SCENARIO(thread_with_the_smallest_stack, 0) {
  make_file("a", 1 << 20);
  shared = open("a", O_RDWR);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  NEED(pthread_attr_setstacksize(&attributes, 16384) == 0);
  pthread_t thread;
  NEED(pthread_create(&thread, &attributes, small_stack, NULL) == 0);
  pthread_join(thread, NULL);
}

static void* close_under_reader(void* argument) {
  (void)argument;
  usleep(20000);
  close(shared);
  return NULL;
}

SCENARIO(closed_by_another_thread, kRacy) {
  make_file("a", 1000);
  shared = open("a", O_RDWR);
  const int mine = shared;
  pthread_t thread;
  NEED(pthread_create(&thread, NULL, close_under_reader, NULL) == 0);
  char byte = 0;
  while (pread(mine, &byte, 1, 0) == 1) {
  }
  say("%s", strerrorname_np(errno));
  pthread_join(thread, NULL);
  DO(write(mine, "x", 1));
}

static void* read_and_write_once(void* argument) {
  char piece[kPiece];
  (void)argument;
  if (read(shared, piece, kPiece) != kPiece || write(shared, "x", 1) != 1) say("short");
  return NULL;
}

SCENARIO(many_threads_one_after_another, 0) {
  make_file("a", 1 << 20);
  shared = open("a", O_RDWR);
  for (int i = 0; i < 200; ++i) on_threads(1, read_and_write_once);
  DO(lseek(shared, 0, SEEK_CUR));
}

static void* unshared(void* argument) {
  (void)argument;
  NEED(unshare(CLONE_FILES) == 0);
  DO(close(shared));
  const int other = open("b", O_RDWR);
  DO(other - shared);
  DO(read(other, buffer, 10));
  DO(write(other, "other", 5));
  return NULL;
}

SCENARIO(thread_with_its_own_descriptors, 0) {
  make_file("a", 10000);
  make_file("b", 20);
  shared = open("a", O_RDWR);
  DO(read(shared, buffer, 100));
  on_threads(1, unshared);
  DO(read(shared, buffer, 100));
  say_hash("data", buffer, 100);
  DO(write(shared, "x", 1));
}

SCENARIO(locks_of_posix, 0) {
  make_file("a", 1000);
  const int fd = open("a", O_RDWR);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 100};
  DO(fcntl(fd, F_SETLK, &lock));
  const pid_t child = fork();
  if (child == 0) {
    struct flock test = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 50, .l_len = 100};
    DO(fcntl(fd, F_SETLK, &test));
    DO(fcntl(fd, F_GETLK, &test));
    say("type %d, parent's %d", test.l_type, test.l_pid == getppid());
    DO(read(fd, buffer, 100));
    _exit(0);
  }
  say_child(child);
  /* Closing any descriptor of the file drops the lock: nobody else may do that for us. */
  DO(read(fd, buffer, 900));
  DO(pread(fd, buffer, 1000, 0));
  const pid_t second = fork();
  if (second == 0) {
    struct flock test = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 50, .l_len = 100};
    DO(fcntl(fd, F_SETLK, &test));
    _exit(0);
  }
  say_child(second);
  DO(close(open("a", O_RDONLY)));
  const pid_t third = fork();
  if (third == 0) {
    struct flock test = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 50, .l_len = 100};
    DO(fcntl(fd, F_SETLK, &test));
    _exit(0);
  }
  say_child(third);
}

SCENARIO(locks_survive_cold_reads, 0) {
  make_cold_file("a", 6 << 20);
  const int fd = open("a", O_RDWR);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
  DO(fcntl(fd, F_SETLK, &lock));
  say_rest(fd, 1 << 20);
  const pid_t child = fork();
  if (child == 0) {
    DO(fcntl(fd, F_SETLK, &lock));
    _exit(0);
  }
  say_child(child);
}

SCENARIO(locks_of_open_files, 0) {
  make_file("a", 1000);
  const int first = open("a", O_RDWR);
  const int second = open("a", O_RDWR);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 100};
  DO(fcntl(first, F_OFD_SETLK, &lock));
  DO(fcntl(second, F_OFD_SETLK, &lock));
  DO(write(first, "x", 1));
  DO(write(second, "y", 1));
  DO(close(first));
  DO(fcntl(second, F_OFD_SETLK, &lock));
  DO(flock(second, LOCK_EX | LOCK_NB));
  const int third = open("a", O_RDONLY);
  DO(read(third, buffer, 1000));
  DO(flock(third, LOCK_SH | LOCK_NB));
  const int twin = dup(second);
  DO(close(second));
  DO(flock(third, LOCK_SH | LOCK_NB));
  DO(close(twin));
  DO(flock(third, LOCK_SH | LOCK_NB));
}

SCENARIO(lock_is_waited_for, 0) {
  make_file("a", 1000);
  const int fd = open("a", O_RDWR);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 100};
  DO(fcntl(fd, F_SETLKW, &lock));
  const pid_t child = fork();
  if (child == 0) {
    NEED(fcntl(fd, F_SETLKW, &lock) == 0);
    DO(pread(fd, buffer, 6, 0));
    say_hash("data", buffer, 6);
    _exit(0);
  }
  usleep(30000);
  DO(pwrite(fd, "before", 6, 0));
  lock.l_type = F_UNLCK;
  NEED(fcntl(fd, F_SETLK, &lock) == 0);
  say_child(child);
}

/* A table of descriptors of its own for one thread: what another thread has stays open there. */
static int unshared_fd;
static void* unshares(void* argument) {
  char* const page = argument;
  fill(page, 0, 4096);
  DO(pwrite(unshared_fd, page, 4096, 0));
  NEED(unshare(CLONE_FILES) == 0);
  const int other = open("other", O_RDWR | O_CREAT | O_DIRECT, 0600);
  NEED(other >= 0 && dup2(other, unshared_fd) == unshared_fd);
  fill(page, 1 << 20, 4096);
  DO(pwrite(unshared_fd, page, 4096, 0));
  return NULL;
}

SCENARIO(thread_with_descriptors_of_its_own_writes, 0) {
  void* page = NULL;
  NEED(posix_memalign(&page, 4096, 4096) == 0);
  make_file("first", 8192);
  unshared_fd = open("first", O_RDWR | O_DIRECT);
  if (unshared_fd < 0) return;
  pthread_t thread;
  NEED(pthread_create(&thread, NULL, unshares, page) == 0);
  pthread_join(thread, NULL);
  say_file("first");
  say_file("other");
}
