// libioweave_tasks.so: an unchanged program does with it what it does without.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calls/preload/run.hpp"

namespace ioweave::test {
namespace {

using ioweave::testing::Finished;
using ioweave::testing::RunOptions;
using ioweave::testing::TemporaryDirectory;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr uint64_t kFileBytes = 1 << 20;
constexpr int kTasks = 32;  // of programs/alpi_io.c

struct Report {
  int lines = 0;
  std::string tasks;
  uint64_t pauses = 0;
  uint64_t at_once = 0;
  uint64_t made_plain = 0;
  uint64_t bound = 0;
  std::string last;  // line
};

class TaskPreload : public ::testing::Test {
 protected:
  void SetUp() override { ioweave::testing::write_pattern(file_, kFileBytes); }

  /// The program by itself.
  [[nodiscard]] Finished without(const std::vector<std::string>& command) const {
    RunOptions options;
    options.interposed = false;
    return ioweave::testing::run(options, command);
  }
  [[nodiscard]] Finished with(const std::vector<std::string>& command,
                              std::vector<std::string> environment = {},
                              const std::string& preload = IOWEAVE_TASKS_LIBRARY) {
    std::remove(report_.c_str());
    RunOptions options;
    options.interposed = false;
    options.environment = std::move(environment);
    options.environment.push_back("IOWEAVE_TASK_REPORT=" + report_);
    if (!preload.empty()) {
      options.environment.push_back("LD_PRELOAD=" + preload);
    }
    return ioweave::testing::run(options, command);
  }
  [[nodiscard]] std::vector<std::string> alpi(const std::string& mode) const {
    return {IOWEAVE_ALPI_IO, mode, file_};
  }
  [[nodiscard]] Report report() const {
    Report report;
    std::ifstream lines(report_);
    for (std::string line; std::getline(lines, line); ++report.lines) {
      report.tasks = line.substr(0, line.find(",\"pauses\""));
      report.pauses += number(line, "\"pauses\":");
      report.at_once += number(line, "\"at_once\":");
      report.made_plain += number(line, "\"made_plain\":");
      report.bound += number(line, "\"bound\":");
      report.last = line;
    }
    return report;
  }
  /// The same output, and an end as it was.
  void expect_same(const Finished& plain, const Finished& interposed) const {
    if (plain.exited_with(77)) {
      GTEST_SKIP() << "the file system of the build folder has no O_DIRECT";
    }
    EXPECT_TRUE(plain.exited_with(3)) << plain.status << plain.err;
    EXPECT_EQ(interposed.status, plain.status);
    EXPECT_EQ(interposed.out, plain.out);
    EXPECT_EQ(interposed.err, plain.err);
  }

  const TemporaryDirectory dir_;
  const std::string file_ = dir_ / "data";
  const std::string report_ = dir_ / "report";

 private:
  static uint64_t number(const std::string& line, const std::string& name) {
    const size_t at = line.find(name);
    EXPECT_NE(at, std::string::npos) << line;
    return at == std::string::npos ? 0 : std::stoull(line.substr(at + name.size()));
  }
};

// Seven calls of each task go past the page cache, or sync. The eighth reads what the page cache
// may hold.
constexpr uint64_t kPausesOfIo = 7 * kTasks;
constexpr uint64_t kCallsOfIo = 8 * kTasks;

TEST_F(TaskPreload, PreloadedItPausesTheTasks) {
  for (const char* reaper : {"thread", "task"}) {
    const Finished plain = without(alpi("io"));
    const Finished interposed = with(alpi("io"), {std::string("IOWEAVE_TASK_REAPER=") + reaper});
    expect_same(plain, interposed);
    EXPECT_EQ(report().lines, 1);
    EXPECT_THAT(report().tasks, HasSubstr("ALPI 1.2"));
    EXPECT_GE(report().pauses, kPausesOfIo) << reaper;
    EXPECT_EQ(report().pauses + report().at_once, kCallsOfIo) << reaper;
  }
}

TEST_F(TaskPreload, LinkedItPausesTheTasks) {
  const Finished plain = without(alpi("io"));
  const Finished linked = with({IOWEAVE_ALPI_IO_LINKED, "io", file_}, {}, "");
  expect_same(plain, linked);
  EXPECT_GE(report().pauses, kPausesOfIo);
}

// Whether two tasks ever want to wait at once is for the scheduler to say: what is said must fit.
TEST_F(TaskPreload, WithNoRoomToPauseTheCallsArePlainAndThatIsSaid) {
  const Finished plain = without(alpi("io"));
  constexpr int kTries = 20;
  bool lacked = false;
  for (int i = 0; i < kTries && !lacked; ++i) {
    Finished interposed = with(alpi("io"), {"IOWEAVE_MAX_PAUSED=1"});
    lacked = report().made_plain > 0;
    EXPECT_THAT(report().last,
                HasSubstr(lacked ? "\"lacked_room\":true" : "\"lacked_room\":false"));
    if (lacked) {
      EXPECT_THAT(interposed.err, MatchesRegex("ioweave: [0-9]+ calls? in .* for want of room: .*"
                                               "IOWEAVE_MAX_PAUSED=N[^\n]*\n"));
      interposed.err.clear();
    }
    expect_same(plain, interposed);
    EXPECT_GE(report().pauses, 1u);
    EXPECT_LE(report().pauses, kCallsOfIo);
  }
}

TEST_F(TaskPreload, AWantOfRoomIsNotSaidIntoAFileOfTheProgramsOwn) {
  const Finished plain = without(alpi("closes"));
  const Finished interposed = with(alpi("closes"), {"IOWEAVE_MAX_PAUSED=1"});
  expect_same(plain, interposed);
  EXPECT_THAT(plain.out, EndsWith("\n2\n"));
  std::ifstream own(file_ + ".own");
  EXPECT_EQ(own.peek(), std::ifstream::traits_type::eof());
}

TEST_F(TaskPreload, ErrorsAndErrnoAreThoseOfTheCall) {
  const Finished plain = without(alpi("errors"));
  const Finished interposed = with(alpi("errors"));
  expect_same(plain, interposed);
}

TEST_F(TaskPreload, ASignalHandlerIsNotPaused) {
  const Finished plain = without(alpi("signal"));
  const Finished interposed = with(alpi("signal"));
  expect_same(plain, interposed);
  EXPECT_EQ(report().pauses, 2u);  // before and after, not in the handler
}

TEST_F(TaskPreload, TheLimitOnFilesSignalsTheTasksThread) {
  const std::string script =
      "ulimit -f 4096; exec " + std::string(IOWEAVE_ALPI_IO) + " limit " + file_;
  const Finished plain = without({"/bin/sh", "-c", script});
  const Finished interposed = with({"/bin/sh", "-c", script});
  expect_same(plain, interposed);
  EXPECT_THAT(plain.out, HasSubstr("-1 27 1"));  // EFBIG, and told
}

TEST_F(TaskPreload, AForkedChildReportsNothing) {
  const Finished plain = without(alpi("fork"));
  const Finished interposed = with(alpi("fork"));
  expect_same(plain, interposed);
  EXPECT_EQ(report().lines, 1);
  EXPECT_EQ(report().pauses, 2u);
  expect_same(plain, with(alpi("fork"), {"IOWEAVE_TASKS=none"}));
  EXPECT_EQ(report().lines, 1);
}

TEST_F(TaskPreload, SettingsAreThoseOfTheStartInAForkedChildToo) {
  const Finished plain = without(alpi("daemon"));
  RunOptions options;
  options.interposed = false;
  options.work_directory = dir_.path();
  options.environment = {"IOWEAVE_TASK_REPORT=report", "IOWEAVE_TASK_REAPER=task",
                         "LD_PRELOAD=" IOWEAVE_TASKS_LIBRARY};
  expect_same(plain, ioweave::testing::run(options, alpi("daemon")));
  EXPECT_EQ(report().lines, 1);
  EXPECT_GE(report().pauses, kPausesOfIo);
  expect_same(plain, with(alpi("daemon"), {"IOWEAVE_TASKS=none"}));
  EXPECT_THAT(report().last, HasSubstr("IOWEAVE_TASKS is none"));
}

TEST_F(TaskPreload, AWrongSettingIsNotSaidIntoAFileOfTheProgramsOwn) {
  const Finished plain = without(alpi("daemon"));
  expect_same(plain, with(alpi("daemon"), {"IOWEAVE_TASKS=alp", "IOWEAVE_MAX_PAUSED=0"}));
  EXPECT_GE(report().pauses, kPausesOfIo);
  std::ifstream own(file_ + ".own");
  EXPECT_EQ(own.peek(), std::ifstream::traits_type::eof());
}

// As of the interposer, who might have set them is not the one whose rights the program has.
TEST_F(TaskPreload, AProgramWithRightsOfOthersTakesNoSettings) {
  const std::string program = dir_ / "program";
  std::filesystem::copy_file(IOWEAVE_ALPI_IO_LINKED, program);
  struct statvfs place {};
  if (geteuid() != 0 || chown(program.c_str(), static_cast<uid_t>(-1), 65534) != 0 ||
      chmod(program.c_str(), 02755) != 0 || statvfs(program.c_str(), &place) != 0 ||
      (place.f_flag & ST_NOSUID) != 0) {
    GTEST_SKIP() << "no program with the rights of another group can be made here";
  }
  const Finished plain = without(alpi("io"));
  expect_same(plain, with({program, "io", file_}, {"IOWEAVE_TASKS=alp"}, ""));
  EXPECT_EQ(report().lines, 0);
}

TEST_F(TaskPreload, OutsideTasksNothingChanges) {
  const Finished plain = without(alpi("plain"));
  const Finished interposed = with(alpi("plain"));
  expect_same(plain, interposed);
  EXPECT_EQ(report().pauses, 0u);
}

TEST_F(TaskPreload, AProgramWithoutTasksIsLeftAlone) {
  const std::vector<std::string> command{"/bin/sh", "-c",
                                         "dd if=" + file_ + " bs=4k 2>/dev/null | cksum; exit 3"};
  const Finished plain = without(command);
  const Finished interposed = with(command);
  expect_same(plain, interposed);
  EXPECT_EQ(report().lines, 0);
}

TEST_F(TaskPreload, SettingsThatAreWrongAreNamedWithTheNearest) {
  const Finished plain = without(alpi("io"));
  const Finished interposed =
      with(alpi("io"), {"IOWEAVE_TASKS=alp", "IOWEAVE_TASK_REAPER=taks", "IOWEAVE_MAX_PAUSED=0"});
  EXPECT_EQ(interposed.out, plain.out);
  EXPECT_EQ(interposed.status, plain.status);
  EXPECT_THAT(interposed.err, HasSubstr("IOWEAVE_TASKS=alp is ignored: did you mean alpi?"));
  EXPECT_THAT(interposed.err, HasSubstr("IOWEAVE_TASK_REAPER=taks is ignored: did you mean task?"));
  EXPECT_THAT(interposed.err, HasSubstr("IOWEAVE_MAX_PAUSED=0 is ignored: it is a number from 1"));
  EXPECT_GE(report().pauses, kPausesOfIo);
}

TEST_F(TaskPreload, ARuntimeThatIsNotThereIsNamed) {
  const Finished plain = without(alpi("io"));
  const Finished interposed = with(alpi("io"), {"IOWEAVE_TASKS=tbb"});
  EXPECT_EQ(interposed.out, plain.out);
  EXPECT_THAT(interposed.err, HasSubstr("I/O in tasks stays plain: oneTBB is not loaded"));
  EXPECT_THAT(report().last, AllOf(HasSubstr("\"tasks\":\"none\""), HasSubstr("oneTBB is not")));
  expect_same(plain, with(alpi("io"), {"IOWEAVE_TASKS=none"}));
  EXPECT_EQ(report().lines, 1);
  EXPECT_THAT(report().last, HasSubstr("IOWEAVE_TASKS is none"));
}

TEST_F(TaskPreload, WithoutARuntimeTheReportSaysWhyAndNothingElseDoes) {
  const std::vector<std::string> command{
      "/bin/sh", "-c", "dd if=" + file_ + " of=" + file_ + ".copy conv=fsync 2>/dev/null; exit 3"};
  const Finished plain = without(command);
  const Finished interposed = with(command);
  expect_same(plain, interposed);
  EXPECT_EQ(report().lines, 1);
  EXPECT_THAT(report().last,
              AllOf(HasSubstr("\"tasks\":\"none\""), HasSubstr("\"why\":\"no ALPI runtime")));
}

TEST_F(TaskPreload, ARuntimeMayBeCalledByItsName) {
  const Finished plain = without(alpi("io"));
  expect_same(plain, with(alpi("io"), {"IOWEAVE_TASKS=nosv"}));
  EXPECT_GE(report().pauses, kPausesOfIo);
}

TEST_F(TaskPreload, AReportThatCannotBeWrittenIsSaid) {
  const Finished plain = without(alpi("io"));
  RunOptions options;
  options.interposed = false;
  options.environment = {"IOWEAVE_TASK_REPORT=/nonexistent/report",
                         "LD_PRELOAD=" IOWEAVE_TASKS_LIBRARY};
  const Finished interposed = ioweave::testing::run(options, alpi("io"));
  EXPECT_EQ(interposed.out, plain.out);
  EXPECT_EQ(interposed.status, plain.status);
  EXPECT_THAT(interposed.err, HasSubstr("/nonexistent/report could not be written"));
}

// What a program binds itself goes through libioweave.so.
TEST_F(TaskPreload, WhatAProgramBindsIsReportedWhereItClosesTheService) {
  const std::vector<std::string> command{IOWEAVE_BOUND_IO, file_};
  const Finished plain = without(command);
  expect_same(plain, with(command, {}, ""));
  EXPECT_EQ(report().lines, 1);
  EXPECT_EQ(report().bound, kTasks);
  EXPECT_THAT(report().tasks, HasSubstr("ALPI 1.2"));
  expect_same(plain, with(command));
  EXPECT_EQ(report().lines, 2);  // and one of what the preload paused
  EXPECT_EQ(report().bound, kTasks);
  EXPECT_EQ(report().pauses, 1u);
}

TEST_F(TaskPreload, ItWorksBesideIoweaveRun) {
  const Finished plain = without(alpi("io"));
  const std::string both[] = {IOWEAVE_TASKS_LIBRARY ":" IOWEAVE_PRELOAD_LIBRARY,
                              IOWEAVE_PRELOAD_LIBRARY ":" IOWEAVE_TASKS_LIBRARY};
  for (const config::RunPolicy policy :
       {config::RunPolicy::off, config::RunPolicy::overlap, config::RunPolicy::sync}) {
    for (const std::string& libraries : both) {
      std::remove(report_.c_str());
      RunOptions options = ioweave::testing::with_policy(policy);
      options.environment = {"IOWEAVE_TASK_REPORT=" + report_, "LD_PRELOAD=" + libraries};
      const Finished interposed = ioweave::testing::run(options, alpi("io"));
      SCOPED_TRACE(libraries + ", policy " + std::to_string(static_cast<int>(policy)));
      expect_same(plain, interposed);
      EXPECT_NE(interposed.image("task_program_alpi"), nullptr);
    }
  }
}

#ifdef IOWEAVE_TBB_IO
TEST_F(TaskPreload, TasksOfTbbArePausedWhereItIsAskedFor) {
  const std::vector<std::string> command{IOWEAVE_TBB_IO, file_};
  const Finished plain = without(command);
  expect_same(plain, with(command, {"IOWEAVE_TASKS=tbb"}));
  EXPECT_THAT(plain.out, HasSubstr("128 refused"));
  EXPECT_THAT(report().tasks, HasSubstr("oneTBB"));
  EXPECT_EQ(report().pauses, 256u);
  expect_same(plain, with(command));  // not by itself
  EXPECT_EQ(report().pauses, 0u);
  EXPECT_THAT(report().tasks, HasSubstr("none"));
}
#endif

}  // namespace
}  // namespace ioweave::test
