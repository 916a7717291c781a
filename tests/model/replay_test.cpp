// The replay of unequal steps against the formulas for equal items, and by hand.
#include "model/replay.hpp"

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "model/overlap.hpp"

namespace ioweave::model {
namespace {

constexpr unsigned kSeeds = 2000;
constexpr double kBytes = 100;

class EqualSteps : public ::testing::Test {
 protected:
  /// Calls check(items, steps) with random times, some of them zero.
  template <class Check>
  static void for_each_seed(Check check) {
    for (unsigned seed = 0; seed < kSeeds; ++seed) {
      std::mt19937_64 random(seed);
      const auto draw = [&](double least) {
        return least + std::uniform_real_distribution<>(0, 4)(random);
      };
      const bool reads = random() % 4 != 0;
      const Items items{1 + random() % 40, reads ? draw(0.01) : 0.0, draw(0), draw(0.01)};
      const Step step{items.read_s, kBytes, items.compute_s, items.write_s, false};
      SCOPED_TRACE("seed " + std::to_string(seed));
      check(items, std::vector<Step>(items.count, step), random);
      if (HasFailure()) return;
    }
  }
  static void expect_same(double replayed, double formula) {
    EXPECT_NEAR(replayed, formula, 1e-9 * formula);
  }
};

TEST_F(EqualSteps, OneAfterAnotherAreSynchronous) {
  for_each_seed([](const Items& items, const std::vector<Step>& steps, auto&) {
    expect_same(replay_s(steps, {}), synchronous_s(items));
    expect_same(replay_s(steps, {.one_device = true}), synchronous_s(items));
  });
}

TEST_F(EqualSteps, ReadAheadOnADeviceOfTheirOwn) {
  for_each_seed([](const Items& items, const std::vector<Step>& steps, auto& random) {
    const auto ahead = static_cast<double>(1 + random() % 5);
    expect_same(replay_s(steps, {.ahead_bytes = ahead * kBytes}), prefetch_apart_s(items));
  });
}

TEST_F(EqualSteps, ReadOneAheadOnTheDeviceOfTheWritesAreThoseOfPpis) {
  for_each_seed([](const Items& items, const std::vector<Step>& steps, auto&) {
    expect_same(replay_s(steps, {.ahead_bytes = kBytes, .one_device = true}), prefetch_s(items));
  });
}

TEST_F(EqualSteps, ReadFurtherAheadOnThatDeviceTakeAtMostTheReadsAheadLonger) {
  for_each_seed([](const Items& items, const std::vector<Step>& steps, auto& random) {
    const auto ahead = static_cast<double>(2 + random() % 5);
    const double seconds = replay_s(steps, {.ahead_bytes = ahead * kBytes, .one_device = true});
    const double n = static_cast<double>(items.count);
    EXPECT_GE(seconds, n * (items.read_s + items.write_s) - 1e-9);
    EXPECT_LE(seconds, prefetch_s(items) + items.read_s * ahead + 1e-9);
  });
}

TEST_F(EqualSteps, WrittenBehindFollowTheCubePapersFormulaForAnyBuffersAndDevices) {
  for_each_seed([](const Items& items, const std::vector<Step>& steps, auto& random) {
    const auto buffers = static_cast<uint32_t>(1 + random() % 6);
    const auto devices = static_cast<uint32_t>(1 + random() % 4);
    expect_same(replay_s(steps, {.buffers = buffers, .write_devices = devices}),
                write_behind_s(items, buffers, devices));
  });
}

TEST_F(EqualSteps, ReadAheadAndWrittenBehindOnSeparateChannels) {
  for_each_seed([](const Items& items, const std::vector<Step>& steps, auto&) {
    expect_same(replay_s(steps, {.ahead_bytes = kBytes, .buffers = 3}), separate_channels_s(items));
  });
}

TEST_F(EqualSteps, ReadAheadAndWrittenBehindOnOneDeviceStayBelowTheBound) {
  for_each_seed([](const Items& items, const std::vector<Step>& steps, auto&) {
    const double seconds =
        replay_s(steps, {.ahead_bytes = kBytes, .buffers = 3, .one_device = true});
    EXPECT_LE(seconds, one_device_bound_s(items) * (1 + 1e-9));
    EXPECT_GE(seconds, (one_device_bound_s(items) - items.compute_s) * (1 - 1e-9));
  });
}

TEST(Replay, ReadingAllThenComputingGainsNothing) {
  const std::vector<Step> steps{{10, kBytes, 0, 0, false}, {0, 0, 10, 0, false}};
  EXPECT_DOUBLE_EQ(replay_s(steps, {.ahead_bytes = 1000}), 20);
}

TEST(Replay, ReadsNoFurtherAheadThanThereIsRoom) {
  // While the first is computed for 10 s, the second has room and the third has none.
  const std::vector<Step> steps{
      {1, kBytes, 10, 0, false}, {2, kBytes, 0, 0, false}, {3, kBytes, 0, 0, false}};
  EXPECT_DOUBLE_EQ(replay_s(steps, {.ahead_bytes = kBytes}), 1 + 10 + 0 + 3);
  EXPECT_DOUBLE_EQ(replay_s(steps, {.ahead_bytes = 2 * kBytes}), 1 + 10);
}

TEST(Replay, AFileIsNotReadBeforeItIsOpened) {
  const std::vector<Step> steps{{1, kBytes, 5, 0, true}, {2, kBytes, 1, 0, true}};
  EXPECT_DOUBLE_EQ(replay_s(steps, {.ahead_bytes = 1000}), 1 + 5 + 2 + 1);
}

TEST(Replay, LooksFurtherAheadWhereTheThreadWaits) {
  // A pause of the device would be hidden by what is ahead; with one item ahead it is not.
  std::vector<Step> steps(20, {1, kBytes, 1.5, 0, false});
  steps[10].read_s = 8;
  const double one = replay_s(steps, {.ahead_bytes = kBytes});
  std::vector<Step> waiting = steps;
  for (size_t i = 0; i < 4; ++i) waiting[i].read_s = 2;  // the reader waits, and is noticed
  const double stays = replay_s(waiting, {.ahead_bytes = kBytes});
  const double grows = replay_s(waiting, {.ahead_bytes = kBytes, .most_ahead_bytes = 8 * kBytes});
  EXPECT_LT(grows, stays - 2);
  EXPECT_GT(one, 20 * 1.5 + 6);
}

TEST(Replay, WhoLooksLateReadsAheadLate) {
  const std::vector<Step> steps(10, {1, kBytes, 1, 0, false});
  const auto delayed = [&](double delay_s) {
    return replay_s(steps, {.ahead_bytes = kBytes, .ahead_delay_s = delay_s});
  };
  EXPECT_DOUBLE_EQ(delayed(0), 11);
  EXPECT_NEAR(delayed(0.5), 11 + 9 * 0.5, 1);
  EXPECT_DOUBLE_EQ(delayed(100), 20);  // the thread reads by itself
}

TEST(Replay, OfNoStepsTakesNoTime) {
  EXPECT_EQ(replay_s({}, {.ahead_bytes = 1}), 0);
}

}  // namespace
}  // namespace ioweave::model
