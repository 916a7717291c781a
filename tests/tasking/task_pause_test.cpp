// The parts that storage I/O in tasks is made of, each by itself: a pause whose end races with it,
// the count of a task that iow_task_begin() opened, and the memory of bound transfers.
#include <array>
#include <atomic>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "service/task_io.hpp"
#include "support/workers.hpp"
#include "tasking/counting_event.hpp"
#include "tasking/task_host.hpp"

namespace ioweave::tasking {
namespace {

using test::HostUnderTest;
using test::make_workers;
using test::name_of;
using test::Workers;

#ifdef IOWEAVE_TEST_SANITIZED
constexpr uint64_t kPauses = 20'000;
#else
constexpr uint64_t kPauses = 1'000'000;
#endif
constexpr unsigned kTasks = 8;

/// The million is for the usual case.
uint64_t pauses_of(HostUnderTest host, const std::string& modes) {
  return host == HostUnderTest::alpi_thread && modes.empty() ? kPauses : kPauses / 5;
}

std::unique_ptr<TaskHost> open_host(HostUnderTest host) {
  std::string why;
  auto opened = open_task_host(host == HostUnderTest::tbb ? HostKind::tbb : HostKind::alpi, why);
  EXPECT_NE(opened, nullptr) << why;
  return opened;
}

void spin(unsigned turns) {
  for (; turns != 0; --turns) {
    asm volatile("" ::: "memory");
  }
}

/// Ends when the completer has seen it, or itself where `at_once`.
class RacingPause final : public TaskPause {
 public:
  RacingPause(TaskHost& host, std::atomic<RacingPause*>& desk, unsigned spin_turns, bool at_once)
      : TaskPause(host), turns(spin_turns), desk_(desk), at_once_(at_once) {}
  void start() noexcept override {
    if (at_once_) {
      result = 1;
      complete();
    } else {
      desk_.store(this, std::memory_order_release);
    }
  }
  const unsigned turns;
  int result = 0;  // plain: the end of the pause must publish it

 private:
  std::atomic<RacingPause*>& desk_;
  const bool at_once_;
};

class PauseOfTask : public ::testing::TestWithParam<std::tuple<HostUnderTest, const char*>> {
 protected:
  void SetUp() override {
    if (const std::string why = test::missing(host_kind()); !why.empty()) {
      GTEST_SKIP() << why;
    }
  }
  [[nodiscard]] static HostUnderTest host_kind() { return std::get<0>(GetParam()); }
  [[nodiscard]] static const char* modes() { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(, PauseOfTask,
                         ::testing::Values(std::tuple(HostUnderTest::alpi_thread, ""),
                                           std::tuple(HostUnderTest::alpi_thread,
                                                      "relaxed_unblock"),
                                           std::tuple(HostUnderTest::tbb, "")),
                         [](const auto& param) {
                           return name_of(std::get<0>(param.param)) +
                                  std::string(std::get<1>(param.param));
                         });

/// The provider ends the program on a second unblock, on one of a task that has ended, and on one
/// that no block matched.
TEST_P(PauseOfTask, EndsOnceWheneverTheEndComes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const auto workers = make_workers(host_kind(), 2, modes());
  const auto host = open_host(host_kind());
  std::array<std::atomic<RacingPause*>, kTasks> desks{};
  std::atomic<unsigned> running{kTasks};
  std::atomic<uint64_t> wrong{0};
  for (unsigned task = 0; task < kTasks; ++task) {
    workers->spawn([&, task] {
      std::mt19937 random(seed + task);
      for (uint64_t i = 0; i < pauses_of(host_kind(), modes()) / kTasks; ++i) {
        // An eighth ends within start(), the others about when the task falls asleep.
        RacingPause pause(*host, desks[task], static_cast<unsigned>(random() % 2000),
                          random() % 8 == 0);
        host->pause(pause);
        wrong += pause.done() && pause.result == 1 ? 0 : 1;
      }
      --running;
    });
  }
  while (running != 0) {
    for (std::atomic<RacingPause*>& desk : desks) {
      if (RacingPause* const pause = desk.exchange(nullptr, std::memory_order_acquire)) {
        spin(pause->turns);
        pause->result = 1;
        pause->complete();
      }
    }
  }
  workers->wait();
  EXPECT_EQ(wrong, 0u);
}

TEST_P(PauseOfTask, IsNoTaskOutsideOne) {
  const auto workers = make_workers(host_kind(), 1, modes());
  const auto host = open_host(host_kind());
  EXPECT_EQ(host->current(), nullptr);
  std::thread([&] { EXPECT_EQ(host->current(), nullptr); }).join();
  workers->spawn([&] { EXPECT_NE(host->current(), nullptr); });
  workers->wait();
}

/// A runtime that refuses to put tasks to sleep: the thread sleeps. What comes late must not touch
/// the pause, which is gone by then.
TEST(PauseOfRefusedTask, SleepsWithItsThread) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const test::AlpiRuntime runtime(1, "block_fails,count_misuse");
  constexpr unsigned kRefused = 20'000;
  std::atomic<RacingPause*> desk{nullptr};
  std::atomic<bool> running{true};
  const auto host = open_host(HostUnderTest::alpi_thread);
  EXPECT_TRUE(host->can_pause());
  ASSERT_EQ(test::spawn_alpi_task([&] {
              std::mt19937 random(seed);
              for (unsigned i = 0; i < kRefused; ++i) {
                RacingPause pause(*host, desk, static_cast<unsigned>(random() % 500),
                                  random() % 8 == 0);
                host->pause(pause);
                EXPECT_TRUE(pause.done());
                EXPECT_EQ(pause.result, 1);
              }
              running = false;
            }),
            ALPI_SUCCESS);
  while (running) {
    if (RacingPause* const pause = desk.exchange(nullptr, std::memory_order_acquire)) {
      spin(pause->turns);
      pause->result = 1;
      pause->complete();
    }
  }
  EXPECT_FALSE(host->can_pause());
}

// ---- Tasks that iow_task_begin() opened

TEST(CountOfATask, RunsDoneOnceAfterTheLastDrop) {
  const int owner = 0;
  std::atomic<int> done{0};
  const auto count = [](void* user) { ++*static_cast<std::atomic<int>*>(user); };
  ASSERT_TRUE(CountingEvent::begin(&owner, count, &done));
  CountingEvent* const event = CountingEvent::current(&owner);
  ASSERT_NE(event, nullptr);
  event->hold();
  event->hold();
  EXPECT_TRUE(CountingEvent::end(&owner));
  EXPECT_EQ(CountingEvent::current(&owner), nullptr);
  EXPECT_EQ(done, 0);
  event->drop();
  EXPECT_EQ(done, 0);
  std::thread([event] { event->drop(); }).join();
  EXPECT_EQ(done, 1);
}

TEST(CountOfATask, InnerTasksHideOuterOnes) {
  const int owner = 0;
  const int other = 0;
  std::vector<int> order;
  struct User {
    std::vector<int>* order;
    int which;
  };
  User outer{&order, 1};
  User inner{&order, 2};
  const auto done = [](void* user) {
    auto& mine = *static_cast<User*>(user);
    mine.order->push_back(mine.which);
  };
  ASSERT_TRUE(CountingEvent::begin(&owner, done, &outer));
  CountingEvent* const of_outer = CountingEvent::current(&owner);
  ASSERT_TRUE(CountingEvent::begin(&owner, done, &inner));
  EXPECT_NE(CountingEvent::current(&owner), of_outer);
  EXPECT_EQ(CountingEvent::current(&other), nullptr);
  EXPECT_FALSE(CountingEvent::end(&other));
  std::thread([&] {
    EXPECT_EQ(CountingEvent::current(&owner), nullptr);
    EXPECT_FALSE(CountingEvent::end(&owner));
  }).join();
  EXPECT_TRUE(CountingEvent::end(&owner));
  EXPECT_EQ(CountingEvent::current(&owner), of_outer);
  EXPECT_TRUE(CountingEvent::end(&owner));
  EXPECT_FALSE(CountingEvent::end(&owner));
  EXPECT_EQ(order, (std::vector<int>{2, 1}));
}

TEST(CountOfATask, PublishesWhatEachTransferWrote) {
  const int owner = 0;
  constexpr unsigned kDrops = 4;
#ifdef IOWEAVE_TEST_SANITIZED
  constexpr unsigned kRounds = 300;
#else
  constexpr unsigned kRounds = 2000;
#endif
  struct Task {
    std::array<int, kDrops> results{};
    std::atomic<int> sum{-1};
  };
  for (unsigned round = 0; round < kRounds; ++round) {
    Task task;
    ASSERT_TRUE(CountingEvent::begin(
        &owner,
        [](void* user) {
          auto& mine = *static_cast<Task*>(user);
          int sum = 0;
          for (const int result : mine.results) {
            sum += result;
          }
          mine.sum = sum;
        },
        &task));
    CountingEvent* const event = CountingEvent::current(&owner);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kDrops; ++i) {
      event->hold();
      threads.emplace_back([&task, event, i] {
        task.results[i] = 1;
        event->drop();
      });
    }
    EXPECT_TRUE(CountingEvent::end(&owner));
    for (std::thread& thread : threads) {
      thread.join();
    }
    ASSERT_EQ(task.sum, static_cast<int>(kDrops));
  }
}

// ---- Memory of bound transfers

TEST(PoolOfBoundTransfers, GivesTheSameMemoryAgain) {
  service::BoundPool pool;
  std::set<service::BoundTransfer*> first;
  for (unsigned i = 0; i < 1000; ++i) {
    ASSERT_TRUE(first.insert(pool.acquire()).second);
  }
  for (int round = 0; round < 3; ++round) {
    for (service::BoundTransfer* const each : first) {
      pool.release(*each);
    }
    std::set<service::BoundTransfer*> again;
    for (unsigned i = 0; i < 1000; ++i) {
      service::BoundTransfer* const taken = pool.acquire();
      again.insert(taken);
    }
    // 1000 are in 16 pieces of 64, so up to 24 others may be among them.
    std::set<service::BoundTransfer*> fresh;
    for (service::BoundTransfer* const each : again) {
      if (!first.contains(each)) {
        fresh.insert(each);
      }
    }
    EXPECT_EQ(again.size(), 1000u);
    EXPECT_LE(fresh.size(), 24u);
    first = again;
  }
}

}  // namespace
}  // namespace ioweave::tasking
