#include "base/atomic_file.hpp"

#include <cerrno>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "stats/text_file.hpp"
#include "support/temp_dir.hpp"

namespace ioweave {
namespace {

using ioweave::test::read_text;
using ioweave::test::TempDir;
using ioweave::test::write_text;

size_t entries(const TempDir& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
}

TEST(AtomicFile, ReplacesTheWholeFileAndKeepsItsPermissions) {
  const TempDir folder;
  const std::string path = write_text(folder, "run", "old and much longer");
  chmod(path.c_str(), 0640);
  ASSERT_EQ(write_atomically(path, "new"), 0);
  EXPECT_EQ(read_text(path), "new");
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0640u);
  EXPECT_EQ(entries(folder), 1u);
}

TEST(AtomicFile, FollowsASymbolicLink) {
  const TempDir folder;
  write_text(folder, "target", "old");
  std::filesystem::create_symlink("target", folder.file("link"));
  ASSERT_EQ(write_atomically(folder.file("link"), "new"), 0);
  EXPECT_EQ(read_text(folder.file("target")), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link")));
}

TEST(AtomicFile, ADeviceIsWrittenDirectly) {
  EXPECT_EQ(write_atomically("/dev/null", "text"), 0);
  EXPECT_EQ(write_atomically("/dev/full", "text"), -ENOSPC);
}

TEST(AtomicFile, AFailureLeavesTheOldFileAndNothingElse) {
  const TempDir folder;
  EXPECT_EQ(write_atomically(folder.file("absent/run"), "text"), -ENOENT);
  EXPECT_EQ(write_atomically(folder.path(), "text"), -EISDIR);
  EXPECT_EQ(entries(folder), 0u);
}

}  // namespace
}  // namespace ioweave
