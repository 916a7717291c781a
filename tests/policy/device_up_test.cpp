// Devices that not every node has.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model.hpp"
#include "policy/event_log.hpp"
#include "virtual_time.hpp"

namespace ioweave::policy {
namespace {

using namespace testing_support;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PolicyDeviceUp, OperationsForAnyNodeGoOnlyToNodesThatHaveTheDevice) {
  for (const bool over_all : {false, true}) {
    VirtualTime time;
    const DeviceConfig config = on_some_nodes(device());
    time.add(over_all ? shared(config) : config);
    const FlowId flow = time.flow(Class::foreground, {}, 1);
    for (const NodeId node : {1u, 2u, 3u}) {
      time.up(node);
    }
    time.device_up(3);
    time.device_up(1);
    EXPECT_THAT(time.ready_anywhere(1, flow), ElementsAre(Start{1, 1}));  // In order of NodeUp.
    EXPECT_THAT(time.ready_anywhere(2, flow), ElementsAre(Start{2, 3}));
    EXPECT_THAT(time.ready_anywhere(3, flow), IsEmpty());
    EXPECT_THAT(time.finished(1), ElementsAre(Start{3, 1}));
  }
}

TEST(PolicyDeviceUp, ASharedDeviceWithoutLimitsLeavesOutNodesToo) {
  VirtualTime time;
  time.add(on_some_nodes(shared(device_with_budget(100))));
  const FlowId flow = time.flow(Class::foreground, fixed(50));
  time.up(1);
  time.device_up(1);
  EXPECT_THAT(time.ready_anywhere(1, flow), ElementsAre(Start{1, 1}));
  EXPECT_THAT(time.ready(2, flow, 1), ElementsAre(Start{2, 1}));
  time.ready_anywhere(3, flow);
  EXPECT_THAT(time.finished(1), ElementsAre(Start{3, 1}));
}

TEST(PolicyDeviceUp, OtherDevicesAreStillEverywhere) {
  VirtualTime time;
  time.add(on_some_nodes(device()));
  const FlowId rare = time.flow();
  time.add(device());
  const FlowId usual = time.flow();
  time.up(1);
  time.device_up(1);
  EXPECT_THAT(time.ready_anywhere(1, usual), ElementsAre(Start{1, 0}));
  EXPECT_THAT(time.ready_anywhere(2, rare), ElementsAre(Start{2, 1}));
}

TEST(PolicyDeviceUp, WhileNoNodeHasItOperationsWaitAndTheDriverCanSeeThat) {
  for (const bool over_all : {false, true}) {
    VirtualTime time;
    const DeviceConfig config = on_some_nodes(device());
    const DeviceId id = time.add(over_all ? shared(config) : config);
    const FlowId flow = time.flow();
    EXPECT_EQ(time.policy.nodes_with(id), 0u);
    EXPECT_THAT(time.ready_anywhere(1, flow), IsEmpty());
    EXPECT_THAT(time.up(1), IsEmpty());
    EXPECT_EQ(time.policy.explain(flow).nodes, 0u);
    EXPECT_THAT(time.device_up(1), ElementsAre(Start{1, 1}));
    EXPECT_EQ(time.policy.nodes_with(id), 1u);
    EXPECT_TRUE(time.policy.has(1, id));
    EXPECT_FALSE(time.policy.has(0, id));
    EXPECT_FALSE(time.policy.has(7, id));
  }
}

TEST(PolicyDeviceUp, ANodeThatComesBackHasToBeToldAgain) {
  VirtualTime time;
  const DeviceId id = time.add(on_some_nodes(device()));
  const FlowId flow = time.flow();
  time.up(1);
  time.device_up(1);
  time.down(1);
  EXPECT_EQ(time.policy.nodes_with(id), 0u);
  time.up(1);
  EXPECT_THAT(time.ready_anywhere(1, flow), IsEmpty());
  EXPECT_THAT(time.device_up(1), ElementsAre(Start{1, 1}));
}

TEST(PolicyDeviceUp, EveryNodeThatIsUpHasADeviceThatIsEverywhere) {
  VirtualTime time;
  time.up(1);
  const DeviceId id = time.add(device());
  EXPECT_EQ(time.policy.nodes_with(id), 2u);
  time.up(2);
  time.down(0);
  EXPECT_EQ(time.policy.nodes_with(id), 2u);
}

/// `auto` learns where the device is, and keeps others out only where they find another node.
TEST(PolicyDeviceUp, AFlowLearnsOnANodeThatHasTheDevice) {
  VirtualTime time;
  time.add(on_some_nodes(device_with_budget(100)));
  Constraint learns{Constraint::Kind::auto_unbounded};
  learns.executors = 2;
  const FlowId flow = time.flow(Class::foreground, learns);
  time.up(1);
  time.up(2);
  EXPECT_THAT(time.ready_anywhere(1, flow), IsEmpty());
  EXPECT_EQ(time.policy.explain(flow).learning_node, std::nullopt);
  EXPECT_THAT(time.device_up(2), ElementsAre(Start{1, 2}));
  EXPECT_EQ(time.policy.explain(flow).learning_node, 2u);
  EXPECT_FALSE(time.policy.explain(flow).keeps_others_out);
  time.device_up(1);
  for (const OperationId id : {2u, 3u, 4u}) {
    time.ready_anywhere(id, flow);
  }
  EXPECT_TRUE(time.policy.explain(flow).keeps_others_out);
  // Not on to node 0, which is the first, but does not have the device.
  EXPECT_THAT(time.down(2), ElementsAre(Start{3, 1}, Start{4, 1}));
  EXPECT_EQ(time.policy.explain(flow).learning_node, 1u);
  EXPECT_FALSE(time.policy.explain(flow).keeps_others_out);
}

TEST(PolicyDeviceUp, LearnersLeaveOneOfTheNodesThatHaveTheDeviceToOthers) {
  VirtualTime time;
  time.add(on_some_nodes(device_with_budget(100)));
  Constraint learns{Constraint::Kind::auto_unbounded};
  learns.executors = 2;
  const FlowId first = time.flow(Class::foreground, learns);
  const FlowId second = time.flow(Class::foreground, learns);
  for (const NodeId node : {1u, 2u, 3u}) {
    time.up(node);
    time.device_up(node);
  }
  time.ready_anywhere(1, first);
  time.ready_anywhere(2, second);
  const auto keep_out = [&] {
    return (time.policy.explain(first).keeps_others_out ? 1 : 0) +
           (time.policy.explain(second).keeps_others_out ? 1 : 0);
  };
  EXPECT_EQ(keep_out(), 2);
  time.down(3);  // Node 0 stays, which is of no use to others.
  EXPECT_EQ(keep_out(), 1);
}

/// Its estimates are for the nodes that share the work.
TEST(PolicyDeviceUp, AutoDividesWhatWaitsByTheNodesThatHaveTheDevice) {
  for (const unsigned others : {0u, 30u}) {
    VirtualTime time;
    time.add(on_some_nodes(device_with_budget(100)));
    Constraint learns{Constraint::Kind::auto_bounded};
    learns.min_mb_per_s = 50;
    learns.max_mb_per_s = 100;
    learns.delta = 2;
    const FlowId flow = time.flow(Class::foreground, learns);
    for (NodeId node = 1; node <= others; ++node) {
      time.up(node);
    }
    time.device_up(0);
    for (OperationId id = 1; id <= 3; ++id) {
      time.ready_anywhere(id, flow);
    }
    // Two at once take 4 s, one alone 3 s: for 30 that wait, two at once are better.
    time.tell(Finished{1, 4, 0});
    time.tell(Finished{2, 4, 0});
    time.tell(Finished{3, 3, 0});
    for (OperationId id = 4; id <= 30; ++id) {
      time.ready_anywhere(id, flow);
    }
    const Explanation explanation = time.policy.explain(flow);
    ASSERT_FALSE(explanation.choices.empty()) << others;
    EXPECT_EQ(explanation.choices.back().constraint_mb_per_s, 50) << others;
  }
}

TEST(PolicyDeviceUp, WhatCannotBeIsRefusedInWords) {
  VirtualTime time;
  time.add(device());
  time.add(on_some_nodes(device()));
  time.flow();
  time.up(1);
  time.device_up(1, 1);
  const std::vector<std::pair<Event, const char*>> refused{
      {Ready{1, 0, 0, 1}, "node 0 does not have device 'disk'"},
      {Ready{1, 0, 7, 1}, "node 7 is not up"},
      {Sample{1, 0, 1}, "node 0 does not have device 'disk'"},
      {Activity{1, 0, Class::foreground, 1}, "node 0 does not have device 'disk'"},
      {DeviceUp{0, 1}, "device 'disk' is on every node"},
      {DeviceUp{1, 1}, "node 1 already has device 'disk'"},
      {DeviceUp{1, 7}, "node 7 is not up"},
      {DeviceUp{1, kAnyNode}, "node 4294967295 is not up"},
      {DeviceUp{2, 1}, "device 2 does not exist"},
  };
  for (const auto& [event, reason] : refused) {
    std::string why;
    EXPECT_FALSE(time.policy.accepts(event, 9000, why)) << reason;
    EXPECT_EQ(why, reason);
  }
}

TEST(PolicyDeviceUpDeathTest, AnOperationOnANodeWithoutTheDeviceIsAnAssertion) {
  VirtualTime time;
  time.add(on_some_nodes(device()));
  time.flow();
  std::vector<Decision> out;
  EXPECT_DEATH(time.policy.on(Ready{1, 0, 0, 1}, 1, out), "assertion failed");
}

// ---- All short histories
// -------------------------------------------------------------------------

/// Everything that can happen in a few events on two nodes, against the model.
class ShortHistories {
 public:
  explicit ShortHistories(const DeviceConfig& config) : config_(config) {}

  /// All continuations of `so_far` by up to `more` events.
  void explore(std::vector<Event>& so_far, unsigned more) {
    const std::optional<Model> model = run(so_far);
    if (!model || more == 0) {
      return;
    }
    for (const Event& next : possible(*model, so_far.size())) {
      so_far.push_back(next);
      explore(so_far, more - 1);
      so_far.pop_back();
    }
  }

  unsigned histories = 0;

 private:
  static std::vector<Event> possible(const Model& model, OperationId id) {
    std::vector<Event> events{Ready{id, 0, kAnyNode, 1}};
    for (const NodeId node : {0u, 1u}) {
      const bool is_up = model.up.count(node) != 0;
      is_up ? events.emplace_back(NodeDown{node}) : events.emplace_back(NodeUp{node});
      if (is_up && model.has(node, 0)) {
        events.emplace_back(Ready{id, 1, node, 1});
      } else if (is_up) {
        events.emplace_back(DeviceUp{0, node});
      }
    }
    for (const auto& [operation, known] : model.operations) {
      known.running ? events.emplace_back(Finished{operation, 1, 1})
                    : events.emplace_back(Cancelled{operation});
    }
    return events;
  }

  /// The model afterwards; nothing where a rule was broken.
  std::optional<Model> run(const std::vector<Event>& events) {
    ++histories;
    Policy policy;
    Model model;
    std::string log;
    Recorder recorder(policy, [&](std::string_view line) { log.append(line) += '\n'; });
    std::string why;
    EXPECT_EQ(recorder.add_device(config_, why), 0) << why;
    model.devices.push_back(config_);
    for (const Class priority : {Class::foreground, Class::prefetch}) {
      const FlowConfig flow{"flow", 0, priority, fixed(60), 0};
      EXPECT_GE(recorder.add_flow(flow, why), 0) << why;
      model.add(flow, {});
    }
    uint64_t now_ns = 0;
    for (const Event& event : events) {
      std::vector<Decision> decisions;
      EXPECT_TRUE(policy.accepts(event, ++now_ns, why)) << why;
      model.hear(event);
      recorder.on(event, now_ns, decisions);
      for (const Decision& decision : decisions) {
        model.start(std::get<Start>(decision));
      }
      EXPECT_EQ(policy.nodes_with(0), model.nodes_with(0).size());
      for (const auto& [id, operation] : model.operations) {
        for (const NodeId node : model.up) {
          if (!operation.running && (operation.node == kAnyNode || operation.node == node)) {
            EXPECT_NE(model.reason_to_wait(id, node), "") << id << " could start on " << node;
          }
        }
      }
      if (::testing::Test::HasFailure()) {
        ADD_FAILURE() << "the log:\n" << log;
        return std::nullopt;
      }
    }
    return model;
  }

  const DeviceConfig config_;
};

TEST(PolicyDeviceUp, TheRulesHoldInAllShortHistories) {
  for (const Scheduling scheduling : {Scheduling::none, Scheduling::strict}) {
    for (const bool over_all : {false, true}) {
      const DeviceConfig config = on_some_nodes(device_with_budget(100, scheduling));
      ShortHistories all(over_all ? shared(config) : config);
      std::vector<Event> none;
      all.explore(none, 6);
      EXPECT_GT(all.histories, 10'000u);
    }
  }
}

}  // namespace
}  // namespace ioweave::policy
