// The random MPI program (differential_program.cpp) by `ioweave run`, around the launcher and in
// each rank: it does the same as without, its files are read ahead, and the command says so.

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calls/mpiio/mpi_runs.hpp"
#include "config/mpiio_variables.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kEager = "IOWEAVE_MPIIO_EAGER=1";  // small files come from the page cache

/// What the program left in its folder.
std::string left_in(const TempDir& dir) {
  return content(dir.file("log.0")) + "rank 1\n" + content(dir.file("log.1")) + "data\n" +
         content(dir.file("data"));
}

/// The program, for the folder.
std::string program(const TempDir& dir) {
  return std::string(IOWEAVE_MPI_PROGRAM " ") + dir.path() + " 3 2";
}

std::string launch(const std::string& words = "") {
  return std::string(IOWEAVE_MPIRUN " -n 2 env ") + words + " ";
}

/// `ioweave run` with these options.
std::string run(const std::string& options) {
  return std::string("timeout -k 1 ") + std::to_string(kMostSeconds) + " " + IOWEAVE_COMMAND +
         " run " + options + " -- ";
}

ShellResult in_shell(const std::string& command) {
  std::string words(kOpenMpiWords);
  return run_in_shell(words.append("OMPI_MCA_mpi_yield_when_idle=1 ").append(command));
}

uint64_t lines_of(const std::string& text) {
  return static_cast<uint64_t>(std::ranges::count(text, '\n'));
}

class MpiioRun : public testing::Test {
 protected:
  /// Some MPIs' calls hang or fail now and then by themselves: without Ioweave the program must do
  /// the same twice.
  void SetUp() override {
    for (std::string* const left : {&plain_, &again_}) {
      const TempDir dir;
      const ShellResult ended = in_shell(run_plainly() + launch() + program(dir));
      if (ended.exit_code == kTimedOut) {
        GTEST_SKIP() << "the program hangs without Ioweave";
      }
      ASSERT_EQ(ended.exit_code, 0) << ended.text;
      *left = left_in(dir);
    }
    if (plain_ != again_) {
      GTEST_SKIP() << "the program differs from run to run without Ioweave";
    }
  }

  static std::string run_plainly() {
    return std::string("timeout -k 1 ") + std::to_string(kMostSeconds) + " ";
  }

  void expect_the_same(const ShellResult& ended, const TempDir& dir) const {
    EXPECT_EQ(ended.exit_code, 0) << ended.text;
    EXPECT_TRUE(left_in(dir) == plain_) << "the logs or the file differ";
  }
  /// Of a text with that many summaries.
  static void expect_summaries(const std::string& text, size_t many) {
    size_t found = 0;
    for (size_t at = 0; (at = text.find("  MPI-IO  ", at)) != std::string::npos; ++at) {
      ++found;
    }
    EXPECT_EQ(found, many) << text;
    EXPECT_THAT(text, HasSubstr("ahead by "));
    EXPECT_THAT(text, Not(HasSubstr("nothing was prefetched")));
    EXPECT_THAT(text, Not(HasSubstr("files are in memory")));
  }
  /// Of the JSON report of a run, or of several behind each other.
  static void expect_read_ahead(const std::string& json) {
    EXPECT_EQ(reported(json, "ranks"), 2u) << json;
    EXPECT_GE(reported(json, "ahead_bytes"), 1u) << json;
    EXPECT_GE(reported(json, "hit_reads"), 1u) << json;
    EXPECT_EQ(reported(json, "failed_slices"), 0u) << json;
  }

 private:
  std::string plain_;
  std::string again_;
};

TEST_F(MpiioRun, AroundTheLauncherSaysWhatRanksReadAhead) {
  const TempDir dir;
  const std::string json = dir.file("report.json");
  const ShellResult ended = in_shell(run("--json=" + json) + launch(kEager) + program(dir));
  expect_the_same(ended, dir);
  expect_summaries(ended.text, 1);
  expect_read_ahead(content(json));
}

/// A file of the user's own gets the lines as well.
TEST_F(MpiioRun, InEachRankSaysWhatItReadAhead) {
  const TempDir dir;
  const std::string words = std::string(kEager) + " IOWEAVE_MPIIO_REPORT=" + dir.file("own");
  const std::string rank =
      std::string("sh -c 'exec ") + run("--json=" + dir.file("json.$$")) + program(dir) + "'";
  const ShellResult ended = in_shell(run_plainly() + launch(words) + rank);
  expect_the_same(ended, dir);
  expect_summaries(ended.text, 2);
  std::string json;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    if (entry.path().filename().string().starts_with("json.")) {
      json += content(entry.path());
    }
  }
  expect_read_ahead(json);
  const std::string own = content(dir.file("own"));
  EXPECT_EQ(lines_of(own), 2u) << own;
  EXPECT_EQ(reported(own, "ahead_bytes"), reported(json, "ahead_bytes"));
}

/// What is read from outside would break the schedule, which may be to read nothing ahead.
TEST_F(MpiioRun, TheCommandIsToldToLeaveFilesAlone) {
  for (const char* const schedule : {"normal", "auto"}) {
    const TempDir dir;
    const std::string words = std::string("IOWEAVE_MPIIO_SCHEDULE=") + schedule;
    const ShellResult ended = in_shell(run("--keep-run-dir") + launch(words) + program(dir));
    expect_the_same(ended, dir);
    constexpr const char* kKept = "directory is kept: ";
    const size_t at = ended.text.find(kKept);
    ASSERT_NE(at, std::string::npos) << ended.text;
    std::string kept = ended.text.substr(at + std::strlen(kKept));
    kept.resize(kept.find('\n'));
    const std::string list = content(kept + "/" + config::kMpiioFilesName);
    std::filesystem::remove_all(kept);
    struct stat found {};
    ASSERT_EQ(stat(dir.file("data").c_str(), &found), 0);
    const config::MpiioFile file{found.st_dev, found.st_ino};
    const std::string_view entry(reinterpret_cast<const char*>(&file), sizeof file);
    EXPECT_THAT(list, HasSubstr(entry)) << schedule;
    EXPECT_LE(list.size(), 4 * sizeof file) << "a file is told of once by each rank";
  }
}

TEST(MpiioDoctor, NamesTheLibrary) {
  const ShellResult doctor = run_in_shell(std::string(IOWEAVE_COMMAND) + " doctor");
  EXPECT_THAT(doctor.text, HasSubstr("MPI-IO\n"));
  EXPECT_THAT(doctor.text, HasSubstr(std::string("/libioweave_mpiio_") + IOWEAVE_MPI + ".so"));
}

}  // namespace
}  // namespace ioweave::test
