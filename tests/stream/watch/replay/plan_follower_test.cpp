// Where a program is in its plan, and what is asked for ahead of it.

#include "stream/watch/replay/plan_follower.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace ioweave::stream {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kFile = uint64_t{1} << 40;

/// Reads of single pages that never follow one another, each once, in no order.
PlannedReads scattered(uint64_t count, uint32_t seed = 3) {
  std::vector<uint64_t> pages(count);
  for (uint64_t i = 0; i < count; ++i) pages[i] = 2 * i;
  std::ranges::shuffle(pages, std::mt19937(seed));
  PlannedReads reads;
  for (const uint64_t page : pages) EXPECT_TRUE(reads.add(page * kPage, kPage));
  return reads;
}

std::vector<FileRange> ask_all(PlanFollower& follower, uint64_t most_bytes = kPage) {
  std::vector<FileRange> asked;
  while (const auto range = follower.next(most_bytes)) {
    asked.push_back(*range);
    follower.answered(*range, false);
  }
  return asked;
}

TEST(PlanFollower, HandsOutTheFirstReadsBeforeTheProgramHasReadAnything) {
  const PlannedReads plan = scattered(1000);
  PlanFollower follower(plan, kFile);
  const auto asked = ask_all(follower);
  ASSERT_EQ(asked.size(), PlanFollower::kFirstAhead);
  for (size_t i = 0; i < asked.size(); ++i) EXPECT_EQ(asked[i], plan.at(i));
}

TEST(PlanFollower, KeepsAheadOfAProgramThatFollowsItAndHandsOutEachReadOnce) {
  const PlannedReads plan = scattered(5000);
  PlanFollower follower(plan, kFile);
  std::vector<FileRange> asked;
  for (uint64_t i = 0; i < plan.count(); ++i) {
    std::ranges::move(ask_all(follower), std::back_inserter(asked));
    ASSERT_GT(asked.size(), i) << "each read is asked for before it is made";
    ASSERT_LE(asked.size(), i + PlanFollower::kMostAhead);
    EXPECT_TRUE(follower.observe(plan.at(i)));
  }
  ASSERT_EQ(asked.size(), plan.count());
  for (uint64_t i = 0; i < plan.count(); ++i) EXPECT_EQ(asked[i], plan.at(i));
  EXPECT_TRUE(follower.is_done());
  EXPECT_FALSE(follower.has_given_up());
  EXPECT_EQ(follower.named_reads(), plan.count());
  EXPECT_EQ(follower.named_bytes(), plan.bytes());
  EXPECT_EQ(follower.used_bytes(), plan.bytes());
}

TEST(PlanFollower, AsksForNoMoreBytesThanAllowedUnlessOneReadIsLarger) {
  PlannedReads plan;
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(plan.add(i * 3 << 20, 1 << 20));
  PlanFollower follower(plan, kFile);
  follower.set_lookahead(4u << 20);
  EXPECT_EQ(ask_all(follower).size(), 4u);
  EXPECT_TRUE(follower.observe(plan.at(0)));
  EXPECT_EQ(ask_all(follower).size(), 1u);
  PlanFollower narrow(plan, kFile);
  narrow.set_lookahead(1);
  EXPECT_EQ(ask_all(narrow).size(), 1u);
}

TEST(PlanFollower, JoinsReadsThatFollowOneAnother) {
  PlannedReads plan;
  for (uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(plan.add(i * kPage, kPage));
  ASSERT_TRUE(plan.add(100 * kPage, kPage));
  PlanFollower follower(plan, kFile);
  const auto asked = ask_all(follower, 3 * kPage);
  EXPECT_EQ(
      asked,
      (std::vector<FileRange>{
          {0, 3 * kPage}, {3 * kPage, 3 * kPage}, {6 * kPage, 2 * kPage}, {100 * kPage, kPage}}));
}

TEST(PlanFollower, LeavesOutWhatLiesBehindTheEndOfTheFile) {
  PlannedReads plan;
  for (const uint64_t page : {9, 1, 5, 30, 3}) ASSERT_TRUE(plan.add(page * kPage, 2 * kPage));
  PlanFollower follower(plan, 6 * kPage);
  EXPECT_EQ(
      ask_all(follower),
      (std::vector<FileRange>{{kPage, 2 * kPage}, {5 * kPage, kPage}, {3 * kPage, 2 * kPage}}));
}

TEST(PlanFollower, DoesNotAskForWhatTheProgramHasReadAlready) {
  const PlannedReads plan = scattered(100);
  PlanFollower follower(plan, kFile);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_TRUE(follower.observe(plan.at(i)));
  const auto asked = ask_all(follower);
  ASSERT_FALSE(asked.empty());
  EXPECT_EQ(asked[0], plan.at(10));
}

TEST(PlanFollower, ReadsInAnotherOrderAreFound) {
  const PlannedReads plan = scattered(4000);
  PlanFollower follower(plan, kFile);
  std::vector<uint64_t> order(plan.count());
  for (uint64_t i = 0; i < order.size(); ++i) order[i] = i;
  std::mt19937 random(5);
  for (size_t i = 0; i + 100 < order.size(); i += 100) {
    std::shuffle(order.begin() + static_cast<std::ptrdiff_t>(i),
                 order.begin() + static_cast<std::ptrdiff_t>(i) + 100, random);
  }
  for (const uint64_t i : order) {
    EXPECT_TRUE(follower.observe(plan.at(i)));
    (void)ask_all(follower);
  }
  EXPECT_EQ(follower.named_reads(), plan.count());
}

TEST(PlanFollower, ThreeReadsFarAheadMoveTheFrontAndFewerDoNot) {
  const PlannedReads plan = scattered(4000);
  PlanFollower follower(plan, kFile);
  EXPECT_TRUE(follower.observe(plan.at(0)));
  (void)ask_all(follower);
  EXPECT_FALSE(follower.observe(plan.at(2000))) << "an offset may occur by chance";
  EXPECT_TRUE(follower.observe(plan.at(1)));
  EXPECT_FALSE(follower.observe(plan.at(2001)));
  EXPECT_TRUE(follower.observe(plan.at(2)));
  EXPECT_TRUE(follower.observe(plan.at(2003))) << "the third";
  const auto asked = ask_all(follower);
  ASSERT_FALSE(asked.empty());
  EXPECT_EQ(asked[0], plan.at(2004)) << "what was skipped is not asked for";
}

TEST(PlanFollower, ReadsThatAgreeByChanceNowAndThenDoNotMoveTheFront) {
  const PlannedReads plan = scattered(4000);
  PlanFollower follower(plan, kFile);
  for (uint64_t i = 0; i < 200; ++i) {
    EXPECT_TRUE(follower.observe(plan.at(i)));
    if (i % 20 == 0) {
      EXPECT_FALSE(follower.observe(plan.at(2000 + i)));
    }
    for (const FileRange& range : ask_all(follower)) EXPECT_NE(range, plan.at(1999));
  }
  EXPECT_EQ(follower.named_reads(), 200u);
}

TEST(PlanFollower, AReadBehindTheFrontIsPreferredToOneFarAhead) {
  PlannedReads plan;
  const PlannedReads first = scattered(1000);
  for (uint64_t i = 0; i < 1000; ++i) ASSERT_TRUE(plan.add(first.at(i).offset, kPage));
  for (uint64_t i = 0; i < 1000; ++i) ASSERT_TRUE(plan.add(first.at(i).offset, kPage));
  PlanFollower follower(plan, kFile);
  // Two threads: one makes the even reads, and comes first.
  for (uint64_t i = 0; i < 400; i += 2) EXPECT_TRUE(follower.observe(plan.at(i)));
  for (uint64_t i = 1; i < 400; i += 2) EXPECT_TRUE(follower.observe(plan.at(i)));
  EXPECT_EQ(follower.named_reads(), 400u);
  EXPECT_TRUE(follower.observe(plan.at(400)));
  const auto asked = ask_all(follower);
  ASSERT_FALSE(asked.empty());
  EXPECT_EQ(asked[0], plan.at(401)) << "the front did not move to the second half";
}

TEST(PlanFollower, ReadsOfOneOffsetStandForOneReadOfThePlanEach) {
  PlannedReads plan;
  for (uint64_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(plan.add(0, kPage));
    ASSERT_TRUE(plan.add((2 * i + 7) * kPage, kPage));
  }
  PlanFollower follower(plan, kFile);
  for (uint64_t i = 0; i < plan.count(); ++i) EXPECT_TRUE(follower.observe(plan.at(i)));
  EXPECT_EQ(follower.named_reads(), 100u);
}

TEST(PlanFollower, PartsOfAReadAreNamed) {
  const PlannedReads plan = scattered(100);
  PlanFollower follower(plan, kFile);
  const FileRange first = plan.at(0);
  EXPECT_TRUE(follower.observe({first.offset, 1000}));
  EXPECT_TRUE(follower.observe({first.offset + 1000, 3096}));
  EXPECT_FALSE(follower.observe({first.offset + 4000, 200})) << "it ends behind the read";
  EXPECT_EQ(follower.named_bytes(), kPage);
}

TEST(PlanFollower, GivesUpWhereTheProgramReadsSomethingElse) {
  const PlannedReads plan = scattered(4000);
  PlanFollower follower(plan, kFile);
  uint64_t reads = 0;
  while (!follower.has_given_up() && reads < 1000) {
    EXPECT_FALSE(follower.observe({(2 * reads++ + 1) * kPage, kPage}));
  }
  EXPECT_EQ(reads, PlanFollower::kLeastJudged);
  EXPECT_TRUE(follower.is_done());
  EXPECT_FALSE(follower.next(kPage));
  EXPECT_TRUE(follower.observe(plan.at(0))) << "it still counts what the plan names";
  EXPECT_TRUE(follower.has_given_up());
}

TEST(PlanFollower, GivesUpOnAProgramThatLeavesThePlanMidway) {
  const PlannedReads plan = scattered(4000);
  PlanFollower follower(plan, kFile);
  for (uint64_t i = 0; i < 1000; ++i) EXPECT_TRUE(follower.observe(plan.at(i)));
  uint64_t reads = 0;
  while (!follower.has_given_up() && reads < 1000) {
    EXPECT_FALSE(follower.observe({(2 * reads++ + 1) * kPage, kPage}));
  }
  EXPECT_GT(reads, 40u);
  EXPECT_LE(reads, 64u);
}

TEST(PlanFollower, StaysWithAProgramThatReadsAThirdFromElsewhere) {
  const PlannedReads plan = scattered(2000);
  PlanFollower follower(plan, kFile);
  for (uint64_t i = 0; i < plan.count(); ++i) {
    EXPECT_TRUE(follower.observe(plan.at(i)));
    if (i % 2 == 0) {
      EXPECT_FALSE(follower.observe({(2 * i + 1) * kPage, kPage}));
    }
  }
  EXPECT_FALSE(follower.has_given_up());
}

TEST(PlanFollower, RestsWhereAllWasCachedAndTriesAgain) {
  const PlannedReads plan = scattered(20'000);
  PlanFollower follower(plan, kFile);
  uint64_t asked = 0;
  for (uint64_t i = 0; i < plan.count(); ++i) {
    while (const auto range = follower.next(kPage)) {
      ++asked;
      follower.answered(*range, true);
    }
    EXPECT_TRUE(follower.observe(plan.at(i)));
  }
  EXPECT_LT(asked, plan.count() / 5);
  EXPECT_GT(asked, plan.count() / 50);
  EXPECT_EQ(follower.asked_bytes(), 0u);
  EXPECT_EQ(follower.used_bytes(), 0u);
}

TEST(PlanFollower, AnEmptyPlanNamesNothing) {
  const PlannedReads plan;
  PlanFollower follower(plan, kFile);
  EXPECT_TRUE(follower.is_done());
  EXPECT_FALSE(follower.next(kPage));
}

/// Changes a program's reads as another run might: some are left out, repeated, moved, or others,
/// and now and then a part of the plan is skipped or read again.
std::vector<FileRange> mutated(const PlannedReads& plan, std::mt19937& random, uint32_t per_mille) {
  std::vector<FileRange> reads;
  uint64_t i = 0;
  uint64_t jumps = 0;
  while (i < plan.count()) {
    const FileRange read = plan.at(i++);
    const bool is_changed = random() % 1000 < per_mille;
    const auto kind = is_changed ? random() % 6 : 99;
    if (kind == 0) continue;
    if (kind == 1) reads.push_back(read);
    if (kind == 2) reads.push_back({random() % kFile, 1 + random() % 100'000});
    if (kind == 3 && !reads.empty()) std::swap(reads.back(), reads[random() % reads.size()]);
    if (kind == 4) i += random() % 3000;
    if (kind == 5 && ++jumps < 5) i -= std::min<uint64_t>(i, random() % 3000);
    reads.push_back(read);
  }
  return reads;
}

TEST(PlanFollower, NeverAsksTwiceAndStaysBoundedWhateverTheProgramReads) {
  std::mt19937 random(17);
  for (uint32_t round = 0; round < 60; ++round) {
    const PlannedReads plan = scattered(1 + random() % 12'000, round);
    const uint32_t per_mille = round % 4 * 100;
    PlanFollower follower(plan, kFile);
    std::set<uint64_t> asked;
    const auto ask = [&] {
      uint64_t turns = 0;
      while (const auto range = follower.next(kPage)) {
        ASSERT_TRUE(asked.insert(range->offset).second) << "asked for twice";
        ASSERT_LE(++turns, PlanFollower::kMostAhead + PlanFollower::kFar);
        follower.answered(*range, random() % 16 == 0);
      }
    };
    uint64_t reads = 0;
    for (const FileRange& read : mutated(plan, random, per_mille)) {
      ++reads;
      (void)follower.observe(read);
      if (random() % 8 == 0) ask();
    }
    ask();
    EXPECT_LE(asked.size(), plan.count());
    EXPECT_LE(follower.named_reads(), reads);
    EXPECT_LE(follower.window_reads(),
              PlanFollower::kBehind + PlanFollower::kNear + PlanFollower::kFar);
    EXPECT_LE(follower.used_bytes(), follower.asked_bytes());
    if (per_mille == 0) {
      EXPECT_EQ(follower.named_reads(), plan.count());
    }
  }
}

}  // namespace
}  // namespace ioweave::stream
