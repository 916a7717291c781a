// Bandwidth: what running operations hold, what that keeps out, and how a large one gets its turn.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/turn_ring.hpp"
#include "virtual_time.hpp"

namespace ioweave::policy {
namespace {

using namespace testing_support;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Split {
  double budget;
  double constraint;
  unsigned at_once;
};

void PrintTo(const Split& split, std::ostream* out) {
  *out << split.constraint << " of " << split.budget << " MB/s";
}

class Fixed : public ::testing::TestWithParam<Split> {};

TEST_P(Fixed, RunsAsManyAtOnceAsTheBudgetHolds) {
  VirtualTime time;
  time.add(device_with_budget(GetParam().budget));
  const FlowId flow = time.flow(Class::foreground, fixed(GetParam().constraint));
  for (OperationId id = 0; id < 1000; ++id) {
    time.ready(id, flow);
  }
  EXPECT_EQ(time.policy.running(), GetParam().at_once);
  // Sums of doubles would drift apart over the run and end one too high or too low.
  for (OperationId id = 0; id < 500; ++id) {
    EXPECT_EQ(time.finished(id).size(), 1u);
  }
  EXPECT_EQ(time.policy.running(), GetParam().at_once);
}

INSTANTIATE_TEST_SUITE_P(Policy, Fixed,
                         ::testing::Values(Split{450, 2, 225}, Split{450, 450, 1},
                                           Split{450, 450.0 / 7, 7}, Split{0.3, 0.1, 3},
                                           Split{1, 1.0 / 3, 3}, Split{100, 33.4, 2},
                                           Split{1e-6, 1e-6, 1}, Split{1e12, 1e12 / 64, 64}));

TEST(PolicyBudget, CountsPerNodeOrOverAll) {
  for (const bool over_all : {false, true}) {
    VirtualTime time;
    time.add(over_all ? shared(device_with_budget(100)) : device_with_budget(100));
    const FlowId flow = time.flow(Class::foreground, fixed(60));
    time.up(1);
    EXPECT_THAT(ids(time.ready(1, flow, 0)), ElementsAre(1));
    EXPECT_EQ(time.ready(2, flow, 1).empty(), over_all);
  }
}

TEST(PolicyBudget, AFlowWithoutConstraintHoldsNothingAndNeverWaits) {
  VirtualTime time;
  time.add(device_with_budget(100));
  const FlowId bound = time.flow(Class::foreground, fixed(100));
  const FlowId free = time.flow();
  time.ready(1, bound);
  EXPECT_THAT(ids(time.ready(2, free)), ElementsAre(2));
  EXPECT_THAT(time.ready(3, bound), IsEmpty());
  EXPECT_THAT(ids(time.finished(1)), ElementsAre(3));
}

TEST(PolicyBudget, AConstraintWithoutABudgetHoldsNothing) {
  VirtualTime time;
  time.add(device());
  const FlowId flow = time.flow(Class::foreground, fixed(1e12));
  for (OperationId id = 0; id < 20; ++id) {
    EXPECT_EQ(time.ready(id, flow).size(), 1u);
  }
}

TEST(PolicyBudget, AnOperationThatDoesNotFitLetsSmallerOnesPass) {
  VirtualTime time;
  time.add(device_with_budget(100));
  const FlowId large = time.flow(Class::foreground, fixed(80));
  const FlowId small = time.flow(Class::foreground, fixed(10));
  time.ready(1, small);
  time.ready(2, small);
  time.ready(3, small);
  EXPECT_THAT(time.ready(4, large), IsEmpty());
  EXPECT_THAT(ids(time.ready(5, small)), ElementsAre(5));
}

TEST(PolicyBudget, OneThatWasPassedOftenEnoughIsNotPassedAgain) {
  VirtualTime time;
  time.add(device_with_budget(100));
  const FlowId large = time.flow(Class::foreground, fixed(100));
  const FlowId small = time.flow(Class::foreground, fixed(50));
  const FlowId free = time.flow();
  OperationId next = 100;
  OperationId oldest = next;
  time.ready(next++, small);
  time.ready(next++, small);
  EXPECT_THAT(time.ready(1, large), IsEmpty());
  // Two run and two wait all the time, so each end lets another small one pass.
  time.ready(next++, small);
  time.ready(next++, small);
  for (uint32_t i = 0; i < TurnRing::kMostPassed; ++i) {
    time.ready(next++, small);
    EXPECT_EQ(time.finished(oldest++).size(), 1u);
  }
  EXPECT_THAT(time.finished(oldest++), IsEmpty());
  EXPECT_THAT(time.ready(next++, small), IsEmpty());
  EXPECT_THAT(ids(time.ready(2, free)), ElementsAre(2));  // It takes nothing from the large one.
  EXPECT_THAT(ids(time.finished(oldest++)), ElementsAre(1));
  EXPECT_EQ(time.finished(1).size(), 2u);
}

TEST(PolicyBudget, WhenTheOneThatWasPassedGivesUpTheOthersGoOn) {
  VirtualTime time;
  time.add(device_with_budget(100));
  const FlowId large = time.flow(Class::foreground, fixed(100));
  const FlowId small = time.flow(Class::foreground, fixed(50));
  time.ready(100, small);
  time.ready(101, small);
  time.ready(1, large);
  for (OperationId id = 102; id < 130; ++id) {
    time.ready(id, small);
  }
  OperationId oldest = 100;
  while (!time.finished(oldest++).empty()) {
  }
  EXPECT_EQ(time.policy.running(), 1u);
  EXPECT_EQ(time.cancelled(1).size(), 1u);
  EXPECT_EQ(time.policy.running(), 2u);
}

TEST(PolicyBudget, LargeOnesOfManyFlowsEachGetTheirTurn) {
  VirtualTime time;
  time.add(device_with_budget(100));
  const FlowId small = time.flow(Class::foreground, fixed(10));
  constexpr OperationId kLarge = 1000;
  std::vector<FlowId> large;
  for (int i = 0; i < 5; ++i) {
    large.push_back(time.flow(Class::foreground, fixed(95 + i)));
  }
  OperationId next = 0;
  Ids running;
  const auto add = [&](const Starts& starts) {
    for (const Start& start : starts) {
      running.push_back(start.operation);
    }
  };
  for (int i = 0; i < 20; ++i) {
    add(time.ready(next++, small));
  }
  for (size_t i = 0; i < large.size(); ++i) {
    add(time.ready(kLarge + i, large[i]));
  }
  unsigned large_started = 0;
  size_t ended = 0;
  for (; ended < running.size() && large_started < large.size(); ++ended) {
    large_started += running[ended] >= kLarge ? 1 : 0;
    add(time.ready(next++, small));
    add(time.finished(running[ended]));
  }
  EXPECT_EQ(large_started, large.size());
  EXPECT_LE(ended, large.size() * (TurnRing::kMostPassed + 11));
}

}  // namespace
}  // namespace ioweave::policy
