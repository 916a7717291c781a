#include "policy/learned_curve.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace ioweave::policy {
namespace {

using Measured = std::vector<std::pair<double, double>>;

std::string text_of(const Measured& curve) {
  const std::optional<LearnedCurve> learned = LearnedCurve::from(curve, 0.02);
  return learned ? learned->text() : "none";
}

TEST(LearnedCurve, OfAMeasuredOneTheBestAreTheFewestThatAreNearlyFastest) {
  EXPECT_EQ(text_of({{1, 100}, {4, 448}, {8, 450}, {64, 200}}), "climb 4:448 1:100 8:450 64:200");
  EXPECT_EQ(text_of({{1, 5}, {2, 6}}), "climb 2:6 1:5");
  EXPECT_EQ(text_of({{16, 320}}), "climb 16:320");
}

TEST(LearnedCurve, WhatIsNoNumberOfOperationsIsLeftOut) {
  EXPECT_EQ(text_of({}), "none");
  EXPECT_EQ(text_of({{0.5, 10}, {1.5, 3}, {1.9, 4}, {9, 0}, {1e12, 5}}), "climb 1:3");
}

TEST(LearnedCurve, ReadsWhatItWrites) {
  for (const char* const text :
       {"climb 4:431.5", "climb 45:361 8:112", "climb 4:4 1:1 8:3 99:0.5"}) {
    const std::optional<LearnedCurve> learned = LearnedCurve::read(text);
    ASSERT_TRUE(learned.has_value()) << text;
    EXPECT_EQ(learned->text(), text);
  }
}

TEST(LearnedCurve, ReadsNothingElse) {
  for (const char* const text :
       {"", "climb", "climb ", "auto 2:84", "climb4:4", "climb 4", "climb 4:", "climb 0:3",
        "climb 4:-3", "climb 4:inf", "climb 4:3 ", "climb 4:3  5:4", "climb 4:3 9:1 8:1",
        "climb 4:3 9:1 9:1", "climb 4:3x"}) {
    EXPECT_FALSE(LearnedCurve::read(text).has_value()) << text;
  }
}

TEST(LearnedCurve, GoesAsOnALineFromNothingAndLevelBeyondTheLast) {
  const LearnedCurve learned({4, 400}, std::vector<LearnedCurve::Point>{{2, 100}, {8, 200}});
  EXPECT_EQ(learned.mb_per_s(1), 50);
  EXPECT_EQ(learned.mb_per_s(2), 100);
  EXPECT_EQ(learned.mb_per_s(3), 250);
  EXPECT_EQ(learned.mb_per_s(6), 300);
  EXPECT_EQ(learned.mb_per_s(100), 200);
  EXPECT_EQ(learned.most(), 8u);
  EXPECT_EQ(learned.points(), 3u);
}

}  // namespace
}  // namespace ioweave::policy
