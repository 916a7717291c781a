#include "stream/watch/early_trial.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace ioweave::stream {
namespace {

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kCycle = 100 * kMiB;
constexpr uint64_t kMs = 1'000'000;

/// A program that writes and syncs one file after the other.
class Program {
 public:
  explicit Program(uint64_t alone, uint64_t helped) : alone_ms(alone), early_ms(helped) {}

  /// Writes a file. Returns true if it was written early.
  bool write(uint64_t bytes = kCycle, bool is_synced = true, uint64_t lost = 0) {
    EarlyTrial::Cycle cycle{.bytes = bytes, .is_synced = is_synced};
    cycle.is_early = trial.wants_early();
    if (cycle.is_early) {
      cycle.early_bytes = std::min(bytes, trial.allowance());
      cycle.lost_bytes = lost;
      trial.note_early(cycle.early_bytes);
    }
    cycle.ns = (cycle.is_early ? early_ms : alone_ms) * kMs * bytes / kCycle;
    trial.note_end(cycle);
    if (cycle.is_early) saved += trial.saved_seconds(cycle).value_or(0);
    early_bytes += cycle.early_bytes;
    return cycle.is_early;
  }
  unsigned count_early(unsigned cycles) {
    unsigned early = 0;
    for (unsigned i = 0; i < cycles; ++i) early += write() ? 1 : 0;
    return early;
  }

  uint64_t alone_ms;
  uint64_t early_ms;
  EarlyTrial trial;
  double saved = 0;
  uint64_t early_bytes = 0;
};

TEST(EarlyTrial, BeginsBehindTheFirstSync) {
  Program program(500, 300);
  EXPECT_FALSE(program.write(kCycle, false));
  EXPECT_FALSE(program.write(kCycle, false));
  EXPECT_FALSE(program.write());
  EXPECT_EQ(program.count_early(10), 10u);
  EXPECT_NEAR(program.saved, 10 * 0.2, 1e-9);
  EXPECT_EQ(program.trial.lost_bytes(), 0u);
}

TEST(EarlyTrial, OfSmallFilesNothingIsKnown) {
  Program program(500, 300);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(program.write(EarlyTrial::kLeastBytes - 1));
}

TEST(EarlyTrial, RestsLongerEachTimeWhereItCosts) {
  Program program(300, 330);
  EXPECT_FALSE(program.write());
  for (const unsigned rest : {4u, 8u, 16u, 32u, 64u, 64u}) {
    EXPECT_EQ(program.count_early(3), 3u);
    EXPECT_EQ(program.count_early(rest), 0u) << rest;
  }
}

TEST(EarlyTrial, ALossOfATwentiethIsNoise) {
  Program program(300, 312);
  program.write();
  EXPECT_EQ(program.count_early(20), 20u);
}

TEST(EarlyTrial, IsComparedAgainNowAndThen) {
  Program program(300, 200);
  program.write();
  EXPECT_EQ(program.count_early(48), 48u);
  EXPECT_FALSE(program.write());
  program.alone_ms = 100;  // another phase of the program, in which it costs
  EXPECT_EQ(program.count_early(48), 48u);
  EXPECT_FALSE(program.write());
  EXPECT_EQ(program.count_early(3), 3u);
  EXPECT_FALSE(program.write());
}

/// The first touch of memory takes long on some machines, with help or without.
TEST(EarlyTrial, AFewSlowCyclesAreNoLoss) {
  Program program(300, 250);
  program.write();
  for (int i = 0; i < 20; ++i) {
    program.early_ms = i % 3 == 2 ? 250 : 900;
    EXPECT_TRUE(program.write());
  }
}

/// A header, a log and a checkpoint in one folder have different paces.
TEST(EarlyTrial, OnlyCyclesOfOneSizeAreCompared) {
  Program program(300, 290);
  program.write();
  for (int i = 0; i < 10; ++i) {
    program.early_ms = 900;
    EXPECT_TRUE(program.write(10 * kMiB));
    program.early_ms = 290;
    EXPECT_TRUE(program.write());
  }
}

TEST(EarlyTrial, WhatIsWrittenForNothingStaysWithinWhatWasOfUse) {
  Program program(500, 300);
  program.write();
  for (int i = 0; i < 100; ++i) program.write(kCycle, false);
  EXPECT_EQ(program.early_bytes, kCycle);
  EXPECT_EQ(program.trial.lost_bytes(), kCycle);
  // Syncs earn it again.
  for (int i = 0; i < 4; ++i) program.write();
  EXPECT_GE(program.trial.allowance(), 2 * kCycle);
}

TEST(EarlyTrial, WhatIsWrittenAgainBeforeTheSyncIsLost) {
  Program program(500, 300);
  program.write();
  program.write(kCycle, true, 60 * kMiB);
  EXPECT_EQ(program.trial.lost_bytes(), 60 * kMiB);
  EXPECT_EQ(program.trial.allowance(), 2 * kCycle - 60 * kMiB);
}

TEST(EarlyTrial, SaysWhatItDecidesAndTheQuickestPaces) {
  Program program(500, 250);
  EXPECT_EQ(program.trial.why(), stats::EarlyHelp::first);
  program.write();
  EXPECT_EQ(program.trial.why(), stats::EarlyHelp::early);
  EXPECT_EQ(program.trial.paces().helped_mb_per_s, 0);
  program.count_early(48);
  EXPECT_EQ(program.trial.why(), stats::EarlyHelp::alone);
  EXPECT_NEAR(program.trial.paces().alone_mb_per_s, 209.7, 0.1);
  EXPECT_NEAR(program.trial.paces().helped_mb_per_s, 419.4, 0.1);
}

TEST(EarlyTrial, SaysThatItWasSlower) {
  Program program(250, 500);
  program.write();
  program.count_early(3);
  EXPECT_EQ(program.trial.why(), stats::EarlyHelp::slower);
  EXPECT_NEAR(program.trial.paces().alone_mb_per_s, 419.4, 0.1);
  EXPECT_NEAR(program.trial.paces().helped_mb_per_s, 209.7, 0.1);
}

/// What is written early of a file that is still open counts, too.
TEST(EarlyTrial, OpenFilesShareTheAllowance) {
  Program program(500, 300);
  program.write();
  program.trial.note_early(70 * kMiB);
  EXPECT_EQ(program.trial.allowance(), 30 * kMiB);
  program.trial.note_end({.bytes = 70 * kMiB,
                          .early_bytes = 70 * kMiB,
                          .ns = kMs,
                          .is_synced = true,
                          .is_early = true});
  EXPECT_EQ(program.trial.allowance(), 170 * kMiB);
}

}  // namespace
}  // namespace ioweave::stream
