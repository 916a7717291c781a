// Writes behind the program that fail: the error reaches the program once, where it syncs or closes
// the file, or somebody is told at its end. Never is one lost.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include <sys/mount.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "bench/slowfs_fixture.hpp"
#include "calls/mpiio/mpi_runs.hpp"

namespace ioweave::test {
namespace {

constexpr const char* kWritesBehind = " IOWEAVE_MPIIO_WRITE_BEHIND=1M";

size_t count_of(const std::string& what, const std::string& text) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

/// What the program printed of its own writes that failed.
std::set<std::string> failed_writes(const std::string& text) {
  std::set<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("write ")) {
      found.insert(line);
    }
  }
  return found;
}

class MpiioWriteError : public slowfs_test::SlowfsMount,
                        public testing::WithParamInterface<const char*> {
 protected:
  /// What the program prints that writes a file and syncs it, and writes another and closes it.
  struct Printed {
    std::string plain;   ///< without the library
    std::string behind;  ///< with it
  };
  [[nodiscard]] Printed write(int blocks) {
    const std::string report = root_ / "report";
    Printed printed{run("", blocks), run(with_library("auto", report) + kWritesBehind, blocks)};
    EXPECT_GT(reported(content(report), "behind_writes"), 0u) << content(report);
    return printed;
  }

  static void expect_told_once(const Printed& printed, const std::string& error) {
    expect_told_once(before_close(printed.plain), before_close(printed.behind), "sync 1", error);
    expect_told_once(after_close(printed.plain), after_close(printed.behind), "close 0", error);
    EXPECT_EQ(count_of("ioweave: ", printed.behind), 0u) << "the program was told";
  }

  /// Before each run.
  virtual void make_device() { mount({"--bad-write-at", "200000"}); }  // of the fourth block

  std::string data_;  ///< what the last run has written to the first file

 private:
  [[nodiscard]] std::string run(const std::string& words, int blocks) {
    make_device();
    const std::string count = " " + std::to_string(blocks);
    const ShellResult ended = run_in_shell(
        mpirun(1, choose_part(GetParam()), words) + IOWEAVE_MPI_SMALL_PROGRAM + " write " +
        mounted("data") + count + " sync write " + mounted("other") + count + " close");
    EXPECT_EQ(ended.exit_code, 0) << ended.text;
    data_ = content(mounted("data"));
    unmount();
    for (const char* const name : {"data", "other"}) {
      std::filesystem::remove(source(name));
    }
    return ended.text;
  }
  /// Of what was printed, that of the file that is synced, and of the other.
  static std::string before_close(const std::string& text) {
    return text.substr(0, text.find("close\n"));
  }
  static std::string after_close(const std::string& text) {
    return text.substr(std::min(text.find("close\n"), text.size()));
  }
  /// Writes behind the program have failed, and were told of at `where`, by one call of the file's
  /// handler. Its own writes failed where they do without the library.
  static void expect_told_once(const std::string& plain, const std::string& behind,
                               const std::string& where, const std::string& error) {
    EXPECT_EQ(count_of("\n" + where + ": class " + error + "\n", behind), 1u) << behind;
    EXPECT_EQ(count_of("\nsync ", behind) + count_of("\nclose ", behind), 1u) << behind;
    const std::set<std::string> own = failed_writes(behind);
    EXPECT_TRUE(std::ranges::includes(failed_writes(plain), own)) << behind << plain;
    EXPECT_EQ(count_of("handled: ", behind), 1 + own.size()) << behind;
  }
};

TEST_P(MpiioWriteError, IsToldOnceBySyncOrClose) {
  expect_told_once(write(8), "IO");
  // What the program wrote behind the sync is there.
  ASSERT_EQ(data_.size(), size_t{8} << 16);
  EXPECT_EQ(data_.front(), 99);
}

/// A file system with room for 16 blocks.
class MpiioFullDevice : public MpiioWriteError {
 protected:
  void make_device() override {
    drop_tmpfs();
    ASSERT_EQ(::mount("none", source_.c_str(), "tmpfs", 0, "size=1m"), 0) << std::strerror(errno);
    has_tmpfs_ = true;
    mount();
  }
  void SetUp() override {
    MpiioWriteError::SetUp();
    if (!IsSkipped() && ::geteuid() != 0) {
      GTEST_SKIP() << "only root may mount a tmpfs";
    }
  }
  void TearDown() override {
    if (mounted_) {
      unmount();
    }
    drop_tmpfs();
    MpiioWriteError::TearDown();
  }

 private:
  /// The process that served it from here may not be gone yet.
  void drop_tmpfs() {
    if (std::exchange(has_tmpfs_, false)) {
      EXPECT_EQ(::umount2(source_.c_str(), MNT_DETACH), 0) << std::strerror(errno);
    }
  }
  bool has_tmpfs_ = false;
};

TEST_P(MpiioFullDevice, IsToldOnceBySyncOrClose) {
  expect_told_once(write(20), "NO_SPACE");
}

/// The program has no call left by which to tell it. No launcher: some look long for a process that
/// is gone without a word.
class MpiioExit : public slowfs_test::SlowfsMount {};

TEST_F(MpiioExit, PrintsAWriteThatFailed) {
  mount({"--bad-write-at", "200000"});
  const ShellResult ended =
      run_in_shell(std::string(kOpenMpiWords) + "timeout -k 1 " + std::to_string(kMostSeconds) +
                   " env " + with_library("auto", root_ / "report") + kWritesBehind + " " +
                   IOWEAVE_MPI_SMALL_PROGRAM + " write " + mounted("data") + " 8 exit");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(count_of("ioweave: a write behind the program failed", ended.text), 1u) << ended.text;
  EXPECT_EQ(count_of(std::strerror(EIO), ended.text), 1u) << ended.text;
}

std::string part_name(const testing::TestParamInfo<const char*>& param) {
  return *param.param == '\0' ? "mpich" : param.param;
}
INSTANTIATE_TEST_SUITE_P(, MpiioWriteError, testing::ValuesIn(mpiio_parts()), part_name);
INSTANTIATE_TEST_SUITE_P(, MpiioFullDevice, testing::ValuesIn(mpiio_parts()), part_name);

}  // namespace
}  // namespace ioweave::test
