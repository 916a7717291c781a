#include "calls/mpiio/real_mpi.hpp"

#include <dlfcn.h>

namespace ioweave::calls {
namespace {

/// The program may have loaded its MPI itself, for itself alone, as Python does. So it is asked for
/// by its name; where it has another one, what comes behind this library is the best guess.
RealMpi find() noexcept {
  RealMpi real;
  void* const mpi = ::dlopen(kMpiLibrary, RTLD_NOLOAD | RTLD_LAZY);
  real.is_ours = mpi != nullptr;
  void* const where = mpi != nullptr ? mpi : RTLD_NEXT;
#define IOWEAVE_MPI_FIND(name, parameters, arguments) \
  real.name = reinterpret_cast<decltype(real.name)>(::dlsym(where, "PMPI_" #name));
  IOWEAVE_MPI_WRAPPED(IOWEAVE_MPI_FIND)
  IOWEAVE_MPI_ASKED(IOWEAVE_MPI_FIND)
#undef IOWEAVE_MPI_FIND
#if defined(OPEN_MPI)
  real.world = static_cast<MPI_Comm>(::dlsym(where, "ompi_mpi_comm_world"));
  real.no_type = static_cast<MPI_Datatype>(::dlsym(where, "ompi_mpi_datatype_null"));
#else
  real.world = MPI_COMM_WORLD;
  real.no_type = MPI_DATATYPE_NULL;
#endif
  return real;
}

}  // namespace

const RealMpi& real_mpi() noexcept {
  static const RealMpi real = find();
  return real;
}

}  // namespace ioweave::calls
