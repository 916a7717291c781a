#include "stream/watch/bandwidth_budget.hpp"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace ioweave::stream {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kRange = 1'000'000;

/// Asks for ranges as soon as they are allowed, from `now` on; when, for each.
std::vector<uint64_t> ask(BandwidthBudget& budget, uint64_t now, int ranges) {
  std::vector<uint64_t> times;
  for (int i = 0; i < ranges; ++i) {
    now = std::max(now, budget.free_at_ns());
    times.push_back(now);
    budget.spend(kRange, now);
  }
  return times;
}

TEST(BandwidthBudget, AllowsInAnyPeriodNoMoreThanItsRateAndALittle) {
  BandwidthBudget budget(100);  // a range takes 10 ms
  std::vector<uint64_t> times = ask(budget, 5 * kSecond, 100);
  for (const uint64_t time : ask(budget, 60 * kSecond, 100)) times.push_back(time);
  for (size_t from = 0; from < times.size(); ++from) {
    for (size_t to = from; to < times.size(); ++to) {
      const double seconds = static_cast<double>(times[to] - times[from]) / 1e9;
      const double bytes = static_cast<double>((to - from + 1) * kRange);
      ASSERT_LE(bytes, 100e6 * (seconds + 0.1) + kRange + 1) << from << " to " << to;
    }
  }
}

TEST(BandwidthBudget, IsUsedUpByWhoAsksAllTheTime) {
  BandwidthBudget budget(100);
  const std::vector<uint64_t> times = ask(budget, 5 * kSecond, 1000);
  const double seconds = static_cast<double>(times.back() - times.front()) / 1e9;
  EXPECT_NEAR(seconds, 10, 0.2);
}

TEST(BandwidthBudget, HoldsForRangesLargerThanASecondsWorth) {
  BandwidthBudget budget(0.001);
  budget.spend(kRange, kSecond);
  EXPECT_GE(budget.free_at_ns(), 999 * kSecond);
  budget.spend(UINT64_MAX, kSecond);
  EXPECT_GE(budget.free_at_ns(), 1000 * kSecond) << "and does not overflow";
}

}  // namespace
}  // namespace ioweave::stream
