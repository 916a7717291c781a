// Nodes that come and go, and operations that may run on any of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/turn_ring.hpp"
#include "virtual_time.hpp"

namespace ioweave::policy {
namespace {

using namespace testing_support;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(PolicyPlacement, FillsNodesInTheOrderInWhichTheyCameUp) {
  VirtualTime time;
  time.add(device_with_budget(100));
  const FlowId flow = time.flow(Class::foreground, fixed(50));
  time.up(9);
  time.up(4);
  Starts all;
  for (OperationId id = 1; id <= 7; ++id) {
    const Starts starts = time.ready_anywhere(id, flow);
    all.insert(all.end(), starts.begin(), starts.end());
  }
  EXPECT_THAT(all, ElementsAre(Start{1, 0}, Start{2, 0}, Start{3, 9}, Start{4, 9}, Start{5, 4},
                               Start{6, 4}));
  EXPECT_THAT(time.finished(3), ElementsAre(Start{7, 9}));
}

TEST(PolicyPlacement, ANodeThatComesBackIsTheLast) {
  VirtualTime time;
  time.add(device_with_slots(1));
  const FlowId flow = time.flow();
  time.up(1);
  time.down(0);
  time.up(0);
  EXPECT_THAT(time.ready_anywhere(1, flow), ElementsAre(Start{1, 1}));
  EXPECT_THAT(time.ready_anywhere(2, flow), ElementsAre(Start{2, 0}));
}

TEST(PolicyPlacement, RespectsTheFlowsLimitPerNode) {
  for (const bool over_all : {false, true}) {
    VirtualTime time;
    time.add(over_all ? shared(device()) : device());
    const FlowId flow = time.flow(Class::foreground, {}, 1);
    time.up(1);
    EXPECT_THAT(time.ready_anywhere(1, flow), ElementsAre(Start{1, 0}));
    EXPECT_THAT(time.ready_anywhere(2, flow), ElementsAre(Start{2, 1}));
    EXPECT_THAT(time.ready_anywhere(3, flow), IsEmpty());
    EXPECT_THAT(time.finished(2), ElementsAre(Start{3, 1}));
  }
}

TEST(PolicyPlacement, SkipsNodesWhoseLimitAndRoomDoNotMeet) {
  VirtualTime time;
  time.add(device_with_budget(100));
  const FlowId limited = time.flow(Class::foreground, fixed(60), 1);
  const FlowId other = time.flow(Class::foreground, fixed(60));
  for (const NodeId node : {1u, 2u, 3u}) {
    time.up(node);
  }
  time.ready(1, limited, 0);  // Node 0: at the limit.
  time.ready(2, other, 1);    // Node 1: no room.
  time.ready(3, limited, 2);  // Node 2: at the limit.
  EXPECT_THAT(time.ready_anywhere(4, limited), ElementsAre(Start{4, 3}));
}

TEST(PolicyPlacement, ANewNodeTakesWhatWaits) {
  for (const bool over_all : {false, true}) {
    VirtualTime time;
    time.add(over_all ? shared(device()) : device());
    const FlowId flow = time.flow(Class::foreground, {}, 2);
    for (OperationId id = 1; id <= 5; ++id) {
      time.ready_anywhere(id, flow);
    }
    EXPECT_THAT(time.up(3), ElementsAre(Start{3, 3}, Start{4, 3}));
  }
}

TEST(PolicyPlacement, WithoutAnyNodeOperationsWaitForOne) {
  for (const bool over_all : {false, true}) {
    VirtualTime time;
    time.add(over_all ? shared(device()) : device());
    const FlowId flow = time.flow();
    time.down(0);
    EXPECT_THAT(time.ready_anywhere(1, flow), IsEmpty());
    EXPECT_THAT(time.up(8), ElementsAre(Start{1, 8}));
  }
}

TEST(PolicyPlacement, TakesTurnsWithTheNodesOwnOperations) {
  VirtualTime time;
  time.add(device_with_slots(1));
  const FlowId bound = time.flow();
  const FlowId placed = time.flow();
  time.ready(1, bound);
  for (const OperationId id : {2u, 3u}) {
    time.ready(id, bound);
    time.ready_anywhere(id + 10, placed);
  }
  Ids order;
  for (OperationId running = 1; time.policy.waiting() > 0;) {
    running = time.finished(running).front().operation;
    order.push_back(running);
  }
  EXPECT_THAT(order, ElementsAre(2, 12, 3, 13));
}

class PolicyPromise : public ::testing::Test {
 protected:
  PolicyPromise() {
    time.add(device_with_budget(100));
    large = time.flow(Class::foreground, fixed(100));
    small = time.flow(Class::foreground, fixed(50));
    time.up(1);
    for (const NodeId node : {0u, 1u, 0u, 1u}) {
      time.ready(next++, small, node);
    }
    EXPECT_THAT(time.ready_anywhere(kLarge, large), IsEmpty());
  }

  /// Two small ones run on each node all the time. Returns those that ran until one did not get a
  /// successor although it waits.
  OperationId pass_until_promised() {
    bool passed = true;
    while (passed && oldest < 2 * kFirst) {
      time.ready(next, small, static_cast<NodeId>(next % 2));
      ++next;
      passed = !time.finished(oldest++).empty();
    }
    return oldest - kFirst;
  }

  static constexpr OperationId kLarge = 1;
  static constexpr OperationId kFirst = 100;  ///< the even ones on node 0, the odd ones on node 1
  VirtualTime time;
  FlowId large = 0;
  FlowId small = 0;
  OperationId next = kFirst;
  OperationId oldest = kFirst;
};

TEST_F(PolicyPromise, OneThatSmallerOnesPassedOftenEnoughGetsANode) {
  EXPECT_GT(pass_until_promised(), TurnRing::kMostPassed);
  while (!time.started(kLarge)) {
    ASSERT_LE(oldest - kFirst, TurnRing::kMostPassed + 6);
    time.ready(next, small, static_cast<NodeId>(next % 2));
    ++next;
    time.finished(oldest++);
  }
}

TEST_F(PolicyPromise, IsGivenBackWhenAnotherNodeHasRoomEarlier) {
  pass_until_promised();
  EXPECT_EQ(time.policy.running(), 3u);
  const Starts starts = time.up(2);
  EXPECT_EQ(starts.size(), 2u);  // The large one there, a small one where room had been kept.
  EXPECT_EQ(starts.front(), (Start{kLarge, 2}));
}

TEST_F(PolicyPromise, IsGivenBackWhenTheOperationIsCancelled) {
  pass_until_promised();
  EXPECT_EQ(time.policy.running(), 3u);
  EXPECT_EQ(time.cancelled(kLarge).size(), 1u);
  EXPECT_EQ(time.policy.running(), 4u);
}

TEST_F(PolicyPromise, IsGivenByAnotherNodeWhenItsNodeGoesDown) {
  pass_until_promised();
  const auto promised = static_cast<NodeId>((oldest - 1) % 2);
  const NodeId other = 1 - promised;
  time.down(promised);
  Ids running{oldest + (oldest % 2 == other ? 0 : 1)};
  running.push_back(running.front() + 2);
  for (size_t i = 0; i < running.size() && !time.started(kLarge); ++i) {
    ASSERT_LE(i, 4u);
    for (const Ids& starts :
         {ids(time.finished(running[i])), ids(time.ready(1000 + i, small, other))}) {
      running.insert(running.end(), starts.begin(), starts.end());
    }
  }
  EXPECT_TRUE(time.started(kLarge));
}

TEST_F(PolicyPromise, LeavesTheRoomToOthersForAnyNodeWhenItIsOver) {
  pass_until_promised();
  const auto promised = static_cast<NodeId>((oldest - 1) % 2);
  while (time.policy.waiting() > 1) {  // Nobody of the node's own takes the room.
    time.cancelled(--next);
  }
  time.cancelled(kLarge);
  EXPECT_THAT(time.ready_anywhere(2, small), ElementsAre(Start{2, promised}));
}

TEST(PolicyPlacement, ANodeIsNotPromisedToAFlowThatIsAtItsLimitThere) {
  VirtualTime time;
  time.add(device_with_budget(100));
  const FlowId large = time.flow(Class::foreground, fixed(60), 1);
  const FlowId small = time.flow(Class::foreground, fixed(1));
  time.ready_anywhere(1, large);
  time.ready_anywhere(2, large);
  for (OperationId id = 100; id < 130; ++id) {
    EXPECT_EQ(time.ready(id, small).size(), 1u);
  }
}

class PolicyPlacementStrict : public ::testing::Test {
 protected:
  PolicyPlacementStrict() {
    time.add(device_with_budget(100, Scheduling::strict));
    foreground = time.flow(Class::foreground, fixed(80));
    prefetch = time.flow(Class::prefetch, fixed(30));
    time.up(1);
    time.ready(1, prefetch, 0);
    time.ready(2, prefetch, 1);
    EXPECT_THAT(time.ready_anywhere(3, foreground), IsEmpty());
  }

  VirtualTime time;
  FlowId foreground = 0;
  FlowId prefetch = 0;
};

TEST_F(PolicyPlacementStrict, NoLowerClassPassesOneThatWaitsForAnyNode) {
  EXPECT_THAT(time.ready(4, prefetch, 1), IsEmpty());
  EXPECT_THAT(time.ready_anywhere(5, prefetch), IsEmpty());
  EXPECT_THAT(time.finished(2), UnorderedElementsAre(Start{3, 1}, Start{5, 0}));
  EXPECT_THAT(time.finished(3), ElementsAre(Start{4, 1}));
}

TEST_F(PolicyPlacementStrict, LowerOnesOnAllNodesGoOnWhenItIsCancelled) {
  time.ready(4, prefetch, 1);
  time.ready(5, prefetch, 0);
  time.ready_anywhere(6, prefetch);
  EXPECT_THAT(time.cancelled(3), UnorderedElementsAre(Start{4, 1}, Start{5, 0}, Start{6, 0}));
}

TEST_F(PolicyPlacementStrict, LowerOnesThatFoundRoomMeanwhileGoOnToo) {
  time.cancelled(3);
  for (const OperationId id : {4u, 5u, 6u}) {
    time.ready(id, prefetch, 0);
  }
  time.ready_anywhere(7, foreground);
  EXPECT_THAT(time.finished(1), IsEmpty());  // Room for 6 on node 0, but 7 waits.
  EXPECT_THAT(time.cancelled(7), ElementsAre(Start{6, 0}));
}

TEST_F(PolicyPlacementStrict, LowerOnesOnAllNodesGoOnWhenItHasStartedOnOne) {
  time.ready(4, prefetch, 1);
  time.ready(5, prefetch, 0);
  EXPECT_THAT(time.finished(2), UnorderedElementsAre(Start{3, 1}, Start{5, 0}));
}

TEST_F(PolicyPlacementStrict, ANodeThatGoesDownIsNotWaitedFor) {
  time.ready(4, prefetch, 1);
  EXPECT_THAT(time.down(1), IsEmpty());
  EXPECT_EQ(time.policy.waiting(), 1u);
  EXPECT_THAT(time.finished(1), ElementsAre(Start{3, 0}));
}

// ---- Nodes that go down ------------------------------------------------------------------------

TEST(PolicyNodeDown, ForgetsWhatWaitedForItOrRanOnIt) {
  VirtualTime time;
  time.add(device_with_slots(1));
  const FlowId flow = time.flow();
  time.up(1);
  time.ready(1, flow, 1);
  time.ready(2, flow, 1);
  EXPECT_THAT(time.down(1), IsEmpty());
  EXPECT_EQ(time.policy.running(), 0u);
  EXPECT_EQ(time.policy.waiting(), 0u);
  EXPECT_EQ(time.policy.waiting(0, Class::foreground), 0u);
  time.up(1);
  EXPECT_THAT(time.ready(1, flow, 1), ElementsAre(Start{1, 1}));
}

TEST(PolicyNodeDown, FreesWhatItHeldOfASharedDevice) {
  VirtualTime time;
  time.add(shared(device_with_budget(100)));
  const FlowId flow = time.flow(Class::foreground, fixed(50));
  time.up(1);
  time.ready(1, flow, 1);
  time.ready(2, flow, 1);
  time.ready(3, flow, 0);
  time.ready(4, flow, 0);
  EXPECT_THAT(time.down(1), UnorderedElementsAre(Start{3, 0}, Start{4, 0}));
}

TEST(PolicyNodeDown, ManyComingsAndGoingsKeepTheOrder) {
  VirtualTime time;
  time.add(device_with_slots(1));
  const FlowId flow = time.flow(Class::foreground, {}, 1);
  time.ready_anywhere(1, flow);
  for (NodeId node = 1; node < 1000; ++node) {
    time.up(node);
    EXPECT_THAT(time.ready_anywhere(1000 + node, flow), ElementsAre(Start{1000 + node, node}));
    time.down(node);
  }
  time.up(5);
  time.up(3);
  EXPECT_THAT(time.ready_anywhere(2, flow), ElementsAre(Start{2, 5}));
  EXPECT_THAT(time.ready_anywhere(3, flow), ElementsAre(Start{3, 3}));
}

TEST(PolicyNodeDown, TheNodesThatStayKeepTheirRoomHoweverManyWentDownBeforeThem) {
  for (const bool limit_of_flow : {false, true}) {
    VirtualTime time;
    time.add(limit_of_flow ? device() : device_with_slots(1));
    const FlowId flow = time.flow(Class::foreground, {}, limit_of_flow ? 1 : 0);
    time.up(1);
    time.up(2);
    time.up(3);
    EXPECT_THAT(time.ready_anywhere(1, flow), ElementsAre(Start{1, 0}));
    EXPECT_THAT(time.ready_anywhere(2, flow), ElementsAre(Start{2, 1}));
    time.down(0);
    for (NodeId node = 100; node < 300; ++node) {
      time.up(node);
      time.down(node);
    }
    EXPECT_THAT(time.ready_anywhere(3, flow), ElementsAre(Start{3, 2}));
    EXPECT_THAT(time.ready_anywhere(4, flow), ElementsAre(Start{4, 3}));
    EXPECT_THAT(time.ready_anywhere(5, flow), IsEmpty());
    EXPECT_THAT(time.finished(2), ElementsAre(Start{5, 1}));
  }
}

TEST(PolicyPlacement, TenThousandNodesAndAHundredThousandOperationsAllEnd) {
  VirtualTime time;
  time.add(device_with_budget(450));
  const FlowId flow = time.flow(Class::foreground, fixed(150));
  constexpr NodeId kNodes = 10'000;
  constexpr OperationId kOperations = 100'000;
  for (NodeId node = 1; node < kNodes; ++node) {
    time.up(node);
  }
  Ids running;
  for (OperationId id = 0; id < kOperations; ++id) {
    for (const Start& start : time.ready_anywhere(id, flow)) {
      running.push_back(start.operation);
    }
  }
  EXPECT_EQ(running.size(), 3 * kNodes);
  for (size_t i = 0; i < running.size(); ++i) {
    for (const Start& start : time.finished(running[i])) {
      running.push_back(start.operation);
    }
  }
  EXPECT_EQ(running.size(), kOperations);
}

}  // namespace
}  // namespace ioweave::policy
