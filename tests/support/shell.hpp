#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

#include <sys/wait.h>

namespace ioweave::test {

/// What came of a command.
struct ShellResult {
  int exit_code = -1;  ///< -1: a signal ended it
  std::string text;    ///< of both outputs
};

inline ShellResult run_in_shell(const std::string& command) {
  ShellResult result;
  std::FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) {
    return result;
  }
  char text[512];
  for (std::size_t got; (got = std::fread(text, 1, sizeof text, pipe)) > 0;) {
    result.text.append(text, got);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) {
    result.exit_code = WEXITSTATUS(status);
  }
  return result;
}

/// Assignments before a launcher by which Open MPI starts as many ranks as it is told, also for
/// root. Other MPIs ignore them.
inline constexpr const char* kOpenMpiWords =
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
    "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none ";

}  // namespace ioweave::test
