#include "model/advice.hpp"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace ioweave::model {
namespace {

constexpr double kMiB = 1 << 20;

TEST(FitLine, FindsLatencyAndBandwidthWithinTheNoise) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const double latency_s = 1e-4 + 1e-6 * static_cast<double>(random() % 2000);
    const double s_per_byte = 1e-10 * static_cast<double>(1 + random() % 100);
    std::vector<Transfers> seen;
    for (int i = 0; i < 200; ++i) {
      const auto calls = static_cast<double>(1 + random() % 50);
      const double bytes = calls * static_cast<double>(4096 + random() % (1 << 20));
      const double exact = latency_s * calls + s_per_byte * bytes;
      seen.push_back({calls, bytes, exact * std::normal_distribution<>(1, 0.02)(random)});
    }
    const Line line = fit_line(seen);
    const double all = 25 * latency_s + 25 * 5e5 * s_per_byte;  // a middling slot
    EXPECT_NEAR(25 * line.latency_s + 25 * 5e5 * line.s_per_byte, all, 0.03 * all) << seed;
    EXPECT_GE(line.latency_s, 0) << seed;
    EXPECT_GE(line.s_per_byte, 0) << seed;
  }
}

TEST(FitLine, IsExactWithoutNoise) {
  const std::vector<Transfers> seen{{1, 100, 1 + 0.5}, {2, 1000, 2 + 5}, {5, 100, 5 + 0.5}};
  EXPECT_NEAR(fit_line(seen).latency_s, 1, 1e-9);
  EXPECT_NEAR(fit_line(seen).s_per_byte, 0.005, 1e-12);
}

TEST(FitLine, OfEqualTransfersIsABandwidth) {
  const std::vector<Transfers> seen{{1, 100, 2}, {3, 300, 6}};
  EXPECT_EQ(fit_line(seen).latency_s, 0);
  EXPECT_DOUBLE_EQ(fit_line(seen).s_per_byte, 0.02);
}

TEST(FitLine, OfNothingIsZero) {
  EXPECT_EQ(fit_line({}).latency_s, 0);
  EXPECT_EQ(fit_line({}).s_per_byte, 0);
}

/// A slot of a second.
Slot reading() {
  return {.read_bytes = 100 * kMiB, .read_s = 1, .read_turns = 10};
}
Slot computing() {
  return {.compute_s = 1};
}
Slot writing() {
  return {.write_bytes = 50 * kMiB, .write_s = 1, .write_turns = 5};
}
Slot filtering(double read_s, double compute_s) {
  return {.read_bytes = 100 * kMiB, .read_s = read_s, .read_turns = 10, .compute_s = compute_s};
}

std::vector<Slot> slots_of(std::initializer_list<std::pair<int, Slot>> parts) {
  std::vector<Slot> slots;
  for (const auto& [count, slot] : parts)
    slots.insert(slots.end(), static_cast<size_t>(count), slot);
  return slots;
}

TEST(Phases, ReadThenComputeThenWriteAreThree) {
  const auto phases = phases_of(slots_of({{20, reading()}, {60, computing()}, {20, writing()}}), 1);
  ASSERT_EQ(phases.size(), 3u);
  EXPECT_DOUBLE_EQ(phases[0].end_s, 20);
  EXPECT_DOUBLE_EQ(phases[0].read_s, 20);
  EXPECT_DOUBLE_EQ(phases[1].compute_s, 60);
  EXPECT_DOUBLE_EQ(phases[2].write_s, 20);
  EXPECT_DOUBLE_EQ(phases[2].items, 100);
}

TEST(Phases, ALoopIsOneEvenIfItBeginsWithAReadAndEndsWithAWrite) {
  std::vector<Slot> slots;
  for (int i = 0; i < 10; ++i) {
    slots.insert(slots.end(), {reading(), reading(), computing(), computing(), writing()});
  }
  const auto phases = phases_of(slots, 1);
  ASSERT_EQ(phases.size(), 1u);
  EXPECT_DOUBLE_EQ(phases[0].read_s, 20);
  EXPECT_DOUBLE_EQ(phases[0].compute_s, 20);
  EXPECT_DOUBLE_EQ(phases[0].write_s, 10);
}

TEST(Phases, OfNothingAreNone) {
  EXPECT_TRUE(phases_of({}, 1).empty());
}

const Weaving kAhead{.ahead_bytes = 128 * kMiB};

TEST(Predicted, AsItWasIsTheTimeOfTheSlots) {
  const auto slots = slots_of({{20, reading()}, {60, computing()}, {20, writing()}});
  EXPECT_NEAR(predicted_s(slots, {}, {}), 100, 1e-9);
}

TEST(Predicted, ThreePhasesHaveNothingToOverlap) {
  const auto slots = slots_of({{20, reading()}, {60, computing()}, {20, writing()}});
  EXPECT_NEAR(predicted_s(slots, {}, kAhead), 100, 1.5);
}

TEST(Predicted, AFilterTakesTheLongerOfReadingAndComputing) {
  const auto slots = slots_of({{100, filtering(0.4, 0.6)}});
  EXPECT_NEAR(predicted_s(slots, {}, kAhead), 60, 0.1);
}

TEST(Predicted, WhatTheKernelHidAlreadyIsNotHiddenTwice) {
  // The device needs 0.9 of each second, of which the program waits for 0.2.
  const auto slots = slots_of({{100, filtering(0.2, 0.8)}});
  const Rates rates{.read_bytes_per_s = 100 * kMiB / 0.9};
  EXPECT_NEAR(predicted_s(slots, rates, kAhead), 90, 0.1);
}

TEST(Predicted, WhatTheKernelReadInEarlierSlotsIsNotHiddenTwice) {
  // The device reads 100 MiB in each second. What it read in one arrives in the next.
  const Slot waits{.read_bytes = 80 * kMiB, .read_s = 1, .read_turns = 8};
  const Slot takes{.read_bytes = 120 * kMiB, .read_s = 0.5, .read_turns = 12, .compute_s = 0.5};
  std::vector<Slot> slots;
  for (int i = 0; i < 50; ++i) slots.insert(slots.end(), {waits, takes});
  const Rates rates{.read_bytes_per_s = 100 * kMiB, .window_bytes = 8 * kMiB};
  EXPECT_NEAR(predicted_s(slots, rates, kAhead), 100, 2);
}

TEST(Predicted, WhatThePageCacheHadIsNoTimeOfTheDevice) {
  // It reads a little, computes for a minute, and then reads twice as fast as the device.
  Slot opens{.read_bytes = kMiB, .read_s = 0.02, .read_turns = 1, .compute_s = 0.98};
  opens.opens_input = true;
  const auto slots = slots_of({{1, opens}, {59, computing()}, {40, filtering(0.5, 0.5)}});
  const Rates rates{.read_bytes_per_s = 50 * kMiB, .window_bytes = 8 * kMiB};
  EXPECT_NEAR(predicted_s(slots, rates, kAhead), 99, 1.5);
}

TEST(Predicted, TheKernelReadsAheadWhileThePageCacheTakesWrites) {
  Slot slot = filtering(0.1, 0.1);
  slot.write_bytes = 50 * kMiB;
  slot.write_s = 0.8;
  const auto slots = slots_of({{100, slot}});
  const Rates rates{.read_bytes_per_s = 100 * kMiB, .one_device = true, .writes_are_cached = true};
  EXPECT_NEAR(predicted_s(slots, rates, kAhead), 100, 1);
}

TEST(Predicted, NothingWasReadAheadBeforeTheInputWasOpened) {
  // It comes twice as fast as the device reads: half of it lay in the page cache.
  Slot opens = filtering(0.5, 0.5);
  opens.opens_input = true;
  const auto slots = slots_of({{60, computing()}, {1, opens}, {39, filtering(0.5, 0.5)}});
  const Rates rates{.read_bytes_per_s = 50 * kMiB};
  EXPECT_NEAR(predicted_s(slots, rates, kAhead), 100, 1);
}

TEST(Predicted, CopyingFromThePageCacheStays) {
  const auto slots = slots_of({{100, filtering(0.4, 0.6)}});
  const Rates rates{.copy_s_per_byte = 0.1 / (100 * kMiB)};
  EXPECT_NEAR(predicted_s(slots, rates, kAhead), 70, 0.1);
}

TEST(Predicted, CopyingIntoABufferCounts) {
  const auto slots = slots_of({{100, writing()}});
  const double bytes = slots[0].write_bytes;
  const Rates rates{.write_bytes_per_s = 1e15, .write_copy_s_per_byte = 0.25 / bytes};
  EXPECT_NEAR(predicted_s(slots, rates, {.buffers = 2}), 25, 0.1);
}

TEST(Predicted, WritesThatThePageCacheTakesDoNotKeepTheirDevice) {
  Slot slot = filtering(0.5, 0.2);
  slot.write_bytes = 100 * kMiB;
  slot.write_s = 0.3;
  slot.write_turns = 10;
  const auto slots = slots_of({{100, slot}});
  Rates rates{.one_device = true};
  const Weaving ahead{.ahead_bytes = 128 * kMiB, .one_device = true};
  EXPECT_GT(predicted_s(slots, rates, ahead), 79);
  rates.writes_are_cached = true;
  EXPECT_NEAR(predicted_s(slots, rates, ahead), 50, 1);
  EXPECT_NEAR(bound_of(slots, rates, 0).seconds, 50, 1e-6);
}

TEST(Predicted, WritesTakeTheTimeOfTheirDevice) {
  Slot slot = writing();
  slot.write_s = 0.1;  // the page cache took the bytes
  slot.compute_s = 0.9;
  const Rates rates{.write_bytes_per_s = 25 * kMiB};
  EXPECT_NEAR(predicted_s(slots_of({{100, slot}}), rates, {.buffers = 2}), 200, 2);
}

}  // namespace
}  // namespace ioweave::model
