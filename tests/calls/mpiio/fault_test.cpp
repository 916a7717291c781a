// What the library leaves alone is counted, and the error of a block that cannot be read reaches
// the ranks that read it, and those alone.

#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "bench/slowfs_fixture.hpp"
#include "calls/mpiio/mpi_runs.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::test {
namespace {

class MpiioLeftAlone : public testing::TestWithParam<const char*> {};

TEST_P(MpiioLeftAlone, IsCounted) {
  const TempDir dir;
  slowfs_test::write_file(dir.file("data"), std::vector<char>(2'000'000, 'x'));
  const std::string report = dir.file("report");
  const ShellResult ended =
      run_in_shell(mpirun(1, choose_part(GetParam()), with_library("auto", report)) +
                   IOWEAVE_MPI_SMALL_PROGRAM + " left " + dir.path());
  ASSERT_EQ(ended.exit_code, 0) << ended.text;
  const std::string lines = content(report);
  EXPECT_EQ(reported(lines, "write_only"), 1u) << lines;
  EXPECT_EQ(reported(lines, "in_memory"), 1u) << lines;
  EXPECT_EQ(reported(lines, "shared_position"), 3u) << lines;
  EXPECT_EQ(reported(lines, "view"), 1u) << lines;
  EXPECT_GE(reported(lines, "pieces"), 1u) << lines;
  EXPECT_EQ(reported(lines, "not_opened"), 0u) << lines;
}

class MpiioBadBlock : public slowfs_test::SlowfsMount,
                      public testing::WithParamInterface<const char*> {
 protected:
  /// The lines that ranks print who read so many blocks of a file whose 33rd is bad, in order.
  [[nodiscard]] std::string outcome(int blocks, const std::string& words) {
    mount({"--bad-at", "2100000", "--latency-us", "200"});
    const ShellResult ended =
        run_in_shell(mpirun(2, choose_part(GetParam()), words) + IOWEAVE_MPI_SMALL_PROGRAM +
                     " blocks " + mounted("data") + " " + std::to_string(blocks));
    EXPECT_EQ(ended.exit_code, 0) << ended.text;
    unmount();
    std::istringstream text(ended.text);
    std::multiset<std::string> lines;
    for (std::string line; std::getline(text, line);) {
      lines.insert(line + '\n');
    }
    return std::accumulate(lines.begin(), lines.end(), std::string());
  }
};

TEST_P(MpiioBadBlock, ItsErrorReachesWhoeverReadsItAndNobodyElse) {
  constexpr int kBlocks = 64;
  constexpr int kBad = 32;
  make_source_file("data", kBlocks << 16);
  for (const int blocks : {kBad, kBlocks}) {
    const std::string report = root_ / ("report-" + std::to_string(blocks));
    const std::string plain = outcome(blocks, "");
    // Open MPI 4.1.4's OMPIO prints the error, and tells the program nothing of it.
    const bool has_failed = plain.find("block 32: class") != std::string::npos ||
                            plain.find("Input/output error") != std::string::npos;
    EXPECT_EQ(has_failed, blocks > kBad) << plain;
    EXPECT_EQ(outcome(blocks, with_library("ppis", report)), plain);
    EXPECT_GT(reported(content(report), "ahead_bytes"), 0u) << content(report);
  }
}

std::string part_name(const testing::TestParamInfo<const char*>& param) {
  return *param.param == '\0' ? "mpich" : param.param;
}

INSTANTIATE_TEST_SUITE_P(, MpiioLeftAlone, testing::ValuesIn(mpiio_parts()), part_name);
INSTANTIATE_TEST_SUITE_P(, MpiioBadBlock, testing::ValuesIn(mpiio_parts()), part_name);

}  // namespace
}  // namespace ioweave::test
