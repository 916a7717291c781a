#include "stream/watch/write_follower.hpp"

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace ioweave::stream {
namespace {

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kAny = UINT64_MAX;
constexpr uint64_t kGrain = 2 * kMiB;

/// Shows a follower what a writer does.
class Writing {
 public:
  /// Writes at the position, and looks once.
  uint64_t write(uint64_t bytes) {
    seen.position += bytes;
    seen.written_bytes += bytes;
    seen.file_bytes = std::max(seen.file_bytes, seen.position);
    return follower.observe(seen);
  }
  uint64_t seek(uint64_t position) {
    seen.position = position;
    return follower.observe(seen);
  }
  /// Takes all that may be written early, in the ranges in which it comes.
  std::vector<FileRange> take(bool stands_still = false) {
    std::vector<FileRange> taken;
    while (const auto range = follower.next(stands_still, kAny)) {
      follower.handed_out(*range, range->bytes);
      taken.push_back(*range);
    }
    return taken;
  }

  WriteSighting seen;
  WriteFollower follower;
};

using Ranges = std::vector<FileRange>;

TEST(WriteFollower, HandsOutWholePiecesBehindAWriter) {
  Writing file;
  EXPECT_EQ(file.write(2 * kMiB), 2 * kMiB);
  EXPECT_EQ(file.write(6 * kMiB), 6 * kMiB);
  EXPECT_EQ(file.take(), Ranges{});  // its last pages are in it
  EXPECT_EQ(file.write(4 * kMiB), 4 * kMiB);
  EXPECT_EQ(file.take(), (Ranges{{0, 8 * kMiB}}));
  EXPECT_EQ(file.write(30 * kMiB), 30 * kMiB);
  EXPECT_EQ(file.take(), (Ranges{{8 * kMiB, 32 * kMiB}}));
  EXPECT_EQ(file.take(), Ranges{});
}

TEST(WriteFollower, BehindAWriterThatStandsStillAllButTheLastGrainIsHandedOut) {
  Writing file;
  file.write(kMiB);
  file.write(10 * kMiB);
  EXPECT_EQ(file.take(true), (Ranges{{0, 10 * kMiB}}));
  EXPECT_EQ(file.follower.witness(), 11 * kMiB - 2 * 4096);
  file.write(5 * kMiB);
  EXPECT_EQ(file.take(), Ranges{});
  file.write(10 * kMiB);
  EXPECT_EQ(file.take(), (Ranges{{10 * kMiB, 14 * kMiB}}));
}

TEST(WriteFollower, GrainsAreOfPages) {
  Writing file;
  file.follower = WriteFollower(64 << 10);
  file.write(kMiB);
  file.write(499 * kMiB);
  EXPECT_EQ(file.take(), Ranges{});
  EXPECT_EQ(file.take(true), (Ranges{{0, 384 * kMiB}}));
}

TEST(WriteFollower, HandsOutNoMoreThanIsAllowed) {
  Writing file;
  file.write(kMiB);
  file.write(40 * kMiB);
  EXPECT_EQ(file.follower.next(false, 5 * kMiB), (FileRange{0, 4 * kMiB}));  // whole grains
  EXPECT_EQ(file.follower.next(false, kMiB), std::nullopt);
}

/// The position of a single long write moves at its end; the size grows before.
TEST(WriteFollower, ALongWriteIsFollowedByTheSizeOfTheFile) {
  Writing file;
  file.write(2 * kMiB);
  file.seen.file_bytes = 34 * kMiB;
  EXPECT_EQ(file.follower.observe(file.seen), 32 * kMiB);
  EXPECT_EQ(file.take(), (Ranges{{0, 32 * kMiB}}));
  file.seen.file_bytes = 66 * kMiB;
  EXPECT_EQ(file.follower.observe(file.seen), 32 * kMiB);
  EXPECT_EQ(file.take(), (Ranges{{32 * kMiB, 32 * kMiB}}));
  // It has ended 4 MiB further on.
  EXPECT_EQ(file.write(68 * kMiB), 4 * kMiB);
  EXPECT_EQ(file.write(8 * kMiB), 8 * kMiB);
  EXPECT_EQ(file.take(), (Ranges{{64 * kMiB, 8 * kMiB}}));
}

TEST(WriteFollower, WritesAtOffsetsAreFollowedByTheSizeOfTheFile) {
  Writing file;
  file.seen.file_bytes = 4 * kMiB;
  file.seen.written_bytes = 4 * kMiB;
  file.follower.observe(file.seen);
  file.seen.file_bytes = 20 * kMiB;
  EXPECT_EQ(file.follower.observe(file.seen), 16 * kMiB);
  EXPECT_EQ(file.take(), (Ranges{{4 * kMiB, 12 * kMiB}}));
}

TEST(WriteFollower, ReadingAndSeekingIsNoWriting) {
  Writing file;
  file.seen.file_bytes = 100 * kMiB;
  file.seek(0);
  EXPECT_EQ(file.seek(50 * kMiB), 0u);
  EXPECT_EQ(file.seek(10 * kMiB), 0u);
  EXPECT_EQ(file.take(), Ranges{});
}

TEST(WriteFollower, WhoSeeksBeforeItWritesIsFollowedFromThere) {
  Writing file;
  file.seen.file_bytes = 200 * kMiB;
  file.seek(0);
  file.seen.position = 100 * kMiB;  // between two looks
  EXPECT_EQ(file.write(16 * kMiB), 16 * kMiB);
  EXPECT_EQ(file.take(), (Ranges{{100 * kMiB, 12 * kMiB}}));
}

/// A write may have ended between the look at the position and that at the total.
TEST(WriteFollower, ATotalThatIsAheadOfThePositionCountsForTheNextLook) {
  Writing file;
  file.write(kMiB);
  file.seen.written_bytes += 16 * kMiB;
  EXPECT_EQ(file.follower.observe(file.seen), 0u);
  file.seen.position += 16 * kMiB;
  EXPECT_EQ(file.follower.observe(file.seen), 16 * kMiB);
  EXPECT_EQ(file.take(), (Ranges{{0, 16 * kMiB}}));
}

TEST(WriteFollower, WhoReturnsToTheBeginningToReadHasWrittenNothing) {
  Writing file;
  file.write(kMiB);
  file.write(16 * kMiB);
  EXPECT_EQ(file.seek(0), 0u);
  EXPECT_EQ(file.take(), (Ranges{{0, 16 * kMiB}}));
}

/// Somebody who appends has not written what was there.
TEST(WriteFollower, WhatWasThereBeforeIsNotHandedOut) {
  Writing file;
  file.seen = {.position = 64 * kMiB, .file_bytes = 64 * kMiB, .written_bytes = kMiB};
  file.follower.observe(file.seen);
  file.write(16 * kMiB);
  EXPECT_EQ(file.take(), (Ranges{{64 * kMiB, 8 * kMiB}}));
}

TEST(WriteFollower, TellsWhatWasWrittenAgainInACycle) {
  Writing file;
  file.write(kMiB);
  file.write(31 * kMiB);
  file.take();
  file.seen.position = 0;
  EXPECT_EQ(file.write(10 * kMiB), 10 * kMiB);
  EXPECT_EQ(file.write(4 * kMiB), 4 * kMiB);
  EXPECT_EQ(file.follower.end_cycle(), 14 * kMiB);
  EXPECT_EQ(file.follower.end_cycle(), 0u);
  file.write(8 * kMiB);  // over what was written before the sync
  EXPECT_EQ(file.follower.end_cycle(), 0u);
}

/// Whatever a writer does: on one way through the file nothing is handed out twice, and nothing of
/// the grain of the witness.
TEST(WriteFollower, RandomWriters) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    Writing file;
    for (int step = 0; step < 200; ++step) {
      switch (random() % 8) {
        case 0:
          file.seek(random() % (64 * kMiB));
          break;
        case 1:
          file.seen.file_bytes += random() % (16 * kMiB);
          file.follower.observe(file.seen);
          break;
        default:
          file.write(random() % (16 * kMiB));
      }
      const bool is_still = random() % 2 == 0;
      const uint64_t most = random() % (32 * kMiB);
      const std::optional<FileRange> range = file.follower.next(is_still, most);
      if (!range) continue;
      ASSERT_GT(range->bytes, 0u) << "seed " << seed;
      ASSERT_LE(range->bytes, most) << "seed " << seed;
      ASSERT_LE(range->end(), file.follower.witness().value() / kGrain * kGrain) << "seed " << seed;
      file.follower.handed_out(*range, range->bytes);
      const std::optional<FileRange> next = file.follower.next(is_still, kAny);
      ASSERT_TRUE(!next || next->offset == range->end()) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace ioweave::stream
