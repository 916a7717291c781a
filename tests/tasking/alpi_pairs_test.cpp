// A million pairs of block and unblock in all: not one may be lost, be there twice, or let the task
// go on too early, whether the unblock comes before, while or after the task goes to sleep.
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/alpi_tasks.hpp"

namespace ioweave::test {
namespace {

constexpr uint64_t kBefore = 200'000;
constexpr uint64_t kDuring = 400'000;
constexpr uint64_t kAfter = 400'000;

void expect_pairs(uint64_t pairs) {
  const alpi_test_stats stats = AlpiRuntime::stats();
  EXPECT_EQ(stats.blocks, pairs);
  EXPECT_EQ(stats.unblocks, pairs);
  testing::Test::RecordProperty("sleeps", std::to_string(stats.sleeps));
}

class AlpiPairs : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, AlpiPairs, testing::Values("plain", "relaxed"),
                         [](const auto& mode) { return std::string(mode.param); });

const char* modes_of(const char* name) {
  return std::string(name) == "plain" ? "" : name;
}

TEST_P(AlpiPairs, UnblockBefore) {
  const AlpiRuntime runtime(2, modes_of(GetParam()));
  for (int task = 0; task < 2; ++task) {
    spawn_alpi_task([] {
      alpi_task* const self = alpi_self();
      for (uint64_t i = 0; i < kBefore / 2; ++i) {
        ASSERT_EQ(alpi_task_unblock(self), ALPI_SUCCESS);
        ASSERT_EQ(alpi_task_block(self), ALPI_SUCCESS);
      }
    });
  }
  AlpiRuntime::wait_idle();
  expect_pairs(kBefore);
  EXPECT_EQ(AlpiRuntime::stats().sleeps, 0U);
}

/// A thread outside the runtime answers each question of a task, at the moment the task blocks.
TEST_P(AlpiPairs, UnblockDuring) {
  struct Pair {
    std::atomic<alpi_task*> task{nullptr};
    std::atomic<uint64_t> asked{0};
    std::atomic<uint64_t> answered{0};
  };
  constexpr uint64_t kTasks = 4;
  constexpr uint64_t kEach = kDuring / kTasks;
  std::array<Pair, kTasks> pairs;
  const AlpiRuntime runtime(2, modes_of(GetParam()));
  for (Pair& pair : pairs) {
    spawn_alpi_task([&pair] {
      pair.task = alpi_self();
      for (uint64_t i = 1; i <= kEach; ++i) {
        pair.asked = i;
        ASSERT_EQ(alpi_task_block(pair.task), ALPI_SUCCESS);
        ASSERT_EQ(pair.answered, i);
      }
    });
  }
  uint64_t open = kTasks * kEach;
  while (open > 0 && !testing::Test::HasFailure()) {
    const uint64_t before = open;
    for (Pair& pair : pairs) {
      if (const uint64_t asked = pair.asked; asked != pair.answered) {
        pair.answered = asked;
        EXPECT_EQ(alpi_task_unblock(pair.task), ALPI_SUCCESS);
        --open;
      }
    }
    if (open == before) {
      std::this_thread::yield();
    }
  }
  AlpiRuntime::wait_idle();
  expect_pairs(kDuring);
}

/// With one CPU a task runs only when the other has gone to sleep for sure.
TEST_P(AlpiPairs, UnblockAfter) {
  const AlpiRuntime runtime(1, modes_of(GetParam()));
  std::array<alpi_task*, 2> tasks{};
  std::array<uint64_t, 2> turns{};
  constexpr uint64_t kEach = kAfter / 2;
  // 0 sleeps first; 1 begins, and wakes 0 once more at its end than it is woken.
  spawn_alpi_task([&] {
    tasks[0] = alpi_self();
    for (uint64_t i = 0; i < kEach; ++i) {
      ASSERT_EQ(alpi_task_block(tasks[0]), ALPI_SUCCESS);
      ASSERT_EQ(turns[1], ++turns[0]);
      ASSERT_EQ(alpi_task_unblock(tasks[1]), ALPI_SUCCESS);
    }
  });
  spawn_alpi_task([&] {
    tasks[1] = alpi_self();
    for (uint64_t i = 0; i < kEach; ++i) {
      ++turns[1];
      ASSERT_EQ(alpi_task_unblock(tasks[0]), ALPI_SUCCESS);
      ASSERT_EQ(alpi_task_block(tasks[1]), ALPI_SUCCESS);
      ASSERT_EQ(turns[0], turns[1]);
    }
  });
  AlpiRuntime::wait_idle();
  expect_pairs(kAfter);
  EXPECT_EQ(AlpiRuntime::stats().sleeps, kAfter);
  EXPECT_LE(AlpiRuntime::stats().most_threads, 2U);
}

}  // namespace
}  // namespace ioweave::test
