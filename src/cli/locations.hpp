#pragma once

// Where the parts of this installation lie, found from the command's own place: the tree may be
// moved as a whole, and a build tree works without being installed.

#include <string>

namespace ioweave::cli {

enum class Location : unsigned char {
  preload,         ///< the file libioweave_preload.so
  preload_behind,  ///< the file libioweave_preload_behind.so, where writes are held back
  cmake,           ///< the folder for CMAKE_PREFIX_PATH or ioweave_DIR
  pkgconfig,       ///< the folder for PKG_CONFIG_PATH
  tiom,            ///< the program ioweave-tiom
  mpiio_openmpi,   ///< the file libioweave_mpiio_openmpi.so
  mpiio_mpich,     ///< the file libioweave_mpiio_mpich.so
};

/// The absolute path, or empty with, in `why`, what was looked for and how to get it.
[[nodiscard]] std::string locate(Location location, std::string& why);

/// The same for the command itself.
[[nodiscard]] std::string own_executable();

}  // namespace ioweave::cli
