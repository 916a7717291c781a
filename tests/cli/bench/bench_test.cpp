// `ioweave bench` from the outside: what it prints, what it refuses, and that it leaves nothing
// behind. Not how fast anything is.

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <sys/syscall.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/command_runner.hpp"
#include "stats/text_file.hpp"
#include "support/seccomp.hpp"
#include "support/small_filesystem.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::cli::test {
namespace {

namespace fs = std::filesystem;

using ioweave::test::read_text;
using ioweave::test::refuse_syscall;
using ioweave::test::SmallFilesystem;
using ioweave::test::TempDir;
using ioweave::test::write_text;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::string> quick(const std::string& path, std::vector<std::string> more = {}) {
  std::vector<std::string> words{"bench",    "--seconds", "0.02",    "--size", "4m",
                                 "--blocks", "4k,1m",     "--depth", "1,4"};
  words.insert(words.end(), more.begin(), more.end());
  words.push_back(path);
  return words;
}

bool has_fio() {
  return std::system("fio --version >/dev/null 2>&1") == 0;
}

/// Every load has its samples, and each moved what its share of reads says.
void expect_whole(const json& profile, size_t samples) {
  EXPECT_EQ(profile["schema"], "ioweave-device-profile/1");
  EXPECT_FALSE(profile["results"].empty());
  for (const json& result : profile["results"]) {
    EXPECT_FALSE(result.contains("failure")) << result;
    EXPECT_EQ(result["samples"].size(), samples) << result;
    for (const json& sample : result["samples"]) {
      if (result["read_percent"] == 0) {
        EXPECT_EQ(sample["read_bytes"], 0) << result;
      }
      if (result["read_percent"] == 100) {
        EXPECT_EQ(sample["written_bytes"], 0) << result;
      }
      EXPECT_GT(sample["read_bytes"].get<uint64_t>() + sample["written_bytes"].get<uint64_t>(), 0u);
      EXPECT_EQ(sample["read_bytes"].get<uint64_t>() % result["block_bytes"].get<uint64_t>(), 0u);
    }
  }
}

TEST(Bench, MeasuresByItsOwnEngineAndLeavesNothingBehind) {
  const TempDir folder;
  const Ran ran =
      run_ioweave(quick(folder.path(), {"--with", "ioweave", "--json", "--repetitions", "2"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json profile = json::parse(ran.out);
  EXPECT_THAT(profile["by"], StartsWith("ioweave "));
  expect_whole(profile, 2);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Bench, MeasuresByFio) {
  if (!has_fio()) GTEST_SKIP() << "fio is not installed";
  const TempDir folder;
  const Ran ran =
      run_ioweave(quick(folder.path(), {"--json", "--study", "depth", "--way", "psync,io_uring",
                                        "--cache", "direct", "--repetitions", "1"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json profile = json::parse(ran.out);
  EXPECT_THAT(profile["by"], StartsWith("fio-"));
  expect_whole(profile, 1);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Bench, WithoutFioMeasuresAllTheSame) {
  const TempDir folder;
  Surroundings without;
  without.variables = {{"PATH", folder.path()}};
  const std::vector<std::string> words =
      quick(folder.path(), {"--study", "depth", "--cache", "direct", "--way", "psync"});
  const Ran ran = run_ioweave(words, without);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("by ioweave "));
  const Ran asked = run_ioweave(quick(folder.path(), {"--with", "fio"}), without);
  EXPECT_EQ(asked.code, 125);
  EXPECT_THAT(asked.err, HasSubstr("fio is not installed"));
}

TEST(Bench, OnlyReadsAFileThatIsThere) {
  const TempDir folder;
  const std::string path = write_text(folder, "input", std::string(3u << 20, 'x'));
  const Ran ran = run_ioweave(quick(path, {"--with", "ioweave", "--json"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json profile = json::parse(ran.out);
  for (const json& result : profile["results"]) EXPECT_EQ(result["read_percent"], 100);
  EXPECT_TRUE(read_text(path) == std::string(3u << 20, 'x'));
}

TEST(Bench, ShowsASavedProfileAgain) {
  const TempDir folder;
  const std::string saved = folder.file("saved.json");
  const std::string pictures = folder.file("pictures");
  const Ran ran = run_ioweave(
      quick(folder.path(), {"--with", "ioweave", "--study", "block", "--json=" + saved}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("MB/s of sequential writes"));
  const Ran again = run_ioweave({"bench", "--from", saved, "--pictures", pictures});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, ran.out);
  EXPECT_THAT(read_text(pictures + "/block.svg"), StartsWith("<svg "));
}

TEST(Bench, WithoutIoUringMeasuresTheRest) {
  const TempDir folder;
  Surroundings refusing;
  refusing.in_child = [] {
    if (!refuse_syscall(SYS_io_uring_setup, EPERM)) _exit(77);
  };
  const Ran ran = run_ioweave(quick(folder.path(), {"--with", "ioweave", "--json"}), refusing);
  if (ran.code == 77) GTEST_SKIP() << "no seccomp filters here";
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json profile = json::parse(ran.out);
  for (const json& result : profile["results"]) EXPECT_EQ(result["way"], "psync");
  EXPECT_EQ(profile["unusable"].size(), 2u * 2 + 1);  // iopoll is never planned with the cache
  const Ran alone =
      run_ioweave(quick(folder.path(), {"--way", "io_uring", "--with", "ioweave"}), refusing);
  EXPECT_EQ(alone.code, 125);
  EXPECT_THAT(alone.err, HasSubstr("nothing is left to measure; io_uring: "));
}

TEST(Bench, SaysThatTheFileDoesNotFit) {
  const SmallFilesystem small(8u << 20);
  if (!small.problem().empty()) GTEST_SKIP() << small.problem();
  const std::string folder = fs::path(small.file("x")).parent_path();
  const Ran ran = run_ioweave({"bench", "--size", "64m", folder});
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("does not fit"), HasSubstr("lower --size")));
}

TEST(Bench, RefusesWhatItCannotMeasure) {
  const TempDir folder;
  write_text(folder, "short", "x");
  EXPECT_THAT(run_ioweave({"bench"}).err, HasSubstr("needs a folder"));
  EXPECT_THAT(run_ioweave({"bench", folder.file("none")}).err, HasSubstr("cannot look at"));
  EXPECT_THAT(run_ioweave({"bench", "/dev/null"}).err, HasSubstr("no folder, file or block"));
  EXPECT_THAT(run_ioweave({"bench", folder.file("short")}).err, HasSubstr("shorter than 1 MiB"));
  EXPECT_THAT(run_ioweave({"bench", "--from", folder.file("short")}).err,
              HasSubstr("is no profile of a device: it is not JSON"));
  EXPECT_THAT(run_ioweave({"bench", "--from", folder.file("none")}).err,
              HasSubstr("cannot be read: No such file"));
  EXPECT_THAT(run_ioweave({"bench", "--from", "x", folder.path()}).err,
              HasSubstr("measures nothing"));
  EXPECT_THAT(run_ioweave({"bench", "--seconds", "nan", folder.path()}).err, HasSubstr("nan"));
  EXPECT_THAT(run_ioweave({"bench", "--all", "--study", "depth", folder.path()}).err,
              HasSubstr("every combination"));
  EXPECT_EQ(run_ioweave({"bench", "--magic", folder.path()}).code, 125);
}

TEST(Bench, SaysWhatItCannotWrite) {
  const TempDir folder;
  write_text(folder, "saved", "");
  const Ran ran =
      run_ioweave(quick(folder.path(), {"--with", "ioweave", "--study", "block", "--json=/none/x",
                                        "--pictures", folder.file("saved")}));
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("cannot write /none/x: No such file"),
                             HasSubstr("cannot write pictures into")));
  EXPECT_THAT(ran.out, HasSubstr("MB/s of sequential writes"));
}

}  // namespace
}  // namespace ioweave::cli::test
