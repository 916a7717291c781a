#include "simulator/simulation.hpp"

#include <algorithm>
#include <array>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/event_log.hpp"

namespace ioweave::simulator {
namespace {

using policy::Constraint;
using ::testing::HasSubstr;

constexpr uint64_t kMb = 1'000'000;
constexpr uint64_t kManySteps = 100'000;

/// A policy, what it heard, and a simulation of it.
class World {
 public:
  explicit World(const Cluster& cluster)
      : simulation(
            policy_,
            [this](const policy::Event& event, uint64_t now_ns, auto& out) {
              recorder_.on(event, now_ns, out);
              const auto* const sample = std::get_if<policy::Sample>(&event);
              if (sample != nullptr) {
                samples.push_back(*sample);
              }
              if (starts_get_lost) {
                out.clear();
              }
            },
            cluster) {}

  policy::DeviceId device(std::initializer_list<model::Curve::Point> points, double budget = 0,
                          policy::Scope scope = policy::Scope::node) {
    std::string why;
    policy::DeviceConfig config;
    config.name = "disk";
    config.budget_mb_per_s = budget;
    config.scope = scope;
    const auto id = static_cast<policy::DeviceId>(recorder_.add_device(config, why));
    simulation.set_curve(id, curve(points));
    return id;
  }

  /// One that only these nodes have.
  policy::DeviceId device_on(std::initializer_list<policy::NodeId> nodes,
                             policy::Scope scope = policy::Scope::node) {
    std::string why;
    policy::DeviceConfig config;
    config.name = "bb";
    config.everywhere = false;
    config.scope = scope;
    const auto id = static_cast<policy::DeviceId>(recorder_.add_device(config, why));
    simulation.set_curve(id, curve({{1, 100}}));
    for (const policy::NodeId node : nodes) {
      simulation.device_up(id, node);
    }
    return id;
  }

  policy::FlowId flow(policy::DeviceId device, double fixed_mb_per_s = 0) {
    std::string why;
    policy::FlowConfig config;
    config.name = "flow";
    config.device = device;
    if (fixed_mb_per_s > 0) {
      config.constraint = {Constraint::Kind::fixed, fixed_mb_per_s};
    }
    const int64_t id = recorder_.add_flow(config, why);
    EXPECT_GE(id, 0) << why;
    return static_cast<policy::FlowId>(id);
  }

  static model::Curve curve(std::initializer_list<model::Curve::Point> points) {
    model::Curve made;
    std::string why;
    EXPECT_TRUE(model::Curve::make(std::vector(points), made, why)) << why;
    return made;
  }

  TaskId submit(const Task& task, const std::vector<TaskId>& after = {}) {
    std::string why;
    const TaskId id = simulation.submit(task, after, why);
    EXPECT_NE(id, kNoTask) << why;
    return id;
  }
  TaskId compute(double seconds, const std::vector<TaskId>& after = {}, uint32_t cpus = 1) {
    Task task;
    task.seconds = seconds;
    task.cpus = cpus;
    return submit(task, after);
  }
  TaskId io(policy::FlowId flow, uint64_t bytes, const std::vector<TaskId>& after = {},
            TaskId beside = kNoTask) {
    Task task;
    task.kind = Task::Kind::io;
    task.flow = flow;
    task.bytes = bytes;
    task.beside = beside;
    return submit(task, after);
  }

  [[nodiscard]] bool runs_until(TaskId id) {
    return simulation.go_on(kManySteps, id) == Simulation::Progress::ended;
  }
  [[nodiscard]] bool runs() { return runs_until(kNoTask); }
  [[nodiscard]] double end(TaskId id) const { return simulation.record(id).end_s; }
  [[nodiscard]] policy::Replayed replay() const {
    std::istringstream log(log_);
    return policy::replay(log);
  }

 private:
  policy::Policy policy_;
  std::string log_;
  policy::Recorder recorder_{policy_, [this](std::string_view line) {
                               log_.append(line);
                               log_ += '\n';
                             }};

 public:
  bool starts_get_lost = false;
  std::vector<policy::Sample> samples;
  Simulation simulation;
};

// ---- Computing ---------------------------------------------------------------------------------

TEST(Simulation, TasksTakeTheirSecondsOnFreeCores) {
  World world({1, 2});
  const std::array tasks{world.compute(3), world.compute(5), world.compute(1)};
  EXPECT_TRUE(world.runs());
  EXPECT_DOUBLE_EQ(world.end(tasks[0]), 3);
  EXPECT_DOUBLE_EQ(world.end(tasks[1]), 5);
  EXPECT_DOUBLE_EQ(world.end(tasks[2]), 4);
}

TEST(Simulation, ATaskWaitsForAllItsDependencies) {
  World world({1, 4});
  const TaskId first = world.compute(1);
  const TaskId second = world.compute(2);
  const TaskId after = world.compute(1, {first, second});
  EXPECT_TRUE(world.runs());
  EXPECT_DOUBLE_EQ(world.simulation.record(after).ready_s, 2);
  EXPECT_DOUBLE_EQ(world.end(after), 3);
}

TEST(Simulation, WhatFitsPassesWhatDoesNot) {
  World world({1, 2});
  world.compute(2);
  const TaskId large = world.compute(1, {}, 2);
  const TaskId small = world.compute(1);
  EXPECT_TRUE(world.runs());
  EXPECT_DOUBLE_EQ(world.end(small), 1);
  EXPECT_DOUBLE_EQ(world.end(large), 3);
}

TEST(Simulation, TheFirstNodeIsFilledFirst) {
  World world({2, 1});
  const TaskId first = world.compute(1);
  const TaskId second = world.compute(1);
  EXPECT_TRUE(world.runs());
  EXPECT_EQ(world.simulation.record(first).node, 0U);
  EXPECT_EQ(world.simulation.record(second).node, 1U);
  EXPECT_DOUBLE_EQ(world.simulation.now_s(), 1);
}

TEST(Simulation, GoesOnForAsManyStepsAsItIsTold) {
  World world({1, 1});
  world.compute(1);
  world.compute(1);
  EXPECT_EQ(world.simulation.go_on(1), Simulation::Progress::going_on);
  EXPECT_DOUBLE_EQ(world.simulation.now_s(), 1);
  EXPECT_EQ(world.simulation.go_on(1), Simulation::Progress::ended);
}

TEST(Simulation, TasksMayComeWhenOthersHaveEnded) {
  World world({1, 1});
  EXPECT_TRUE(world.runs_until(world.compute(2)));
  const TaskId later = world.compute(1);
  EXPECT_TRUE(world.runs());
  EXPECT_DOUBLE_EQ(world.simulation.record(later).start_s, 2);
  EXPECT_DOUBLE_EQ(world.end(later), 3);
}

// ---- Transfers ---------------------------------------------------------------------------------

TEST(Simulation, StreamsShareWhatTheCurveGivesForTheirNumber) {
  World world({1, 1});
  const auto flow = world.flow(world.device({{1, 100}, {2, 150}}));
  const TaskId small = world.io(flow, 75 * kMb);
  const TaskId large = world.io(flow, 175 * kMb);
  EXPECT_TRUE(world.runs());
  EXPECT_NEAR(world.end(small), 1, 1e-6);  // 75 MB/s each
  EXPECT_NEAR(world.end(large), 2, 1e-6);  // 100 MB left, alone
}

TEST(Simulation, TransfersTakeNoCores) {
  World world({1, 1});
  const auto flow = world.flow(world.device({{1, 100}}));
  world.io(flow, 100 * kMb);
  const TaskId task = world.compute(1);
  EXPECT_TRUE(world.runs());
  EXPECT_DOUBLE_EQ(world.end(task), 1);
}

TEST(Simulation, BlockingTransfersKeepTheirCores) {
  World world({1, 1});
  Task writer;
  writer.kind = Task::Kind::blocking_io;
  writer.seconds = 1;
  writer.bytes = 100 * kMb;
  writer.device = world.device({{1, 100}});
  world.submit(writer);
  const TaskId task = world.compute(1);
  EXPECT_TRUE(world.runs());
  EXPECT_NEAR(world.end(task), 3, 1e-6);
}

TEST(Simulation, ConstraintsHoldOperationsBack) {
  World world({1, 1});
  const auto flow = world.flow(world.device({{1, 100}}, 100), 50);
  for (int i = 0; i < 4; ++i) {
    world.io(flow, 100 * kMb);
  }
  EXPECT_TRUE(world.runs());
  EXPECT_NEAR(world.end(0), 2, 1e-6);
  EXPECT_NEAR(world.end(1), 2, 1e-6);
  EXPECT_NEAR(world.simulation.record(2).start_s, 2, 1e-6);
  EXPECT_NEAR(world.end(3), 4, 1e-6);
}

TEST(Simulation, EachNodeHasADeviceOfItsOwn) {
  World world({2, 1});
  const auto device = world.device({{1, 100}}, 100);
  const auto flow = world.flow(device, 100);
  const TaskId first = world.compute(1);
  const TaskId second = world.compute(1);
  const TaskId here = world.io(flow, 100 * kMb, {first}, first);
  const TaskId there = world.io(flow, 100 * kMb, {second}, second);
  EXPECT_TRUE(world.runs());
  EXPECT_EQ(world.simulation.record(here).node, 0U);
  EXPECT_EQ(world.simulation.record(there).node, 1U);
  EXPECT_NEAR(world.end(there), 2, 1e-6);
  EXPECT_NEAR(world.simulation.moved_bytes(device), 200e6, 1);
}

TEST(Simulation, ASharedDeviceIsOneForAllNodes) {
  World world({2, 1});
  const auto flow = world.flow(world.device({{1, 100}}, 0, policy::Scope::shared));
  const TaskId first = world.compute(1);
  const TaskId second = world.compute(1);
  world.io(flow, 100 * kMb, {first}, first);
  const TaskId there = world.io(flow, 100 * kMb, {second}, second);
  EXPECT_TRUE(world.runs());
  EXPECT_NEAR(world.end(there), 3, 1e-6);
}

TEST(Simulation, ACurveMayChangeUnderWay) {
  World world({1, 1});
  const auto device = world.device({{1, 100}});
  const TaskId task = world.io(world.flow(device), 200 * kMb);
  world.simulation.set_curve_at(1, device, World::curve({{1, 50}}));
  EXPECT_TRUE(world.runs());
  EXPECT_NEAR(world.end(task), 3, 1e-6);
}

// ---- Nodes that differ --------------------------------------------------------------------------

TEST(Simulation, OperationsGoToNodesThatHaveTheirDevice) {
  for (const auto scope : {policy::Scope::node, policy::Scope::shared}) {
    World world({3, 1});
    const auto flow = world.flow(world.device_on({2}, scope));
    const TaskId computed = world.compute(1);
    const TaskId beside = world.io(flow, 500 * kMb, {computed}, computed);  // Not possible there.
    const TaskId anywhere = world.io(flow, 500 * kMb);
    EXPECT_TRUE(world.runs());
    EXPECT_EQ(world.simulation.record(computed).node, 0U);
    EXPECT_EQ(world.simulation.record(beside).node, 2U);
    EXPECT_EQ(world.simulation.record(anywhere).node, 2U);
    ASSERT_FALSE(world.samples.empty());
    EXPECT_EQ(world.samples.front().node, 2U);
    EXPECT_TRUE(world.replay().same) << world.replay().reason;
  }
}

TEST(Simulation, OperationsWaitForTheFirstNodeThatHasTheirDevice) {
  World world({2, 1});
  const auto device = world.device_on({});
  const TaskId waits = world.io(world.flow(device), 100 * kMb);
  world.compute(1);
  EXPECT_EQ(world.simulation.go_on(kManySteps), Simulation::Progress::stuck);
  world.simulation.device_up(device, 1);
  EXPECT_TRUE(world.runs());
  EXPECT_EQ(world.simulation.record(waits).node, 1U);
}

TEST(Simulation, BlockingTransfersNeedANodeWithTheirDevice) {
  World world({3, 1});
  Task writer;
  writer.kind = Task::Kind::blocking_io;
  writer.bytes = 100 * kMb;
  writer.device = world.device_on({1});
  const TaskId first = world.submit(writer);
  const TaskId second = world.submit(writer);  // Waits, though node 0 is free.
  const TaskId third = world.compute(1);
  writer.beside = third;
  const TaskId fourth = world.submit(writer, {third});  // Not possible there.
  EXPECT_TRUE(world.runs());
  EXPECT_EQ(world.simulation.record(first).node, 1U);
  EXPECT_EQ(world.simulation.record(second).node, 1U);
  EXPECT_NEAR(world.end(second), 2, 1e-6);
  EXPECT_EQ(world.simulation.record(third).node, 0U);
  EXPECT_EQ(world.simulation.record(fourth).node, 1U);
}

TEST(Simulation, NodesMayHaveDifferentNumbersOfCores) {
  World world({3, 1, 1, {1, 4, 2}});
  const TaskId wide = world.compute(1, {}, 3);
  const TaskId narrow = world.compute(1);
  const TaskId middle = world.compute(1, {}, 2);
  const TaskId waits = world.compute(1, {}, 4);
  EXPECT_TRUE(world.runs());
  EXPECT_EQ(world.simulation.record(wide).node, 1U);
  EXPECT_EQ(world.simulation.record(narrow).node, 0U);
  EXPECT_EQ(world.simulation.record(middle).node, 2U);
  EXPECT_EQ(world.simulation.record(waits).node, 1U);
  EXPECT_NEAR(world.end(waits), 2, 1e-6);
}

// ---- What the policy is told -------------------------------------------------------------------

TEST(Simulation, SamplesSayWhatWasMoved) {
  World world({1, 1});
  const auto flow = world.flow(world.device({{1, 100}}, 100), 100);
  world.io(flow, 750 * kMb);
  world.io(flow, 100 * kMb);
  EXPECT_TRUE(world.runs());
  ASSERT_EQ(world.samples.size(), 23U);
  for (size_t i = 0; i < world.samples.size(); ++i) {
    EXPECT_NEAR(world.samples[i].bytes_per_second, 100e6, 1);
    EXPECT_NEAR(world.samples[i].seconds, i < 20 ? 0.25 : 1, 1e-9);
  }
}

TEST(Simulation, ItsLogIsReplayedToTheSameDecisions) {
  World world({3, 2});
  const auto flow = world.flow(world.device({{1, 100}, {8, 400}, {32, 100}}, 400), 60);
  for (int i = 0; i < 200; ++i) {
    const TaskId task = world.compute(0.1 * (i % 7));
    i % 3 == 0 ? world.io(flow, 30 * kMb, {task}) : world.io(flow, 20 * kMb, {task}, task);
  }
  EXPECT_TRUE(world.runs());
  const policy::Replayed replayed = world.replay();
  EXPECT_TRUE(replayed.same) << replayed.line << ": " << replayed.reason;
  EXPECT_GE(replayed.decisions, 200U);
}

TEST(Simulation, WhatIsMovedIsWhatTasksHave) {
  World world({4, 3});
  const auto device = world.device({{1, 100}, {8, 400}, {32, 100}}, 400);
  const auto flow = world.flow(device, 60);
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < 500; ++i) {
    const uint64_t of_task = (i * 7919) % 50 * kMb;
    world.io(flow, of_task, {world.compute(0.01 * static_cast<double>(i % 11))});
    bytes += of_task;
  }
  EXPECT_TRUE(world.runs());
  EXPECT_NEAR(world.simulation.moved_bytes(device), static_cast<double>(bytes), 1e3);
}

// ---- What cannot be ----------------------------------------------------------------------------

TEST(Simulation, SaysWhereNothingCanHappenAnyMore) {
  World world({1, 1});
  const auto flow = world.flow(world.device({{1, 100}}));
  world.starts_get_lost = true;
  const TaskId never = world.io(flow, kMb, {world.compute(1)});
  EXPECT_EQ(world.simulation.go_on(kManySteps, never), Simulation::Progress::stuck);
  EXPECT_EQ(world.simulation.go_on(kManySteps), Simulation::Progress::stuck);
}

TEST(Simulation, RefusesTasksThatCouldNeverRun) {
  World world({1, 2});
  const auto device = world.device({{1, 100}});
  const auto flow = world.flow(device);
  const TaskId before = world.compute(1);
  const auto refusal = [&](Task task, const std::vector<TaskId>& after = {}) {
    std::string why;
    EXPECT_EQ(world.simulation.submit(task, after, why), kNoTask);
    return why;
  };
  Task task;
  task.cpus = 3;
  EXPECT_THAT(refusal(task), HasSubstr("3 cpus: a node has 2"));
  task.cpus = 0;
  EXPECT_THAT(refusal(task), HasSubstr("0 cpus"));
  task.cpus = 1;
  task.seconds = -1;
  EXPECT_THAT(refusal(task), HasSubstr("must be from 0"));
  task.seconds = 1;
  EXPECT_THAT(refusal(task, {99}), HasSubstr("task 99 does not exist"));
  task.beside = before;
  EXPECT_THAT(refusal(task), HasSubstr("does not wait for"));
  task.beside = kNoTask;
  task.kind = Task::Kind::io;
  task.flow = flow + 1;
  EXPECT_THAT(refusal(task), HasSubstr("flow 1 does not exist"));
  task.kind = Task::Kind::blocking_io;
  task.device = device + 1;
  EXPECT_THAT(refusal(task), HasSubstr("device 1 has no curve"));
  task.device = world.device_on({});
  EXPECT_THAT(refusal(task), HasSubstr("no node with device 'bb' has 1 cpus"));
}

}  // namespace
}  // namespace ioweave::simulator
