#pragma once

// Tasks of the ALPI test provider with C++ closures. Needs a link to alpi_test or one of its kind.

#include <functional>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "support/alpi_provider/alpi.h"
#include "support/alpi_provider/alpi_test.h"

namespace ioweave::test {

/// The runtime from construction to destruction, with fault modes that end with it.
class AlpiRuntime {
 public:
  explicit AlpiRuntime(unsigned cpus, const char* modes = "") {
    alpi_test_set_mode(modes);
    EXPECT_EQ(alpi_test_start(cpus), ALPI_SUCCESS);
  }
  /// Waits for all tasks, with the modes still on.
  ~AlpiRuntime() {
    alpi_test_stop();
    alpi_test_set_mode("");
  }
  AlpiRuntime(const AlpiRuntime&) = delete;
  AlpiRuntime& operator=(const AlpiRuntime&) = delete;

  static void wait_idle() { alpi_test_wait_idle(); }
  [[nodiscard]] static alpi_test_stats stats() {
    alpi_test_stats stats{};
    alpi_test_stats_get(&stats);
    return stats;
  }
};

/// Null outside a task.
[[nodiscard]] inline alpi_task* alpi_self() {
  alpi_task* task = nullptr;
  EXPECT_EQ(alpi_task_self(&task), ALPI_SUCCESS);
  return task;
}

/// Returns what alpi_task_spawn() does. `completed`, if any, runs when the task completes.
inline int spawn_alpi_task(std::function<void()> body, std::function<void()> completed = nullptr,
                           const char* label = "a test's") {
  struct Closures {
    std::function<void()> body, completed;
  };
  auto closures = std::make_unique<Closures>(Closures{std::move(body), std::move(completed)});
  const int error =
      alpi_task_spawn([](void* user) { static_cast<Closures*>(user)->body(); }, closures.get(),
                      [](void* user) {
                        const std::unique_ptr<Closures> mine(static_cast<Closures*>(user));
                        if (mine->completed) {
                          mine->completed();
                        }
                      },
                      closures.get(), label, nullptr);
  if (error == ALPI_SUCCESS) {
    static_cast<void>(closures.release());  // the completion's from here
  }
  return error;
}

}  // namespace ioweave::test
