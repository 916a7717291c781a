// The parts that the program's threads share, without the wrappers, so that the sanitizers can
// watch them.

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/private_descriptors.hpp"
#include "calls/libc/real.hpp"
#include "calls/preload/observe.hpp"
#include "calls/preload/process.hpp"
#include "calls/preload/run.hpp"
#include "calls/preload/table.hpp"

namespace ioweave::calls {
namespace {

using testing::TemporaryDirectory;

TEST(PrivateDescriptors, AreMovedOutOfTheWay) {
  const int low = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int moved =
      make_descriptor_private(low, [](auto... arguments) { return ::syscall(arguments...); });
  EXPECT_GT(moved, 200);
  EXPECT_TRUE(is_private_descriptor(moved));
  EXPECT_FALSE(is_private_descriptor(low));
  const int again = open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(again, low);
  close(again);
  forget_private_descriptor(moved);
  EXPECT_FALSE(is_private_descriptor(moved));
  close(moved);
}

// ---- With a segment

/// The process as `ioweave run` would have started it.
class Attached : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    run_directory = new TemporaryDirectory(true);
    testing::write_config(*run_directory, {});
    setenv(config::kRunDirVariable, run_directory->path().c_str(), 1);
    real::resolve();
    is_attached = process.attach() && table.start();
  }
  // Not in SetUpTestSuite(): a failure there counts as tests that are skipped.
  void SetUp() override { ASSERT_TRUE(is_attached); }
  static void TearDownTestSuite() { delete run_directory; }
  static TemporaryDirectory* run_directory;
  static bool is_attached;

  static int tracked_open(const std::string& path) {
    const int fd = real::open(path.c_str(), O_RDONLY | O_CLOEXEC, 0);
    table.opened(fd, path.c_str(), O_RDONLY, 1);
    return fd;
  }
  static void tracked_close(int fd) {
    (void)table.closing(fd);
    real::close(fd);
  }
  const TemporaryDirectory directory;
};
TemporaryDirectory* Attached::run_directory = nullptr;
bool Attached::is_attached = false;

TEST_F(Attached, OneFileHasOneRecordHoweverItIsOpened) {
  testing::write_pattern(directory / "a", 4096);
  const int one = tracked_open(directory / "a");
  const int two = tracked_open(directory.path() + "/./a");
  ASSERT_NE(table.find(one), nullptr);
  ASSERT_NE(table.find(two), nullptr);
  stats::FileRecord* const record = table.find(one)->record.load();
  EXPECT_EQ(record, table.find(two)->record.load());
  EXPECT_EQ(record->opens, 2u);
  tracked_close(one);
  EXPECT_EQ(table.find(one), nullptr);
  tracked_close(two);
}

TEST_F(Attached, AFileThatTakesOverAnInodeIsAnotherFile) {
  struct stat status {};
  status.st_dev = 99;
  status.st_ino = 1;
  EXPECT_NE(records.of_file(-1, "/x/old", status), records.of_file(-1, "/x/new", status));
  EXPECT_EQ(records.of_file(-1, "/x/old", status), records.of_file(-1, "/x/old", status));
}

TEST_F(Attached, ADuplicateStandsForTheSameFileInTheSameWay) {
  testing::write_pattern(directory / "duplicated", 4096);
  const int one = tracked_open(directory / "duplicated");
  const int two = real::dup(one);
  table.duplicated(one, two);
  ASSERT_NE(table.find(two), nullptr);
  EXPECT_EQ(table.find(two)->record.load(), table.find(one)->record.load());
  EXPECT_EQ(table.find(two)->flags.load(), table.find(one)->flags.load());
  tracked_close(one);
  tracked_close(two);
}

TEST_F(Attached, ReadsAtAnOffsetOfReadableFilesLeaveTheirPlaces) {
  testing::write_pattern(directory / "places", 4096);
  const int fd = tracked_open(directory / "places");
  Entry& entry = *table.find(fd);
  const stats::FileRecord& record = *entry.record.load();
  for (uint64_t i = 0; i < stats::FileRecord::kPlaces + 2; ++i) {
    account_for_call(entry, stats::CallClass::read, static_cast<int64_t>(i * 100), 10, 0);
  }
  EXPECT_EQ(record.places.load(), stats::FileRecord::kPlaces + 2);
  EXPECT_EQ(record.place[1].offset.load(), (stats::FileRecord::kPlaces + 1) * 100);
  EXPECT_EQ(record.place[1].bytes.load(), 10u);
  EXPECT_EQ(record.place[2].offset.load(), 200u);

  const uint32_t before = record.places.load();
  account_for_call(entry, stats::CallClass::read, engine::kCurrentPosition, 10, 0);  // fdinfo tells
  account_for_call(entry, stats::CallClass::read, 0, 0, 0);
  account_for_call(entry, stats::CallClass::write, 0, 10, 0);
  EXPECT_EQ(record.places.load(), before);
  tracked_close(fd);
}

TEST_F(Attached, WhatCannotBeReadLeavesNoPlaces) {
  const std::string path = directory / "w";
  const int fd = real::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  table.opened(fd, path.c_str(), O_WRONLY | O_CREAT, 1);
  ASSERT_NE(table.find(fd), nullptr);
  EXPECT_FALSE(table.find(fd)->has(Entry::places));
  tracked_close(fd);
}

TEST_F(Attached, ThreadsThatShareAFileCountItsPlacesSafely) {
  testing::write_pattern(directory / "shared", 1 << 20);
  const int fd = tracked_open(directory / "shared");
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 1000; ++i) {
        account_for_call(*table.find(fd), stats::CallClass::read, static_cast<int64_t>(t * i), 10,
                         0);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const stats::FileRecord& record = *table.find(fd)->record.load();
  EXPECT_GT(record.places.load(), 0u);
  EXPECT_LE(record.places.load(), 4000u);
  EXPECT_EQ(record.call[static_cast<unsigned>(stats::CallClass::read)].calls.value(), 4000u);
  tracked_close(fd);
}

}  // namespace
}  // namespace ioweave::calls
