/*
 * Small MPI programs that know nothing of Ioweave.
 *
 * small_program blocks FILE COUNT   reads so many blocks of 64 KiB in order, and says what became
 *                                   of each that failed
 * small_program left FOLDER         does what the library leaves to MPI alone
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBlock = 64 << 10, kPieces = 5000, kPieceBytes = 8192 };

static char buffer[kBlock];

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

static void read_blocks(const char* path, int count) {
  MPI_File file = open_file(path, "", MPI_MODE_RDONLY);
  unsigned long sum = 0;
  for (int i = 0; i < count; ++i) {
    const int error =
        MPI_File_read_at(file, (MPI_Offset)i * kBlock, buffer, kBlock, MPI_BYTE, MPI_STATUS_IGNORE);
    int class = MPI_SUCCESS;
    if (error != MPI_SUCCESS && MPI_Error_class(error, &class) != MPI_SUCCESS) {
      class = -1;
    }
    if (class != MPI_SUCCESS) {
      printf("block %d: class %d\n", i, class);
    }
    for (int j = 0; class == MPI_SUCCESS && j < kBlock; ++j) {
      sum = sum * 31 + (unsigned char)buffer[j];
    }
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

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc == 4 && strcmp(argv[1], "blocks") == 0) {
    read_blocks(argv[2], atoi(argv[3]));
  } else if (argc == 3 && strcmp(argv[1], "left") == 0) {
    do_what_is_left(argv[2]);
  } else {
    fprintf(stderr, "Usage: small_program blocks FILE COUNT | left FOLDER\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Finalize();
  return 0;
}
