#include "calls/stream/slice_sizer.hpp"

#include <gtest/gtest.h>

namespace ioweave::calls {
namespace {

constexpr uint64_t kMiB = 1u << 20;

/// Runs slices on a device with a latency and a bandwidth, four in its queue.
void run(SliceSizer& sizer, int slices, double latency_s, double bytes_per_s) {
  for (int i = 0; i < slices; ++i) {
    sizer.completed(sizer.bytes(),
                    latency_s + 4 * static_cast<double>(sizer.bytes()) / bytes_per_s);
  }
}

TEST(SliceSizer, StaysSmallWhereLargerSlicesAreNoFaster) {
  SliceSizer sizer(kMiB);
  run(sizer, 100, 0, 400e6);
  EXPECT_EQ(sizer.bytes(), SliceSizer::kLeastBytes);
}

TEST(SliceSizer, GrowsToTheMostWhereLatencyDominates) {
  SliceSizer sizer(kMiB);
  run(sizer, 100, 20e-3, 1e9);
  EXPECT_EQ(sizer.bytes(), kMiB);
}

TEST(SliceSizer, StopsGrowingWhereLatencyNoLongerDominates) {
  SliceSizer sizer(16 * kMiB);
  run(sizer, 100, 5e-3, 400e6);  // 128 KiB: 1.3 of 6.3 ms; 1 MiB: 10.5 of 15.5 ms
  EXPECT_GT(sizer.bytes(), SliceSizer::kLeastBytes);
  EXPECT_LT(sizer.bytes(), 4 * kMiB);
}

TEST(SliceSizer, TriesAgainAfterAWhile) {
  SliceSizer sizer(kMiB);
  run(sizer, 100, 0, 400e6);
  run(sizer, 2 * SliceSizer::kPatience, 20e-3, 1e9);
  EXPECT_EQ(sizer.bytes(), kMiB);
}

TEST(SliceSizer, NeverExceedsTheMost) {
  SliceSizer sizer(64 << 10);
  run(sizer, 100, 20e-3, 1e9);
  EXPECT_EQ(sizer.bytes(), 64u << 10);
}

TEST(SliceSizer, IgnoresRests) {
  SliceSizer sizer(kMiB);
  for (int i = 0; i < 100; ++i) {
    sizer.completed(4096, 10e-3);
  }
  EXPECT_EQ(sizer.bytes(), SliceSizer::kLeastBytes);
}

}  // namespace
}  // namespace ioweave::calls
