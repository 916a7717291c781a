// Who goes next among equals: within a flow, among flows, and what an end of any kind frees.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "virtual_time.hpp"

namespace ioweave::policy {
namespace {

using namespace testing_support;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Finishes operation after operation in the order in which they start.
Ids run_dry(VirtualTime& time, Ids running) {
  for (size_t i = 0; i < running.size(); ++i) {
    const Ids next = ids(time.finished(running[i]));
    running.insert(running.end(), next.begin(), next.end());
  }
  return running;
}

TEST(PolicyOrder, AnOperationStartsAtOnceWhereNothingHoldsItBack) {
  VirtualTime time;
  time.add(device());
  const FlowId flow = time.flow();
  EXPECT_THAT(time.ready(7, flow), ElementsAre(Start{7, 0}));
  EXPECT_EQ(time.policy.running(), 1u);
  EXPECT_THAT(time.finished(7), IsEmpty());
  EXPECT_EQ(time.policy.running(), 0u);
}

TEST(PolicyOrder, AnIdMayBeUsedAgainAfterItsEnd) {
  VirtualTime time;
  time.add(device());
  const FlowId flow = time.flow();
  time.ready(7, flow);
  time.finished(7);
  EXPECT_THAT(time.ready(7, flow), ElementsAre(Start{7, 0}));
}

TEST(PolicyOrder, WithinAFlowFirstInFirstOut) {
  VirtualTime time;
  time.add(device_with_slots(1));
  const FlowId flow = time.flow();
  Ids running = ids(time.ready(1, flow));
  for (const OperationId id : {5u, 3u, 9u}) {
    EXPECT_THAT(time.ready(id, flow), IsEmpty());
  }
  EXPECT_EQ(time.policy.waiting(), 3u);
  EXPECT_THAT(run_dry(time, running), ElementsAre(1, 5, 3, 9));
}

TEST(PolicyOrder, FlowsOfAClassTakeTurnsHoweverManyOperationsOneHas) {
  VirtualTime time;
  time.add(device_with_slots(1));
  const FlowId many = time.flow();
  const FlowId few = time.flow();
  Ids running = ids(time.ready(1, many));
  for (const OperationId id : {2u, 3u, 4u, 5u}) {
    time.ready(id, many);
  }
  time.ready(11, few);
  time.ready(12, few);
  EXPECT_THAT(run_dry(time, running), ElementsAre(1, 11, 2, 12, 3, 4, 5));
}

TEST(PolicyOrder, OnASharedDeviceTheNodesOfAFlowDoNotGetATurnEach) {
  VirtualTime time;
  time.add(shared(device_with_slots(1)));
  const FlowId on_three_nodes = time.flow();
  const FlowId on_one = time.flow();
  time.up(1);
  time.up(2);
  Ids running = ids(time.ready(1, on_one, 0));
  time.ready(10, on_three_nodes, 0);
  time.ready(11, on_three_nodes, 1);
  time.ready(12, on_three_nodes, 2);
  time.ready(2, on_one, 0);
  time.ready(3, on_one, 0);
  EXPECT_THAT(run_dry(time, running), ElementsAre(1, 10, 2, 11, 3, 12));
}

TEST(PolicyOrder, OnASharedDeviceTheNodesOfAFlowTakeTurnsWithinIt) {
  VirtualTime time;
  time.add(shared(device_with_slots(1)));
  const FlowId flow = time.flow();
  time.up(1);
  Ids running = ids(time.ready(1, flow, 0));
  for (const OperationId id : {2u, 3u, 4u}) {
    time.ready(id, flow, 0);
  }
  time.ready(11, flow, 1);
  time.ready(12, flow, 1);
  EXPECT_THAT(run_dry(time, running), ElementsAre(1, 2, 11, 3, 12, 4));
}

TEST(PolicyOrder, AFlowAtItsOwnLimitDoesNotHoldBackAnother) {
  VirtualTime time;
  time.add(device_with_slots(4));
  const FlowId limited = time.flow(Class::foreground, {}, 1);
  const FlowId other = time.flow();
  EXPECT_THAT(ids(time.ready(1, limited)), ElementsAre(1));
  EXPECT_THAT(time.ready(2, limited), IsEmpty());
  EXPECT_THAT(ids(time.ready(3, other)), ElementsAre(3));
  EXPECT_THAT(ids(time.finished(1)), ElementsAre(2));
}

TEST(PolicyOrder, AFlowsLimitCountsPerNode) {
  VirtualTime time;
  time.add(shared(device()));
  const FlowId flow = time.flow(Class::foreground, {}, 1);
  time.up(1);
  EXPECT_THAT(ids(time.ready(1, flow, 0)), ElementsAre(1));
  EXPECT_THAT(ids(time.ready(2, flow, 1)), ElementsAre(2));
  EXPECT_THAT(time.ready(3, flow, 1), IsEmpty());
  EXPECT_THAT(time.finished(1), IsEmpty());
  EXPECT_THAT(time.finished(2), ElementsAre(Start{3, 1}));
}

TEST(PolicyOrder, ADevicesLimitCountsPerNodeOrOverAll) {
  for (const bool over_all : {false, true}) {
    VirtualTime time;
    time.add(over_all ? shared(device_with_slots(1)) : device_with_slots(1));
    const FlowId flow = time.flow();
    time.up(1);
    EXPECT_THAT(ids(time.ready(1, flow, 0)), ElementsAre(1));
    EXPECT_EQ(time.ready(2, flow, 1).empty(), over_all);
  }
}

TEST(PolicyOrder, DevicesDoNotHoldEachOtherBack) {
  VirtualTime time;
  time.add(device_with_slots(1));
  const FlowId first = time.flow();
  time.add(device_with_slots(1));
  const FlowId second = time.flow();
  time.ready(1, first);
  EXPECT_THAT(time.ready(2, first), IsEmpty());
  EXPECT_THAT(ids(time.ready(3, second)), ElementsAre(3));
  EXPECT_EQ(time.policy.waiting(0, Class::foreground), 1u);
  EXPECT_EQ(time.policy.waiting(1, Class::foreground), 0u);
}

struct End {
  const char* name;
  Event event;
};

void PrintTo(const End& end, std::ostream* out) {
  *out << end.name;
}

class AnEnd : public ::testing::TestWithParam<End> {};

TEST_P(AnEnd, FreesWhatTheOperationHeldWhetherItsStartWasToldOrNot) {
  for (const bool told : {false, true}) {
    VirtualTime time;
    time.add(device_with_budget(100));
    const FlowId flow = time.flow(Class::foreground, fixed(100), 1);
    time.ready(1, flow);
    if (told) {
      time.tell(Started{1});
    }
    EXPECT_THAT(time.ready(2, flow), IsEmpty());
    EXPECT_THAT(ids(time.tell(GetParam().event)), ElementsAre(2));
    EXPECT_EQ(time.policy.running(), 1u);
    EXPECT_EQ(time.policy.waiting(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Policy, AnEnd,
                         ::testing::Values(End{"Finished", Finished{1, 1.0, 4096}},
                                           End{"Failed", Failed{1}},
                                           End{"Cancelled", Cancelled{1}}),
                         [](const auto& instance) { return instance.param.name; });

TEST(PolicyOrder, AWaitingOperationThatIsCancelledLeavesTheOthersInOrder) {
  VirtualTime time;
  time.add(device_with_slots(1));
  const FlowId flow = time.flow();
  Ids running = ids(time.ready(1, flow));
  for (const OperationId id : {2u, 3u, 4u}) {
    time.ready(id, flow);
  }
  EXPECT_THAT(time.cancelled(3), IsEmpty());
  EXPECT_EQ(time.policy.waiting(), 2u);
  EXPECT_THAT(run_dry(time, running), ElementsAre(1, 2, 4));
}

TEST(PolicyOrder, SamplesChangeNothingWhereConstraintsDoNotLearn) {
  VirtualTime time;
  time.add(device_with_slots(1));
  const FlowId flow = time.flow();
  time.ready(1, flow);
  time.ready(2, flow);
  time.pass(1);
  EXPECT_THAT(time.tell(Sample{0, 0, 4.5e8}), IsEmpty());
}

}  // namespace
}  // namespace ioweave::policy
