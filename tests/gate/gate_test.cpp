// The gate: who asks is let go once, in order, by whoever makes room; nothing is lost between the
// threads that ask, end and withdraw.

#include "gate/gate.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <deque>
#include <mutex>
#include <new>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/memory_out.hpp"

namespace ioweave::gate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Remembers whom it was told to start.
class Starts final : public Executor {
 public:
  void start(void* operation) noexcept override {
    const std::lock_guard guard(lock_);
    started_.push_back(*static_cast<int*>(operation));
  }
  std::vector<int> take() {
    const std::lock_guard guard(lock_);
    return std::exchange(started_, {});
  }

 private:
  std::mutex lock_;
  std::vector<int> started_;
};

class GateTest : public ::testing::Test {
 protected:
  uint32_t flow(uint32_t at_once, policy::Class priority = policy::Class::foreground,
                policy::Constraint constraint = {}) {
    std::string why;
    policy::DeviceConfig device;
    device.name = "disk";
    device.max_in_flight = at_once;
    device.scheduling = policy::Scheduling::strict;
    const int64_t on = gate.add_device(device, why);
    EXPECT_GE(on, 0) << why;
    return flow_on(static_cast<uint32_t>(on), priority, constraint);
  }
  uint32_t flow_on(uint32_t device, policy::Class priority, policy::Constraint constraint = {}) {
    std::string why;
    const int64_t id = gate.add_flow({"flow", device, priority, constraint}, why);
    EXPECT_GE(id, 0) << why;
    return static_cast<uint32_t>(id);
  }
  /// Whether the operation may start now.
  bool ask(int number, uint32_t of, OperationId& id) {
    return gate.admit({starts, &numbers.emplace_back(number), of, 4096}, id);
  }

  Gate gate{policy::Recorder::Sink{}};
  Starts starts;
  std::deque<int> numbers;  ///< their addresses stay
};

TEST_F(GateTest, WhereMemoryIsOutNothingChangesAndTheOthersGoOn) {
  const uint32_t one = flow(1);
  std::array<int, 1000> operations;
  std::iota(operations.begin(), operations.end(), 0);
  std::array<OperationId, 1000> ids{};
  size_t next = 0;
  const auto admit_next = [&] {
    const bool may_start = gate.admit({starts, &operations.at(next), one, 4096}, ids.at(next));
    ++next;
    return may_start;
  };
  EXPECT_TRUE(admit_next());
  EXPECT_FALSE(admit_next());  // what the flow itself needs is there now
  bool refused = false;
  try {
    const test::MemoryOut out;
    while (next < operations.size()) {
      static_cast<void>(admit_next());
    }
  } catch (const std::bad_alloc&) {
    refused = true;
  }
  ASSERT_TRUE(refused);
  EXPECT_EQ(gate.held(), next - 1);
  EXPECT_FALSE(admit_next());
  std::vector<int> started{0};
  for (size_t i = 0; i < next; ++i) {
    gate.ended(ids.at(i), 0);
    for (const int number : starts.take()) {
      started.push_back(number);
    }
  }
  EXPECT_EQ(started, std::vector(operations.begin(), operations.begin() + next));
}

TEST_F(GateTest, LetsTheCallerCarryOutWhatMayStartAndTellsTheExecutorOfTheRest) {
  const uint32_t one = flow(1);
  OperationId first = Gate::kNone;
  OperationId second = Gate::kNone;
  EXPECT_TRUE(ask(1, one, first));
  EXPECT_FALSE(ask(2, one, second));
  EXPECT_NE(first, second);
  EXPECT_THAT(starts.take(), IsEmpty());
  gate.ended(first, 4096);
  EXPECT_THAT(starts.take(), ElementsAre(2));
  gate.ended(second, -EIO);
  EXPECT_EQ(gate.held(), 1u);
}

TEST_F(GateTest, WithdrawsWhatWaitsAndNothingElse) {
  const uint32_t one = flow(1);
  std::array<OperationId, 3> ids{};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ask(i, one, ids[static_cast<size_t>(i)]), i == 0);
  }
  EXPECT_FALSE(gate.withdraw(ids[0]));
  EXPECT_TRUE(gate.withdraw(ids[1]));
  EXPECT_FALSE(gate.withdraw(ids[1])) << "twice";
  gate.ended(ids[0], 0);
  EXPECT_THAT(starts.take(), ElementsAre(2));
  EXPECT_FALSE(gate.withdraw(ids[0])) << "ended";
  gate.ended(ids[2], 0);
}

TEST_F(GateTest, ALowerClassWaitsForActivityOnTheFastPathOfItsDevice) {
  const uint32_t behind = flow(0, policy::Class::write_behind);
  const policy::DeviceId device = gate.device_of(behind);
  ASSERT_TRUE(gate.begin_activity(device));
  OperationId id = Gate::kNone;
  EXPECT_FALSE(ask(1, behind, id));
  gate.end_activity(device);
  EXPECT_THAT(starts.take(), ElementsAre(1));
  gate.ended(id, 0);
}

TEST_F(GateTest, AnOperationThatWaitsWhenActivityCeasesUnseenIsStartedByItsWithdrawal) {
  const uint32_t behind = flow(0, policy::Class::write_behind);
  ASSERT_TRUE(gate.begin_activity(gate.device_of(behind)));
  OperationId first = Gate::kNone;
  OperationId second = Gate::kNone;
  EXPECT_FALSE(ask(1, behind, first));
  EXPECT_FALSE(ask(2, behind, second));
  EXPECT_TRUE(gate.withdraw(first));
  gate.end_activity(gate.device_of(behind));
  EXPECT_THAT(starts.take(), ElementsAre(2));
  gate.ended(second, 0);
}

/// Threads that ask, end what they were let to do, and give up; one may run at a time.
TEST_F(GateTest, NothingIsLostBetweenThreads) {
  struct Slot {
    OperationId id = Gate::kNone;
    std::atomic<bool> started{false};
  };
  class Exclusive final : public Executor {
   public:
    void start(void* operation) noexcept override { enter(*static_cast<Slot*>(operation)); }
    void enter(Slot& slot) noexcept {
      most_.store(std::max(most_.load(), running_.fetch_add(1) + 1));
      slot.started.store(true);
    }
    void leave() noexcept { running_.fetch_sub(1); }
    [[nodiscard]] int most() const noexcept { return most_.load(); }

   private:
    std::atomic<int> running_{0};
    std::atomic<int> most_{0};
  } executor;
  constexpr int kThreads = 4;
  constexpr int kRounds = 5'000;
  const uint32_t one = flow(1);
  std::atomic<uint64_t> done{0};
  std::atomic<uint64_t> withdrawn{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937 random(static_cast<unsigned>(thread));
      for (int round = 0; round < kRounds; ++round) {
        Slot slot;
        if (gate.admit({executor, &slot, one, 1}, slot.id)) {
          executor.enter(slot);
        }
        if (random() % 4 == 0 && gate.withdraw(slot.id)) {
          withdrawn.fetch_add(1);
          continue;
        }
        while (!slot.started.load()) {
          std::this_thread::yield();
        }
        executor.leave();
        gate.ended(slot.id, 1);
        done.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(done.load() + withdrawn.load(), uint64_t{kThreads} * kRounds);
  EXPECT_EQ(executor.most(), 1);
}

/// By what operations say that they moved: no counter of the system knows of this device.
TEST(GateSamples, ClimbIsToldWhatTheOperationsThatEndedHaveMoved) {
  std::vector<std::string> samples;
  Gate gate([&](std::string_view line) {
    if (line.find(" sample device=1 ") != std::string_view::npos) samples.emplace_back(line);
  });
  std::string why;
  ASSERT_EQ(gate.add_device({"disk"}, why), 1);
  ASSERT_EQ(
      gate.add_flow({"flow", 1, policy::Class::foreground, {policy::Constraint::Kind::climb}}, why),
      1);
  Starts starts;
  std::vector<int> numbers(64);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<OperationId> ids(numbers.size());
  std::vector<int> running;
  const auto ask = [&](int number) {
    const auto at = static_cast<size_t>(number);
    if (gate.admit({starts, &numbers[at], 1, 1'000'000}, ids[at])) running.push_back(number);
  };
  std::for_each(numbers.begin(), numbers.end(), ask);
  for (uint64_t ended = 0; samples.size() < 2; ++ended) {
    ASSERT_FALSE(running.empty()) << "of " << ended;
    const int number = running.back();
    running.pop_back();
    gate.ended(ids[static_cast<size_t>(number)], 1'000'000);
    for (const int started : starts.take()) running.push_back(started);
    ask(number);
  }
  for (const std::string& sample : samples) {
    EXPECT_THAT(sample, Not(HasSubstr("bytes_per_second=0 "))) << sample;
  }
}

TEST(GateLog, IsReplayedToTheSameDecisions) {
  std::string log;
  {
    Gate gate([&](std::string_view line) { log.append(line) += '\n'; });
    std::string why;
    policy::DeviceConfig device;
    device.name = "disk";
    device.max_in_flight = 1;
    ASSERT_EQ(gate.add_device(device, why), 1);
    ASSERT_EQ(gate.add_flow({"flow", 1, policy::Class::foreground, {}}, why), 1);
    Starts starts;
    int number = 0;
    std::array<OperationId, 3> ids{};
    for (OperationId& id : ids) {
      static_cast<void>(gate.admit({starts, &number, 1, 4096}, id));
    }
    EXPECT_TRUE(gate.withdraw(ids[1]));
    gate.ended(ids[0], 4096);
    gate.ended(ids[2], -EIO);
  }
  std::istringstream lines(log);
  const policy::Replayed replayed = policy::replay(lines);
  EXPECT_TRUE(replayed.same) << replayed.reason;
  EXPECT_EQ(replayed.decisions, 2u);
}

}  // namespace
}  // namespace ioweave::gate
