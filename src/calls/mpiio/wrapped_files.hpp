#pragma once

#include "calls/mpiio/mpi.hpp"

// The functions of MPI that the library stands before, by what it has to know of each:
//
//   CALL(name, (parameters), (arguments))
//
// They are exported by both of their names, MPI_... and PMPI_...: Open MPI's Fortran bindings and
// tools that stand before us call the latter.

// Their parameters and arguments, from what is read or written on: (file, [offset], these, result).
// Where an MPI has them, those with a large count are there, too: their names end in _c.
#define IOWEAVE_MPI_INTO(number) void *buffer, number count, TypeWord type
#define IOWEAVE_MPI_FROM(number) const void *buffer, number count, TypeWord type
#define IOWEAVE_MPI_MEMORY buffer, count, type

#if MPI_VERSION >= 4
#define IOWEAVE_MPI_BOTH(CALL, row, name) row(CALL, name, int) row(CALL, name##_c, MPI_Count)
#else
#define IOWEAVE_MPI_BOTH(CALL, row, name) row(CALL, name, int)
#endif

#define IOWEAVE_MPI_READ_AT_BY(CALL, name, number)                                              \
  CALL(name, (MPI_File file, MPI_Offset offset, IOWEAVE_MPI_INTO(number), MPI_Status * status), \
       (file, offset, IOWEAVE_MPI_MEMORY, status))
#define IOWEAVE_MPI_READ_BY(CALL, name, number)                              \
  CALL(name, (MPI_File file, IOWEAVE_MPI_INTO(number), MPI_Status * status), \
       (file, IOWEAVE_MPI_MEMORY, status))
#define IOWEAVE_MPI_IREAD_AT_BY(CALL, name, number)                                               \
  CALL(name, (MPI_File file, MPI_Offset offset, IOWEAVE_MPI_INTO(number), MPI_Request * request), \
       (file, offset, IOWEAVE_MPI_MEMORY, request))
#define IOWEAVE_MPI_IREAD_BY(CALL, name, number)                               \
  CALL(name, (MPI_File file, IOWEAVE_MPI_INTO(number), MPI_Request * request), \
       (file, IOWEAVE_MPI_MEMORY, request))
#define IOWEAVE_MPI_READ_AT_BEGIN_BY(CALL, name, number)                   \
  CALL(name, (MPI_File file, MPI_Offset offset, IOWEAVE_MPI_INTO(number)), \
       (file, offset, IOWEAVE_MPI_MEMORY))
#define IOWEAVE_MPI_READ_BEGIN_BY(CALL, name, number) \
  CALL(name, (MPI_File file, IOWEAVE_MPI_INTO(number)), (file, IOWEAVE_MPI_MEMORY))
#define IOWEAVE_MPI_WRITE_AT_BY(CALL, name, number)                                             \
  CALL(name, (MPI_File file, MPI_Offset offset, IOWEAVE_MPI_FROM(number), MPI_Status * status), \
       (file, offset, IOWEAVE_MPI_MEMORY, status))
#define IOWEAVE_MPI_WRITE_BY(CALL, name, number)                             \
  CALL(name, (MPI_File file, IOWEAVE_MPI_FROM(number), MPI_Status * status), \
       (file, IOWEAVE_MPI_MEMORY, status))
#define IOWEAVE_MPI_IWRITE_AT_BY(CALL, name, number)                                              \
  CALL(name, (MPI_File file, MPI_Offset offset, IOWEAVE_MPI_FROM(number), MPI_Request * request), \
       (file, offset, IOWEAVE_MPI_MEMORY, request))
#define IOWEAVE_MPI_IWRITE_BY(CALL, name, number)                              \
  CALL(name, (MPI_File file, IOWEAVE_MPI_FROM(number), MPI_Request * request), \
       (file, IOWEAVE_MPI_MEMORY, request))
#define IOWEAVE_MPI_WRITE_AT_BEGIN_BY(CALL, name, number)                  \
  CALL(name, (MPI_File file, MPI_Offset offset, IOWEAVE_MPI_FROM(number)), \
       (file, offset, IOWEAVE_MPI_MEMORY))
#define IOWEAVE_MPI_WRITE_BEGIN_BY(CALL, name, number) \
  CALL(name, (MPI_File file, IOWEAVE_MPI_FROM(number)), (file, IOWEAVE_MPI_MEMORY))

#define IOWEAVE_MPI_READS_AT(CALL)                             \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_READ_AT_BY, File_read_at) \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_READ_AT_BY, File_read_at_all)

#define IOWEAVE_MPI_READS(CALL)                          \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_READ_BY, File_read) \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_READ_BY, File_read_all)

/// Reads that return before they have ended.
#define IOWEAVE_MPI_BEGINS_AT(CALL)                                  \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_IREAD_AT_BY, File_iread_at)     \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_IREAD_AT_BY, File_iread_at_all) \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_READ_AT_BEGIN_BY, File_read_at_all_begin)

#define IOWEAVE_MPI_BEGINS(CALL)                               \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_IREAD_BY, File_iread)     \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_IREAD_BY, File_iread_all) \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_READ_BEGIN_BY, File_read_all_begin)

/// Reads at the position that all ranks share. Where they read, their order decides.
#define IOWEAVE_MPI_SHARED_READS(CALL)                            \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_READ_BY, File_read_shared)   \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_READ_BY, File_read_ordered)  \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_IREAD_BY, File_iread_shared) \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_READ_BEGIN_BY, File_read_ordered_begin)

/// Writes that may be made behind the program.
#define IOWEAVE_MPI_WRITES_AT(CALL) IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_WRITE_AT_BY, File_write_at)

#define IOWEAVE_MPI_WRITES(CALL)                                                 \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_WRITE_AT_BY, File_write_at_all)             \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_WRITE_BY, File_write)                       \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_WRITE_BY, File_write_all)                   \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_WRITE_BY, File_write_shared)                \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_WRITE_BY, File_write_ordered)               \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_IWRITE_AT_BY, File_iwrite_at)               \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_IWRITE_AT_BY, File_iwrite_at_all)           \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_IWRITE_BY, File_iwrite)                     \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_IWRITE_BY, File_iwrite_all)                 \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_IWRITE_BY, File_iwrite_shared)              \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_WRITE_AT_BEGIN_BY, File_write_at_all_begin) \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_WRITE_BEGIN_BY, File_write_all_begin)       \
  IOWEAVE_MPI_BOTH(CALL, IOWEAVE_MPI_WRITE_BEGIN_BY, File_write_ordered_begin)

/// What only has to find the file as the process has written it.
#define IOWEAVE_MPI_LOOKS(CALL)                                            \
  CALL(File_preallocate, (MPI_File file, MPI_Offset bytes), (file, bytes)) \
  CALL(File_get_size, (MPI_File file, MPI_Offset * bytes), (file, bytes))

/// What each needs a word of its own for.
#define IOWEAVE_MPI_OTHERS(CALL)                                                                 \
  CALL(File_open, (CommWord comm, const char* name, int mode, InfoWord info, MPI_File* file),    \
       (comm, name, mode, info, file))                                                           \
  CALL(File_close, (MPI_File * file), (file))                                                    \
  CALL(File_seek, (MPI_File file, MPI_Offset offset, int whence), (file, offset, whence))        \
  CALL(File_seek_shared, (MPI_File file, MPI_Offset offset, int whence), (file, offset, whence)) \
  CALL(File_sync, (MPI_File file), (file))                                                       \
  CALL(File_set_atomicity, (MPI_File file, int is_atomic), (file, is_atomic))                    \
  CALL(File_set_size, (MPI_File file, MPI_Offset bytes), (file, bytes))                          \
  CALL(File_set_view,                                                                            \
       (MPI_File file, MPI_Offset offset, TypeWord etype, TypeWord filetype,                     \
        const char* representation, InfoWord info),                                              \
       (file, offset, etype, filetype, representation, info))                                    \
  CALL(Abort, (CommWord comm, int code), (comm, code))                                           \
  CALL(Finalize, (void), ())

#define IOWEAVE_MPI_WRAPPED(CALL) \
  IOWEAVE_MPI_READS_AT(CALL)      \
  IOWEAVE_MPI_READS(CALL)         \
  IOWEAVE_MPI_BEGINS_AT(CALL)     \
  IOWEAVE_MPI_BEGINS(CALL)        \
  IOWEAVE_MPI_SHARED_READS(CALL)  \
  IOWEAVE_MPI_WRITES_AT(CALL)     \
  IOWEAVE_MPI_WRITES(CALL)        \
  IOWEAVE_MPI_LOOKS(CALL)         \
  IOWEAVE_MPI_OTHERS(CALL)

/// What the library asks of MPI itself.
#define IOWEAVE_MPI_ASKED(CALL)                                                               \
  CALL(File_get_position, (MPI_File file, MPI_Offset * offset), (file, offset))               \
  CALL(File_get_byte_offset, (MPI_File file, MPI_Offset offset, MPI_Offset * bytes),          \
       (file, offset, bytes))                                                                 \
  CALL(Type_size_x, (MPI_Datatype type, MPI_Count * bytes), (type, bytes))                    \
  CALL(Type_get_extent_x, (MPI_Datatype type, MPI_Count * lower, MPI_Count * extent),         \
       (type, lower, extent))                                                                 \
  CALL(File_call_errhandler, (MPI_File file, int error), (file, error))                       \
  CALL(Type_get_envelope,                                                                     \
       (MPI_Datatype type, int* integers, int* addresses, int* types, int* combiner),         \
       (type, integers, addresses, types, combiner))                                          \
  CALL(Status_set_elements_x, (MPI_Status * status, MPI_Datatype type, MPI_Count count),      \
       (status, type, count))                                                                 \
  CALL(Status_set_cancelled, (MPI_Status * status, int is_cancelled), (status, is_cancelled)) \
  CALL(Comm_size, (MPI_Comm comm, int* size), (comm, size))                                   \
  CALL(Comm_rank, (MPI_Comm comm, int* rank), (comm, rank))
