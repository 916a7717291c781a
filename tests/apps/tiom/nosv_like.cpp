// What is particular to nOS-V 4.1, on top of the ALPI provider of the tests, which this library
// needs: it refuses to start where it was loaded behind the C library; only the thread that started
// it can end it; and its end waits for every task, polling ones too. It writes what happens into
// the file that NOSV_LIKE_LOG names: what of the environment a start again could change and the
// order of the libraries at its start, its start and its end.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <unistd.h>

#include <link.h>

#include "support/alpi_provider/alpi_test.h"

extern "C" {
__attribute__((visibility("default"))) int nosv_init();
__attribute__((visibility("default"))) int nosv_shutdown();
}

namespace {

pid_t starter = 0;

void log(const std::string& text) {
  const char* const name = std::getenv("NOSV_LIKE_LOG");
  std::FILE* const file = name != nullptr ? std::fopen(name, "a") : nullptr;
  if (file == nullptr) return;
  static_cast<void>(std::fprintf(file, "%s\n", text.c_str()));
  static_cast<void>(std::fclose(file));
}

int log_library(dl_phdr_info* info, size_t, void* text) {
  static_cast<std::string*>(text)->append(" ").append(info->dlpi_name);
  return 0;
}

}  // namespace

int nosv_init() {
  for (const char* const name : {"LD_PRELOAD", "IOWEAVE_TIOM_PRELOADED"}) {
    const char* const value = std::getenv(name);
    log(std::string(name) + "=" + (value != nullptr ? value : "(none)"));
  }
  std::string libraries;
  dl_iterate_phdr(&log_library, &libraries);
  log("libraries:" + libraries);
  Dl_info self{};
  dladdr(reinterpret_cast<void*>(&nosv_init), &self);
  if (libraries.find(self.dli_fname) > libraries.find("/libc.so")) {
    static_cast<void>(std::fputs("nosv_like stands behind the C library\n", stderr));
    std::abort();
  }
  starter = gettid();
  log("started");
  return 0;
}

int nosv_shutdown() {
  if (gettid() != starter) return -1;
  alpi_test_stop();
  log("ended");
  return 0;
}
