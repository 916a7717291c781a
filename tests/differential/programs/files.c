/* Files that others watch, hold, move and change meanwhile. */
#include <sys/fanotify.h>
#include <sys/file.h>
#include <sys/inotify.h>

#include "scenario.h"

SCENARIO(removed_while_read, 0) {
  make_cold_file("a", 6 << 20);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 1 << 20));
  DO(unlink("a"));
  say_rest(fd, 1 << 20);
  DO(write(fd, "x", 1));
  make_file("a", 100);
  const int again = open("a", O_RDWR);
  say_rest(again, 1000);
}

SCENARIO(renamed_while_read, 0) {
  make_cold_file("a", 6 << 20);
  make_file("b", 5000);
  const int fd = open("a", O_RDONLY);
  DO(read(fd, buffer, 1 << 20));
  DO(rename("b", "a"));
  say_rest(fd, 1 << 20);
  say_rest(open("a", O_RDONLY), 1 << 20);
}

SCENARIO(truncated_while_read, 0) {
  make_cold_file("a", 6 << 20);
  const int fd = open("a", O_RDONLY);
  for (int i = 0; i < 4; ++i) DO(read(fd, buffer, 1 << 20));
  DO(truncate("a", 100));
  DO(read(fd, buffer, 1 << 20));
  DO(truncate("a", 6 << 20));
  DO(read(fd, buffer, 1 << 20));
  say_hash("zeros", buffer, 1 << 20);
}

SCENARIO(forbidden_while_read, 0) {
  make_cold_file("a", 6 << 20);
  if (geteuid() == 0) NEED(chown("a", 12345, 12345) == 0 && setuid(12345) == 0);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 1 << 20));
  DO(chmod("a", 0));
  say_rest(fd, 1 << 20);
  DO(write(fd, "x", 1));
  DO(open("a", O_RDONLY));
}

SCENARIO(overwritten_while_read, 0) {
  make_cold_file("a", 6 << 20);
  const int fd = open("a", O_RDONLY);
  const int other = open("a", O_WRONLY);
  memset(buffer, 'o', 65536);
  for (long at = 0; at < 6 << 20; at += 1 << 19) {
    static char piece[1 << 19];
    NEED(pwrite(other, buffer, 65536, at + (1 << 18)) == 65536);
    NEED(read(fd, piece, sizeof piece) == sizeof piece);
    say_hash("piece", piece, sizeof piece);
  }
}

static void say_events(int watch) {
  static char events[65536] __attribute__((aligned(8)));
  const long got = syscall(SYS_read, watch, events, sizeof events);
  for (long at = 0; at < got;) {
    const struct inotify_event* event = (const struct inotify_event*)(events + at);
    say("event %x %s", event->mask, event->len > 0 ? event->name : "");
    at += (long)sizeof *event + event->len;
  }
}

SCENARIO(watched_by_inotify, 0) {
  make_cold_file("a", 6 << 20);
  const int watch = inotify_init1(IN_NONBLOCK);
  NEED(inotify_add_watch(watch, "a", IN_ALL_EVENTS) >= 0);
  const int fd = open("a", O_RDWR);
  say_rest(fd, 1 << 20);
  DO(write(fd, "x", 1));
  DO(close(fd));
  say_events(watch);
}

/* Nobody else may hold on to a file that the program has closed. */
SCENARIO(locks_end_as_direct_files_are_closed, 0) {
  make_file("a", 1 << 20);
  char* const at = aligned_alloc(4096, 65536);
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    const int fd = open("a", O_RDWR | O_DIRECT);
    NEED(flock(fd, LOCK_EX | LOCK_NB) == 0);
    (void)!pread(fd, at, 65536, 65536 * (i % 16));
    close(fd);
    const int other = open("a", O_RDWR);
    refused += flock(other, LOCK_EX | LOCK_NB) != 0;
    close(other);
  }
  say("%d locks refused", refused);
}

/* Each event counts: of a transfer that failed there is none. */
SCENARIO(direct_transfers_watched_by_inotify, 0) {
  make_file("a", 65536);
  const int watch = inotify_init1(IN_NONBLOCK);
  NEED(inotify_add_watch(watch, "a", IN_ALL_EVENTS) >= 0);
  const int fd = open("a", O_RDWR | O_DIRECT);
  char* const at = aligned_alloc(4096, 8192);
  fill(at, 0, 8192);
  say_events(watch);
  DO(pwrite(fd, at, 4096, 0));
  say_events(watch);
  DO(pread(fd, at, 4096, 0));
  say_events(watch);
  for (int i = 0; i < 3; ++i) DO(pwrite(fd, at, 4096, 1));
  say_events(watch);
  const struct iovec parts[2] = {{at, 4096}, {at + 4096, 4096}};
  DO(pwritev(fd, parts, 2, 8192));
  say_events(watch);
  DO(preadv(fd, parts, 2, 8192));
  say_events(watch);
}

SCENARIO(folder_watched_by_inotify, 0) {
  const int watch = inotify_init1(IN_NONBLOCK);
  NEED(inotify_add_watch(watch, ".", IN_ALL_EVENTS) >= 0);
  const int fd = open("a", O_RDWR | O_CREAT, 0600);
  DO(write(fd, "one", 3));
  say_events(watch);
  DO(pread(fd, buffer, 100, 0));
  say_events(watch);
  DO(ftruncate(fd, 0));
  DO(fsync(fd));
  say_events(watch);
  DO(close(fd));
  say_events(watch);
}

SCENARIO(watched_by_fanotify, 0) {
  make_cold_file("a", 6 << 20);
  const int watch = fanotify_init(FAN_NONBLOCK | FAN_CLASS_NOTIF, O_RDONLY);
  if (watch < 0) {
    say("no fanotify here");
    return;
  }
  NEED(fanotify_mark(watch, FAN_MARK_ADD,
                     FAN_OPEN | FAN_ACCESS | FAN_MODIFY | FAN_CLOSE_WRITE | FAN_CLOSE_NOWRITE,
                     AT_FDCWD, "a") == 0);
  const int fd = open("a", O_RDWR);
  say_rest(fd, 1 << 20);
  DO(pwrite(fd, "x", 1, 0));
  DO(close(fd));
  static char events[65536] __attribute__((aligned(8)));
  long got = syscall(SYS_read, watch, events, sizeof events);
  unsigned long seen = 0;
  int own = 1;
  const struct fanotify_event_metadata* event = (const void*)events;
  for (; FAN_EVENT_OK(event, got); event = FAN_EVENT_NEXT(event, got)) {
    seen |= event->mask;
    own = own && event->pid == getpid();
    syscall(SYS_close, event->fd);
  }
  say("events %lx, own %d", seen, own);
}

SCENARIO(leases, 0) {
  make_cold_file("a", 6 << 20);
  const int fd = open("a", O_RDONLY);
  DO(read(fd, buffer, 1 << 20));
  DO(read(fd, buffer, 1 << 20));
  DO(fcntl(fd, F_SETLEASE, F_RDLCK));
  DO(fcntl(fd, F_GETLEASE));
  DO(fcntl(fd, F_SETLEASE, F_UNLCK));
  /* Only where nobody else has the file open. */
  const int both = open("b", O_RDWR | O_CREAT, 0600);
  fill(buffer, 0, 1 << 20);
  DO(write(both, buffer, 1 << 20));
  DO(lseek(both, 0, SEEK_SET));
  DO(read(both, buffer, 1 << 20));
  DO(fcntl(both, F_SETLEASE, F_WRLCK));
  DO(fcntl(both, F_GETLEASE));
  DO(read(both, buffer, 1 << 20));
  DO(write(both, "x", 1));
  DO(fcntl(both, F_SETLEASE, F_UNLCK));
}

SCENARIO(write_lease_on_a_cold_file, 0) {
  make_cold_file("a", 6 << 20);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 1 << 20));
  DO(read(fd, buffer, 1 << 20));
  DO(fcntl(fd, F_SETLEASE, F_WRLCK));
  say_rest(fd, 1 << 20);
  DO(fcntl(fd, F_GETLEASE));
}

static volatile sig_atomic_t broken;
static void on_break(int number) {
  (void)number;
  ++broken;
}

SCENARIO(lease_is_broken_by_another, 0) {
  make_file("a", 100000);
  handle(SIGIO, on_break, SA_RESTART);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 1000));
  DO(fcntl(fd, F_SETLEASE, F_WRLCK));
  say("broken %d", (int)broken);
  const pid_t child = fork();
  if (child == 0) {
    DO(open("a", O_RDONLY | O_NONBLOCK));
    _exit(0);
  }
  say_child(child);
  say("broken %d", (int)broken);
}

SCENARIO(written_then_executed, 0) {
  const int self = open("/proc/self/exe", O_RDONLY);
  const int fd = open("program", O_WRONLY | O_CREAT, 0700);
  long total = 0;
  for (long got; (got = read(self, buffer, 65536)) > 0; total += got) {
    NEED(write(fd, buffer, (size_t)got) == got);
  }
  DO(close(fd));
  const pid_t child = fork();
  if (child == 0) {
    char* const arguments[] = {(char*)"program", (char*)"limited_child_none", NULL};
    execv("./program", arguments);
    say("%s", strerrorname_np(errno));
    _exit(1);
  }
  say_child(child);
  DO(open("program", O_WRONLY) >= 0);
  NEED(unlink("program") == 0);
}

SCENARIO(access_time_kept, 0) {
  make_cold_file("a", 6 << 20);
  const struct timespec times[2] = {{1000000, 0}, {2000000, 0}};
  NEED(utimensat(AT_FDCWD, "a", times, 0) == 0);
  const int fd = open("a", O_RDONLY | O_NOATIME);
  say_rest(fd, 1 << 20);
  struct stat status;
  NEED(fstat(fd, &status) == 0);
  say("access %ld, change %ld", status.st_atime, status.st_mtime);
  const int plain = open("a", O_RDONLY);
  DO(pread(plain, buffer, 1, 0));
  NEED(fstat(fd, &status) == 0);
  say("access moved %d, change %ld", status.st_atime != 1000000, status.st_mtime);
}

SCENARIO(another_folder, 0) {
  NEED(mkdir("below", 0755) == 0);
  make_file("below/a", 10000);
  make_file("a", 20000);
  const int first = open("a", O_RDWR);
  NEED(chdir("below") == 0);
  const int second = open("a", O_RDWR);
  say_rest(first, 1000);
  say_rest(second, 1000);
  DO(write(second, "x", 1));
  const int folder = open("..", O_RDONLY | O_DIRECTORY);
  say_rest(openat(folder, "a", O_RDONLY), 1000);
  NEED(fchdir(folder) == 0);
  DO(write(open("c", O_WRONLY | O_CREAT, 0600), "x", 1));
}

SCENARIO(hard_links_and_copies, 0) {
  make_file("a", 10000);
  NEED(link("a", "b") == 0);
  const int a = open("a", O_RDWR);
  const int b = open("b", O_RDWR);
  for (int i = 0; i < 10; ++i) {
    DO(write(a, "from a", 6));
    DO(read(b, buffer, 6));
    say_hash("data", buffer, 6);
  }
  DO(ftruncate(b, 30));
  DO(read(a, buffer, 100));
}

SCENARIO(many_files, 0) {
  char name[32];
  for (int i = 0; i < 300; ++i) {
    snprintf(name, sizeof name, "f%03d", i);
    const int fd = open(name, O_RDWR | O_CREAT, 0600);
    fill(buffer, (uint64_t)i, 4000);
    if (write(fd, buffer, (size_t)i * 13) != i * 13) say("write %d", i);
    if (pread(fd, buffer, 5000, 0) != i * 13) say("read %d", i);
    if (close(fd) != 0) say("close %d", i);
  }
}

SCENARIO(children_by_shell, 0) {
  make_file("a", 10000);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 1000));
  DO(system("wc -c <a; cat a | cksum; dd if=a of=b bs=1000 count=3 2>/dev/null; exit 3"));
  FILE* pipe_of = popen("cat a | tail -c 5000 | cksum", "r");
  NEED(pipe_of != NULL && fgets(buffer, 100, pipe_of) != NULL);
  say("%s", buffer);
  DO(pclose(pipe_of));
  DO(write(fd, "x", 1));
}

SCENARIO(standard_streams_mixed, 0) {
  printf("printed first\n");
  fflush(stdout);
  if (write(1, "written second\n", 15) != 15) _exit(3);
  fprintf(stderr, "to the error stream\n");
  if (write(2, "and again\n", 10) != 10) _exit(4);
  DO(read(0, buffer, 10));
  DO(isatty(0) + isatty(1) + isatty(2));
  DO(close(2));
  const int fd = (int)DO(open("a", O_RDWR | O_CREAT, 0600));
  DO(write(fd, "in place of it\n", 15));
  fprintf(stderr, "lands in the file\n");
  printf("unflushed at exit");
}

SCENARIO(fork_with_unflushed_output, 0) {
  printf("once or twice; ");
  const pid_t child = fork();
  if (child == 0) exit(0);
  waitpid(child, NULL, 0);
}
