/* Descriptors: copies, closing, numbers at the edges of the limit. */
#include <dirent.h>

#include "scenario.h"

static void list_descriptors(void) {
  DIR* folder = opendir("/proc/self/fd");
  NEED(folder != NULL);
  int numbers[2048];
  int count = 0;
  for (const struct dirent* entry; (entry = readdir(folder)) != NULL && count < 2048;) {
    if (entry->d_name[0] != '.') numbers[count++] = atoi(entry->d_name);
  }
  for (int i = 0; i < count; ++i) {
    for (int j = i + 1; j < count; ++j) {
      if (numbers[j] < numbers[i]) {
        const int other = numbers[i];
        numbers[i] = numbers[j];
        numbers[j] = other;
      }
    }
  }
  char line[1024] = "";
  for (int i = 0; i < count && strlen(line) < 1000; ++i) {
    snprintf(line + strlen(line), sizeof line - strlen(line), " %d", numbers[i]);
  }
  say("descriptors%s", line);
  closedir(folder);
}

SCENARIO(dup_kinds, 0) {
  make_file("a", 10000);
  const int fd = open("a", O_RDONLY);
  const int second = (int)DO(dup(fd));
  const int third = (int)DO(dup2(fd, 50));
  const int fourth = (int)DO(dup3(fd, 60, O_CLOEXEC));
  const int fifth = (int)DO(fcntl(fd, F_DUPFD, 40));
  const int sixth = (int)DO(fcntl(fd, F_DUPFD_CLOEXEC, 40));
  const int all[] = {fd, second, third, fourth, fifth, sixth};
  for (int i = 0; i < 12; ++i) {
    if (read(all[i % 6], buffer + i * 100, 100) != 100) say("read %d", i);
  }
  say_hash("data", buffer, 1200);
  for (int i = 0; i < 6; ++i) DO(fcntl(all[i], F_GETFD));
  DO(close(fd));
  DO(read(second, buffer, 100));
  DO(dup(fd));
  DO(dup2(fd, 70));
  DO(dup2(second, second));
  DO(dup3(second, second, 0));
  DO(dup2(second, -1));
  DO(dup2(second, 1 << 30));
  DO(lseek(sixth, 0, SEEK_CUR));
}

SCENARIO(dup2_onto_a_followed_file, 0) {
  make_file("a", 100000);
  make_file("b", 5000);
  const int a = open("a", O_RDONLY);
  const int b = open("b", O_RDWR);
  DO(read(a, buffer, 70000));
  DO(dup2(b, a));
  DO(read(a, buffer, 1000));
  say_hash("data", buffer, 1000);
  DO(write(a, "x", 1));
  DO(lseek(b, 0, SEEK_CUR));
  int ends[2];
  NEED(pipe(ends) == 0);
  DO(dup2(ends[1], b));
  DO(write(b, "hello", 5));
  DO(read(ends[0], buffer, 100));
}

SCENARIO(dup2_onto_standard_streams, 0) {
  make_file("a", 10000);
  const int a = open("a", O_RDONLY);
  const int out = open("out", O_WRONLY | O_CREAT, 0600);
  const int kept = dup(1);
  DO(dup2(a, 0));
  NEED(dup2(out, 1) == 1 && dup2(out, 2) == 2);
  close(a);
  close(out);
  ssize_t got = read(0, buffer, 100);
  if (write(1, buffer, (size_t)got) != got) _exit(3);
  if (write(2, "error\n", 6) != 6) _exit(4);
  printf("stdio %d\n", getchar());
  fflush(stdout);
  NEED(dup2(kept, 1) == 1);
  say_file("out");
  DO(lseek(2, 0, SEEK_CUR));
}

SCENARIO(dup2_onto_high_numbers, 0) {
  make_file("a", 100000);
  set_limit(RLIMIT_NOFILE, 1024, 1024);
  const int fd = open("a", O_RDWR);
  if (read(fd, buffer, 5000) != 5000) say("first read");
  if (write(fd, "x", 1) != 1) say("first write");
  for (int to = 700; to < 1024; ++to) {
    if (dup2(fd, to) != to) say("dup2 onto %d: %s", to, strerrorname_np(errno));
    if (read(to, buffer, 10) != 10) say("read from %d: %s", to, strerrorname_np(errno));
    if (pwrite(to, "y", 1, to) != 1) say("write to %d: %s", to, strerrorname_np(errno));
  }
  DO(lseek(fd, 0, SEEK_CUR));
  DO(dup2(fd, 1024));
  for (int to = 700; to < 1024; ++to) {
    if (close(to) != 0) say("close %d: %s", to, strerrorname_np(errno));
  }
  DO(read(fd, buffer, 10));
  DO(write(fd, "z", 1));
}

SCENARIO(open_until_emfile, 0) {
  make_file("a", 1000);
  set_limit(RLIMIT_NOFILE, 256, 256);
  int last = -1;
  int count = 0;
  for (int fd; (fd = open("a", O_RDWR)) >= 0; ++count) {
    last = fd;
    if (write(fd, "x", 1) != 1) say("write to %d", fd);
    if (read(fd, buffer, 1) != 1) say("read from %d", fd);
  }
  say("%d opened, last %d, %s", count, last, strerrorname_np(errno));
  DO(dup(last));
  DO(fcntl(last, F_DUPFD, 3));
  int ends[2];
  DO(pipe(ends));
  DO(close(last));
  DO(pipe(ends));
  DO(open("a", O_RDONLY));
  DO(open("a", O_RDONLY));
}

SCENARIO(first_transfer_after_emfile, 0) {
  make_file("a", 200000);
  set_limit(RLIMIT_NOFILE, 64, 64);
  int fds[64];
  int count = 0;
  for (int fd; (fd = open("a", O_RDWR)) >= 0;) fds[count++] = fd;
  say("%d opened", count);
  for (int i = 0; i < count; ++i) {
    if (read(fds[i], buffer, 100000) != 100000) say("read from %d", fds[i]);
    if (write(fds[i], "x", 1) != 1) say("write to %d", fds[i]);
  }
}

SCENARIO(lower_nofile_limit_below_used, 0) {
  make_file("a", 100000);
  const int fd = open("a", O_RDWR);
  const int high = fcntl(fd, F_DUPFD, 200);
  DO(read(high, buffer, 100));
  set_limit(RLIMIT_NOFILE, 10, 10);
  DO(read(high, buffer, 50000));
  DO(write(high, "x", 1));
  DO(dup2(fd, 201));
  DO(fcntl(fd, F_DUPFD, 10));
  DO(pwrite(fd, "x", 1, 5));
  set_limit(RLIMIT_NOFILE, 0, 10);
  DO(read(fd, buffer, 50));
  DO(open("a", O_RDONLY));
  DO(close(high));
}

SCENARIO(descriptors_listed, kShape) {
  make_cold_file("a", 3 << 20);
  list_descriptors();
  const int fd = open("a", O_RDWR);
  say_rest(fd, 1 << 19);
  list_descriptors();
  DO(write(fd, "x", 1));
  list_descriptors();
  DO(close(fd));
  list_descriptors();
}

SCENARIO(lowest_number_is_used, 0) {
  make_file("a", 10000);
  int fds[20];
  for (int i = 0; i < 20; ++i) fds[i] = open("a", O_RDWR);
  for (int i = 0; i < 20; i += 3) DO(close(fds[i]));
  for (int i = 0; i < 7; ++i) {
    const int fd = (int)DO(open("a", O_RDWR));
    DO(write(fd, "xy", 2));
  }
  DO(close(0));
  DO(open("a", O_RDONLY));
  DO(read(0, buffer, 100));
}

SCENARIO(close_twice, 0) {
  make_file("a", 10000);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 10));
  DO(close(fd));
  DO(close(fd));
  DO(read(fd, buffer, 10));
  DO(write(fd, buffer, 10));
  DO(lseek(fd, 0, SEEK_CUR));
  DO(fsync(fd));
  DO(dup(fd));
  DO(close(-1));
}

SCENARIO(close_range_kinds, 0) {
  make_file("a", 10000);
  int fds[10];
  for (int i = 0; i < 10; ++i) fds[i] = open("a", O_RDWR);
  DO(read(fds[0], buffer, 10));
  DO(close_range((unsigned)fds[2], (unsigned)fds[4], 0));
  for (int i = 0; i < 10; ++i) DO(write(fds[i], "x", 1));
  DO(close_range((unsigned)fds[5], (unsigned)fds[6], CLOSE_RANGE_CLOEXEC));
  for (int i = 0; i < 10; ++i) DO(fcntl(fds[i], F_GETFD));
  DO(read(fds[5], buffer, 10));
  DO(close_range(9, 3, 0));
  DO(close_range(3, ~0u, 0));
  for (int i = 0; i < 10; ++i) DO(write(fds[i], "x", 1));
  const int fd = (int)DO(open("a", O_RDWR));
  DO(write(fd, "hello", 5));
  DO(read(fd, buffer, 5));
}

SCENARIO(close_range_unshare, 0) {
  make_file("a", 10000);
  const int fd = open("a", O_RDWR);
  DO(write(fd, "x", 1));
  DO(close_range(3, ~0u, CLOSE_RANGE_UNSHARE));
  DO(write(fd, "x", 1));
  const int again = (int)DO(open("a", O_RDWR));
  DO(write(again, "yz", 2));
}

SCENARIO(closefrom_kinds, 0) {
  make_file("a", 10000);
  const int fd = open("a", O_RDWR);
  DO(write(fd, "x", 1));
  closefrom(3);
  DO(write(fd, "x", 1));
  const int again = (int)DO(open("a", O_RDWR));
  DO(write(again, "yz", 2));
  DO(read(again, buffer, 2));
}

SCENARIO(close_all_by_loop, 0) {
  make_file("a", 3 << 20);
  const int fd = open("a", O_RDWR);
  DO(write(fd, "x", 1));
  DO(read(fd, buffer, 1 << 20));
  int closed = 0;
  for (int i = 3; i < 4096; ++i) closed += close(i) == 0;
  say("closed %d", closed);
  const int again = (int)DO(open("a", O_RDWR));
  DO(write(again, "yz", 2));
  DO(read(again, buffer, 1 << 20));
  say_rest(again, 100000);
}

SCENARIO(passed_by_socket, 0) {
  make_file("a", 10000);
  int pair[2];
  NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 100));
  char control[CMSG_SPACE(sizeof(int))] = {0};
  char byte = 'b';
  struct iovec part = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &fd, sizeof fd);
  DO(sendmsg(pair[0], &message, 0));
  DO(close(fd));
  DO(recvmsg(pair[1], &message, 0));
  int received = -1;
  memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof received);
  DO(read(received, buffer, 100));
  say_hash("data", buffer, 100);
  DO(write(received, "x", 1));
  DO(lseek(received, 0, SEEK_CUR));
}

SCENARIO(reopened_by_proc, 0) {
  make_file("a", 10000);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 100));
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const int again = open(path, O_RDWR);
  DO(lseek(again, 0, SEEK_CUR));
  DO(write(again, "x", 1));
  snprintf(path, sizeof path, "/dev/fd/%d", fd);
  const int third = open(path, O_RDONLY);
  DO(read(third, buffer, 5));
  DO(unlink("a"));
  DO(read(fd, buffer, 5));
  DO(write(fd, "x", 1));
  struct stat status;
  NEED(fstat(fd, &status) == 0);
  say("links %d, size %ld", (int)status.st_nlink, (long)status.st_size);
}
