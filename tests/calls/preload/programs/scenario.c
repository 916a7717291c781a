/* scenario NAME FILE...: one small scene each for interposer_test.cpp. Exit code 0: as POSIX says.
 */
#define _GNU_SOURCE
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
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char** environ;
ssize_t __read_chk(int, void*, size_t, size_t);
ssize_t __pread_chk(int, void*, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void*, size_t, off64_t, size_t);
int __open_2(const char*, int);
int __open64_2(const char*, int);
int __openat_2(int, const char*, int);
int __openat64_2(int, const char*, int);

#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      dprintf(2, "line %d: %s (errno %d)\n", __LINE__, #condition, errno); \
      _exit(1);                                                            \
    }                                                                      \
  } while (0)

static char buffer[1 << 20];

/* 12 reads of 100 bytes, each by another function. */
static int all_reads(char** path) {
  const int fd = open(path[0], O_RDONLY);
  struct iovec two[2] = {{buffer, 40}, {buffer + 40, 60}};
  CHECK(read(fd, buffer, 100) == 100);
  CHECK(__read_chk(fd, buffer, 100, sizeof buffer) == 100);
  CHECK(pread(fd, buffer, 100, 0) == 100);
  CHECK(pread64(fd, buffer, 100, 0) == 100);
  CHECK(__pread_chk(fd, buffer, 100, 0, sizeof buffer) == 100);
  CHECK(__pread64_chk(fd, buffer, 100, 0, sizeof buffer) == 100);
  CHECK(readv(fd, two, 2) == 100);
  CHECK(preadv(fd, two, 2, 0) == 100);
  CHECK(preadv64(fd, two, 2, 0) == 100);
  CHECK(preadv2(fd, two, 2, -1, 0) == 100);
  CHECK(preadv64v2(fd, two, 2, 0, 0) == 100);
  CHECK(preadv2(fd, two, 2, 0, RWF_HIPRI) == 100 || errno == EOPNOTSUPP);
  CHECK(lseek(fd, 0, SEEK_CUR) == 400);
  CHECK(close(fd) == 0);
  return 0;
}

static int all_writes(char** path) {
  unlink(path[0]);
  const int fd = open(path[0], O_RDWR | O_CREAT | O_TRUNC, 0640);
  struct iovec two[2] = {{buffer, 40}, {buffer + 40, 60}};
  CHECK(write(fd, buffer, 100) == 100);
  CHECK(pwrite(fd, buffer, 100, 0) == 100);
  CHECK(pwrite64(fd, buffer, 100, 0) == 100);
  CHECK(writev(fd, two, 2) == 100);
  CHECK(pwritev(fd, two, 2, 0) == 100);
  CHECK(pwritev64(fd, two, 2, 0) == 100);
  CHECK(pwritev2(fd, two, 2, -1, 0) == 100);
  CHECK(pwritev64v2(fd, two, 2, 0, 0) == 100);
  CHECK(lseek(fd, 0, SEEK_END) == 300);
  CHECK(fsync(fd) == 0 && fdatasync(fd) == 0);
  CHECK(sync_file_range(fd, 0, 300, SYNC_FILE_RANGE_WRITE) == 0);
  CHECK(ftruncate(fd, 50) == 0 && ftruncate64(fd, 60) == 0);
  CHECK(lseek64(fd, 0, SEEK_END) == 60);
  struct stat status;
  CHECK(fstat(fd, &status) == 0 && (status.st_mode & 0777) == 0640);
  CHECK(close(fd) == 0);
  return 0;
}

/* 9 opens of an existing file. */
static int all_opens(char** path) {
  int fds[9];
  int n = 0;
  fds[n++] = open(path[0], O_RDONLY);
  fds[n++] = open64(path[0], O_RDONLY);
  fds[n++] = openat(AT_FDCWD, path[0], O_RDONLY);
  fds[n++] = openat64(AT_FDCWD, path[0], O_RDONLY);
  fds[n++] = __open_2(path[0], O_RDONLY);
  fds[n++] = __open64_2(path[0], O_RDONLY);
  fds[n++] = __openat_2(AT_FDCWD, path[0], O_RDONLY);
  fds[n++] = __openat64_2(AT_FDCWD, path[0], O_RDONLY);
  fds[n++] = open(path[0], O_RDWR | O_CREAT, 0600);
  for (int i = 0; i < n; ++i) {
    CHECK(fds[i] >= 0 && read(fds[i], buffer, 10) == 10);
    CHECK(close(fds[i]) == 0);
  }
  return 0;
}

/* 8 files beside the first one, whose names it prints. The errors are the C library's. */
static int all_temporary(char** path) {
  char name[8][300];
  int fds[8];
  for (int i = 0; i < 8; ++i) {
    snprintf(name[i], sizeof name[i], "%s.%dXXXXXX%s", path[0], i, i < 4 ? "" : ".end");
  }
  fds[0] = mkstemp(name[0]);
  fds[1] = mkstemp64(name[1]);
  fds[2] = mkostemp(name[2], O_CLOEXEC);
  fds[3] = mkostemp64(name[3], O_APPEND);
  fds[4] = mkstemps(name[4], 4);
  fds[5] = mkstemps64(name[5], 4);
  fds[6] = mkostemps(name[6], 4, O_CLOEXEC);
  fds[7] = mkostemps64(name[7], 4, O_APPEND);
  for (int i = 0; i < 8; ++i) {
    CHECK(fds[i] >= 0 && strstr(name[i], "XXXXXX") == NULL && access(name[i], R_OK | W_OK) == 0);
    CHECK(((fcntl(fds[i], F_GETFD) & FD_CLOEXEC) != 0) == (i == 2 || i == 6));
    CHECK(((fcntl(fds[i], F_GETFL) & O_APPEND) != 0) == (i == 3 || i == 7));
    CHECK(write(fds[i], buffer, 10) == 10 && close(fds[i]) == 0);
    puts(strrchr(name[i], '/'));
  }
  char wrong[] = "XXXXX";
  errno = 77;
  CHECK(mkstemp(wrong) == -1 && errno == EINVAL);
  CHECK(mkostemps(wrong, 9, 0) == -1 && errno == EINVAL);
  char nowhere[] = "/nonexistent/XXXXXX";
  CHECK(mkstemp(nowhere) == -1 && errno == ENOENT);
  return 0;
}

static int errors(char** path) {
  errno = 77;
  int fd = open(path[0], O_RDONLY);
  CHECK(fd >= 0 && errno == 77);
  CHECK(read(fd, buffer, 10) == 10 && errno == 77);
  CHECK(write(fd, buffer, 10) == -1 && errno == EBADF);
  errno = 0;
  CHECK(pread(fd, buffer, 10, -1) == -1 && errno == EINVAL);
  struct iovec one = {buffer, 10};
  errno = 0;
  CHECK(preadv(fd, &one, 1, -1) == -1 && errno == EINVAL);
  errno = 0;
  CHECK(readv(fd, &one, -1) == -1 && errno == EINVAL);
  errno = 0;
  CHECK(preadv2(fd, &one, 1, -2, 0) == -1 && errno == EINVAL);
  CHECK(read(fd, buffer, 0) == 0);
  errno = 0;
  CHECK(read(fd, (void*)8, 10) == -1 && errno == EFAULT);
  errno = 0;
  CHECK(lseek(fd, -5, SEEK_SET) == -1 && errno == EINVAL);
  errno = 77;
  CHECK(close(fd) == 0 && errno == 77);
  CHECK(close(fd) == -1 && errno == EBADF);
  errno = 0;
  CHECK(read(fd, buffer, 10) == -1 && errno == EBADF);
  errno = 0;
  CHECK(open("/nonexistent/file", O_RDONLY) == -1 && errno == ENOENT);
  errno = 0;
  CHECK(write(-1, buffer, 1) == -1 && errno == EBADF);
  errno = 0;
  CHECK(read(1 << 20, buffer, 1) == -1 && errno == EBADF);
  fd = open("/tmp", O_RDONLY | O_DIRECTORY);
  errno = 0;
  CHECK(read(fd, buffer, 1) == -1 && errno == EISDIR);
  close(fd);
  fd = open("/proc/self/mem", O_RDONLY); /* nothing is mapped at 0 */
  errno = 0;
  CHECK(pread(fd, buffer, 1, 0) == -1 && errno == EIO);
  close(fd);
  return 0;
}

/* Writes until the file system is full. */
static int fills(char** path) {
  const int fd = open(path[0], O_RDWR | O_CREAT | O_TRUNC, 0600);
  const size_t block = 100000;
  off_t total = 0;
  for (;;) {
    memset(buffer, (int)(total / (off_t)block), block);
    errno = 0;
    const ssize_t written = write(fd, buffer, block);
    if (written < 0) break;
    total += written;
    CHECK(lseek(fd, 0, SEEK_CUR) == total);
    if ((size_t)written < block) break;
  }
  CHECK(total > (off_t)block);
  errno = 0;
  CHECK(write(fd, buffer, block) == -1 && errno == ENOSPC);
  errno = 0;
  CHECK(pwrite(fd, buffer, block, total) == -1 && errno == ENOSPC);
  CHECK(fsync(fd) == 0);
  struct stat status;
  CHECK(fstat(fd, &status) == 0 && status.st_size == total);
  for (off_t at = 0; at < total; at += (off_t)block) {
    const ssize_t expected = total - at < (off_t)block ? total - at : (off_t)block;
    CHECK(pread(fd, buffer, block, at) == expected);
    for (ssize_t i = 0; i < expected; ++i) CHECK(buffer[i] == (char)(at / (off_t)block));
  }
  CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, buffer, block, 0) == (ssize_t)block);
  CHECK(close(fd) == 0);
  return 0;
}

static int append(char** path) {
  int fd = open(path[0], O_WRONLY | O_CREAT | O_APPEND, 0600);
  CHECK(write(fd, "abc", 3) == 3);
  CHECK(lseek(fd, 0, SEEK_SET) == 0);
  CHECK(write(fd, "def", 3) == 3);
  close(fd);
  fd = open(path[0], O_RDWR);
  CHECK(fcntl(fd, F_SETFL, O_APPEND) == 0);
  CHECK(write(fd, "ghi", 3) == 3);
  CHECK(fcntl(fd, F_SETFL, 0) == 0);
  CHECK(pwrite(fd, "A", 1, 0) == 1);
  CHECK(pread(fd, buffer, 20, 0) == 9 && memcmp(buffer, "Abcdefghi", 9) == 0);
  close(fd);
  return 0;
}

static int duplicates(char** path) {
  int fd = open(path[0], O_RDONLY);
  int d1 = dup(fd);
  int d2 = fcntl(fd, F_DUPFD, 100);
  int d3 = fcntl(fd, F_DUPFD_CLOEXEC, 100);
  CHECK(d1 > fd && d2 == 100 && d3 == 101);
  CHECK(dup2(fd, 50) == 50 && dup3(fd, 51, O_CLOEXEC) == 51);
  CHECK(dup2(fd, fd) == fd);
  errno = 0;
  CHECK(dup3(fd, fd, 0) == -1 && errno == EINVAL);
  const int all[] = {fd, d1, d2, d3, 50, 51};
  for (int i = 0; i < 6; ++i) {
    CHECK(read(all[i], buffer, 10) == 10);
    CHECK(lseek(fd, 0, SEEK_CUR) == 10 * (i + 1));
  }
  CHECK((fcntl(51, F_GETFD) & FD_CLOEXEC) != 0 && (fcntl(50, F_GETFD) & FD_CLOEXEC) == 0);
  CHECK(close_range(50, 51, 0) == 0);
  errno = 0;
  CHECK(read(50, buffer, 1) == -1 && errno == EBADF);
  closefrom(100);
  CHECK(read(100, buffer, 1) == -1);
  CHECK(read(fd, buffer, 10) == 10);
  return 0;
}

/* The number of a tracked file is given out again behind the interposer's back. */
static int reuse(char** path) {
  const int fd = open(path[0], O_RDONLY);
  CHECK(read(fd, buffer, sizeof buffer) == (ssize_t)sizeof buffer);
  syscall(SYS_close, fd);
  int ends[2];
  CHECK(pipe(ends) == 0 && ends[0] == fd);
  CHECK(write(ends[1], "hello", 5) == 5);
  CHECK(read(ends[0], buffer, 100) == 5 && memcmp(buffer, "hello", 5) == 0);
  CHECK(lseek(ends[0], 0, SEEK_CUR) == -1 && errno == ESPIPE);
  close(ends[0]);
  close(ends[1]);
  int pair[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  CHECK(write(pair[0], "abc", 3) == 3 && read(pair[1], buffer, 9) == 3);
  return 0;
}

static int mapped(char** path) {
  const int fd = open(path[0], O_RDONLY);
  CHECK(read(fd, buffer, 100) == 100);
  char* at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
  CHECK(at != MAP_FAILED && memcmp(at, buffer, 100) == 0);
  CHECK(pread(fd, buffer + 100, 100, 0) == 100 && memcmp(at, buffer + 100, 100) == 0);
  return 0;
}

static int stream(char** path) {
  const int fd = open(path[0], O_RDONLY);
  FILE* file = fdopen(fd, "r");
  CHECK(file != NULL && fread(buffer, 1, 1000, file) == 1000);
  CHECK(fclose(file) == 0);
  CHECK(read(fd, buffer, 1) == -1 && errno == EBADF);
  return 0;
}

static int forks(char** path) {
  const int fd = open(path[0], O_RDONLY);
  CHECK(read(fd, buffer, 1000) == 1000);
  for (int round = 0; round < 2; ++round) {
    const pid_t child = round == 0 ? fork() : _Fork();
    if (child == 0) {
      CHECK(read(fd, buffer, 1000) == 1000); /* the position is shared */
      const int own = open(path[0], O_RDONLY);
      CHECK(read(own, buffer, 500) == 500);
      close(own);
      const pid_t grandchild = fork();
      if (grandchild == 0) {
        CHECK(read(fd, buffer, 1000) == 1000);
        _exit(8);
      }
      int status;
      CHECK(waitpid(grandchild, &status, 0) == grandchild && WEXITSTATUS(status) == 8);
      _exit(7);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
  }
  CHECK(lseek(fd, 0, SEEK_CUR) == 5000);
  return 0;
}

static int vforks(char** path) {
  const int fd = open(path[0], O_RDONLY);
  CHECK(read(fd, buffer, 1000) == 1000);
  const pid_t child = vfork();
  if (child == 0) {
    close(fd); /* the child's copy only */
    dup2(1, fd);
    execl("/bin/true", "true", (char*)NULL);
    _exit(127);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 0);
  CHECK(read(fd, buffer, 1000) == 1000); /* still the file, and still counted */
  const pid_t quitter = vfork();
  if (quitter == 0) _exit(3);
  CHECK(waitpid(quitter, &status, 0) == quitter && WEXITSTATUS(status) == 3);
  pid_t spawned;
  char* argv[] = {"true", NULL};
  CHECK(posix_spawn(&spawned, "/bin/true", NULL, NULL, argv, environ) == 0);
  CHECK(waitpid(spawned, &status, 0) == spawned && WEXITSTATUS(status) == 0);
  CHECK(system("exit 5") != -1);
  return 0;
}

static int execs(char** path) {
  const int fd = open(path[0], O_RDONLY);
  CHECK(read(fd, buffer, 1000) == 1000);
  errno = 0;
  CHECK(execl("/nonexistent", "x", (char*)NULL) == -1 && errno == ENOENT);
  CHECK(read(fd, buffer, 1000) == 1000);
  execlp(path[1], path[1], "all_opens", path[0], (char*)NULL);
  return 9;
}

static void* exec_in_thread(void* path) {
  execv("/proc/self/exe", (char*[]){"scenario", "all_opens", path, NULL});
  return NULL;
}

static int exec_thread(char** path) {
  pthread_t thread;
  pthread_create(&thread, NULL, exec_in_thread, path[0]);
  pthread_join(thread, NULL);
  return 9;
}

static int exits_at_once(char** path) {
  const int fd = open(path[0], O_RDONLY);
  CHECK(read(fd, buffer, 1000) == 1000);
  _exit(42);
}

static int exits_quickly(char** path) {
  const int fd = open(path[0], O_RDONLY);
  CHECK(read(fd, buffer, 1000) == 1000);
  quick_exit(43);
}

static int killed(char** path) {
  const int fd = open(path[0], O_RDONLY);
  CHECK(read(fd, buffer, 1000) == 1000);
  kill(getpid(), SIGKILL);
  return 0;
}

static void* read_all(void* path) {
  const int fd = open(path, O_RDONLY);
  char* own = malloc(1 << 18);
  while (read(fd, own, 1 << 18) > 0) usleep(300);
  close(fd);
  free(own);
  return NULL;
}

/* The process ends with its last thread, which must not be one of Ioweave's. */
static int main_thread_ends(char** path) {
  pthread_t thread;
  pthread_create(&thread, NULL, read_all, path[0]);
  pthread_detach(thread);
  pthread_exit(NULL);
}

static int setuid_beside(char** path) {
  read_all(path[0]);
  CHECK(setuid(getuid()) == 0); /* broadcast to every thread of the process */
  return 0;
}

static volatile sig_atomic_t handled;
static int handler_fd;

static void in_handler(int signal) {
  (void)signal;
  char small[64];
  const int saved = errno;
  if (pread(handler_fd, small, sizeof small, 0) == (ssize_t)sizeof small) ++handled;
  if (pwrite(handler_fd, small, 8, 0) == 8) ++handled;
  errno = saved;
}

/* Signals strike in the middle of wrapped calls and of malloc. */
static int signals(char** path) {
  handler_fd = open(path[0], O_RDWR);
  struct sigaction action = {.sa_handler = in_handler, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  struct itimerval every = {{0, 200}, {0, 200}};
  setitimer(ITIMER_REAL, &every, NULL);
  const int fd = open(path[0], O_RDWR);
  for (int i = 0; i < 4000; ++i) {
    void* memory = malloc(1000 + (size_t)i);
    CHECK(pread(fd, buffer, 4096, 4096) == 4096);
    CHECK(pwrite(fd, buffer, 4096, 4096) == 4096);
    free(memory);
    if (i % 100 == 0) CHECK(close(open(path[0], O_RDONLY)) == 0);
  }
  every = (struct itimerval){{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &every, NULL);
  CHECK(handled > 0);
  return 0;
}

static void* cancelled(void* path) {
  const int fd = open(path, O_RDONLY);
  for (;;) {
    CHECK(pread(fd, buffer, 65536, 0) >= 0);
  }
}

static int cancels(char** path) {
  for (int i = 0; i < 20; ++i) {
    pthread_t thread;
    void* result;
    pthread_create(&thread, NULL, cancelled, path[0]);
    usleep(2000);
    CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
  }
  return 0;
}

/* fcntl locks fall when the process closes any descriptor of the file, and only then. */
static int locks(char** path) {
  const int fd = open(path[0], O_RDWR);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  CHECK(fcntl(fd, F_SETLK, &lock) == 0);
  for (int i = 0; i < 24 && read(fd, buffer, 1 << 18) > 0; ++i) usleep(1000);
  const pid_t child = fork();
  if (child == 0) {
    lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const int other = open(path[0], O_RDWR);
    _exit(fcntl(other, F_SETLK, &lock) == -1 && (errno == EAGAIN || errno == EACCES) ? 0 : 1);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 0);
  return 0;
}

/* What was in flight at close() must not keep the open file: its flock(2) is free at once. */
static int close_frees(char** path) {
  for (int i = 0; i < 8; ++i) {
    const int fd = open(path[0], O_RDWR);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_pid = 0};
    CHECK(fcntl(fd, F_OFD_SETLK, &lock) == 0);
    CHECK(pread(fd, buffer, 1 << 20, (off_t)i << 21) >= 0);
    for (int k = 0; k < 4; ++k) CHECK(read(fd, buffer, 1 << 20) >= 0);
    CHECK(close(fd) == 0);
    const int other = open(path[0], O_RDWR);
    lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_pid = 0};
    CHECK(fcntl(other, F_OFD_SETLK, &lock) == 0);
    close(other);
  }
  return 0;
}

static int truncates(char** path) {
  const int fd = open(path[0], O_RDWR);
  for (int i = 0; i < 4; ++i) CHECK(read(fd, buffer, 1 << 20) == 1 << 20);
  CHECK(ftruncate(fd, 5 << 20) == 0);
  CHECK(read(fd, buffer, 1 << 20) == 1 << 20);
  CHECK(read(fd, buffer, 1 << 20) == 0);
  CHECK(truncate(path[0], 3 << 20) == 0);
  CHECK(pread(fd, buffer, 1 << 20, 4 << 20) == 0);
  return 0;
}

static void* chaos_thread(void* argument) {
  char** path = argument;
  unsigned seed = (unsigned)(uintptr_t)&seed;
  char small[4096];
  for (int i = 0; i < 400; ++i) {
    const int fd = open(path[0], O_RDONLY);
    if (fd < 0) return (void*)1;
    for (int k = 0; k < 4; ++k) {
      if (pread(fd, small, sizeof small, rand_r(&seed) % (1 << 20)) != (ssize_t)sizeof small)
        return (void*)2;
    }
    const int copy = rand_r(&seed) % 2 ? dup(fd) : -1;
    if (read(fd, small, 512) != 512) return (void*)3;
    close(fd);
    if (copy >= 0) close(copy);
    if (rand_r(&seed) % 64 == 0) {
      const pid_t child = fork();
      if (child == 0) _exit(0);
      waitpid(child, NULL, 0);
    }
  }
  return NULL;
}

static int chaos(char** path) {
  pthread_t threads[8];
  for (int i = 0; i < 8; ++i) pthread_create(&threads[i], NULL, chaos_thread, path);
  for (int i = 0; i < 8; ++i) {
    void* result;
    pthread_join(threads[i], &result);
    CHECK(result == NULL);
  }
  return 0;
}

static int confined(char** path) {
  const int fd = open(path[0], O_RDONLY);
  for (int i = 0; i < 4; ++i) CHECK(read(fd, buffer, 1 << 20) == 1 << 20);
  CHECK(prctl(PR_SET_SECCOMP, 1 /* SECCOMP_MODE_STRICT */) == 0);
  for (int i = 0; i < 4; ++i) {
    if (read(fd, buffer, 1 << 20) != 1 << 20) syscall(SYS_exit, 1);
  }
  syscall(SYS_exit, 0);
  return 0;
}

/* A program gets the lowest free numbers, whatever the engine keeps open beside it. */
static int numbers(char** path) {
  const int first = open(path[0], O_RDWR);
  CHECK(read(first, buffer, 100) == 100 && pwrite(first, buffer, 100, 0) == 100);
  const int second = open(path[0], O_RDWR);
  CHECK(second == first + 1);
  for (int i = second; i < 1024; ++i) {
    errno = 0;
    CHECK(close(i) == 0 || errno == EBADF);
  }
  CHECK(read(first, buffer, 100) == 100 && pwrite(first, buffer, 100, 0) == 100);
  CHECK(dup2(first, second) == second && read(second, buffer, 100) == 100);
  CHECK(close_range((unsigned)second, ~0u, 0) == 0);
  CHECK(read(first, buffer, 100) == 100 && pwrite(first, buffer, 100, 0) == 100);
  closefrom(second);
  CHECK(read(first, buffer, 100) == 100 && pwrite(first, buffer, 100, 0) == 100);
  return 0;
}

/* What a call answered, for a comparison with the same scene elsewhere. */
static void tell(const char* call, ssize_t result) {
  printf("%s: %zd errno %d\n", call, result, errno);
  errno = 77;
}
#define TELL(call) tell(#call, (ssize_t)(call))

static unsigned checksum(const char* from, size_t bytes) {
  unsigned sum = 1;
  for (size_t i = 0; i < bytes; ++i) sum = sum * 31 + (unsigned char)from[i];
  return sum;
}

/* Exit code 77 where the file system has no O_DIRECT. */
static int open_direct(const char* path) {
  const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 0600);
  if (fd < 0 && errno == EINVAL) exit(77);
  CHECK(fd >= 0);
  errno = 77;
  return fd;
}

static char* aligned_memory(size_t bytes) {
  void* memory;
  CHECK(posix_memalign(&memory, 1 << 16, bytes) == 0);
  for (size_t i = 0; i < bytes; ++i) ((char*)memory)[i] = (char)(i * 7 + (i >> 12));
  return memory;
}

enum { page = 4096 };

static int direct_aligned(char** path) {
  const int fd = open_direct(path[0]);
  char* const out = aligned_memory(64 * page);
  char* const in = aligned_memory(64 * page);
  struct iovec from[2] = {{out, page}, {out + 8 * page, 2 * page}};
  struct iovec to[2] = {{in, 2 * page}, {in + 8 * page, page}};
  CHECK(write(fd, out, 16 * page) == 16 * page);
  /* The first extends the file, the others write over it. */
  for (int i = 0; i < 4; ++i) CHECK(pwrite(fd, out + page, 32 * page, 16 * page) == 32 * page);
  CHECK(writev(fd, from, 2) == 3 * page);
  CHECK(pwritev(fd, from, 2, 48 * page) == 3 * page);
  CHECK(lseek(fd, 0, SEEK_CUR) == 19 * page);
  TELL(fsync(fd));
  CHECK(pread(fd, in, 51 * page, 0) == 51 * page);
  printf("%u\n", checksum(in, 51 * page));
  CHECK(lseek(fd, 3 * page, SEEK_SET) == 3 * page && read(fd, in, 5 * page) == 5 * page);
  CHECK(memcmp(in, out + 3 * page, 5 * page) == 0);
  TELL(readv(fd, to, 2));
  TELL(preadv(fd, to, 2, 40 * page));
  printf("%u %u\n", checksum(in, 2 * page), checksum(in + 8 * page, page));
  /* The end of the file, on a boundary and off it. */
  TELL(pread(fd, in, 4 * page, 49 * page));
  TELL(pread(fd, in, page, 51 * page));
  TELL(pread(fd, in, page, 60 * page));
  TELL(ftruncate(fd, 50 * page + 100));
  TELL(pread(fd, in, 4 * page, 48 * page));
  TELL(lseek(fd, 48 * page, SEEK_SET));
  TELL(read(fd, in, 4 * page));
  TELL(lseek(fd, 0, SEEK_CUR));
  TELL(read(fd, in, page));
  TELL(pread(fd, in, page, 50 * page));
  TELL(write(fd, out, page)); /* at a position that is off the boundary now */
  /* And back to the page cache. */
  TELL(fcntl(fd, F_SETFL, 0));
  TELL(pread(fd, in + 1, 100, 10));
  TELL(pwrite(fd, out + 1, 100, 10));
  TELL(fcntl(fd, F_SETFL, O_DIRECT));
  TELL(pread(fd, in, 2 * page, 0));
  printf("%u\n", checksum(in, 2 * page));
  TELL(close(fd));
  return 0;
}

/* 16 reads of a size, each at an offset. */
static int direct_reads(char** path) {
  const int fd = open_direct(path[0]);
  char* const memory = aligned_memory(16 * page);
  CHECK(write(fd, memory, 16 * page) == 16 * page);
  for (int i = 0; i < 16; ++i) CHECK(pread(fd, memory, page, (off_t)i * page) == page);
  return 0;
}

/* The same of writes, over what is there. */
static int direct_writes(char** path) {
  const int fd = open_direct(path[0]);
  char* const memory = aligned_memory(16 * page);
  CHECK(write(fd, memory, 16 * page) == 16 * page && fsync(fd) == 0);
  for (int i = 0; i < 16; ++i) CHECK(pwrite(fd, memory, page, (off_t)i * page) == page);
  return 0;
}

static int direct_misaligned(char** path) {
  const int fd = open_direct(path[0]);
  char* const out = aligned_memory(16 * page);
  char* const in = aligned_memory(16 * page);
  struct iovec from[2] = {{out + 1, page}, {out + 2 * page, 100}};
  struct iovec to[2] = {{in + 3, 100}, {in + 2 * page, page}};
  CHECK(write(fd, out, 16 * page) == 16 * page);
  /* The buffer, the length and the offset off the boundary, by a byte and by a small power of two,
   * which newer kernels allow of a buffer. */
  for (int shift = 1; shift <= 512; shift *= 8) {
    TELL(pread(fd, in + shift, page, page));
    TELL(pread(fd, in, page - shift, page));
    TELL(pread(fd, in, page, page + shift));
    TELL(pwrite(fd, out + shift, page, 2 * page));
    TELL(pwrite(fd, out, page - shift, 2 * page));
    TELL(pwrite(fd, out, page, 2 * page + shift));
  }
  TELL(lseek(fd, 4 * page, SEEK_SET));
  TELL(read(fd, in + 1, page));
  TELL(read(fd, in, 100));
  TELL(write(fd, out + 1, page));
  TELL(write(fd, out, 100));
  TELL(lseek(fd, 0, SEEK_CUR));
  TELL(lseek(fd, 4 * page + 10, SEEK_SET));
  TELL(read(fd, in, page));
  TELL(write(fd, out, page));
  TELL(readv(fd, to, 2));
  TELL(preadv(fd, to, 2, 0));
  TELL(writev(fd, from, 2));
  TELL(pwritev(fd, from, 2, page));
  TELL(lseek(fd, 0, SEEK_CUR));
  TELL(pread(fd, in, 100, 100 * page)); /* misaligned and beyond the end */
  TELL(pread(fd, in, page, 100 * page + 1));
  TELL(read(fd, NULL, page));
  TELL(fcntl(fd, F_SETFL, 0));
  TELL(pread(fd, in, 16 * page, 0));
  printf("%u\n", checksum(in, 16 * page));
  TELL(close(fd));
  return 0;
}

/* A file that is made, filled, dropped from the cache and read again, computing in between. */
static int makes_and_reads(char** path) {
  const int pieces = 32;
  int fd = open(path[0], O_RDWR | O_CREAT | O_TRUNC, 0600);
  for (int i = 0; i < pieces; ++i) {
    memset(buffer, i, sizeof buffer);
    CHECK(write(fd, buffer, sizeof buffer) == (ssize_t)sizeof buffer);
  }
  CHECK(fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
  CHECK(close(fd) == 0);
  fd = open(path[0], O_RDONLY);
  for (int i = 0; i < pieces; ++i) {
    CHECK(read(fd, buffer, sizeof buffer) == (ssize_t)sizeof buffer && buffer[1000] == i);
    usleep(10000);
  }
  CHECK(close(fd) == 0);
  return 0;
}

static int transfers(char** path) {
  const int from = open(path[0], O_RDONLY);
  const int to = open(path[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(sendfile(to, from, NULL, 1000) == 1000);
  CHECK(copy_file_range(from, NULL, to, NULL, 1000, 0) == 1000);
  int ends[2];
  CHECK(pipe(ends) == 0 && splice(from, NULL, ends[1], NULL, 1000, 0) == 1000);
  CHECK(lseek(from, 0, SEEK_CUR) == 3000 && lseek(to, 0, SEEK_CUR) == 2000);
  off_t at = 3000;
  CHECK(sendfile(to, from, &at, 1000) == 1000 && at == 4000);
  CHECK(copy_file_range(from, &at, to, NULL, 1000, 0) == 1000 && at == 5000);
  CHECK(splice(from, &at, ends[1], NULL, 1000, 0) == 1000 && at == 6000);
  return 0;
}

/* ---- One open file, many users ---- */

enum { sharers = 4, shared_records = 300, record_bytes = 4096 };

/* Past the page cache where that is possible: the longer a transfer, the likelier two at once. */
static int open_shared(const char* path, int flags) {
  const int fd = open(path, flags | O_DIRECT, 0600);
  return fd >= 0 ? fd : open(path, flags, 0600);
}

static void write_records(int fd, int who) {
  _Alignas(4096) char record[record_bytes];
  memset(record, 'a' + who, sizeof record);
  for (int i = 0; i < shared_records; ++i) CHECK(write(fd, record, sizeof record) == record_bytes);
}

static int shared_fd;

static void* write_records_in_thread(void* who) {
  write_records(shared_fd, (int)(intptr_t)who);
  return NULL;
}

/* As many whole records of each as were written. */
static void check_records(int fd, int writers) {
  _Alignas(4096) char record[record_bytes];
  int seen[sharers] = {0};
  CHECK(lseek(fd, 0, SEEK_END) == (off_t)writers * shared_records * record_bytes);
  for (int i = 0; i < writers * shared_records; ++i) {
    CHECK(pread(fd, record, sizeof record, (off_t)i * record_bytes) == record_bytes);
    for (int k = 1; k < record_bytes; ++k) CHECK(record[k] == record[0]);
    ++seen[record[0] - 'a'];
  }
  for (int i = 0; i < writers; ++i) CHECK(seen[i] == shared_records);
}

static int threads_share_a_position(char** path) {
  pthread_t threads[sharers];
  shared_fd = open_shared(path[0], O_RDWR | O_CREAT | O_TRUNC);
  for (intptr_t i = 0; i < sharers; ++i)
    pthread_create(&threads[i], NULL, write_records_in_thread, (void*)i);
  for (int i = 0; i < sharers; ++i) pthread_join(threads[i], NULL);
  check_records(shared_fd, sharers);
  return 0;
}

static void fork_writers(int fd) {
  for (int i = 0; i < sharers; ++i) {
    if (fork() == 0) {
      write_records(fd, i);
      _exit(0);
    }
  }
  for (int i = 0; i < sharers; ++i) {
    int status;
    CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

static int processes_share_a_position(char** path) {
  const int fd = open_shared(path[0], O_RDWR | O_CREAT | O_TRUNC);
  fork_writers(fd);
  check_records(fd, sharers);
  return 0;
}

static off_t bytes_read[sharers];

static void* read_to_the_end(void* who) {
  _Alignas(4096) char own[4096];
  for (ssize_t got; (got = read(shared_fd, own, sizeof own)) > 0;) bytes_read[(intptr_t)who] += got;
  return NULL;
}

static int readers_share_a_position(char** path) {
  pthread_t threads[sharers];
  shared_fd = open_shared(path[0], O_RDONLY);
  for (intptr_t i = 0; i < sharers; ++i)
    pthread_create(&threads[i], NULL, read_to_the_end, (void*)i);
  off_t sum = 0;
  for (int i = 0; i < sharers; ++i) {
    pthread_join(threads[i], NULL);
    sum += bytes_read[i];
  }
  CHECK(sum == lseek(shared_fd, 0, SEEK_END));
  return 0;
}

static void* append_records_in_thread(void* who) {
  char record[record_bytes];
  struct iovec parts[2] = {{record, 100}, {record + 100, record_bytes - 100}};
  memset(record, 'a' + (int)(intptr_t)who, sizeof record);
  for (int i = 0; i < shared_records; ++i) {
    /* Linux: at the end of the file, whatever the offset. */
    CHECK((i % 2 ? pwritev(shared_fd, parts, 2, 0) : pwrite(shared_fd, record, record_bytes, 0)) ==
          record_bytes);
  }
  return NULL;
}

/* O_APPEND, set behind the interposer's back, which then carries the writes out. */
static int appenders(char** path) {
  pthread_t threads[sharers];
  shared_fd = open(path[0], O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(syscall(SYS_fcntl, shared_fd, F_SETFL, O_APPEND) == 0);
  for (intptr_t i = 0; i < sharers; ++i)
    pthread_create(&threads[i], NULL, append_records_in_thread, (void*)i);
  for (int i = 0; i < sharers; ++i) pthread_join(threads[i], NULL);
  check_records(shared_fd, sharers);
  return 0;
}

enum { vector_parts = 64, vector_part = 4096 };

static void* overwrite_in_one(void* who) {
  char* const own = malloc(vector_part);
  struct iovec parts[vector_parts];
  memset(own, 'a' + (int)(intptr_t)who, vector_part);
  for (int i = 0; i < vector_parts; ++i) parts[i] = (struct iovec){own, vector_part};
  for (int i = 0; i < 60; ++i)
    CHECK(pwritev(shared_fd, parts, vector_parts, 0) == vector_parts * vector_part);
  free(own);
  return NULL;
}

/* Whoever was last, it is all of it that is there. */
static int whole_vectors(char** path) {
  pthread_t threads[sharers];
  shared_fd = open(path[0], O_RDWR | O_CREAT | O_TRUNC, 0600);
  for (intptr_t i = 0; i < sharers; ++i)
    pthread_create(&threads[i], NULL, overwrite_in_one, (void*)i);
  for (int i = 0; i < sharers; ++i) pthread_join(threads[i], NULL);
  CHECK(pread(shared_fd, buffer, sizeof buffer, 0) == vector_parts * vector_part);
  for (int i = 1; i < vector_parts * vector_part; ++i) CHECK(buffer[i] == buffer[0]);
  return 0;
}

/* ---- Limits ---- */

static volatile sig_atomic_t beyond_limit;
static pthread_t beyond_limit_in;

static void on_limit(int signal) {
  (void)signal;
  ++beyond_limit;
  beyond_limit_in = pthread_self();
}

/* The limit comes when the engine has long been open. */
static int size_limited_later(char** path) {
  const int fd = open(path[0], O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(pwrite(fd, buffer, 4096, 0) == 4096);
  signal(SIGXFSZ, on_limit);
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  limit.rlim_cur = 2 << 20;
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  CHECK(pwrite(fd, buffer, 4096, (2 << 20) - 100) == 100 && beyond_limit == 0);
  errno = 0;
  CHECK(pwrite(fd, buffer, 4096, 2 << 20) == -1 && errno == EFBIG && beyond_limit == 1);
  CHECK(pthread_equal(beyond_limit_in, pthread_self()));
  return 0;
}

/* Every number that was free is the program's. */
static int fills_the_table(char** path) {
  struct rlimit limit = {64, 64};
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  int unused = 0;
  for (int i = 0; i < 64; ++i) unused += fcntl(i, F_GETFD) == -1;
  const int first = open(path[0], O_RDWR);
  CHECK(pread(first, buffer, 100, 0) == 100 && pwrite(first, buffer, 100, 0) == 100);
  int opened = 1;
  for (int fd; (fd = open(path[0], O_RDWR)) >= 0; ++opened) CHECK(pread(fd, buffer, 100, 0) == 100);
  CHECK(errno == EMFILE && opened == unused);
  CHECK(pread(first, buffer, 100, 0) == 100 && pwrite(first, buffer, 100, 0) == 100);
  return 0;
}

/* ---- What becomes of descriptors ---- */

/* On every number there is, one after the other, lies a file of the program's own. */
static int dups_everywhere(char** path) {
  struct rlimit limit = {1024, 1024};
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  const int fd = open(path[0], O_RDWR);
  CHECK(pread(fd, buffer, 100, 0) == 100 && pwrite(fd, buffer, 100, 0) == 100);
  for (int to = fd + 1; to < 1024; ++to) {
    CHECK(dup2(fd, to) == to);
    CHECK(pwrite(to, buffer, 100, 0) == 100 && pread(fd, buffer, 100, 0) == 100);
  }
  return 0;
}

static int closes_all_raw(char** path) {
  const int fd = open(path[0], O_RDWR);
  CHECK(pread(fd, buffer, 100, 0) == 100 && pwrite(fd, buffer, 100, 0) == 100);
  CHECK(syscall(SYS_close_range, fd + 1, ~0u, 0) == 0);
  for (int i = 0; i < 100; ++i)
    CHECK(pread(fd, buffer, 100, 0) == 100 && pwrite(fd, buffer, 100, 0) == 100);
  return 0;
}

static long unseen_close(int fd) {
  long result;
#if defined(__x86_64__)
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"((long)SYS_close), "D"((long)fd)
                   : "rcx", "r11", "memory");
#else
  result = syscall(SYS_close, fd);
#endif
  return result;
}

/* A pipe lies on the number of a file: positions it has none, and it must not be waited for. */
static int pipe_in_place_of_a_file(char** path) {
  const int fd = open(path[0], O_RDWR);
  CHECK(pread(fd, buffer, 100, 0) == 100 && pwrite(fd, buffer, 100, 0) == 100);
  CHECK(unseen_close(fd) == 0);
  int ends[2];
  CHECK(pipe(ends) == 0 && ends[0] == fd);
  errno = 0;
  CHECK(pread(fd, buffer, 100, 0) == -1 && errno == ESPIPE);
  signal(SIGALRM, on_limit);
  siginterrupt(SIGALRM, 1);
  const struct itimerval soon = {{0, 0}, {0, 20000}};
  setitimer(ITIMER_REAL, &soon, NULL);
  errno = 0;
  CHECK(read(fd, buffer, 100) == -1 && errno == EINTR && beyond_limit == 1);
  return 0;
}

/* ---- Confined by a raw system call ---- */

static int confined_raw(char** path) {
  const int fd = open(path[0], O_RDONLY);
  for (int i = 0; i < 4; ++i) CHECK(read(fd, buffer, 1 << 20) == 1 << 20);
  CHECK(syscall(SYS_seccomp, 0 /* SECCOMP_SET_MODE_STRICT */, 0, NULL) == 0);
  for (int i = 0; i < 4; ++i) {
    if (read(fd, buffer, 1 << 20) != 1 << 20) syscall(SYS_exit, 1);
  }
  syscall(SYS_exit, 0);
  return 0;
}

static int without_counter_then(char** path, int by_number) {
  const int fd = open(path[0], O_RDWR);
  CHECK(read(fd, buffer, 100) == 100 && pread(fd, buffer, 100, 0) == 100);
  const int answer = by_number ? (int)syscall(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0)
                               : prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
  if (answer != 0) return 0; /* not a processor that can */
  CHECK(read(fd, buffer, 100) == 100 && pwrite(fd, buffer, 100, 0) == 100);
  const int other = open(path[0], O_RDONLY);
  CHECK(other == fd + 1 && read(dup(other), buffer, 100) == 100 && close(other) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const int own = open(path[0], O_RDONLY);
    CHECK(read(own, buffer, 100) == 100 && close(own) == 0);
    _exit(5);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
  return 0;
}

static int without_counter(char** path) {
  return without_counter_then(path, 0);
}
static int without_counter_raw(char** path) {
  return without_counter_then(path, 1);
}

static const struct {
  const char* name;
  int (*play)(char**);
} scenes[] = {
    {"all_reads", all_reads},
    {"all_writes", all_writes},
    {"all_opens", all_opens},
    {"all_temporary", all_temporary},
    {"errors", errors},
    {"fills", fills},
    {"append", append},
    {"duplicates", duplicates},
    {"reuse", reuse},
    {"mapped", mapped},
    {"stream", stream},
    {"forks", forks},
    {"vforks", vforks},
    {"execs", execs},
    {"exec_thread", exec_thread},
    {"exits_at_once", exits_at_once},
    {"exits_quickly", exits_quickly},
    {"killed", killed},
    {"main_thread_ends", main_thread_ends},
    {"setuid_beside", setuid_beside},
    {"signals", signals},
    {"cancels", cancels},
    {"locks", locks},
    {"close_frees", close_frees},
    {"truncates", truncates},
    {"chaos", chaos},
    {"confined", confined},
    {"direct_aligned", direct_aligned},
    {"direct_misaligned", direct_misaligned},
    {"makes_and_reads", makes_and_reads},
    {"transfers", transfers},
    {"numbers", numbers},
    {"confined_raw", confined_raw},
    {"direct_reads", direct_reads},
    {"direct_writes", direct_writes},
    {"without_counter", without_counter},
    {"without_counter_raw", without_counter_raw},
    {"threads_share_a_position", threads_share_a_position},
    {"processes_share_a_position", processes_share_a_position},
    {"readers_share_a_position", readers_share_a_position},
    {"appenders", appenders},
    {"whole_vectors", whole_vectors},
    {"size_limited_later", size_limited_later},
    {"fills_the_table", fills_the_table},
    {"dups_everywhere", dups_everywhere},
    {"closes_all_raw", closes_all_raw},
    {"pipe_in_place_of_a_file", pipe_in_place_of_a_file},
};

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; ++i) {
    if (strcmp(scenes[i].name, argv[1]) == 0) return scenes[i].play(argv + 2);
  }
  return 2;
}
