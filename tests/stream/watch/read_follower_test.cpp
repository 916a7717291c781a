#include "stream/watch/read_follower.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ioweave::stream {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kKiB = 1u << 10;
constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kWindow = 128 * kKiB;
constexpr uint64_t kFileBytes = 64 * kMiB;  // too short for a trial: help is on from the start

bool overlap(const FileRange& a, const FileRange& b) {
  return a.offset < b.end() && b.offset < a.end();
}

/// Shows a follower what a reader does, and keeps what it hands out.
class Following {
 public:
  explicit Following(const FollowLimits& limits = {}, uint64_t file_bytes = kFileBytes)
      : follower(limits) {
    seen.file_bytes = file_bytes;
    seen.now_ns = 1'000'000;
  }

  /// Reads `bytes` at the position in pieces of `call_bytes`, and looks once.
  std::vector<FileRange> read(uint64_t bytes, uint64_t call_bytes = kMiB) {
    seen.read_bytes += bytes;
    seen.read_calls += (bytes + call_bytes - 1) / call_bytes;
    return move_to(seen.offset + bytes);
  }
  /// Reads `bytes`, which a segment tells to be a record at `offset` of a strided reader.
  std::vector<FileRange> record(uint64_t offset, int64_t stride, uint64_t bytes) {
    seen.stride = stride;
    seen.record_bytes = bytes;
    seen.read_bytes += bytes;
    seen.read_calls += 1;
    return move_to(offset);
  }
  std::vector<FileRange> move_to(uint64_t offset) {
    seen.offset = offset;
    seen.now_ns += 1'000'000;
    follower.observe(seen);
    for (uint64_t i = 0; i < 8 && follower.end_of_read_alone(); ++i) {
      follower.note_look(HelpTrial::Look{true}, seen.now_ns + i);
    }
    if (waits) follower.note_wait();
    return take();
  }
  std::vector<FileRange> take() {
    std::vector<FileRange> taken;
    while (const std::optional<FileRange> range = follower.next()) {
      taken.push_back(*range);
      const bool is_hole = hole_every != 0 && range->offset / kWindow % hole_every == 0;
      follower.answered(*range, is_cached && !is_hole);
      if (taken.size() > kBound) {
        ADD_FAILURE() << "no end of ranges";
        break;
      }
    }
    all.insert(all.end(), taken.begin(), taken.end());
    return taken;
  }

  static constexpr size_t kBound = 1 << 17;
  ReadFollower follower;
  Sighting seen;
  bool is_cached = false;
  uint64_t hole_every = 0;  ///< windows: one of so many is not cached after all
  bool waits = false;       ///< it is seen to wait whenever it is looked at
  std::vector<FileRange> all;
};

uint64_t bytes_of(const std::vector<FileRange>& ranges) {
  uint64_t sum = 0;
  for (const FileRange& range : ranges) sum += range.bytes;
  return sum;
}

// ---- Sequential readers -------------------------------------------------------------------------

TEST(ReadFollower, EveryByteIsHandedOutAtMostOnceAndWithinTheFile) {
  for (const uint64_t step : {4 * kKiB, 100'000ul, 128 * kKiB, kMiB, 8 * kMiB, 20 * kMiB}) {
    SCOPED_TRACE(step);
    Following following({}, kFileBytes + 12'345);
    following.move_to(0);
    while (following.seen.offset < following.seen.file_bytes) {
      const uint64_t left = following.seen.file_bytes - following.seen.offset;
      const uint64_t before = following.seen.offset + std::min(step, left);
      for (const FileRange& range : following.read(std::min(step, left), step)) {
        EXPECT_GT(range.offset, before) << "the reader's own window";
      }
    }
    ASSERT_FALSE(following.all.empty());
    for (size_t i = 0; i < following.all.size(); ++i) {
      const FileRange& range = following.all[i];
      EXPECT_GT(range.bytes, 0u);
      EXPECT_LE(range.bytes, kWindow);
      EXPECT_LE(range.end(), following.seen.file_bytes);
      if (i > 0) {
        EXPECT_GE(range.offset, following.all[i - 1].end());
      }
    }
    EXPECT_EQ(following.all.back().end(), following.seen.file_bytes);
    EXPECT_EQ(following.follower.asked_bytes(), bytes_of(following.all));
    EXPECT_EQ(following.follower.used_bytes(following.seen.now_ns), bytes_of(following.all));
    EXPECT_FALSE(following.follower.is_strided());
  }
}

TEST(ReadFollower, NothingIsHandedOutBeforeSomethingWasRead) {
  Following following;
  EXPECT_THAT(following.move_to(0), IsEmpty());
  EXPECT_THAT(following.take(), IsEmpty());
  EXPECT_THAT(following.read(4 * kKiB), IsEmpty());
}

TEST(ReadFollower, BeginsBeyondTheWindowThatTheKernelIsIn) {
  constexpr uint64_t kLarge = 2 * kMiB;
  Following following({kLarge, 128 * kMiB});
  following.move_to(0);
  const std::vector<FileRange> first = following.read(2 * kLarge);
  ASSERT_FALSE(first.empty());
  EXPECT_EQ(first[0], (FileRange{3 * kLarge, kLarge}));
}

TEST(ReadFollower, IsNotLookedAtWhileTheKernelsWindowGrows) {
  constexpr uint64_t kLarge = 2 * kMiB;
  Following following({kLarge, 128 * kMiB});
  following.move_to(0);
  following.read(kLarge);
  EXPECT_FALSE(following.follower.end_of_read_alone());
  following.seen.offset += kLarge;
  following.seen.read_bytes += kLarge;
  following.seen.read_calls += 2;
  following.seen.now_ns += 1'000'000;
  following.follower.observe(following.seen);
  EXPECT_TRUE(following.follower.end_of_read_alone());
}

TEST(ReadFollower, HandsOutWholeWindowsOnTheirBoundaries) {
  Following following;
  following.move_to(0);
  for (int i = 0; i < 40; ++i) following.read(777'777);
  for (const FileRange& range : following.all) {
    EXPECT_EQ(range.offset % kWindow, 0u);
    EXPECT_EQ(range.bytes, kWindow);
  }
}

TEST(ReadFollower, AReaderThatDoesNotWaitHasLittleAhead) {
  Following following;
  following.move_to(0);
  for (int i = 0; i < 40; ++i) following.read(kMiB);
  EXPECT_LE(following.all.back().end(), following.seen.offset + 8 * kMiB + kWindow);
  following.follower.note_wait();
  following.take();
  EXPECT_GT(following.all.back().end(), following.seen.offset + 12 * kMiB);
}

TEST(ReadFollower, AReaderThatHelpHidesGetsMoreUntilThatLasts) {
  Following following({}, 500 * kMiB);
  following.seen.is_hidden_by_help = true;
  following.move_to(0);
  for (int i = 0; i < 8; ++i) following.read(kMiB);
  const auto ahead = [&] { return following.all.back().end() - following.seen.offset; };
  for (const uint64_t most : {16 * kMiB, 32 * kMiB, 64 * kMiB}) {
    following.read(ahead());
    EXPECT_GT(ahead(), most - most / 8);
    EXPECT_LE(ahead(), most + kWindow);
  }
  following.seen.now_ns += 64'000'000;
  following.read(ahead());
  EXPECT_LE(ahead(), 64 * kMiB + kWindow) << "that has lasted for some looks";
}

TEST(ReadFollower, AReaderThatWasElsewhereIsNew) {
  for (const bool was_elsewhere : {false, true}) {
    Following following({}, 500 * kMiB);
    following.seen.is_hidden_by_help = true;
    following.move_to(0);
    for (int i = 0; i < 32; ++i) following.read(kMiB);
    const uint64_t ahead = following.all.back().end() - following.seen.offset;
    ASSERT_GT(ahead, 4 * kMiB);
    following.seen.was_elsewhere = was_elsewhere;
    EXPECT_EQ(following.read(ahead).empty(), was_elsewhere);
    following.seen.was_elsewhere = false;
    // It broke off after 32 MiB, so it may do so again.
    for (int i = 0; i < 63; ++i) EXPECT_TRUE(following.read(kMiB).empty() || !was_elsewhere) << i;
    EXPECT_FALSE(following.read(2 * kMiB).empty());
  }
}

TEST(ReadFollower, ABurstOfAReaderThatHelpHidesIsNotTakenForItsPace) {
  for (const bool is_hidden : {false, true}) {
    Following following({}, 500 * kMiB);
    following.seen.is_hidden_by_help = is_hidden;
    following.move_to(0);
    for (int i = 0; i < 16; ++i) {
      following.take();
      following.seen.offset += kMiB;  // a MiB in a millisecond, and no look at whether it waits
      following.seen.read_bytes += kMiB;
      following.seen.now_ns += 1'000'000;
      following.follower.observe(following.seen);
    }
    // With help, and with its computations, it takes ten times as long.
    bool has_rested = false;
    while (following.seen.offset < 400 * kMiB) {
      following.seen.now_ns += 159'000'000;
      has_rested = following.read(16 * kMiB).empty() || has_rested;
    }
    EXPECT_EQ(has_rested, !is_hidden);
  }
}

TEST(ReadFollower, TheLookAheadGrowsWithWhatWasRead) {
  Following following;
  following.waits = true;
  following.move_to(0);
  for (int i = 0; i < 12; ++i) {
    following.read(kMiB);
    const uint64_t read = following.seen.offset;
    ASSERT_FALSE(following.all.empty());
    const uint64_t ahead = following.all.back().end() - read;
    EXPECT_LE(ahead, 3 * read + kWindow);
    EXPECT_GE(ahead, std::min(3 * read, kFileBytes - read) / 2);
  }
}

TEST(ReadFollower, TheLookAheadEndsAtItsLimit) {
  Following following({kWindow, 4 * kMiB});
  following.move_to(0);
  for (int i = 0; i < 30; ++i) {
    following.read(kMiB);
    if (!following.all.empty()) {
      EXPECT_LE(following.all.back().end(), following.seen.offset + 4 * kMiB + kWindow);
    }
  }
  following.follower.set_lookahead(kMiB);
  EXPECT_THAT(following.read(kMiB), IsEmpty());
}

TEST(ReadFollower, OneReadMayBeLargerThanTheLookAhead) {
  Following following({kWindow, kMiB});
  following.move_to(0);
  following.read(8 * kMiB, 8 * kMiB);
  EXPECT_GE(following.all.back().end(), 16 * kMiB);
}

TEST(ReadFollower, AReaderThatWasMetOnItsWayIsFollowedAtOnce) {
  Following following;
  EXPECT_THAT(following.read(10 * kMiB), ::testing::Not(IsEmpty()));
}

TEST(ReadFollower, AReaderThatBeganInTheMiddleMustBeSeenTwice) {
  Following following;
  following.seen.read_bytes = 5;
  EXPECT_THAT(following.move_to(10 * kMiB), IsEmpty());
  EXPECT_THAT(following.read(kMiB), ::testing::Not(IsEmpty()));
}

TEST(ReadFollower, BytesOfOtherFilesDoNotHideAReader) {
  Following following;
  following.move_to(0);
  for (int i = 0; i < 4; ++i) {
    following.seen.read_bytes += 100 * kMiB;
    following.seen.read_calls += 100;
    following.read(kMiB);
  }
  EXPECT_FALSE(following.all.empty());
}

TEST(ReadFollower, BytesThatWereSeenBeforeThePositionMovedCountWithItsMove) {
  Following following;
  following.move_to(0);
  following.read(kMiB);
  following.seen.read_bytes += kMiB;  // of a call that has not stored the position yet
  following.move_to(following.seen.offset);
  EXPECT_THAT(following.move_to(following.seen.offset + kMiB), ::testing::Not(IsEmpty()));
}

TEST(ReadFollower, StopsWhereThePositionJumps) {
  for (const uint64_t target : {kMiB, 40 * kMiB}) {
    Following following;
    following.move_to(0);
    for (int i = 0; i < 8; ++i) following.read(kMiB);
    EXPECT_THAT(following.move_to(target), IsEmpty());
    EXPECT_THAT(following.take(), IsEmpty());
    EXPECT_EQ(following.read(kMiB).at(0).offset, target + kMiB + kWindow);
  }
}

TEST(ReadFollower, RandomPositionsGiveNothing) {
  constexpr unsigned kSeed = 3;
  std::mt19937_64 random(kSeed);
  Following following({}, 10ul << 30);
  following.move_to(0);
  for (int i = 0; i < 1000; ++i) {
    following.seen.read_bytes += 4 * kKiB;
    following.seen.read_calls += 1;
    following.move_to(random() % (10ul << 30) / 4096 * 4096);
  }
  EXPECT_THAT(following.all, IsEmpty());
  EXPECT_EQ(following.follower.asked_bytes(), 0u);
}

TEST(ReadFollower, AReaderThatLeavesHolesIsNotSequential) {
  Following following;
  following.move_to(0);
  for (int i = 0; i < 10; ++i) {
    following.seen.read_bytes += kMiB;
    following.seen.read_calls += 1;
    following.move_to(following.seen.offset + 4 * kMiB);
  }
  EXPECT_THAT(following.all, IsEmpty());
}

TEST(ReadFollower, AFileThatShrinksGivesNothingBeyondItsEnd) {
  Following following;
  following.move_to(0);
  for (int i = 0; i < 4; ++i) following.read(kMiB);
  following.seen.file_bytes = 6 * kMiB;
  EXPECT_THAT(following.read(kMiB), IsEmpty());
  following.seen.file_bytes = kFileBytes;
  EXPECT_THAT(following.read(kMiB), ::testing::Not(IsEmpty()));
}

TEST(ReadFollower, ALongFileIsMeasuredBeforeItIsHelped) {
  Following following({}, 10ul << 30);
  following.move_to(0);
  following.read(2 * kMiB);
  EXPECT_THAT(following.all, IsEmpty());
  EXPECT_TRUE(following.follower.wants_more()) << "to see whether it waits";
  for (int i = 0; i < 10; ++i) following.read(2 * kMiB);
  EXPECT_FALSE(following.all.empty());
  EXPECT_TRUE(following.follower.wants_more());
}

// ---- Cached answers -----------------------------------------------------------------------------

TEST(ReadFollower, CachedAnswersLeadToARest) {
  Following following({}, 256 * kMiB - 1);
  following.is_cached = true;
  following.move_to(0);
  following.read(8 * kMiB, kWindow);
  EXPECT_EQ(following.all.size(), 8u);
  EXPECT_EQ(following.follower.asked_bytes(), 0u);
  const uint64_t rested = following.seen.offset;
  while (following.all.size() == 8 && following.seen.offset < 256 * kMiB) {
    following.read(kMiB, kWindow);
  }
  EXPECT_NEAR(static_cast<double>(following.seen.offset - rested), 64.0 * kMiB, 2.0 * kMiB);
}

TEST(ReadFollower, RestsGrowWhileEverythingIsCached) {
  Following following({kWindow, 32 * kMiB}, 250 * kMiB);
  following.is_cached = true;
  following.move_to(0);
  while (following.seen.offset + kMiB < following.seen.file_bytes) following.read(kMiB, kWindow);
  EXPECT_LE(following.all.size(), 3u * 8);
}

TEST(ReadFollower, WhatAReadUnderWayBringsInItselfLeadsToNoRest) {
  constexpr uint64_t kRead = 4 * kMiB;
  Following following;
  following.move_to(0);
  while (following.seen.offset + kRead < 64 * kMiB) {
    following.read(kRead, kRead);
    // The next read has brought in what it wants when it is looked for, and the kernel no more.
    for (uint64_t at = 0; at < kRead; at += kWindow) {
      following.follower.answered({following.seen.offset + at, kWindow}, true);
    }
    EXPECT_FALSE(following.follower.reads_what_is_cached()) << "at " << following.seen.offset;
  }
  EXPECT_GT(bytes_of(following.all), 32 * kMiB);
}

TEST(ReadFollower, WhatIsNotCachedEndsTheRow) {
  Following following;
  following.is_cached = true;
  following.hole_every = 8;
  following.move_to(0);
  for (int i = 0; i < 40; ++i) following.read(128 * kKiB);
  EXPECT_GT(following.all.size(), 40u);
}

TEST(ReadFollower, ARowOfCachedRangesIsLookedOverInOneGo) {
  Following following;
  following.is_cached = true;
  following.move_to(0);
  std::vector<FileRange> row;
  while (row.empty()) row = following.read(128 * kKiB);
  EXPECT_EQ(row.size(), 8u);
  EXPECT_FALSE(following.follower.wants_more()) << "nothing needs to be open meanwhile";
  EXPECT_THAT(following.read(128 * kKiB), IsEmpty());
}

// ---- What is said of it -------------------------------------------------------------------------

TEST(ReadFollower, SaysSinceWhenItHelps) {
  Following following;
  following.move_to(0);
  EXPECT_EQ(following.follower.help().why, stats::ReadHelp::too_short);
  while (following.all.empty()) following.read(kMiB);
  const uint64_t since = following.seen.offset;
  for (int i = 0; i < 4; ++i) following.read(kMiB);
  const stats::ReadHelpReport help = following.follower.help();
  EXPECT_EQ(help.why, stats::ReadHelp::helped);
  EXPECT_EQ(help.since_bytes, since);
  EXPECT_EQ(help.read_bytes, following.seen.offset);
}

TEST(ReadFollower, SaysThatThereIsNoOrder) {
  constexpr unsigned kSeed = 3;
  std::mt19937_64 random(kSeed);
  Following following({}, 10ul << 30);
  following.move_to(0);
  for (int i = 0; i < 7; ++i) {
    following.seen.read_bytes += 4 * kKiB;
    following.seen.read_calls += 1;
    following.move_to(random() % (10ul << 30) / 4096 * 4096);
    EXPECT_EQ(following.follower.help().why, stats::ReadHelp::too_short) << i;
  }
  for (int i = 0; i < 4; ++i) {
    following.seen.read_bytes += 4 * kKiB;
    following.seen.read_calls += 1;
    following.move_to(random() % (10ul << 30) / 4096 * 4096);
  }
  EXPECT_EQ(following.follower.help().why, stats::ReadHelp::no_order);
  EXPECT_EQ(following.follower.help().read_bytes, 11 * 4 * kKiB);
}

TEST(ReadFollower, PlacesInNoOrderAreSaidWithoutAPosition) {
  ReadFollower follower({});
  follower.note_no_order(kMiB, 8);
  EXPECT_EQ(follower.help().why, stats::ReadHelp::no_order);
}

TEST(ReadFollower, AJumpBackIsNoDisorder) {
  Following following({}, 10ul << 30);
  for (int pass = 0; pass < 20; ++pass) {
    following.seen.read_bytes += 4 * kKiB;
    following.seen.read_calls += 1;
    following.move_to(0);
    for (int i = 0; i < 2; ++i) following.read(kMiB);
  }
  EXPECT_EQ(following.follower.help().why, stats::ReadHelp::too_short);
}

TEST(ReadFollower, SaysThatWhatItWantedWasCached) {
  Following following({}, 256 * kMiB - 1);
  following.is_cached = true;
  following.move_to(0);
  following.read(2 * kMiB, kWindow);
  following.read(6 * kMiB, kWindow);
  EXPECT_EQ(following.follower.help().why, stats::ReadHelp::cached);
  EXPECT_EQ(following.follower.help().since_bytes, 0u);
}

TEST(ReadFollower, SaysThatTheRestIsCachedOfAFileThatWasHelped) {
  Following following({}, 256 * kMiB - 1);
  following.move_to(0);
  while (following.all.empty()) following.read(kMiB, kWindow);
  following.is_cached = true;
  for (int i = 0; i < 10; ++i) following.read(8 * kMiB, kWindow);
  EXPECT_EQ(following.follower.help().why, stats::ReadHelp::cached);
  EXPECT_GT(following.follower.help().since_bytes, 0u);
}

TEST(ReadFollower, OfAReaderThatDoesNotWaitItIsAskedWhatLiesAhead) {
  for (const bool is_cached : {false, true}) {
    Following following;
    following.move_to(0);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(following.follower.ahead_of_kernel(), std::nullopt);
      following.seen.read_bytes += kMiB;
      following.seen.read_calls += 1;
      following.seen.offset += kMiB;
      following.seen.now_ns += 1'000'000;
      following.follower.observe(following.seen);
    }
    for (int i = 0; i < 32; ++i) {
      following.follower.note_look(HelpTrial::Look{false}, following.seen.now_ns + 1'000 * i);
    }
    EXPECT_EQ(following.follower.help().why, stats::ReadHelp::hardly_waits);
    EXPECT_EQ(following.follower.ahead_of_kernel(),
              std::optional(FileRange{4 * kMiB + 4 * kWindow, kWindow}));
    following.follower.note_ahead(is_cached);
    EXPECT_EQ(following.follower.ahead_of_kernel(), std::nullopt) << "once is enough";
    EXPECT_EQ(following.follower.help().why,
              is_cached ? stats::ReadHelp::cached : stats::ReadHelp::hardly_waits);
  }
}

// ---- Strided readers ----------------------------------------------------------------------------

TEST(ReadFollower, RecordsOfAStridedReaderAreHandedOutExactly) {
  Following following;
  constexpr uint64_t kRecord = 256 * kKiB;
  constexpr int64_t kStride = 4 * kMiB;
  following.record(0, kStride, kRecord);
  EXPECT_THAT(following.record(kStride, kStride, kRecord),
              ElementsAre(FileRange{2 * kStride, kRecord}, FileRange{3 * kStride, kRecord},
                          FileRange{4 * kStride, kRecord}));
  EXPECT_TRUE(following.follower.is_strided());
  for (uint64_t at = 2 * kStride; at < kFileBytes; at += kStride) {
    following.record(at, kStride, kRecord);
  }
  ASSERT_EQ(following.all.size(), kFileBytes / kStride - 2);
  for (size_t i = 0; i < following.all.size(); ++i) {
    EXPECT_EQ(following.all[i], (FileRange{(i + 2) * kStride, kRecord}));
  }
  EXPECT_EQ(following.follower.used_bytes(following.seen.now_ns), bytes_of(following.all));
}

TEST(ReadFollower, BackwardsToo) {
  Following following;
  constexpr uint64_t kRecord = 64 * kKiB;
  constexpr int64_t kStride = -static_cast<int64_t>(2 * kMiB);
  for (uint64_t at = kFileBytes - 2 * kMiB;; at -= 2 * kMiB) {
    following.record(at, kStride, kRecord);
    if (at == 0) break;
  }
  ASSERT_EQ(following.all.size(), kFileBytes / (2 * kMiB) - 2);
  for (size_t i = 0; i < following.all.size(); ++i) {
    EXPECT_EQ(following.all[i], (FileRange{kFileBytes - (i + 3) * 2 * kMiB, kRecord}));
  }
}

TEST(ReadFollower, TheLastRecordEndsWithTheFile) {
  Following following({}, 8 * kMiB + 1000);
  for (uint64_t at = 0; at < 8 * kMiB; at += 2 * kMiB) following.record(at, 2 * kMiB, 64 * kKiB);
  EXPECT_EQ(following.all.back(), (FileRange{8 * kMiB, 1000}));
}

TEST(ReadFollower, AStridedReaderThatMovesToAnotherGridIsFollowedThere) {
  Following following;
  constexpr uint64_t kRecord = 64 * kKiB;
  constexpr int64_t kStride = kMiB;
  for (uint64_t i = 0; i < 8; ++i) following.record(i * kStride, kStride, kRecord);
  following.all.clear();
  constexpr uint64_t kShift = 20 * kMiB + kMiB / 2;
  for (uint64_t i = 0; i < 8; ++i) following.record(kShift + i * kStride, kStride, kRecord);
  ASSERT_FALSE(following.all.empty());
  for (const FileRange& range : following.all) EXPECT_EQ(range.offset % kMiB, kMiB / 2);
}

TEST(ReadFollower, AStridedReaderThatGoesBackIsFollowedFromThere) {
  Following following;
  constexpr uint64_t kRecord = 64 * kKiB;
  constexpr int64_t kStride = kMiB;
  for (uint64_t i = 0; i < 30; ++i) following.record(i * kStride, kStride, kRecord);
  following.all.clear();
  following.record(0, kStride, kRecord);
  following.record(kStride, kStride, kRecord);
  ASSERT_FALSE(following.all.empty());
  EXPECT_EQ(following.all[0], (FileRange{kMiB, kRecord}));
}

TEST(ReadFollower, PositionsInItsRecordsAreThoseOfAStridedReader) {
  for (const int64_t stride : {int64_t{1000}, int64_t{-1000}}) {
    Following following;
    EXPECT_FALSE(following.follower.explains(0));
    following.record(5000, stride, 100);
    for (const uint64_t offset : {5000u, 5050u, 5100u, 6000u, 6100u, 4000u, 4100u, 0u}) {
      EXPECT_TRUE(following.follower.explains(offset)) << offset;
    }
    for (const uint64_t offset : {5101u, 5999u, 4999u, 4101u, 500u}) {
      EXPECT_FALSE(following.follower.explains(offset)) << offset;
    }
  }
}

TEST(ReadFollower, StridesAtTheEndsOfTheNumbersAreSurvived) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t stride :
       {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(), int64_t{-1},
        int64_t{1}, int64_t{1} << 62}) {
    for (const uint64_t begin : {uint64_t{0}, kMost / 2, kMost - 4096, kMost, UINT64_MAX}) {
      Following following({}, kMost);
      for (uint64_t i = 0; i < 8; ++i) {
        following.record(begin + i * static_cast<uint64_t>(stride), stride, 4096);
      }
      for (const FileRange& range : following.all) EXPECT_LE(range.end(), kMost);
    }
  }
}

// ---- When to look again -------------------------------------------------------------------------

TEST(ReadFollower, AnIdleReaderIsLookedAtLessAndLessOften) {
  Following following;
  following.move_to(0);
  for (int i = 0; i < 4; ++i) following.read(kMiB);
  uint64_t last = 0;
  for (uint64_t idle_ns = 0; idle_ns < 100'000'000'000; idle_ns = 2 * idle_ns + 1'000'000) {
    const uint64_t again = following.follower.look_again_ns(following.seen.now_ns + idle_ns);
    EXPECT_GE(again, last);
    EXPECT_GE(again, 100'000u);
    EXPECT_LE(again, 100'000'000u);
    last = again;
  }
  EXPECT_EQ(last, 100'000'000u);
}

TEST(ReadFollower, AReaderWithMuchAheadIsLookedAtSeldom) {
  Following following({}, 250 * kMiB);
  following.waits = true;
  following.move_to(0);
  for (int i = 0; i < 60; ++i) following.read(kMiB);  // 1 MiB each millisecond
  EXPECT_GT(following.follower.look_again_ns(following.seen.now_ns), 2'000'000u);
}

TEST(ReadFollower, TheFirstSightOfAReaderOnItsWayTellsNoPace) {
  Following following({}, 250 * kMiB);
  following.waits = true;
  for (int i = 0; i < 60; ++i) following.read(kMiB);
  EXPECT_GT(following.follower.look_again_ns(following.seen.now_ns), 2'000'000u);
}

// ---- Anything -----------------------------------------------------------------------------------

/// Sightings of a reader that goes on most of the time, sometimes jumps, changes its kind, while
/// its file grows and shrinks.
class Chaos {
 public:
  explicit Chaos(uint64_t seed) : random_(seed), following_{limits(), size()} {
    following_.seen.read_bytes = any();
  }

  void step() {
    Sighting& seen = following_.seen;
    if (one_in(15)) seen.file_bytes = size();
    if (one_in(30)) following_.follower.set_lookahead(any() % (1u << 30));
    if (one_in(12)) {
      jump();
    } else if (seen.stride == 0) {
      const uint64_t way = any() % (32 * kMiB);
      if (seen.offset > kMost - way) return;
      seen.offset += way;
      seen.read_bytes += way + (one_in(4) ? any() % kMiB : 0);
    } else {
      const uint64_t steps = random_() % 4;
      const uint64_t room = seen.stride < 0 ? seen.offset : kMost - seen.offset;
      if (steps > room / way_of(seen.stride)) return;  // not round the end of the numbers
      seen.offset += static_cast<uint64_t>(seen.stride) * steps;
      seen.read_bytes += any() % (4 * kMiB);
    }
    seen.read_calls += random_() % 10;
    seen.now_ns += any() % 10'000'000'000;
    following_.follower.observe(seen);
    hand_out();
  }

 private:
  static constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();

  /// All magnitudes are likely.
  uint64_t any() { return random_() >> (random_() % 64); }
  bool one_in(unsigned n) { return random_() % n == 0; }
  uint64_t size() { return one_in(4) ? kMost : any() % kMost; }
  static uint64_t way_of(int64_t stride) {
    return stride < 0 ? 0 - static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride);
  }
  FollowLimits limits() { return {4096ul << random_() % 12, any() % (1u << 30)}; }

  void jump() {
    Sighting& seen = following_.seen;
    handed_out_.clear();
    seen.offset = one_in(3) ? kMost - any() % kMost : any() % kMost;
    seen.stride = one_in(2) ? 0 : static_cast<int64_t>(one_in(2) ? any() : 0 - any());
    seen.record_bytes = seen.stride == 0 ? 0 : 1 + any() % kMost;
    // As pattern_of() tells them: records do not touch.
    if (seen.stride != 0) {
      seen.record_bytes = 1 + seen.record_bytes % way_of(seen.stride);
    }
    if (one_in(2)) seen.read_bytes = any();
  }

  void hand_out() {
    for (int i = 0; i < 64; ++i) {
      const std::optional<FileRange> range = following_.follower.next();
      if (!range) break;
      ASSERT_GT(range->bytes, 0u);
      ASSERT_LE(range->offset, following_.seen.file_bytes);
      ASSERT_LE(range->bytes, following_.seen.file_bytes - range->offset);
      for (const FileRange& other : handed_out_) {
        ASSERT_FALSE(overlap(*range, other)) << range->offset << "+" << range->bytes << " and "
                                             << other.offset << "+" << other.bytes;
      }
      handed_out_.push_back(*range);
      following_.follower.answered(*range, one_in(3));
    }
    const uint64_t now = following_.seen.now_ns + any() % 1'000'000'000;
    ASSERT_LE(following_.follower.used_bytes(now), following_.follower.asked_bytes());
    ASSERT_LE(following_.follower.look_again_ns(now), 100'000'000u);
    ASSERT_GE(following_.follower.look_again_ns(now), 100'000u);
    (void)following_.follower.saved_seconds();
    (void)following_.follower.read_offset();
  }

  std::mt19937_64 random_;
  Following following_;
  std::vector<FileRange> handed_out_;
};

TEST(ReadFollower, AnySequenceOfSightingsHandsOutEachByteOnceAndNoneBeyondTheEnd) {
  for (uint64_t seed = 0; seed < 3000 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Chaos chaos(seed);
    for (int i = 0; i < 60 && !::testing::Test::HasFailure(); ++i) chaos.step();
  }
}

}  // namespace
}  // namespace ioweave::stream
