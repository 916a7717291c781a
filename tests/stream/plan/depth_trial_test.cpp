// How many slices at once: against devices in virtual time.
#include "stream/plan/depth_trial.hpp"

#include <algorithm>
#include <cstdint>

#include <gtest/gtest.h>

namespace ioweave::stream {
namespace {

constexpr uint64_t kSlice = 1 << 20;

/// Lets slices end at the rate of a device with so many under way, until the trial is settled.
template <typename Throughput>
void drive(DepthTrial& trial, const Throughput& bytes_per_ns) {
  double now = 1000;
  for (int ends = 0; ends < 100'000 && !trial.is_settled(); ++ends) {
    now += static_cast<double>(kSlice) / bytes_per_ns(trial.depth());
    trial.note_end(kSlice, static_cast<uint64_t>(now));
  }
  ASSERT_TRUE(trial.is_settled());
}

TEST(DepthTrial, StaysAtTwoWhereTheyShareTheBandwidth) {
  DepthTrial trial(0);
  drive(trial, [](uint32_t) { return 0.4; });
  EXPECT_EQ(trial.depth(), 2u);
  EXPECT_NEAR(trial.gain_of_two(), 1, 0.02);
}

TEST(DepthTrial, StaysAtOneWhereTwoSlowEachOtherDown) {
  DepthTrial trial(0);
  drive(trial, [](uint32_t depth) { return depth == 1 ? 0.4 : 0.3; });
  EXPECT_EQ(trial.depth(), 1u);
  EXPECT_NEAR(trial.gain_of_two(), 0.75, 0.02);
}

/// What a device serves in 20 ms is spare, at most 16 slices, and never less than the depth.
TEST(DepthTrial, SpareSlicesKeepADeviceAtWorkThatSharesItsBandwidth) {
  struct Case {
    double bytes_per_ns;
    uint32_t depth;
  };
  for (const Case& each : {Case{0.02, 2}, Case{0.2, 4}, Case{0.4, 8}, Case{4, 16}}) {
    DepthTrial trial(0);
    trial.limit(2);
    drive(trial, [&](uint32_t) { return each.bytes_per_ns; });
    EXPECT_EQ(trial.depth(), 2u);
    EXPECT_EQ(trial.depth_with_spare(), each.depth) << each.bytes_per_ns;
  }
}

TEST(DepthTrial, NoSpareSlicesWhereTwoSlowEachOtherDown) {
  DepthTrial trial(0);
  drive(trial, [](uint32_t depth) { return depth == 1 ? 0.4 : 0.3; });
  EXPECT_EQ(trial.depth_with_spare(), 1u);
}

TEST(DepthTrial, FollowsADeviceOfLatencyToItsLimit) {
  DepthTrial trial(0);
  drive(trial, [](uint32_t depth) { return 0.01 * std::min(depth, 32u); });
  EXPECT_EQ(trial.depth(), 32u);
  EXPECT_EQ(trial.depth_with_spare(), 32u);
  EXPECT_NEAR(trial.gain_of_two(), 2, 0.05);
}

/// A bound that comes and goes, as it does where the last slice of a read is a small one.
TEST(DepthTrial, IsNeverNoneWhateverBoundsIt) {
  for (uint32_t low = 2; low <= 16; ++low) {
    for (uint32_t high = low; high <= 64; ++high) {
      DepthTrial trial(0);
      double now = 1000;
      for (int ends = 0; ends < 2000 && !trial.is_settled(); ++ends) {
        now += static_cast<double>(kSlice) / (0.01 * std::min(trial.depth(), 4u));
        trial.note_end(kSlice, static_cast<uint64_t>(now));
        trial.limit(ends % 7 == 0 ? high : low);
        ASSERT_GE(trial.depth(), 1u) << low << ' ' << high;
      }
      EXPECT_GE(trial.depth(), 2u) << low << ' ' << high;
    }
  }
}

TEST(DepthTrial, StopsAtTheMostThereMayBe) {
  DepthTrial trial(0);
  drive(trial, [](uint32_t depth) { return 0.01 * depth; });
  EXPECT_EQ(trial.depth(), DepthTrial::kMost);
}

TEST(DepthTrial, ALimitEndsIt) {
  DepthTrial trial(0);
  trial.limit(6);
  drive(trial, [](uint32_t depth) { return 0.01 * depth; });
  EXPECT_EQ(trial.depth(), 6u);
}

TEST(DepthTrial, ALowerLimitHoldsAtOnce) {
  DepthTrial trial(0);
  double now = 1000;
  while (trial.depth() < 32) {
    now += static_cast<double>(kSlice) / (0.01 * trial.depth());
    trial.note_end(kSlice, static_cast<uint64_t>(now));
  }
  trial.limit(4);
  EXPECT_EQ(trial.depth(), 4u);
  drive(trial, [](uint32_t depth) { return 0.01 * depth; });
  EXPECT_LE(trial.depth(), 4u);
}

TEST(DepthTrial, AGivenDepthIsKept) {
  DepthTrial trial(7);
  EXPECT_TRUE(trial.is_settled());
  for (uint64_t now = 1; now < 1000; ++now) {
    trial.note_end(kSlice, now * 1000);
  }
  EXPECT_EQ(trial.depth(), 7u);
  EXPECT_EQ(trial.depth_with_spare(), 7u);
  EXPECT_EQ(trial.gain_of_two(), 0);
}

/// A machine that is busy with something else makes an epoch too slow, be it that of one slice or
/// that of two.
TEST(DepthTrial, AStretchThatWasDisturbedDoesNotDecide) {
  for (const uint32_t disturbed : {1u, 2u}) {
    for (const double two : {0.4, 0.8}) {
      DepthTrial trial(0);
      double now = 1000;
      int stalls = 1;
      for (int ends = 0; ends < 1000 && !trial.is_settled(); ++ends) {
        const bool is_stalled = trial.depth() == disturbed && ends % 10 == 7 && stalls-- > 0;
        const double rate = trial.depth() == 1 ? 0.4 : two;
        now += static_cast<double>(kSlice) / rate + (is_stalled ? 3e7 : 0);
        trial.note_end(kSlice, static_cast<uint64_t>(now));
      }
      EXPECT_EQ(trial.depth(), 2u) << disturbed << ' ' << two;
      EXPECT_NEAR(trial.gain_of_two(), two / 0.4, 0.05) << disturbed;
    }
  }
}

/// Lets slices end; how many until there are so many under way.
template <typename Throughput>
int count_until(DepthTrial& trial, uint32_t depth, double& now, const Throughput& bytes_per_ns) {
  int ends = 0;
  for (; ends < 100'000 && trial.depth_with_spare() < depth; ++ends) {
    now += static_cast<double>(kSlice) / bytes_per_ns(trial.depth_with_spare());
    if (trial.wants_end(1)) {
      trial.note_end(kSlice, static_cast<uint64_t>(now));
    }
  }
  return ends;
}

TEST(DepthTrial, ADepthThatWasFoundWronglyIsMended) {
  for (const bool is_one : {true, false}) {
    DepthTrial trial(0);
    double now = 1000;
    const auto disturbed = [&](uint32_t depth) { return is_one && depth > 1 ? 0.0005 : 0.001; };
    for (int ends = 0; ends < 1000 && !trial.is_settled(); ++ends) {
      now += static_cast<double>(kSlice) / disturbed(trial.depth());
      trial.note_end(kSlice, static_cast<uint64_t>(now));
    }
    ASSERT_EQ(trial.depth(), is_one ? 1u : 2u);
    EXPECT_LT(count_until(trial, 32, now, [](uint32_t depth) { return 0.01 * depth; }), 400);
    EXPECT_TRUE(trial.is_settled());
    EXPECT_GT(is_one ? trial.gain_of_two() : 2, 1.5);
  }
}

TEST(DepthTrial, TwoThatLookedSlowerThanOneAreTakenUpAgain) {
  DepthTrial trial(0);
  drive(trial, [](uint32_t depth) { return depth == 1 ? 0.01 : 0.008; });
  ASSERT_EQ(trial.depth(), 1u);
  double now = 1e9;
  EXPECT_LT(count_until(trial, 2, now, [](uint32_t) { return 0.01; }), 100);
  EXPECT_LT(count_until(trial, 4, now, [](uint32_t) { return 0.2; }), 100);
}

TEST(DepthTrial, WhatBringsNothingIsTriedMoreAndMoreSeldom) {
  DepthTrial trial(0);
  drive(trial, [](uint32_t) { return 0.01; });
  const uint32_t depth = trial.depth();
  const uint32_t with_spare = trial.depth_with_spare();
  double now = 1e9;
  int deeper = 0;
  constexpr int kAll = 10'000;
  for (int ends = 0; ends < kAll; ++ends) {
    now += static_cast<double>(kSlice) / 0.01;
    if (trial.wants_end(1)) {
      trial.note_end(kSlice, static_cast<uint64_t>(now));
    }
    deeper += trial.depth_with_spare() > with_spare ? 1 : 0;
  }
  EXPECT_GT(deeper, 0);
  EXPECT_LT(deeper, kAll / 20);
  while (trial.depth_with_spare() > with_spare) {
    now += static_cast<double>(kSlice) / 0.01;
    trial.note_end(kSlice, static_cast<uint64_t>(now));
  }
  EXPECT_EQ(trial.depth(), depth);
}

/// Of most small reads the kernel is advised, and tells no end (plan.hpp).
TEST(DepthTrial, ItIsTriedAgainWhereFewEndsAreKnown) {
  DepthTrial trial(0);
  drive(trial, [](uint32_t depth) { return 0.01 * std::min(depth, 8u); });
  ASSERT_EQ(trial.depth(), 8u);
  double now = 1e9;
  int reads = 0;
  while (reads < 100'000 && trial.depth() < 64) {
    const uint32_t at_once = trial.is_measuring() ? 1 : 2;
    reads += static_cast<int>(at_once);
    now += at_once * static_cast<double>(kSlice) / (0.01 * trial.depth());
    if (trial.wants_end(at_once)) {
      trial.note_end(kSlice, static_cast<uint64_t>(now));
    }
  }
  EXPECT_LT(reads, 1000);
}

TEST(DepthTrial, AGivenDepthIsNeverTriedAgain) {
  DepthTrial trial(7);
  for (int ends = 0; ends < 1000; ++ends) {
    EXPECT_FALSE(trial.wants_end(1));
  }
}

/// A stretch in which too few slices were under way says nothing of the device.
TEST(DepthTrial, AnInterruptedEpochDoesNotCount) {
  DepthTrial trial(0);
  uint64_t now = 0;
  for (int i = 0; i < 100; ++i) {
    now += 1'000'000;
    trial.note_end(kSlice, now);
    if (i % 5 == 4) {
      trial.interrupt();
      now += 100'000'000;
    }
  }
  EXPECT_FALSE(trial.is_settled());
  EXPECT_EQ(trial.depth(), 2u);
  drive(trial, [](uint32_t) { return 0.4; });
  EXPECT_NEAR(trial.gain_of_two(), 1, 0.02);
}

}  // namespace
}  // namespace ioweave::stream
