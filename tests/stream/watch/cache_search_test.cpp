#include "stream/watch/cache_search.hpp"

#include <gtest/gtest.h>

#include "cached_file.hpp"

namespace ioweave::stream {
namespace {

using Result = CacheSearch::Result;

constexpr uint64_t kKiB = 1u << 10;
constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kBegin = 60'000 * kMs;  // long after the machine was started

/// A search in a file.
class CacheSearchTest : public testing::Test {
 protected:
  Result look(uint64_t asked_until = 0) {
    const auto cached_bytes = [this](FileRange range) { return std::optional(file_.count(range)); };
    return search_.look(cached_bytes, file_.bytes(), asked_until, now_ns_);
  }
  /// Finds a reader at 1 MiB.
  void find() {
    ASSERT_EQ(look(), Result::none);
    file_.bring_in(0, kMiB);
    ASSERT_EQ(look(), Result::found);
  }

  CachedFile file_{200 * kMiB};
  CacheSearch search_;
  uint64_t now_ns_ = kBegin;
};

TEST_F(CacheSearchTest, FollowsAReader) {
  EXPECT_TRUE(search_.is_due(now_ns_));
  find();
  EXPECT_EQ(search_.frontier(), kMiB);
  EXPECT_EQ(look(), Result::stands);
  file_.bring_in(kMiB, 3 * kMiB);
  EXPECT_EQ(look(), Result::moved);
  EXPECT_EQ(search_.way_bytes(), 2 * kMiB);
  EXPECT_FALSE(search_.was_elsewhere());
}

TEST_F(CacheSearchTest, LooksLessAndLessOftenWhereNobodyReads) {
  EXPECT_FALSE(search_.compares_next());
  EXPECT_EQ(look(), Result::none);
  EXPECT_TRUE(search_.compares_next());
  for (int i = 1; i < 8; ++i) {
    EXPECT_EQ(search_.next_ns(), now_ns_ + 10 * kMs);
    EXPECT_FALSE(search_.is_due(search_.next_ns() - 1));
    now_ns_ = search_.next_ns();
    EXPECT_EQ(look(), Result::none);
    EXPECT_FALSE(search_.compares_next());
  }
  uint64_t period_ns = 10 * kMs;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(search_.next_ns(), now_ns_ + period_ns);
    now_ns_ = search_.next_ns();
    EXPECT_EQ(look(), Result::none);
    period_ns = std::min(2 * period_ns, 1000 * kMs);
  }
}

TEST_F(CacheSearchTest, IsOverWhereTheKernelDoesNotTell) {
  const auto untold = [](FileRange) { return std::optional<uint64_t>(); };
  find();
  EXPECT_EQ(search_.look(untold, file_.bytes(), 0, now_ns_), Result::none);
  EXPECT_EQ(search_.frontier(), std::nullopt);
  EXPECT_FALSE(search_.compares_next());
  EXPECT_TRUE(search_.saw_nothing());
  EXPECT_FALSE(search_.is_due(UINT64_MAX - 1));
}

TEST_F(CacheSearchTest, LosesAReaderThatIsNotSeenForASecond) {
  find();
  now_ns_ += 1000 * kMs;
  EXPECT_EQ(look(), Result::stands);
  now_ns_ += 1;
  EXPECT_EQ(look(), Result::none);
  EXPECT_EQ(search_.frontier(), std::nullopt);
}

TEST_F(CacheSearchTest, SeesThatAReaderWentElsewhereBehindHelp) {
  find();
  file_.bring_in(kMiB, 30 * kMiB);         // asked for
  file_.bring_in(100 * kMiB, 120 * kMiB);  // read there
  file_.bring_in(30 * kMiB, 31 * kMiB);
  now_ns_ += 21 * kMs;
  EXPECT_EQ(look(30 * kMiB), Result::moved);
  EXPECT_TRUE(search_.was_elsewhere());
  file_.bring_in(31 * kMiB, 32 * kMiB);
  EXPECT_EQ(look(30 * kMiB), Result::moved);
  EXPECT_FALSE(search_.was_elsewhere());
}

TEST_F(CacheSearchTest, DoesNotCountTheFileWhereTheReaderIsSeenOften) {
  find();
  file_.bring_in(100 * kMiB, 120 * kMiB);
  file_.bring_in(kMiB, 2 * kMiB);
  now_ns_ += 20 * kMs;
  EXPECT_EQ(look(), Result::moved);
  EXPECT_FALSE(search_.was_elsewhere());
}

TEST_F(CacheSearchTest, SaysThatNothingWasThere) {
  EXPECT_EQ(look(), Result::none);
  EXPECT_TRUE(search_.saw_nothing());
  file_.bring_in(0, kMiB);
  file_.bring_in(100 * kMiB, 101 * kMiB);
  EXPECT_EQ(look(), Result::none);
  EXPECT_FALSE(search_.saw_nothing());
}

TEST_F(CacheSearchTest, SaysThatNothingIsLeftWhereAReaderIsLost) {
  find();
  file_.empty();
  now_ns_ += 1001 * kMs;
  EXPECT_EQ(look(), Result::none);
  EXPECT_TRUE(search_.saw_nothing());
}

TEST_F(CacheSearchTest, SaysThatSomethingIsLeftWhereAReaderIsLost) {
  find();
  now_ns_ += 1001 * kMs;
  EXPECT_EQ(look(), Result::none);
  EXPECT_FALSE(search_.saw_nothing());
}

TEST_F(CacheSearchTest, KnowsAProcessThatReadsOnUnseen) {
  EXPECT_FALSE(search_.has_read_lately(kBegin));
  EXPECT_FALSE(search_.reads_unseen(64 * kKiB - 1, 0, kBegin));
  EXPECT_TRUE(search_.reads_unseen(64 * kKiB, 0, kBegin));
  EXPECT_FALSE(search_.reads_unseen(127 * kKiB, 0, kBegin + 1)) << "hardly more since then";
  EXPECT_TRUE(search_.has_read_lately(kBegin + 249 * kMs));
  EXPECT_FALSE(search_.has_read_lately(kBegin + 250 * kMs));
}

TEST_F(CacheSearchTest, TakesMovesThatAreUnderWayForSeen) {
  EXPECT_FALSE(search_.reads_unseen(4 * kMiB - 1, kMiB, kBegin));
  EXPECT_TRUE(search_.reads_unseen(4 * kMiB, kMiB, kBegin));
}

TEST_F(CacheSearchTest, BeginsAnewOnceThePositionMoves) {
  find();
  EXPECT_TRUE(search_.reads_unseen(kMiB, 0, kBegin));
  search_.note_position(2 * kMiB);
  EXPECT_EQ(search_.frontier(), std::nullopt);
  EXPECT_FALSE(search_.has_read_lately(kBegin));
  EXPECT_FALSE(search_.reads_unseen(2 * kMiB + 64 * kKiB - 1, 0, kBegin));
  EXPECT_TRUE(search_.reads_unseen(2 * kMiB + 64 * kKiB, 0, kBegin));
}

TEST_F(CacheSearchTest, LooksOftenAgainWhereTheProcessWasQuiet) {
  EXPECT_TRUE(search_.reads_unseen(kMiB, 0, now_ns_));
  for (int i = 0; i < 12; ++i) EXPECT_EQ(look(), Result::none);
  EXPECT_GT(search_.next_ns(), now_ns_ + 10 * kMs);
  EXPECT_TRUE(search_.reads_unseen(2 * kMiB, 0, now_ns_ + 3000 * kMs));
  EXPECT_EQ(look(), Result::none);
  EXPECT_GT(search_.next_ns(), now_ns_ + 10 * kMs) << "no pause yet";
  now_ns_ += 6001 * kMs;
  EXPECT_TRUE(search_.reads_unseen(3 * kMiB, 0, now_ns_));
  EXPECT_EQ(look(), Result::none);
  EXPECT_EQ(search_.next_ns(), now_ns_ + 10 * kMs);
}

}  // namespace
}  // namespace ioweave::stream
