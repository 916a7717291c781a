#pragma once

// Which MPI a program uses, or starts others with: libioweave_mpiio_*.so is for one MPI each.

#include <string>

#include "cli/lookup_scope.hpp"
#include "cli/program.hpp"

namespace ioweave::cli {

enum class Mpi : unsigned char { none, openmpi, mpich };

/// By the libraries that the loader would load for the program; by its name, if it is a launcher;
/// and for programs that load their MPI by themselves, as Python does, by the launcher that has
/// started us.
[[nodiscard]] Mpi find_mpi(const Program& program, const LoaderVariables& variables);

/// The library to preload for the program, or empty: none is needed, or it is not installed.
[[nodiscard]] std::string find_mpiio_library(const Program& program);

}  // namespace ioweave::cli
