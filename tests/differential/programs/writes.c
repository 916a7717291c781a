/* The writing calls, one at a time. */
#include "scenario.h"

SCENARIO(write_whole, 0) {
  const int fd = open("a", O_WRONLY | O_CREAT, 0640);
  for (int i = 0; i < 100; ++i) {
    fill(buffer, (uint64_t)i * 1000, 1000);
    if (write(fd, buffer, 1000) != 1000) say("write %d", i);
  }
  DO(lseek(fd, 0, SEEK_CUR));
  DO(close(fd));
}

SCENARIO(write_large, 0) {
  const int fd = open("a", O_WRONLY | O_CREAT, 0640);
  fill(buffer, 0, kBuffer);
  for (int i = 0; i < 4; ++i) DO(write(fd, buffer, kBuffer));
  DO(close(fd));
}

SCENARIO(pwrite_gaps, 0) {
  const int fd = open("a", O_RDWR | O_CREAT, 0600);
  fill(buffer, 0, 5000);
  for (int i = 20; i >= 0; i -= 3) {
    if (pwrite(fd, buffer, 5000, i * 10000) != 5000) say("pwrite %d", i);
  }
  DO(lseek(fd, 0, SEEK_CUR));
  DO(pwrite(fd, buffer, 10, -1));
  DO(pwrite(fd, buffer, 0, 1 << 20));
  DO(pwrite(fd, buffer, 10, INT64_MAX));
}

SCENARIO(writev_uneven, 0) {
  const int fd = open("a", O_RDWR | O_CREAT, 0600);
  fill(buffer, 0, 20000);
  struct iovec parts[4] = {{buffer, 1}, {buffer, 0}, {buffer + 10, 10000}, {buffer + 7, 33}};
  for (int i = 0; i < 10; ++i) DO(writev(fd, parts, 4));
  DO(pwritev(fd, parts, 4, 50));
  DO(pwritev(fd, parts, 4, -1));
  static struct iovec many[1025];
  DO(writev(fd, many, 1025));
  DO(writev(fd, parts, 0));
  DO(lseek(fd, 0, SEEK_CUR));
}

SCENARIO(pwritev2_flags, 0) {
  const int fd = open("a", O_RDWR | O_CREAT, 0600);
  fill(buffer, 0, 20000);
  struct iovec parts[2] = {{buffer, 100}, {buffer + 100, 300}};
  DO(pwritev2(fd, parts, 2, -1, 0));
  DO(pwritev2(fd, parts, 2, -1, RWF_DSYNC));
  DO(lseek(fd, 0, SEEK_CUR));
  DO(pwritev2(fd, parts, 2, 10, RWF_SYNC));
  DO(pwritev2(fd, parts, 2, 0, RWF_APPEND));
  DO(pwritev2(fd, parts, 2, -1, RWF_APPEND));
  DO(pwritev2(fd, parts, 2, 0, 0x40000000));
  DO(lseek(fd, 0, SEEK_CUR));
}

SCENARIO(write_append, 0) {
  make_file("a", 100);
  const int fd = open("a", O_RDWR | O_APPEND);
  DO(lseek(fd, 0, SEEK_CUR));
  DO(write(fd, "one", 3));
  DO(lseek(fd, 0, SEEK_CUR));
  DO(lseek(fd, 10, SEEK_SET));
  DO(read(fd, buffer, 5));
  DO(write(fd, "two", 3));
  DO(lseek(fd, 0, SEEK_CUR));
  /* Linux appends here, whatever POSIX says. */
  DO(pwrite(fd, "three", 5, 0));
  struct iovec part = {(void*)"four", 4};
  DO(pwritev(fd, &part, 1, 20));
  DO(lseek(fd, 0, SEEK_CUR));
}

SCENARIO(append_switched_by_fcntl, 0) {
  make_file("a", 100);
  const int fd = open("a", O_RDWR);
  const int twin = dup(fd);
  DO(write(fd, "one", 3));
  DO(fcntl(twin, F_SETFL, O_APPEND));
  DO(write(fd, "two", 3));
  DO(lseek(twin, 0, SEEK_CUR));
  DO(lseek(twin, 50, SEEK_SET));
  DO(fcntl(fd, F_SETFL, 0));
  DO(write(twin, "three", 5));
  DO(lseek(fd, 0, SEEK_CUR));
  DO(fcntl(fd, F_GETFL) & (O_APPEND | O_ACCMODE));
}

SCENARIO(write_errors, 0) {
  make_file("a", 100);
  const int reads = open("a", O_RDONLY);
  const int fd = open("a", O_RDWR);
  const int full = open("/dev/full", O_WRONLY);
  DO(write(reads, "x", 1));
  DO(write(-1, "x", 1));
  DO(pwrite(reads, "x", 1, 0));
  DO(write(fd, NULL, 10));
  DO(write(fd, NULL, 0));
  DO(write(full, "x", 1));
  DO(write(full, "x", 0));
  DO(write(open("a", O_PATH), "x", 1));
  DO(lseek(fd, 0, SEEK_CUR));
}

SCENARIO(write_from_edge_of_mapping, 0) {
  const int fd = open("a", O_RDWR | O_CREAT, 0600);
  char* pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  fill(pages, 0, 4096);
  NEED(mprotect(pages + 4096, 4096, PROT_NONE) == 0);
  DO(write(fd, pages + 3000, 3000));
  DO(lseek(fd, 0, SEEK_CUR));
  struct iovec parts[2] = {{pages, 1000}, {pages + 4096, 1000}};
  DO(writev(fd, parts, 2));
  DO(pwrite(fd, pages + 4000, 200, 9000));
  DO(lseek(fd, 0, SEEK_CUR));
}

SCENARIO(write_broken_pipe, 0) {
  int ends[2];
  NEED(pipe(ends) == 0);
  close(ends[0]);
  handle(SIGPIPE, SIG_IGN, 0);
  DO(write(ends[1], "x", 1));
  handle(SIGPIPE, SIG_DFL, 0);
  say("now the signal");
  DO(write(ends[1], "x", 1));
}

SCENARIO(write_and_sync, 0) {
  const int fd = open("a", O_RDWR | O_CREAT, 0600);
  fill(buffer, 0, 100000);
  for (int i = 0; i < 4; ++i) {
    DO(write(fd, buffer, 100000));
    DO(i % 2 == 0 ? fsync(fd) : fdatasync(fd));
    DO(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));
  }
  DO(sync_file_range(fd, -1, 0, 0));
  DO(fsync(-1));
  int ends[2];
  NEED(pipe(ends) == 0);
  DO(fsync(ends[1]));
  DO(fdatasync(ends[1]));
  DO(sync_file_range(ends[1], 0, 0, 0));
}

SCENARIO(write_o_sync, 0) {
  const int fd = open("a", O_RDWR | O_CREAT | O_SYNC, 0600);
  const int other = open("b", O_RDWR | O_CREAT | O_DSYNC, 0600);
  fill(buffer, 0, 10000);
  for (int i = 0; i < 5; ++i) {
    DO(write(fd, buffer, 10000));
    DO(write(other, buffer, 777));
  }
}

SCENARIO(truncate_between, 0) {
  make_file("a", 100000);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 50000));
  DO(ftruncate(fd, 20000));
  DO(read(fd, buffer, 50000));
  DO(write(fd, "beyond", 6));
  DO(truncate("a", 30));
  DO(lseek(fd, 0, SEEK_CUR));
  DO(pread(fd, buffer, 100, 0));
  say_hash("data", buffer, 30);
  DO(ftruncate(fd, 1000));
  DO(pread(fd, buffer, 5000, 0));
  say_hash("data", buffer, 1000);
  DO(ftruncate(fd, -1));
  DO(ftruncate(open("a", O_RDONLY), 1));
  close(open("a", O_WRONLY | O_TRUNC));
  DO(pread(fd, buffer, 5000, 0));
}

SCENARIO(fallocate_kinds, 0) {
  make_file("a", 100000);
  const int fd = open("a", O_RDWR);
  DO(fallocate(fd, 0, 0, 200000));
  DO(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 400000));
  DO(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 16384));
  DO(pread(fd, buffer, 100000, 0));
  say_hash("data", buffer, 100000);
  DO(posix_fallocate(fd, 0, 300000));
  DO(fallocate(fd, 0, -1, 5));
  DO(posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED));
  DO(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
  DO(posix_fadvise(fd, 0, 0, 77));
  say_rest(fd, 4096);
}

SCENARIO(write_direct, 0) {
  const int fd = open("a", O_RDWR | O_CREAT | O_DIRECT, 0600);
  if (fd < 0) {
    say("no O_DIRECT here");
    return;
  }
  char* aligned = aligned_alloc(4096, 1 << 17);
  fill(aligned, 0, 1 << 17);
  for (int i = 0; i < 4; ++i) DO(write(fd, aligned, 1 << 17));
  DO(pwrite(fd, aligned, 4096, 1 << 20));
  DO(pwrite(fd, aligned + 1, 4096, 0));
  DO(pwrite(fd, aligned, 100, 0));
  DO(lseek(fd, 0, SEEK_CUR));
  DO(pread(fd, aligned, 1 << 17, 0));
  say_hash("data", aligned, 1 << 17);
}

SCENARIO(direct_beside_buffered, 0) {
  make_file("a", 1 << 20);
  const int direct = open("a", O_RDWR | O_DIRECT);
  const int plain = open("a", O_RDWR);
  if (direct < 0) {
    say("no O_DIRECT here");
    return;
  }
  char* aligned = aligned_alloc(4096, 4096);
  for (int i = 0; i < 40; ++i) {
    memset(buffer, i, 4096);
    if (pwrite(plain, buffer, 4096, i * 8192) != 4096) say("pwrite %d", i);
    if (pread(direct, aligned, 4096, i * 8192) != 4096) say("pread %d", i);
    if (memcmp(aligned, buffer, 4096) != 0) say("direct read missed the write %d", i);
    memset(aligned, i + 100, 4096);
    if (pwrite(direct, aligned, 4096, i * 8192) != 4096) say("direct pwrite %d", i);
    if (pread(plain, buffer, 4096, i * 8192) != 4096) say("plain pread %d", i);
    if (memcmp(aligned, buffer, 4096) != 0) say("read missed the direct write %d", i);
  }
}

SCENARIO(write_clears_setuid, 0) {
  make_file("a", 100);
  NEED(chmod("a", 06755) == 0);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0) NEED(chown("a", 65534, 65534) == 0 && chmod("a", 06777) == 0);
    if (geteuid() == 0) NEED(setgid(65534) == 0 && setuid(65534) == 0);
    const int fd = open("a", O_WRONLY);
    DO(write(fd, "x", 1));
    _exit(0);
  }
  say_child(child);
  struct stat status;
  NEED(stat("a", &status) == 0);
  say("mode %o", status.st_mode);
}

SCENARIO(open_kinds, 0) {
  umask(022);
  DO(close(open("new", O_WRONLY | O_CREAT | O_EXCL, 0666)));
  DO(open("new", O_WRONLY | O_CREAT | O_EXCL, 0666));
  DO(open("none", O_RDONLY));
  DO(open("new/below", O_RDONLY));
  DO(open(".", O_WRONLY));
  DO(open("new", O_RDONLY | O_DIRECTORY));
  NEED(symlink("new", "link") == 0);
  DO(open("link", O_RDONLY | O_NOFOLLOW));
  const int fd = open("link", O_WRONLY | O_TRUNC | O_CLOEXEC);
  DO(fcntl(fd, F_GETFD));
  DO(write(fd, "abc", 3));
  DO(close(creat("created", 0600)));
  DO(close(open64("created64", O_RDWR | O_CREAT, 0604)));
  DO(openat(AT_FDCWD, "none", O_RDONLY));
  const int folder = open(".", O_RDONLY | O_DIRECTORY);
  DO(close(openat(folder, "inside", O_RDWR | O_CREAT, 0777)));
  DO(openat(fd, "inside", O_RDWR));
  DO(open(NULL, O_RDONLY));
  DO(open("", O_RDONLY));
}

SCENARIO(open_tmpfile, 0) {
  const int fd = open(".", O_RDWR | O_TMPFILE, 0640);
  if (fd < 0) {
    say("no O_TMPFILE here");
    return;
  }
  fill(buffer, 0, 10000);
  DO(write(fd, buffer, 10000));
  DO(pread(fd, buffer + 20000, 10000, 0));
  say_hash("data", buffer + 20000, 10000);
  char from[64];
  snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
  DO(linkat(AT_FDCWD, from, AT_FDCWD, "kept", AT_SYMLINK_FOLLOW));
  DO(write(fd, buffer, 10));
}

SCENARIO(open_path, 0) {
  make_file("a", 1000);
  const int fd = open("a", O_PATH);
  struct stat status;
  DO(fstat(fd, &status));
  DO(read(fd, buffer, 1));
  DO(lseek(fd, 0, SEEK_SET));
  DO(ftruncate(fd, 0));
  DO(fsync(fd));
  const int twin = dup(fd);
  DO(write(twin, "x", 1));
  char again[64];
  snprintf(again, sizeof again, "/proc/self/fd/%d", fd);
  const int reads = open(again, O_RDWR);
  DO(read(reads, buffer, 5000));
  DO(write(reads, "x", 1));
}

SCENARIO(sendfile_kinds, 0) {
  make_file("a", 200000);
  const int from = open("a", O_RDONLY);
  const int to = open("b", O_RDWR | O_CREAT, 0600);
  DO(sendfile(to, from, NULL, 50000));
  DO(lseek(from, 0, SEEK_CUR));
  off_t offset = 150000;
  DO(sendfile(to, from, &offset, 100000));
  say("offset %ld", (long)offset);
  DO(lseek(from, 0, SEEK_CUR));
  DO(lseek(to, 0, SEEK_CUR));
  DO(sendfile(to, -1, NULL, 10));
  DO(sendfile(from, to, NULL, 10));
  DO(sendfile(to, from, &offset, 10));
}

SCENARIO(copy_file_range_kinds, 0) {
  make_file("a", 200000);
  const int from = open("a", O_RDONLY);
  const int to = open("b", O_RDWR | O_CREAT, 0600);
  DO(copy_file_range(from, NULL, to, NULL, 50000, 0));
  off_t in = 190000;
  off_t out = 100000;
  DO(copy_file_range(from, &in, to, &out, 50000, 0));
  say("in %ld out %ld", (long)in, (long)out);
  DO(copy_file_range(from, NULL, to, NULL, 10, 1));
  DO(lseek(from, 0, SEEK_CUR));
  DO(lseek(to, 0, SEEK_CUR));
}

SCENARIO(splice_kinds, 0) {
  make_file("a", 200000);
  const int from = open("a", O_RDONLY);
  const int to = open("b", O_RDWR | O_CREAT, 0600);
  int ends[2];
  NEED(pipe(ends) == 0);
  for (int i = 0; i < 5; ++i) {
    DO(splice(from, NULL, ends[1], NULL, 4096, 0));
    DO(splice(ends[0], NULL, to, NULL, 4096, 0));
  }
  off_t in = 100000;
  DO(splice(from, &in, ends[1], NULL, 1000, SPLICE_F_MOVE));
  say("in %ld", (long)in);
  DO(splice(ends[0], NULL, to, NULL, 1000, 0));
  DO(splice(from, NULL, to, NULL, 10, 0));
  DO(lseek(from, 0, SEEK_CUR));
  DO(lseek(to, 0, SEEK_CUR));
  say_rest(from, 10000);
}

SCENARIO(stdio_beside_calls, 0) {
  make_file("a", 50000);
  FILE* stream = fopen("a", "r+");
  NEED(stream != NULL);
  DO(fread(buffer, 1, 100, stream));
  const int fd = fileno(stream);
  DO(lseek(fd, 0, SEEK_CUR));
  DO(read(fd, buffer + 100, 100));
  DO(fseek(stream, 200, SEEK_SET));
  DO(fwrite("stream", 1, 6, stream));
  DO(pwrite(fd, "call", 4, 300));
  DO(fflush(stream));
  DO(lseek(fd, 0, SEEK_CUR));
  DO(fclose(stream));
  DO(close(fd));
}

SCENARIO(fdopen_of_a_followed_file, 0) {
  make_file("a", 50000);
  const int fd = open("a", O_RDWR);
  DO(read(fd, buffer, 1000));
  FILE* stream = fdopen(fd, "r+");
  setvbuf(stream, NULL, _IOFBF, 4096);
  DO(fread(buffer, 1, 10, stream));
  say("%d %d", (unsigned char)buffer[0], (unsigned char)buffer[9]);
  DO(fseek(stream, 0, SEEK_END));
  DO(fprintf(stream, "more %d\n", 42));
  DO(fflush(stream));
  DO(write(fd, "raw", 3));
  DO(fclose(stream));
  DO(write(fd, "x", 1));
  FILE* again = freopen("a", "r", stdin);
  NEED(again != NULL);
  DO(fgetc(stdin) == (unsigned char)pattern(0));
  DO(fileno(stdin));
}
