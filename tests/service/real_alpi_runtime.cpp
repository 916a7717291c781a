// Stands where the test provider stands in tests of tasks, and passes everything on to an ALPI
// runtime that somebody installed. It comes before this program, so that libioweave finds its
// symbols and not these.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <dlfcn.h>

#include "support/alpi_provider/alpi.h"
#include "support/alpi_provider/alpi_test.h"
#include "support/real_alpi.hpp"

namespace {

template <typename Function>
Function* entry(const char* symbol) {
  auto* const found = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, symbol));
  if (found == nullptr) {
    std::fprintf(stderr, "the ALPI runtime lacks %s\n", symbol);
    std::abort();
  }
  return found;
}

/// nOS-V has to be started; what stands in for it starts itself.
int start() {
  auto* const init = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "nosv_init"));
  return init == nullptr || init() == 0 ? ALPI_SUCCESS : ALPI_ERR_UNKNOWN;
}

__attribute__((constructor)) void start_again(int /*argc*/, char** argv) {
  ioweave::test::start_again_with_real_alpi(argv);
}

}  // namespace

/// Once for all tests. How many workers it has is its own affair.
int alpi_test_start(unsigned /*cpus*/) {
  static const int result = start();
  return result;
}

// It goes on until the process ends.
void alpi_test_stop() {}

/// It has no modes.
void alpi_test_set_mode(const char* words) {
  if (words != nullptr && *words != '\0') {
    std::abort();
  }
}

int alpi_task_self(alpi_task** task) {
  static auto* const real = entry<int(alpi_task**)>("alpi_task_self");
  return real(task);
}

int alpi_task_waitfor_ns(uint64_t target_ns, uint64_t* actual_ns) {
  static auto* const real = entry<int(uint64_t, uint64_t*)>("alpi_task_waitfor_ns");
  return real(target_ns, actual_ns);
}

int alpi_task_spawn(void (*body)(void*), void* args, void (*completion)(void*),
                    void* completion_args, const char* label, const alpi_attr* attributes) {
  static auto* const real =
      entry<int(void (*)(void*), void*, void (*)(void*), void*, const char*, const alpi_attr*)>(
          "alpi_task_spawn");
  return real(body, args, completion, completion_args, label, attributes);
}
