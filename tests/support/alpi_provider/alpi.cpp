// The C interface of the test provider: checks arguments and modes, and calls the runtime. Built
// once for each library, with its version:
//
//   ALPI_TEST_MAJOR, ALPI_TEST_MINOR   the version that alpi_version_get() says
//   ALPI_TEST_LEVEL                    the minor version whose functions are there
//   ALPI_TEST_NO_UNBLOCK               leaves out alpi_task_unblock()
#include "alpi.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>

#include <pthread.h>
#include <sched.h>

#include "alpi_test.h"
#include "mode.hpp"
#include "runtime.hpp"

struct alpi_attr {
  uint64_t initialised;
};

namespace {

using alpi_test::Handle;
using alpi_test::has;
using alpi_test::Outcome;
using alpi_test::Runtime;
using alpi_test::Task;

static_assert(sizeof(alpi_task*) == sizeof(Handle));
constexpr uint64_t kInitialised = 0x616c70692d617474;
constexpr int kNoFeature = ALPI_TEST_LEVEL >= 2 ? ALPI_ERR_FEATURE_UNKNOWN : ALPI_ERR_UNKNOWN;

Handle handle_from(const alpi_task* task) {
  return reinterpret_cast<Handle>(task);
}

/// As on nOS-V, whose memory is not mapped in a forked child.
std::atomic<bool> is_forked_child{false};
const int at_fork = pthread_atfork(
    nullptr, nullptr, [] { is_forked_child = is_forked_child || Runtime::get().is_running(); });

bool is_parallel(const Task& task) {
  return std::string_view(task.label.data()) == "parallel";
}

/// ALPI_SUCCESS if `task` is the calling task; then *self is that.
int check_self(const alpi_task* task, Task*& self) {
  self = Runtime::self();
  if (self == nullptr) {
    return ALPI_ERR_OUTSIDE_TASK;
  }
  return handle_from(task) == alpi_test::handle_of(*self) ? ALPI_SUCCESS : ALPI_ERR_PARAMETER;
}

int error_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::done:
      return ALPI_SUCCESS;
    case Outcome::not_running:
      return ALPI_ERR_NOT_INITIALIZED;
    case Outcome::misuse:
      return ALPI_ERR_PARAMETER;
    case Outcome::no_memory:
      return ALPI_ERR_OUT_OF_MEMORY;
  }
  return ALPI_ERR_UNKNOWN;
}

}  // namespace

// ---- Errors and versions ----

const char* alpi_error_string(int error) {
  constexpr std::array kTexts{"success",
                              "the version of the interface is not the one asked for",
                              "the runtime does not run",
                              "a parameter is wrong",
                              "there is not enough memory",
                              "the caller is not in a task",
                              "an internal or unknown error",
                              "the feature is not there"};
  constexpr int kKnown = ALPI_TEST_LEVEL >= 2 ? ALPI_ERR_FEATURE_UNKNOWN : ALPI_ERR_UNKNOWN;
  return error < 0 || error > kKnown ? "no error of ALPI" : kTexts[static_cast<size_t>(error)];
}

int alpi_version_check(int major, int minor) {
  return major == ALPI_TEST_MAJOR && minor <= ALPI_TEST_MINOR ? ALPI_SUCCESS : ALPI_ERR_VERSION;
}

int alpi_version_get(int* major, int* minor) {
  if (major == nullptr || minor == nullptr) {
    return ALPI_ERR_PARAMETER;
  }
  *major = ALPI_TEST_MAJOR;
  *minor = ALPI_TEST_MINOR;
  return ALPI_SUCCESS;
}

// ---- Blocking ----

int alpi_task_self(alpi_task** task) {
  if (task == nullptr) {
    return ALPI_ERR_PARAMETER;
  }
  if (is_forked_child || at_fork != 0) {
    alpi_test::die("a forked child asks which task it runs; a real runtime crashes there");
  }
  const Task* self = Runtime::self();
  *task = self == nullptr ? nullptr : reinterpret_cast<alpi_task*>(alpi_test::handle_of(*self));
  return ALPI_SUCCESS;
}

int alpi_task_block(alpi_task* task) {
  if (has(alpi_test::kNoBlocking)) {
    return kNoFeature;
  }
  Task* self = nullptr;
  if (const int error = check_self(task, self); error != ALPI_SUCCESS) {
    return error;
  }
  if (has(alpi_test::kBlockFails) || is_parallel(*self)) {
    return ALPI_ERR_UNKNOWN;
  }
  Runtime::get().block(*self);
  return ALPI_SUCCESS;
}

#ifndef ALPI_TEST_NO_UNBLOCK
int alpi_task_unblock(alpi_task* task) {
  if (has(alpi_test::kNoBlocking)) {
    return kNoFeature;
  }
  if (task == nullptr) {
    return ALPI_ERR_PARAMETER;
  }
  if (has(alpi_test::kRefuseForeignUnblock) && Runtime::self() == nullptr) {
    return ALPI_ERR_OUTSIDE_TASK;
  }
  return error_of(Runtime::get().unblock(handle_from(task)));
}
#endif

int alpi_task_waitfor_ns(uint64_t target_ns, uint64_t* actual_ns) {
  if (has(alpi_test::kNoBlocking)) {
    return kNoFeature;
  }
  Task* self = Runtime::self();
  if (self == nullptr) {
    return ALPI_ERR_OUTSIDE_TASK;
  }
  const uint64_t actual = Runtime::get().wait_for(*self, target_ns);
  if (actual_ns != nullptr) {
    *actual_ns = actual;
  }
  return ALPI_SUCCESS;
}

// ---- Events ----

int alpi_task_events_increase(alpi_task* task, uint64_t increment) {
  if (has(alpi_test::kNoEvents)) {
    return kNoFeature;
  }
  Task* self = nullptr;
  if (const int error = check_self(task, self); error != ALPI_SUCCESS) {
    return error;
  }
  if (has(alpi_test::kIncreaseFails)) {
    return ALPI_ERR_UNKNOWN;
  }
  return Runtime::get().increase(*self, increment) ? ALPI_SUCCESS : ALPI_ERR_PARAMETER;
}

int alpi_task_events_decrease(alpi_task* task, uint64_t decrement) {
  if (has(alpi_test::kNoEvents)) {
    return kNoFeature;
  }
  if (task == nullptr) {
    return ALPI_ERR_PARAMETER;
  }
  if (has(alpi_test::kRefuseForeignDecrease) && Runtime::self() == nullptr) {
    return ALPI_ERR_OUTSIDE_TASK;
  }
  return decrement == 0 ? ALPI_SUCCESS
                        : error_of(Runtime::get().decrease(handle_from(task), decrement));
}

// ---- Attributes, tasks, CPUs ----

int alpi_attr_create(alpi_attr** attributes) {
  if (attributes == nullptr) {
    return ALPI_ERR_PARAMETER;
  }
  *attributes = new (std::nothrow) alpi_attr{kInitialised};
  return *attributes == nullptr ? ALPI_ERR_OUT_OF_MEMORY : ALPI_SUCCESS;
}

int alpi_attr_destroy(alpi_attr* attributes) {
  if (attributes == nullptr || attributes->initialised != kInitialised) {
    return ALPI_ERR_PARAMETER;
  }
  delete attributes;
  return ALPI_SUCCESS;
}

int alpi_attr_init(alpi_attr* attributes) {
  if (attributes == nullptr) {
    return ALPI_ERR_PARAMETER;
  }
  attributes->initialised = kInitialised;
  return ALPI_SUCCESS;
}

int alpi_attr_size(uint64_t* bytes) {
  if (bytes == nullptr) {
    return ALPI_ERR_PARAMETER;
  }
  *bytes = sizeof(alpi_attr);
  return ALPI_SUCCESS;
}

int alpi_task_spawn(void (*body)(void*), void* args, void (*completion)(void*),
                    void* completion_args, const char* label, const alpi_attr* attributes) {
  if (body == nullptr || completion == nullptr ||
      (attributes != nullptr && attributes->initialised != kInitialised)) {
    return ALPI_ERR_PARAMETER;
  }
  if (has(alpi_test::kSpawnFails)) {
    return ALPI_ERR_OUT_OF_MEMORY;
  }
  return error_of(Runtime::get().spawn({body, args, completion, completion_args, label}));
}

int alpi_cpu_count(uint64_t* count) {
  if (count == nullptr) {
    return ALPI_ERR_PARAMETER;
  }
  *count = Runtime::get().cpus();
  return ALPI_SUCCESS;
}

int alpi_cpu_logical_id(uint64_t* id) {
  if (id == nullptr) {
    return ALPI_ERR_PARAMETER;
  }
  if (Runtime::self() == nullptr) {
    return ALPI_ERR_OUTSIDE_TASK;
  }
  *id = Runtime::get().cpu();
  return ALPI_SUCCESS;
}

int alpi_cpu_system_id(uint64_t* id) {
  if (id == nullptr) {
    return ALPI_ERR_PARAMETER;
  }
  if (Runtime::self() == nullptr) {
    return ALPI_ERR_OUTSIDE_TASK;
  }
  const int cpu = sched_getcpu();
  if (cpu < 0) {
    return ALPI_ERR_UNKNOWN;
  }
  *id = static_cast<uint64_t>(cpu);
  return ALPI_SUCCESS;
}

// ---- Since 1.1 ----

#if ALPI_TEST_LEVEL >= 1
int alpi_task_events_test(alpi_task* task, uint64_t* has_events) {
  if (has(alpi_test::kNoEvents)) {
    return kNoFeature;
  }
  Task* self = nullptr;
  if (const int error = check_self(task, self); error != ALPI_SUCCESS) {
    return error;
  }
  if (has_events == nullptr) {
    return ALPI_ERR_PARAMETER;
  }
  *has_events = Runtime::has_events(*self) ? 1 : 0;
  return ALPI_SUCCESS;
}

int alpi_task_suspend_mode_set(alpi_task* task, int mode, uint64_t args) {
  Task* self = nullptr;
  if (const int error = check_self(task, self); error != ALPI_SUCCESS) {
    return error;
  }
  if (mode < ALPI_SUSPEND_NONE || mode > ALPI_SUSPEND_EVENT_SUBMIT) {
    return ALPI_ERR_PARAMETER;
  }
  self->suspend_mode = mode;
  self->suspend_args = args;
  return ALPI_SUCCESS;
}

int alpi_task_suspend(alpi_task* task) {
  Task* self = nullptr;
  if (const int error = check_self(task, self); error != ALPI_SUCCESS) {
    return error;
  }
  self->suspends = true;
  return ALPI_SUCCESS;
}
#endif

// ---- Since 1.2 ----

#if ALPI_TEST_LEVEL >= 2
int alpi_info_get(int query, char* buffer, size_t max_bytes, int* length) {
  constexpr std::array<std::string_view, 3> kTexts{"ALPI test provider", "Ioweave", "1"};
  if (query < 0 || static_cast<size_t>(query) >= kTexts.size() || buffer == nullptr ||
      max_bytes == 0) {
    return ALPI_ERR_PARAMETER;
  }
  const std::string_view text = kTexts[static_cast<size_t>(query)];
  const size_t written = std::min(text.size(), max_bytes - 1);
  std::memcpy(buffer, text.data(), written);
  buffer[written] = '\0';
  if (length != nullptr) {
    *length = static_cast<int>(written);
  }
  return ALPI_SUCCESS;
}

int alpi_feature_check(int mask) {
  int there = ALPI_FEATURE_RESOURCES | ALPI_FEATURE_SUSPEND;
  there |= has(alpi_test::kNoBlocking) ? 0 : ALPI_FEATURE_BLOCKING;
  there |= has(alpi_test::kNoEvents) ? 0 : ALPI_FEATURE_EVENTS;
  return (mask & ~there) == 0 ? ALPI_SUCCESS : ALPI_ERR_FEATURE_UNKNOWN;
}
#endif

// ---- nOS-V's own ----

#if ALPI_TEST_LEVEL >= 2
extern "C" __attribute__((visibility("default"))) int32_t nosv_get_task_degree(
    const alpi_task* /*task*/) {
  const Task* const self = Runtime::self();  // nobody asks for another
  return self != nullptr && is_parallel(*self) && !has(alpi_test::kParallelUnseen) ? 2 : 1;
}

extern "C" __attribute__((visibility("default"))) int nosv_yield(uint64_t /*flags*/) {
  Task* const self = Runtime::self();
  if (self == nullptr || !has(alpi_test::kYields)) {
    return -1;
  }
  Runtime::get().wait_for(*self, 0);
  return 0;
}
#endif

// ---- The provider's own ----

int alpi_test_start(unsigned cpus) {
  if (cpus == 0 || cpus > Runtime::kMostCpus) {
    return ALPI_ERR_PARAMETER;
  }
  return Runtime::get().start(cpus) ? ALPI_SUCCESS : ALPI_ERR_UNKNOWN;
}

void alpi_test_wait_idle() {
  Runtime::get().wait_idle();
}

void alpi_test_stop() {
  Runtime::get().stop();
}

void alpi_test_set_mode(const char* words) {
  alpi_test::set_modes(words);
}

void alpi_test_stats_get(struct alpi_test_stats* stats) {
  Runtime::get().read_stats(*stats);
}
