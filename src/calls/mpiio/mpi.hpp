#pragma once

// The MPI that this library is built for: each has an ABI of its own.

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <cstdint>
#include <type_traits>

#include <mpi.h>

#include "config/mpiio_variables.hpp"

namespace ioweave::calls {

#if defined(OPEN_MPI)
inline constexpr const char* kMpiLibrary = config::kOpenMpiLibrary;
inline constexpr config::RankVariables kRankVariables = config::kOpenMpiRanks;
#else
inline constexpr const char* kMpiLibrary = config::kMpichLibrary;
inline constexpr config::RankVariables kRankVariables = config::kMpichRanks;
#endif

/// A handle as it comes and goes on, in a whole register: in a program of another MPI it may be an
/// address, where this MPI has numbers.
template <typename Handle>
using Word = std::conditional_t<sizeof(Handle) == sizeof(void*), Handle, uintptr_t>;
using CommWord = Word<MPI_Comm>;
using TypeWord = Word<MPI_Datatype>;
using InfoWord = Word<MPI_Info>;

}  // namespace ioweave::calls
