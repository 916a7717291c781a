#include "stats/series.hpp"

#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ioweave::stats {
namespace {

constexpr uint64_t kSlot = uint64_t{1} << FileSeries::kFirstShift;
constexpr uint64_t kStart = 1'000'000;

class Recorded : public ::testing::Test {
 protected:
  Recorded() { begin_series(*series_, kStart); }

  /// A read of `bytes` that took `ticks` and ended at `end`.
  void read(uint64_t end, uint64_t bytes = 10, uint64_t ticks = 4) {
    note_read(*series_, bytes, end - ticks, end, true);
  }
  [[nodiscard]] uint64_t bytes() const {
    uint64_t sum = 0;
    for (const SeriesSlot& slot : series_->slot) sum += slot.read_bytes;
    return sum;
  }

  const std::unique_ptr<FileSeries> series_ = std::make_unique<FileSeries>();
};

TEST_F(Recorded, ACallIsInTheSlotInWhichItEnds) {
  read(kStart + kSlot + 1);
  EXPECT_EQ(series_->slot[1].read_bytes, 10u);
  EXPECT_EQ(series_->slot[1].read_ticks, 4u);
  EXPECT_EQ(series_->slot[1].read_calls, 1u);
  EXPECT_EQ(series_->slot[0].read_calls, 0u);
}

TEST_F(Recorded, ReadsWritesAndSyncsAreApart) {
  note_write(*series_, 7, kStart, kStart + 3, true);
  note_sync(*series_, kStart + 4, kStart + 9, true);
  read(kStart + 20);
  EXPECT_EQ(series_->slot[0].write_bytes, 7u);
  EXPECT_EQ(series_->slot[0].write_ticks, 3u);
  EXPECT_EQ(series_->slot[0].sync_ticks, 5u);
  EXPECT_EQ(series_->slot[0].read_bytes, 10u);
}

TEST_F(Recorded, BehindTheLastSlotPairsAreJoined) {
  for (uint64_t i = 0; i < FileSeries::kSlots; ++i) read(kStart + i * kSlot + 1, i);
  const uint64_t before = bytes();
  read(kStart + FileSeries::kSlots * kSlot, 1000);
  EXPECT_EQ(series_->shift, FileSeries::kFirstShift + 1);
  EXPECT_EQ(series_->slot[3].read_bytes, 6u + 7u);
  EXPECT_EQ(series_->slot[FileSeries::kSlots / 2].read_bytes, 1000u);
  EXPECT_EQ(bytes(), before + 1000);
}

TEST_F(Recorded, NothingIsLostHoweverLongThePauses) {
  std::mt19937_64 random(7);
  uint64_t now = kStart;
  uint64_t moved = 0;
  for (int i = 0; i < 5000; ++i) {
    now += uint64_t{1} << (random() % 40);
    const uint64_t size = random() % 100'000;
    read(now, size);
    moved += size;
    ASSERT_LT((now - kStart) >> series_->shift, FileSeries::kSlots);
  }
  EXPECT_EQ(bytes(), moved);
}

TEST_F(Recorded, AClockOfAnotherProcessorThatIsBehindCountsAsTheBeginning) {
  read(kStart - 100);
  EXPECT_EQ(series_->slot[0].read_calls, 1u);
}

TEST_F(Recorded, WhoeverComesWhileSlotsAreJoinedUsesTheLastOne) {
  series_->joining = 1;
  read(kStart + 1000 * kSlot);
  EXPECT_EQ(series_->slot[FileSeries::kSlots - 1].read_calls, 1u);
  EXPECT_EQ(series_->shift, FileSeries::kFirstShift);
}

TEST_F(Recorded, ACallRightBehindTheOneBeforeIsNoTurn) {
  read(kStart + 1000, 1, 800);
  read(kStart + 1000 + 50 + 800, 1, 800);  // an eighth is 100
  read(kStart + 1850 + 150 + 800, 1, 800);
  EXPECT_EQ(series_->slot[0].read_calls, 3u);
  EXPECT_EQ(series_->slot[0].read_turns, 2u);
}

TEST_F(Recorded, ReadsInOrderOrAtOneDistanceAreNoJumps) {
  for (uint64_t i = 0; i < 10; ++i) note_offset(*series_, i * 100, 100);
  const uint64_t in_order = series_->jumps;
  for (uint64_t i = 0; i < 10; ++i) note_offset(*series_, 5000 + i * 300, 100);
  EXPECT_EQ(in_order, 0u);
  EXPECT_LE(series_->jumps, 2u);
  std::mt19937_64 random(3);
  for (int i = 0; i < 100; ++i) note_offset(*series_, random() % 1'000'000, 100);
  EXPECT_GE(series_->jumps, 90u);
}

TEST_F(Recorded, ThreadsThatDoNotOwnTheRecordLoseNothing) {
  constexpr int kThreads = 4;
  constexpr uint64_t kCalls = 20'000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this] {
      for (uint64_t i = 0; i < kCalls; ++i) {
        note_read(*series_, 1, kStart + i, kStart + i + 1, false);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bytes(), kThreads * kCalls);
}

}  // namespace
}  // namespace ioweave::stats
