// The formulas by hand, and against a small simulation of series of tasks on random workloads. A
// failure prints the seed. How far the bounds are off goes into the XML report as a property.
#include "model/task_io.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace ioweave::model {
namespace {

constexpr double kExact = 1e-9;  // relative
constexpr unsigned kSeeds = 1000;

/// Series whose turns are a computation and a transfer (`mix`): on virtual time, first come, first
/// served. The device takes `bytes / bytes_per_second` of a transfer's latency for it alone.
class Simulation {
 public:
  Simulation(const TaskIo& io, bool task_aware, uint32_t turns)
      : io_(io), task_aware_(task_aware), free_cores_(io.cores), turns_left_(io.series, turns) {
    for (uint32_t series = 0; series < io.series; ++series) ready_.push_back(series);
  }

  /// When the last transfer has ended.
  double seconds() {
    start_ready();
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_s_ = event.at_s;
      if (event.computed) {
        transfer(event.series);
      } else {
        end_turn(event.series);
      }
      start_ready();
    }
    return now_s_;
  }

 private:
  struct Event {
    double at_s;
    uint32_t series;
    bool computed;  ///< else transferred
    bool operator>(const Event& other) const { return at_s > other.at_s; }
  };

  void start_ready() {
    const double busy_s = io_.compute_s + (task_aware_ ? io_.overhead_s : 0);
    while (free_cores_ > 0 && !ready_.empty()) {
      --free_cores_;
      events_.push({now_s_ + busy_s, ready_.front(), true});
      ready_.pop_front();
    }
  }

  void transfer(uint32_t series) {
    if (task_aware_) ++free_cores_;
    const double start_s = std::max(now_s_, device_free_s_);
    device_free_s_ = start_s + static_cast<double>(io_.bytes) / io_.bytes_per_second;
    events_.push({start_s + io_.latency_alone_s, series, false});
  }

  void end_turn(uint32_t series) {
    if (!task_aware_) ++free_cores_;
    if (--turns_left_[series] > 0) ready_.push_back(series);
  }

  const TaskIo io_;
  const bool task_aware_;
  uint32_t free_cores_;
  std::vector<uint32_t> turns_left_;
  std::deque<uint32_t> ready_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double device_free_s_ = 0;
  double now_s_ = 0;
};

TaskIo random_workload(std::mt19937& random) {
  const auto number = [&random](uint32_t least, uint32_t most) {
    return std::uniform_int_distribution<uint32_t>(least, most)(random);
  };
  const auto seconds = [&random] {
    return std::exp(std::uniform_real_distribution<>(-12, -4)(random));
  };
  TaskIo io;
  io.compute_s = number(0, 9) == 0 ? 0 : seconds();
  io.series = number(1, 40);
  io.cores = number(1, 8);
  io.latency_alone_s = seconds();
  io.latency_workers_s = io.latency_alone_s;  // beyond what the device's bandwidth adds
  io.bytes = uint64_t{4096} << number(0, 8);
  io.bytes_per_second = static_cast<double>(io.bytes) * number(1, 50) / io.latency_alone_s;
  io.overhead_s = io.latency_alone_s / 50;
  return io;
}

TEST(TaskIo, TakesAtLeastWhatTheModelSays) {
  constexpr uint32_t kTurns = 40;
  double farthest[2] = {1, 1};
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const TaskIo io = random_workload(random);
    for (const bool aware : {false, true}) {
      const double least_s = (aware ? task_aware(io) : standalone(io)).seconds;
      const double simulated_s = Simulation(io, aware, kTurns).seconds() / (kTurns * io.series);
      ASSERT_GE(simulated_s * (1 + kExact), least_s) << (aware ? "task-aware" : "standalone");
      farthest[aware] = std::max(farthest[aware], simulated_s / least_s);
    }
  }
  RecordProperty("farthest_standalone", std::to_string(farthest[0]));
  RecordProperty("farthest_task_aware", std::to_string(farthest[1]));
}

TEST(TaskIo, IsExactOnOneCoreWithPlainCallsAndInOneSeries) {
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    TaskIo io = random_workload(random);
    io.cores = 1;
    const double plain_s = Simulation(io, false, 5).seconds() / (5 * io.series);
    ASSERT_NEAR(standalone(io).seconds, plain_s, kExact * plain_s);
    io.series = 1;
    io.overhead_s = 0;
    const double alone_s = Simulation(io, true, 5).seconds() / 5;
    ASSERT_NEAR(task_aware(io).seconds, alone_s, kExact * alone_s);
  }
}

TEST(TaskIo, WaitsForWhatSolvesItsEquation) {
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    std::uniform_real_distribution<> latency_s(0.5e-3, 1e-3);  // of similar size: 30 steps do
    const double alone_s = latency_s(random);
    const double workers_s = alone_s + latency_s(random) / 4;
    const double compute_s = std::exp(std::uniform_real_distribution<>(-14, 2)(random));
    const double waiting = waiting_s(alone_s, workers_s, compute_s);
    EXPECT_NEAR(alone_s + (workers_s - alone_s) * waiting / (waiting + compute_s), waiting,
                kExact * waiting);
  }
}

TEST(TaskIo, WaitsBetweenTheLatencies) {
  EXPECT_DOUBLE_EQ(waiting_s(1e-4, 2e-4, 0), 2e-4);  // all others are in calls, too
  EXPECT_NEAR(waiting_s(1e-4, 2e-4, 1e3), 1e-4, 1e-10);
  EXPECT_EQ(waiting_s(0, 0, 0), 0);
}

/// 300 us of computation, 100 us of latency, 1 GiB/s.
TaskIo workload() {
  TaskIo io;
  io.compute_s = 300e-6;
  io.series = 128;
  io.cores = 4;
  io.latency_alone_s = 100e-6;
  io.latency_workers_s = 100e-6;
  io.bytes = 4096;
  io.bytes_per_second = 1 << 30;
  io.overhead_s = 5e-6;
  return io;
}

TEST(TaskIo, IsLimitedByTheCores) {
  EXPECT_DOUBLE_EQ(standalone(workload()).seconds, 100e-6);
  EXPECT_EQ(standalone(workload()).limit, TaskLimit::workers);
  EXPECT_DOUBLE_EQ(task_aware(workload()).seconds, 76.25e-6);
  EXPECT_EQ(task_aware(workload()).limit, TaskLimit::compute);
}

TEST(TaskIo, IsLimitedByTheDevice) {
  TaskIo io = workload();
  io.bytes = 1 << 20;  // 1/1024 s at 1 GiB/s
  for (const TaskTime& time : {standalone(io), task_aware(io)}) {
    EXPECT_DOUBLE_EQ(time.seconds, 1.0 / 1024);
    EXPECT_EQ(time.limit, TaskLimit::device);
  }
  io.bytes_per_second = 0;  // of which nothing is known
  EXPECT_EQ(task_aware(io).limit, TaskLimit::compute);
}

TEST(TaskIo, IsLimitedByItsSeries) {
  TaskIo io = workload();
  io.series = 2;
  for (const TaskTime& time : {standalone(io), task_aware(io)}) {
    EXPECT_DOUBLE_EQ(time.seconds, 200e-6);
    EXPECT_EQ(time.limit, TaskLimit::series);
  }
}

TEST(TaskIo, CountsTheComputationsAndTransfersOfATurn) {
  TaskIo fork_join_io = workload();
  fork_join_io.ios = 4;
  EXPECT_DOUBLE_EQ(task_aware(fork_join_io).seconds, (75e-6 + 5e-6) / 4);
  fork_join_io.series = 1;
  EXPECT_DOUBLE_EQ(task_aware(fork_join_io).seconds, 400e-6 / 4);
  TaskIo fork_join_compute = workload();
  fork_join_compute.computes = 4;
  EXPECT_DOUBLE_EQ(task_aware(fork_join_compute).seconds, (1200e-6 + 5e-6) / 4);
  fork_join_compute.series = 1;  // side by side, they count once
  fork_join_compute.cores = 100;
  EXPECT_DOUBLE_EQ(task_aware(fork_join_compute).seconds, 400e-6);
}

TEST(TaskBound, IsTheLongerOfComputationAndDevice) {
  // 1000 units of 1 ms on 4 cores, and 100 MB at 200 MB/s.
  const TaskBound bound = task_bound(1000, 1e-3, 4, 100'000'000, 200e6);
  EXPECT_DOUBLE_EQ(bound.compute_s, 0.25);
  EXPECT_DOUBLE_EQ(bound.device_s, 0.5);
  EXPECT_DOUBLE_EQ(bound.seconds(), 0.5);
  EXPECT_TRUE(bound.by_device());
  EXPECT_DOUBLE_EQ(task_bound(4000, 1e-3, 4, 100'000'000, 200e6).seconds(), 1);
  EXPECT_EQ(task_bound(1, 1, 1, 1, 0).device_s, 0);  // an unknown device is no limit
}

}  // namespace
}  // namespace ioweave::model
