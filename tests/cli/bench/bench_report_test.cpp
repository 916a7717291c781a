// What `ioweave bench` says about a profile that is made up.

#include "cli/bench/bench_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/bench/studies.hpp"

namespace ioweave::cli {
namespace {

using device::IoWay;
using device::Load;
using device::LoadResult;
using device::Profile;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

void add(Profile& profile, const Load& load, std::vector<double> mb_per_s) {
  LoadResult result{load, {}, {}};
  for (const double rate : mb_per_s) {
    const auto bytes = static_cast<uint64_t>(rate * 1e6);
    const uint64_t read = bytes * load.read_percent / 100;
    result.samples.push_back({read, bytes - read, 1, 0.25});
  }
  profile.results.push_back(std::move(result));
}

/// Reads of 4 KiB gain by depth; io_uring at depth 1 is a little slower than psync.
Profile made_up() {
  Profile profile;
  profile.path = "/scratch";
  profile.mount_path = "/scratch";
  profile.file_system = "ext4";
  profile.by = "fio-3.33";
  profile.cpus = 2;
  profile.file_bytes = 1u << 30;
  profile.block_bytes = 256u << 10;
  profile.seconds = 0.5;
  add(profile, {IoWay::psync, true, true, 100, 4096, 1}, {50, 50, 50});
  add(profile, {IoWay::uring, true, true, 100, 4096, 1}, {45, 45, 45});
  add(profile, {IoWay::uring, true, true, 100, 4096, 16}, {249, 248, 247});
  add(profile, {IoWay::uring, true, true, 100, 4096, 64}, {250, 250, 250});
  for (const auto& [block, rate] :
       {std::pair{4096u, 20.0}, std::pair{1u << 18, 990.0}, std::pair{1u << 20, 1000.0}}) {
    add(profile, {IoWay::psync, true, false, 0, block, 1}, {rate, rate, rate});
  }
  return profile;
}

TEST(BenchText, ShowsATableForEachStudy) {
  const std::string text = bench_text(made_up());
  EXPECT_THAT(text, AllOf(HasSubstr("/scratch (ext4 on /scratch): a file of 1g"),
                          HasSubstr("by fio-3.33"), HasSubstr("MB/s of random reads of 4 KiB"),
                          HasSubstr("MB/s of sequential writes, O_DIRECT"),
                          Not(HasSubstr("sequential reads"))));
  EXPECT_THAT(text, HasSubstr("\n  16         -       248  |"));
}

TEST(BenchFindings, SayWhatDepthAndBlocksGain) {
  const std::vector<std::string> findings = bench_findings(made_up());
  EXPECT_THAT(findings, Contains("By io_uring, random reads of 4 KiB, O_DIRECT, 16 at a time: 5.00 "
                                 "times what psync moves."));
  EXPECT_THAT(findings, Contains("By psync, sequential writes of 256 KiB, O_DIRECT, one at a time: "
                                 "990 MB/s; greater blocks gain less than 3 %."));
  EXPECT_THAT(findings, Contains(HasSubstr("io_uring moves 0.90 times what psync does (median of 1 "
                                           "loads, 0.90 to 0.90)")));
}

TEST(BenchRemarks, TellWhatSpeaksAgainstTheFigures) {
  Profile profile = made_up();
  profile.file_system = "tmpfs";
  profile.unusable.push_back({IoWay::iopoll, true, "its queues are not polled"});
  add(profile, {IoWay::sqpoll, false, true, 100, 4096, 1}, {10, 50, 90});
  profile.results.front().failure = "Input/output error";
  const std::vector<std::string> remarks = bench_remarks(profile);
  EXPECT_THAT(remarks, Contains("Not measured: io_uring+iopoll with O_DIRECT: its queues are not "
                                "polled."));
  EXPECT_THAT(remarks, Contains(HasSubstr("Failed: psync, random reads of 4 KiB")));
  EXPECT_THAT(remarks, Contains(HasSubstr("This is tmpfs")));
  EXPECT_THAT(remarks, Contains(HasSubstr("Samples of 1 of 8 loads differ")));
  EXPECT_THAT(remarks, Contains(HasSubstr("took one of 2 processors")));
}

TEST(BenchPictures, DrawThoseStudiesThatWereMade) {
  const std::vector<Picture> pictures = bench_pictures(made_up());
  ASSERT_EQ(pictures.size(), 2u);
  EXPECT_EQ(pictures[0].name, "block.svg");
  EXPECT_EQ(pictures[1].name, "depth.svg");
  EXPECT_THAT(pictures[1].svg, AllOf(HasSubstr("<svg "), HasSubstr(">io_uring<"),
                                     HasSubstr(">psync<"), HasSubstr("random reads of 4 KiB")));
}

TEST(BenchPictures, OfALoadWithoutSamplesLeaveItOut) {
  Profile profile = made_up();
  for (LoadResult& result : profile.results) {
    if (result.load.way == IoWay::uring) result.samples.clear();
  }
  for (const Picture& picture : bench_pictures(profile)) {
    EXPECT_THAT(picture.svg, Not(HasSubstr(">io_uring<")));
  }
}

}  // namespace
}  // namespace ioweave::cli
