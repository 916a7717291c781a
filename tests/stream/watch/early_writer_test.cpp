// Against real processes and files: children of the test that write on request.

#include "stream/watch/early_writer.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "config/run_config.hpp"
#include "engine/prefetch.hpp"
#include "stepping_child.hpp"
#include "stream/watch/proc_files.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::stream {
namespace {

using stats::EarlyHelp;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr uint64_t kMiB = 1u << 20;
constexpr int kCreate = O_CREAT | O_TRUNC | O_CLOEXEC;

class EarlyWriterTest : public ::testing::Test, public EarlyWriter::Run {
 protected:
  void SetUp() override {
    const Descriptor probe(open(path("probe").c_str(), O_RDWR | kCreate, 0600));
    struct statfs status {};
    ASSERT_EQ(fstatfs(probe.get(), &status), 0);
    if (status.f_type != EXT4_SUPER_MAGIC) GTEST_SKIP() << "the temporary folder is not on ext4";
    if (!engine::unwritten_bytes(probe.get(), 0, 1)) {
      GTEST_SKIP() << "the kernel has no cachestat(2), or forbids it";
    }
  }

  [[nodiscard]] bool may_open(pid_t /*process*/) override { return is_allowed; }
  [[nodiscard]] bool leaves_alone(const FileId& id) override { return id.inode == left_alone; }
  [[nodiscard]] std::optional<uint64_t> written_bytes(pid_t process) override {
    const std::optional<IoTotals> totals = ProcFile::of_totals(process).totals();
    return totals ? std::optional(totals->written_bytes) : std::nullopt;
  }
  void report(stats::EarlyWriteReport cycle) override { reports.push_back(std::move(cycle)); }
  void explain(const FileId& id, const std::string& file,
               const stats::EarlyHelpReport& cycle) override {
    notes.add(id, file, cycle);
    explained.push_back(cycle.why);
  }

  [[nodiscard]] std::string path(const std::string& name) const { return directory.file(name); }

  // What a child does.
  [[nodiscard]] Child::Step opens(const std::string& name, int flags = O_WRONLY) {
    return
        [this, file = path(name), flags] { return fd = open(file.c_str(), flags | kCreate, 0600); };
  }
  [[nodiscard]] Child::Step writes(uint64_t bytes) {
    return [this, bytes] {
      const std::vector<char> data(kMiB, 'x');
      for (uint64_t at = 0; at < bytes; at += kMiB) {
        if (write(fd, data.data(), kMiB) != static_cast<ssize_t>(kMiB)) return int64_t{-1};
      }
      return static_cast<int64_t>(bytes);
    };
  }
  [[nodiscard]] Child::Step syncs() {
    return [this] { return fsync(fd); };
  }
  [[nodiscard]] Child::Step closes() {
    return [this] { return close(fd); };
  }

  /// A scan, and looks until nothing more is to be expected.
  void watch(const Child& child) {
    writer->begin_scan();
    for (const OpenFile& file : open_files_of(child.pid(), kMiB).files) {
      if (file.is_written) writer->meet(child.pid(), file, now_ns());
    }
    writer->end_scan();
    // Where the machine has other things to do, looks are rarer.
    constexpr int kLooks = 3;
    int looks = 0;
    uint64_t next = 0;
    for (int i = 0; i < 60 || (looks < kLooks && i < 5000); ++i) {
      writer->look();
      if (writer->next_look_ns() == UINT64_MAX) break;
      looks += std::exchange(next, writer->next_look_ns()) != writer->next_look_ns() ? 1 : 0;
      usleep(1000);
    }
  }

  /// Lets a child make its next steps, and watches it after each.
  void go_on(Child& child, size_t steps) {
    for (size_t i = 0; i < steps; ++i) {
      child.go();
      watch(child);
    }
  }

  /// Lets a child write a file of 24 MiB, and watches it.
  void write_file(Child& child, bool is_synced) {
    child.go();  // open
    child.go();  // a bit of it
    watch(child);
    child.go();  // the rest
    watch(child);
    if (is_synced) child.go();
    watch(child);
    child.go();  // close
    watch(child);
  }
  [[nodiscard]] std::vector<Child::Step> file_steps(const std::string& name, bool is_synced,
                                                    int flags = O_WRONLY) {
    std::vector<Child::Step> steps{opens(name, flags), writes(kMiB), writes(23 * kMiB)};
    if (is_synced) steps.push_back(syncs());
    steps.push_back(closes());
    return steps;
  }
  /// Writes files one after the other, and returns what was done for them.
  const std::vector<stats::EarlyWriteReport>& write_files(const std::vector<bool>& are_synced,
                                                          int flags = O_WRONLY) {
    std::vector<Child::Step> steps;
    for (size_t i = 0; i < are_synced.size(); ++i) {
      const auto more = file_steps("file" + std::to_string(i), are_synced[i], flags);
      steps.insert(steps.end(), more.begin(), more.end());
    }
    Child child(steps);
    for (const bool is_synced : are_synced) write_file(child, is_synced);
    writer->finish();
    return reports;
  }

  /// How often this process has a file of the directory open.
  [[nodiscard]] size_t count_open() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      const auto target = std::filesystem::read_symlink(entry.path(), error);
      count += !error && target.string().starts_with(directory.path()) ? 1 : 0;
    }
    return count;
  }

  [[nodiscard]] stats::Paces paces_of(const std::string& name) const {
    struct stat status {};
    EXPECT_EQ(stat(path(name).c_str(), &status), 0);
    return notes.find(FileId::of(status), path(name)).early.paces;
  }

  test::TempDir directory;
  int fd = -1;  // of the child
  bool is_allowed = true;
  std::vector<stats::EarlyWriteReport> reports;
  stats::HelpNotes notes;
  std::vector<stats::EarlyHelp> explained;
  ino_t left_alone = 0;
  config::RunConfig config;
  std::unique_ptr<EarlyWriter> writer = std::make_unique<EarlyWriter>(config, *this);
};

TEST_F(EarlyWriterTest, BehindASyncTheNextFileIsWrittenEarly) {
  write_files({true, true, true});
  EXPECT_THAT(explained, ElementsAre(EarlyHelp::first, EarlyHelp::early, EarlyHelp::early));
  EXPECT_GT(paces_of("file2").alone_mb_per_s, 0);
  EXPECT_GT(paces_of("file2").helped_mb_per_s, 0);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].path, path("file1"));
  EXPECT_EQ(reports[1].path, path("file2"));
  for (const stats::EarlyWriteReport& report : reports) {
    EXPECT_EQ(report.writes.cycles, 1u);
    EXPECT_GE(report.writes.bytes, 16 * kMiB);
    EXPECT_LE(report.writes.bytes, 24 * kMiB);
    EXPECT_EQ(report.writes.lost_bytes, 0u);
    EXPECT_TRUE(report.is_compared);
  }
  EXPECT_EQ(count_open(), 0u);
}

TEST_F(EarlyWriterTest, WithoutASyncNothingIsWrittenEarly) {
  EXPECT_TRUE(write_files({false, false, false}).empty());
  EXPECT_THAT(explained, Each(EarlyHelp::unsynced));
  EXPECT_EQ(explained.size(), 3u);
}

TEST_F(EarlyWriterTest, OfFilesThatAreTooSmallItIsSaid) {
  Child child({opens("file"), writes(2 * kMiB), syncs(), closes()});
  go_on(child, 4);
  writer->finish();
  EXPECT_THAT(explained, ElementsAre(EarlyHelp::small));
}

TEST_F(EarlyWriterTest, WhatIsNotSyncedAfterwardsIsLost) {
  write_files({true, false, false, false});
  uint64_t bytes = 0;
  uint64_t lost = 0;
  for (const stats::EarlyWriteReport& report : reports) {
    bytes += report.writes.bytes;
    lost += report.writes.lost_bytes;
  }
  EXPECT_GT(bytes, 0u);
  EXPECT_EQ(lost, bytes);
  EXPECT_LE(bytes, 24 * kMiB);  // as much as was synced
  EXPECT_EQ(explained.back(), EarlyHelp::lost);
}

TEST_F(EarlyWriterTest, AlwaysIsFromTheFirstFileOn) {
  config.early_writeback = config::EarlyWriteback::always;
  write_files({false});
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_GE(reports[0].writes.bytes, 16 * kMiB);
  EXPECT_FALSE(reports[0].is_compared);
}

TEST_F(EarlyWriterTest, NeverIsNever) {
  config.early_writeback = config::EarlyWriteback::never;
  EXPECT_TRUE(write_files({true, true}).empty());
  EXPECT_EQ(writer->files(), 0u);
}

TEST_F(EarlyWriterTest, ARuleKeepsAFileFromIt) {
  config.early_writeback = config::EarlyWriteback::always;
  config.policy = config::RunPolicy::off;
  EXPECT_TRUE(write_files({true, true}).empty());
  EXPECT_THAT(explained, Each(EarlyHelp::policy));
  EXPECT_FALSE(explained.empty());
}

TEST_F(EarlyWriterTest, WritesThatWaitForTheDeviceNeedNoHelp) {
  config.early_writeback = config::EarlyWriteback::always;
  EXPECT_TRUE(write_files({false, false}, O_WRONLY | O_DSYNC).empty());
  EXPECT_THAT(explained, Each(EarlyHelp::waits));
  EXPECT_FALSE(explained.empty());
}

/// The kernel writes what is early without that the program sees anything else.
TEST_F(EarlyWriterTest, WhatIsEarlyIsOnTheDevice) {
  config.early_writeback = config::EarlyWriteback::always;
  Child child(file_steps("file", false));
  child.go();
  child.go();
  watch(child);
  child.go();
  watch(child);
  const Descriptor file(open(path("file").c_str(), O_RDONLY | O_CLOEXEC));
  const auto unwritten = [&] {
    return engine::unwritten_bytes(file.get(), 0, 24 * kMiB).value_or(UINT64_MAX);
  };
  for (int i = 0; i < 5000 && unwritten() > 2 * kMiB; ++i) {
    writer->look();  // it may have been too early for the last piece
    usleep(1000);
  }
  EXPECT_LE(unwritten(), 2 * kMiB);
  EXPECT_GT(unwritten(), 0u);  // the witness
  EXPECT_EQ(count_open(), 2u);
  EXPECT_TRUE(writer->let_go(1'000'000'000));
  EXPECT_EQ(count_open(), 1u);
  EXPECT_FALSE(writer->has_open());
}

TEST_F(EarlyWriterTest, NothingIsOpenedWhileThatIsForbidden) {
  config.early_writeback = config::EarlyWriteback::always;
  is_allowed = false;
  EXPECT_TRUE(write_files({true, true}).empty());
  EXPECT_THAT(explained, ElementsAre(EarlyHelp::listened, EarlyHelp::listened));
}

TEST_F(EarlyWriterTest, AFileThatOthersCareForIsLeftAlone) {
  config.early_writeback = config::EarlyWriteback::always;
  Child child(file_steps("file", true));
  child.go();
  struct stat status {};
  ASSERT_EQ(stat(path("file").c_str(), &status), 0);
  left_alone = status.st_ino;
  child.go();
  watch(child);
  child.go();
  watch(child);
  EXPECT_FALSE(writer->has_open());
  writer->finish();
  EXPECT_TRUE(reports.empty());
  EXPECT_THAT(explained, ElementsAre(EarlyHelp::mpiio));
}

TEST_F(EarlyWriterTest, AFileWithoutANameIsLeftAlone) {
  config.early_writeback = config::EarlyWriteback::always;
  Child child(file_steps("file", true));
  child.go();
  ASSERT_EQ(unlink(path("file").c_str()), 0);
  child.go();
  watch(child);
  child.go();
  watch(child);
  writer->finish();
  EXPECT_TRUE(reports.empty());
  EXPECT_THAT(explained, Each(EarlyHelp::nameless));
  EXPECT_FALSE(explained.empty());
}

/// ext4 and XFS begin to write a truncated file at its first close, which is to be the program's.
TEST_F(EarlyWriterTest, AFileIsNotClosedBeforeTheProgramClosesIt) {
  {
    const Descriptor old(open(path("file").c_str(), O_WRONLY | kCreate, 0600));
    ASSERT_EQ(write(old.get(), "old", 3), 3);
  }
  Child child(file_steps("file", false));
  go_on(child, 3);
  for (int i = 0; i < 9; ++i) watch(child);
  EXPECT_EQ(count_open(), 1u);
  const Descriptor file(open(path("file").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_GE(engine::unwritten_bytes(file.get(), 0, 24 * kMiB).value_or(0), 23 * kMiB);
}

TEST_F(EarlyWriterTest, AProgramMayComputeBeforeItSyncs) {
  std::vector<Child::Step> steps = file_steps("file0", true);
  const auto more = file_steps("file1", true);
  steps.insert(steps.end(), more.begin(), more.end());
  Child child(steps);
  go_on(child, 3);
  for (int i = 0; i < 9; ++i) watch(child);
  child.go();  // sync
  child.go();  // close
  watch(child);
  write_file(child, true);
  writer->finish();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].path, path("file1"));
}

TEST_F(EarlyWriterTest, AHeaderMayBeWrittenLast) {
  const auto header = [this] { return pwrite(fd, "head", 4, 0) + lseek(fd, 0, SEEK_SET); };
  std::vector<Child::Step> steps;
  for (const char* const name : {"file0", "file1"}) {
    const std::vector<Child::Step> more{opens(name), writes(kMiB), writes(23 * kMiB),
                                        header,      syncs(),      closes()};
    steps.insert(steps.end(), more.begin(), more.end());
  }
  Child child(steps);
  go_on(child, steps.size());
  writer->finish();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].path, path("file1"));
  EXPECT_EQ(reports[0].writes.lost_bytes, 0u);
}

/// A hole is as clean as what was synced.
TEST_F(EarlyWriterTest, AFileThatIsMadeLongerIsNotTakenForASync) {
  const auto lengthens = [this] { return ftruncate(fd, 200 << 20); };
  std::vector<Child::Step> steps;
  for (const char* const name : {"file0", "file1", "file2"}) {
    const std::vector<Child::Step> more{opens(name), writes(kMiB), lengthens, writes(23 * kMiB),
                                        closes()};
    steps.insert(steps.end(), more.begin(), more.end());
  }
  Child child(steps);
  go_on(child, steps.size());
  writer->finish();
  EXPECT_TRUE(reports.empty());
}

TEST_F(EarlyWriterTest, AFileThatIsTruncatedIsNotTakenForASync) {
  const auto begins_again = [this] { return ftruncate(fd, 0) + lseek(fd, 0, SEEK_SET); };
  std::vector<Child::Step> steps{opens("file"), writes(kMiB)};
  for (int i = 0; i < 4; ++i) {
    steps.push_back(writes(23 * kMiB));
    steps.push_back(begins_again);
  }
  Child child(steps);
  go_on(child, steps.size());
  EXPECT_EQ(count_open(), 1u);  // it is still open there
  writer->finish();
  EXPECT_TRUE(reports.empty());
}

TEST_F(EarlyWriterTest, TwoDescriptorsOfAProcessAreOneWriter) {
  const auto doubles = [this] { return dup(fd); };
  std::vector<Child::Step> steps = file_steps("file0", true);
  const std::vector<Child::Step> more{opens("file1"),    doubles, writes(kMiB),
                                      writes(23 * kMiB), syncs(), closes()};
  steps.insert(steps.end(), more.begin(), more.end());
  Child child(steps);
  write_file(child, true);
  go_on(child, more.size());
  writer->finish();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_LE(reports[0].writes.bytes, 24 * kMiB);
}

TEST_F(EarlyWriterTest, FoldersThatAreNumberedHaveOneUse) {
  for (const char* const folder : {"step9", "step10"}) {
    ASSERT_EQ(mkdir(path(folder).c_str(), 0700), 0);
  }
  std::vector<Child::Step> steps = file_steps("step9/file", true);
  const auto more = file_steps("step10/file", true);
  steps.insert(steps.end(), more.begin(), more.end());
  Child child(steps);
  write_file(child, true);
  write_file(child, true);
  writer->finish();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].path, path("step10/file"));
}

TEST_F(EarlyWriterTest, WhatIsRemovedIsNotWrittenAnyMore) {
  config.early_writeback = config::EarlyWriteback::always;
  std::vector<Child::Step> steps = file_steps("file", false);
  steps.insert(steps.end() - 1, writes(40 * kMiB));
  Child child(steps);
  go_on(child, 3);
  ASSERT_EQ(unlink(path("file").c_str()), 0);
  child.go();  // 40 MiB more
  watch(child);
  writer->finish();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_LE(reports[0].writes.bytes, 24 * kMiB);
  EXPECT_EQ(reports[0].writes.lost_bytes, reports[0].writes.bytes);
}

TEST_F(EarlyWriterTest, AProcessThatEndsIsForgotten) {
  config.early_writeback = config::EarlyWriteback::always;
  Child child(file_steps("file", true));
  go_on(child, 3);
  EXPECT_TRUE(writer->has_open());
  child.end();
  writer->forget_process(child.pid());
  EXPECT_EQ(writer->files(), 0u);
  EXPECT_EQ(reports.size(), 1u);
}

}  // namespace
}  // namespace ioweave::stream
