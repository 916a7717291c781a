// Policy `behind`, by the built command with the real interposer: what a program writes is what the
// file holds, however the program ends, and errors reach it once.

#include <algorithm>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/command_runner.hpp"
#include "cli/slow_device.hpp"
#include "stats/text_file.hpp"
#include "support/small_filesystem.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::cli::test {
namespace {

using ioweave::test::read_text;
using ioweave::test::SmallFilesystem;
using ioweave::test::TempDir;
using ::testing::HasSubstr;

using Words = std::vector<std::string>;

constexpr uint64_t kFileBytes = 16 << 20;

/// The bytes that programs/held_writer.c leaves after so many writes. The write that may have been
/// under way is left out of comparisons: `unsure` is its place.
struct Expected {
  std::string bytes;
  uint64_t unsure_begin = 0;
  uint64_t unsure_end = 0;
};

Expected bytes_after(uint64_t seed, uint64_t writes) {
  Expected expected;
  uint64_t state = seed;
  const auto next = [&state] {
    uint64_t value = state += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    return (value ^ (value >> 27)) % 0x7fffffff;
  };
  for (uint64_t i = 1; i <= writes + 1; ++i) {
    const uint64_t bytes = 1 + next() % 50000;
    const uint64_t at = next() % kFileBytes;
    if (i == writes + 1) {
      expected.unsure_begin = at;
      expected.unsure_end = at + bytes;
      break;
    }
    if (expected.bytes.size() < at + bytes) expected.bytes.resize(at + bytes, '\0');
    std::memset(expected.bytes.data() + at, static_cast<int>(i & 255), bytes);
  }
  return expected;
}

uint64_t count_differences(std::string found, Expected expected) {
  const size_t bytes = std::max({found.size(), expected.bytes.size(), expected.unsure_end});
  found.resize(bytes, '\0');
  expected.bytes.resize(bytes, '\0');
  uint64_t differences = 0;
  for (size_t i = 0; i < bytes; ++i) {
    const bool is_sure = i < expected.unsure_begin || i >= expected.unsure_end;
    differences += is_sure && found[i] != expected.bytes[i] ? 1 : 0;
  }
  return differences;
}

class WriteBehind : public ::testing::Test {
 protected:
  Ran run(const Words& program, const Surroundings& how = with_interposer()) const {
    Words words{"run", "--json=" + report_, "-o", run_file_, "--rule", "/**/out=behind", "--"};
    words.insert(words.end(), program.begin(), program.end());
    return run_ioweave(words, how);
  }
  static Surroundings with_interposer() {
    Surroundings how;
    how.variables = {{"IOWEAVE_PRELOAD_PATH", IOWEAVE_PRELOAD_LIBRARY}};
    return how;
  }
  [[nodiscard]] nlohmann::json behind() const {
    const auto report = nlohmann::json::parse(read_text(report_));
    return report["summary"].value("behind", nlohmann::json::object());
  }
  static Words writer(const std::string& path, const std::string& how, uint64_t seed,
                      uint64_t count) {
    return {IOWEAVE_HELD_WRITER, path, how, std::to_string(seed), std::to_string(count)};
  }

  TempDir folder_;
  std::string out_ = folder_.file("out");
  std::string report_ = folder_.file("report.json");
  std::string run_file_ = folder_.file("run.jsonl");
};

TEST_F(WriteBehind, AFileHoldsWhatWasWritten) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Ran ran = run(writer(out_, "close", seed, 300 * seed));
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(read_text(out_), bytes_after(seed, 300 * seed).bytes);
    EXPECT_EQ(behind()["calls"], 300 * seed);
    EXPECT_EQ(behind()["errors"], 0);
  }
}

TEST_F(WriteBehind, WhyNamesTheRuleAndWhatIsAgainstIt) {
  const auto why = [this] { return run_ioweave({"report", run_file_, "--why", "out"}).out; };
  ASSERT_EQ(run(writer(out_, "close", 1, 100)).code, 0);
  EXPECT_THAT(why(), HasSubstr("  Its writes may be held back, by the rule for '/**/out'; of all "
                               "files of the run 100 were.\n"));
  ASSERT_EQ(run({"/bin/sh", "-c", "echo more >> '" + out_ + "'"}).code, 0);
  EXPECT_THAT(why(), HasSubstr("  Its writes should be held back, by the rule for '/**/out', and "
                               "are the program's own calls: O_APPEND.\n"));
}

TEST_F(WriteBehind, TheReportSaysWhatWasHeld) {
  const Ran ran = run_ioweave(
      {"run", "--rule", "/**/out=behind", "--", IOWEAVE_HELD_WRITER, out_, "close", "1", "100"},
      with_interposer());
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("behind"));
  EXPECT_THAT(ran.err, HasSubstr("100 writes held back"));
}

TEST_F(WriteBehind, OtherFilesAreLeftAlone) {
  const std::string other = folder_.file("other");
  ASSERT_EQ(run(writer(other, "close", 1, 100)).code, 0);
  EXPECT_EQ(read_text(other), bytes_after(1, 100).bytes);
  EXPECT_TRUE(behind().empty());
}

TEST_F(WriteBehind, AFileThatIsMappedIsWrittenPlainly) {
  ASSERT_EQ(run(writer(out_, "mapped", 1, 100)).code, 0);
  EXPECT_EQ(read_text(out_), bytes_after(1, 100).bytes);
  EXPECT_TRUE(behind().empty());
}

/// Databases and MPI ranks tell each other through it what they have written.
TEST_F(WriteBehind, AProgramThatSharesMemoryWritesPlainly) {
  ASSERT_EQ(run(writer(out_, "sharing", 1, 100)).code, 0);
  EXPECT_EQ(read_text(out_), bytes_after(1, 100).bytes);
  EXPECT_TRUE(behind().empty());
  EXPECT_THAT(read_text(report_), HasSubstr("\"degrade\":\"shared memory\""));
}

/// Libraries of MPI hook it so, and the call comes back to us.
TEST_F(WriteBehind, AHookedMadviseDoesNotHang) {
  Surroundings how = with_interposer();
  how.variables.emplace_back("LD_PRELOAD", IOWEAVE_HOOKED_MADVISE);
  ASSERT_EQ(run(writer(out_, "close", 1, 100), how).code, 0);
  EXPECT_EQ(read_text(out_), bytes_after(1, 100).bytes);
  EXPECT_EQ(behind()["calls"], 100);
}

TEST_F(WriteBehind, AProgramThatFaultsLosesNothing) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Ran ran = run(writer(out_, "fault", seed, 200 * seed));
    EXPECT_EQ(ran.code, 128 + SIGSEGV);
    EXPECT_EQ(read_text(out_), bytes_after(seed, 200 * seed).bytes);
    EXPECT_GT(behind()["rest_bytes"], 0);
    EXPECT_EQ(behind()["lost_bytes"], 0);
  }
}

TEST_F(WriteBehind, AProgramThatIsKilledLosesNothingThatReturned) {
  const std::string acknowledged = folder_.file("acknowledged");
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Words program{"timeout", "-s", "KILL", "0." + std::to_string(seed * 7)};
    for (const std::string& word : writer(out_, "forever", seed, 0)) program.push_back(word);
    program.push_back(acknowledged);
    EXPECT_EQ(run(program).code, 128 + SIGKILL);
    uint64_t writes = 0;
    std::memcpy(&writes, read_text(acknowledged).data(), sizeof writes);
    EXPECT_GT(writes, 0u);
    EXPECT_EQ(count_differences(read_text(out_), bytes_after(seed, writes)), 0u);
  }
}

TEST_F(WriteBehind, WhatAKilledProgramLeftForAFileThatIsGoneIsSaid) {
  const Ran ran = run_ioweave(
      {"run", "--rule", "/**/out=behind", "--", "sh", "-c",
       std::string(IOWEAVE_HELD_WRITER) + " " + out_ + " fault 1 50 & wait; rm " + out_},
      with_interposer());
  EXPECT_EQ(ran.code, 0) << ran.err;
  // Written before it was removed, or not there any more: either is said, none is silent.
  EXPECT_THAT(ran.err, ::testing::AnyOf(HasSubstr("of killed processes"),
                                        HasSubstr("could not be written")));
}

TEST_F(WriteBehind, AFullFileSystemIsToldOnce) {
  const SmallFilesystem small(4 << 20);
  if (!small.problem().empty()) GTEST_SKIP() << small.problem();
  const Ran ran = run(writer(small.file("out"), "full", 1, 400));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(std::ranges::count(ran.out, '\n'), 1) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("ENOSPC"));
}

TEST_F(WriteBehind, SmallWritesAreJoinedOnASlowDevice) {
  if (std::string(IOWEAVE_SLOWFS).empty()) GTEST_SKIP() << "slowfs is not built: it needs libfuse";
  SlowDevice device(IOWEAVE_SLOWFS);
  if (!device.mount(400, 200)) GTEST_SKIP() << "FUSE cannot be mounted here";
  const std::string path = device.mount_point() + "/out";
  const Ran ran = run(writer(path, "small", 1, 4000));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(read_text(path), std::string(4000 * 512, 'x'));
  EXPECT_EQ(behind()["calls"], 4000);
  EXPECT_LT(behind()["writes"], 400);
}

std::string look_around(const Ran& ran) {
  EXPECT_EQ(ran.code, 0) << ran.err;
  return ran.out;
}

TEST_F(WriteBehind, NothingIsWrittenBecauseTheProgramLooks) {
  EXPECT_EQ(look_around(run({IOWEAVE_TOLD_CALLS, out_, "none"})),
            "not there before, not there after\n");
}

class WriteBehindComesBefore : public WriteBehind,
                               public ::testing::WithParamInterface<const char*> {};

TEST_P(WriteBehindComesBefore, WhatTellsOthers) {
  EXPECT_EQ(look_around(run({IOWEAVE_TOLD_CALLS, out_, GetParam()})),
            "not there before, there after\n");
}

INSTANTIATE_TEST_SUITE_P(Each, WriteBehindComesBefore,
                         ::testing::Values("bind", "listen", "process_vm_writev", "sem_open",
                                           "semctl", "semop", "sem_post"),
                         [](const auto& each) { return std::string(each.param); });

/// On a device that cannot write one byte.
class WriteBehindOnAFailingDevice : public WriteBehind {
 protected:
  void SetUp() override {
    if (std::string(IOWEAVE_SLOWFS).empty()) {
      GTEST_SKIP() << "slowfs is not built: it needs libfuse";
    }
  }
  /// What the writer says of errors. Its write of the bad byte has been held back.
  std::string errors_of(const std::string& how, unsigned bad, uint64_t writes = 0) {
    const std::string options = "--bad-write-at " + std::to_string(bad);
    if (!device_.mount(400, 200, options)) return "FUSE cannot be mounted here";
    const Ran ran = run(writer(device_.mount_point() + "/out", how, 1, writes));
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_GT(behind()["calls"], 0);
    EXPECT_EQ(behind()["errors"], 1);
    return ran.out;
  }

  SlowDevice device_{IOWEAVE_SLOWFS};
};

TEST_F(WriteBehindOnAFailingDevice, AnErrorIsToldOnceByOneCallOfMany) {
  const std::string errors = errors_of("small", 300'000, 4000);
  if (errors.find("FUSE") == 0) GTEST_SKIP() << errors;
  EXPECT_EQ(std::ranges::count(errors, '\n'), 1) << errors;
  EXPECT_THAT(errors, HasSubstr(": EIO\n"));
}

struct ToldBy {
  const char* calls;   // of held_writer
  const char* errors;  // that it prints
};

void PrintTo(const ToldBy& told, std::ostream* out) {
  *out << told.calls;
}

class WriteBehindTells : public WriteBehindOnAFailingDevice,
                         public ::testing::WithParamInterface<ToldBy> {};

TEST_P(WriteBehindTells, AnErrorOnceByTheNextCallThatCan) {
  const std::string errors = errors_of(std::string("calls=") + GetParam().calls, 100);
  if (errors.find("FUSE") == 0) GTEST_SKIP() << errors;
  EXPECT_EQ(errors, GetParam().errors);
}

INSTANTIATE_TEST_SUITE_P(
    Each, WriteBehindTells,
    ::testing::Values(ToldBy{"wsswwfc", "write: EIO\n"}, ToldBy{"wffwc", "fsync: EIO\n"},
                      ToldBy{"wDDfc", "fdatasync: EIO\n"}, ToldBy{"wc", "close: EIO\n"},
                      ToldBy{"wdcC", "close: EIO\n"}, ToldBy{"wuffc", "fsync: EIO\n"},
                      ToldBy{"wuwfc", "write: EIO\n"}, ToldBy{"wuc", "close: EIO\n"}));

}  // namespace
}  // namespace ioweave::cli::test
