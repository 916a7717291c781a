// Which task runtime the library finds in a process, and what it says and does without one. Each
// case is a child of its own: a runtime is loaded there, or none is.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>

#include <gtest/gtest.h>
#include <semaphore.h>

#include "ioweave/tasks.h"
#include "support/alpi_provider/alpi.h"
#include "support/child.hpp"
#include "support/temp_file.hpp"

namespace ioweave::test {
namespace {

struct Runtime {
  const char* library;  ///< null: none is loaded
  const char* modes = "";
  iow_tasks asked = IOW_TASKS_AUTO;
};
struct Expected {
  std::string name;
  std::string why;  ///< is part of the reason; "" where there is to be none
  bool pauses = false;
  bool binds = false;
};

/// In the child: 1 with a line on standard error unless `right`.
int check(bool right, const std::string& what) {
  if (!right) {
    std::fprintf(stderr, "not so: %s\n", what.c_str());
  }
  return right ? 0 : 1;
}

/// What one task finds.
struct OneTask {
  iow_service* service;
  int fd;
  void* buffer;
  ssize_t blocking = 4711;
  int bound = 4711;
  ssize_t bound_result = 4711;
  sem_t completed{};
};

void run_task(void* user) {
  auto& task = *static_cast<OneTask*>(user);
  task.blocking = iow_pread(task.service, task.fd, task.buffer, 4096, 0);
  task.bound = iow_ta_pread(task.service, task.fd, task.buffer, 4096, 4096, &task.bound_result);
}

int use_in_a_task(const Expected& expected, iow_service* service, void* library) {
  const TempFile file(16384, O_RDWR | O_DIRECT);
  if (file.fd() < 0) {
    return 77;
  }
  const std::unique_ptr<void, decltype(&std::free)> buffer(std::aligned_alloc(4096, 4096),
                                                           &std::free);
  OneTask task{service, file.fd(), buffer.get()};
  ::sem_init(&task.completed, 0, 0);
  const auto spawn =
      reinterpret_cast<decltype(&alpi_task_spawn)>(::dlsym(library, "alpi_task_spawn"));
  const int spawned = spawn(
      &run_task, &task, [](void* user) { ::sem_post(&static_cast<OneTask*>(user)->completed); },
      &task, "a test's", nullptr);
  if (check(spawned == 0, "the task is spawned") != 0) {
    return 1;
  }
  while (::sem_wait(&task.completed) != 0) {
  }
  iow_task_stats stats{};
  stats.size = sizeof stats;
  static_cast<void>(iow_service_task_stats(service, &stats));
  const bool bound_right = expected.binds ? task.bound == 0 && task.bound_result == 4096
                                          : task.bound == -ESRCH && task.bound_result == -ESRCH;
  return check(task.blocking == 4096, "the blocking call reads") |
         check(stats.pauses == (expected.pauses ? 1 : 0), "pauses") |
         check(stats.bound == (expected.binds ? 1 : 0), "transfers bound") |
         check(bound_right, "result of the bound call");
}

int open_and_use(const Runtime& runtime, const Expected& expected) {
  ::setenv("ALPI_TEST_MODE", runtime.modes, 1);
  ::setenv("ALPI_TEST_CPUS", "2", 1);
  void* library = nullptr;
  if (runtime.library != nullptr) {
    library = ::dlopen(runtime.library, RTLD_NOW | RTLD_GLOBAL);
    if (check(library != nullptr, "the runtime is loaded") != 0) {
      return 1;
    }
  }
  iow_options options{};
  options.tasks = runtime.asked;
  iow_service* service = nullptr;
  if (check(iow_service_open(&service, &options, nullptr) == 0, "the service opens") != 0) {
    return 1;
  }
  const char* why = nullptr;
  const std::string name = iow_service_tasks(service, &why);
  int failed =
      check(name == expected.name, "the name is " + expected.name + ", not " + name) |
      check(expected.why.empty() ? *why == '\0' : std::strstr(why, expected.why.c_str()) != nullptr,
            std::string("the reason \"") + why + "\" has \"" + expected.why + "\"");
  if (library != nullptr) {
    failed |= use_in_a_task(expected, service, library);
  }
  iow_service_close(service);
  return failed;
}

void expect(const Runtime& runtime, const Expected& expected) {
  const int code = run_in_child([&] { return open_and_use(runtime, expected); });
  if (code == 77) {
    GTEST_SKIP() << "the file system of the temporary directory has no O_DIRECT";
  }
  EXPECT_EQ(code, 0);
}

/// `required` does not open without the runtime, and says why.
void expect_refused(const Runtime& runtime, const std::string& reason) {
  const int code = run_in_child([&] {
    ::setenv("ALPI_TEST_MODE", runtime.modes, 1);
    if (runtime.library != nullptr) {
      static_cast<void>(::dlopen(runtime.library, RTLD_NOW | RTLD_GLOBAL));
    }
    iow_options options{};
    options.tasks = runtime.asked;
    options.required = 1;
    options.engine = IOW_ENGINE_THREADS;  // which there always is
    iow_service* service = nullptr;
    char* text = nullptr;
    const int error = iow_service_open(&service, &options, &text);
    const std::string said = text != nullptr ? text : "";
    std::free(text);
    return check(error == -EOPNOTSUPP, "refused, not " + std::to_string(error)) |
           check(service == nullptr, "no service") |
           check(said.find(reason) != std::string::npos, said + " has " + reason);
  });
  EXPECT_EQ(code, 0);
}

TEST(TaskRuntime, OneOfEachMinorVersionIsUsed) {
  expect({ALPI_TEST_1_0}, {"ALPI 1.0", "", true, true});
  expect({ALPI_TEST_1_1}, {"ALPI 1.1", "", true, true});
  expect({ALPI_TEST_1_2}, {"ALPI 1.2 (ALPI test provider 1)", "", true, true});
}

TEST(TaskRuntime, AnotherMajorVersionIsNot) {
  expect({ALPI_TEST_MAJOR2}, {"none", "ALPI 2.0; Ioweave knows 1.0 to 1.2"});
  expect_refused({ALPI_TEST_MAJOR2, "", IOW_TASKS_ALPI}, "ALPI 2.0");
}

TEST(TaskRuntime, WithoutUnblockTheTransfersCanBeBound) {
  expect({ALPI_TEST_NO_UNBLOCK},
         {"ALPI 1.2 (ALPI test provider 1)", "cannot pause tasks", false, true});
}

TEST(TaskRuntime, WithoutAFeatureTheOtherIsUsed) {
  const std::string name = "ALPI 1.2 (ALPI test provider 1)";
  expect({ALPI_TEST_1_2, "no_blocking"}, {name, "cannot pause tasks", false, true});
  expect({ALPI_TEST_1_2, "no_events"}, {name, "counts no events", true, false});
}

TEST(TaskRuntime, WithNeitherItIsNotUsed) {
  expect({ALPI_TEST_1_2, "no_blocking,no_events"},
         {"none", "can neither pause tasks nor count their events"});
  expect_refused({ALPI_TEST_1_2, "no_blocking,no_events", IOW_TASKS_ALPI}, "can neither pause");
}

TEST(TaskRuntime, ThatIsNotLoadedIsNamedWithTheWayOut) {
  expect({nullptr}, {"none", "no ALPI runtime is loaded in this process: link the program"});
  expect({nullptr, "", IOW_TASKS_ALPI}, {"none", "no ALPI runtime is loaded"});
  expect({nullptr, "", IOW_TASKS_TBB}, {"none", "oneTBB is not loaded"});
  expect_refused({nullptr, "", IOW_TASKS_ALPI}, "no ALPI runtime is loaded");
  expect_refused({nullptr, "", IOW_TASKS_TBB}, "oneTBB is not loaded");
}

TEST(TaskRuntime, ThatIsNotWantedIsNotUsed) {
  expect({ALPI_TEST_1_2, "", IOW_TASKS_NONE}, {"none", ""});
}

}  // namespace
}  // namespace ioweave::test
