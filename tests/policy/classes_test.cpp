// Priority classes: none, strict and weighted, and the activity of the fast path.

#include <array>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/turn_ring.hpp"
#include "virtual_time.hpp"

namespace ioweave::policy {
namespace {

using namespace testing_support;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PolicyNone, AllClassesRunAtOnceAndTakeTurns) {
  VirtualTime time;
  time.add(device_with_slots(2));
  const FlowId foreground = time.flow(Class::foreground);
  const FlowId prefetch = time.flow(Class::prefetch);
  time.ready(1, foreground);
  EXPECT_THAT(ids(time.ready(2, prefetch)), ElementsAre(2));
  time.ready(3, prefetch);
  time.ready(4, prefetch);
  time.ready(5, foreground);
  EXPECT_THAT(ids(time.finished(1)), ElementsAre(5));
  EXPECT_THAT(ids(time.finished(2)), ElementsAre(3));
}

class PolicyStrict : public ::testing::Test {
 protected:
  VirtualTime time;
  DeviceId disk = time.add(device_with_budget(100, Scheduling::strict));
  FlowId foreground = time.flow(Class::foreground);
  FlowId large_foreground = time.flow(Class::foreground, fixed(80));
  FlowId write_behind = time.flow(Class::write_behind, fixed(10));
  FlowId prefetch = time.flow(Class::prefetch, fixed(10));
};

TEST_F(PolicyStrict, ALowerClassWaitsWhileAHigherOneRuns) {
  time.ready(1, foreground);
  time.ready(2, foreground);
  EXPECT_THAT(time.ready(3, prefetch), IsEmpty());
  EXPECT_THAT(time.finished(1), IsEmpty());
  EXPECT_THAT(ids(time.finished(2)), ElementsAre(3));
}

TEST_F(PolicyStrict, ARunningPrefetchIsNotWaitedForByAHigherClass) {
  time.ready(1, prefetch);
  EXPECT_THAT(ids(time.ready(2, foreground)), ElementsAre(2));
}

TEST_F(PolicyStrict, APrefetchYieldsAtTheEndOfItsSlice) {
  time.ready(1, prefetch);
  time.ready(2, foreground);
  EXPECT_THAT(time.finished(1), IsEmpty());
  EXPECT_THAT(time.ready(3, prefetch), IsEmpty());
  EXPECT_THAT(ids(time.finished(2)), ElementsAre(3));
}

TEST_F(PolicyStrict, ThreeClassesGoInOrder) {
  time.ready(1, foreground);
  time.ready(2, prefetch);
  time.ready(3, write_behind);
  EXPECT_THAT(ids(time.finished(1)), ElementsAre(3));
  EXPECT_THAT(ids(time.finished(3)), ElementsAre(2));
}

TEST_F(PolicyStrict, WhileAHigherOneWaitsForRoomNoLowerOneTakesIt) {
  for (const OperationId id : {1u, 2u, 3u}) {
    time.ready(id, prefetch);
  }
  EXPECT_THAT(time.ready(4, large_foreground), IsEmpty());
  EXPECT_THAT(time.ready(5, prefetch), IsEmpty());
  EXPECT_THAT(ids(time.finished(1)), ElementsAre(4));
  EXPECT_THAT(time.finished(2), IsEmpty());
  EXPECT_THAT(ids(time.finished(4)), ElementsAre(5));
}

TEST_F(PolicyStrict, WhenTheHigherOneGivesUpTheLowerOnesStart) {
  for (const OperationId id : {1u, 2u, 3u}) {
    time.ready(id, prefetch);
  }
  time.ready(4, large_foreground);
  time.ready(5, prefetch);
  EXPECT_THAT(ids(time.cancelled(4)), ElementsAre(5));
}

TEST_F(PolicyStrict, ActivityOfTheFastPathHoldsLowerClassesBackUntilItEnds) {
  EXPECT_THAT(time.active(2), IsEmpty());
  EXPECT_THAT(time.ready(1, prefetch), IsEmpty());
  EXPECT_THAT(time.ready(2, write_behind), IsEmpty());
  EXPECT_THAT(time.active(1), IsEmpty());
  EXPECT_THAT(ids(time.active(0)), ElementsAre(2));
  EXPECT_THAT(ids(time.finished(2)), ElementsAre(1));
}

TEST_F(PolicyStrict, ActivityDoesNotHoldBackItsOwnClassNorHigherOnes) {
  time.active(3, Class::write_behind);
  EXPECT_THAT(ids(time.ready(1, write_behind)), ElementsAre(1));
  EXPECT_THAT(ids(time.ready(2, foreground)), ElementsAre(2));
}

TEST_F(PolicyStrict, ActivityCountsOnItsOwnNodeOnly) {
  time.up(1);
  time.active(1, Class::foreground, 1);
  EXPECT_THAT(ids(time.ready(1, prefetch, 0)), ElementsAre(1));
  EXPECT_THAT(time.ready(2, prefetch, 1), IsEmpty());
}

TEST(PolicyStrictShared, ActivityOfAnyNodeHoldsAllBack) {
  VirtualTime time;
  time.add(shared(device(Scheduling::strict)));
  const FlowId prefetch = time.flow(Class::prefetch);
  time.up(1);
  time.active(1, Class::foreground, 0);
  time.active(2, Class::foreground, 1);
  EXPECT_THAT(time.ready(1, prefetch, 0), IsEmpty());
  EXPECT_THAT(time.active(0, Class::foreground, 0), IsEmpty());
  EXPECT_THAT(ids(time.active(0, Class::foreground, 1)), ElementsAre(1));
}

TEST(PolicyStrictShared, ActivityOfANodeThatGoesDownIsOver) {
  VirtualTime time;
  time.add(shared(device(Scheduling::strict)));
  const FlowId prefetch = time.flow(Class::prefetch);
  time.up(1);
  time.active(2, Class::foreground, 1);
  time.ready(1, prefetch, 0);
  EXPECT_THAT(ids(time.down(1)), ElementsAre(1));
}

TEST(PolicyStrictLimit, AHigherFlowAtItsOwnLimitIsRunningAndHoldsLowerOnesBack) {
  VirtualTime time;
  time.add(device(Scheduling::strict));
  const FlowId foreground = time.flow(Class::foreground, {}, 1);
  const FlowId prefetch = time.flow(Class::prefetch);
  time.ready(1, foreground);
  time.ready(2, foreground);
  EXPECT_THAT(time.ready(3, prefetch), IsEmpty());
  EXPECT_THAT(ids(time.finished(1)), ElementsAre(2));
  EXPECT_THAT(ids(time.finished(2)), ElementsAre(3));
}

// ---- weighted ----------------------------------------------------------------------------------

struct Share {
  std::array<uint32_t, kClasses> weights;
  std::array<uint64_t, kClasses> bytes;  ///< of each operation of the class
};

void PrintTo(const Share& share, std::ostream* out) {
  *out << ::testing::PrintToString(share.weights) << " with "
       << ::testing::PrintToString(share.bytes);
}

class PolicyWeighted : public ::testing::TestWithParam<Share> {};

/// All classes always have work, one slot: after every start, for any two classes, the difference
/// of bytes / weight is at most one operation of each.
TEST_P(PolicyWeighted, SharesBytesByWeightWithinOneOperationOfEachClass) {
  const auto& [weights, bytes] = GetParam();
  VirtualTime time;
  DeviceConfig config = device_with_slots(1, Scheduling::weighted);
  config.weights = weights;
  time.add(config);
  std::array<FlowId, kClasses> flows{time.flow(Class::foreground), time.flow(Class::write_behind),
                                     time.flow(Class::prefetch)};
  OperationId next = 0;
  const auto add = [&](unsigned i) {
    return time.ready(next++ * kClasses + i, flows[i], 0, bytes[i]);
  };
  Starts starts = add(0);
  for (unsigned i = 0; i < kClasses; ++i) {
    add(i);
    add(i);
  }
  std::array<double, kClasses> served{};
  for (int step = 0; step < 5000; ++step) {
    ASSERT_EQ(starts.size(), 1u);
    const OperationId ended = starts.front().operation;
    const auto priority = static_cast<unsigned>(ended % kClasses);
    add(priority);
    starts = time.finished(ended);
    served[starts.front().operation % kClasses] +=
        static_cast<double>(bytes[starts.front().operation % kClasses]);
    for (unsigned a = 0; a < kClasses; ++a) {
      for (unsigned b = 0; b < kClasses; ++b) {
        const double bound =
            static_cast<double>(bytes[a]) / weights[a] + static_cast<double>(bytes[b]) / weights[b];
        // 0.1 %: lag of a byte is a whole number.
        ASSERT_LE(served[a] / weights[a] - served[b] / weights[b],
                  bound + 1e-3 * served[a] / weights[a])
            << "classes " << a << " and " << b << " after " << step << " starts";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policy, PolicyWeighted,
                         ::testing::Values(Share{{16, 4, 1}, {4096, 4096, 4096}},
                                           Share{{1, 1, 1}, {4096, 65536, 1 << 20}},
                                           Share{{3, 7, 1000}, {1 << 20, 4096, 8192}},
                                           Share{{16, 4, 1}, {290'000'000, 1 << 20, 512 << 10}}));

TEST(PolicyWeightedClasses, ALowClassAloneHasTheWholeDevice) {
  VirtualTime time;
  time.add(device_with_slots(1, Scheduling::weighted));
  const FlowId prefetch = time.flow(Class::prefetch);
  time.ready(1, prefetch);
  time.ready(2, prefetch);
  EXPECT_THAT(ids(time.finished(1)), ElementsAre(2));
}

TEST(PolicyWeightedClasses, AClassThatWasAwayComesBackWithoutCredit) {
  VirtualTime time;
  DeviceConfig config = device_with_slots(1, Scheduling::weighted);
  config.weights = {1, 1, 1};
  time.add(config);
  const FlowId foreground = time.flow(Class::foreground);
  const FlowId prefetch = time.flow(Class::prefetch);
  OperationId running = 0;
  time.ready(0, prefetch);
  for (OperationId id = 1; id < 60; ++id) {
    time.ready(id, prefetch);
  }
  for (int i = 0; i < 40; ++i) {
    running = time.finished(running).front().operation;
  }
  for (OperationId id = 100; id < 110; ++id) {
    time.ready(id, foreground);
  }
  unsigned of_prefetch = 0;
  for (int i = 0; i < 10; ++i) {
    running = time.finished(running).front().operation;
    of_prefetch += running < 100 ? 1 : 0;
  }
  EXPECT_EQ(of_prefetch, 5u);
}

TEST(PolicyWeightedClasses, AnOperationThatDoesNotFitLetsAnotherClassPassButNotForEver) {
  VirtualTime time;
  time.add(device_with_budget(100, Scheduling::weighted));
  const FlowId large = time.flow(Class::foreground, fixed(100));
  const FlowId small = time.flow(Class::prefetch, fixed(50));
  OperationId next = 100;
  OperationId oldest = 100;
  time.ready(next++, small);
  time.ready(next++, small);
  EXPECT_THAT(time.ready(1, large), IsEmpty());
  uint32_t passed = 0;
  while (time.policy.waiting(0, Class::foreground) == 1) {
    time.ready(next++, small);
    ASSERT_LE(passed, TurnRing::kMostPassed);
    const Ids started = ids(time.finished(oldest++));
    passed += static_cast<uint32_t>(
        std::count_if(started.begin(), started.end(), [](OperationId id) { return id != 1; }));
  }
  EXPECT_EQ(passed, TurnRing::kMostPassed);
}

TEST(PolicyWeightedClasses, WhoGoesFirstByItsShareDoesNotPassAnybody) {
  VirtualTime time;
  DeviceConfig config = device_with_budget(100, Scheduling::weighted);
  config.weights = {1000, 1, 1};
  time.add(config);
  const FlowId small = time.flow(Class::foreground, fixed(50));
  const FlowId large = time.flow(Class::prefetch, fixed(100));
  Ids running;
  OperationId next = 100;
  const auto add = [&](const Starts& starts) {
    const Ids started = ids(starts);
    running.insert(running.end(), started.begin(), started.end());
  };
  for (int i = 0; i < 4; ++i) {
    add(time.ready(next++, small));
  }
  time.ready(1, large);
  time.ready(2, large);
  // The first large one has not had its share yet; the second is due after 1000 small ones.
  for (size_t ended = 0; ended < 10 * TurnRing::kMostPassed; ++ended) {
    add(time.ready(next++, small));
    add(time.finished(running[ended]));
  }
  EXPECT_TRUE(time.started(1));
  EXPECT_FALSE(time.started(2));
}

TEST(PolicyWeightedClasses, OperationsWithoutBytesStillCostTheirShare) {
  VirtualTime time;
  DeviceConfig config = device_with_slots(1, Scheduling::weighted);
  config.weights = {1, 1, 1};
  time.add(config);
  const FlowId syncs = time.flow(Class::foreground);
  const FlowId writes = time.flow(Class::write_behind);
  time.ready(1, syncs, 0, 0);
  for (const OperationId id : {2u, 3u, 4u}) {
    time.ready(id, syncs, 0, 0);
    time.ready(id + 10, writes, 0, 4096);
  }
  EXPECT_THAT(ids(time.finished(1)), ElementsAre(2));
  EXPECT_THAT(ids(time.finished(2)), ElementsAre(12));
  EXPECT_THAT(ids(time.finished(12)), ElementsAre(3));
}

}  // namespace
}  // namespace ioweave::policy
