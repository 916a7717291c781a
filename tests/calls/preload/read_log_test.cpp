// The log of single reads, from the process's side, against the command's side.

#include "calls/preload/read_log.hpp"

#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>

#include <gtest/gtest.h>

#include "calls/libc/real.hpp"
#include "calls/preload/run.hpp"
#include "stats/segment_maker.hpp"
#include "stream/watch/replay/run_reads.hpp"

namespace ioweave::calls {
namespace {

using stats::ReadLog;
using stream::RunReads;
using testing::TemporaryDirectory;

/// A run directory with one process, whose segment describes one file.
class ReadLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    real::resolve();
    const auto segment = stats::test::make_segment(1001);
    stats::test::add_file(*segment, "/a").inode = 1;
    stats::test::write_segment(*segment, folder / "1001-0.segment");
    ASSERT_TRUE(log.create((folder / "1001-0.reads").c_str()));
  }

  TemporaryDirectory folder{true};
  ReadLogWriter log;
};

TEST_F(ReadLogTest, ThreadsNoteAndEachReadIsTakenOnce) {
  constexpr unsigned kThreads = 4;
  constexpr uint64_t kReads = 150'000;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      for (uint64_t i = 0; i < kReads; ++i) log.note(1, i * kThreads + t, t + 1);
    });
  }
  RunReads reads(folder.path());
  std::vector<uint64_t> next(kThreads);
  uint64_t taken = 0;
  bool is_sound = true;
  while (is_sound && taken + reads.lost() < kThreads * kReads) {
    for (const RunReads::Read& read : reads.take()) {
      const uint64_t thread = read.range.offset % kThreads;
      const uint64_t number = read.range.offset / kThreads;
      // Not half a read, nor the same one twice, nor out of order.
      is_sound = is_sound && read.range.bytes == thread + 1 && number >= next[thread];
      next[thread] = number + 1;
      ++taken;
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(is_sound);
  EXPECT_TRUE(reads.take().empty());
  EXPECT_EQ(taken + reads.lost(), kThreads * kReads);
}

TEST_F(ReadLogTest, WhatFindsNoRoomIsCounted) {
  constexpr uint64_t kMore = 1000;
  for (uint64_t i = 0; i < ReadLog::kReads + kMore; ++i) log.note(1, i, 1);
  RunReads reads(folder.path());
  uint64_t taken = 0;
  for (bool more = true; more;) {
    const auto& news = reads.take();
    for (const RunReads::Read& read : news) ASSERT_EQ(read.range.offset, taken++);
    more = !news.empty();
  }
  EXPECT_EQ(taken, ReadLog::kReads - ReadLog::kSlack);
  EXPECT_EQ(reads.lost(), kMore + ReadLog::kSlack);
  log.note(1, 7, 1);
  EXPECT_EQ(reads.take().size(), 1u) << "there is room again";
}

TEST_F(ReadLogTest, AForkedChildDoesNotWriteItsParentsLog) {
  log.forget();
  log.note(1, 7, 1);
  RunReads reads(folder.path());
  EXPECT_TRUE(reads.take().empty());
}

TEST_F(ReadLogTest, WithoutRoomForTheFileNothingIsNoted) {
  ReadLogWriter other;
  EXPECT_FALSE(other.create((folder / "1001-0.reads").c_str())) << "it is there already";
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1 << 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_FALSE(other.create((folder / "1002-0.reads").c_str())) << "and without SIGXFSZ";
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  other.note(1, 1, 1);
}

}  // namespace
}  // namespace ioweave::calls
