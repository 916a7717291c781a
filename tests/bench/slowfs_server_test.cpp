// The emulated device in virtual time: no clock, no mount.
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "server.hpp"

namespace slowfs {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kUs = 1'000;
using Direction = Speed::Direction;

TEST(SlowfsServer, ServesAnIdleServersRequestFromItsArrival) {
  Server server;
  EXPECT_EQ(server.admit(5 * kMs, 2 * kMs, 0), 7 * kMs);
}

TEST(SlowfsServer, ServesConcurrentRequestsOneAfterAnother) {
  Server server;
  EXPECT_EQ(server.admit(5 * kMs, 2 * kMs, 0), 7 * kMs);
  EXPECT_EQ(server.admit(5 * kMs, 2 * kMs, 0), 9 * kMs);
  EXPECT_EQ(server.admit(6 * kMs, 1 * kMs, 0), 10 * kMs);
}

TEST(SlowfsServer, BanksNoCreditWhileIdle) {
  Server server;
  server.admit(0, 1 * kMs, 0);
  EXPECT_EQ(server.admit(1000 * kMs, 1 * kMs, 0), 1001 * kMs);
  EXPECT_EQ(server.admit(1000 * kMs, 1 * kMs, 0), 1002 * kMs);
}

TEST(SlowfsServer, ForgivesIdleTimeUpToTheSlack) {
  Server server;
  server.admit(0, 1 * kMs, 0);
  EXPECT_EQ(server.admit(1 * kMs + 60 * kUs, 1 * kMs, 100 * kUs), 2 * kMs);
}

TEST(SlowfsServer, ForgivesNoMoreThanTheSlack) {
  Server server;
  server.admit(0, 1 * kMs, 0);
  EXPECT_EQ(server.admit(500 * kMs, 1 * kMs, 100 * kUs), 501 * kMs - 100 * kUs);
  EXPECT_EQ(server.admit(500 * kMs, 1 * kMs, 100 * kUs), 502 * kMs - 100 * kUs);
}

TEST(SlowfsServer, LosesNoServiceTimeToConcurrentAdmission) {
  Server server;
  constexpr int kThreads = 4;
  constexpr int kRequests = 1000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&server] {
      for (int i = 0; i < kRequests; ++i) server.admit(0, 3, 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server.admit(0, 0, 0), uint64_t{3} * kThreads * kRequests);
}

TEST(SlowfsSpeed, TakesTheTimeOfTheBytesAtTheDirectionsBandwidth) {
  const Speed speed{.read_bytes_per_s = 400e6, .write_bytes_per_s = 100e6};
  Duplex reads;
  EXPECT_EQ(speed.answer_at(reads, Direction::kRead, kMs, 400'000, 1), 2 * kMs);
  Duplex writes;
  EXPECT_EQ(speed.answer_at(writes, Direction::kWrite, kMs, 400'000, 1), 5 * kMs);
}

TEST(SlowfsSpeed, OverlapsTheLatenciesOfConcurrentRequests) {
  const Speed speed{.read_bytes_per_s = 1e9, .latency_ns = 10 * kMs};
  Duplex budget;
  EXPECT_EQ(speed.answer_at(budget, Direction::kRead, 0, 1'000'000, 1), 11 * kMs);
  EXPECT_EQ(speed.answer_at(budget, Direction::kRead, 0, 1'000'000, 1), 12 * kMs);
}

TEST(SlowfsSpeed, NeverTakesSlackOutOfTheLatency) {
  const Speed speed{.latency_ns = 200 * kUs, .slack_ns = 100 * kUs};
  Duplex budget;
  EXPECT_EQ(speed.answer_at(budget, Direction::kRead, kMs, 4096, 1), kMs + 200 * kUs);
}

TEST(SlowfsSpeed, IsUnlimitedWithoutABandwidth) {
  const Speed speed;
  Duplex budget;
  EXPECT_EQ(speed.answer_at(budget, Direction::kRead, kMs, 1 << 20, 1), kMs);
  EXPECT_EQ(speed.answer_at(budget, Direction::kWrite, kMs, 1 << 20, 1), kMs);
}

TEST(SlowfsSpeed, LetsReadsAndWritesCompeteByDefault) {
  const Speed speed{.read_bytes_per_s = 1e9, .write_bytes_per_s = 1e9};
  Duplex budget;
  EXPECT_EQ(speed.answer_at(budget, Direction::kRead, 0, 1'000'000, 1), 1 * kMs);
  EXPECT_EQ(speed.answer_at(budget, Direction::kWrite, 0, 1'000'000, 1), 2 * kMs);
}

TEST(SlowfsSpeed, SeparatesReadsFromWritesInFullDuplex) {
  const Speed speed{.read_bytes_per_s = 1e9, .write_bytes_per_s = 1e9, .full_duplex = true};
  Duplex budget;
  EXPECT_EQ(speed.answer_at(budget, Direction::kRead, 0, 1'000'000, 1), 1 * kMs);
  EXPECT_EQ(speed.answer_at(budget, Direction::kWrite, 0, 1'000'000, 1), 1 * kMs);
}

TEST(SlowfsStreams, CountFilesWithARequestInTheDevice) {
  Streams streams;
  const int a = 0;
  const int b = 0;
  EXPECT_EQ(streams.count(&a, 1 * kMs), 1u);
  streams.answered(&a, 5 * kMs);
  EXPECT_EQ(streams.count(&b, 2 * kMs), 2u);
  streams.answered(&b, 4 * kMs);
  EXPECT_EQ(streams.count(&a, 3 * kMs), 2u);
}

TEST(SlowfsStreams, CountAFileForAMomentAfterItsAnswer) {
  Streams streams;
  const int a = 0;
  const int b = 0;
  streams.count(&a, 1 * kMs);
  streams.answered(&a, 5 * kMs);
  EXPECT_EQ(streams.count(&b, 5 * kMs + Streams::kLinger_ns), 2u);
  EXPECT_EQ(streams.count(&b, 5 * kMs + Streams::kLinger_ns + 1), 1u);
}

TEST(SlowfsStreams, CountAClosedFileUntilItsLastAnswerOnly) {
  Streams streams;
  const int a = 0;
  const int b = 0;
  streams.count(&a, 1 * kMs);
  streams.answered(&a, 5 * kMs);
  streams.closed(&a, 4 * kMs);
  EXPECT_EQ(streams.count(&b, 4 * kMs), 2u) << "another of its opens has a request there";
  streams.closed(&a, 5 * kMs);
  EXPECT_EQ(streams.count(&b, 5 * kMs), 1u);
}

TEST(SlowfsEfficiency, JoinsItsPointsAndGoesOnBeyondThem) {
  const Efficiency efficiency({{2, 0.5}, {4, 1}, {8, 0.2}});
  EXPECT_DOUBLE_EQ(efficiency.of(1), 0.5);
  EXPECT_DOUBLE_EQ(efficiency.of(3), 0.75);
  EXPECT_DOUBLE_EQ(efficiency.of(4), 1);
  EXPECT_DOUBLE_EQ(efficiency.of(6), 0.6);
  EXPECT_DOUBLE_EQ(efficiency.of(100), 0.2);
  EXPECT_DOUBLE_EQ(Efficiency().of(100), 1);
}

TEST(SlowfsSpeed, IsThePartThatTheStreamsGet) {
  Speed speed{.write_bytes_per_s = 100e6, .efficiency = Efficiency({{1, 0.5}, {2, 1}})};
  Duplex budget;
  EXPECT_EQ(speed.answer_at(budget, Direction::kWrite, 0, 100'000, 1), 2 * kMs);
  EXPECT_EQ(speed.answer_at(budget, Direction::kWrite, 2 * kMs, 100'000, 2), 3 * kMs);
}

}  // namespace
}  // namespace slowfs
