// Files that lose their name while they are read ahead and written behind the program, and files
// that are mapped into memory meanwhile: the program finds what it finds without the library.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bench/slowfs_fixture.hpp"
#include "calls/mpiio/mpi_runs.hpp"

namespace ioweave::test {
namespace {

constexpr int kBlocks = 32;

class MpiioFileChanges : public slowfs_test::SlowfsMount,
                         public testing::WithParamInterface<const char*> {
 protected:
  /// What the program prints that does these things to files of its own, on a device on which a
  /// write takes a while.
  [[nodiscard]] std::string outcome(const std::vector<std::string>& things,
                                    const std::string& words) {
    mount({"--latency-us", "1000"});
    std::string command = mpirun(1, choose_part(GetParam()), words) + IOWEAVE_MPI_SMALL_PROGRAM;
    for (const std::string& thing : things) {
      const std::string name = thing.substr(thing.find(' ') + 1);
      make_source_file(name, kBlocks << 16);
      command.append(" ").append(thing.substr(0, thing.find(' ')));
      command.append(" ").append(mounted(name)).append(" ").append(std::to_string(kBlocks));
      command.append(thing.starts_with("lose") ? " " + name : "");
    }
    const ShellResult ended = run_in_shell(command);
    EXPECT_EQ(ended.exit_code, 0) << ended.text;
    unmount();
    return ended.text;
  }
  void expect_the_same(const std::vector<std::string>& things, const std::string& settings) {
    const std::string plain = outcome(things, "");
    EXPECT_NE(plain.find("sum "), std::string::npos) << plain;
    const std::string report = root_ / "report";
    EXPECT_EQ(outcome(things, with_library("auto", report) + settings), plain);
    const std::string line = content(report);
    EXPECT_GT(reported(line, "ahead_bytes"), 0u) << line;
    EXPECT_GT(reported(line, "behind_writes"), 0u) << line;
  }
};

/// With the least memory that may be set.
TEST_P(MpiioFileChanges, FilesMayLoseTheirNames) {
  expect_the_same({"lose unlink", "lose delete", "lose replace"},
                  " IOWEAVE_MPIIO_WRITE_BEHIND=1M IOWEAVE_MPIIO_BUDGET=1M");
}

TEST_P(MpiioFileChanges, FilesMayBeMapped) {
  expect_the_same({"map mapped"}, " IOWEAVE_MPIIO_WRITE_BEHIND=1M");
}

std::string part_name(const testing::TestParamInfo<const char*>& param) {
  return *param.param == '\0' ? "mpich" : param.param;
}
INSTANTIATE_TEST_SUITE_P(, MpiioFileChanges, testing::ValuesIn(mpiio_parts()), part_name);

}  // namespace
}  // namespace ioweave::test
