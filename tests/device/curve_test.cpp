// The measuring's logic, with a device and a clock of our own.

#include "device/curve.hpp"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ioweave::device {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointwise;
using ::testing::UnorderedElementsAre;

/// A device of 450 MB/s that needs 6 streams for it and suffers from more than 24, as slowfs has
/// it; its samples are off by up to a part of them, and its clock runs.
class FakeDevice {
 public:
  explicit FakeDevice(double noise) : noise_(noise) {}

  static double set_mb_per_s(unsigned streams) {
    const double n = streams;
    if (n <= 6) return 450 * std::lerp(0.45, 1.0, (n - 1) / 5);
    if (n <= 24) return 450;
    return 450 * std::lerp(1.0, 0.3, (n - 24) / 72);
  }

  bool take(unsigned streams, Sample& sample) {
    std::uniform_real_distribution<double> off(-noise_, noise_);
    sample.start_s = now_s_;
    sample.seconds = 1;
    sample.bytes =
        static_cast<uint64_t>(set_mb_per_s(streams) * 1e6 * (1 + off(random_)) * speed_at(now_s_));
    now_s_ += sample.seconds;
    return true;
  }

  std::function<double(double now_s)> speed_at = [](double) { return 1.0; };

 private:
  double noise_;
  double now_s_ = 0;
  std::mt19937_64 random_{7};
};

std::vector<Sample> samples_of(FakeDevice& device, const SamplePlan& plan) {
  std::mt19937_64 random(1);
  return take_samples(
      plan, random, [&](unsigned streams, Sample& sample) { return device.take(streams, sample); });
}

double squared_error(const std::vector<double>& fitted, const std::vector<double>& values) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += std::pow(fitted[i] - values[i], 2);
  return sum;
}

TEST(SamplesTaken, EachRepetitionHasAllNumbersInAnOrderOfItsOwn) {
  FakeDevice device(0);
  const std::vector<Sample> samples = samples_of(device, {{1, 2, 4, 8, 16, 32}, 4});
  ASSERT_EQ(samples.size(), 24u);
  std::vector<std::vector<unsigned>> orders(4);
  for (const Sample& sample : samples) orders[sample.repetition].push_back(sample.streams);
  EXPECT_THAT(orders, Each(UnorderedElementsAre(1, 2, 4, 8, 16, 32)));
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

TEST(SamplesTaken, EndWithTheFirstThatFails) {
  std::mt19937_64 random(1);
  unsigned taken = 0;
  const auto samples = take_samples({{1, 2, 4}, 4}, random, [&](unsigned, Sample& sample) {
    sample.seconds = 1;
    return ++taken < 6;
  });
  EXPECT_EQ(samples.size(), 5u);
  EXPECT_EQ(taken, 6u);
}

TEST(DeviceCurve, FindsTheKneeThatWasSet) {
  FakeDevice device(0.1);
  const DeviceCurve curve = curve_of(samples_of(device, {{1, 2, 4, 6, 8, 16, 24, 32, 64, 96}, 9}));
  for (const CurvePoint& point : curve.points) {
    const double set = FakeDevice::set_mb_per_s(point.streams);
    EXPECT_THAT(point.fitted, DoubleNear(set, 0.06 * set)) << point.streams;
    EXPECT_LE(point.lowest, point.median);
    EXPECT_LE(point.median, point.highest);
  }
  EXPECT_GE(curve.best_streams, 6u);
  EXPECT_LE(curve.best_streams, 24u);
  EXPECT_THAT(curve.peak_mb_per_s, DoubleNear(450, 27));
}

TEST(DeviceCurve, ADriftDoesNotLookLikeACurve) {
  FakeDevice device(0);
  device.speed_at = [](double now_s) { return 1 - now_s / 200; };  // 0.5 at the end
  const auto samples = samples_of(device, {{1, 2, 4, 6, 12, 24, 48, 96}, 12});
  const DeviceCurve curve = curve_of(samples);
  for (const CurvePoint& point : curve.points) {
    const double set = 0.76 * FakeDevice::set_mb_per_s(point.streams);
    EXPECT_THAT(point.median, DoubleNear(set, 0.06 * set)) << point.streams;
  }
  // In the middle of the last third of 96 s it has 0.6 of its speed, of the first 0.92.
  EXPECT_THAT(drift_of(samples), DoubleNear(0.6 / 0.92, 0.03));
}

TEST(DeviceCurve, TheBestIsTheFewestStreamsThatAreAsGood) {
  std::vector<Sample> samples;
  for (const auto& [streams, bytes] :
       {std::pair{1u, 200e6}, {2u, 380e6}, {4u, 445e6}, {8u, 450e6}, {16u, 449e6}}) {
    samples.push_back({streams, 0, 0, 1, 0, static_cast<uint64_t>(bytes)});
  }
  EXPECT_EQ(curve_of(samples).best_streams, 4u);
  EXPECT_DOUBLE_EQ(curve_of(samples).peak_mb_per_s, 450);
}

TEST(DeviceCurve, IsThatOfASingleSample) {
  const DeviceCurve curve = curve_of(std::vector<Sample>{{3, 0, 0, 2, 0, 10'000'000}});
  ASSERT_EQ(curve.points.size(), 1u);
  EXPECT_DOUBLE_EQ(curve.points[0].fitted, 5);
  EXPECT_EQ(curve.best_streams, 3u);
}

TEST(OnePeak, WhatHasOneIsLeftAlone) {
  for (const std::vector<double>& values :
       {std::vector<double>{1, 2, 3, 3, 2}, {5}, {1, 2}, {2, 1}, {4, 4, 4}, {1, 5, 2, 1}}) {
    EXPECT_THAT(fitted_to_one_peak(values), Pointwise(DoubleNear(1e-12), values));
  }
}

TEST(OnePeak, NeighboursInTheWrongOrderBecomeTheirMean) {
  EXPECT_THAT(fitted_to_one_peak(std::vector<double>{1, 4, 2, 9, 5, 6, 1}),
              ElementsAre(1, 3, 3, 9, 5.5, 5.5, 1));
}

/// Against all curves with one peak whose values are among a few, for all small sets of values.
TEST(OnePeak, NoOtherCurveWithOnePeakIsNearer) {
  constexpr unsigned kLevels = 5;
  constexpr unsigned kLength = 5;
  std::vector<std::vector<double>> all;
  for (unsigned code = 0; code < std::pow(kLevels, kLength); ++code) {
    std::vector<double> values;
    for (unsigned rest = code, i = 0; i < kLength; ++i, rest /= kLevels) {
      values.push_back(rest % kLevels);
    }
    all.push_back(std::move(values));
  }
  std::vector<std::vector<double>> with_one_peak;
  for (const std::vector<double>& values : all) {
    const auto peak = std::ranges::max_element(values);
    if (std::is_sorted(values.begin(), peak) &&
        std::is_sorted(values.rbegin(), std::make_reverse_iterator(peak))) {
      with_one_peak.push_back(values);
    }
  }
  for (const std::vector<double>& values : all) {
    const std::vector<double> fitted = fitted_to_one_peak(values);
    const auto peak = std::ranges::max_element(fitted);
    ASSERT_TRUE(std::is_sorted(fitted.begin(), peak));
    ASSERT_TRUE(std::is_sorted(fitted.rbegin(), std::make_reverse_iterator(peak)));
    for (const std::vector<double>& other : with_one_peak) {
      ASSERT_LE(squared_error(fitted, values), squared_error(other, values) + 1e-9);
    }
  }
}

TEST(Drift, OfASteadyDeviceIsNone) {
  FakeDevice device(0);
  EXPECT_DOUBLE_EQ(drift_of(samples_of(device, {{1, 8, 64}, 5})), 1);
}

TEST(Drift, OfADeviceWhoseCreditEndsIsSeenWhateverTheOrder) {
  FakeDevice device(0.02);
  device.speed_at = [](double now_s) { return now_s < 8 ? 1.0 : 0.25; };
  EXPECT_LT(drift_of(samples_of(device, {{1, 2, 4, 8}, 5})), 0.5);
}

TEST(Drift, IsNotKnownOfTooFewSamples) {
  FakeDevice device(0.5);
  EXPECT_EQ(drift_of(samples_of(device, {{1, 2}, 2})), 1);
  EXPECT_EQ(drift_of(samples_of(device, {{1, 2, 3, 4, 5, 6, 7, 8}, 1})), 1);
}

TEST(Change, IsSeenWithinTheWarmUp) {
  std::vector<Durable> log;
  EXPECT_EQ(change_of(log), 1);
  double at_s = 0;
  for (int i = 0; i < 40; ++i) log.push_back({at_s += 0.1, 1000});
  EXPECT_NEAR(change_of(log), 1, 1e-9);
  for (int i = 0; i < 10; ++i) log.push_back({at_s += 1, 1000});
  EXPECT_NEAR(change_of(log), 0.1, 0.02);
}

TEST(Streams, DoubleToTheMost) {
  EXPECT_THAT(doubling_to(1), ElementsAre(1));
  EXPECT_THAT(doubling_to(64), ElementsAre(1, 2, 4, 8, 16, 32, 64));
  EXPECT_THAT(doubling_to(6), ElementsAre(1, 2, 4, 6));
}

TEST(Streams, AreReadAsAListOfNumbersAndSpans) {
  std::string why;
  EXPECT_THAT(parse_streams("8,1-3,2,8", 64, why), ElementsAre(1, 2, 3, 8));
  EXPECT_THAT(why, IsEmpty());
  for (const char* const wrong : {"", ",", "1,", "0", "65", "3-1", "1-65", "a", "1;2", "1 ,2", "-3",
                                  "99999999999999999999"}) {
    why.clear();
    EXPECT_THAT(parse_streams(wrong, 64, why), IsEmpty()) << wrong;
    EXPECT_THAT(why, HasSubstr("from 1 to 64")) << wrong;
  }
}

}  // namespace
}  // namespace ioweave::device
