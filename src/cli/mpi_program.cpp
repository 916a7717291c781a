#include "cli/mpi_program.hpp"

#include <array>
#include <climits>
#include <cstdlib>
#include <string_view>

#include "cli/locations.hpp"
#include "config/mpiio_variables.hpp"

namespace ioweave::cli {
namespace {

struct Known {
  Mpi mpi;
  std::string_view name;
};
constexpr std::array<Known, 2> kLibraries{
    {{Mpi::openmpi, config::kOpenMpiLibrary}, {Mpi::mpich, config::kMpichLibrary}}};
/// Where links lead to, or as they are called where each is a file of its own.
constexpr std::array<Known, 6> kLaunchers{{{Mpi::openmpi, "orterun"},
                                           {Mpi::openmpi, "prterun"},
                                           {Mpi::openmpi, "mpirun.openmpi"},
                                           {Mpi::mpich, "mpiexec.hydra"},
                                           {Mpi::mpich, "mpirun.mpich"},
                                           {Mpi::mpich, "mpiexec.gforker"}}};
/// What launchers tell the processes that they start.
constexpr std::array<Known, 2> kVariables{
    {{Mpi::openmpi, config::kOpenMpiRanks.all}, {Mpi::mpich, config::kMpichRanks.local}}};

Mpi find_library(const std::vector<LoadedFile>& scope) {
  for (const LoadedFile& file : scope) {
    for (const Known& known : kLibraries) {
      if (file.base() == known.name) return known.mpi;
    }
  }
  return Mpi::none;
}

Mpi find_launcher(const std::string& path) {
  char real[PATH_MAX];
  const std::string_view whole = realpath(path.c_str(), real) != nullptr ? real : path.c_str();
  const std::string_view name = whole.substr(whole.rfind('/') + 1);
  for (const Known& known : kLaunchers) {
    if (name == known.name) return known.mpi;
  }
  return Mpi::none;
}

}  // namespace

Mpi find_mpi(const Program& program, const LoaderVariables& variables) {
  if (const Mpi found = find_launcher(program.path); found != Mpi::none) return found;
  const Mpi found = find_library(lookup_scope(program.runs(), variables, Imports::leave_out));
  if (found != Mpi::none) return found;
  for (const Known& known : kVariables) {
    if (std::getenv(known.name.data()) != nullptr) return known.mpi;
  }
  return Mpi::none;
}

std::string find_mpiio_library(const Program& program) {
  std::string why;  // a program without it runs as well
  std::string openmpi = locate(Location::mpiio_openmpi, why);
  std::string mpich = locate(Location::mpiio_mpich, why);
  if (openmpi.empty() && mpich.empty()) return {};  // and need not be looked into
  switch (find_mpi(program, LoaderVariables::of_this_process())) {
    case Mpi::openmpi:
      return openmpi;
    case Mpi::mpich:
      return mpich;
    case Mpi::none:
      break;
  }
  return {};
}

}  // namespace ioweave::cli
