#pragma once

// What this kernel, these limits and this file system can do, found by doing it, and why not.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/backend.hpp"

namespace ioweave::engine {

enum class Usable : uint8_t { yes, degraded, no };

/// One thing that was tried. `cause` and `remedy` are sentences for users, empty where usable.
struct Finding {
  std::string subject;  ///< "io_uring", "io_uring sqpoll", "O_DIRECT on /scratch", ...
  Usable usable = Usable::yes;
  int error = 0;       ///< errno of the failed try, 0 otherwise
  std::string detail;  ///< measured facts: alignment, limits, kernel version
  std::string cause;
  std::string remedy;  ///< who can mend it and how
};

/// Requirements of O_DIRECT on a file, by statx(2) where the kernel tells, else by trial.
struct DirectAlignment {
  bool supported = false;
  uint32_t memory_bytes = 0;
  uint32_t offset_bytes = 0;
};
[[nodiscard]] DirectAlignment direct_alignment(int fd) noexcept;

/// Tries each engine and mode: creates it, and where `path` is given does a real read with it in
/// a file under `path` (an existing file is only read; in a directory a temporary file is used
/// and removed, or, where none can be made, a file that lies there is read). Errors about the path
/// itself are findings too.
[[nodiscard]] std::vector<Finding> probe(const std::string& path);

/// The first of `wanted`, io_uring, threads that opens here; `why` says what was passed over.
[[nodiscard]] BackendOptions best_backend(const BackendOptions& wanted, std::string& why);

}  // namespace ioweave::engine
