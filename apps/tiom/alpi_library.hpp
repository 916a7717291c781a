#pragma once

// Where an ALPI runtime is to be had: in this process already, or in a library. A library is tried
// in a child process: to load one may start threads, and nOS-V would be of no use where it was
// loaded late (start_again.hpp). The functions may be called by any thread.

#include <string>

namespace tiom {

struct AlpiPlace {
  bool in_process = false;  ///< linked or preloaded: it is called, and nothing else loaded
  std::string file;         ///< the library that was named or found
  std::string definer;      ///< the library that has ALPI: `file`, or one that this needs
  std::string source;       ///< who named it: "--alpi-library", "NOSV_PREFIX", "the loader"
};

/// The file whose ALPI this process calls, or "" where it has none.
std::string alpi_in_process();

/// In order: what this process has; `named`, unless empty; NOSV_PREFIX, NANOS6_PREFIX; what the
/// loader finds. Throws std::runtime_error with the way out where that is none, or where `named` is
/// not what the process has.
AlpiPlace locate_alpi(const std::string& named);

}  // namespace tiom
