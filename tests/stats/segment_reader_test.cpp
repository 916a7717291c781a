#include "stats/segment_reader.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "stats/segment_maker.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::stats {
namespace {

using test::add_calls;
using test::add_file;
using test::kTicksPerSecond;
using test::make_segment;
using test::write_segment;

/// A process id that certainly belongs to nobody: a child that has been waited for.
int32_t dead_pid() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

class SegmentReader : public ::testing::Test {
 protected:
  SegmentReader() : directory_(open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  ~SegmentReader() override { close(directory_); }

  SegmentState read(const Segment& segment, ClockPair now = {}, size_t bytes = sizeof(Segment)) {
    write_segment(segment, folder_.file("1-0.segment"), bytes);
    return read_segment(directory_, "1-0.segment", now, contents_, why_);
  }

  ioweave::test::TempDir folder_;
  int directory_;
  SegmentContents contents_;
  std::string why_;
};

TEST_F(SegmentReader, TurnsTicksIntoSecondsAtTheProcesssOwnRate) {
  const auto segment = make_segment(42);
  add_calls(add_file(*segment, "/data/in"), CallClass::read, 10, 4096, 2.5);
  ASSERT_EQ(read(*segment), SegmentState::usable) << why_;
  ASSERT_EQ(contents_.files.size(), 1u);
  EXPECT_EQ(contents_.files[0].path, "/data/in");
  EXPECT_EQ(contents_.files[0].of(CallClass::read).calls, 10u);
  EXPECT_EQ(contents_.files[0].of(CallClass::read).bytes, 4096u);
  EXPECT_DOUBLE_EQ(contents_.files[0].of(CallClass::read).seconds, 2.5);
  EXPECT_DOUBLE_EQ(contents_.process.seconds, 10);
  EXPECT_EQ(contents_.process.end, ProcessReport::End::exited);
}

TEST_F(SegmentReader, GivesASeriesItsTimesAndLeavesOutEmptySlotsAtItsEnd) {
  const auto segment = make_segment(42);
  FileRecord& record = add_file(*segment, "/data/in");
  add_calls(record, CallClass::read, 1, 4096, 0.5);
  record.series = 1;
  segment->series_in_use = 2;
  FileSeries& series = segment->series[1];
  begin_series(series, segment->start_ticks + kTicksPerSecond);
  const uint64_t slot = uint64_t{1} << FileSeries::kFirstShift;  // 4.19 s
  note_read(series, 4096, series.start_ticks + slot, series.start_ticks + slot + 500, true);
  ASSERT_EQ(read(*segment), SegmentState::usable) << why_;
  const std::vector<Series>& list = contents_.files.at(0).series;
  ASSERT_EQ(list.size(), 1u);
  ASSERT_EQ(list[0].slots(), 2u);
  EXPECT_NEAR(list[0].start_s, 6, 1e-9);
  EXPECT_NEAR(list[0].slot_s, static_cast<double>(slot) / kTicksPerSecond, 1e-9);
  EXPECT_EQ(list[0].read_bytes[1], 4096u);
  EXPECT_NEAR(list[0].read_seconds[1], 500.0 / kTicksPerSecond, 1e-9);
  EXPECT_EQ(list[0].read_bytes[0], 0u);
}

TEST_F(SegmentReader, WildSeriesGiveNone) {
  const auto segment = make_segment(42);
  FileRecord& record = add_file(*segment, "/data/in");
  record.series = 77777;
  segment->series_in_use = UINT32_MAX;
  segment->series[0].shift = 200;
  segment->series[0].slot[3].read_calls = 1;
  ASSERT_EQ(read(*segment), SegmentState::usable) << why_;
  EXPECT_TRUE(contents_.files.at(0).series.empty());
  EXPECT_TRUE(contents_.process.series.empty());
}

TEST_F(SegmentReader, AKilledProcessGetsTheReadersClockForItsRate) {
  const auto segment = make_segment(dead_pid());
  segment->state = Segment::State::running;
  segment->end_ns = 0;
  segment->end_ticks = 0;
  add_calls(add_file(*segment, "/data/in"), CallClass::read, 1, 1, 1.5);
  const ClockPair now{segment->start_ns + 4'000'000'000,
                      segment->start_ticks + 2 * kTicksPerSecond};
  ASSERT_EQ(read(*segment, now), SegmentState::usable);
  EXPECT_EQ(contents_.process.end, ProcessReport::End::killed);
  EXPECT_DOUBLE_EQ(contents_.files[0].of(CallClass::read).seconds, 3.0);
}

TEST_F(SegmentReader, AProcessThatLivesIsRunning) {
  const auto segment = make_segment(getpid());
  segment->state = Segment::State::running;
  ASSERT_EQ(read(*segment), SegmentState::usable);
  EXPECT_EQ(contents_.process.end, ProcessReport::End::running);
}

TEST_F(SegmentReader, ClocksThatRanBackwardsGiveNoSecondsRatherThanNonsense) {
  const auto segment = make_segment(42);
  segment->end_ticks = 1;
  add_calls(add_file(*segment, "/data/in"), CallClass::read, 1, 1, 1.5);
  ASSERT_EQ(read(*segment, ClockPair{1, 1}), SegmentState::usable);
  EXPECT_EQ(contents_.files[0].of(CallClass::read).seconds, 0);
}

TEST_F(SegmentReader, RecordZeroIsTheOtherFilesAndUnfilledRecordsAreSkipped) {
  const auto segment = make_segment(42);
  add_calls(segment->file[0], CallClass::write, 3, 300, 0.1);
  add_file(*segment, "/being/filled").state = 1;
  add_file(*segment, "/filled");
  ASSERT_EQ(read(*segment), SegmentState::usable);
  ASSERT_EQ(contents_.files.size(), 2u);
  EXPECT_EQ(contents_.files[0].path, "");
  EXPECT_EQ(contents_.files[0].of(CallClass::write).bytes, 300u);
  EXPECT_EQ(contents_.files[1].path, "/filled");
}

TEST_F(SegmentReader, RefusesAnotherLayout) {
  const auto segment = make_segment(42);
  segment->version = config::kLayoutVersion + 1;
  EXPECT_EQ(read(*segment), SegmentState::invalid);
  EXPECT_NE(why_.find("another version"), std::string::npos);
  segment->magic = 7;
  EXPECT_EQ(read(*segment), SegmentState::invalid);
}

TEST_F(SegmentReader, AHeadThatWasNeverWrittenIsIncomplete) {
  EXPECT_EQ(read(*std::make_unique<Segment>()), SegmentState::incomplete);
  EXPECT_EQ(read(*make_segment(42), {}, 16), SegmentState::incomplete);
}

TEST_F(SegmentReader, ATruncatedSegmentIsInvalid) {
  const auto segment = make_segment(42);
  add_file(*segment, "/data/in");
  EXPECT_EQ(read(*segment, {}, sizeof(Segment) / 512), SegmentState::invalid);
}

TEST_F(SegmentReader, WildValuesStayWithinBounds) {
  const auto segment = make_segment(42);
  FileRecord& record = add_file(*segment, "/data/in");
  record.degrade = 9999;
  record.policy = static_cast<config::RunPolicy>(77);
  segment->state = static_cast<Segment::State>(55);
  segment->files = UINT32_MAX;
  std::fill(std::begin(segment->program), std::end(segment->program), 'x');
  ASSERT_EQ(read(*segment), SegmentState::usable);
  EXPECT_EQ(contents_.files.at(0).degrade, Degrade::none);
  EXPECT_EQ(contents_.files.at(0).policy, config::RunPolicy::off);
  EXPECT_EQ(contents_.process.program.size(), sizeof segment->program);
}

TEST_F(SegmentReader, ASymbolicLinkIsNotFollowed) {
  write_segment(*make_segment(42), folder_.file("elsewhere"));
  ASSERT_EQ(symlink((folder_.file("elsewhere")).c_str(), (folder_.file("1-0.segment")).c_str()), 0);
  EXPECT_EQ(read_segment(directory_, "1-0.segment", {}, contents_, why_), SegmentState::invalid);
}

TEST(SegmentName, IsPidDashCount) {
  EXPECT_TRUE(is_segment_name("123-0.segment"));
  EXPECT_FALSE(is_segment_name("123.segment"));
  EXPECT_FALSE(is_segment_name("123-.segment"));
  EXPECT_FALSE(is_segment_name("a-0.segment"));
  EXPECT_FALSE(is_segment_name("123-0.segment.tmp"));
  EXPECT_FALSE(is_segment_name("config"));
}

}  // namespace
}  // namespace ioweave::stats
