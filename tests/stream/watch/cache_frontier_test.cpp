#include "stream/watch/cache_frontier.hpp"

#include <gtest/gtest.h>

#include "base/page_bytes.hpp"
#include "cached_file.hpp"

namespace ioweave::stream {
namespace {

constexpr uint64_t kMiB = 1u << 20;

/// A file that a frontier looks at.
class LookedAt : public CachedFile {
 public:
  using CachedFile::CachedFile;
  [[nodiscard]] bool look(CacheFrontier& frontier, uint64_t asked_until = 0) {
    return frontier.look([this](FileRange range) { return count(range); }, bytes(), asked_until);
  }
  [[nodiscard]] bool counts_more(CacheFrontier& frontier) {
    return frontier.has_grown_elsewhere([this](FileRange range) { return count(range); }, bytes());
  }
};

TEST(CacheFrontier, IsWhereAReaderBringsPagesIn) {
  LookedAt file(100 * kMiB + 5);
  CacheFrontier frontier;
  EXPECT_FALSE(file.look(frontier));
  EXPECT_FALSE(file.look(frontier)) << "nobody reads";
  file.bring_in(0, kMiB);
  EXPECT_TRUE(file.look(frontier));
  EXPECT_EQ(frontier.frontier(), kMiB);
  EXPECT_EQ(frontier.way_bytes(), 0u);
  EXPECT_FALSE(file.look(frontier)) << "nobody has read on";
  file.bring_in(kMiB, 30 * kMiB);
  EXPECT_TRUE(file.look(frontier));
  EXPECT_EQ(frontier.frontier(), 30 * kMiB);
  file.bring_in(30 * kMiB, 100 * kMiB + 5);
  EXPECT_TRUE(file.look(frontier));
  EXPECT_EQ(frontier.frontier(), 100 * kMiB + 5);
  EXPECT_EQ(frontier.way_bytes(), 99 * kMiB + 5);
  EXPECT_FALSE(file.look(frontier));
}

TEST(CacheFrontier, IsFoundInTheMiddleOfAPart) {
  LookedAt file(100 * kMiB);
  CacheFrontier frontier;
  EXPECT_FALSE(file.look(frontier));
  file.bring_in(50 * kMiB + page_bytes(), 51 * kMiB);
  EXPECT_TRUE(file.look(frontier));
  EXPECT_EQ(frontier.frontier(), 51 * kMiB);
}

TEST(CacheFrontier, IsFoundBehindWhatWasThereBefore) {
  LookedAt file(100 * kMiB);
  file.bring_in(0, 20 * kMiB);
  file.bring_in(90 * kMiB, 95 * kMiB);
  CacheFrontier frontier;
  EXPECT_FALSE(file.look(frontier));
  file.bring_in(20 * kMiB, 21 * kMiB);
  EXPECT_TRUE(file.look(frontier));
  EXPECT_EQ(frontier.frontier(), 21 * kMiB);
}

TEST(CacheFrontier, IsFoundWhereAFastReaderHasCrossedParts) {
  LookedAt file(4096 * kMiB + 123);
  CacheFrontier frontier;
  EXPECT_FALSE(file.look(frontier));
  file.bring_in(1000 * kMiB, 1200 * kMiB);
  EXPECT_TRUE(file.look(frontier));
  EXPECT_EQ(frontier.frontier(), 1200 * kMiB);
}

TEST(CacheFrontier, IsNowhereWhileTwoPlacesGrow) {
  LookedAt file(100 * kMiB);
  CacheFrontier frontier;
  EXPECT_FALSE(file.look(frontier));
  for (uint64_t at = kMiB; at < 20 * kMiB; at += kMiB) {
    file.bring_in(at - kMiB, at);
    file.bring_in(80 * kMiB + at - kMiB, 80 * kMiB + at);
    EXPECT_FALSE(file.look(frontier));
    EXPECT_EQ(frontier.frontier(), std::nullopt);
  }
  file.bring_in(19 * kMiB, 20 * kMiB);
  EXPECT_TRUE(file.look(frontier)) << "one of them goes on";
  EXPECT_EQ(frontier.frontier(), 20 * kMiB);
}

TEST(CacheFrontier, IsHiddenByWhatWasAskedFor) {
  LookedAt file(100 * kMiB);
  CacheFrontier frontier;
  EXPECT_FALSE(file.look(frontier));
  file.bring_in(0, kMiB);
  EXPECT_TRUE(file.look(frontier));
  file.bring_in(kMiB, 9 * kMiB);
  EXPECT_FALSE(file.look(frontier, 9 * kMiB)) << "that was for the reader, not by it";
  EXPECT_EQ(frontier.frontier(), kMiB);
  file.bring_in(9 * kMiB, 10 * kMiB);
  EXPECT_TRUE(file.look(frontier, 9 * kMiB));
  EXPECT_EQ(frontier.frontier(), 10 * kMiB);
}

TEST(CacheFrontier, TellsWhetherMoreHasComeInElsewhere) {
  LookedAt file(100 * kMiB);
  CacheFrontier frontier;
  EXPECT_FALSE(file.look(frontier));
  file.bring_in(0, kMiB);
  EXPECT_TRUE(file.look(frontier));
  file.bring_in(kMiB, 20 * kMiB);
  EXPECT_TRUE(file.look(frontier));
  EXPECT_FALSE(file.counts_more(frontier)) << "all came in at the frontier";
  file.bring_in(20 * kMiB, 30 * kMiB);
  file.bring_in(60 * kMiB, 77 * kMiB);
  EXPECT_TRUE(file.look(frontier));
  EXPECT_TRUE(file.counts_more(frontier));
  EXPECT_FALSE(file.counts_more(frontier)) << "nothing has come in since";
}

TEST(CacheFrontier, IsFoundAnewOnceLost) {
  LookedAt file(100 * kMiB);
  CacheFrontier frontier;
  EXPECT_FALSE(file.look(frontier));
  file.bring_in(0, kMiB);
  EXPECT_TRUE(file.look(frontier));
  frontier.lose();
  EXPECT_EQ(frontier.frontier(), std::nullopt);
  EXPECT_FALSE(file.look(frontier));
  file.bring_in(60 * kMiB, 61 * kMiB);
  EXPECT_TRUE(file.look(frontier));
  EXPECT_EQ(frontier.frontier(), 61 * kMiB);
}

TEST(CacheFrontier, IsNotFoundInAFileThatGrows) {
  LookedAt small(20 * kMiB);
  LookedAt large(30 * kMiB);
  CacheFrontier frontier;
  EXPECT_FALSE(small.look(frontier));
  large.bring_in(20 * kMiB, 30 * kMiB);
  EXPECT_FALSE(large.look(frontier));
  EXPECT_FALSE(large.look(frontier));
}

TEST(CacheFrontier, TakesFewLooksAtAnyFile) {
  LookedAt file(16384 * kMiB);
  CacheFrontier frontier;
  EXPECT_FALSE(file.look(frontier));
  EXPECT_LE(file.take_counts(), 128u);
  file.bring_in(5000 * kMiB, 5100 * kMiB);
  EXPECT_TRUE(file.look(frontier));
  EXPECT_LE(file.take_counts(), 192u);
  EXPECT_FALSE(file.look(frontier));
  EXPECT_EQ(file.take_counts(), 1u) << "one page tells that nobody has read on";
  file.bring_in(5100 * kMiB, 5101 * kMiB + page_bytes());
  EXPECT_TRUE(file.look(frontier));
  EXPECT_EQ(frontier.frontier(), 5101 * kMiB + page_bytes());
  EXPECT_LE(file.take_counts(), 24u);
}

}  // namespace
}  // namespace ioweave::stream
