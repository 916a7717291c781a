/*
 * Ioweave: reads of MPI-IO ahead of the program. The C interface.
 *
 * Programs need none of this: where libioweave_mpiio_openmpi.so or libioweave_mpiio_mpich.so is
 * preloaded (`ioweave run` does so), what a program reads with MPI_File_read and its like is
 * foretold from its last reads. A program whose reads follow no such pattern, but which knows them,
 * can say so:
 *
 *   for (int i = 0; i < n; ++i) {
 *     iow_mpiio_plan(file, where[i], count, MPI_DOUBLE);
 *   }
 *   for (int i = 0; i < n; ++i) {
 *     MPI_File_read_at(file, where[i], buffer, count, MPI_DOUBLE, MPI_STATUS_IGNORE);
 *     compute(buffer);
 *   }
 *
 * It needs no other library to be linked, and runs as well where none is preloaded.
 */
#ifndef IOWEAVE_MPIIO_H
#define IOWEAVE_MPIIO_H

#include <errno.h>
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The preloaded library's. Call iow_mpiio_plan(). */
extern int iow_mpiio_plan_read(MPI_File file, MPI_Offset offset, int count, MPI_Datatype type)
    __attribute__((weak));

/*
 * This process will read `count` of `type` from `offset` on, as with MPI_File_read_at(): in
 * elements of the file's view. Reads are made ahead in the order in which they were planned.
 * Planning is local, and a hint: nothing else changes. From the first plan of a file on, no other
 * reads of it are foretold, until its view or size is set. Returns 0. Errors: -ENOTSUP (no library
 * is preloaded, or it leaves this file alone: IOWEAVE_MPIIO_REPORT says why), -EINVAL (a count that
 * is not above 0, an offset below 0, no datatype), -E2BIG (more than 1024 pieces apart in the
 * file), -ENOBUFS (2^20 reads are planned), -ENOMEM.
 */
static inline int iow_mpiio_plan(MPI_File file, MPI_Offset offset, int count, MPI_Datatype type) {
  /* NOLINTNEXTLINE(modernize-use-nullptr): C as well. */
  return iow_mpiio_plan_read != 0 ? iow_mpiio_plan_read(file, offset, count, type) : -ENOTSUP;
}

#ifdef __cplusplus
}
#endif

#endif /* IOWEAVE_MPIIO_H */
