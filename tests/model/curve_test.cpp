#include "model/curve.hpp"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ioweave::model {
namespace {

using ::testing::HasSubstr;

Curve curve(std::initializer_list<Curve::Point> points) {
  Curve made;
  std::string why;
  EXPECT_TRUE(Curve::make(std::vector(points), made, why)) << why;
  return made;
}

TEST(Curve, JoinsItsPointsByStraightLines) {
  const Curve made = curve({{1, 100}, {3, 300}, {7, 100}});
  EXPECT_EQ(made.bytes_per_s(0), 0);
  EXPECT_DOUBLE_EQ(made.bytes_per_s(1), 100e6);
  EXPECT_DOUBLE_EQ(made.bytes_per_s(2), 200e6);
  EXPECT_DOUBLE_EQ(made.bytes_per_s(3), 300e6);
  EXPECT_DOUBLE_EQ(made.bytes_per_s(5), 200e6);
  EXPECT_DOUBLE_EQ(made.bytes_per_s(7), 100e6);
}

TEST(Curve, BeginsAtNothingForNoStream) {
  EXPECT_DOUBLE_EQ(curve({{4, 400}}).bytes_per_s(1), 100e6);
}

TEST(Curve, StaysAtItsLastPoint) {
  EXPECT_DOUBLE_EQ(curve({{1, 100}, {2, 150}}).bytes_per_s(1000), 150e6);
}

TEST(Curve, TellsWhatServesBest) {
  EXPECT_DOUBLE_EQ(curve({{1, 100}, {3, 300}, {7, 100}}).most_bytes_per_s(), 300e6);
  EXPECT_DOUBLE_EQ(curve({{1, 300}, {4, 100}}).most_bytes_per_s(), 300e6);
  EXPECT_EQ(Curve().most_bytes_per_s(), 0);
  EXPECT_TRUE(Curve().points().empty());
}

TEST(Curve, PointsMayLieBetweenWholeStreams) {
  const Curve made = curve({{1.5, 150}, {2.5, 250}});
  EXPECT_DOUBLE_EQ(made.bytes_per_s(1), 100e6);
  EXPECT_DOUBLE_EQ(made.bytes_per_s(2), 200e6);
  EXPECT_DOUBLE_EQ(made.bytes_per_s(3), 250e6);
}

TEST(Curve, RefusesWhatIsNone) {
  Curve made;
  std::string why;
  EXPECT_FALSE(Curve::make({}, made, why));
  EXPECT_THAT(why, HasSubstr("at least one point"));
  for (const auto& wrong : {std::array<Curve::Point, 2>{{{2, 1}, {2, 1}}},
                            std::array<Curve::Point, 2>{{{0, 1}, {2, 1}}},
                            std::array<Curve::Point, 2>{{{1, 1}, {2, 0}}},
                            std::array<Curve::Point, 2>{{{1, 1}, {2e6, 1}}}}) {
    EXPECT_FALSE(Curve::make(wrong, made, why));
    EXPECT_THAT(why, HasSubstr("streams must ascend"));
  }
}

}  // namespace
}  // namespace ioweave::model
