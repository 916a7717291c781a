// The access patterns of IOR (github.com/hpc/ior) without MPI: processes write and read their
// blocks in each segment of one shared file. It knows nothing of Ioweave, and has no line of IOR.
//
// Usage: bench_ior_patterns FILE TRANSFER BLOCK SEGMENTS PROCESSES WORD...
//
// TRANSFER and BLOCK are in bytes. A segment is a block of each process, one behind the other.
// Words are `random`, `direct` (O_DIRECT), `fsync` (before a writer closes, IOR's -e), `positioned`
// (pwrite and pread; otherwise lseek, write and read, which are IOR's calls) and phases, which
// follow one another:
//
// write    each process writes its transfers.
// read     each process reads its transfers, and compares the first bytes of each.
// verify   as read, and compares all bytes.
//
// In order, a process goes through its blocks from the first segment to the last. `random` deals
// all transfers of the file out in an order that is the same in each run.
//
// A line of JSON for each phase has IOR's times: from the first process that opens the file to the
// last that has closed it, and, of all processes, from the first beginning to the last end of
// opening, of transfers, and of closing with the sync. Process 0 starts each phase by a byte to
// every other process, and gets its times back, by pipes.

#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  kPageBytes = 4096,
  /// Transfers begin at one of so many pages of the pattern. A prime: transfers that are a power of
  /// two apart differ.
  kStarts = 17,
  kMostProcesses = 64,
};

struct Work {
  const char* path;
  size_t transfer_bytes;
  size_t block_bytes;
  uint64_t segments;
  uint64_t processes;
  bool is_random;
  bool is_direct;
  bool is_synced;
  bool is_positioned;
};

/// What a process holds.
struct Member {
  const struct Work* work;
  uint64_t rank;
  uint64_t transfers;  ///< Of this process.
  uint64_t* order;     ///< Their numbers in the file.
  char* pattern;       ///< A transfer and kStarts pages; shared by all until a stamp is written.
  char* room;          ///< What is read comes here.
};

struct Times {
  uint64_t opening_ns, opened_ns, moved_ns, closed_ns;
};

/// Both ends of process 0: it writes to `start` and reads from `times`.
struct Link {
  int start[2];
  int times[2];
};

static void fail(const char* what) {
  fprintf(stderr, "ior_patterns: %s: %s\n", what, strerror(errno));
  exit(EXIT_FAILURE);
}

static void complain(const char* what) {
  fprintf(stderr, "ior_patterns: %s\n", what);
  exit(EXIT_FAILURE);
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/// splitmix64.
static uint64_t next_random(uint64_t* state) {
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static char* aligned(size_t bytes) {
  void* room = NULL;
  errno = posix_memalign(&room, kPageBytes, bytes);
  if (errno != 0) fail("memory");
  return room;
}

// ---- What is in the file

static char* new_pattern(const struct Work* work) {
  const size_t bytes = work->transfer_bytes + (size_t)kStarts * kPageBytes;
  char* const pattern = aligned(bytes);
  uint64_t state = 1;
  for (size_t at = 0; at < bytes; at += sizeof(state)) {
    const uint64_t word = next_random(&state);
    memcpy(pattern + at, &word, sizeof(word));
  }
  return pattern;
}

/// Where the bytes of a transfer begin in the pattern. Its first eight are its stamp instead.
static char* bytes_of(const struct Member* member, uint64_t transfer) {
  return member->pattern + transfer % kStarts * kPageBytes;
}

static uint64_t stamp_of(uint64_t transfer) {
  return ~transfer;
}

static bool has_stamp(const char* room, uint64_t transfer) {
  const uint64_t stamp = stamp_of(transfer);
  return memcmp(room, &stamp, sizeof(stamp)) == 0;
}

static bool is_whole(const struct Member* member, uint64_t transfer) {
  const size_t stamp_bytes = sizeof(uint64_t);
  return has_stamp(member->room, transfer) &&
         memcmp(member->room + stamp_bytes, bytes_of(member, transfer) + stamp_bytes,
                member->work->transfer_bytes - stamp_bytes) == 0;
}

// ---- Which transfers are a process's

static void put_in_order(struct Member* member) {
  const struct Work* const work = member->work;
  const uint64_t in_block = work->block_bytes / work->transfer_bytes;
  uint64_t* next = member->order;
  for (uint64_t segment = 0; segment < work->segments; ++segment) {
    const uint64_t first = (segment * work->processes + member->rank) * in_block;
    for (uint64_t i = 0; i < in_block; ++i) *next++ = first + i;
  }
}

static void shuffle(struct Member* member) {
  const uint64_t all = member->transfers * member->work->processes;
  uint64_t* const order = calloc(all, sizeof(uint64_t));
  if (order == NULL) fail("memory");
  uint64_t state = 2;
  for (uint64_t i = 0; i < all; ++i) {
    const uint64_t other = next_random(&state) % (i + 1);
    order[i] = order[other];
    order[other] = i;
  }
  memcpy(member->order, order + member->rank * member->transfers,
         member->transfers * sizeof(uint64_t));
  free(order);
}

static void plan(struct Member* member) {
  const struct Work* const work = member->work;
  member->transfers = work->block_bytes / work->transfer_bytes * work->segments;
  member->order = calloc(member->transfers, sizeof(uint64_t));
  if (member->order == NULL) fail("memory");
  if (work->is_random) {
    shuffle(member);
  } else {
    put_in_order(member);
  }
}

// ---- Transfers

/// Goes on after a short one, as IOR does.
static void move(const struct Work* work, int file, bool is_write, char* at, uint64_t transfer) {
  off_t offset = (off_t)(transfer * work->transfer_bytes);
  size_t left = work->transfer_bytes;
  if (!work->is_positioned && lseek(file, offset, SEEK_SET) != offset) fail("lseek");
  while (left > 0) {
    ssize_t done = 0;
    if (work->is_positioned) {
      done = is_write ? pwrite(file, at, left, offset) : pread(file, at, left, offset);
    } else {
      done = is_write ? write(file, at, left) : read(file, at, left);
    }
    if (done < 0) fail(is_write ? "write" : "read");
    if (done == 0) complain("the file is too short");
    at += done;
    left -= (size_t)done;
    offset += done;
  }
}

/// The bytes below the stamp are put back: other transfers have them further behind.
static void write_all(const struct Member* member, int file) {
  for (uint64_t i = 0; i < member->transfers; ++i) {
    const uint64_t transfer = member->order[i];
    char* const bytes = bytes_of(member, transfer);
    const uint64_t stamp = stamp_of(transfer);
    uint64_t kept = 0;
    memcpy(&kept, bytes, sizeof(kept));
    memcpy(bytes, &stamp, sizeof(stamp));
    move(member->work, file, true, bytes, transfer);
    memcpy(bytes, &kept, sizeof(kept));
  }
}

static void read_all(const struct Member* member, int file, bool compares_all) {
  for (uint64_t i = 0; i < member->transfers; ++i) {
    const uint64_t transfer = member->order[i];
    move(member->work, file, false, member->room, transfer);
    if (!has_stamp(member->room, transfer) || (compares_all && !is_whole(member, transfer))) {
      fprintf(stderr, "ior_patterns: transfer %" PRIu64 " has other bytes than were written\n",
              transfer);
      exit(EXIT_FAILURE);
    }
  }
}

static struct Times run_phase(const struct Member* member, const char* phase) {
  const struct Work* const work = member->work;
  const bool is_write = strcmp(phase, "write") == 0;
  const int flags = (is_write ? O_RDWR | O_CREAT : O_RDONLY) | (work->is_direct ? O_DIRECT : 0);
  struct Times times;
  times.opening_ns = now_ns();
  const int file = open(work->path, flags, 0644);
  if (file < 0) fail(work->path);
  times.opened_ns = now_ns();
  if (is_write) {
    write_all(member, file);
  } else {
    read_all(member, file, strcmp(phase, "verify") == 0);
  }
  times.moved_ns = now_ns();
  if (is_write && work->is_synced && fsync(file) != 0) fail("fsync");
  if (close(file) != 0) fail("close");
  times.closed_ns = now_ns();
  return times;
}

// ---- Processes

static uint64_t earlier(uint64_t one, uint64_t other) {
  return one < other ? one : other;
}
static uint64_t later(uint64_t one, uint64_t other) {
  return one > other ? one : other;
}

static void print_phase(const struct Work* work, const char* phase, const struct Times* times) {
  // First beginnings and last ends of opening, of transfers, and of closing.
  struct Times first = times[0];
  struct Times last = times[0];
  for (uint64_t rank = 1; rank < work->processes; ++rank) {
    first.opening_ns = earlier(first.opening_ns, times[rank].opening_ns);
    first.opened_ns = earlier(first.opened_ns, times[rank].opened_ns);
    first.moved_ns = earlier(first.moved_ns, times[rank].moved_ns);
    last.opened_ns = later(last.opened_ns, times[rank].opened_ns);
    last.moved_ns = later(last.moved_ns, times[rank].moved_ns);
    last.closed_ns = later(last.closed_ns, times[rank].closed_ns);
  }
  printf("{\"phase\": \"%s\", \"bytes\": %" PRIu64
         ", \"open_s\": %.9f, \"transfer_s\": %.9f, \"close_s\": %.9f, \"total_s\": %.9f}\n",
         phase, (uint64_t)work->block_bytes * work->segments * work->processes,
         (double)(last.opened_ns - first.opening_ns) / 1e9,
         (double)(last.moved_ns - first.opened_ns) / 1e9,
         (double)(last.closed_ns - first.moved_ns) / 1e9,
         (double)(last.closed_ns - first.opening_ns) / 1e9);
}

/// Reads all of it, and ends where the other process has ended.
static void expect(int pipe, void* what, size_t bytes) {
  if (read(pipe, what, bytes) != (ssize_t)bytes) complain("another process has failed");
}

static void tell(int pipe, const void* what, size_t bytes) {
  if (write(pipe, what, bytes) != (ssize_t)bytes) fail("pipe");
}

/// Waits until all are there, starts them, and prints their times: all that process 0 does.
static void lead(const struct Member* member, const struct Link* links, char** phases) {
  const uint64_t processes = member->work->processes;
  struct Times times[kMostProcesses] = {0};
  char byte = 0;
  for (char** phase = phases; *phase != NULL; ++phase) {
    for (uint64_t rank = 1; rank < processes; ++rank) expect(links[rank].times[0], &byte, 1);
    for (uint64_t rank = 1; rank < processes; ++rank) tell(links[rank].start[1], &byte, 1);
    times[0] = run_phase(member, *phase);
    for (uint64_t rank = 1; rank < processes; ++rank) {
      expect(links[rank].times[0], &times[rank], sizeof(times[rank]));
    }
    print_phase(member->work, *phase, times);
  }
}

static void follow(const struct Member* member, const struct Link* link, char** phases) {
  char byte = 0;
  for (char** phase = phases; *phase != NULL; ++phase) {
    tell(link->times[1], &byte, 1);
    expect(link->start[0], &byte, 1);
    const struct Times times = run_phase(member, *phase);
    tell(link->times[1], &times, sizeof(times));
  }
}

/// Memory is touched before anything is timed.
static void prepare(struct Member* member) {
  plan(member);
  member->room = aligned(member->work->transfer_bytes);
  memset(member->room, 0xff, member->work->transfer_bytes);
}

static void release(struct Member* member) {
  free(member->order);
  free(member->pattern);
  free(member->room);
}

static void run(const struct Work* work, char** phases) {
  struct Member member = {.work = work, .pattern = new_pattern(work)};
  struct Link links[kMostProcesses] = {0};
  for (uint64_t rank = 1; rank < work->processes; ++rank) {
    if (pipe(links[rank].start) != 0 || pipe(links[rank].times) != 0) fail("pipe");
    const pid_t child = fork();
    if (child < 0) fail("fork");
    if (child == 0) {
      // Without the ends of process 0: whoever waits for it sees that it has ended.
      for (uint64_t each = 1; each <= rank; ++each) {
        close(links[each].start[1]);
        close(links[each].times[0]);
      }
      member.rank = rank;
      prepare(&member);
      follow(&member, &links[rank], phases);
      release(&member);
      exit(EXIT_SUCCESS);
    }
    close(links[rank].start[0]);
    close(links[rank].times[1]);
  }
  prepare(&member);
  lead(&member, links, phases);
  release(&member);
  for (uint64_t rank = 1; rank < work->processes; ++rank) {
    int status = 0;
    if (wait(&status) < 0 || status != 0) complain("a process has failed");
  }
}

// ---- The command line

static uint64_t number(const char* text) {
  char* end = NULL;
  errno = 0;
  const uint64_t value = strtoull(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || value == 0) complain("not a number above 0");
  return value;
}

static bool take_word(struct Work* work, const char* word) {
  if (strcmp(word, "random") == 0) return work->is_random = true;
  if (strcmp(word, "direct") == 0) return work->is_direct = true;
  if (strcmp(word, "fsync") == 0) return work->is_synced = true;
  if (strcmp(word, "positioned") == 0) return work->is_positioned = true;
  return false;
}

static bool is_phase(const char* word) {
  return strcmp(word, "write") == 0 || strcmp(word, "read") == 0 || strcmp(word, "verify") == 0;
}

int main(int count, char** words) {
  if (count < 7) {
    complain(
        "usage: bench_ior_patterns FILE TRANSFER BLOCK SEGMENTS PROCESSES "
        "[random] [direct] [fsync] [positioned] write|read|verify...");
  }
  struct Work work = {.path = words[1],
                      .transfer_bytes = number(words[2]),
                      .block_bytes = number(words[3]),
                      .segments = number(words[4]),
                      .processes = number(words[5])};
  // Phases move to the front of the words that are left; behind them is a null pointer.
  char** next_phase = words + 6;
  for (char** word = words + 6; *word != NULL; ++word) {
    if (is_phase(*word)) {
      *next_phase++ = *word;
    } else if (!take_word(&work, *word)) {
      complain("an unknown word");
    }
  }
  *next_phase = NULL;
  if (work.transfer_bytes % kPageBytes != 0) complain("transfers are of whole pages");
  if (work.block_bytes % work.transfer_bytes != 0) complain("a block is of whole transfers");
  if (work.processes > kMostProcesses) complain("too many processes");
  run(&work, words + 6);
  return EXIT_SUCCESS;
}
