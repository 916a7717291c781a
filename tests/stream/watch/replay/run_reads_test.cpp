// The reads that processes note: taken in order, once, and without trust in what is written there.

#include "stream/watch/replay/run_reads.hpp"

#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/descriptor.hpp"
#include "stats/read_log.hpp"
#include "stats/segment_maker.hpp"
#include "stats/text_file.hpp"
#include "stream/watch/replay/plan_recorder.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::stream {
namespace {

using stats::ReadLog;
using stats::Segment;
using test::TempDir;
using test::write_text;

/// A process's log, written as the interposer does.
class FakeProcess {
 public:
  FakeProcess(const TempDir& folder, int pid, const std::vector<std::string>& paths) {
    const std::string image = folder.file(std::to_string(pid) + "-0");
    const auto segment = stats::test::make_segment(pid);
    for (const std::string& path : paths) {
      stats::FileRecord& record = stats::test::add_file(*segment, path);
      struct stat status {};
      if (stat(path.c_str(), &status) == 0) {
        record.device = status.st_dev;
        record.inode = status.st_ino;
      } else {
        record.inode = std::hash<std::string>{}(path);
      }
    }
    stats::test::write_segment(*segment, image + ".segment");
    path_ = image + ".reads";
    const Descriptor file(open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
    EXPECT_EQ(ftruncate(file.get(), sizeof(ReadLog)), 0);
    log_ = static_cast<ReadLog*>(
        mmap(nullptr, sizeof(ReadLog), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
    log_->version = config::kLayoutVersion;
    log_->magic = stats::kReadLogMagic;
  }
  ~FakeProcess() { munmap(log_, sizeof(ReadLog)); }
  FakeProcess(const FakeProcess&) = delete;
  FakeProcess& operator=(const FakeProcess&) = delete;

  void note(uint32_t file, uint64_t offset, uint32_t bytes, uint64_t ticks) {
    fill(begin(), file, offset, bytes, ticks);
  }
  uint64_t begin() { return log_->begun.fetch_add(1); }
  void fill(uint64_t number, uint32_t file, uint64_t offset, uint32_t bytes, uint64_t ticks) {
    stats::LoggedRead& slot = log_->read[number % ReadLog::kReads];
    slot.offset = offset;
    slot.bytes = bytes;
    slot.file = file;
    slot.ticks = ticks;
    slot.number = number + 1;
  }
  [[nodiscard]] ReadLog& log() { return *log_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  ReadLog* log_ = nullptr;
};

std::vector<uint64_t> offsets_of(const std::vector<RunReads::Read>& reads) {
  std::vector<uint64_t> offsets;
  for (const RunReads::Read& read : reads) offsets.push_back(read.range.offset);
  return offsets;
}

using Offsets = std::vector<uint64_t>;

TEST(RunReads, WithoutADirectoryThereAreNone) {
  RunReads reads("");
  EXPECT_TRUE(reads.take().empty());
}

TEST(RunReads, AreTakenOnceInTheOrderOfTheirTimesOverAllProcesses) {
  const TempDir folder;
  FakeProcess first(folder, 1001, {"/a"});
  FakeProcess second(folder, 1002, {"/b", "/a"});
  RunReads reads(folder.path());
  first.note(1, 10, 1, 100);
  first.note(1, 30, 1, 300);
  second.note(1, 20, 1, 200);
  const std::vector<RunReads::Read> taken = reads.take();
  EXPECT_EQ(offsets_of(taken), (Offsets{10, 20, 30}));
  EXPECT_EQ(taken[0].process, 1001);
  EXPECT_EQ(taken[1].process, 1002);
  EXPECT_EQ(reads.file(taken[0].file).paths, std::vector<std::string>{"/a"});
  EXPECT_EQ(reads.file(taken[1].file).paths, std::vector<std::string>{"/b"});
  EXPECT_TRUE(reads.take().empty());
  EXPECT_EQ(first.log().taken, 2u) << "the process sees that there is room again";
  EXPECT_EQ(reads.lost(), 0u);
}

TEST(RunReads, GoRoundTheRing) {
  const TempDir folder;
  FakeProcess process(folder, 1001, {"/a"});
  RunReads reads(folder.path());
  uint64_t next = 0;
  uint64_t expected = 0;
  while (next < ReadLog::kReads * 5 / 2) {
    for (int i = 0; i < 100'000; ++i, ++next) process.note(1, next, 1, next);
    for (bool more = true; more;) {
      const auto& taken = reads.take();
      more = !taken.empty();
      for (const RunReads::Read& read : taken) ASSERT_EQ(read.range.offset, expected++);
    }
  }
  EXPECT_EQ(expected, next);
  EXPECT_EQ(reads.lost(), 0u);
}

TEST(RunReads, ASlotThatIsNotPublishedIsWaitedForAndThenPassedOver) {
  const TempDir folder;
  FakeProcess process(folder, 1001, {"/a"});
  RunReads reads(folder.path());
  const uint64_t late = process.begin();
  process.note(1, 20, 1, 2);
  EXPECT_TRUE(reads.take().empty());
  process.fill(late, 1, 10, 1, 1);
  EXPECT_EQ(offsets_of(reads.take()), (Offsets{10, 20}));
  (void)process.begin();  // by a thread that was killed
  process.note(1, 40, 1, 4);
  std::vector<RunReads::Read> taken;
  for (int i = 0; i < 2000 && taken.empty(); ++i) {
    taken = reads.take();
    usleep(1000);
  }
  EXPECT_EQ(offsets_of(taken), Offsets{40});
  EXPECT_EQ(reads.lost(), 1u);
}

TEST(RunReads, BehindTheRunNothingIsWaitedFor) {
  const TempDir folder;
  FakeProcess process(folder, 1001, {"/a"});
  RunReads reads(folder.path());
  EXPECT_TRUE(reads.take().empty());
  (void)process.begin();
  process.note(1, 20, 1, 2);
  FakeProcess late(folder, 1002, {"/a"});
  late.note(1, 30, 1, 3);
  reads.take_all();
  std::vector<uint64_t> offsets;
  for (int i = 0; i < 3; ++i)
    std::ranges::move(offsets_of(reads.take()), std::back_inserter(offsets));
  std::ranges::sort(offsets);
  EXPECT_EQ(offsets, (Offsets{20, 30}));
  EXPECT_EQ(reads.lost(), 1u);
}

TEST(RunReads, CountsWhatTheProcessLost) {
  const TempDir folder;
  FakeProcess process(folder, 1001, {"/a"});
  RunReads reads(folder.path());
  process.note(1, 1, 1, 1);
  process.log().lost = 7;
  EXPECT_EQ(reads.take().size(), 1u);
  EXPECT_EQ(reads.lost(), 7u);
}

TEST(RunReads, WhatMakesNoSenseIsLostAndNothingElse) {
  const TempDir folder;
  FakeProcess process(folder, 1001, {"/a"});
  write_text(folder, "1002-0.reads", "too short");
  write_text(folder, "x.reads", "");
  RunReads reads(folder.path());
  process.note(0, 1, 1, 1);                // files beyond the capacity
  process.note(2, 2, 1, 2);                // no such record
  process.note(999'999, 3, 1, 3);          // nor this one
  process.note(1, UINT64_MAX - 3, 50, 4);  // ends nowhere
  process.note(1, 5, 0, 5);                // empty
  process.note(1, 6, 1, 6);
  EXPECT_EQ(offsets_of(reads.take()), Offsets{6});
  EXPECT_EQ(reads.lost(), 5u);
  process.log().begun = UINT64_MAX - 5;
  EXPECT_TRUE(reads.take().empty());
  process.log().begun = 3;
  EXPECT_TRUE(reads.take().empty());
}

TEST(RunReads, ALogThatWasRemovedIsTakenToItsEndAndForgotten) {
  const TempDir folder;
  FakeProcess process(folder, 1001, {"/a"});
  RunReads reads(folder.path());
  process.note(1, 1, 1, 1);
  EXPECT_EQ(reads.take().size(), 1u);
  ASSERT_EQ(unlink(process.path().c_str()), 0);
  process.note(1, 2, 1, 2);
  process.log().lost = 3;
  EXPECT_EQ(reads.take().size(), 1u);
  process.note(1, 3, 1, 3);
  EXPECT_TRUE(reads.take().empty());
  EXPECT_EQ(reads.lost(), 3u);
}

// ---- PlanRecorder

TEST(PlanRecorder, DescribesTheFilesAsTheyAreAndNamesThemBelowTheFolder) {
  const TempDir folder;
  const TempDir elsewhere;
  const std::string inside = write_text(folder, "in.bin", std::string(100, 'x'));
  const std::string outside = write_text(elsewhere, "out.bin", std::string(50, 'x'));
  const std::string removed = write_text(elsewhere, "gone.bin", std::string(50, 'x'));
  const TempDir run;
  FakeProcess process(run, 1001, {outside, inside, removed});
  ASSERT_EQ(unlink(removed.c_str()), 0);
  RunReads reads(run.path());
  process.note(1, 40, 10, 1);
  process.note(2, 0, 20, 2);
  process.note(3, 0, 30, 3);
  process.note(1, 0, 10, 4);
  PlanRecorder recorder;
  for (const RunReads::Read& read : reads.take()) recorder.take(read.file, read.range);
  const PlanRecorder::Recorded recorded = std::move(recorder).finish(reads, folder.path());
  ASSERT_EQ(recorded.plan.files.size(), 2u);
  EXPECT_EQ(recorded.plan.files[0].name, outside);
  EXPECT_EQ(recorded.plan.files[0].size, 50u);
  EXPECT_EQ(recorded.plan.files[0].reads.at(0), (FileRange{40, 10}));
  EXPECT_EQ(recorded.plan.files[0].reads.at(1), (FileRange{0, 10}));
  EXPECT_EQ(recorded.plan.files[1].name, "in.bin");
  EXPECT_EQ(recorded.nameless_files, 1u);
  EXPECT_EQ(recorded.nameless_bytes, 30u);
}

}  // namespace
}  // namespace ioweave::stream
