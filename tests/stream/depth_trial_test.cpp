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
