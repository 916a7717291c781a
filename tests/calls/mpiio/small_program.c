/*
 * Small MPI programs that know nothing of Ioweave.
 *
 * small_program blocks FILE COUNT   reads so many blocks of 64 KiB in order, and says what became
 *                                   of each that failed
 * small_program left FOLDER         does what the library leaves to MPI alone
 * small_program write FILE COUNT sync|close|exit
 *                                   writes so many blocks to a new file, then syncs and closes it,
 *                                   or closes it, or exits; says what failed
 * small_program lose FILE COUNT unlink|delete|replace
 *                                   reads and writes a file that loses its name meanwhile
 * small_program map FILE COUNT      the same beside a memory map of the file
 *
 * Several may stand behind each other.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBlock = 64 << 10, kPieces = 5000, kPieceBytes = 8192 };

static char buffer[kBlock];

static const char* class_of(int error) {
  int class = -1;
  if (MPI_Error_class(error, &class) != MPI_SUCCESS) {
    return "unknown";
  }
  return class == MPI_ERR_IO ? "IO" : class == MPI_ERR_NO_SPACE ? "NO_SPACE" : "another";
}

static void note(const char* what, int number, int error) {
  if (error != MPI_SUCCESS) {
    printf("%s %d: class %s\n", what, number, class_of(error));
  }
}

static void note_handled(MPI_File* file, int* error, ...) {
  (void)file;
  printf("handled: class %s\n", class_of(*error));
}

static MPI_File open_file(const char* folder, const char* name, int mode) {
  char path[4096];
  snprintf(path, sizeof path, "%s%s", folder, name);
  MPI_File file = MPI_FILE_NULL;
  if (MPI_File_open(MPI_COMM_SELF, path, mode, MPI_INFO_NULL, &file) != MPI_SUCCESS) {
    fprintf(stderr, "cannot open %s\n", path);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  return file;
}

static unsigned long add_block(unsigned long sum, const char* block) {
  for (int i = 0; i < kBlock; ++i) {
    sum = sum * 31 + (unsigned char)block[i];
  }
  return sum;
}

static unsigned long add_read(unsigned long sum, MPI_File file, int block) {
  memset(buffer, 0, kBlock);
  note("read", block,
       MPI_File_read_at(file, (MPI_Offset)block * kBlock, buffer, kBlock, MPI_BYTE,
                        MPI_STATUS_IGNORE));
  return add_block(sum, buffer);
}

/* The block's bytes are gone from memory afterwards. */
static int write_block(MPI_File file, int block, int value) {
  memset(buffer, value, kBlock);
  const int error = MPI_File_write_at(file, (MPI_Offset)block * kBlock, buffer, kBlock, MPI_BYTE,
                                      MPI_STATUS_IGNORE);
  memset(buffer, 0, kBlock);
  return error;
}

static void read_blocks(const char* path, int count) {
  MPI_File file = open_file(path, "", MPI_MODE_RDONLY);
  unsigned long sum = 0;
  for (int i = 0; i < count; ++i) {
    const int error =
        MPI_File_read_at(file, (MPI_Offset)i * kBlock, buffer, kBlock, MPI_BYTE, MPI_STATUS_IGNORE);
    note("block", i, error);
    sum = error == MPI_SUCCESS ? add_block(sum, buffer) : sum;
  }
  printf("sum %lx\n", sum);
  MPI_File_close(&file);
}

static void do_what_is_left(const char* folder) {
  MPI_File file = open_file(folder, "/other", MPI_MODE_CREATE | MPI_MODE_WRONLY);
  MPI_File_write_at(file, 0, buffer, kBlock, MPI_BYTE, MPI_STATUS_IGNORE);
  MPI_File_close(&file);

  file = open_file("", "/dev/shm/ioweave-small-program",
                   MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
  MPI_File_close(&file);

  file = open_file(folder, "/data", MPI_MODE_RDONLY);
  for (int i = 0; i < 3; ++i) {
    MPI_File_read_shared(file, buffer, 10, MPI_BYTE, MPI_STATUS_IGNORE);
  }
  /* Pieces too far apart to be read as one, in tiles of more of them than are asked for. */
  MPI_Datatype type;
  MPI_Type_vector(kPieces, 1, kPieceBytes, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  MPI_File_set_view(file, 0, MPI_BYTE, type, "native", MPI_INFO_NULL);
  MPI_Type_free(&type);
  for (int i = 0; i < 8; ++i) {
    MPI_File_read(file, buffer, 4, MPI_BYTE, MPI_STATUS_IGNORE);
  }
  /* And in tiles that are known, reads of more than are read ahead of one read. */
  MPI_Type_vector(2, 1, kPieceBytes, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  MPI_File_set_view(file, 0, MPI_BYTE, type, "native", MPI_INFO_NULL);
  MPI_Type_free(&type);
  for (int i = 0; i < 3; ++i) {
    MPI_File_read(file, buffer, kPieces, MPI_BYTE, MPI_STATUS_IGNORE);
  }
  MPI_File_close(&file);
}

static void write_blocks(const char* path, int count, const char* end) {
  MPI_File file = open_file(path, "", MPI_MODE_CREATE | MPI_MODE_RDWR);
  MPI_Errhandler handler;
  MPI_File_create_errhandler(note_handled, &handler);
  MPI_File_set_errhandler(file, handler);
  printf("%s\n", end);
  for (int i = 0; i < count; ++i) {
    note("write", i, write_block(file, i, i + 1));
  }
  if (strcmp(end, "exit") == 0) {
    exit(0);
  }
  if (strcmp(end, "sync") == 0) {
    note("sync", 1, MPI_File_sync(file));
    note("sync", 2, MPI_File_sync(file));
    note("write", 0, write_block(file, 0, 99));
    note("sync", 3, MPI_File_sync(file));
  }
  note("close", 0, MPI_File_close(&file));
  MPI_Errhandler_free(&handler);
}

static void make_other_file(const char* path) {
  FILE* const out = fopen(path, "w");
  memset(buffer, 0x55, kBlock);
  for (int i = 0; i < 64; ++i) {
    fwrite(buffer, 1, kBlock, out);
  }
  fclose(out);
}

static void lose_name(const char* path, int count, const char* how) {
  MPI_File file = open_file(path, "", MPI_MODE_RDWR);
  unsigned long sum = 0;
  for (int i = 0; i < count / 2; ++i) {
    sum = add_read(sum, file, i);
  }
  note("write", 3, write_block(file, 3, 33));
  if (strcmp(how, "delete") == 0) {
    note("delete", 0, MPI_File_delete(path, MPI_INFO_NULL));
  } else {
    unlink(path);
  }
  if (strcmp(how, "replace") == 0) {
    make_other_file(path);
  }
  for (int i = count / 2; i < count; ++i) {
    sum = add_read(sum, file, i);
    note("write", i - 1, write_block(file, i - 1, i));
  }
  note("write", count, write_block(file, count, 77));
  MPI_Offset bytes = -1;
  note("size", 0, MPI_File_get_size(file, &bytes));
  note("write", 1, write_block(file, 1, 11));
  sum = add_read(sum, file, 1);
  note("sync", 0, MPI_File_sync(file));
  for (int i = 0; i <= count; ++i) {
    sum = add_read(sum, file, i);
  }
  printf("%s: %lld bytes, sum %lx\n", how, (long long)bytes, sum);
  note("close", 0, MPI_File_close(&file));
  note("open", 0, MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
  if (strcmp(how, "replace") == 0) {
    printf("the other file: sum %lx\n", add_read(add_read(0, file, 3), file, count - 1));
    note("close", 0, MPI_File_close(&file));
  }
}

/* What is written is in the map behind a sync, what is stored in the map is read. */
static void use_map(const char* path, int count) {
  MPI_File file = open_file(path, "", MPI_MODE_RDWR);
  const int fd = open(path, O_RDWR);
  char* const map = mmap(NULL, (size_t)count * kBlock, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (map == MAP_FAILED) {
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  unsigned long sum = 0;
  for (int i = 0; i < count / 2; ++i) {
    sum = add_read(sum, file, i);
    memset(map + (size_t)(i + 3) * kBlock + 100, i, 5000); /* it may have been read ahead */
  }
  printf("read beside stores: sum %lx\n", sum);
  for (int i = 0; i < count / 2; ++i) {
    note("write", i, write_block(file, count / 2 - i, i + 1));
  }
  note("sync", 0, MPI_File_sync(file));
  for (int i = 0; i < count; ++i) {
    sum = add_block(sum, map + (size_t)i * kBlock);
  }
  printf("mapped behind a sync: sum %lx\n", sum);
  for (int i = 0; i < count / 2; ++i) {
    note("write", i, write_block(file, i, i + 2));
    memset(map + (size_t)(count / 2 + i) * kBlock, i, 5000);
    sum = add_read(sum, file, i);
    sum = add_read(sum, file, count / 2 + i);
  }
  for (int i = 0; i < count / 2; ++i) {
    note("write", i, write_block(file, i, i + 3));
  }
  note("close", 0, MPI_File_close(&file));
  for (int i = 0; i < count; ++i) {
    sum = add_block(sum, map + (size_t)i * kBlock);
  }
  printf("mapped behind a close: sum %lx\n", sum);
  munmap(map, (size_t)count * kBlock);
}

/* Returns how many words it was, 0 for none that is known. */
static int do_one(int words, char** word) {
  if (words >= 3 && strcmp(word[0], "blocks") == 0) {
    read_blocks(word[1], atoi(word[2]));
    return 3;
  }
  if (words >= 2 && strcmp(word[0], "left") == 0) {
    do_what_is_left(word[1]);
    return 2;
  }
  if (words >= 4 && strcmp(word[0], "write") == 0) {
    write_blocks(word[1], atoi(word[2]), word[3]);
    return 4;
  }
  if (words >= 4 && strcmp(word[0], "lose") == 0) {
    lose_name(word[1], atoi(word[2]), word[3]);
    return 4;
  }
  if (words >= 3 && strcmp(word[0], "map") == 0) {
    use_map(word[1], atoi(word[2]));
    return 3;
  }
  return 0;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  for (int i = 1, words = 0; i < argc; i += words) {
    words = do_one(argc - i, argv + i);
    if (words == 0) {
      fprintf(stderr, "small_program: what is %s?\n", argv[i]);
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
  }
  MPI_Finalize();
  return 0;
}
