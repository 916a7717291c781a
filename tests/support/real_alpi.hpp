#pragma once

// Finds an ALPI runtime that somebody installed, for tests that are to run on a real one too.

#include <array>
#include <cstdlib>
#include <string>

#include <dlfcn.h>
#include <unistd.h>

#include <link.h>

namespace ioweave::test {

struct RealAlpi {
  std::string path;    // of the library, or empty
  std::string reason;  // why there is none, a sentence; empty if there is one
};

/// Looks under the prefix that the environment variable holds. False if it is not set; else `found`
/// says where the library is, or that it is missing there: nothing else is to be tried then.
[[nodiscard]] inline bool decided_by_prefix(const char* variable, const char* library,
                                            RealAlpi& found) {
  const char* prefix = std::getenv(variable);
  if (prefix == nullptr || *prefix == '\0') {
    return false;
  }
  for (const char* folder : {"/lib/", "/lib64/"}) {
    const std::string path = std::string(prefix).append(folder).append(library);
    if (::access(path.c_str(), R_OK) == 0) {
      found.path = path;
      return true;
    }
  }
  found.reason = std::string(variable) + " is " + prefix + ", but neither its lib/ nor its lib64/" +
                 " holds " + library + "; set it to where the runtime was installed.";
  return true;
}

/// The file that the loader finds by this name, or "". What it loaded stays loaded, since runtimes
/// do not like to be unloaded.
[[nodiscard]] inline std::string path_by_loader(const char* library) {
  void* handle = ::dlopen(library, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    return "";
  }
  const link_map* map = nullptr;
  const bool is_alpi = ::dlsym(handle, "alpi_version_get") != nullptr &&
                       ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0;
  return is_alpi ? map->l_name : "";
}

/// Looks at NOSV_PREFIX (lib/libnosv.so) and NANOS6_PREFIX (lib/libnanos6.so), then asks the
/// loader.
[[nodiscard]] inline RealAlpi find_real_alpi() {
  RealAlpi found;
  if (decided_by_prefix("NOSV_PREFIX", "libnosv.so", found) ||
      decided_by_prefix("NANOS6_PREFIX", "libnanos6.so", found)) {
    return found;
  }
  constexpr std::array kNames{"libnosv.so.0", "libnosv.so",    "libnanos6.so.0",
                              "libnanos6.so", "libnodes.so.0", "libnodes.so"};
  for (const char* name : kNames) {
    if (found.path = path_by_loader(name); !found.path.empty()) {
      return found;
    }
  }
  found.reason =
      "No ALPI runtime is installed: the loader finds neither libnosv nor libnanos6 nor "
      "libnodes; set NOSV_PREFIX or NANOS6_PREFIX to where one is.";
  return found;
}

}  // namespace ioweave::test
