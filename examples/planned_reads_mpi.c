/*
 * Sums the bytes of a file by MPI ranks, in an order that no pattern foretells: each rank names its
 * reads beforehand. Under libioweave_mpiio_*.so, which `ioweave run` preloads, they are read ahead;
 * without it the program does the same.
 *
 *   ioweave run -- mpirun -n 4 planned_reads_mpi FILE
 */
#include <ioweave/mpiio.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 64 * 1024 };

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_File file = MPI_FILE_NULL;
  if (argc != 2 || MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file) !=
                       MPI_SUCCESS) {
    fprintf(stderr, argc != 2 ? "usage: planned_reads_mpi FILE\n" : "cannot open %s\n", argv[1]);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  }
  MPI_Offset bytes = 0;
  MPI_File_get_size(file, &bytes);
  const MPI_Offset blocks = (bytes + BLOCK - 1) / BLOCK;

  /* Blocks i, i + ranks, ... of a scattered order. 7919 is prime: each comes once. */
  for (MPI_Offset i = rank; i < blocks; i += ranks) {
    iow_mpiio_plan(file, i * 7919 % blocks * BLOCK, BLOCK, MPI_BYTE); /* a hint: it may fail */
  }
  static unsigned char block[BLOCK];
  unsigned long long sum = 0;
  for (MPI_Offset i = rank; i < blocks; i += ranks) {
    MPI_Status status;
    int got = 0;
    MPI_File_read_at(file, i * 7919 % blocks * BLOCK, block, BLOCK, MPI_BYTE, &status);
    MPI_Get_count(&status, MPI_BYTE, &got);
    for (int j = 0; j < got; ++j) sum += block[j]; /* the next ones are read meanwhile */
  }
  unsigned long long all = 0;
  MPI_Reduce(&sum, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("sum of bytes: %llu\n", all);
  MPI_File_close(&file);
  MPI_Finalize();
  return EXIT_SUCCESS;
}
