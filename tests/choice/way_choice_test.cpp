// The choice of a way, on calls whose costs are made up.

#include "choice/way_choice.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>

#include <gtest/gtest.h>

#include "choice/expectation.hpp"

namespace ioweave::choice {
namespace {

constexpr uint64_t kBytes = 4096;
constexpr uint64_t kUs = 1000;

/// What a call costs by each way, in ns.
using Cost = std::array<uint64_t, kWays>;

constexpr Ways kAll = Ways(Way::plain) | Way::engine | Way::pieces | Way::behind | Way::bounce;
constexpr Ways kTwo = Ways(Way::plain) | Way::engine;

/// Makes calls as a program would, and says how long they took.
class Calls {
 public:
  explicit Calls(WayChoice& choice) : choice_(choice) {}

  /// Writes that were held back are waited for by the next call of another way.
  uint64_t make(int count, const Cost& cost, uint64_t wait_ns = 0) {
    uint64_t sum = 0;
    for (int i = 0; i < count; ++i) {
      const Way way = choice_.way();
      if (is_held_ && way != Way::behind) {
        choice_.note(Way::behind, 0, wait_ns);
        sum += wait_ns;
        is_held_ = false;
      }
      const uint64_t ns = cost[static_cast<size_t>(way)];
      is_held_ = is_held_ || way == Way::behind;
      choice_.note(way, kBytes, ns);
      sum += ns;
    }
    return sum;
  }

 private:
  WayChoice& choice_;
  bool is_held_ = false;
};

TEST(WayChoice, PlainComesFirstWhereNothingIsKnown) {
  WayChoice choice(kAll, {});
  EXPECT_EQ(choice.way(), Way::plain);
  EXPECT_EQ(choice.in_use(), Way::plain);
}

TEST(WayChoice, TheFastestWayIsFound) {
  for (size_t fastest = 0; fastest < kWays; ++fastest) {
    Cost cost;
    cost.fill(100 * kUs);
    cost[fastest] = 40 * kUs;
    WayChoice choice(kAll, {});
    Calls(choice).make(20'000, cost);
    EXPECT_EQ(choice.in_use(), static_cast<Way>(fastest));
  }
}

TEST(WayChoice, AWayThatIsNotUsableIsNeverGone) {
  WayChoice choice(kTwo, {});
  Calls(choice).make(20'000, {100 * kUs, 120 * kUs, 1, 1});
  EXPECT_EQ(choice.in_use(), Way::plain);
  EXPECT_EQ(choice.seen(Way::pieces).calls, 0u);
  EXPECT_EQ(choice.seen(Way::behind).calls, 0u);
}

TEST(WayChoice, AGainOfLessThanATenthIsLeftAlone) {
  WayChoice choice(kTwo, {});
  Calls(choice).make(20'000, {100 * kUs, 95 * kUs, 0, 0});
  EXPECT_EQ(choice.in_use(), Way::plain);
}

/// Whatever the other ways cost, and however many calls there are, finding out costs little.
TEST(WayChoice, ExaminingCostsLittle) {
  for (const uint64_t plain : {20 * kUs, 100 * kUs, 1000 * kUs, 20'000 * kUs}) {
    for (const uint64_t factor : {1u, 2u, 10u, 1000u}) {
      for (const int count : {16, 100, 1000, 20'000}) {
        WayChoice choice(kTwo, {});
        const uint64_t took = Calls(choice).make(count, {plain, plain * factor, 0, 0});
        const double ratio =
            static_cast<double>(took) / (static_cast<double>(count) * static_cast<double>(plain));
        // One call of a way says what it costs: what that loses cannot be less.
        const double least = 2 * static_cast<double>(factor - 1) / count;
        EXPECT_LE(ratio, std::max(1.05, 1 + 2 * least))
            << plain << " ns, times " << factor << ", " << count;
        EXPECT_EQ(choice.in_use(), Way::plain);
      }
    }
  }
}

TEST(WayChoice, WhatHeldWritesMakeTheProgramWaitForCounts) {
  const Cost cost{100 * kUs, 0, 0, 2 * kUs};
  constexpr Ways kWritten = Ways(Way::plain) | Way::behind;
  WayChoice cheap(kWritten, {});
  Calls(cheap).make(5000, cost, 200 * kUs);
  EXPECT_EQ(cheap.in_use(), Way::behind);
  WayChoice dear(kWritten, {});
  Calls(dear).make(5000, cost, 20'000 * kUs);
  EXPECT_EQ(dear.in_use(), Way::plain);
}

/// A pool that is full now and then must not look like a change each time.
TEST(WayChoice, AnUnevenPaceIsNoReasonToExamineAgainAndAgain) {
  WayChoice choice(Ways(Way::plain) | Way::behind, {0, 0, 0, 10.0F});
  Calls calls(choice);
  for (int i = 0; i < 200; ++i) {
    calls.make(200, {200 * kUs, 0, 0, 2 * kUs}, 100 * kUs);
    calls.make(200, {200 * kUs, 0, 0, 60 * kUs}, 100 * kUs);
  }
  EXPECT_EQ(choice.in_use(), Way::behind);
  EXPECT_LE(choice.seen(Way::plain).examined, 16u) << "of 80,000 calls";
}

TEST(WayChoice, AWayThatBecomesSlowerIsLeft) {
  WayChoice choice(kTwo, {});
  Calls calls(choice);
  calls.make(5000, {100 * kUs, 40 * kUs, 0, 0});
  ASSERT_EQ(choice.in_use(), Way::engine);
  calls.make(400, {100 * kUs, 400 * kUs, 0, 0});
  EXPECT_EQ(choice.in_use(), Way::plain);
  EXPECT_GT(choice.used_since_bytes(), 5000 * kBytes);
}

TEST(WayChoice, AWayThatBecomesFasterIsFound) {
  WayChoice choice(kTwo, {});
  Calls calls(choice);
  calls.make(1000, {100 * kUs, 200 * kUs, 0, 0});
  ASSERT_EQ(choice.in_use(), Way::plain);
  calls.make(10'000, {100 * kUs, 50 * kUs, 0, 0});
  EXPECT_EQ(choice.in_use(), Way::engine);
}

TEST(WayChoice, WhatIsExpectedComesFirst) {
  WayChoice choice(kAll, {0, 1.05F, 1.5F, 3.0F});
  EXPECT_EQ(choice.way(), Way::behind);
  EXPECT_EQ(choice.first(), Way::behind);
  WayChoice no_better(kAll, {0, 1.05F, 0.9F, 1.1F});
  EXPECT_EQ(no_better.way(), Way::plain);
  WayChoice not_usable(kTwo, {0, 0, 0, 3.0F});
  EXPECT_EQ(not_usable.way(), Way::plain);
}

TEST(WayChoice, AWrongExpectationIsCorrected) {
  WayChoice choice(kTwo, {0, 5.0F, 0, 0});
  ASSERT_EQ(choice.way(), Way::engine);
  Calls(choice).make(1000, {100 * kUs, 150 * kUs, 0, 0});
  EXPECT_EQ(choice.in_use(), Way::plain);
}

TEST(WayChoice, AnotherChoiceLearnsFromIt) {
  WayChoice choice(kTwo, {});
  Calls(choice).make(5000, {100 * kUs, 40 * kUs, 0, 0});
  const Expected learned = choice.learned();
  EXPECT_NEAR(learned[static_cast<size_t>(Way::engine)], 2.5, 0.1);
  EXPECT_EQ(WayChoice(kTwo, learned).way(), Way::engine);
}

TEST(WayChoice, AWayThatIsRefusedIsLeft) {
  WayChoice choice(kTwo, {0, 2.0F, 0, 0});
  ASSERT_EQ(choice.way(), Way::engine);
  int refused = 0;
  while (choice.way() == Way::engine) {
    choice.note_refusal(Way::engine, 5 * kUs);
    choice.note(Way::plain, kBytes, 100 * kUs);
    ASSERT_LE(++refused, 4);
  }
  for (int i = 0; i < 20'000; ++i) {
    if (choice.way() == Way::engine) {
      choice.note_refusal(Way::engine, 5 * kUs);
      ++refused;
    }
    choice.note(Way::plain, kBytes, 100 * kUs);
  }
  EXPECT_LT(refused, 30) << "of 20,000";
  EXPECT_EQ(choice.in_use(), Way::plain);
}

TEST(WayChoice, AWayThatIsRuledOutNeverComesBack) {
  WayChoice choice(kTwo, {0, 2.0F, 0, 0});
  choice.rule_out(Way::engine);
  EXPECT_EQ(choice.way(), Way::plain);
  Calls(choice).make(20'000, {100 * kUs, 1, 0, 0});
  EXPECT_EQ(choice.seen(Way::engine).calls, 0u);
}

/// In the middle of an examination, too.
TEST(WayChoice, AnExaminedWayMayBeRuledOut) {
  WayChoice choice(kTwo, {});
  Calls calls(choice);
  const Cost cost{100 * kUs, 50 * kUs, 0, 0};
  while (choice.way() != Way::engine) calls.make(1, cost);
  choice.rule_out(Way::engine);
  calls.make(1000, cost);
  EXPECT_EQ(choice.in_use(), Way::plain);
  EXPECT_EQ(choice.way(), Way::plain);
}

TEST(SizeClass, SimilarSizesAreOneClass) {
  EXPECT_EQ(class_of(1), class_of(4096));
  EXPECT_NE(class_of(4096), class_of(4097));
  EXPECT_LT(class_of(UINT64_MAX), kVectored);
}

}  // namespace
}  // namespace ioweave::choice
