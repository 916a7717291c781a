// The fault modes of the ALPI test provider do what alpi_test.h says, and misuse is seen.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>

#include "support/alpi_tasks.hpp"

#if defined(__SANITIZE_THREAD__)
#define IOWEAVE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define IOWEAVE_TSAN 1
#endif
#endif

namespace ioweave::test {
namespace {

void wait_until_set(const std::atomic<bool>& flag) {
  while (!flag.load(std::memory_order_relaxed)) {
    std::this_thread::yield();
  }
}

/// Runs `body` as the only task of a runtime with one CPU.
void run_task(const char* modes, const std::function<void()>& body) {
  const AlpiRuntime runtime(1, modes);
  ASSERT_EQ(spawn_alpi_task(body), ALPI_SUCCESS);
  AlpiRuntime::wait_idle();
}

// What ends a program does so in one of its own, which starts from main() (the runtime has
// threads).
class AlpiModesDeathTest : public testing::Test {
 protected:
  AlpiModesDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// ---- Words ----

TEST_F(AlpiModesDeathTest, UnknownWordEndsTheProgram) {
  EXPECT_DEATH(alpi_test_set_mode("relaxed,late_unblok"),
               "alpi_test: unknown mode \"late_unblok\"; the modes are late_unblock, ");
  ASSERT_EQ(setenv("ALPI_TEST_MODE", "nonsense", 1), 0);
  EXPECT_DEATH(std::exit(0), "alpi_test: unknown mode \"nonsense\"");
  ASSERT_EQ(unsetenv("ALPI_TEST_MODE"), 0);
}

TEST_F(AlpiModesDeathTest, EnvironmentSetsThem) {
  ASSERT_EQ(setenv("ALPI_TEST_MODE", "spawn_fails,relaxed", 1), 0);
  EXPECT_EXIT(std::exit(spawn_alpi_task([] {})), testing::ExitedWithCode(ALPI_ERR_OUT_OF_MEMORY),
              "");
  ASSERT_EQ(unsetenv("ALPI_TEST_MODE"), 0);
}

TEST_F(AlpiModesDeathTest, CpusOfTheEnvironmentMustBeANumber) {
  for (const char* wrong : {"many", "0", "-1", "4097", "2x", ""}) {
    ASSERT_EQ(setenv("ALPI_TEST_CPUS", wrong, 1), 0);
    EXPECT_DEATH(static_cast<void>(spawn_alpi_task([] {})), "alpi_test: ALPI_TEST_CPUS is ");
  }
  ASSERT_EQ(unsetenv("ALPI_TEST_CPUS"), 0);
}

// ---- Misuse ----

TEST_F(AlpiModesDeathTest, SecondUnblockBeforeABlockEndsTheProgram) {
  EXPECT_DEATH(run_task("",
                        [] {
                          alpi_task_unblock(alpi_self());
                          alpi_task_unblock(alpi_self());
                        }),
               "misuse of ALPI: a second unblock before a block \\(task \"a test's\"\\)");
}

TEST_F(AlpiModesDeathTest, UnmatchedUnblockEndsTheProgram) {
  EXPECT_DEATH(run_task("assert_double_unblock", [] { alpi_task_unblock(alpi_self()); }),
               "ended with an unblock that no block matched");
}

TEST_F(AlpiModesDeathTest, UseOfATaskThatIsDoneEndsTheProgram) {
  const auto use_old = [](int (*use)(alpi_task*)) {
    const AlpiRuntime runtime(1);
    alpi_task* old = nullptr;
    spawn_alpi_task([&] { old = alpi_self(); });
    AlpiRuntime::wait_idle();
    spawn_alpi_task([] { alpi_task_waitfor_ns(1, nullptr); });  // has the old one's memory
    use(old);
  };
  EXPECT_DEATH(use_old([](alpi_task* task) { return alpi_task_unblock(task); }),
               "an unblock of a task that is done");
  EXPECT_DEATH(use_old([](alpi_task* task) { return alpi_task_events_decrease(task, 1); }),
               "a decrease of events of a task that is done");
  EXPECT_DEATH(use_old([](alpi_task*) {
                 uint64_t no_task = ~uint64_t{0};
                 return alpi_task_unblock(reinterpret_cast<alpi_task*>(no_task));
               }),
               "an unblock of what is no task");
}

TEST_F(AlpiModesDeathTest, TooLargeADecreaseEndsTheProgram) {
  EXPECT_DEATH(run_task("",
                        [] {
                          alpi_task_events_increase(alpi_self(), 1);
                          alpi_task_events_decrease(alpi_self(), 2);
                        }),
               "a decrease by more events than the task has");
}

TEST_F(AlpiModesDeathTest, WaitingForItselfEndsTheProgram) {
  EXPECT_DEATH(run_task("", [] { alpi_test_wait_idle(); }), "would wait for themselves");
}

TEST(AlpiModes, CountMisuseReturnsAnErrorInstead) {
  const AlpiRuntime runtime(1, "count_misuse");
  alpi_task* task = nullptr;
  spawn_alpi_task([&] {
    task = alpi_self();
    EXPECT_EQ(alpi_task_unblock(task), ALPI_SUCCESS);
    EXPECT_EQ(alpi_task_unblock(task), ALPI_ERR_PARAMETER);
    EXPECT_EQ(alpi_task_block(task), ALPI_SUCCESS);
    EXPECT_EQ(alpi_task_events_decrease(task, 1), ALPI_ERR_PARAMETER);
  });
  AlpiRuntime::wait_idle();
  EXPECT_EQ(alpi_task_unblock(task), ALPI_ERR_PARAMETER);
  EXPECT_EQ(alpi_task_events_decrease(task, 1), ALPI_ERR_PARAMETER);
  EXPECT_EQ(AlpiRuntime::stats().misuses, 4U);
  EXPECT_EQ(AlpiRuntime::stats().unblocks, 1U);
}

// ---- Orders that are allowed but rare ----

TEST(AlpiModes, LateUnblockComesAfterTheCall) {
  constexpr uint64_t kPairs = 200;
  run_task("late_unblock", [] {
    for (uint64_t i = 0; i < kPairs; ++i) {
      EXPECT_EQ(alpi_task_unblock(alpi_self()), ALPI_SUCCESS);
      EXPECT_EQ(alpi_task_block(alpi_self()), ALPI_SUCCESS);
    }
  });
  // Without the mode none sleeps; with it one does unless the delay is next to nothing.
  const alpi_test_stats stats = AlpiRuntime::stats();
  EXPECT_GT(stats.sleeps, 0U);
  EXPECT_EQ(stats.blocks, kPairs);
  EXPECT_EQ(stats.unblocks, kPairs);
}

TEST(AlpiModes, ImmediateUnblockRunsTheTaskWithoutAFreeCpu) {
  for (const bool foreign : {false, true}) {
    const AlpiRuntime runtime(1, "immediate_unblock");
    alpi_task* sleeper = nullptr;
    std::atomic<bool> completed{false};
    std::atomic<bool> unblocked{false};
    std::atomic<bool> cpu_taken{false};
    spawn_alpi_task(
        [&] {
          sleeper = alpi_self();
          EXPECT_EQ(alpi_task_block(sleeper), ALPI_SUCCESS);
        },
        [&] { completed = true; });
    spawn_alpi_task([&] {
      cpu_taken = true;
      if (foreign) {
        wait_until_set(unblocked);
      } else {
        EXPECT_EQ(alpi_task_unblock(sleeper), ALPI_SUCCESS);
      }
      wait_until_set(completed);  // this task has the only CPU: for ever, without the mode
    });
    if (foreign) {
      while (!cpu_taken) {
        std::this_thread::yield();
      }
      EXPECT_EQ(alpi_task_unblock(sleeper), ALPI_SUCCESS);
      unblocked = true;
    }
    AlpiRuntime::wait_idle();
    EXPECT_EQ(AlpiRuntime::stats().extra_cpus, 1U);
  }
}

TEST(AlpiModes, ExtraCpuIsGoneWhenTheTaskEnds) {
  const AlpiRuntime runtime(1, "immediate_unblock");
  alpi_task* sleeper = nullptr;
  spawn_alpi_task([&] {
    sleeper = alpi_self();
    alpi_task_block(sleeper);
  });
  spawn_alpi_task([&] { alpi_task_unblock(sleeper); });
  AlpiRuntime::wait_idle();
  std::atomic<int> running{0};
  std::atomic<int> clashes{0};
  for (int task = 0; task < 20; ++task) {
    spawn_alpi_task([&] {
      clashes += running++ != 0;
      for (int i = 0; i < 1000; ++i) {
        std::this_thread::yield();
      }
      --running;
    });
  }
  AlpiRuntime::wait_idle();
  EXPECT_EQ(clashes, 0);
}

TEST(AlpiModes, ImmediateUnblockLetsTheTaskRunOnBeforeItReturns) {
  // The unblock waits a limited time, so this counts: without the mode none has run on, as the
  // unblocking task has the only CPU.
  constexpr int kTries = 50;
  int ran_on = 0;
  for (int i = 0; i < kTries; ++i) {
    const AlpiRuntime runtime(1, "immediate_unblock");
    alpi_task* sleeper = nullptr;
    std::atomic<bool> resumed{false};
    spawn_alpi_task([&] {
      sleeper = alpi_self();
      alpi_task_block(sleeper);
      resumed = true;
    });
    spawn_alpi_task([&] {
      alpi_task_unblock(sleeper);
      ran_on += resumed;
    });
  }
  EXPECT_GT(ran_on, 0);
}

TEST(AlpiModes, OrdersMayBeCombined) {
  constexpr int kTasks = 50;
  constexpr int kBlocks = 20;
  for (const char* modes :
       {"late_unblock,immediate_unblock", "late_unblock,relaxed", "immediate_unblock,relaxed",
        "late_unblock,immediate_unblock,relaxed"}) {
    const AlpiRuntime runtime(2, modes);
    for (int task = 0; task < kTasks; ++task) {
      spawn_alpi_task([] {
        for (int i = 0; i < kBlocks; ++i) {
          alpi_task* const self = alpi_self();
          std::thread helper([self] { EXPECT_EQ(alpi_task_unblock(self), ALPI_SUCCESS); });
          EXPECT_EQ(alpi_task_block(self), ALPI_SUCCESS);
          helper.join();
        }
      });
    }
    AlpiRuntime::wait_idle();
    EXPECT_EQ(AlpiRuntime::stats().blocks, uint64_t{kTasks} * kBlocks) << modes;
    EXPECT_EQ(AlpiRuntime::stats().foreign_unblocks, uint64_t{kTasks} * kBlocks) << modes;
  }
}

// ---- Ordering, as ThreadSanitizer sees it ----

/// Alone in its cache line: ThreadSanitizer remembers four accesses for each eight bytes, and the
/// write would be forgotten if a thread spun on a flag beside it.
struct alignas(64) Lonely {
  int value = 0;
};

/// A foreign thread writes a plain variable and unblocks the task, which reads it.
void hand_over_by_unblock(const char* modes) {
  Lonely result;
  run_task(modes, [&result] {
    std::atomic<bool> goes{false};
    alpi_task* const self = alpi_self();
    std::thread helper([&, self] {
      wait_until_set(goes);
      result.value = 1;
      alpi_task_unblock(self);
    });
    goes.store(true, std::memory_order_relaxed);
    alpi_task_block(self);
    const bool right = result.value == 1;
    helper.join();
    if (!right) {
      std::exit(1);
    }
  });
  std::exit(0);
}

/// A foreign thread writes a plain variable and takes the task's event away; the body ends last,
/// and the completion reads the variable.
void hand_over_by_decrease(const char* modes) {
  const AlpiRuntime runtime(1, modes);
  Lonely result;
  std::atomic<bool> begun{false};
  std::atomic<bool> decreased{false};
  alpi_task* task = nullptr;
  spawn_alpi_task(
      [&] {
        task = alpi_self();
        alpi_task_events_increase(task, 1);
        begun.store(true, std::memory_order_release);
        wait_until_set(decreased);
      },
      [&] {
        if (result.value != 1) {
          std::abort();
        }
      });
  std::thread helper([&] {
    while (!begun.load(std::memory_order_acquire)) {
      std::this_thread::yield();
    }
    result.value = 1;
    alpi_task_events_decrease(task, 1);
    decreased.store(true, std::memory_order_relaxed);
  });
  AlpiRuntime::wait_idle();
  helper.join();
  std::exit(0);
}

TEST_F(AlpiModesDeathTest, WithoutRelaxedThePairsOrder) {
  EXPECT_EXIT(hand_over_by_unblock(""), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(hand_over_by_unblock("relaxed_decrease"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(hand_over_by_decrease(""), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(hand_over_by_decrease("relaxed_unblock"), testing::ExitedWithCode(0), "");
}

TEST_F(AlpiModesDeathTest, RelaxedLeavesARaceThatThreadSanitizerReports) {
#ifdef IOWEAVE_TSAN
  EXPECT_EXIT(hand_over_by_unblock("relaxed_unblock"), testing::ExitedWithCode(66), "data race");
  EXPECT_EXIT(hand_over_by_unblock("relaxed"), testing::ExitedWithCode(66), "data race");
  EXPECT_EXIT(hand_over_by_decrease("relaxed_decrease"), testing::ExitedWithCode(66), "data race");
  EXPECT_EXIT(hand_over_by_decrease("relaxed"), testing::ExitedWithCode(66), "data race");
#else
  GTEST_SKIP() << "Only ThreadSanitizer sees the missing order; run the preset tsan.";
#endif
}

// ---- Refusals ----

TEST(AlpiModes, ForeignThreadsMayBeRefused) {
  const AlpiRuntime runtime(1, "refuse_foreign_decrease,refuse_foreign_unblock");
  std::atomic<alpi_task*> waiting{nullptr};
  spawn_alpi_task([&] {
    alpi_task_events_increase(alpi_self(), 1);
    waiting = alpi_self();
    alpi_task_block(alpi_self());
  });
  while (waiting == nullptr) {
    std::this_thread::yield();
  }
  EXPECT_EQ(alpi_task_unblock(waiting), ALPI_ERR_OUTSIDE_TASK);
  EXPECT_EQ(alpi_task_events_decrease(waiting, 1), ALPI_ERR_OUTSIDE_TASK);
  spawn_alpi_task([&] {
    EXPECT_EQ(alpi_task_unblock(waiting), ALPI_SUCCESS);
    EXPECT_EQ(alpi_task_events_decrease(waiting, 1), ALPI_SUCCESS);
  });
}

TEST(AlpiModes, RefusalsAreSeparate) {
  const AlpiRuntime runtime(1, "refuse_foreign_decrease");
  std::atomic<alpi_task*> waiting{nullptr};
  spawn_alpi_task([&] {
    waiting = alpi_self();
    alpi_task_block(alpi_self());
  });
  while (waiting == nullptr) {
    std::this_thread::yield();
  }
  EXPECT_EQ(alpi_task_events_decrease(waiting, 1), ALPI_ERR_OUTSIDE_TASK);
  EXPECT_EQ(alpi_task_unblock(waiting), ALPI_SUCCESS);
}

TEST(AlpiModes, FeaturesMayBeMissing) {
  run_task("no_blocking", [] {
    alpi_task* const self = alpi_self();
    EXPECT_EQ(alpi_feature_check(ALPI_FEATURE_BLOCKING), ALPI_ERR_FEATURE_UNKNOWN);
    EXPECT_EQ(alpi_feature_check(ALPI_FEATURE_EVENTS), ALPI_SUCCESS);
    EXPECT_EQ(alpi_task_unblock(self), ALPI_ERR_FEATURE_UNKNOWN);
    EXPECT_EQ(alpi_task_block(self), ALPI_ERR_FEATURE_UNKNOWN);
    EXPECT_EQ(alpi_task_waitfor_ns(1, nullptr), ALPI_ERR_FEATURE_UNKNOWN);
    EXPECT_EQ(alpi_task_events_increase(self, 1), ALPI_SUCCESS);
    EXPECT_EQ(alpi_task_events_decrease(self, 1), ALPI_SUCCESS);
  });
  run_task("no_events", [] {
    alpi_task* const self = alpi_self();
    uint64_t has = 0;
    EXPECT_EQ(alpi_feature_check(ALPI_FEATURE_EVENTS), ALPI_ERR_FEATURE_UNKNOWN);
    EXPECT_EQ(alpi_feature_check(ALPI_FEATURE_BLOCKING), ALPI_SUCCESS);
    EXPECT_EQ(alpi_task_events_increase(self, 1), ALPI_ERR_FEATURE_UNKNOWN);
    EXPECT_EQ(alpi_task_events_decrease(self, 1), ALPI_ERR_FEATURE_UNKNOWN);
    EXPECT_EQ(alpi_task_events_test(self, &has), ALPI_ERR_FEATURE_UNKNOWN);
    EXPECT_EQ(alpi_task_unblock(self), ALPI_SUCCESS);
    EXPECT_EQ(alpi_task_block(self), ALPI_SUCCESS);
  });
}

TEST(AlpiModes, CallsMayFailWithoutEffect) {
  const AlpiRuntime runtime(1, "spawn_fails");
  EXPECT_EQ(spawn_alpi_task([] { FAIL(); }), ALPI_ERR_OUT_OF_MEMORY);
  alpi_test_set_mode("block_fails,increase_fails");
  EXPECT_EQ(spawn_alpi_task([] {
              EXPECT_EQ(alpi_task_block(alpi_self()), ALPI_ERR_UNKNOWN);
              EXPECT_EQ(alpi_task_events_increase(alpi_self(), 1), ALPI_ERR_UNKNOWN);
            }),
            ALPI_SUCCESS);
  AlpiRuntime::wait_idle();
  const alpi_test_stats stats = AlpiRuntime::stats();
  EXPECT_EQ(stats.tasks, 1U);
  EXPECT_EQ(stats.blocks, 0U);
  EXPECT_EQ(stats.increases, 0U);
}

}  // namespace
}  // namespace ioweave::test
