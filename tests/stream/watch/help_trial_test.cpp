// A simulated reader, with a pace alone and a pace with help, follows what the trial says.

#include "stream/watch/help_trial.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace ioweave::stream {
namespace {

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kGiB = 1u << 30;
constexpr uint64_t kUnit = 8 * kMiB;
constexpr uint64_t kLookahead = 128 * kMiB;
constexpr uint64_t kRamp = kMiB;
constexpr uint64_t kHelpedStretch = 2 * kLookahead;  // the shortest that is judged

/// Seconds per GiB.
struct Pace {
  double alone = 1;
  double helped = 1;
};

class Reader {
 public:
  explicit Reader(uint64_t file_bytes, uint64_t step_bytes = kMiB)
      : file_bytes_(file_bytes), step_bytes_(step_bytes) {}

  /// Reads on for so many bytes, or to the end of the file.
  void read(uint64_t bytes, const Pace& pace) {
    const uint64_t until = std::min(file_bytes_, offset_ + bytes);
    while (offset_ < until) step(std::min(step_bytes_, until - offset_), pace);
  }
  /// A millisecond after the last one.
  void look(bool waits_now, bool device_is_busy = false, bool is_crowded = false) {
    trial.note_look({waits_now, device_is_busy, is_crowded}, looked_ns_ += 1'000'000);
  }
  void pause(double how_long) { now_ns_ += static_cast<uint64_t>(how_long * 1e9); }

  HelpTrial trial;
  int looks_a_step = 0;  ///< at whether it waits, while that is wanted
  bool waits = true;
  double seconds = 0;           ///< in which it read
  double unhelped_seconds = 0;  ///< of these, in bytes that nothing was asked for
  uint64_t unhelped_bytes = 0;
  uint64_t helped_bytes = 0;   ///< read with help
  uint64_t first_refusal = 0;  ///< where help that was on went off first; 0: never
  [[nodiscard]] uint64_t offset() const { return offset_; }

 private:
  void step(uint64_t bytes, const Pace& pace) {
    const bool helps = trial.helps_now();
    if (helps) ahead_bytes_ = std::min(kLookahead, file_bytes_ - offset_);
    const bool is_helped = ahead_bytes_ >= bytes;
    const double took = (is_helped ? pace.helped : pace.alone) * static_cast<double>(bytes) / kGiB;
    seconds += took;
    if (is_helped) helped_bytes += bytes;
    if (!is_helped) unhelped_seconds += took;
    if (!is_helped) unhelped_bytes += bytes;
    ahead_bytes_ -= std::min(ahead_bytes_, bytes);
    offset_ += bytes;
    now_ns_ += static_cast<uint64_t>(took * 1e9);
    trial.advance(
        {bytes, ahead_bytes_, file_bytes_ - offset_, kUnit, kUnit, kRamp, kLookahead, now_ns_});
    for (int look = 0; look < looks_a_step && trial.is_measuring(); ++look) this->look(waits);
    if (helps && !trial.helps_now() && first_refusal == 0) first_refusal = offset_;
  }

  uint64_t file_bytes_;
  uint64_t step_bytes_;
  uint64_t offset_ = 0;
  uint64_t ahead_bytes_ = 0;
  uint64_t now_ns_ = 1'000'000;
  uint64_t looked_ns_ = 0;
};

double alone_seconds(const Reader& reader, const Pace& pace) {
  return pace.alone * static_cast<double>(reader.offset()) / kGiB;
}

// ---- Help that saves ----------------------------------------------------------------------------

TEST(HelpTrial, HelpThatSavesStaysOn) {
  constexpr Pace kPace{1.0, 0.6};
  Reader reader(60 * kGiB);
  reader.read(60 * kGiB, kPace);
  EXPECT_GT(static_cast<double>(reader.helped_bytes), 0.97 * 60 * kGiB);
  const double saved = alone_seconds(reader, kPace) - reader.seconds;
  ASSERT_TRUE(reader.trial.saved_seconds().has_value());
  EXPECT_NEAR(*reader.trial.saved_seconds(), saved, 0.03 * saved);
}

TEST(HelpTrial, WhatComparingCostIsTold) {
  constexpr Pace kPace{1.0, 0.6};
  Reader reader(60 * kGiB);
  EXPECT_EQ(reader.trial.trial_seconds(), 0);
  reader.read(60 * kGiB, kPace);
  const double unhelped = static_cast<double>(reader.unhelped_bytes) / kGiB;
  const double cost = reader.unhelped_seconds - kPace.helped * unhelped;
  EXPECT_GT(cost, 0);
  EXPECT_NEAR(reader.trial.trial_seconds(), cost, 0.1 * cost);
  EXPECT_LT(reader.trial.trial_seconds(), 0.02 * reader.seconds);
}

TEST(HelpTrial, ComparingCostsNothingWhereHelpDoesNotPay) {
  Reader reader(20 * kGiB);
  reader.read(20 * kGiB, {1.0, 1.5});
  EXPECT_EQ(reader.trial.trial_seconds(), 0);
}

TEST(HelpTrial, HelpThatChangesNothingStaysOnAndSavesNothing) {
  Reader reader(60 * kGiB);
  reader.read(60 * kGiB, {1.0, 1.0});
  EXPECT_GT(static_cast<double>(reader.helped_bytes), 0.95 * 60 * kGiB);
  EXPECT_NEAR(*reader.trial.saved_seconds(), 0, 0.01 * reader.seconds);
}

/// Seconds from the first stretch without help to the next one.
double seconds_of_help(const Pace& pace) {
  Reader reader(60 * kGiB);
  while (!reader.trial.helps_now() && reader.offset() < kGiB) reader.read(kMiB, pace);
  const double begin = reader.seconds;
  while (reader.trial.helps_now() && reader.offset() < 50 * kGiB) reader.read(kMiB, pace);
  return reader.seconds - begin;
}

TEST(HelpTrial, ThePaceWithoutHelpIsTakenAgainAfterFiftyTimesItsLength) {
  const double stretch = 20 * static_cast<double>(kUnit) / kGiB;
  EXPECT_NEAR(seconds_of_help({20, 15}), 50 * stretch, stretch);
  EXPECT_NEAR(seconds_of_help({1.0, 0.6}), 2.5, 0.1);
}

TEST(HelpTrial, AReaderThatHardlyWaitsIsLeftAlone) {
  for (const bool waits : {false, true}) {
    Reader reader(10 * kGiB);
    while (reader.offset() < kGiB) {
      if (reader.trial.is_measuring()) reader.look(waits);
      reader.read(kMiB, {1.0, 0.5});
    }
    EXPECT_EQ(reader.trial.is_resting(), !waits);
    EXPECT_EQ(reader.helped_bytes != 0, waits);
  }
}

/// Devices of 50 MB/s to 10 GB/s, files of 1 to 100 GiB, steps of 64 KiB to 32 MiB.
TEST(HelpTrial, AtMostASmallShareOfTheWayIsWithoutHelp) {
  constexpr unsigned kSeed = 12;
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> logarithm(0, 1);
  for (int i = 0; i < 60; ++i) {
    const double alone = 0.1 * std::pow(200, logarithm(random));
    const Pace pace{alone, alone * std::uniform_real_distribution<double>(0.2, 0.99)(random)};
    const auto bytes = static_cast<uint64_t>(kGiB * std::pow(100, logarithm(random)));
    const uint64_t step = (uint64_t{64} << 10) << random() % 10;
    SCOPED_TRACE(::testing::Message() << "alone " << pace.alone << " helped " << pace.helped
                                      << " s/GiB, bytes " << bytes << ", step " << step);
    Reader reader(bytes, step);
    reader.read(bytes, pace);
    // The first stretch: half a unit, a unit, and a step more for each, 2 % of the file at
    // most; those that follow: a 50th of the time, and the steps that end them.
    const double steps =
        3.0 * static_cast<double>(std::max(step, kUnit)) + 2.0 * static_cast<double>(step);
    const double rounds = 1 + reader.seconds / 2.5;
    const double most = std::max(0.05 * reader.seconds, steps / kGiB * pace.alone * rounds);
    EXPECT_LE(reader.unhelped_seconds, most);
  }
}

/// However much help is worth: what is read without it to begin with takes 2 % of the plain time.
TEST(HelpTrial, TheFirstStretchIsTwoPartsInAHundredOfTheShortestFileThatIsCompared) {
  constexpr uint64_t kStep = 64 << 10;
  Reader reader(75 * kUnit + kStep, kStep);
  reader.read(75 * kUnit + kStep, {1.0, 0.1});
  EXPECT_TRUE(reader.trial.saved_seconds().has_value());
  const double steps = 3 * static_cast<double>(kStep) / kGiB;
  EXPECT_LE(reader.unhelped_seconds, 0.02 * 75 * static_cast<double>(kUnit) / kGiB + steps);
}

// ---- Help that costs ----------------------------------------------------------------------------

TEST(HelpTrial, HelpThatCostsRestsWithinItsFirstStretch) {
  constexpr Pace kPace{1.0, 1.15};
  Reader reader(60 * kGiB);
  reader.read(60 * kGiB, kPace);
  EXPECT_GT(reader.first_refusal, 0u);
  EXPECT_LE(reader.first_refusal, 2 * kUnit + kHelpedStretch + 4 * kMiB);
  const double cost = reader.seconds - alone_seconds(reader, kPace);
  const double first_stretch = 0.15 * static_cast<double>(kHelpedStretch) / kGiB;
  EXPECT_LE(cost, 2 * first_stretch + 0.02 * alone_seconds(reader, kPace));
  ASSERT_TRUE(reader.trial.saved_seconds().has_value());
  EXPECT_LT(*reader.trial.saved_seconds(), 0);
  EXPECT_NEAR(*reader.trial.saved_seconds(), -cost, 0.05 * cost);
}

TEST(HelpTrial, TheCostOfHelpIsBoundedAtAnyPace) {
  constexpr unsigned kSeed = 13;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 60; ++i) {
    const double alone = 0.1 * std::pow(100, std::uniform_real_distribution<double>(0, 1)(random));
    const Pace pace{alone, alone * std::uniform_real_distribution<double>(1.12, 3)(random)};
    SCOPED_TRACE(::testing::Message() << "alone " << pace.alone << " helped " << pace.helped);
    Reader reader(50 * kGiB);
    reader.read(50 * kGiB, pace);
    const double first = (pace.helped - pace.alone) *
                         static_cast<double>(kHelpedStretch + kLookahead + kUnit) / kGiB;
    // Rests are 50 times what the stretch before has cost, but a minute at most.
    const double later = std::max(reader.seconds / 50 * 2, reader.seconds / 60 * first);
    EXPECT_LE(reader.seconds - alone_seconds(reader, pace), first + later);
  }
}

TEST(HelpTrial, ASmallLossRestsWhenItIsSeenTwice) {
  constexpr Pace kPace{1.0, 1.06};
  Reader reader(60 * kGiB);
  reader.read(60 * kGiB, kPace);
  EXPECT_LT(static_cast<double>(reader.helped_bytes), 0.5 * 60 * kGiB);
  EXPECT_LE(reader.seconds, 1.03 * alone_seconds(reader, kPace));
}

TEST(HelpTrial, RestsAreTakenLongerEachTime) {
  constexpr Pace kPace{1.0, 1.5};
  Reader once(10 * kGiB);
  once.read(10 * kGiB, kPace);
  Reader longer(100 * kGiB);
  longer.read(100 * kGiB, kPace);
  EXPECT_LT(longer.helped_bytes, 5 * once.helped_bytes);
}

TEST(HelpTrial, TheFirstRestTakesTwoAndAHalfSeconds) {
  constexpr Pace kPace{0.1, 0.2};
  Reader reader(60 * kGiB);
  while (!reader.trial.is_resting() && reader.offset() < 30 * kGiB) reader.read(kMiB, kPace);
  const double begin = reader.seconds;
  while (reader.trial.is_resting() && reader.offset() < 60 * kGiB) reader.read(kMiB, kPace);
  EXPECT_NEAR(reader.seconds - begin, 2.5, 0.1);
}

// ---- Readers that change ------------------------------------------------------------------------

TEST(HelpTrial, HelpThatBeginsToHarmIsNoticed) {
  constexpr Pace kHarm{1.0, 1.3};
  Reader reader(200 * kGiB);
  reader.read(20 * kGiB, {1.0, 0.5});
  ASSERT_GT(reader.helped_bytes, 19 * kGiB);
  const uint64_t before = reader.helped_bytes;
  const double seconds_before = reader.seconds;
  reader.read(100 * kGiB, kHarm);
  EXPECT_LT(reader.helped_bytes - before, 12 * kGiB);
  const double cost = reader.seconds - seconds_before - 100;
  EXPECT_LT(cost, 4);
}

TEST(HelpTrial, HelpThatBeginsToSaveIsTakenUpAgain) {
  Reader reader(300 * kGiB);
  reader.read(20 * kGiB, {1.0, 1.3});
  const uint64_t before = reader.helped_bytes;
  ASSERT_LT(before, 5 * kGiB);
  reader.read(280 * kGiB, {1.0, 0.5});
  EXPECT_GT(reader.helped_bytes - before, 200 * kGiB);
}

// ---- Readers that do not wait -------------------------------------------------------------------

TEST(HelpTrial, AReaderThatDoesNotWaitIsNotHelped) {
  for (const uint64_t file_bytes : {31 * kUnit, 300 * kUnit}) {
    Reader reader(file_bytes);
    reader.looks_a_step = 2;
    reader.waits = false;
    reader.read(file_bytes, {1.0, 0.5});
    EXPECT_EQ(reader.helped_bytes, 0u) << file_bytes;
  }
}

TEST(HelpTrial, OneThatBeginsToWaitIsHelpedThen) {
  Reader reader(300 * kGiB);
  reader.looks_a_step = 2;
  reader.waits = false;
  reader.read(20 * kGiB, {1.0, 0.5});
  ASSERT_EQ(reader.helped_bytes, 0u);
  reader.waits = true;
  reader.read(280 * kGiB, {1.0, 0.5});
  EXPECT_GT(reader.helped_bytes, 200 * kGiB);
}

// ---- Files that are too short -------------------------------------------------------------------

TEST(HelpTrial, AShortFileIsHelpedWhenItsReaderWaitsAndNothingIsSaidOfIt) {
  Reader reader(31 * kUnit);
  reader.read(kMiB, {1.0, 0.5});
  EXPECT_FALSE(reader.trial.helps_now());
  for (int i = 0; i < 6; ++i) reader.look(true);
  EXPECT_TRUE(reader.trial.helps_now());
  EXPECT_FALSE(reader.trial.is_measuring());
  reader.read(31 * kUnit, {1.0, 0.5});
  EXPECT_TRUE(reader.trial.helps_now());
  EXPECT_EQ(reader.trial.saved_seconds(), std::nullopt);
}

TEST(HelpTrial, AShortFilesReaderThatWaitsOnlyAtItsBeginningIsNotHelped) {
  Reader reader(31 * kUnit);
  reader.read(kRamp / 2, {1.0, 0.5});
  for (int i = 0; i < 100; ++i) reader.look(true);
  EXPECT_TRUE(reader.trial.is_measuring());
  reader.read(kRamp / 2, {1.0, 0.5});
  for (int i = 0; i < 32; ++i) reader.look(i == 1);
  EXPECT_FALSE(reader.trial.helps_now());
  EXPECT_TRUE(reader.trial.is_resting());
}

TEST(HelpTrial, AShortFilesReaderWhoseDeviceIsNeverIdleIsLeftAlone) {
  for (const bool is_idle_at_times : {false, true}) {
    Reader reader(31 * kUnit);
    for (int i = 0; i < 2; ++i) reader.read(kRamp, {1.0, 0.5});
    for (int i = 0; i < 32; ++i) reader.look(i % 4 != 0, !is_idle_at_times || i % 4 != 0);
    EXPECT_EQ(reader.trial.helps_now(), is_idle_at_times);
    EXPECT_EQ(reader.trial.is_resting(), !is_idle_at_times);
  }
}

TEST(HelpTrial, AShortFilesReaderThatHasNoProcessorToSpareIsLeftAlone) {
  for (const int crowded_of_ten : {0, 1, 3, 5, 10}) {
    SCOPED_TRACE(crowded_of_ten);
    Reader reader(31 * kUnit);
    for (int i = 0; i < 2; ++i) reader.read(kRamp, {1.0, 0.5});
    for (int i = 0; i < 40; ++i) reader.look(true, false, i % 10 < crowded_of_ten);
    EXPECT_EQ(reader.trial.helps_now(), crowded_of_ten <= 1);
    EXPECT_EQ(reader.trial.is_resting(), crowded_of_ten > 1);
  }
}

TEST(HelpTrial, AShortFilesReaderWhoseDeviceIsIdleForATenthIsLeftAlone) {
  // A few looks may find it idle all the same.
  for (const int first : {0, 3, 7}) {
    Reader reader(31 * kUnit);
    for (int i = 0; i < 2; ++i) reader.read(kRamp, {1.0, 0.5});
    for (int i = 0; i < 32; ++i) reader.look(true, i % 10 != first);
    EXPECT_FALSE(reader.trial.helps_now());
    EXPECT_TRUE(reader.trial.is_resting());
  }
}

TEST(HelpTrial, HelpThatCostsAShortFilesReaderTimeEndsSoon) {
  Reader reader(60 * kUnit);
  reader.read(2 * kUnit, {1.0, 1.3});
  for (int i = 0; i < 32; ++i) reader.look(true);
  ASSERT_TRUE(reader.trial.helps_now());
  reader.read(58 * kUnit, {1.0, 1.3});
  EXPECT_GT(reader.first_refusal, 0u);
  EXPECT_LE(reader.first_refusal, 8 * kUnit);
  EXPECT_FALSE(reader.trial.helps_now());
  EXPECT_EQ(reader.trial.saved_seconds(), std::nullopt);
}

TEST(HelpTrial, HelpThatSavesAShortFilesReaderTimeOrChangesNothingStaysOn) {
  for (const double helped : {0.3, 0.9, 1.0, 1.05}) {
    Reader reader(60 * kUnit);
    reader.read(2 * kUnit, {1.0, helped});
    for (int i = 0; i < 32; ++i) reader.look(true);
    ASSERT_TRUE(reader.trial.helps_now());
    reader.read(58 * kUnit, {1.0, helped});
    EXPECT_EQ(reader.first_refusal, 0u) << helped;
  }
}

TEST(HelpTrial, OneSlowStretchOfAShortFileEndsNothing) {
  Reader reader(60 * kUnit);
  reader.read(2 * kUnit, {1.0, 0.9});
  for (int i = 0; i < 32; ++i) reader.look(true);
  for (int i = 0; i < 8; ++i) {
    reader.read(6 * kUnit, {1.0, 0.9});
    reader.pause(0.005);
  }
  EXPECT_EQ(reader.first_refusal, 0u);
}

/// 24 ms of computing and 6 of waiting for each read, seen by looks that come less and less often.
TEST(HelpTrial, AReaderThatComputesLongBetweenItsReadsIsHelpedByWhatItWaitsOfTheTime) {
  Reader reader(15 * kUnit, kUnit);
  for (uint64_t read = 0; read < 4 && !reader.trial.helps_now(); ++read) {
    reader.read(kUnit, {1.0, 0.5});
    const uint64_t begin = read * 30'000'000;
    for (uint64_t at = 1; at < 24; at += 1 + at / 8) {
      reader.trial.note_look({false}, begin + at * 1'000'000);
    }
    for (const uint64_t at : {26u, 29u}) reader.trial.note_look({true}, begin + at * 1'000'000);
  }
  EXPECT_TRUE(reader.trial.helps_now());
}

TEST(HelpTrial, AReaderThatOnlyComputesBetweenItsReadsIsLeftAlone) {
  Reader reader(15 * kUnit, kUnit);
  for (uint64_t read = 0; read < 4; ++read) {
    reader.read(kUnit, {1.0, 0.5});
    for (uint64_t at = 1; at < 24; ++at) {
      reader.trial.note_look({false}, (read * 24 + at) * 1'000'000);
    }
  }
  EXPECT_FALSE(reader.trial.helps_now());
  EXPECT_TRUE(reader.trial.is_resting());
}

TEST(HelpTrial, WhereNobodyTellsWhetherItWaitsAShortFileIsLeftAloneAndALongOneCompared) {
  Reader small(31 * kUnit);
  for (int i = 0; i < 2; ++i) small.read(kMiB, {1.0, 0.5});
  for (int i = 0; i < 32; ++i) small.trial.note_nothing(1);
  EXPECT_TRUE(small.trial.is_resting());
  Reader large(400 * kUnit);
  for (int i = 0; i < 100; ++i) {
    large.read(kMiB, {1.0, 0.5});
    large.trial.note_nothing(1);
  }
  EXPECT_TRUE(large.trial.helps_now());
}

TEST(HelpTrial, NothingIsSaidBeforeThereIsHelp) {
  Reader reader(10 * kGiB);
  EXPECT_EQ(reader.trial.saved_seconds(), std::nullopt);
  EXPECT_FALSE(reader.trial.helps_now());
  reader.read(kUnit, {1.0, 0.5});
  EXPECT_TRUE(reader.trial.is_measuring());
  EXPECT_FALSE(reader.trial.helps_now());
  EXPECT_EQ(reader.trial.saved_seconds(), std::nullopt);
}

// ---- What is said of it -------------------------------------------------------------------------

TEST(HelpTrial, SaysThatItPaysByBothPaces) {
  Reader reader(20 * kGiB);
  EXPECT_EQ(reader.trial.why(), stats::ReadHelp::too_short);
  reader.read(20 * kGiB, {1.0, 0.5});
  EXPECT_EQ(reader.trial.why(), stats::ReadHelp::helped);
  const stats::Paces paces = reader.trial.paces();
  EXPECT_NEAR(paces.alone_mb_per_s, 1073.7, 11);
  EXPECT_NEAR(paces.helped_mb_per_s, 2147.5, 22);
}

TEST(HelpTrial, SaysThatItWasSlowerByBothPaces) {
  for (const uint64_t file_bytes : {60 * kUnit, 20 * kGiB}) {
    SCOPED_TRACE(file_bytes);
    Reader reader(file_bytes);
    reader.read(2 * kUnit, {1.0, 1.25});
    for (int i = 0; i < 32; ++i) reader.look(true);
    while (reader.offset() < file_bytes && reader.trial.why() != stats::ReadHelp::slower) {
      reader.read(kMiB, {1.0, 1.25});
    }
    EXPECT_EQ(reader.trial.why(), stats::ReadHelp::slower);
    const stats::Paces paces = reader.trial.paces();
    EXPECT_NEAR(paces.alone_mb_per_s / paces.helped_mb_per_s, 1.25, 0.02);
    reader.read(2 * kUnit, {1.0, 1.25});
    EXPECT_EQ(reader.trial.why(), stats::ReadHelp::slower);
  }
}

TEST(HelpTrial, SaysByWhichPaceItWasJudged) {
  for (const uint64_t file_bytes : {60 * kUnit, 40 * kGiB}) {
    SCOPED_TRACE(file_bytes);
    Reader reader(file_bytes);
    reader.read(2 * kUnit, {1.0, 0.5});
    for (int i = 0; i < 32; ++i) reader.look(true);
    reader.read(file_bytes / 2, {1.0, 0.5});
    ASSERT_EQ(reader.trial.why(), stats::ReadHelp::helped);
    while (reader.offset() < file_bytes && reader.trial.why() != stats::ReadHelp::slower) {
      reader.read(kMiB, {1.0, 2.0});
    }
    const stats::Paces paces = reader.trial.paces();
    EXPECT_NEAR(paces.alone_mb_per_s / paces.helped_mb_per_s, 2, 0.1);
  }
}

TEST(HelpTrial, SaysThatItsReaderHardlyWaits) {
  for (const uint64_t file_bytes : {31 * kUnit, 300 * kUnit}) {
    Reader reader(file_bytes);
    reader.looks_a_step = 2;
    reader.waits = false;
    reader.read(file_bytes, {1.0, 0.5});
    EXPECT_EQ(reader.trial.why(), stats::ReadHelp::hardly_waits) << file_bytes;
  }
}

/// A reader of a short file that was looked at so often.
stats::ReadHelp why_after(int looks, const HelpTrial::Look& look) {
  Reader reader(31 * kUnit);
  for (int i = 0; i < 2; ++i) reader.read(kRamp, {1.0, 0.5});
  for (int i = 0; i < looks; ++i) reader.look(look.waits, look.device_is_busy, look.is_crowded);
  return reader.trial.why();
}

TEST(HelpTrial, SaysWhatIsMissingBeforeAndAfterItIsDecided) {
  for (const int looks : {20, 40}) {
    EXPECT_EQ(why_after(looks, {true, true, false}), stats::ReadHelp::device_busy) << looks;
    EXPECT_EQ(why_after(looks, {true, false, true}), stats::ReadHelp::no_processor) << looks;
  }
  EXPECT_EQ(why_after(3, {true, true, true}), stats::ReadHelp::too_short);
}

TEST(HelpTrial, SaysThatNobodyTellsWhetherItsReaderWaits) {
  Reader reader(31 * kUnit);
  for (int i = 0; i < 2; ++i) reader.read(kMiB, {1.0, 0.5});
  for (int i = 0; i < 32; ++i) reader.trial.note_nothing(1);
  EXPECT_EQ(reader.trial.why(), stats::ReadHelp::not_told);
}

// ---- Interruptions ------------------------------------------------------------------------------

TEST(HelpTrial, AnInterruptionVoidsAStretchAlone) {
  constexpr Pace kPace{1.0, 0.5};
  Reader reader(20 * kGiB);
  reader.read(kUnit, kPace);  // into the stretch alone
  ASSERT_TRUE(reader.trial.is_measuring());
  reader.trial.interrupt();
  reader.pause(100);  // would be the pace alone, were it counted
  reader.read(20 * kGiB, kPace);
  const double saved = alone_seconds(reader, kPace) - reader.seconds;
  ASSERT_TRUE(reader.trial.saved_seconds().has_value());
  EXPECT_NEAR(*reader.trial.saved_seconds(), saved, 0.05 * saved);
}

TEST(HelpTrial, AnInterruptionDoesNotLetTimeThatPassedMakeHelpLookBad) {
  constexpr Pace kPace{1.0, 0.5};
  Reader reader(60 * kGiB);
  reader.read(100 * kMiB, kPace);
  ASSERT_TRUE(reader.trial.helps_now());
  reader.trial.interrupt();
  reader.pause(100);
  reader.read(60 * kGiB, kPace);
  EXPECT_GT(static_cast<double>(reader.helped_bytes), 0.95 * 60 * kGiB);
  EXPECT_GT(*reader.trial.saved_seconds(), 0.9 * 30);
}

TEST(HelpTrial, AnInterruptedDrainGoesOnHelping) {
  constexpr Pace kPace{1.0, 0.5};
  Reader reader(60 * kGiB);
  while (reader.first_refusal == 0 && reader.offset() < 30 * kGiB) reader.read(kMiB, kPace);
  ASSERT_FALSE(reader.trial.helps_now());  // draining
  ASSERT_FALSE(reader.trial.is_measuring());
  reader.trial.interrupt();
  EXPECT_TRUE(reader.trial.helps_now());
}

TEST(HelpTrial, AnySequenceOfStepsIsSurvived) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto bytes = [&] { return random() >> (random() % 64); };
    HelpTrial trial;
    uint64_t now = random() % 2;
    for (int i = 0; i < 300; ++i) {
      now += random() >> (24 + random() % 40);
      if (random() % 20 == 0) trial.interrupt();
      trial.advance({bytes() | 1, bytes(), bytes(), bytes() | 1, bytes(), bytes(), bytes(), now});
      EXPECT_FALSE(trial.helps_now() && trial.is_measuring());
      const std::optional<double> saved = trial.saved_seconds();
      EXPECT_TRUE(!saved || std::isfinite(*saved));
    }
  }
}

}  // namespace
}  // namespace ioweave::stream
