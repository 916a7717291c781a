#include "calls/stream/prefetch_planner.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace ioweave::calls {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
using Outcome = PrefetchPlanner::Outcome;
using Verdict = PrefetchPlanner::Verdict;

class Planner : public ::testing::Test {
 protected:
  Planner() { planner.resized(1024 * kMiB); }

  void read(uint64_t offset, uint64_t bytes, bool slow = true) {
    planner.observe({offset, bytes}, slow);
  }
  /// Takes everything that is planned; each slice ends at once.
  std::vector<Range> take_all(Outcome outcome = Outcome::fetched) {
    std::vector<Range> taken;
    while (const auto slice = planner.next()) {
      taken.push_back(*slice);
      planner.completed(*slice, outcome);
    }
    return taken;
  }
  static uint64_t total(const std::vector<Range>& ranges) {
    uint64_t bytes = 0;
    for (const Range& range : ranges) {
      bytes += range.bytes;
    }
    return bytes;
  }

  LookaheadBudget budget{2048 * kMiB};
  PlannerLimits limits{.slice_bytes = kMiB, .lookahead_bytes = 64 * kMiB};
  PrefetchPlanner planner{limits, budget};
};

TEST_F(Planner, PlansNothingBeforeAnythingWasRead) {
  EXPECT_TRUE(take_all().empty());
}

TEST_F(Planner, TakesALargeFirstReadForAChunkAndPlansExactlyTheNextOne) {
  read(0, 16 * kMiB);
  const auto plan = take_all();
  ASSERT_EQ(plan.size(), 16u);
  EXPECT_EQ(plan.front(), (Range{16 * kMiB, kMiB}));
  EXPECT_EQ(plan.back().end(), 32 * kMiB);
}

TEST_F(Planner, WaitsForASecondReadWhereTheFirstIsSmall) {
  read(0, 4 * kKiB);
  EXPECT_TRUE(take_all().empty());
  read(4 * kKiB, 4 * kKiB);
  EXPECT_FALSE(take_all().empty());
}

TEST_F(Planner, DoesNotFollowAFirstReadInTheMiddleOfTheFile) {
  read(512 * kMiB, 16 * kMiB);
  EXPECT_TRUE(take_all().empty());
}

TEST_F(Planner, BringsInAChunkLargerThanTheLookaheadEntirely) {
  read(0, 256 * kMiB);
  EXPECT_EQ(total(take_all()), 256 * kMiB);
}

TEST_F(Planner, GoesOnBehindALargeChunkUpToTheLookaheadOnceItWasUsed) {
  read(0, 256 * kMiB);
  EXPECT_EQ(total(take_all()), 256 * kMiB);
  read(256 * kMiB, 256 * kMiB, false);
  EXPECT_EQ(total(take_all()), 256 * kMiB + 64 * kMiB);
}

TEST_F(Planner, GrowsTheWindowWhileItIsUsedUpToTheLookahead) {
  uint64_t last = 0;
  for (uint64_t at = 0; at < 200 * kMiB; at += kMiB) {
    read(at, kMiB, at == 0);
    take_all();
    EXPECT_GE(planner.window_bytes(), last);
    last = planner.window_bytes();
  }
  EXPECT_EQ(last, 64 * kMiB);
}

TEST_F(Planner, DoesNotGrowTheWindowWhileNothingArrivesInTime) {
  for (uint64_t at = 0; at < 20 * kMiB; at += kMiB) {
    read(at, kMiB);
    take_all(Outcome::failed);
  }
  EXPECT_EQ(planner.window_bytes(), kMiB);
}

TEST_F(Planner, IsInAHurryUntilTheNextChunkAndHalfTheWindowAreAskedFor) {
  read(0, 16 * kMiB);
  EXPECT_FALSE(planner.comfortable());
  uint64_t at = 16 * kMiB;
  for (; at < 256 * kMiB; at += 16 * kMiB) {  // until the window has grown to 64 MiB
    take_all();
    read(at, 16 * kMiB, false);
  }
  take_all();
  EXPECT_TRUE(planner.comfortable());  // all of 64 MiB are
  read(at, 16 * kMiB, false);
  EXPECT_TRUE(planner.comfortable());  // just: 48 MiB are 16 and half of 64
  read(at + 16 * kMiB, kMiB, false);
  read(at + 17 * kMiB, 16 * kMiB, false);
  EXPECT_FALSE(planner.comfortable());
}

TEST_F(Planner, HandsOutSlicesOfTheGrainOfTheMoment) {
  read(0, 16 * kMiB);
  EXPECT_EQ(planner.next()->bytes, kMiB);
  planner.slices_of(128 * kKiB);
  EXPECT_EQ(*planner.next(), (Range{17 * kMiB, 128 * kKiB}));
}

TEST_F(Planner, AsksForEveryByteAtMostOnce) {
  std::map<uint64_t, uint64_t> asked;  // start -> end
  for (uint64_t at = 0; at < 100 * kMiB; at += 300 * kKiB) {
    read(at, 300 * kKiB, at % 7 == 0);
    for (const Range& slice : take_all()) {
      const auto [place, fresh] = asked.emplace(slice.offset, slice.end());
      ASSERT_TRUE(fresh);
      const auto after = std::next(place);
      ASSERT_TRUE(after == asked.end() || slice.end() <= after->first);
      ASSERT_TRUE(place == asked.begin() || std::prev(place)->second <= slice.offset);
    }
  }
}

TEST_F(Planner, DropsWhatTheProgramHasReadItself) {
  read(0, 16 * kMiB);
  ASSERT_TRUE(planner.next().has_value());  // one slice is on its way; the program is faster
  read(16 * kMiB, 16 * kMiB);
  const auto slice = planner.next();
  ASSERT_TRUE(slice.has_value());
  EXPECT_EQ(slice->offset, 32 * kMiB);
}

TEST_F(Planner, SlicesAreAlignedSoThatSmallReadsDoNotFragmentThem) {
  read(0, 300 * kKiB);
  read(300 * kKiB, 300 * kKiB);
  for (const Range& slice : take_all()) {
    EXPECT_TRUE(slice.end() % kMiB == 0 || slice.end() == 900 * kKiB);
    EXPECT_LE(slice.bytes, kMiB);
  }
}

TEST_F(Planner, StopsAtTheEndOfTheFile) {
  planner.resized(20 * kMiB + 5);
  read(0, 16 * kMiB);
  const auto plan = take_all();
  EXPECT_EQ(plan.back().end(), 20 * kMiB + 5);
  EXPECT_FALSE(planner.next().has_value());
}

TEST_F(Planner, AFileThatShrinksIsForgotten) {
  read(0, 16 * kMiB);
  (void)take_all();
  planner.resized(8 * kMiB);
  EXPECT_FALSE(planner.next().has_value());
  EXPECT_EQ(budget.taken(), 0u);
}

TEST_F(Planner, FollowsChunkSizedHoles) {
  read(0, 2 * kMiB);
  (void)take_all();
  read(8 * kMiB, 2 * kMiB);
  read(16 * kMiB, 2 * kMiB);
  const auto plan = take_all();
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0], (Range{24 * kMiB, kMiB}));
  EXPECT_EQ(plan[1], (Range{25 * kMiB, kMiB}));
}

TEST_F(Planner, FollowsAConstantStrideOfSmallRecords) {
  for (uint64_t i = 0; i < 4; ++i) {
    read(i * 64 * kKiB, 4 * kKiB);
  }
  const auto plan = take_all();
  ASSERT_FALSE(plan.empty());
  EXPECT_EQ(plan[0], (Range{256 * kKiB, 4 * kKiB}));
}

TEST_F(Planner, FollowsAStrideBackwardsAndStopsAtTheStart) {
  for (uint64_t i = 10; i > 6; --i) {
    read(i * 4 * kMiB, kMiB);
  }
  std::vector<uint64_t> starts;
  for (uint64_t i = 6; i + 1 > 0 && i < 100; --i) {
    for (const Range& slice : take_all()) {
      starts.push_back(slice.offset);
    }
    read(i * 4 * kMiB, kMiB, false);
  }
  EXPECT_EQ(starts, (std::vector<uint64_t>{24 * kMiB, 20 * kMiB, 16 * kMiB, 12 * kMiB, 8 * kMiB,
                                           4 * kMiB, 0}));
}

TEST_F(Planner, AStrayReadDoesNotEndATrack) {
  read(0, kMiB);
  read(kMiB, kMiB);
  (void)take_all();
  read(900 * kMiB, 4 * kKiB);
  read(2 * kMiB, kMiB);
  const auto plan = take_all();
  ASSERT_FALSE(plan.empty());
  EXPECT_GE(plan.front().offset, 3 * kMiB);
  EXPECT_LT(plan.back().end(), 100 * kMiB);
}

TEST_F(Planner, ANewPlaceTakesOverAndTheWindowStartsSmall) {
  for (uint64_t at = 0; at < 100 * kMiB; at += kMiB) {
    read(at, kMiB, false);
    (void)take_all();
    planner.rearm();
  }
  for (uint64_t at = 500 * kMiB; at < 503 * kMiB; at += kMiB) {
    read(at, kMiB);
  }
  EXPECT_EQ(planner.window_bytes(), kMiB);
  const auto plan = take_all();
  ASSERT_FALSE(plan.empty());
  EXPECT_EQ(plan.front().offset, 503 * kMiB);
}

TEST_F(Planner, RandomReadsEndInAVerdictAndAFreeBudget) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200 && planner.verdict() == Verdict::watching; ++i) {
    read(random() % (200'000) * 4096 + 1, 4 * kKiB);
    (void)take_all();
  }
  EXPECT_EQ(planner.verdict(), Verdict::random_access);
  EXPECT_EQ(budget.taken(), 0u);
  EXPECT_FALSE(planner.next().has_value());
}

TEST_F(Planner, ReadsAtMemorySpeedEndInNoGain) {
  for (uint64_t at = 0; at < 64 * kMiB; at += 4 * kMiB) {
    read(at, 4 * kMiB, false);
  }
  EXPECT_EQ(planner.verdict(), Verdict::no_gain);
}

TEST_F(Planner, SlicesThatAreCachedAlreadyEndInNoGain) {
  read(0, 128 * kMiB);
  (void)take_all(Outcome::cached);
  EXPECT_EQ(planner.verdict(), Verdict::no_gain);
  EXPECT_EQ(budget.taken(), 0u);
}

TEST_F(Planner, StepsOverWhatTheKernelHasReadAheadItself) {
  read(0, kMiB);
  for (int i = 0; i < 8; ++i) {  // the disk's read-ahead window is 8 MiB
    const auto slice = planner.next();
    ASSERT_TRUE(slice.has_value());
    planner.completed(*slice, Outcome::cached);
  }
  EXPECT_EQ(planner.verdict(), Verdict::watching);
  EXPECT_EQ(take_all(), (std::vector<Range>{{9 * kMiB, kMiB}}));
}

TEST_F(Planner, ASlowReadAfterRearmGoesOnWhereTheReaderIs) {
  read(0, 128 * kMiB);
  (void)take_all(Outcome::cached);
  planner.rearm();
  read(128 * kMiB, 128 * kMiB);
  const auto slice = planner.next();
  ASSERT_TRUE(slice.has_value());
  EXPECT_EQ(slice->offset, 256 * kMiB);
}

TEST_F(Planner, NeverTakesMoreThanTheBudgetOfAllFiles) {
  LookaheadBudget small(10 * kMiB);
  PrefetchPlanner one(limits, small);
  PrefetchPlanner other(limits, small);
  for (PrefetchPlanner* each : {&one, &other}) {
    each->resized(1024 * kMiB);
    each->observe({0, 8 * kMiB}, true);
    while (const auto slice = each->next()) {
      each->completed(*slice, Outcome::fetched);
      ASSERT_LE(small.taken(), 10 * kMiB);
    }
  }
  EXPECT_EQ(small.taken(), 10 * kMiB);
  one.observe({8 * kMiB, 8 * kMiB}, false);  // using bytes makes room
  EXPECT_TRUE(other.next().has_value());
}

TEST_F(Planner, AWholeRunUsesWhatItPlannedAndGivesTheBudgetBack) {
  planner.resized(100 * kMiB);
  uint64_t fetched = 0;
  for (uint64_t at = 0; at < 100 * kMiB; at += 2 * kMiB) {
    read(at, 2 * kMiB, at == 0);
    fetched += total(take_all());
  }
  EXPECT_EQ(fetched, 98 * kMiB);
  EXPECT_EQ(planner.used_bytes(), fetched);
  EXPECT_EQ(budget.taken(), 0u);
}

TEST_F(Planner, SurvivesAnyMixOfReadsWithItsBooksInOrder) {
  std::mt19937_64 random(42);
  for (int round = 0; round < 20; ++round) {
    PrefetchPlanner mixed(limits, budget);
    mixed.resized(256 * kMiB);
    std::vector<Range> flying;
    uint64_t at = 0;
    for (int i = 0; i < 2000; ++i) {
      at = random() % 10 == 0 ? random() % (256 * kMiB) : at;
      const uint64_t bytes = 1 + random() % (random() % 4 == 0 ? 8 * kMiB : 64 * kKiB);
      mixed.observe({at, bytes}, random() % 3 == 0);
      at += random() % 5 == 0 ? 2 * bytes : bytes;
      if (mixed.verdict() != Verdict::watching) {
        mixed.rearm();
      }
      while (flying.size() < 6) {
        const auto slice = mixed.next();
        if (!slice) {
          break;
        }
        ASSERT_GT(slice->bytes, 0u);
        ASSERT_LE(slice->bytes, kMiB);
        ASSERT_LE(slice->end(), 256 * kMiB);
        flying.push_back(*slice);
      }
      while (!flying.empty() && random() % 3 != 0) {
        mixed.completed(flying.back(), static_cast<Outcome>(random() % 3));
        flying.pop_back();
      }
      ASSERT_LE(budget.taken(), 2048 * kMiB);
    }
    mixed.forget();
    EXPECT_EQ(budget.taken(), 0u);
  }
}

}  // namespace
}  // namespace ioweave::calls
