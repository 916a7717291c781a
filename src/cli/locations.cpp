#include "cli/locations.hpp"

#include <climits>
#include <cstdlib>
#include <memory>
#include <vector>

#include <unistd.h>

#include "cli/program.hpp"
#include "config/run_config.hpp"

namespace ioweave::cli {
namespace {

/// IOWEAVE_BIN_TO_LIB is the way from the installed command's folder to the libraries', by CMake.
constexpr const char* kInstalledLibraries = "/" IOWEAVE_BIN_TO_LIB;
/// IOWEAVE_BIN_TO_LIBEXEC likewise.
constexpr const char* kInstalledTiom = "/" IOWEAVE_BIN_TO_LIBEXEC "/ioweave/ioweave-tiom";
constexpr const char* kBuiltTiom = "/../../apps/tiom/ioweave-tiom";
constexpr const char* kBuiltPreload = "/../calls/preload/";
constexpr const char* kBuiltMpiio = "/../calls/mpiio/";

std::string canonical_path(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), &free);
  return real ? real.get() : std::string{};
}

std::string own_folder() {
  const std::string executable = own_executable();
  return executable.substr(0, executable.rfind('/'));
}

std::string locate_preload(const char* library, std::string& why) {
  std::vector<std::string> candidates;
  const char* const chosen = std::getenv(config::kPreloadVariable);
  const bool is_chosen = chosen != nullptr && chosen[0] != '\0';
  if (is_chosen) {
    candidates.emplace_back(chosen);
  } else {
    candidates.push_back(own_folder() + kInstalledLibraries + "/ioweave/" + library);
    candidates.push_back(own_folder() + kBuiltPreload + library);
  }
  std::string tried;
  for (const std::string& candidate : candidates) {
    std::string found = canonical_path(candidate);
    std::string reason = "it does not exist";
    if (!found.empty() && is_loadable_library(found, reason)) return found;
    tried.append(tried.empty() ? "" : "; ").append(candidate).append(": ").append(reason);
  }
  why = std::string(library) + " was not found (" + tried + "). ";
  why += is_chosen ? std::string("Correct or unset ") + config::kPreloadVariable
                   : std::string("Install Ioweave as a whole, or name the library in ") +
                         config::kPreloadVariable;
  return {};
}

/// One that was built: not every installation has it.
std::string locate_mpiio(const char* name, std::string& why) {
  for (const std::string& folder :
       {std::string(kInstalledLibraries) + "/ioweave/", std::string(kBuiltMpiio)}) {
    std::string found = canonical_path(own_folder() + folder + name);
    if (!found.empty() && is_loadable_library(found, why)) return found;
  }
  why = std::string(name) + " was not found: it was not built, for want of that MPI";
  return {};
}

/// A program of its own: it may be linked to task runtimes, which the command is not.
std::string locate_tiom(std::string& why) {
  for (const char* place : {kInstalledTiom, kBuiltTiom}) {
    std::string found = canonical_path(own_folder() + place);
    if (!found.empty() && access(found.c_str(), X_OK) == 0) return found;
  }
  why = std::string("ioweave-tiom was not found beside this command: it was not built. ") +
        "Configure Ioweave with -DIOWEAVE_BUILD_TIOM=ON, build and install it again";
  return {};
}

std::string locate_folder(const char* folder, const char* file, std::string& why) {
  const std::string place = own_folder() + kInstalledLibraries + folder;
  std::string found = canonical_path(place);
  if (!found.empty() && access((found + file).c_str(), R_OK) == 0) return found;
  why = place + file + " does not exist. This command runs from a build tree or a partial copy: " +
        "install Ioweave (make install PREFIX=...) and use the installed command";
  return {};
}

}  // namespace

std::string own_executable() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : std::string{};
}

std::string locate(Location location, std::string& why) {
  switch (location) {
    case Location::preload:
      return locate_preload("libioweave_preload.so", why);
    case Location::preload_behind:
      return locate_preload("libioweave_preload_behind.so", why);
    case Location::cmake:
      return locate_folder("/cmake/ioweave", "/ioweave-config.cmake", why);
    case Location::pkgconfig:
      return locate_folder("/pkgconfig", "/ioweave.pc", why);
    case Location::tiom:
      return locate_tiom(why);
    case Location::mpiio_openmpi:
      return locate_mpiio("libioweave_mpiio_openmpi.so", why);
    case Location::mpiio_mpich:
      return locate_mpiio("libioweave_mpiio_mpich.so", why);
  }
  return {};
}

}  // namespace ioweave::cli
