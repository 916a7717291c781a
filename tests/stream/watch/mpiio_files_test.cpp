#include "stream/watch/mpiio_files.hpp"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "config/mpiio_variables.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::stream {
namespace {

void add(const test::TempDir& directory, const config::MpiioFile& file,
         size_t bytes = sizeof(config::MpiioFile)) {
  std::ofstream(directory.file(config::kMpiioFilesName), std::ios::app | std::ios::binary)
      .write(reinterpret_cast<const char*>(&file), static_cast<std::streamsize>(bytes));
}

TEST(MpiioFiles, AreKnownOnceTheyAreListed) {
  const test::TempDir directory;
  MpiioFiles files(directory.path());
  EXPECT_FALSE(files.refresh()) << "there is no list yet";
  add(directory, {7, 11});
  EXPECT_FALSE(files.contain({7, 11}));
  EXPECT_TRUE(files.refresh());
  EXPECT_TRUE(files.contain({7, 11}));
  EXPECT_FALSE(files.contain({7, 12}));
  EXPECT_FALSE(files.refresh()) << "nothing is new";
  add(directory, {8, 12});
  EXPECT_TRUE(files.refresh());
  EXPECT_TRUE(files.contain({8, 12}));
}

TEST(MpiioFiles, AnEntryThatIsHalfWrittenIsLookedAtLater) {
  const test::TempDir directory;
  MpiioFiles files(directory.path());
  add(directory, {7, 11}, 9);
  EXPECT_FALSE(files.refresh());
  EXPECT_FALSE(files.contain({7, 11}));
}

TEST(MpiioFiles, WithoutARunsDirectoryThereAreNone) {
  MpiioFiles files("");
  EXPECT_FALSE(files.refresh());
}

}  // namespace
}  // namespace ioweave::stream
