// Writes behind the program that fail: the error reaches the program once, where it syncs or closes
// the file, or somebody is told at its end. Never is one lost.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

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

class MpiioWriteError : public slowfs_test::SlowfsMount,
                        public testing::WithParamInterface<const char*> {
 protected:
  /// The device on which the program writes.
  virtual void make_device() { mount({"--bad-write-at", "200000"}); }  // of the fourth block

  /// What the program prints that writes a file and syncs it, and writes another and closes it.
  [[nodiscard]] std::string write(int blocks) {
    make_device();
    const std::string report = root_ / "report";
    const std::string count = " " + std::to_string(blocks);
    const ShellResult ended = run_in_shell(
        mpirun(1, choose_part(GetParam()), with_library("auto", report) + kWritesBehind) +
        IOWEAVE_MPI_SMALL_PROGRAM + " write " + mounted("data") + count + " sync write " +
        mounted("other") + count + " close");
    EXPECT_EQ(ended.exit_code, 0) << ended.text;
    EXPECT_GT(reported(content(report), "behind_writes"), 0u) << content(report);
    EXPECT_EQ(count_of("ioweave: ", ended.text), 0u) << "the program was told";
    return ended.text;
  }

  /// Of both files.
  static void expect_told_once(const std::string& text, const std::string& error) {
    const size_t middle = std::min(text.find("close\n"), text.size());
    expect_told_once_at("sync 1", text.substr(0, middle), error);
    expect_told_once_at("close 0", text.substr(middle), error);
  }

 private:
  /// Writes behind the program have failed, and were told of there, by one call of the file's
  /// handler. All others were of writes that the program made by itself, since one had failed.
  static void expect_told_once_at(const std::string& where, const std::string& text,
                                  const std::string& error) {
    EXPECT_EQ(count_of("\n" + where + ": class " + error + "\n", text), 1u) << text;
    EXPECT_EQ(count_of("\nsync ", text) + count_of("\nclose ", text), 1u) << text;
    EXPECT_EQ(count_of("\nhandled: ", text), 1 + count_of("\nwrite ", text)) << text;
  }
};

TEST_P(MpiioWriteError, IsToldOnceBySyncOrClose) {
  const std::string text = write(8);
  expect_told_once(text, "IO");
  EXPECT_EQ(count_of("write ", text), 0u) << "the others can be made: " << text;
  // What the program wrote behind the sync is there.
  const std::string data = content(mounted("data"));
  ASSERT_EQ(data.size(), size_t{8} << 16);
  EXPECT_EQ(data.front(), 99);
}

/// A file system with room for 16 blocks.
class MpiioFullDevice : public MpiioWriteError {
 protected:
  void SetUp() override {
    MpiioWriteError::SetUp();
    if (!IsSkipped() && ::geteuid() != 0) {
      GTEST_SKIP() << "only root may mount a tmpfs";
    }
  }
  void make_device() override {
    ASSERT_EQ(::mount("none", source_.c_str(), "tmpfs", 0, "size=1m"), 0) << std::strerror(errno);
    has_tmpfs_ = true;
    mount();
  }
  void TearDown() override {
    if (mounted_) {
      unmount();
    }
    if (has_tmpfs_) {  // the process that served it from here may not be gone yet
      EXPECT_EQ(::umount2(source_.c_str(), MNT_DETACH), 0) << std::strerror(errno);
    }
    MpiioWriteError::TearDown();
  }

 private:
  bool has_tmpfs_ = false;
};

/// Which blocks still find room is the device's choice.
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
