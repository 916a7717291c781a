/* The reading calls, one at a time. */
#include <limits.h>

#include "scenario.h"

SCENARIO(read_whole, 0) {
  make_file("a", 300001);
  const int fd = open("a", O_RDONLY);
  say_rest(fd, 4096);
  DO(read(fd, buffer, 10));
  DO(lseek(fd, 0, SEEK_CUR));
  DO(close(fd));
}

SCENARIO(read_cold_in_chunks, 0) {
  make_cold_file("a", 6 << 20);
  const int fd = open("a", O_RDONLY);
  say_rest(fd, 1 << 20);
  make_cold_file("b", 6 << 20);
  const int small = open("b", O_RDONLY);
  say_rest(small, 10007);
}

SCENARIO(read_odd_sizes, 0) {
  make_file("a", 100000);
  const int fd = open("a", O_RDONLY);
  const size_t sizes[] = {1, 0, 4095, 4096, 4097, 1, 65536, 65536, 65536};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    const ssize_t got = read(fd, buffer, sizes[i]);
    say("%zu -> %zd", sizes[i], got);
    say_hash("data", buffer, got > 0 ? (size_t)got : 0);
  }
}

SCENARIO(pread_backwards, 0) {
  make_cold_file("a", 3 << 20);
  const int fd = open("a", O_RDONLY);
  for (int at = (3 << 20) - 65536; at >= 0; at -= 65536) {
    if (pread(fd, buffer, 65536, at) != 65536) say("short at %d", at);
    if (buffer[7] != pattern((uint64_t)at + 7)) say("wrong at %d", at);
  }
  DO(lseek(fd, 0, SEEK_CUR));
  DO(pread(fd, buffer, 100, 3 << 20));
  DO(pread(fd, buffer, 100, (3 << 20) - 50));
  DO(pread(fd, buffer, 100, -1));
  DO(pread(fd, buffer, 100, INT64_MAX));
}

SCENARIO(readv_uneven, 0) {
  make_file("a", 70000);
  const int fd = open("a", O_RDONLY);
  struct iovec parts[4] = {{buffer, 1}, {buffer + 10, 0}, {buffer + 20, 4096}, {buffer + 9000, 77}};
  for (int i = 0; i < 18; ++i) {
    const ssize_t got = readv(fd, parts, 4);
    say("readv %zd", got);
    say_hash("data", buffer, 9100);
  }
  DO(readv(fd, parts, 0));
  DO(readv(fd, parts, -1));
  static struct iovec many[1025];
  DO(readv(fd, many, 1025));
  DO(readv(fd, NULL, 2));
}

SCENARIO(preadv_edges, 0) {
  make_file("a", 70000);
  const int fd = open("a", O_RDONLY);
  struct iovec parts[2] = {{buffer, 100}, {buffer + 100, 200}};
  DO(preadv(fd, parts, 2, 69900));
  say_hash("data", buffer, 300);
  DO(preadv(fd, parts, 2, 70000));
  DO(preadv(fd, parts, 2, -1));
  DO(preadv(fd, parts, 2, -2));
  parts[1].iov_len = (size_t)-1;
  DO(preadv(fd, parts, 2, 0));
  DO(lseek(fd, 0, SEEK_CUR));
}

SCENARIO(preadv2_flags, 0) {
  make_file("a", 70000);
  const int fd = open("a", O_RDONLY);
  struct iovec parts[2] = {{buffer, 100}, {buffer + 100, 200}};
  DO(preadv2(fd, parts, 2, -1, 0));
  DO(preadv2(fd, parts, 2, -1, 0));
  DO(lseek(fd, 0, SEEK_CUR));
  DO(preadv2(fd, parts, 2, 4, RWF_HIPRI));
  DO(preadv2(fd, parts, 2, 4, RWF_NOWAIT));
  DO(preadv2(fd, parts, 2, 4, 0x40000000));
  DO(preadv2(fd, parts, 2, 4, RWF_APPEND));
  DO(preadv2(fd, parts, 2, -2, 0));
  say_hash("data", buffer, 300);
}

SCENARIO(read_errors, 0) {
  make_file("a", 1000);
  const int writes = open("a", O_WRONLY);
  const int reads = open("a", O_RDONLY);
  const int folder = open(".", O_RDONLY);
  const int path = open("a", O_PATH);
  DO(read(writes, buffer, 10));
  DO(pread(writes, buffer, 10, 0));
  DO(read(folder, buffer, 10));
  DO(read(path, buffer, 10));
  DO(read(-1, buffer, 10));
  DO(read(1000000, buffer, 10));
  DO(read(reads, NULL, 10));
  DO(read(reads, NULL, 0));
  DO(pread(reads, (char*)8, 10, 3));
  DO(read(reads, buffer, (size_t)-1));
  DO(lseek(reads, 0, SEEK_CUR));
  DO(read(reads, buffer, 10));
}

SCENARIO(read_into_edge_of_mapping, 0) {
  make_file("a", 100000);
  const int fd = open("a", O_RDONLY);
  char* pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  NEED(mprotect(pages + 4096, 4096, PROT_NONE) == 0);
  DO(read(fd, pages + 3000, 5000));
  say_hash("data", pages, 4096);
  DO(lseek(fd, 0, SEEK_CUR));
  DO(pread(fd, pages + 4096, 10, 0));
  struct iovec parts[2] = {{pages, 100}, {pages + 4096, 100}};
  DO(readv(fd, parts, 2));
  DO(lseek(fd, 0, SEEK_CUR));
}

SCENARIO(read_past_end_that_grows, 0) {
  make_file("a", 5000);
  const int reads = open("a", O_RDONLY);
  const int writes = open("a", O_WRONLY | O_APPEND);
  say_rest(reads, 4096);
  for (int i = 0; i < 20; ++i) {
    fill(buffer, (uint64_t)i, 3000);
    NEED(write(writes, buffer, 3000) == 3000);
    say_rest(reads, 1000);
  }
}

SCENARIO(read_holes, 0) {
  const int fd = open("a", O_RDWR | O_CREAT, 0600);
  DO(ftruncate(fd, 5 << 20));
  DO(pwrite(fd, "data", 4, 3 << 20));
  say_rest(fd, 100000);
  DO(lseek(fd, 0, SEEK_DATA));
  DO(lseek(fd, 0, SEEK_HOLE));
  DO(lseek(fd, 5 << 20, SEEK_DATA));
}

SCENARIO(read_special_files, 0) {
  const int zero = open("/dev/zero", O_RDONLY);
  const int null = open("/dev/null", O_RDWR);
  DO(read(zero, buffer, 5000));
  say_hash("zero", buffer, 5000);
  DO(read(null, buffer, 5000));
  DO(write(null, buffer, 5000));
  DO(pread(null, buffer, 5000, 10));
  const int proc = open("/proc/self/comm", O_RDONLY);
  const long got = DO(read(proc, buffer, 100));
  say_hash("comm", buffer, got > 0 ? (size_t)got : 0);
  DO(read(proc, buffer, 100));
  DO(lseek(proc, 0, SEEK_SET));
  DO(read(proc, buffer, 3));
}

SCENARIO(read_fifo_and_socket, 0) {
  NEED(mkfifo("f", 0600) == 0);
  const int both = open("f", O_RDWR);
  DO(write(both, "hello", 5));
  DO(read(both, buffer, 100));
  DO(pread(both, buffer, 100, 0));
  DO(lseek(both, 0, SEEK_SET));
  int pair[2];
  NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  DO(write(pair[0], "hello", 5));
  DO(read(pair[1], buffer, 3));
  DO(read(pair[1], buffer, 3));
  NEED(fcntl(both, F_SETFL, O_NONBLOCK) == 0);
  DO(read(both, buffer, 1));
  close(pair[0]);
  DO(read(pair[1], buffer, 3));
}

SCENARIO(lseek_kinds, 0) {
  make_file("a", 10000);
  const int fd = open("a", O_RDONLY);
  DO(lseek(fd, 100, SEEK_SET));
  DO(read(fd, buffer, 10));
  DO(lseek(fd, 5, SEEK_CUR));
  DO(read(fd, buffer, 10));
  DO(lseek(fd, -10, SEEK_END));
  DO(read(fd, buffer, 100));
  DO(lseek(fd, 10, SEEK_END));
  DO(read(fd, buffer, 100));
  DO(lseek(fd, -1, SEEK_SET));
  DO(lseek(fd, 0, 99));
  DO(lseek(fd, INT64_MAX, SEEK_SET));
  DO(lseek(fd, 0, SEEK_CUR));
}

SCENARIO(read_direct, 0) {
  make_file("a", 1 << 20);
  const int fd = open("a", O_RDONLY | O_DIRECT);
  if (fd < 0) {
    say("no O_DIRECT here");
    return;
  }
  char* aligned = aligned_alloc(4096, 1 << 17);
  for (int i = 0; i < 9; ++i) {
    const ssize_t got = read(fd, aligned, 1 << 17);
    say("%zd", got);
    say_hash("data", aligned, got > 0 ? (size_t)got : 0);
  }
  DO(pread(fd, aligned, 4096, 4096));
  say_hash("data", aligned, 4096);
  DO(pread(fd, aligned + 1, 4096, 4096));
  DO(pread(fd, aligned, 100, 4096));
  DO(pread(fd, aligned, 4096, 3));
  DO(lseek(fd, 0, SEEK_CUR));
  NEED(fcntl(fd, F_SETFL, 0) == 0);
  DO(pread(fd, aligned, 100, 3));
}

/* Returns memory of whole large pages, all of it there, or ends the process. */
static char* large_memory(size_t bytes) {
  const size_t large = 2 << 20;
  char* const mapped =
      mmap(NULL, bytes + large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  NEED(mapped != MAP_FAILED);
  char* const aligned = (char*)(((uintptr_t)mapped + large - 1) & ~(uintptr_t)(large - 1));
  memset(aligned, 1, bytes);
  return aligned;
}

/* Buffers that are used again and again, in memory that a child shares and that is mapped anew. */
SCENARIO(direct_with_large_buffers, 0) {
  enum { kBytes = 8 << 20, kPart = 2 << 20 };
  make_file("a", kBytes);
  const int fd = open("a", O_RDWR | O_DIRECT);
  if (fd < 0) {
    say("no O_DIRECT here");
    return;
  }
  char* const memory = large_memory(kBytes);
  for (int i = 0; i < 4; ++i) {
    DO(pread(fd, memory, kBytes, 0));
    say_hash("all", memory, kBytes);
    memset(memory + i * kPart / 2, i, kPart);
    DO(pwrite(fd, memory, kBytes, 0));
    for (int part = 0; part < 16; ++part)
      if (pread(fd, memory + part * kPart / 4, kPart / 4, part * kPart / 4) != kPart / 4)
        say("part %d is short", part);
    say_hash("parts", memory, kBytes);
  }
  const pid_t child = fork();
  if (child == 0) {
    memset(memory, 77, kPart);
    DO(pwrite(fd, memory, kPart, 0));
    DO(pread(fd, memory + kPart, kPart, 0));
    say_hash("child", memory, kBytes);
    _exit(0);
  }
  say_child(child);
  say_hash("parent", memory, kBytes);
  NEED(munmap(memory + kPart, kPart) == 0);
  NEED(mmap(memory + kPart, kPart, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
            -1, 0) == memory + kPart);
  for (int i = 0; i < 3; ++i) DO(pread(fd, memory, kBytes, 0));
  say_hash("mapped anew", memory, kBytes);
  NEED(madvise(memory + kPart, kPart, MADV_DONTNEED) == 0);
  NEED(madvise(memory + kPart / 2, 4096, MADV_DONTNEED) == 0);
  say_hash("given back", memory, kBytes);
  for (int i = 0; i < 3; ++i) DO(pwrite(fd, memory, kBytes, 0));
  say_file("a");
}

/* What cannot be written to: the answer, and the position after it. */
SCENARIO(read_direct_into_bad_memory, 0) {
  make_file("a", 1 << 20);
  const int fd = open("a", O_RDONLY | O_DIRECT);
  if (fd < 0) {
    say("no O_DIRECT here");
    return;
  }
  char* const memory = large_memory(2 << 20);
  NEED(mprotect(memory + (128 << 10), 4096, PROT_READ) == 0);
  for (int i = 0; i < 3; ++i) {
    DO(read(fd, memory + (128 << 10), 65536));
    DO(lseek(fd, 0, SEEK_CUR));
    DO(pread(fd, memory + (128 << 10), 65536, 65536));
    DO(read(fd, (char*)4096, 65536));
    DO(lseek(fd, 0, SEEK_CUR));
    DO(pread(fd, memory, SSIZE_MAX, 0));
    DO(pread(fd, memory, 1L << 40, 0));
    DO(pread(fd, memory + (96 << 10), 65536, 0));
    DO(read(fd, memory, 65536));
    say_hash("data", memory, 65536);
    DO(lseek(fd, 0, SEEK_CUR));
    DO(read(fd, memory + 512, 65536));
    DO(lseek(fd, 0, SEEK_CUR));
  }
  DO(lseek(fd, (1 << 20) - 8192, SEEK_SET));
  DO(read(fd, memory, 65536));
  DO(read(fd, memory, 65536));
}

/* Behind the last byte the kernel fills the buffer to the end of a block. */
SCENARIO(read_direct_to_the_end, 0) {
  make_file("a", 300700);
  const int fd = open("a", O_RDONLY | O_DIRECT);
  if (fd < 0) {
    say("no O_DIRECT here");
    return;
  }
  char* const memory = large_memory(2 << 20);
  for (int i = 0; i < 4; ++i) {
    DO(lseek(fd, 0, SEEK_SET));
    for (int j = 0; j < 6; ++j) {
      memset(memory, 'a' + j, 65536);
      DO(read(fd, memory, 65536));
      say_hash("all of it", memory, 65536);
    }
    DO(pread(fd, memory, 65536, 270336));
    say_hash("all of it", memory, 65536);
    DO(lseek(fd, 0, SEEK_CUR));
  }
}

SCENARIO(mmap_beside_read, 0) {
  make_file("a", 1 << 20);
  const int fd = open("a", O_RDWR);
  char* map = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  NEED(map != MAP_FAILED);
  for (int i = 0; i < 64; ++i) {
    map[i * 16384 + 5] = (char)i;
    const ssize_t got = pread(fd, buffer, 16384, i * 16384);
    if (got != 16384 || buffer[5] != (char)i) say("read missed the mapping's byte %d", i);
    buffer[9] = (char)(i + 1);
    if (pwrite(fd, buffer, 16384, i * 16384) != 16384) say("pwrite %d", i);
    if (map[i * 16384 + 9] != (char)(i + 1)) say("the mapping missed a byte %d", i);
  }
  say_hash("map", map, 1 << 20);
  /* From a mapping of the file into the file. */
  DO(pwrite(fd, map, 1 << 19, 1 << 19));
  DO(pread(fd, map, 4096, 8192));
  say_hash("map", map, 1 << 20);
  DO(munmap(map, 1 << 20));
}
