// The files that a device is measured with, where their device fails them.

#include "cli/stream_files.hpp"

#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/small_filesystem.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::cli {
namespace {

using ioweave::test::SmallFilesystem;
using ioweave::test::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1u << 20;

void nobody(uint64_t) {}

void fill_up(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const std::string block(64 << 10, 'x');
  while (write(fd, block.data(), block.size()) > 0) {
  }
  close(fd);
}

TEST(StreamFiles, HaveNoNames) {
  const TempDir folder;
  std::string why;
  const auto files = StreamFiles::make({folder.path(), 3, kMiB, false}, why);
  ASSERT_NE(files, nullptr) << why;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(StreamFiles, TheWarmUpWritesEachOfThem) {
  const TempDir folder;
  std::string why;
  const auto files = StreamFiles::make({folder.path(), 11, kMiB, false}, why);
  ASSERT_NE(files, nullptr) << why;
  std::vector<device::Durable> log;
  uint64_t told = 0;
  ASSERT_TRUE(files->warm_up(
      0, [&](uint64_t bytes) { told = bytes; }, log, why))
      << why;
  EXPECT_EQ(log.size(), 11u);
  EXPECT_EQ(told, 11 * kMiB);
  for (size_t i = 1; i < log.size(); ++i) EXPECT_GE(log[i].at_s, log[i - 1].at_s);
  // What was never written could not be read: each stream finds its whole file.
  device::Sample sample;
  ASSERT_TRUE(files->move(StreamFiles::Direction::read, 11, 0, sample, why)) << why;
  EXPECT_EQ(sample.bytes, 11 * kMiB);
}

TEST(StreamFiles, GoOnWhileThereIsTime) {
  const TempDir folder;
  std::string why;
  const auto files = StreamFiles::make({folder.path(), 2, 64 << 10, false}, why);
  ASSERT_NE(files, nullptr) << why;
  device::Sample sample;
  ASSERT_TRUE(files->move(StreamFiles::Direction::write, 2, 0.1, sample, why)) << why;
  EXPECT_GE(sample.seconds, 0.1);
  EXPECT_GE(sample.bytes, 2 * (64u << 10));
  EXPECT_EQ(sample.bytes % (64u << 10), 0u);
  EXPECT_EQ(sample.start_s, 0);
  device::Sample second;
  ASSERT_TRUE(files->move(StreamFiles::Direction::write, 1, 0, second, why)) << why;
  EXPECT_GE(second.start_s, 0.1);
}

TEST(StreamFiles, ADiskThatRunsFullUnderThemIsSaidWithTheWayOut) {
  const SmallFilesystem disk(16 * kMiB);
  if (!disk.problem().empty()) GTEST_SKIP() << disk.problem();
  const std::string folder = disk.file("folder");
  std::filesystem::create_directory(folder);
  std::string why;
  const auto files = StreamFiles::make({folder, 2, 2 * kMiB, false}, why);
  ASSERT_NE(files, nullptr) << why;
  fill_up(disk.file("others"));
  std::vector<device::Durable> log;
  EXPECT_FALSE(files->warm_up(0, nobody, log, why));
  EXPECT_THAT(why, AllOf(HasSubstr("cannot write in '" + folder + "': No space left on device"),
                         HasSubstr("2 files of 2m need 4.0 MiB: lower --size or --streams"),
                         HasSubstr("Nothing was left there")));
  device::Sample sample;
  why.clear();
  EXPECT_FALSE(files->move(StreamFiles::Direction::write, 2, 0, sample, why));
  EXPECT_THAT(why, HasSubstr("No space left on device"));
}

}  // namespace
}  // namespace ioweave::cli
