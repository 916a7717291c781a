#pragma once

// The MPI that this library is built for: each has an ABI of its own.

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "config/mpiio_variables.hpp"

namespace ioweave::calls {

#if defined(OPEN_MPI)
inline constexpr const char* kMpiLibrary = config::kOpenMpiLibrary;
#else
inline constexpr const char* kMpiLibrary = config::kMpichLibrary;
#endif

}  // namespace ioweave::calls
