#pragma once

// Runs the built command and says what came out of it.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace ioweave::cli::test {

struct Ran {
  int code = 0;  ///< exit code; 128 + N where signal N killed the command itself
  std::string out;
  std::string err;
};

struct Surroundings {
  std::vector<std::pair<std::string, std::string>> variables;  ///< set; an empty value unsets
  std::string directory;                                       ///< where to run; empty: here
  std::function<void()> in_child;                              ///< the last before exec
  std::function<void(pid_t)> meanwhile;                        ///< in the test, with the pid
};

/// Runs any program with its output in files, so that nothing can fill up and block.
[[nodiscard]] Ran run_any(const std::vector<std::string>& words, const Surroundings& how = {});

/// Runs `ioweave` with the fabricated interposer and without any of the machine's settings.
[[nodiscard]] Ran run_ioweave(const std::vector<std::string>& words, Surroundings how = {});

}  // namespace ioweave::cli::test
