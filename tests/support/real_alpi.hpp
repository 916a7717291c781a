#pragma once

// An ALPI runtime that somebody installed, for tests that are to run on a real one too. nOS-V must
// stand before the C library, so who wants it starts again with it preloaded.

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <unistd.h>

namespace ioweave::test {

struct RealAlpi {
  std::string path;    // of the library, or empty
  std::string reason;  // why there is none, a sentence; empty if there is one
};

/// What IOWEAVE_TEST_NOSV_PREFIX names: PREFIX/lib/libnosv.so, or that in lib64. Nothing is looked
/// for elsewhere.
[[nodiscard]] inline RealAlpi find_real_alpi() {
  RealAlpi found;
  const char* const prefix = std::getenv("IOWEAVE_TEST_NOSV_PREFIX");
  if (prefix == nullptr || *prefix == '\0') {
    found.reason = "No ALPI runtime is named: set IOWEAVE_TEST_NOSV_PREFIX to where nOS-V is.";
    return found;
  }
  for (const char* folder : {"/lib/", "/lib64/"}) {
    const std::string path = std::string(prefix).append(folder).append("libnosv.so");
    if (::access(path.c_str(), R_OK) == 0) {
      found.path = path;
      return found;
    }
  }
  found.reason = std::string("IOWEAVE_TEST_NOSV_PREFIX is ") + prefix +
                 ", but neither its lib/ nor its lib64/ holds libnosv.so; set it to where the "
                 "runtime was installed.";
  return found;
}

/// Starts this program again with the runtime before everything else, unless it is there.
inline void start_again_with_real_alpi(char** argv) {
  const std::string path = find_real_alpi().path;
  if (path.empty() || ::dlsym(RTLD_DEFAULT, "alpi_version_get") != nullptr) {
    return;
  }
  const char* const others = std::getenv("LD_PRELOAD");
  ::setenv("LD_PRELOAD", (path + (others != nullptr ? ":" + std::string(others) : "")).c_str(), 1);
  ::execv("/proc/self/exe", argv);
  std::fprintf(stderr, "this program could not be started again: %s\n", std::strerror(errno));
  std::_Exit(1);
}

}  // namespace ioweave::test
