#include "calls/mpiio/access_pattern.hpp"

#include <gtest/gtest.h>

namespace {

using ioweave::calls::Access;
using ioweave::calls::AccessPattern;

TEST(AccessPattern, IsBelievedInAfterTheThirdAccess) {
  AccessPattern pattern;
  pattern.note({0, 10});
  EXPECT_FALSE(pattern.is_regular());
  pattern.note({100, 10});
  EXPECT_FALSE(pattern.is_regular());
  pattern.note({200, 10});
  ASSERT_TRUE(pattern.is_regular());
  EXPECT_EQ(pattern.next(1), (Access{300, 10}));
  EXPECT_EQ(pattern.next(3), (Access{500, 10}));
}

TEST(AccessPattern, GoesBackwards) {
  AccessPattern pattern;
  for (const int64_t at : {900, 600, 300}) {
    pattern.note({at, 50});
  }
  ASSERT_TRUE(pattern.is_regular());
  EXPECT_EQ(pattern.next(1), (Access{0, 50}));
}

TEST(AccessPattern, FollowsReadsOfDifferentSizesThatLeaveNoGap) {
  AccessPattern pattern;
  pattern.note({0, 10});
  pattern.note({10, 20});
  pattern.note({30, 5});
  ASSERT_TRUE(pattern.is_regular());
  EXPECT_EQ(pattern.next(1), (Access{35, 5}));
}

TEST(AccessPattern, EndsWithAnAccessOfAnotherKind) {
  AccessPattern pattern;
  for (const int64_t at : {0, 100, 200}) {
    pattern.note({at, 10});
  }
  pattern.note({250, 10});
  EXPECT_FALSE(pattern.is_regular());
  pattern.note({250, 10});
  EXPECT_FALSE(pattern.is_regular()) << "the same bytes again are no pattern";
}

TEST(AccessPattern, WantsOneSizeOfReadsWithGaps) {
  AccessPattern pattern;
  pattern.note({0, 10});
  pattern.note({100, 10});
  pattern.note({200, 11});
  EXPECT_FALSE(pattern.is_regular());
}

}  // namespace
