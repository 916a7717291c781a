// The ALPI test provider behaves as ALPI says: what the tests of Ioweave's tasks stand on.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/alpi_tasks.hpp"

namespace ioweave::test {
namespace {

using testing::ElementsAre;

/// Sleeps on a condition that another thread is to make true. The test's timeout is its limit.
template <typename Condition>
void wait_until(const Condition& condition) {
  while (!condition()) {
    std::this_thread::yield();
  }
}

/// What happened, in order.
class Log {
 public:
  void add(std::string what) {
    const std::lock_guard guard(lock_);
    entries_.push_back(std::move(what));
  }
  [[nodiscard]] std::vector<std::string> entries() const {
    const std::lock_guard guard(lock_);
    return entries_;
  }

 private:
  mutable std::mutex lock_;
  std::vector<std::string> entries_;
};

size_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

// ---- Versions, errors, arguments ----

TEST(AlpiProvider, SaysItsVersion) {
  int major = 0;
  int minor = 0;
  EXPECT_EQ(alpi_version_get(&major, &minor), ALPI_SUCCESS);
  EXPECT_EQ(major, 1);
  EXPECT_EQ(minor, 2);
  EXPECT_EQ(alpi_version_get(nullptr, &minor), ALPI_ERR_PARAMETER);
  EXPECT_EQ(alpi_version_check(1, 0), ALPI_SUCCESS);
  EXPECT_EQ(alpi_version_check(1, 2), ALPI_SUCCESS);
  EXPECT_EQ(alpi_version_check(1, 3), ALPI_ERR_VERSION);
  EXPECT_EQ(alpi_version_check(2, 0), ALPI_ERR_VERSION);
  EXPECT_EQ(alpi_version_check(0, 0), ALPI_ERR_VERSION);
}

TEST(AlpiProvider, HasATextForEachError) {
  std::vector<std::string> texts;
  for (int error = ALPI_SUCCESS; error <= ALPI_ERR_FEATURE_UNKNOWN + 1; ++error) {
    texts.emplace_back(alpi_error_string(error));
  }
  EXPECT_STREQ(alpi_error_string(-1), texts.back().c_str());
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::unique(texts.begin(), texts.end()), texts.end());
}

TEST(AlpiProvider, SaysWhatItIs) {
  std::array<char, 64> text{};
  int length = 0;
  ASSERT_EQ(alpi_info_get(ALPI_INFO_NAME, text.data(), text.size(), &length), ALPI_SUCCESS);
  EXPECT_STREQ(text.data(), "ALPI test provider");
  EXPECT_EQ(length, 18);
  ASSERT_EQ(alpi_info_get(ALPI_INFO_VENDOR, text.data(), 4, &length), ALPI_SUCCESS);
  EXPECT_STREQ(text.data(), "Iow");
  EXPECT_EQ(length, 3);
  EXPECT_EQ(alpi_info_get(ALPI_INFO_VERSION, text.data(), text.size(), nullptr), ALPI_SUCCESS);
  EXPECT_EQ(alpi_info_get(3, text.data(), text.size(), nullptr), ALPI_ERR_PARAMETER);
  EXPECT_EQ(alpi_info_get(ALPI_INFO_NAME, nullptr, 8, nullptr), ALPI_ERR_PARAMETER);
  EXPECT_EQ(alpi_feature_check(15), ALPI_SUCCESS);
  EXPECT_EQ(alpi_feature_check(ALPI_FEATURE_EVENTS | 16), ALPI_ERR_FEATURE_UNKNOWN);
}

TEST(AlpiProvider, RefusesWhatOnlyATaskMayDo) {
  const AlpiRuntime runtime(1);
  uint64_t number = 0;
  EXPECT_EQ(alpi_self(), nullptr);
  EXPECT_EQ(alpi_task_self(nullptr), ALPI_ERR_PARAMETER);
  EXPECT_EQ(alpi_task_block(nullptr), ALPI_ERR_OUTSIDE_TASK);
  EXPECT_EQ(alpi_task_waitfor_ns(1, &number), ALPI_ERR_OUTSIDE_TASK);
  EXPECT_EQ(alpi_task_events_increase(nullptr, 1), ALPI_ERR_OUTSIDE_TASK);
  EXPECT_EQ(alpi_task_events_test(nullptr, &number), ALPI_ERR_OUTSIDE_TASK);
  EXPECT_EQ(alpi_task_suspend(nullptr), ALPI_ERR_OUTSIDE_TASK);
  EXPECT_EQ(alpi_task_suspend_mode_set(nullptr, 0, 0), ALPI_ERR_OUTSIDE_TASK);
  EXPECT_EQ(alpi_cpu_logical_id(&number), ALPI_ERR_OUTSIDE_TASK);
  EXPECT_EQ(alpi_cpu_system_id(&number), ALPI_ERR_OUTSIDE_TASK);
  EXPECT_EQ(alpi_task_unblock(nullptr), ALPI_ERR_PARAMETER);
  EXPECT_EQ(alpi_task_events_decrease(nullptr, 1), ALPI_ERR_PARAMETER);
}

TEST(AlpiProvider, RefusesAnotherTasksHandle) {
  const AlpiRuntime runtime(1);
  std::atomic<alpi_task*> first{nullptr};
  spawn_alpi_task([&] {
    first = alpi_self();
    EXPECT_EQ(alpi_task_block(first), ALPI_SUCCESS);
  });
  spawn_alpi_task([&] {
    EXPECT_NE(alpi_self(), first.load());
    EXPECT_EQ(alpi_task_block(first), ALPI_ERR_PARAMETER);
    EXPECT_EQ(alpi_task_block(nullptr), ALPI_ERR_PARAMETER);
    EXPECT_EQ(alpi_task_events_increase(first, 1), ALPI_ERR_PARAMETER);
    EXPECT_EQ(alpi_task_suspend(first), ALPI_ERR_PARAMETER);
    EXPECT_EQ(alpi_task_unblock(first), ALPI_SUCCESS);
  });
}

TEST(AlpiProvider, RefusesToSpawnWithoutAFunction) {
  const auto nothing = [](void*) {};
  EXPECT_EQ(alpi_task_spawn(nullptr, nullptr, nothing, nullptr, "", nullptr), ALPI_ERR_PARAMETER);
  EXPECT_EQ(alpi_task_spawn(nothing, nullptr, nullptr, nullptr, "", nullptr), ALPI_ERR_PARAMETER);
}

TEST(AlpiProvider, TakesAttributes) {
  const AlpiRuntime runtime(1);
  uint64_t bytes = 0;
  ASSERT_EQ(alpi_attr_size(&bytes), ALPI_SUCCESS);
  std::vector<uint64_t> own((bytes + 7) / 8, 0);
  auto* attributes = reinterpret_cast<alpi_attr*>(own.data());
  const auto nothing = [](void*) {};
  EXPECT_EQ(alpi_task_spawn(nothing, nullptr, nothing, nullptr, nullptr, attributes),
            ALPI_ERR_PARAMETER)
      << "they were not initialised";
  EXPECT_EQ(alpi_attr_init(attributes), ALPI_SUCCESS);
  EXPECT_EQ(alpi_task_spawn(nothing, nullptr, nothing, nullptr, nullptr, attributes), ALPI_SUCCESS);
  ASSERT_EQ(alpi_attr_create(&attributes), ALPI_SUCCESS);
  EXPECT_EQ(alpi_task_spawn(nothing, nullptr, nothing, nullptr, nullptr, attributes), ALPI_SUCCESS);
  EXPECT_EQ(alpi_attr_destroy(attributes), ALPI_SUCCESS);
  EXPECT_EQ(alpi_attr_create(nullptr), ALPI_ERR_PARAMETER);
}

// ---- Start and stop ----

TEST(AlpiProvider, StartsOnceAndWithCpus) {
  EXPECT_EQ(alpi_test_start(0), ALPI_ERR_PARAMETER);
  EXPECT_EQ(alpi_test_start(4097), ALPI_ERR_PARAMETER);
  const AlpiRuntime runtime(3);
  EXPECT_EQ(alpi_test_start(1), ALPI_ERR_UNKNOWN);
  uint64_t count = 0;
  EXPECT_EQ(alpi_cpu_count(&count), ALPI_SUCCESS);
  EXPECT_EQ(count, 3U);
}

TEST(AlpiProvider, KnowsNoTaskBeforeTheStartAndAfterTheStop) {
  alpi_task* task = nullptr;
  {
    const AlpiRuntime runtime(1);
    spawn_alpi_task([&] { task = alpi_self(); });
  }
  EXPECT_EQ(alpi_task_unblock(task), ALPI_ERR_NOT_INITIALIZED);
  EXPECT_EQ(alpi_task_events_decrease(task, 1), ALPI_ERR_NOT_INITIALIZED);
}

TEST(AlpiProvider, FirstSpawnStartsItByTheEnvironment) {
  ASSERT_EQ(setenv("ALPI_TEST_CPUS", "5", 1), 0);
  std::atomic<bool> ran{false};
  uint64_t count = 0;
  EXPECT_EQ(alpi_cpu_count(&count), ALPI_SUCCESS);
  EXPECT_EQ(count, 5U) << "a program may ask before it spawns";
  EXPECT_EQ(spawn_alpi_task([&] { ran = true; }), ALPI_SUCCESS);
  EXPECT_EQ(alpi_cpu_count(&count), ALPI_SUCCESS);
  EXPECT_EQ(count, 5U);
  alpi_test_stop();
  EXPECT_TRUE(ran);
  ASSERT_EQ(unsetenv("ALPI_TEST_CPUS"), 0);
}

TEST(AlpiProvider, StopLeavesNoThread) {
  const auto run = [] {
    const AlpiRuntime runtime(4);
    for (int i = 0; i < 50; ++i) {
      spawn_alpi_task([] { alpi_task_waitfor_ns(1000, nullptr); });
    }
  };
  run();  // sanitizers start a thread of their own with the first
  const size_t before = threads_of_this_process();
  for (int i = 0; i < 20; ++i) {
    run();
  }
  // The kernel shows a thread for a moment after it was joined.
  wait_until([&] { return threads_of_this_process() == before; });
}

TEST(AlpiProvider, CountsFromTheStart) {
  for (int i = 0; i < 2; ++i) {
    const AlpiRuntime runtime(2);
    for (int task = 0; task < 10; ++task) {
      spawn_alpi_task([] {});
    }
    AlpiRuntime::wait_idle();
    EXPECT_EQ(AlpiRuntime::stats().tasks, 10U);
    EXPECT_LE(AlpiRuntime::stats().most_threads, 2U);
  }
}

// ---- Scheduling ----

TEST(AlpiProvider, RunsTasksInTheOrderOfTheirSpawn) {
  std::vector<int> order;  // one CPU, so one task at a time
  {
    const AlpiRuntime runtime(1);
    spawn_alpi_task([&] {
      for (int i = 0; i < 100; ++i) {
        spawn_alpi_task([&order, i] { order.push_back(i); });
      }
    });
  }
  ASSERT_EQ(order.size(), 100U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(AlpiProvider, ResumedTasksGoBeforeNewOnes) {
  Log log;
  {
    const AlpiRuntime runtime(1);
    std::array<alpi_task*, 2> sleepers{};
    for (size_t i = 0; i < sleepers.size(); ++i) {
      spawn_alpi_task([&, i] {
        sleepers[i] = alpi_self();
        alpi_task_block(sleepers[i]);
        log.add("resumed " + std::to_string(i));
      });
    }
    spawn_alpi_task([&] {
      spawn_alpi_task([&] { log.add("new"); });
      alpi_task_unblock(sleepers[1]);
      alpi_task_unblock(sleepers[0]);
      log.add("unblocked");
    });
  }
  EXPECT_THAT(log.entries(), ElementsAre("unblocked", "resumed 1", "resumed 0", "new"));
}

TEST(AlpiProvider, NeverRunsTwoTasksOnOneCpu) {
  constexpr unsigned kCpus = 3;
  const AlpiRuntime runtime(kCpus);
  std::array<std::atomic<int>, kCpus> running{};
  std::atomic<int> clashes{0};
  const auto work = [&] {
    uint64_t cpu = kCpus;
    EXPECT_EQ(alpi_cpu_logical_id(&cpu), ALPI_SUCCESS);
    ASSERT_LT(cpu, kCpus);
    clashes += running[cpu]++ != 0;
    std::this_thread::yield();
    running[cpu]--;
  };
  for (int i = 0; i < 200; ++i) {
    spawn_alpi_task([&] {
      for (int round = 0; round < 20; ++round) {
        work();
        alpi_task_waitfor_ns(static_cast<uint64_t>(round % 3) * 1000, nullptr);
      }
    });
  }
  AlpiRuntime::wait_idle();
  EXPECT_EQ(clashes, 0);
  EXPECT_EQ(AlpiRuntime::stats().tasks, 200U);
}

TEST(AlpiProvider, SaysTheSystemsCpu) {
  const AlpiRuntime runtime(1);
  spawn_alpi_task([] {
    uint64_t cpu = UINT64_MAX;
    EXPECT_EQ(alpi_cpu_system_id(&cpu), ALPI_SUCCESS);
    EXPECT_LT(cpu, static_cast<uint64_t>(sysconf(_SC_NPROCESSORS_CONF)));
  });
}

// ---- Blocking ----

TEST(AlpiProvider, UnblockBeforeBlockLetsItReturnAtOnce) {
  const AlpiRuntime runtime(1);
  spawn_alpi_task([] {
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(alpi_task_unblock(alpi_self()), ALPI_SUCCESS);
      EXPECT_EQ(alpi_task_block(alpi_self()), ALPI_SUCCESS);
    }
  });
  AlpiRuntime::wait_idle();
  const alpi_test_stats stats = AlpiRuntime::stats();
  EXPECT_EQ(stats.blocks, 3U);
  EXPECT_EQ(stats.unblocks, 3U);
  EXPECT_EQ(stats.sleeps, 0U);
  EXPECT_EQ(stats.foreign_unblocks, 0U);
}

TEST(AlpiProvider, BlockedTaskLeavesItsCpuToOthersAndKeepsItsThread) {
  const AlpiRuntime runtime(1);
  alpi_task* sleeper = nullptr;
  std::thread::id thread;
  spawn_alpi_task([&] {
    sleeper = alpi_self();
    thread = std::this_thread::get_id();
    EXPECT_EQ(alpi_task_block(sleeper), ALPI_SUCCESS);
    EXPECT_EQ(std::this_thread::get_id(), thread);
    EXPECT_EQ(alpi_self(), sleeper);
  });
  spawn_alpi_task([&] {
    EXPECT_NE(std::this_thread::get_id(), thread);
    EXPECT_EQ(alpi_task_unblock(sleeper), ALPI_SUCCESS);
  });
  AlpiRuntime::wait_idle();
  const alpi_test_stats stats = AlpiRuntime::stats();
  EXPECT_EQ(stats.sleeps, 1U);
  EXPECT_EQ(stats.most_blocked, 1U);
  EXPECT_EQ(stats.most_threads, 2U);
}

TEST(AlpiProvider, EachBlockedTaskHoldsAThreadThatIsUsedAgain) {
  constexpr size_t kTasks = 100;
  const AlpiRuntime runtime(2);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::atomic<alpi_task*>> tasks(kTasks);
    for (auto& task : tasks) {
      spawn_alpi_task([&task] {
        task = alpi_self();
        alpi_task_block(alpi_self());
      });
    }
    const auto asleep = (static_cast<uint64_t>(round) + 1) * kTasks;
    wait_until([&] { return AlpiRuntime::stats().sleeps == asleep; });
    for (const auto& task : tasks) {
      EXPECT_EQ(alpi_task_unblock(task), ALPI_SUCCESS);
    }
    AlpiRuntime::wait_idle();
  }
  const alpi_test_stats stats = AlpiRuntime::stats();
  EXPECT_EQ(stats.most_blocked, kTasks);
  EXPECT_GE(stats.most_threads, kTasks);
  EXPECT_LE(stats.most_threads, kTasks + 2);
  EXPECT_EQ(stats.foreign_unblocks, 3 * kTasks);
}

TEST(AlpiProvider, ResumedTaskMayBeOnAnotherCpu) {
  const AlpiRuntime runtime(2);
  std::atomic<alpi_task*> sleeper{nullptr};
  std::atomic<bool> others_end{false};
  std::atomic<bool> last_ends{false};
  std::atomic<uint64_t> before{0};
  uint64_t after = 0;
  spawn_alpi_task([&] {
    uint64_t cpu = 0;
    EXPECT_EQ(alpi_cpu_logical_id(&cpu), ALPI_SUCCESS);
    before = cpu;
    sleeper = alpi_self();
    EXPECT_EQ(alpi_task_block(alpi_self()), ALPI_SUCCESS);
    EXPECT_EQ(alpi_cpu_logical_id(&after), ALPI_SUCCESS);
    last_ends = true;
  });
  wait_until([&] { return AlpiRuntime::stats().sleeps == 1; });
  // Both CPUs are taken. Only the one that the sleeper did not have becomes free.
  std::atomic<int> started{0};
  for (int i = 0; i < 2; ++i) {
    spawn_alpi_task([&] {
      uint64_t cpu = 0;
      EXPECT_EQ(alpi_cpu_logical_id(&cpu), ALPI_SUCCESS);
      ++started;
      wait_until([&] { return cpu == before ? last_ends.load() : others_end.load(); });
    });
  }
  wait_until([&] { return started == 2; });
  EXPECT_EQ(alpi_task_unblock(sleeper), ALPI_SUCCESS);
  others_end = true;
  AlpiRuntime::wait_idle();
  EXPECT_NE(before, after);
}

TEST(AlpiProvider, WaitForLetsOthersRunAndWaitsLongEnough) {
  for (const uint64_t wait_ns : {uint64_t{0}, uint64_t{100'000}}) {
    const AlpiRuntime runtime(1);
    bool other_ran = false;
    spawn_alpi_task([&] {
      spawn_alpi_task([&] { other_ran = true; });
      while (!other_ran) {  // for ever, if the CPU were kept
        uint64_t actual = 0;
        EXPECT_EQ(alpi_task_waitfor_ns(wait_ns, &actual), ALPI_SUCCESS);
        EXPECT_GE(actual, wait_ns);
      }
    });
  }
}

// ---- Events ----

TEST(AlpiProvider, CompletesWhenBodyAndEventsAreDone) {
  const AlpiRuntime runtime(1);
  std::atomic<alpi_task*> task{nullptr};
  std::thread::id completed_on;
  std::atomic<bool> completed{false};
  spawn_alpi_task(
      [&] {
        EXPECT_EQ(alpi_task_events_increase(alpi_self(), 3), ALPI_SUCCESS);
        task = alpi_self();
      },
      [&] {
        completed_on = std::this_thread::get_id();
        completed = true;
      });
  wait_until([&] { return task != nullptr; });
  std::atomic<bool> next_ran{false};
  spawn_alpi_task([&] { next_ran = true; });  // the only CPU is free again, so the body has ended
  wait_until([&] { return next_ran.load(); });
  EXPECT_EQ(alpi_task_events_decrease(task, 2), ALPI_SUCCESS);
  EXPECT_FALSE(completed);
  EXPECT_EQ(alpi_task_events_decrease(task, 0), ALPI_SUCCESS);
  EXPECT_FALSE(completed);
  EXPECT_EQ(alpi_task_events_decrease(task, 1), ALPI_SUCCESS);
  EXPECT_TRUE(completed);
  EXPECT_EQ(completed_on, std::this_thread::get_id());
  const alpi_test_stats stats = AlpiRuntime::stats();
  EXPECT_EQ(stats.increases, 3U);
  EXPECT_EQ(stats.decreases, 3U);
  EXPECT_EQ(stats.foreign_decreases, 2U);
}

TEST(AlpiProvider, BodyCountsAsAnEvent) {
  const AlpiRuntime runtime(1);
  bool body_ended = false;
  spawn_alpi_task(
      [&] {
        uint64_t has = 7;
        EXPECT_EQ(alpi_task_events_test(alpi_self(), &has), ALPI_SUCCESS);
        EXPECT_EQ(has, 0U);
        alpi_task_events_increase(alpi_self(), 1);
        EXPECT_EQ(alpi_task_events_test(alpi_self(), &has), ALPI_SUCCESS);
        EXPECT_EQ(has, 1U);
        EXPECT_EQ(alpi_task_events_test(alpi_self(), nullptr), ALPI_ERR_PARAMETER);
        alpi_task_events_decrease(alpi_self(), 1);
        EXPECT_EQ(alpi_task_events_test(alpi_self(), &has), ALPI_SUCCESS);
        EXPECT_EQ(has, 0U);
        EXPECT_EQ(alpi_task_events_increase(alpi_self(), 1ull << 40), ALPI_ERR_PARAMETER);
        body_ended = true;
      },
      [&] { EXPECT_TRUE(body_ended); });
}

TEST(AlpiProvider, ManyThreadsMayDecreaseAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kTasks = 20;
  constexpr uint64_t kEach = 10'000;
  const AlpiRuntime runtime(2);
  std::atomic<int> completions{0};
  std::vector<std::atomic<alpi_task*>> tasks(kTasks);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (auto& task : tasks) {
        wait_until([&] { return task != nullptr; });
        for (uint64_t event = 0; event < kEach; ++event) {
          ASSERT_EQ(alpi_task_events_decrease(task, 1), ALPI_SUCCESS);
        }
      }
    });
  }
  for (auto& task : tasks) {
    spawn_alpi_task(
        [&] {
          EXPECT_EQ(alpi_task_events_increase(alpi_self(), kThreads * kEach), ALPI_SUCCESS);
          task = alpi_self();
        },
        [&] { ++completions; });
  }
  AlpiRuntime::wait_idle();
  EXPECT_EQ(completions, kTasks);
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(AlpiRuntime::stats().decreases, kTasks * kThreads * kEach);
}

TEST(AlpiProvider, CompletionMaySpawnTheSuccessor) {
  constexpr int kLength = 1000;
  const AlpiRuntime runtime(2);
  std::atomic<int> runs{0};
  std::function<void()> next = [&] {
    if (++runs < kLength) {
      spawn_alpi_task([] {}, next);
    }
  };
  spawn_alpi_task([] {}, next);
  AlpiRuntime::wait_idle();
  EXPECT_EQ(runs, kLength);
}

// ---- Suspension ----

TEST(AlpiProvider, SuspendedTaskRunsItsBodyAgain) {
  for (const int mode : {ALPI_SUSPEND_SUBMIT, ALPI_SUSPEND_TIMEOUT_SUBMIT}) {
    Log log;
    {
      const AlpiRuntime runtime(1);
      int runs = 0;
      spawn_alpi_task(
          [&] {
            log.add("body");
            if (++runs < 3) {
              EXPECT_EQ(alpi_task_suspend_mode_set(alpi_self(), mode, 1000), ALPI_SUCCESS);
              EXPECT_EQ(alpi_task_suspend(alpi_self()), ALPI_SUCCESS);
            }
          },
          [&] { log.add("completed"); });
      AlpiRuntime::wait_idle();
      EXPECT_EQ(AlpiRuntime::stats().most_threads, 1U) << "a suspended task holds none";
    }
    EXPECT_THAT(log.entries(), ElementsAre("body", "body", "body", "completed"));
  }
}

TEST(AlpiProvider, TaskSuspendedForItsEventsRunsAgainWhenTheyAreGone) {
  Log log;
  {
    const AlpiRuntime runtime(1);
    std::atomic<alpi_task*> task{nullptr};
    spawn_alpi_task(
        [&] {
          log.add("body");
          if (task == nullptr) {
            alpi_task_events_increase(alpi_self(), 1);
            alpi_task_suspend_mode_set(alpi_self(), ALPI_SUSPEND_EVENT_SUBMIT, 0);
            alpi_task_suspend(alpi_self());
            task = alpi_self();
          }
        },
        [&] { log.add("completed"); });
    wait_until([&] { return task != nullptr; });
    log.add("decrease");
    EXPECT_EQ(alpi_task_events_decrease(task, 1), ALPI_SUCCESS);
  }
  EXPECT_THAT(log.entries(), ElementsAre("body", "decrease", "body", "completed"));
}

TEST(AlpiProvider, SuspendedTaskWaitsForItsUnblock) {
  constexpr int kRuns = 1000;
  const AlpiRuntime runtime(2);
  std::atomic<alpi_task*> task{nullptr};
  std::atomic<int> runs{0};
  spawn_alpi_task([&] {
    EXPECT_EQ(alpi_task_suspend_mode_set(alpi_self(), ALPI_SUSPEND_NONE, 0), ALPI_SUCCESS);
    EXPECT_EQ(alpi_task_suspend_mode_set(alpi_self(), 4, 0), ALPI_ERR_PARAMETER);
    task = alpi_self();
    if (++runs < kRuns) {
      alpi_task_suspend(alpi_self());
    }
  });
  wait_until([&] { return task != nullptr; });
  for (int i = 1; i < kRuns; ++i) {
    EXPECT_EQ(alpi_task_unblock(task), ALPI_SUCCESS);  // before or after the end of the body
    wait_until([&] { return runs == i + 1; });
  }
  AlpiRuntime::wait_idle();
  EXPECT_EQ(AlpiRuntime::stats().tasks, 1U);
}

}  // namespace
}  // namespace ioweave::test
