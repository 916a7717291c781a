// hill_mpi and matrix_search as a user runs them: every mode and number of ranks gives what the
// program for one process, or a plain search, gives.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checksum.hpp"
#include "support/shell.hpp"
#include "support/temp_dir.hpp"
#include "top_items.hpp"

namespace {

namespace fs = std::filesystem;
using ioweave::test::ShellResult;
using testing::HasSubstr;

/// A program of `ranks`.
ShellResult run(const std::string& command, int ranks = 1) {
  const std::string launcher =
      ranks > 1 ? std::string(IOWEAVE_MPIEXEC) + " -n " + std::to_string(ranks) + " " : "";
  return ioweave::test::run_in_shell(ioweave::test::kOpenMpiWords + launcher + command);
}

const std::string kHillMpi = IOWEAVE_HILL_MPI_PATH;
const std::string kSearch = IOWEAVE_MATRIX_SEARCH_PATH;

class MpiCommand : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return dir_.file(name); }
  [[nodiscard]] std::string content(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void make_file(const std::string& name, size_t bytes) const {
    std::mt19937_64 random(bytes);
    std::string data(bytes, '\0');
    for (char& c : data) c = static_cast<char>(random());
    std::ofstream(path(name), std::ios::binary) << data;
  }

 private:
  ioweave::test::TempDir dir_;
};

/// As hill_mpi prints it.
std::string checksum_of(const std::string& text) {
  hill::Checksum checksum;
  checksum.add(std::as_bytes(std::span(text)), 0);
  std::array<char, 24> word{};
  std::snprintf(word.data(), word.size(), "\"%016llx\"",
                static_cast<unsigned long long>(checksum.value()));
  return word.data();
}

/// What stands behind `"checksum": ` in a summary.
std::string checksum_in(const std::string& text) {
  const std::string key = "\"checksum\": ";
  const size_t at = text.find(key);
  return at == std::string::npos ? "" : text.substr(at + key.size(), 18);
}

TEST_F(MpiCommand, HillWritesTheSameInEveryMode) {
  make_file("plain", 2'500'001);
  ASSERT_EQ(
      run(std::string(IOWEAVE_HILL_PATH) + " -e -k 16 " + path("plain") + " " + path("wanted"))
          .exit_code,
      0);
  const std::string checksum = checksum_of(content("wanted"));
  const std::string files = path("plain") + " " + path("found");
  for (const std::string mode : {"mpiio", "normal", "pp", "ppis", "weighted", "auto"}) {
    for (const int ranks : {1, 3}) {
      fs::remove(path("found"));
      const ShellResult done = run(kHillMpi + " -k 16 -c 512K --mode " + mode + " " + files, ranks);
      ASSERT_EQ(done.exit_code, 0) << done.text;
      EXPECT_THAT(done.text, HasSubstr("\"bytes\": 2500001"));
      EXPECT_EQ(content("found"), content("wanted")) << mode << ", " << ranks << " ranks";
      EXPECT_EQ(checksum_in(done.text), checksum) << mode << ", " << ranks << " ranks";
    }
  }
}

TEST_F(MpiCommand, HillsChecksumTellsOutputsApart) {
  make_file("plain", 100'000);
  const std::string hill = kHillMpi + " -k 16 " + path("plain");
  const std::string one = checksum_in(run(hill).text);
  EXPECT_NE(one, "");
  EXPECT_EQ(checksum_in(run(hill + " -c 64K --mode pp").text), one);
  EXPECT_NE(checksum_in(run(hill + " --seed 2").text), one);
}

TEST_F(MpiCommand, ProgramsHaveHelp) {
  const ShellResult hill = run(kHillMpi + " --help");
  EXPECT_EQ(hill.exit_code, 0);
  EXPECT_THAT(hill.text, HasSubstr("Usage: mpirun -n RANKS hill_mpi"));
  const ShellResult search = run(kSearch + " --help");
  EXPECT_EQ(search.exit_code, 0);
  EXPECT_THAT(search.text, HasSubstr("Usage: mpirun -n RANKS matrix_search"));
}

TEST_F(MpiCommand, HillWritesTheSameBehind) {
  make_file("plain", 2'500'001);
  ASSERT_EQ(
      run(std::string(IOWEAVE_HILL_PATH) + " -e -k 16 " + path("plain") + " " + path("wanted"))
          .exit_code,
      0);
  const ShellResult done =
      run(kHillMpi + " -k 16 -c 512K --write-behind " + path("plain") + " " + path("found"));
  ASSERT_EQ(done.exit_code, 0) << done.text;
  EXPECT_EQ(content("found"), content("wanted"));
}

TEST_F(MpiCommand, HillSaysWhatIsWrong) {
  EXPECT_THAT(run(kHillMpi + " --mode fast x").text, HasSubstr("not 'fast'"));
  EXPECT_THAT(run(kHillMpi + " --chunk 1000 x").text, HasSubstr("multiple of 64K"));
  EXPECT_THAT(run(kHillMpi).text, HasSubstr("needs an input file"));
  EXPECT_THAT(run(kHillMpi + " -w x").text, HasSubstr("--write-behind needs an output file"));
  const ShellResult missing = run(kHillMpi + " " + path("missing"));
  EXPECT_NE(missing.exit_code, 0);
  EXPECT_THAT(missing.text, HasSubstr("missing': No such file"));
}

TEST_F(MpiCommand, TheSearchFindsWhatSortingFinds) {
  constexpr uint64_t kItems = 300'000;
  ASSERT_EQ(run(kSearch + " --make 1200000 --seed 5 " + path("matrix")).exit_code, 0);
  ASSERT_EQ(fs::file_size(path("matrix")), kItems * 4);
  std::vector<matrix_search::Item> items;
  for (uint64_t i = 0; i < kItems; ++i) {
    items.push_back({matrix_search::item_at(5, i), i});
  }
  std::sort(items.begin(), items.end(), matrix_search::is_greater);
  std::ostringstream wanted;
  for (size_t i = 0; i < 30; ++i) {
    wanted << items[i].value << " " << items[i].index << "\n";
  }
  for (const std::string mode : {"mpiio", "ppis", "auto"}) {
    for (const int ranks : {1, 3}) {
      const ShellResult done = run(kSearch + " --mode " + mode + " " + path("matrix"), ranks);
      ASSERT_EQ(done.exit_code, 0) << done.text;
      EXPECT_THAT(done.text, HasSubstr(wanted.str())) << mode << ", " << ranks << " ranks";
    }
  }
}

TEST_F(MpiCommand, TheSearchRefusesWhatIsNoMatrix) {
  make_file("odd", 1001);
  EXPECT_THAT(run(kSearch + " " + path("odd")).text, HasSubstr("no multiple of 4"));
  EXPECT_THAT(run(kSearch).text, HasSubstr("needs one file"));
}

}  // namespace
