#pragma once

#include "calls/mpiio/mpi.hpp"
#include "calls/mpiio/wrapped_files.hpp"

namespace ioweave::calls {

/// The functions of the MPI that the program uses, by their names without MPI_.
struct RealMpi {
// A name and a list of parameters, with its parentheses: NOLINTNEXTLINE(bugprone-macro-parentheses)
#define IOWEAVE_MPI_MEMBER(name, parameters, arguments) int(*name) parameters = nullptr;
  IOWEAVE_MPI_WRAPPED(IOWEAVE_MPI_MEMBER)
  IOWEAVE_MPI_ASKED(IOWEAVE_MPI_MEMBER)
#undef IOWEAVE_MPI_MEMBER
  // Open MPI's handles are addresses within it.
  MPI_Comm world{};
  MPI_Datatype no_type{};
  bool is_ours = false;  ///< the MPI that this library is built for
};

/// Found at the first call, by a program that calls MPI.
[[nodiscard]] const RealMpi& real_mpi() noexcept;

/// Functions of a tool that stands behind this library and before MPI, as profilers do: null but
/// for those that it has. They call MPI by its functions' other names, PMPI_..., so they come back.
[[nodiscard]] const RealMpi& tool_mpi() noexcept;

/// Whether asking MPI of this datatype is harmless: questions about one that is none end in the
/// error handler of MPI_COMM_WORLD, and not in the file's.
[[nodiscard]] inline bool is_plausible(MPI_Datatype type) noexcept {
#if defined(OPEN_MPI)
  return type != nullptr && type != real_mpi().no_type;
#else
  // The kind of a handle is in its highest two bits, what it is of in the next four.
  const auto handle = static_cast<unsigned>(type);
  return type != real_mpi().no_type && handle >> 30 != 0 && (handle >> 26 & 0xf) == 3;
#endif
}

}  // namespace ioweave::calls
