#include "calls/mpiio/real_mpi.hpp"

#include <new>
#include <string>
#include <vector>

#include <dlfcn.h>

#include <link.h>

namespace ioweave::calls {
namespace {

bool is_ours(const void* address) noexcept {
  static const char kHere = 0;
  Dl_info one{};
  Dl_info other{};
  return ::dladdr(address, &one) != 0 && ::dladdr(&kHere, &other) != 0 &&
         one.dli_fbase == other.dli_fbase;
}

/// The library of an MPI that this library was not built for, if one is loaded. May throw
/// std::bad_alloc.
void* find_another() {
  std::vector<std::string> names;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        static_cast<std::vector<std::string>*>(to)->emplace_back(info->dlpi_name);
        return 0;
      },
      &names);
  for (const std::string& name : names) {
    void* const library = name.empty() ? nullptr : ::dlopen(name.c_str(), RTLD_NOLOAD | RTLD_LAZY);
    const void* const found = library != nullptr ? ::dlsym(library, "PMPI_File_open") : nullptr;
    if (found != nullptr && !is_ours(found)) {
      return library;
    }
  }
  return nullptr;
}

/// The program may have loaded its MPI itself, for itself alone, as Python does. So it is asked for
/// by its name. Another MPI than that its calls go to, and nothing else happens.
void* find_library(bool& is_ours) noexcept {
  void* const mpi = ::dlopen(kMpiLibrary, RTLD_NOLOAD | RTLD_LAZY);
  is_ours = mpi != nullptr;
  if (is_ours) {
    return mpi;
  }
  try {
    void* const another = find_another();
    return another != nullptr ? another : RTLD_NEXT;
  } catch (const std::bad_alloc&) {
    return RTLD_NEXT;
  }
}

#if defined(OPEN_MPI)
/// The linker may have moved an object of the library into the program (a copy relocation), and the
/// library uses that one, too.
void* find_object(const char* name, void* library) noexcept {
  void* const found = ::dlsym(RTLD_DEFAULT, name);
  return found != nullptr ? found : ::dlsym(library, name);
}
#endif

RealMpi find() noexcept {
  RealMpi real;
  void* const where = find_library(real.is_ours);
#define IOWEAVE_MPI_FIND(name, parameters, arguments) \
  real.name = reinterpret_cast<decltype(real.name)>(::dlsym(where, "PMPI_" #name));
  IOWEAVE_MPI_WRAPPED(IOWEAVE_MPI_FIND)
  IOWEAVE_MPI_ASKED(IOWEAVE_MPI_FIND)
#undef IOWEAVE_MPI_FIND
#if defined(OPEN_MPI)
  real.world = static_cast<MPI_Comm>(find_object("ompi_mpi_comm_world", where));
  real.no_type = static_cast<MPI_Datatype>(find_object("ompi_mpi_datatype_null", where));
#else
  real.world = MPI_COMM_WORLD;
  real.no_type = MPI_DATATYPE_NULL;
#endif
  return real;
}

RealMpi find_tool() noexcept {
  RealMpi tool;
  bool is_ours = false;
  void* const mpi = find_library(is_ours);
#define IOWEAVE_MPI_FIND(name, parameters, arguments)           \
  if (void* const next = ::dlsym(RTLD_NEXT, "MPI_" #name);      \
      mpi != RTLD_NEXT && next != ::dlsym(mpi, "MPI_" #name)) { \
    tool.name = reinterpret_cast<decltype(tool.name)>(next);    \
  }
  IOWEAVE_MPI_WRAPPED(IOWEAVE_MPI_FIND)
#undef IOWEAVE_MPI_FIND
  return tool;
}

}  // namespace

const RealMpi& tool_mpi() noexcept {
  static const RealMpi tool = find_tool();
  return tool;
}

const RealMpi& real_mpi() noexcept {
  static const RealMpi real = find();
  return real;
}

}  // namespace ioweave::calls
