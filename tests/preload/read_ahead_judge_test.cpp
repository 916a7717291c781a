#include "calls/stream/read_ahead_judge.hpp"

#include <gtest/gtest.h>

namespace ioweave::calls {
namespace {

constexpr uint64_t kWindow = 128u << 10;
constexpr uint64_t kLeastTicks = 1000;

/// A program that reads `bytes` at a time, waits `wait` ticks for each and computes for `compute`.
struct Reader {
  uint64_t bytes;
  uint64_t wait;
  uint64_t compute;
};

class Judged {
 public:
  ReadAheadJudge judge;

  void read(const Reader& reader, int times, uint64_t window = kWindow) {
    for (int i = 0; i < times; ++i) {
      totals_ = {totals_.calls + 1, totals_.bytes + reader.bytes, totals_.ticks + reader.wait};
      now_ += reader.wait + reader.compute;
      judge.look(totals_, now_, window, kLeastTicks);
    }
  }

 private:
  ReadAheadJudge::Totals totals_;
  uint64_t now_ = 1;
};

TEST(ReadAheadJudge, KnowsNothingAtFirst) {
  Judged judged;
  judged.read({kWindow / 2, 1, 100}, 10);
  EXPECT_FALSE(judged.judge.suffices());
}

TEST(ReadAheadJudge, LeavesSmallReadsThatWaitLittleToTheKernel) {
  Judged judged;
  judged.read({kWindow / 2, 1, 100}, 200);
  EXPECT_TRUE(judged.judge.suffices());
}

TEST(ReadAheadJudge, HelpsWhereReadsExceedHalfAWindow) {
  Judged judged;
  judged.read({kWindow / 2 + 1, 1, 100}, 200);
  EXPECT_FALSE(judged.judge.suffices());
}

TEST(ReadAheadJudge, HelpsWithLargeReadsBesideTheLargestWindowToo) {
  constexpr uint64_t kLargest = 2u << 20;
  Judged small;
  small.read({512u << 10, 1, 100}, 200, kLargest);
  EXPECT_TRUE(small.judge.suffices());
  Judged large;
  large.read({1u << 20, 1, 100}, 200, kLargest);
  EXPECT_FALSE(large.judge.suffices());
}

TEST(ReadAheadJudge, HelpsForGoodWhereSmallReadsWaitLong) {
  Judged judged;
  judged.read({4096, 50, 100}, 200);
  EXPECT_FALSE(judged.judge.suffices());
  judged.read({4096, 1, 100}, 200);  // since it helps
  EXPECT_FALSE(judged.judge.suffices());
}

TEST(ReadAheadJudge, ABadStartProvesNothing) {
  Judged judged;
  judged.read({4096, 500, 100}, 20);
  judged.read({4096, 1, 100}, 200);
  EXPECT_TRUE(judged.judge.suffices());
}

TEST(ReadAheadJudge, SeesWhatChanges) {
  Judged judged;
  judged.read({4096, 1, 100}, 200);
  EXPECT_TRUE(judged.judge.suffices());
  judged.read({1 << 20, 500, 500}, 20);
  EXPECT_FALSE(judged.judge.suffices());
}

}  // namespace
}  // namespace ioweave::calls
