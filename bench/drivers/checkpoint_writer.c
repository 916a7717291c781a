// A plain writer as people write them: files of chunks, and a computation before each chunk. It
// knows nothing of Ioweave.
//
// Usage: bench_checkpoint_writer FOLDER FILES MIB CHUNK_KIB PASSES HOW
//
// A pass is a chain of multiplications over the chunk, about 0.35 ms per MiB. One more than PASSES
// is made, since each fills the chunk anew.
// HOW: `sync`     a new file each time, synced and closed; only the last two are kept
//      `plain`    the same without a sync
//      `rename`   written under another name, synced and renamed over the file before
//      `again`    the same file from its beginning, not synced
//      `grow`     all in one file, synced each time
//      `append`   the same by two processes, with O_APPEND
//      `remove`   a new file each time, removed when it is complete, not synced
// Prints the result of the computation.

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

enum { kPathBytes = 4096 };

struct Work {
  const char* folder;
  const char* how;
  long files;
  size_t file_bytes;
  size_t chunk_bytes;
  long passes;
  unsigned char* chunk;
  uint64_t hash;
};

static void fail(const char* what) {
  fprintf(stderr, "checkpoint_writer: %s: %s\n", what, strerror(errno));
  exit(EXIT_FAILURE);
}

static void compute(struct Work* work) {
  for (long pass = 0; pass <= work->passes; ++pass) {
    for (size_t at = 0; at + sizeof(uint64_t) <= work->chunk_bytes; at += sizeof(uint64_t)) {
      uint64_t word;
      memcpy(&word, work->chunk + at, sizeof(word));
      work->hash = (work->hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
      memcpy(work->chunk + at, &work->hash, sizeof(word));
    }
  }
}

static void write_file(struct Work* work, int file) {
  for (size_t done = 0; done < work->file_bytes; done += work->chunk_bytes) {
    compute(work);
    for (size_t at = 0; at < work->chunk_bytes;) {
      const ssize_t count = write(file, work->chunk + at, work->chunk_bytes - at);
      if (count == -1) fail("write");
      at += (size_t)count;
    }
  }
}

static void path_of(const struct Work* work, long number, const char* ending, char* path) {
  if (snprintf(path, kPathBytes, "%s/%ld%s", work->folder, number, ending) >= kPathBytes) {
    errno = ENAMETOOLONG;
    fail(work->folder);
  }
}

static int open_file(const char* path, int flags) {
  const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
  if (file == -1) fail(path);
  return file;
}

static void write_one_file(struct Work* work, int flags) {
  char path[kPathBytes];
  path_of(work, 0, "", path);
  const int file = open_file(path, flags);
  for (long i = 0; i < work->files; ++i) {
    write_file(work, file);
    if (fsync(file) != 0) fail("fsync");
  }
  close(file);
}

static void write_files(struct Work* work) {
  const bool syncs = strcmp(work->how, "sync") == 0 || strcmp(work->how, "rename") == 0;
  const bool renames = strcmp(work->how, "rename") == 0;
  const bool again = strcmp(work->how, "again") == 0;
  const bool removes = strcmp(work->how, "remove") == 0;
  char path[kPathBytes];
  char other[kPathBytes];
  for (long i = 0; i < work->files; ++i) {
    path_of(work, again ? 0 : i, renames ? ".new" : "", path);
    const int file = open_file(path, again ? 0 : O_TRUNC);
    write_file(work, file);
    if (syncs && fsync(file) != 0) fail("fsync");
    close(file);
    path_of(work, renames ? 0 : i - 2, "", other);
    if (renames && rename(path, other) != 0) fail(other);
    if (removes && unlink(path) != 0) fail(path);
    if (!renames && !removes && !again && i >= 2 && unlink(other) != 0) fail(other);
  }
}

int main(int argc, char** argv) {
  struct Work work = {0};
  if (argc == 7) {
    work.folder = argv[1];
    work.files = strtol(argv[2], NULL, 10);
    work.file_bytes = strtoul(argv[3], NULL, 10) << 20;
    work.chunk_bytes = strtoul(argv[4], NULL, 10) << 10;
    work.passes = strtol(argv[5], NULL, 10);
    work.how = argv[6];
  }
  if (work.chunk_bytes == 0) {
    fprintf(stderr, "usage: checkpoint_writer FOLDER FILES MIB CHUNK_KIB PASSES HOW\n");
    return EXIT_FAILURE;
  }
  work.chunk = calloc(1, work.chunk_bytes);
  if (work.chunk == NULL) fail("calloc");
  if (strcmp(work.how, "grow") == 0) {
    write_one_file(&work, O_TRUNC);
  } else if (strcmp(work.how, "append") == 0) {
    const pid_t other = fork();
    if (other == -1) fail("fork");
    write_one_file(&work, O_APPEND);
    if (other == 0) {
      free(work.chunk);
      return EXIT_SUCCESS;
    }
    int status = 0;
    if (waitpid(other, &status, 0) != other || status != 0) fail("the other process");
  } else {
    write_files(&work);
  }
  free(work.chunk);
  printf("%" PRIx64 "\n", work.hash);
  return EXIT_SUCCESS;
}
