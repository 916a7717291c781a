// `ioweave measure` from the outside: what it prints, what it refuses, and that it leaves nothing
// behind. Not how fast anything is.

#include <csignal>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/command_runner.hpp"
#include "stats/text_file.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::cli::test {
namespace {

namespace fs = std::filesystem;

using ioweave::test::read_text;
using ioweave::test::TempDir;
using ioweave::test::write_text;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::vector<std::string> quick(const std::string& folder, std::vector<std::string> more = {}) {
  std::vector<std::string> words{"measure",   "--seconds", "0.05",   "--repetitions", "2",
                                 "--warm-up", "0",         "--size", "256k"};
  words.insert(words.end(), more.begin(), more.end());
  words.push_back(folder);
  return words;
}

/// Calls mount(2) for the command alone, in a mount namespace of its own; false without the right.
bool mount_in_child(const std::string& type, const std::string& folder, unsigned long flags,
                    const char* options) {
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", folder.c_str(), type.c_str(), flags, options) == 0;
}

constexpr int kNoMount = 77;

/// Runs the command where `folder` is a file system of its own.
Ran run_mounted(const std::string& type, const std::string& folder, unsigned long flags,
                const char* options, const std::vector<std::string>& words) {
  Surroundings how;
  how.in_child = [&] {
    if (!mount_in_child(type, folder, flags, options)) _exit(kNoMount);
  };
  return run_ioweave(words, how);
}

TEST(Measure, PrintsATableAndLeavesNothingBehind) {
  const TempDir folder;
  const Ran ran = run_ioweave(quick(folder.path(), {"--streams", "1,3"}));
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("\n  streams "), HasSubstr("\n  1 "), HasSubstr("\n  3 "),
                             HasSubstr("\nBest: ")));
  EXPECT_THAT(ran.err, HasSubstr("sample 1 of 4"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Measure, ReadsToo) {
  const TempDir folder;
  const Ran ran = run_ioweave(quick(folder.path(), {"--streams", "2", "--read", "--json"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json report = json::parse(ran.out);
  for (const char* const what : {"write", "read"}) {
    ASSERT_EQ(report[what]["samples"].size(), 2u) << what;
    for (const json& sample : report[what]["samples"]) {
      EXPECT_GT(sample["bytes"], 0) << what;
      EXPECT_EQ(sample["bytes"].get<uint64_t>() % 4096, 0u) << what;
      EXPECT_GE(sample["seconds"], 0.05) << what;
    }
  }
}

TEST(Measure, DefaultsToOneTwoFourAndSoOnStreams) {
  const TempDir folder;
  const Ran ran =
      run_ioweave({"measure", "--seconds", "0.05", "--repetitions", "1", "--warm-up", "0", "--size",
                   "64k", "--json=" + folder.file("report"), folder.path()});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json report = json::parse(read_text(folder.file("report")));
  EXPECT_EQ(report["options"]["streams"], json::parse("[1, 2, 4, 8, 16, 32, 64]"));
  EXPECT_THAT(ran.out, HasSubstr("Best: "));
}

TEST(Measure, TomlIsForTheFileAndTheTableForTheReader) {
  const TempDir folder;
  const Ran ran = run_ioweave(quick(folder.path(), {"--streams", "1-2", "--toml", "scratch"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(StartsWith("# "), HasSubstr("\n[[device]]\nname = \"scratch\"\n"),
                             HasSubstr("curve = [[1, ")));
  EXPECT_THAT(ran.err, HasSubstr("\nBest: "));
  // The command, which does not look at devices, has nothing against what it wrote.
  write_text(folder, "ioweave.toml", ran.out);
  Surroundings how;
  how.directory = folder.path();
  const Ran shown = run_ioweave({"config", "show"}, how);
  EXPECT_EQ(shown.code, 0);
  EXPECT_THAT(shown.err, IsEmpty());
}

TEST(Measure, RefusesWhatCannotBe) {
  const TempDir folder;
  write_text(folder, "file", "x");
  const auto refused = [](const std::vector<std::string>& words) {
    const Ran ran = run_ioweave(words);
    EXPECT_EQ(ran.code, 125);
    EXPECT_THAT(ran.out, IsEmpty());
    return ran.err;
  };
  EXPECT_THAT(refused(quick(folder.file("file"))), HasSubstr("file' is not a folder"));
  EXPECT_THAT(refused(quick(folder.file("none"))), HasSubstr("No such file or directory"));
  EXPECT_THAT(refused({"measure"}), HasSubstr("FOLDER is required"));
  EXPECT_THAT(refused(quick(folder.path(), {"--streams", "0"})), HasSubstr("from 1 to 512"));
  EXPECT_THAT(refused({"measure", "--size", "5", folder.path()}), HasSubstr("multiple of 4k"));
  EXPECT_THAT(refused({"measure", "--seconds", "nan", folder.path()}), HasSubstr("not nan"));
  EXPECT_THAT(refused({"measure", "--warm-up", "nan", folder.path()}), HasSubstr("not nan"));
  EXPECT_THAT(refused(quick(folder.path(), {"--toml", ""})), HasSubstr("needs the name"));
  EXPECT_THAT(refused(quick(folder.path(), {"--toml", "x", "--json"})), HasSubstr("--json=FILE"));
  EXPECT_THAT(refused({"measure", "--size", "1t", folder.path()}),
              AllOf(HasSubstr("64 files of 1t need 64.0 TiB"), HasSubstr("left; lower --size")));
}

TEST(Measure, AFullStandardOutputIsSaidAndTheFiguresKept) {
  const TempDir folder;
  Surroundings full;
  full.in_child = [] { dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO); };
  const Ran ran = run_ioweave(quick(folder.path(), {"--streams", "1", "--toml", "x"}), full);
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("Best: 1 stream"), HasSubstr("cannot write the report")));
}

TEST(Measure, AReportThatCannotBeWrittenIsSaidAndTheFiguresKept) {
  const TempDir folder;
  const Ran ran = run_ioweave(
      quick(folder.path(), {"--streams", "1", "--json=" + folder.file("no/such/folder")}));
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, HasSubstr("cannot write"));
  EXPECT_THAT(ran.out, HasSubstr("Best: 1 stream"));
}

TEST(Measure, SpaceThatIsNotThereIsAskedForBeforehand) {
  const TempDir folder;
  const Ran ran =
      run_mounted("tmpfs", folder.path(), 0, "size=1m", quick(folder.path(), {"--streams", "8"}));
  if (ran.code == kNoMount) GTEST_SKIP() << "no mount namespace: not root";
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, HasSubstr("8 files of 256k need 2.0 MiB"));
  EXPECT_THAT(ran.err, HasSubstr("1.0 MiB left; lower --size or --streams"));
}

TEST(Measure, AFileThatCannotBeMadeIsSaid) {
  const TempDir folder;
  const Ran ran = run_mounted("tmpfs", folder.path(), 0, "size=4m,nr_inodes=4",
                              quick(folder.path(), {"--streams", "8"}));
  if (ran.code == kNoMount) GTEST_SKIP() << "no mount namespace: not root";
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err,
              AllOf(HasSubstr("cannot make a file"), HasSubstr("No space left on device")));
}

TEST(Measure, AReadOnlyFolderIsNamed) {
  const TempDir folder;
  const Ran ran = run_mounted("tmpfs", folder.path(), MS_RDONLY, "", quick(folder.path()));
  if (ran.code == kNoMount) GTEST_SKIP() << "no mount namespace: not root";
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, AllOf(HasSubstr(folder.path()), HasSubstr("Read-only file system")));
}

TEST(Measure, AFileSystemWithoutODirectIsMeasuredWithoutIt) {
  const TempDir folder;
  const Ran refused = run_mounted("ramfs", folder.path(), 0, "",
                                  quick(folder.path(), {"--streams", "1", "--direct"}));
  if (refused.code == kNoMount) GTEST_SKIP() << "no mount namespace: not root";
  EXPECT_EQ(refused.code, 125);
  EXPECT_THAT(refused.err, HasSubstr("refuses O_DIRECT; leave out --direct"));
  const Ran ran =
      run_mounted("ramfs", folder.path(), 0, "", quick(folder.path(), {"--streams", "1"}));
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("memory was measured"));
}

class MeasureKilled : public ::testing::TestWithParam<int> {};

TEST_P(MeasureKilled, LeavesNothingBehind) {
  const TempDir folder;
  Surroundings how;
  how.meanwhile = [&](pid_t child) {
    // Once it measures, its files are there, as descriptors only.
    const auto open_files = [&] {
      std::error_code gone;
      unsigned count = 0;
      for (const auto& entry :
           fs::directory_iterator("/proc/" + std::to_string(child) + "/fd", gone)) {
        const std::string target = fs::read_symlink(entry, gone).string();
        count += target.starts_with(folder.path()) && target.ends_with(" (deleted)");
      }
      return count;
    };
    while (open_files() < 4) std::this_thread::yield();
    kill(child, GetParam());
  };
  const Ran ran = run_ioweave(
      {"measure", "--seconds", "3600", "--streams", "4", "--size", "1m", folder.path()}, how);
  EXPECT_EQ(ran.code, 128 + GetParam());
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

INSTANTIATE_TEST_SUITE_P(Signals, MeasureKilled, ::testing::Values(SIGINT, SIGTERM, SIGKILL));

}  // namespace
}  // namespace ioweave::cli::test
