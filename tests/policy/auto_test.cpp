// The auto-tuned constraints of the I/O-aware tasks paper: its numbers, its cases, and where a flow
// learns.

#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/auto_constraint.hpp"
#include "virtual_time.hpp"

namespace ioweave::policy {
namespace {

using namespace testing_support;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kBudget = 450;

Constraint unbounded(uint32_t executors = 225) {
  Constraint constraint;
  constraint.kind = Constraint::Kind::auto_unbounded;
  constraint.executors = executors;
  return constraint;
}

Constraint bounded(double min, double max, double delta) {
  Constraint constraint;
  constraint.kind = Constraint::Kind::auto_bounded;
  constraint.min_mb_per_s = min;
  constraint.max_mb_per_s = max;
  constraint.delta = delta;
  return constraint;
}

/// Mean time of an operation by the constraint it ran under.
using TimeOf = std::function<double(double constraint_mb_per_s)>;

/// Twice as fast with each doubling, up to `knee`; from there on, no faster.
TimeOf halving_up_to(double knee) {
  return [knee](double c) { return 512 / std::min(c, knee); };
}

/// One flow on one device with the paper's budget, whose operations always wait.
class Auto : public ::testing::Test {
 protected:
  void begin(const Constraint& constraint, const DeviceConfig& on = device_with_budget(kBudget),
             const std::string& learned = {}) {
    time.add(on);
    FlowConfig config{"checkpoint", 0, Class::foreground, constraint, 0, learned};
    flow = time.add(config);
  }

  void note(const Starts& starts) {
    for (const OperationId id : ids(starts)) {
      running.push_back(id);
    }
  }

  void wait_for(unsigned more, NodeId node = kAnyNode) {
    for (; more > 0; --more) {
      note(time.ready(next++, flow, node));
    }
  }

  void end_first(double seconds) {
    const OperationId id = running.front();
    running.erase(running.begin());
    note(time.tell(Finished{id, seconds, 4096}));
  }

  /// Runs operations until it has learned; how many it took. Each ends when all have started, so
  /// that an epoch is what runs at once.
  unsigned learn(const TimeOf& time_of) {
    unsigned taken = 0;
    while (explain().phase == Explanation::Phase::learning) {
      const double constraint = explain().constraint_mb_per_s;
      wait_for(static_cast<unsigned>(explain().limit));
      const size_t epoch = running.size();
      for (size_t i = 0; i < epoch; ++i, ++taken) {
        end_first(time_of(constraint));
      }
    }
    return taken;
  }

  Explanation explain() { return time.policy.explain(flow); }

  std::vector<unsigned> epoch_tasks() {
    std::vector<unsigned> tasks;
    for (const auto& epoch : explain().epochs) {
      tasks.push_back(epoch.tasks);
    }
    return tasks;
  }

  std::vector<double> registered() {
    std::vector<double> constraints;
    for (const auto& known : explain().registry) {
      constraints.push_back(known.constraint_mb_per_s);
    }
    return constraints;
  }

  VirtualTime time;
  FlowId flow = 0;
  OperationId next = 0;
  Ids running;
};

// ---- Learning ----------------------------------------------------------------------------------

TEST_F(Auto, BoundedLearnsFrom446TasksAsInThePaper) {
  begin(bounded(2, 256, 2));
  EXPECT_EQ(learn(halving_up_to(8)), 446u);
  EXPECT_THAT(epoch_tasks(), ElementsAre(225, 112, 56, 28, 14, 7, 3, 1));
  EXPECT_THAT(registered(), ElementsAre(2, 4, 8, 16, 32, 64, 128, 256));
  EXPECT_THAT(explain().epochs.back().why, HasSubstr("above max"));
}

TEST_F(Auto, UnboundedLearnsFrom435TasksWhereTheFifthEpochIsNotTwiceAsFast) {
  begin(unbounded());
  EXPECT_EQ(learn(halving_up_to(16)), 435u);
  EXPECT_THAT(epoch_tasks(), ElementsAre(225, 112, 56, 28, 14));
}

TEST_F(Auto, TheEpochThatEndsTheLearningIsNotRegistered) {
  begin(unbounded());
  learn(halving_up_to(16));
  EXPECT_THAT(registered(), ElementsAre(2, 4, 8, 16));
  EXPECT_FALSE(explain().epochs.back().registered);
  EXPECT_TRUE(explain().epochs.front().registered);
}

TEST_F(Auto, ExactlyHalfTheTimeIsGoodEnoughToGoOn) {
  begin(unbounded());
  learn([](double c) { return c <= 4 ? 512 / c : 512 / c + 1e-9; });
  EXPECT_THAT(registered(), ElementsAre(2, 4));
}

TEST_F(Auto, UnboundedEndsBeforeAConstraintAboveTheBudget) {
  begin(unbounded());
  learn(halving_up_to(1e9));
  EXPECT_THAT(epoch_tasks(), ElementsAre(225, 112, 56, 28, 14, 7, 3, 1));
  EXPECT_THAT(explain().epochs.back().why, HasSubstr("above the budget"));
}

TEST_F(Auto, BoundedEndsBeforeAConstraintAboveTheBudget) {
  begin(bounded(100, 10'000, 3));
  learn(halving_up_to(1e9));
  EXPECT_THAT(registered(), ElementsAre(100, 300));
}

TEST_F(Auto, BeginsAtBudgetByExecutors) {
  begin(unbounded(7));
  EXPECT_EQ(explain().limit, 7u);
  EXPECT_NEAR(explain().constraint_mb_per_s, kBudget / 7, 1e-9);
}

TEST_F(Auto, AnEpochWaitsForMoreWhereFewerCome) {
  begin(bounded(100, 400, 2));
  wait_for(3);
  EXPECT_EQ(running.size(), 3u);
  while (!running.empty()) {
    end_first(5);
  }
  EXPECT_THAT(registered(), IsEmpty());
  wait_for(1);
  end_first(9);
  EXPECT_THAT(registered(), ElementsAre(100));
  EXPECT_EQ(explain().registry[0].mean_s, 6);
}

TEST_F(Auto, WhatComesAfterAFullEpochWaitsForTheNext) {
  begin(bounded(100, 400, 2));
  wait_for(8);
  EXPECT_EQ(running.size(), 4u);
  for (int i = 0; i < 3; ++i) {
    end_first(5);
    EXPECT_EQ(running.size(), 3u - static_cast<unsigned>(i));
  }
  end_first(5);
  EXPECT_EQ(running.size(), 2u);  // floor(450 / 200)
  EXPECT_THAT(time.limits, ElementsAre(SetLimit{flow, 2}));
}

TEST_F(Auto, AFailedOrCancelledOperationIsReplaced) {
  begin(bounded(100, 400, 2));
  wait_for(6);
  note(time.tell(Failed{running[0]}));
  note(time.cancelled(running[1]));
  EXPECT_EQ(running.size(), 6u);
  running.erase(running.begin(), running.begin() + 2);
  for (int i = 0; i < 4; ++i) {
    end_first(3);
  }
  ASSERT_THAT(registered(), ElementsAre(100));
  EXPECT_EQ(explain().epochs[0].tasks, 4u);
  EXPECT_EQ(explain().registry[0].mean_s, 3);
}

TEST_F(Auto, AnEpochIsNoLargerThanMaxInFlight) {
  DeviceConfig on = device_with_budget(kBudget);
  on.max_in_flight = 10;
  begin(bounded(2, 256, 2), on);
  learn(halving_up_to(8));
  EXPECT_THAT(epoch_tasks(), ElementsAre(10, 10, 10, 10, 10, 7, 3, 1));
}

// ---- The objective -----------------------------------------------------------------------------

std::string registry(std::initializer_list<std::pair<double, double>> pairs) {
  std::string text = "auto";
  for (const auto& [constraint, seconds] : pairs) {
    text += " " + std::to_string(constraint) + ":" + std::to_string(seconds);
  }
  return text;
}

AutoConstraint with_registry(std::initializer_list<std::pair<double, double>> pairs) {
  const FlowConfig config{"f", 0, Class::foreground, bounded(2, 256, 2), 0, registry(pairs)};
  return AutoConstraint(config, device_with_budget(100));
}

TEST(AutoObjective, IsGroupsTimesMeanTime) {
  const AutoConstraint constraint = with_registry({{10, 40}, {25, 12}, {50, 8}});
  EXPECT_EQ(constraint.estimate(20, 0), 2 * 40);
  EXPECT_EQ(constraint.estimate(20, 1), 5 * 12);
  EXPECT_EQ(constraint.estimate(20, 2), 10 * 8);
}

TEST(AutoObjective, ARemainderTakesWhatSoManyAtOnceTakeByTheRegistry) {
  const AutoConstraint constraint = with_registry({{10, 40}, {25, 12}, {50, 8}});
  // 10, 4 and 2 at once take 40, 12 and 8 s: 7 at once (40 + 12) / 2, 3 at once (12 + 8) / 2.
  EXPECT_EQ(constraint.estimate(17, 0), 40 + 26);
  EXPECT_EQ(constraint.estimate(7, 1), 12 + 10);
  EXPECT_EQ(constraint.estimate(4, 0), 12);
  // Nothing is known of less than the smallest group.
  EXPECT_EQ(constraint.estimate(1, 0), 8);
  EXPECT_EQ(constraint.estimate(3, 2), 8 + 8);
}

TEST(AutoObjective, ARemainderNeverTakesLongerThanAFullGroup) {
  const AutoConstraint constraint = with_registry({{10, 5}, {50, 8}});
  EXPECT_EQ(constraint.estimate(13, 0), 5 + 5);
}

TEST_F(Auto, ChoosesTheLeastTimeForWhatWaits) {
  begin(unbounded(), device_with_budget(100), registry({{10, 40}, {25, 12}, {50, 8}}));
  EXPECT_EQ(explain().phase, Explanation::Phase::chosen);
  // While one waits: each constraint takes 8 s, so the highest. From 5 on, 25 MB/s.
  wait_for(2);
  EXPECT_EQ(running.size(), 2u);
  EXPECT_EQ(explain().constraint_mb_per_s, 50);
  wait_for(3);
  EXPECT_EQ(explain().constraint_mb_per_s, 25);
  EXPECT_THAT(time.limits, ElementsAre(SetLimit{flow, 4}));
  const Explanation::Choice choice = explain().choices.back();
  EXPECT_EQ(choice.waiting, 3u);
  EXPECT_EQ(choice.constraint_mb_per_s, 25);
  ASSERT_EQ(choice.estimates.size(), 3u);
  EXPECT_EQ(choice.estimates[2].seconds, 16);
}

TEST_F(Auto, ChoosesForThoseThatWaitWhenItHasLearned) {
  begin(bounded(50, 400, 2), device_with_budget(400));
  wait_for(8 + 4 + 2 + 1 + 12);
  // Eight at once are the quickest by far, and nobody comes any more: it must not stay at 400.
  for (int i = 0; i < 8 + 4 + 2 + 1; ++i) {
    end_first(1);
  }
  EXPECT_EQ(explain().phase, Explanation::Phase::chosen);
  EXPECT_EQ(explain().constraint_mb_per_s, 50);
  EXPECT_EQ(running.size(), 8u);
  EXPECT_EQ(explain().choices.back().waiting, 12u);
}

TEST_F(Auto, OfATieItChoosesTheHighestConstraint) {
  begin(unbounded(), device_with_budget(100), registry({{10, 20}, {20, 10}, {40, 8}}));
  // Ten take 20 s at once, 2 x 10 s five by five, 5 x 8 s two by two.
  time.add(FlowConfig{"other", 0, Class::foreground, fixed(100), 0});
  time.ready(1000, 1);  // The budget is held, so all of them wait.
  wait_for(10);
  EXPECT_EQ(explain().constraint_mb_per_s, 20);
}

TEST_F(Auto, AChangedConstraintIsThatOfTheOperationsThatWait) {
  begin(unbounded(), device_with_budget(100), registry({{25, 4}, {100, 3}}));
  wait_for(1);
  EXPECT_EQ(running.size(), 1u);  // It holds all of it.
  wait_for(4);
  EXPECT_EQ(running.size(), 1u);
  EXPECT_EQ(explain().constraint_mb_per_s, 25);
  end_first(3);
  EXPECT_EQ(running.size(), 4u);
}

TEST_F(Auto, WaitingOperationsForAnyNodeAreSharedOutAmongTheNodes) {
  for (NodeId node = 1; node < 4; ++node) {
    time.up(node);
  }
  begin(unbounded(), device_with_budget(100), registry({{25, 4}, {100, 3}}));
  wait_for(4 + 3);
  EXPECT_EQ(running.size(), 4u);
  EXPECT_EQ(explain().constraint_mb_per_s, 100);  // At most one waits for each of four nodes.
  wait_for(5);
  EXPECT_EQ(explain().constraint_mb_per_s, 25);
}

TEST_F(Auto, ALowerClassDoesNotSlipInWhereALowerConstraintLetsThoseThatWaitedGo) {
  for (NodeId node = 1; node < 4; ++node) {
    time.up(node);
  }
  begin(unbounded(), device_with_budget(100, Scheduling::strict), registry({{25, 4}, {100, 3}}));
  const FlowId low = time.flow(Class::prefetch, fixed(50));
  wait_for(1);  // It holds node 0. The others have room for 50 MB/s, not for 100.
  for (NodeId node = 1; node < 4; ++node) {
    time.ready(100 + node, low, node);
  }
  wait_for(4);
  time.ready_anywhere(200, low);
  EXPECT_EQ(running.size(), 1u);
  wait_for(1);
  EXPECT_EQ(explain().constraint_mb_per_s, 25);
  EXPECT_EQ(running.size(), 6u);
  EXPECT_FALSE(time.started(200));
}

// ---- Beside operations that wait for much bandwidth --------------------------------------------

/// A large operation for any node waits, and small ones of node 0 pass it until that node's room is
/// promised to it. Node 1 is full.
class AutoBesideLarge : public ::testing::Test {
 protected:
  void SetUp() override {
    time.up(1);
    time.add(device_with_budget(100));
    small = time.flow(Class::foreground, fixed(50));
    large = time.flow(Class::foreground, fixed(100));
    time.ready(kOnNodeOne, large, 1);
  }

  void pass_until_promised(FlowId waits) {
    time.ready(next_small++, small, 0);
    time.ready(next_small++, small, 0);
    EXPECT_THAT(time.ready_anywhere(kLarge, waits), IsEmpty());
    for (time.ready(next_small++, small, 0); time.finished(oldest_small).size() == 1;) {
      ++oldest_small;
      time.ready(next_small++, small, 0);
    }
    ++oldest_small;
    ASSERT_FALSE(time.started(kLarge));
    ASSERT_EQ(time.policy.running(), 2u);  // One small one, and that of node 1.
  }

  static constexpr OperationId kLarge = 1, kOnNodeOne = 2, kLearns = 100;
  VirtualTime time;
  FlowId small = 0;
  FlowId large = 0;
  OperationId next_small = 1000;
  OperationId oldest_small = 1000;
};

TEST_F(AutoBesideLarge, ALearningNodeIsNotPromisedToAnotherFlow) {
  pass_until_promised(large);
  const FlowId learner = time.flow(Class::foreground, bounded(50, 100, 2));
  EXPECT_EQ(ids(time.ready_anywhere(kLearns, learner)), Ids{kLearns});
  EXPECT_TRUE(time.policy.explain(learner).keeps_others_out);
  EXPECT_EQ(ids(time.finished(kOnNodeOne)), Ids{kLarge});
}

TEST_F(AutoBesideLarge, WhatMayNotStartOnALearningNodeIsNotPassedThere) {
  const FlowId learner = time.flow(Class::foreground, bounded(5, 100, 2));
  EXPECT_EQ(time.ready_anywhere(kLearns, learner).front().node, 0u);
  EXPECT_THAT(time.ready_anywhere(kLarge, large), IsEmpty());
  for (OperationId id = kLearns + 1; id < kLearns + 20; ++id) {
    EXPECT_EQ(ids(time.ready_anywhere(id, learner)), Ids{id});
  }
}

TEST_F(AutoBesideLarge, AConstraintThatFallsIntoThePromisedRoomLetsItsFlowStart) {
  const FlowId chosen = time.add(
      FlowConfig{"f", 0, Class::foreground, unbounded(), 0, registry({{25, 4}, {100, 3}})});
  pass_until_promised(chosen);
  time.ready_anywhere(kLarge + 10, chosen);
  time.ready_anywhere(kLarge + 11, chosen);
  EXPECT_EQ(time.policy.explain(chosen).constraint_mb_per_s, 25);
  EXPECT_TRUE(time.started(kLarge));
}

// ---- What it has learned -----------------------------------------------------------------------

TEST_F(Auto, ALaterRunBeginsWithTheRegistry) {
  begin(bounded(2, 256, 2));
  EXPECT_EQ(time.policy.learned(flow), "");
  learn(halving_up_to(8));
  const std::string learned = time.policy.learned(flow);
  VirtualTime later;
  later.add(device_with_budget(kBudget));
  const FlowId again =
      later.add(FlowConfig{"f", 0, Class::foreground, bounded(2, 256, 2), 0, learned});
  EXPECT_EQ(later.policy.explain(again).phase, Explanation::Phase::chosen);
  EXPECT_EQ(later.policy.explain(again).registry.size(), 8u);
  EXPECT_EQ(later.policy.learned(again), learned);
}

TEST_F(Auto, WhatItLearnedOnALargerBudgetOrByClimbIsNotUsed) {
  begin(unbounded(), device_with_budget(100), "auto 50:8 200:2");
  EXPECT_EQ(explain().phase, Explanation::Phase::learning);
  const FlowId other =
      time.add(FlowConfig{"f", 0, Class::foreground, unbounded(), 0, "climb 12:431"});
  EXPECT_EQ(time.policy.explain(other).phase, Explanation::Phase::learning);
}

// ---- Where it learns ---------------------------------------------------------------------------

/// Three nodes; a flow that learns with epochs of 4, 2 and 1 tasks, and one with a fixed
/// constraint.
class AutoNodes : public Auto {
 protected:
  void SetUp() override {
    time.up(1);
    time.up(2);
    begin(bounded(100, 400, 2));
    other = time.flow(Class::foreground, fixed(50));
  }

  NodeId home() { return explain().learning_node.value(); }

  FlowId other = 0;
};

TEST_F(AutoNodes, OperationsForAnyNodeAllWaitForTheLearningNode) {
  for (const Start& start : time.ready_anywhere(1, flow)) {
    EXPECT_EQ(start.node, 0u);
  }
  EXPECT_EQ(home(), 0u);
  for (OperationId id = 2; id <= 4; ++id) {
    EXPECT_EQ(time.ready_anywhere(id, flow).front().node, 0u);
  }
  EXPECT_THAT(time.ready_anywhere(5, flow), IsEmpty());
}

TEST_F(AutoNodes, NobodyElseStartsOnTheLearningNodeWhileItLearns) {
  time.ready(100, other, 0);  // It was there before.
  wait_for(4);
  EXPECT_TRUE(explain().keeps_others_out);
  EXPECT_EQ(time.ready_anywhere(101, other).front().node, 1u);
  EXPECT_THAT(time.ready(102, other, 0), IsEmpty());
  EXPECT_THAT(time.finished(100), IsEmpty());
  wait_for(3);
  std::vector<OperationId> others;
  while (!running.empty()) {
    end_first(1);
    std::erase_if(running, [&](OperationId id) {
      if (id >= 100) {
        others.push_back(id);
      }
      return id >= 100;
    });
  }
  EXPECT_EQ(explain().phase, Explanation::Phase::chosen);
  EXPECT_THAT(others, ElementsAre(102));
  EXPECT_EQ(time.ready_anywhere(103, other).front().node, 0u);
}

TEST_F(AutoNodes, WhileItHasNothingToRunOthersMay) {
  wait_for(1);
  EXPECT_THAT(time.ready(100, other, 0), IsEmpty());
  end_first(1);
  EXPECT_THAT(running, ElementsAre(100));
  EXPECT_EQ(explain().phase, Explanation::Phase::learning);
}

TEST_F(AutoNodes, WhatAlwaysFailsDoesNotKeepOthersOut) {
  wait_for(12);
  EXPECT_THAT(time.ready(100, other, 0), IsEmpty());
  for (int i = 0; i < 4; ++i) {
    const OperationId id = running.front();
    running.erase(running.begin());
    note(time.tell(Failed{id}));
  }
  EXPECT_TRUE(time.started(100));
  EXPECT_EQ(explain().phase, Explanation::Phase::learning);
}

TEST_F(AutoNodes, EachFlowThatLearnsHasANodeOfItsOwnAndOneIsLeftForTheRest) {
  const FlowId second = time.flow(Class::foreground, bounded(100, 400, 2));
  const FlowId third = time.flow(Class::foreground, bounded(100, 400, 2));
  time.ready_anywhere(1, flow);
  time.ready_anywhere(2, second);
  time.ready_anywhere(3, third);
  EXPECT_EQ(time.policy.explain(flow).learning_node, 0u);
  EXPECT_EQ(time.policy.explain(second).learning_node, 1u);
  EXPECT_EQ(time.policy.explain(third).learning_node, 2u);
  EXPECT_TRUE(time.policy.explain(second).keeps_others_out);
  EXPECT_FALSE(time.policy.explain(third).keeps_others_out);
  EXPECT_EQ(time.ready_anywhere(4, other).front().node, 2u);
}

TEST_F(AutoNodes, OperationsBoundElsewhereRunUncounted) {
  wait_for(4);
  for (OperationId id = 100; id < 104; ++id) {
    EXPECT_THAT(ids(time.ready(id, flow, 1)), ElementsAre(id));
  }
  EXPECT_THAT(time.ready(104, flow, 1), IsEmpty());  // Under the same constraint.
  EXPECT_THAT(ids(time.finished(100)), ElementsAre(104));
  EXPECT_EQ(explain().epochs.back().tasks, 0u);
}

TEST_F(AutoNodes, TheLearningNodeFollowsOperationsThatAreBoundElsewhere) {
  wait_for(1);
  end_first(7);
  wait_for(3, 2);
  EXPECT_EQ(home(), 2u);
  while (!running.empty()) {
    end_first(7);
  }
  EXPECT_THAT(registered(), ElementsAre(100));
}

TEST_F(AutoNodes, WhenTheLearningNodeGoesDownTheEpochBeginsAgainElsewhere) {
  wait_for(6);
  end_first(1);
  const Starts moved = time.down(0);
  EXPECT_EQ(moved.size(), 2u);
  EXPECT_EQ(moved.front().node, 1u);
  EXPECT_EQ(home(), 1u);
  running = ids(moved);
  wait_for(2);
  while (!running.empty()) {
    end_first(2);
  }
  ASSERT_THAT(registered(), ElementsAre(100));
  EXPECT_EQ(explain().registry[0].mean_s, 2);
}

TEST(AutoAlone, FlowsThatLoseTheNodeWhereTheyLearnedTogetherEachFindTheirOwn) {
  VirtualTime time;
  time.add(device_with_budget(kBudget));
  const FlowId first = time.flow(Class::foreground, bounded(100, 400, 2));
  const FlowId second = time.flow(Class::foreground, bounded(100, 400, 2));
  for (OperationId id = 0; id < 20; ++id) {
    time.ready_anywhere(id, id % 2 == 0 ? first : second);
  }
  time.up(1);
  time.up(2);
  const Starts starts = time.down(0);
  EXPECT_EQ(starts.size(), 8u);
  for (const Start& start : starts) {
    EXPECT_EQ(start.node, start.operation % 2 == 0 ? 1u : 2u);
  }
}

TEST_F(AutoNodes, TheLastNodeIsNobodysOwn) {
  wait_for(1);
  time.ready(100, other, 0);
  EXPECT_TRUE(explain().keeps_others_out);
  time.down(1);
  EXPECT_TRUE(explain().keeps_others_out);
  EXPECT_THAT(ids(time.down(2)), ElementsAre(100));
  EXPECT_FALSE(explain().keeps_others_out);
}

TEST_F(AutoNodes, AllNodesServeItOnceItHasLearned) {
  wait_for(4 + 2 + 1);
  while (!running.empty()) {
    end_first(1);
  }
  EXPECT_EQ(explain().phase, Explanation::Phase::chosen);
  for (const NodeId node : {0u, 1u, 2u}) {
    EXPECT_EQ(time.ready_anywhere(next++, flow).front().node, node);
  }
}

TEST_F(AutoNodes, AHigherClassOfAStrictDeviceIsNotKeptOut) {
  VirtualTime strict;
  strict.up(1);
  strict.add(device_with_budget(kBudget, Scheduling::strict));
  const FlowId high = strict.flow(Class::foreground, fixed(50));
  const FlowId learner = strict.flow(Class::prefetch, bounded(100, 400, 2));
  strict.ready_anywhere(1, learner);
  EXPECT_TRUE(strict.policy.explain(learner).keeps_others_out);
  EXPECT_EQ(strict.ready_anywhere(2, high).front().node, 0u);
}

TEST(AutoAlone, FlowsThatLearnOnTheOnlyNodeDoSoTogether) {
  VirtualTime time;
  time.add(device_with_budget(kBudget));
  const FlowId first = time.flow(Class::foreground, bounded(100, 400, 2));
  const FlowId second = time.flow(Class::foreground, bounded(100, 400, 2));
  const FlowId other = time.flow(Class::foreground, fixed(50));
  EXPECT_EQ(time.ready_anywhere(1, first).size(), 1u);
  EXPECT_EQ(time.ready_anywhere(2, second).size(), 1u);
  EXPECT_EQ(time.ready_anywhere(3, other).size(), 1u);
  EXPECT_FALSE(time.policy.explain(first).keeps_others_out);
}

TEST_F(Auto, OnASharedDeviceAnEpochCountsOverAllNodes) {
  time.up(1);
  begin(bounded(100, 400, 2), shared(device_with_budget(kBudget)));
  wait_for(2, 0);
  wait_for(3, 1);
  EXPECT_EQ(running.size(), 4u);
  EXPECT_FALSE(explain().learning_node.has_value());
  for (int i = 0; i < 4; ++i) {
    end_first(3);
  }
  EXPECT_THAT(registered(), ElementsAre(100));
  EXPECT_EQ(running.size(), 1u);
}

TEST_F(Auto, OnASharedDeviceANodeThatGoesDownTakesItsPartOfTheEpochAlong) {
  time.up(1);
  begin(bounded(100, 400, 2), shared(device_with_budget(kBudget)));
  wait_for(2, 1);
  wait_for(4, 0);
  EXPECT_EQ(running.size(), 4u);
  EXPECT_EQ(time.down(1).size(), 2u);
}

}  // namespace
}  // namespace ioweave::policy
