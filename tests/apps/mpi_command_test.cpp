// hill_mpi and matrix_search as a user runs them: every mode and number of ranks gives what the
// program for one process, or a plain search, gives.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST_F(MpiCommand, HillWritesTheSameInEveryMode) {
  make_file("plain", 2'500'001);
  ASSERT_EQ(
      run(std::string(IOWEAVE_HILL_PATH) + " -e -k 16 " + path("plain") + " " + path("wanted"))
          .exit_code,
      0);
  const std::string files = path("plain") + " " + path("found");
  for (const std::string mode : {"mpiio", "normal", "pp", "ppis", "weighted", "auto"}) {
    for (const int ranks : {1, 3}) {
      fs::remove(path("found"));
      const ShellResult done = run(kHillMpi + " -k 16 -c 512K --mode " + mode + " " + files, ranks);
      ASSERT_EQ(done.exit_code, 0) << done.text;
      EXPECT_THAT(done.text, HasSubstr("\"bytes\": 2500001"));
      EXPECT_EQ(content("found"), content("wanted")) << mode << ", " << ranks << " ranks";
    }
  }
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
