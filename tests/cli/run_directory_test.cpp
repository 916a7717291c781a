#include "cli/run_directory.hpp"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stats/segment_maker.hpp"
#include "stats/text_file.hpp"

namespace ioweave::cli {
namespace {

using test::TempDir;
using ::testing::HasSubstr;

/// Puts run directories into the test's own folder.
class RunDirectoryTest : public ::testing::Test {
 protected:
  RunDirectoryTest() {
    if (const char* const before = std::getenv("XDG_RUNTIME_DIR")) before_ = before;
    setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1);
  }
  ~RunDirectoryTest() override {
    before_ ? setenv("XDG_RUNTIME_DIR", before_->c_str(), 1) : unsetenv("XDG_RUNTIME_DIR");
  }

  std::unique_ptr<RunDirectory> create() {
    std::string why;
    auto directory = RunDirectory::create(why);
    EXPECT_NE(directory, nullptr) << why;
    return directory;
  }
  /// A directory as a killed command leaves it, long ago.
  std::string make_stale(const std::string& name) {
    std::string path = folder_.file(name);
    mkdir(path.c_str(), 0700);
    test::write_text(folder_, name + "/config", "x");
    const timespec old[2]{{1, 0}, {1, 0}};
    utimensat(AT_FDCWD, path.c_str(), old, 0);
    return path;
  }

  TempDir folder_;
  std::optional<std::string> before_;
};

TEST_F(RunDirectoryTest, IsPrivateAndGoneAfterwards) {
  auto directory = create();
  const std::string path = directory->path();
  EXPECT_TRUE(path.starts_with(folder_.path() + "/"));
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0700u);
  EXPECT_EQ(directory->write_config({}), 0);
  directory = nullptr;
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(RunDirectoryTest, TheConfigIsWhatTheInterposerMaps) {
  const auto directory = create();
  config::RunConfig config;
  config.lookahead_bytes = 12345;
  ASSERT_EQ(directory->write_config(config), 0);
  const std::string bytes = test::read_text(directory->path() + "/config");
  ASSERT_EQ(bytes.size(), stats::kConfigBytes);
  EXPECT_EQ(std::memcmp(bytes.data(), &config, sizeof config), 0);
  EXPECT_EQ(bytes.find_first_not_of('\0', stats::kRunStateOffset), std::string::npos);
}

TEST_F(RunDirectoryTest, AKeptOneStays) {
  auto directory = create();
  const std::string path = directory->path();
  directory->keep();
  directory = nullptr;
  EXPECT_TRUE(std::filesystem::exists(path));
  const timespec old[2]{{1, 0}, {1, 0}};
  utimensat(AT_FDCWD, path.c_str(), old, 0);
  sweep_stale_run_directories(folder_.path());
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(RunDirectoryTest, ThoseOfKilledCommandsAreSwept) {
  const std::string stale = make_stale("ioweave-run-stale1");
  const std::string other = make_stale("somebody-elses");
  const auto directory = create();
  EXPECT_FALSE(std::filesystem::exists(stale));
  EXPECT_TRUE(std::filesystem::exists(other));
}

TEST_F(RunDirectoryTest, ThatOfALivingCommandIsNotSwept) {
  const std::string locked = make_stale("ioweave-run-locked");
  const int fd = open(locked.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  sweep_stale_run_directories(folder_.path());
  EXPECT_TRUE(std::filesystem::exists(locked));
  close(fd);
}

TEST_F(RunDirectoryTest, APathThatTheLoaderCannotExpressGetsALink) {
  const auto directory = create();
  EXPECT_EQ(directory->preload_entry("/plain/lib.so"), "/plain/lib.so");
  const std::string entry = directory->preload_entry("/with blank/lib:x.so");
  EXPECT_EQ(std::filesystem::read_symlink(entry), "/with blank/lib:x.so");
}

TEST_F(RunDirectoryTest, GathersWhatEndedAndTheRestAtTheEnd) {
  const auto directory = create();
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  stats::test::write_segment(*stats::test::make_segment(child), directory->path() + "/1-0.segment");
  const auto living = stats::test::make_segment(getpid());
  living->state = stats::Segment::State::running;
  stats::test::write_segment(*living, directory->path() + "/2-0.segment");
  stats::RunGatherer gatherer;
  std::vector<std::string> remarks;
  directory->gather(gatherer, false, remarks);
  EXPECT_EQ(gatherer.images(), 1u);
  EXPECT_FALSE(std::filesystem::exists(directory->path() + "/1-0.segment"));
  EXPECT_TRUE(std::filesystem::exists(directory->path() + "/2-0.segment"));
  directory->gather(gatherer, true, remarks);
  EXPECT_EQ(gatherer.images(), 2u);
  EXPECT_TRUE(remarks.empty());
}

TEST_F(RunDirectoryTest, ABrokenSegmentIsARemarkOnce) {
  const auto directory = create();
  for (const char* const name : {"/1-0.segment", "/2-0.segment"}) {
    auto segment = stats::test::make_segment(1);
    segment->version = 99;
    stats::test::write_segment(*segment, directory->path() + name);
  }
  stats::RunGatherer gatherer;
  std::vector<std::string> remarks;
  directory->gather(gatherer, true, remarks);
  EXPECT_EQ(gatherer.images(), 0u);
  EXPECT_THAT(remarks, ::testing::ElementsAre(HasSubstr("another version")));
}

}  // namespace
}  // namespace ioweave::cli
