// The ranges of a block, against a map of its bytes.

#include "stats/behind_pool.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace ioweave::stats {
namespace {

constexpr uint32_t kBytes = 600;

std::vector<bool> map_of(const BehindRanges& ranges) {
  std::vector<bool> map(kBytes);
  for (uint32_t i = 0; i < ranges.count; ++i) {
    for (uint32_t k = ranges.range[i].begin; k < ranges.range[i].end; ++k) map[k] = true;
  }
  return map;
}

void expect_ordered(const BehindRanges& ranges) {
  for (uint32_t i = 0; i < ranges.count; ++i) {
    EXPECT_LT(ranges.range[i].begin, ranges.range[i].end);
    if (i > 0) {
      EXPECT_LT(ranges.range[i - 1].end, ranges.range[i].begin);  // what touches is one
    }
  }
}

TEST(BehindRanges, HoldWhatWasAdded) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::mt19937 engine(seed);
    const auto below = [&](uint32_t bound) { return static_cast<uint32_t>(engine() % bound); };
    BehindRanges ranges{};
    std::vector<bool> expected(kBytes);
    for (int step = 0; step < 100; ++step) {
      const uint32_t begin = below(kBytes - 1);
      const uint32_t end = begin + 1 + below(40);
      const BehindRanges::Range added{begin, std::min(end, kBytes)};
      ASSERT_TRUE(ranges.add(added));
      for (uint32_t k = added.begin; k < added.end; ++k) expected[k] = true;
      expect_ordered(ranges);
      ASSERT_EQ(map_of(ranges), expected) << "seed " << seed << ", step " << step;
    }
  }
}

TEST(BehindRanges, OneTooManyChangesNothing) {
  BehindRanges ranges{};
  for (uint32_t i = 0; i < BehindRanges::kMost; ++i) ASSERT_TRUE(ranges.add({4 * i, 4 * i + 1}));
  const auto before = map_of(ranges);
  EXPECT_FALSE(ranges.add({4 * BehindRanges::kMost + 2, 4 * BehindRanges::kMost + 3}));
  EXPECT_EQ(map_of(ranges), before);
  EXPECT_EQ(ranges.count, BehindRanges::kMost);
  // One that joins others is welcome.
  EXPECT_TRUE(ranges.add({0, 39}));
  EXPECT_EQ(ranges.count, BehindRanges::kMost - 9);
}

}  // namespace
}  // namespace ioweave::stats
