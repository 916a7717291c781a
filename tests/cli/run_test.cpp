// `ioweave run` and `ioweave stat` from the outside, with the fabricated interposer.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/command_runner.hpp"
#include "stats/run_file.hpp"
#include "stats/text_file.hpp"
#include "support/seccomp.hpp"

namespace ioweave::cli::test {
namespace {

using ioweave::test::read_text;
using ioweave::test::TempDir;
using ioweave::test::write_text;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

Ran shell(const std::string& script, Surroundings how = {}) {
  return run_ioweave({"run", "--", "/bin/sh", "-c", script}, std::move(how));
}

/// Run directories go to a folder of the test's own.
Surroundings with_runtime(const TempDir& folder) {
  Surroundings how;
  how.variables = {{"XDG_RUNTIME_DIR", folder.path()}};
  return how;
}

size_t occurrences(const std::string& text, const std::string& of) {
  size_t count = 0;
  for (size_t at = text.find(of); at != std::string::npos; at = text.find(of, at + 1)) ++count;
  return count;
}

/// Waits until it holds, or in vain for as long as no machine should take.
template <class Holds>
bool comes_true(Holds holds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    usleep(2000);
  }
  return true;
}

size_t entries(const std::string& path) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path), {}));
}

// ---- Exit codes ---------------------------------------------------------------------------------

TEST(Run, PassesTheExitCodeOn) {
  EXPECT_EQ(shell("exit 0").code, 0);
  EXPECT_EQ(shell("exit 7").code, 7);
  EXPECT_EQ(shell("exit 255").code, 255);
}

TEST(Run, ASignalThatKillsTheProgramIs128More) {
  const Ran ran = shell("kill -KILL $$");
  EXPECT_EQ(ran.code, 137);
  EXPECT_THAT(ran.err, HasSubstr("(killed by SIGKILL)"));
}

TEST(Run, AMissingProgramIs127) {
  const Ran ran = run_ioweave({"run", "--", "nonexistent-program"});
  EXPECT_EQ(ran.code, 127);
  EXPECT_THAT(ran.err, HasSubstr("'nonexistent-program' was not found in PATH"));
  EXPECT_EQ(run_ioweave({"run", "/nonexistent/x"}).code, 127);
}

TEST(Run, AProgramInTheWorkingDirectoryIsPointedOut) {
  const TempDir folder;
  chmod(write_text(folder, "my-tool", "#!/bin/sh\n").c_str(), 0755);
  Surroundings how;
  how.directory = folder.path();
  EXPECT_THAT(run_ioweave({"run", "my-tool"}, how).err, HasSubstr("write ./my-tool"));
}

TEST(Run, AFileTakenForTheProgramBehindJsonIsPointedOut) {
  const Ran ran = run_ioweave({"run", "--json", "out.json", "--", "true"});
  EXPECT_EQ(ran.code, 127);
  EXPECT_THAT(ran.err, HasSubstr("'out.json' was not found in PATH; did you mean "
                                 "--json=out.json?"));
  EXPECT_THAT(run_ioweave({"run", "--json", "--", "nonexistent-program"}).err,
              Not(HasSubstr("did you mean")));
}

TEST(Run, AForgottenRunFileStartsNothing) {
  const TempDir folder;
  Surroundings how;
  how.directory = folder.path();
  EXPECT_EQ(run_ioweave({"run", "-o", "--", "touch", "mark"}, how).code, 125);
  EXPECT_EQ(entries(folder.path()), 0u);
}

TEST(Run, HelpShowsThatJsonTakesAFileBehindAnEqualsSign) {
  EXPECT_THAT(run_ioweave({"run", "--help"}).out, HasSubstr("  --json[=FILE]  "));
}

TEST(Run, WhatCannotBeExecutedIs126) {
  const TempDir folder;
  const std::string path = write_text(folder, "data", "text");
  const Ran ran = run_ioweave({"run", path});
  EXPECT_EQ(ran.code, 126);
  EXPECT_THAT(ran.err, HasSubstr("chmod +x"));
  EXPECT_THAT(run_ioweave({"run", folder.path()}).err, HasSubstr("is a directory"));
}

TEST(Run, AnEmptyNameIs127) {
  const Ran ran = run_ioweave({"run", "--", ""});
  EXPECT_EQ(ran.code, 127);
  EXPECT_THAT(ran.err, HasSubstr("name is empty"));
}

TEST(Run, AMissingInterpreterIsNamedAsThat) {
  const TempDir folder;
  const std::string path = write_text(folder, "script", "#!/nonexistent/interpreter\n");
  chmod(path.c_str(), 0755);
  const Ran ran = run_ioweave({"run", path});
  EXPECT_EQ(ran.code, 127);
  EXPECT_THAT(ran.err, HasSubstr("interpreter or loader"));
}

TEST(Run, AnEmptyFileRunsAsTheShellWouldRunIt) {
  const TempDir folder;
  const std::string path = write_text(folder, "empty", "");
  chmod(path.c_str(), 0755);
  EXPECT_EQ(run_ioweave({"run", path}).code, 0);
}

TEST(Run, AWrongCommandLineIs125AndStartsNothing) {
  const TempDir folder;
  const std::string mark = folder.file("mark");
  const Ran ran = run_ioweave({"run", "--polcy=off", "touch", mark});
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, HasSubstr("did you mean '--policy'?"));
  EXPECT_FALSE(std::filesystem::exists(mark));
}

TEST(Run, AMissingInterposerIs125WithTheRemedy) {
  Surroundings how;
  how.variables = {{"IOWEAVE_PRELOAD_PATH", "/nonexistent/x.so"}};
  const Ran ran = run_ioweave({"run", "true"}, how);
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, HasSubstr("Correct or unset IOWEAVE_PRELOAD_PATH"));
}

// ---- What the program inherits ------------------------------------------------------------------

TEST(Run, LeavesTheStandardStreamsToTheProgram) {
  const Ran ran = run_ioweave({"run", "-q", "--", "/bin/sh", "-c", "echo out; echo err >&2"});
  EXPECT_EQ(ran.out, "out\n");
  EXPECT_EQ(ran.err, "err\n");
}

TEST(Run, TheSummaryGoesToStandardErrorOnly) {
  const Ran ran = shell("echo out");
  EXPECT_EQ(ran.out, "out\n");
  EXPECT_THAT(ran.err, HasSubstr("exposed"));
}

TEST(Run, LeaksNoDescriptor) {
  const std::string script = "for f in /proc/self/fd/*; do echo ${f##*/}; done";
  const Ran plain = run_any({"/bin/sh", "-c", script});
  const Ran followed = run_ioweave({"run", "-q", "--", "/bin/sh", "-c", script});
  EXPECT_EQ(followed.out, plain.out);
}

TEST(Run, ClosedStandardStreamsStayClosed) {
  Surroundings how;
  how.in_child = [] {
    close(STDIN_FILENO);
    close(STDERR_FILENO);
  };
  const Ran ran = shell("cd /proc/$$/fd && test ! -e 0 && test ! -e 2 && echo closed", how);
  EXPECT_EQ(ran.out, "closed\n");
  EXPECT_EQ(ran.code, 0);
}

TEST(Run, AddsThreeVariablesAndTouchesNoOther) {
  Surroundings how;
  how.variables = {{"LD_PRELOAD", IOWEAVE_OTHER_PRELOAD}};
  const Ran followed = run_ioweave({"run", "-q", "--", "/usr/bin/env", "-0"}, how);
  const std::string text = followed.out;
  EXPECT_THAT(text, HasSubstr("LD_PRELOAD=" IOWEAVE_FAKE_PRELOAD ":" IOWEAVE_OTHER_PRELOAD));
  EXPECT_THAT(text, HasSubstr("IOWEAVE_RUN_DIR="));
  EXPECT_THAT(text, HasSubstr(std::string("ASAN_OPTIONS=verify_asan_link_order=0") + '\0'));
  for (const char* const set_by_the_test : {"HOME", "ASAN_OPTIONS", "IOWEAVE_PRELOAD_PATH"}) {
    how.variables.emplace_back(set_by_the_test, "x");
  }
  const Ran plain = run_any({"/usr/bin/env", "-0"}, how);
  EXPECT_EQ(std::ranges::count(text, '\0'), std::ranges::count(plain.out, '\0') + 1);
}

TEST(Run, AddsToOptionsOfTheSanitizerThatAreThere) {
  Surroundings how;
  how.variables = {{"ASAN_OPTIONS", "handle_abort=0"}};
  const Ran ran = run_ioweave({"run", "-q", "--", "/bin/sh", "-c", "echo $ASAN_OPTIONS"}, how);
  EXPECT_EQ(ran.out, "handle_abort=0:verify_asan_link_order=0\n");
}

TEST(Run, AProgramOfAnotherCLibraryGetsNoVariables) {
  // A shell whose loader is called otherwise.
  std::string folder = "/tmp/iXXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::string bytes = read_text("/bin/sh");
  const size_t at = bytes.find("/ld-linux");
  ASSERT_NE(at, std::string::npos);
  const size_t begin = bytes.rfind('\0', at) + 1;
  const std::string real = bytes.c_str() + begin;
  std::string other = folder + "/ld-musl";
  if (other.size() <= real.size()) {
    std::filesystem::create_symlink(real, other);
    other.resize(real.size(), '\0');
    bytes.replace(begin, real.size(), other);
    const TempDir place;
    const std::string program = write_text(place, "program", bytes);
    chmod(program.c_str(), 0755);
    const Ran ran =
        run_ioweave({"run", program, "-c", "echo \"<$LD_PRELOAD$IOWEAVE_RUN_DIR>\"; exit 3"});
    EXPECT_EQ(ran.code, 3);
    EXPECT_EQ(ran.out, "<>\n");
    EXPECT_THAT(ran.err, HasSubstr("uses another C library"));
  }
  std::filesystem::remove_all(folder);
  if (other.size() > real.size()) GTEST_SKIP() << "the loader's path is too short";
}

TEST(Run, ARunWithinARunPreloadsOnce) {
  const Ran ran = run_ioweave(
      {"run", "-q", "--", IOWEAVE_COMMAND, "run", "-q", "--", "/bin/sh", "-c", "echo $LD_PRELOAD"});
  EXPECT_EQ(ran.out, IOWEAVE_FAKE_PRELOAD "\n");
}

TEST(Run, ArgumentsArriveAsTheyAre) {
  const Ran ran = run_ioweave({"run", "-q", "printf", "[%s]", "a b", "", "--policy", "-q", "\n*"});
  EXPECT_EQ(ran.out, "[a b][][--policy][-q][\n*]");
}

TEST(Run, SignalMaskAndDispositionsAreInherited) {
  Surroundings how;
  how.in_child = [] {
    signal(SIGHUP, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, nullptr);
  };
  const std::vector<std::string> print{"/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"};
  std::vector<std::string> words{"run", "-q", "--"};
  words.insert(words.end(), print.begin(), print.end());
  EXPECT_EQ(run_ioweave(words, how).out, run_any(print, how).out);
}

TEST(Run, AnIgnoredSigchldDoesNotLoseTheExitCode) {
  Surroundings how;
  how.in_child = [] { signal(SIGCHLD, SIG_IGN); };
  EXPECT_EQ(shell("exit 5", how).code, 5);
}

TEST(Run, ArgumentsThatLeaveNoRoomAreRunWithoutTheInterposer) {
  // One argument may have 128 KiB; all together with the environment a quarter of the stack limit.
  Surroundings how;
  how.in_child = [] {
    const rlimit limit{512 << 10, RLIM_INFINITY};
    setrlimit(RLIMIT_STACK, &limit);
    clearenv();
    setenv("IOWEAVE_PRELOAD_PATH", IOWEAVE_FAKE_PRELOAD, 1);
  };
  bool found = false;
  // The command itself needs some twenty bytes more for its own words than the program.
  for (size_t length = 131'000; length > 130'000 && !found; length -= 8) {
    const Ran ran = run_ioweave({"run", "/bin/true", std::string(length, 'x')}, how);
    if (ran.code == 98) continue;  // the command itself had no room
    ASSERT_EQ(ran.code, 0) << ran.err;
    found = true;
    EXPECT_THAT(ran.err, HasSubstr("the arguments leave no room"));
  }
  EXPECT_TRUE(found);
}

TEST(Run, TheCommandIsItsParent) {
  pid_t command = 0;
  Surroundings how;
  how.meanwhile = [&](pid_t pid) { command = pid; };
  const Ran ran = shell("echo $PPID", how);
  EXPECT_EQ(ran.out, std::to_string(command) + "\n");
}

TEST(Run, ProcessesThatItLeavesBehindGoOn) {
  const TempDir folder;
  const std::string mark = folder.file("mark");
  const std::string go = folder.file("go");
  EXPECT_EQ(
      shell("(while ! test -e " + go + "; do sleep 0.02; done; touch " + mark + ") & exit 4").code,
      4);
  EXPECT_FALSE(std::filesystem::exists(mark));
  write_text(folder, "go", "");
  EXPECT_TRUE(comes_true([&] { return std::filesystem::exists(mark); }));
}

// ---- Signals ------------------------------------------------------------------------------------

void send_when_ready(const std::string& ready, pid_t pid, int number) {
  while (!std::filesystem::exists(ready)) usleep(2000);
  kill(pid, number);
}

TEST(Run, PassesOnWhatSomebodySendsToIt) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    const TempDir folder;
    const std::string ready = folder.file("ready");
    Surroundings how;
    how.meanwhile = [&](pid_t pid) { send_when_ready(ready, pid, number); };
    const Ran ran = shell("trap 'echo caught; exit 3' TERM INT HUP QUIT USR1 USR2; touch " + ready +
                              "; while :; do sleep 0.02; done",
                          how);
    EXPECT_EQ(ran.code, 3) << number;
    EXPECT_EQ(ran.out, "caught\n") << number;
    EXPECT_THAT(ran.err, HasSubstr("exposed")) << "the summary comes all the same";
  }
}

TEST(Run, SignalsThatTheProgramSendsItselfAreNotDoubled) {
  const Ran ran = shell("n=0; trap 'n=$((n+1))' USR1; kill -USR1 $PPID; sleep 0.2; echo $n");
  EXPECT_EQ(ran.out, "0\n");
}

TEST(Run, CtrlCReachesTheProgramOnceAndTheCommandWaits) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) {
    GTEST_SKIP() << "no pseudo terminals here";
  }
  const std::string name = ptsname(terminal);
  const TempDir folder;
  const std::string ready = folder.file("ready");
  Surroundings how;
  how.in_child = [&] {
    signal(SIGINT, SIG_DFL);
    setsid();
    dup2(open(name.c_str(), O_RDWR), STDIN_FILENO);
    ioctl(STDIN_FILENO, TIOCSCTTY, 0);
  };
  how.meanwhile = [&](pid_t) {
    EXPECT_TRUE(comes_true([&] { return std::filesystem::exists(ready); }));
    EXPECT_EQ(write(terminal, "\x03", 1), 1);
  };
  const Ran ran = shell("n=0; trap 'n=$((n+1))' INT; test -t 0 && touch " + ready +
                            "; i=0; while test $n = 0 && test $i -lt 500; do i=$((i+1)); "
                            "sleep 0.02; done; sleep 0.2; echo $n; exit 3",
                        how);
  close(terminal);
  EXPECT_EQ(ran.code, 3);
  EXPECT_EQ(ran.out, "1\n");
  EXPECT_THAT(ran.err, HasSubstr("exposed")) << "the summary comes all the same";
}

/// The letter that ps(1) shows.
char state_of(pid_t process) {
  const std::string text = read_text("/proc/" + std::to_string(process) + "/stat");
  const size_t at = text.rfind(") ");
  return at == std::string::npos ? '-' : text[at + 2];
}

TEST(Run, StopsWithItsGroupAndPassesContinueOn) {
  const TempDir folder;
  Surroundings how;
  how.in_child = [] {
    signal(SIGTSTP, SIG_DFL);
    setpgid(0, 0);
  };
  how.meanwhile = [&](pid_t command) {
    while (!std::filesystem::exists(folder.file("ready"))) usleep(2000);
    const pid_t program = std::stoi(read_text(folder.file("ready")));
    EXPECT_TRUE(comes_true([&] { return state_of(program) == 'S'; }));  // it sleeps
    kill(-command, SIGTSTP);  // as a terminal does on Ctrl-Z
    EXPECT_TRUE(comes_true([&] { return state_of(command) == 'T'; }));
    EXPECT_TRUE(comes_true([&] { return state_of(program) == 'T'; }));
    kill(command, SIGCONT);
    EXPECT_TRUE(comes_true([&] { return state_of(program) != 'T'; }));
    kill(program, SIGCONT);
    kill(program, SIGTERM);
  };
  const Ran ran = shell("echo $$ >" + folder.file("new") + "; mv " + folder.file("new") + " " +
                            folder.file("ready") + "; exec sleep 20",
                        how);
  EXPECT_EQ(ran.code, 128 + SIGTERM);
}

// ---- What it takes ------------------------------------------------------------------------------

double processor_seconds_of_children() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(Run, LookingAtManyFilesTakesLittleOfAProcessor) {
  const TempDir folder;
  const std::string path = write_text(folder, "data", std::string(1 << 20, 'x'));
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  // The command opens what tells of each as well.
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4000);
  const rlim_t files = limit.rlim_cur / 3;
  Surroundings how;
  how.in_child = [&] {
    setrlimit(RLIMIT_NOFILE, &limit);
    for (rlim_t i = 0; i < files; ++i) (void)open(path.c_str(), O_RDONLY);
  };
  const auto seconds_of = [&](const char* policy) {
    const double before = processor_seconds_of_children();
    EXPECT_EQ(run_ioweave({"run", "-q", "--policy", policy, "/bin/sleep", "3"}, how).code, 0);
    return processor_seconds_of_children() - before;
  };
  // 2 % of it for processes and files, 5 % for positions, a first scan, and what was begun last.
  EXPECT_LE(seconds_of("overlap") - seconds_of("off"), 0.07 * 3 + 0.1);
}

// ---- Reports ------------------------------------------------------------------------------------

TEST(Run, TheFiguresAreThoseOfTheSegments) {
  const Ran ran = run_ioweave({"run", "/bin/true"});
  EXPECT_THAT(ran.err, HasSubstr("I/O time        0.750 s   read 1.0 GiB, written 1.0 MiB"));
  EXPECT_THAT(ran.err, HasSubstr("exposed         0.750 s"));
  EXPECT_THAT(ran.err, HasSubstr("/data/output.bin"));
  EXPECT_THAT(ran.err, HasSubstr("O_APPEND"));
}

TEST(Run, WallAndProcessorTimeAreThoseOfTheProgramAndItsChildren) {
  const TempDir folder;
  const std::string file = folder.file("run.jsonl");
  const Ran ran = run_ioweave({"run", "-o", file, "--", "/bin/sh", "-c",
                               "(n=0; while test $n -lt 200000; do n=$((n+1)); done); sleep 0.3"});
  EXPECT_THAT(ran.err, HasSubstr("  wall "));
  EXPECT_THAT(ran.err, HasSubstr(" s   CPU "));
  stats::RunReport report;
  std::string why;
  ASSERT_TRUE(stats::read_run_file(file, report, why)) << why;
  const double cpu = report.outcome.user_seconds + report.outcome.system_seconds;
  EXPECT_GT(cpu, 0.02);
  EXPECT_GT(report.outcome.wall_seconds, 0.3 + 0.02);
}

TEST(Run, VerboseListsMoreAndTwiceEverything) {
  Surroundings how;
  how.variables = {{"FAKE_PRELOAD_FILES", "130"}};
  const auto small_files = [&](std::vector<std::string> words) {
    words.emplace_back("/bin/true");
    return occurrences(run_ioweave(words, how).err, "/small/");
  };
  // Two larger ones are listed first.
  EXPECT_EQ(small_files({"run"}), 0u);
  EXPECT_EQ(small_files({"run", "-v"}), 18u);
  EXPECT_EQ(small_files({"run", "-vv"}), 130u);
  EXPECT_EQ(small_files({"stat"}), 8u);
  EXPECT_EQ(small_files({"stat", "-v"}), 98u);
  EXPECT_EQ(small_files({"stat", "-vv"}), 130u);
  const TempDir folder;
  (void)run_ioweave({"run", "-q", "-o", folder.file("x"), "/bin/true"}, how);
  EXPECT_EQ(occurrences(run_ioweave({"report", folder.file("x")}).out, "/small/"), 0u);
  EXPECT_EQ(occurrences(run_ioweave({"report", "-v", folder.file("x")}).out, "/small/"), 130u);
}

TEST(Run, AKilledProgramStillHasFigures) {
  Surroundings how;
  how.variables = {{"FAKE_PRELOAD_STATE", "running"}};
  const TempDir folder;
  const std::string file = folder.file("run.jsonl");
  EXPECT_EQ(run_ioweave({"run", "-o", file, "--", "/bin/sh", "-c", "kill -9 $$"}, how).code, 137);
  stats::RunReport report;
  std::string why;
  ASSERT_TRUE(stats::read_run_file(file, report, why)) << why;
  ASSERT_EQ(report.processes.size(), 1u);
  EXPECT_EQ(report.processes[0].end, stats::ProcessReport::End::killed);
  EXPECT_EQ(report.outcome.signal, SIGKILL);
}

TEST(Run, ItsFileIsReportedAsTheRunWas) {
  const TempDir folder;
  const std::string file = folder.file("run.jsonl");
  const Ran ran = run_ioweave({"run", "-o", file, "/bin/true"});
  const Ran reported = run_ioweave({"report", file});
  EXPECT_EQ(reported.code, 0);
  EXPECT_EQ(reported.out, ran.err);
  const Ran missing = run_ioweave({"report", folder.file("none.jsonl")});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("none.jsonl: No such file"));
}

TEST(Run, TheRunFileIsWholeAndReadable) {
  const TempDir folder;
  const std::string file = folder.file("run.jsonl");
  const Ran ran =
      run_ioweave({"run", "-q", "-o", file, "--lookahead", "2m", "--rule", "*.x=off", "/bin/true"});
  EXPECT_THAT(ran.err, IsEmpty());
  stats::RunReport report;
  std::string why;
  ASSERT_TRUE(stats::read_run_file(file, report, why)) << why;
  EXPECT_EQ(report.command, std::vector<std::string>{"/bin/true"});
  EXPECT_EQ(report.config.lookahead_bytes, 2u << 20);
  EXPECT_STREQ(report.config.rule[0].glob, "/**/*.x");
  EXPECT_DOUBLE_EQ(report.totals.exposed_seconds, 0.75);
  EXPECT_GT(report.outcome.wall_seconds, 0);
  EXPECT_FALSE(report.machine.kernel.empty());
  EXPECT_FALSE(report.files.at(0).file_system.empty());
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(Run, AKilledCommandLeavesTheEarlierRunFileAndItsProgramGoesOn) {
  const TempDir folder;
  const std::string file = folder.file("run.jsonl");
  ASSERT_EQ(run_ioweave({"run", "-q", "-o", file, "/bin/true"}).code, 0);
  const std::string before = read_text(file);
  Surroundings how;
  how.meanwhile = [&](pid_t command) {
    EXPECT_TRUE(comes_true([&] { return std::filesystem::exists(folder.file("ready")); }));
    kill(command, SIGKILL);
  };
  const Ran ran = run_ioweave({"run", "-o", file, "--", "/bin/sh", "-c",
                               "cd " + folder.path() +
                                   "; touch ready; while ! test -e go; do "
                                   "sleep 0.02; done; touch mark"},
                              how);
  EXPECT_EQ(ran.code, 128 + SIGKILL);
  EXPECT_FALSE(std::filesystem::exists(folder.file("mark"))) << "the program waits";
  write_text(folder, "go", "");
  EXPECT_TRUE(comes_true([&] { return std::filesystem::exists(folder.file("mark")); }));
  EXPECT_EQ(read_text(file), before);
  EXPECT_EQ(entries(folder.path()), 4u) << "nothing beside ready, go, mark and the run file";
}

TEST(Run, ACommandThatIsKilledWhileItWritesLeavesTheEarlierRunFileWhole) {
  const TempDir folder;
  const std::string file = folder.file("run.jsonl");
  ASSERT_EQ(run_ioweave({"run", "-q", "-o", file, "/bin/true"}).code, 0);
  const std::string before = read_text(file);
  Surroundings before_sync;
  before_sync.in_child = [] {
    if (!ioweave::test::die_at_syscall(SYS_fsync)) _exit(77);
  };
  Surroundings before_rename;
  before_rename.in_child = [] {
    bool dies =
        ioweave::test::die_at_syscall(SYS_renameat2) && ioweave::test::die_at_syscall(SYS_renameat);
#if defined(SYS_rename)
    dies = dies && ioweave::test::die_at_syscall(SYS_rename);
#endif
    if (!dies) _exit(77);
  };
  for (const Surroundings& how : {before_sync, before_rename}) {
    const std::vector<std::string> words{"run", "-q", "-o", file, "--", "/bin/sh", "-c", "exit 3"};
    const Ran ran = run_ioweave(words, how);
    if (ran.code == 77) GTEST_SKIP() << "no seccomp filters here";
    EXPECT_EQ(ran.code, 128 + SIGSYS) << ran.err;
    EXPECT_EQ(read_text(file), before);
    const std::string fresh = folder.file("fresh.jsonl");
    EXPECT_EQ(run_ioweave({"run", "-q", "-o", fresh, "/bin/true"}, how).code, 128 + SIGSYS);
    EXPECT_FALSE(std::filesystem::exists(fresh)) << "whole or not there";
  }
}

TEST(Run, ARunFileThatCannotBeWrittenIsSaidAndTheExitCodeStays) {
  const Ran full = run_ioweave({"run", "-o", "/dev/full", "--", "/bin/sh", "-c", "exit 4"});
  EXPECT_EQ(full.code, 4);
  EXPECT_THAT(full.err, HasSubstr("/dev/full was not written: No space left on device"));
  const Ran absent = run_ioweave({"run", "-o", "/nonexistent/x", "--", "/bin/sh", "-c", "exit 4"});
  EXPECT_EQ(absent.code, 4);
  EXPECT_THAT(absent.err, HasSubstr("warning: /nonexistent/x cannot be written"));
}

TEST(Run, JsonReplacesTheText) {
  const Ran ran = run_ioweave({"run", "--json", "--", "/bin/true"});
  const auto json = nlohmann::json::parse(ran.err);
  EXPECT_EQ(json["schema"], "ioweave.run/2");
  EXPECT_DOUBLE_EQ(json["summary"]["exposed_s"].get<double>(), 0.75);
  EXPECT_EQ(json["files"].size(), 3u);
}

TEST(Run, JsonToAFileLeavesTheText) {
  const TempDir folder;
  const Ran ran = run_ioweave({"run", "--json=" + folder.file("x.json"), "--", "/bin/true"});
  EXPECT_THAT(ran.err, HasSubstr("exposed"));
  EXPECT_EQ(nlohmann::json::parse(read_text(folder.file("x.json")))["type"], "report");
}

TEST(Run, ABadSettingIsAWarningAndTheProgramRuns) {
  const TempDir folder;
  write_text(folder, "ioweave.toml", "policy = \"overlapp\"\nlookahed = \"1m\"\n");
  Surroundings how;
  how.directory = folder.path();
  how.variables = {{"IOWEAVE_ENGINE", "urin"}};
  const Ran ran = run_ioweave({"run", "--", "/bin/sh", "-c", "exit 6"}, how);
  EXPECT_EQ(ran.code, 6);
  EXPECT_THAT(ran.err, HasSubstr("warning: ./ioweave.toml:1: policy 'overlapp' is not known; did "
                                 "you mean 'overlap'?"));
  EXPECT_THAT(ran.err,
              HasSubstr("warning: ./ioweave.toml:2: unknown setting 'lookahed' is ignored; "
                        "did you mean 'lookahead'?"));
  EXPECT_THAT(ran.err, HasSubstr("warning: IOWEAVE_ENGINE: engine 'urin' is not known"));
}

TEST(Run, AnEngineThatNoPolicyUsesIsAWarningUnlessQuiet) {
  const std::vector<std::string> words{"run",      "--policy", "off",
                                       "--engine", "threads",  "/bin/true"};
  EXPECT_THAT(run_ioweave(words).err, HasSubstr("warning: --engine has no effect: policy "
                                                "'off' uses no engine"));
  EXPECT_THAT(run_ioweave({"run", "-q", "--policy", "off", "--engine", "threads", "/bin/true"}).err,
              IsEmpty());
}

TEST(Run, AStaticProgramRunsAndTheSummarySaysWhyNothingWasSeen) {
  const Ran ran = run_ioweave({"run", IOWEAVE_STATIC_PROGRAM, "9"});
  EXPECT_EQ(ran.code, 9);
  EXPECT_THAT(ran.err, HasSubstr("is statically linked"));
  EXPECT_THAT(ran.err, Not(HasSubstr("exposed")));
}

TEST(Run, WhatAStaticProgramStartsIsObserved) {
  const Ran ran = run_ioweave({"run", IOWEAVE_STATIC_PROGRAM, "9", "/bin/true"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.err, HasSubstr("exposed         0.750 s"));
}

TEST(Run, ASetuidProgramAndWhatItStartsAreNotObserved) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const TempDir folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  const std::string env = folder.file("env");
  std::filesystem::copy_file("/usr/bin/env", env);
  ASSERT_EQ(chown(env.c_str(), 65534, 0), 0);
  ASSERT_EQ(chmod(env.c_str(), 04755), 0);
  const Ran ran = run_ioweave({"run", env, "/bin/sh", "-c", "exit 6"});
  EXPECT_EQ(ran.code, 6);
  EXPECT_THAT(ran.err, HasSubstr("setuid"));
  EXPECT_THAT(ran.err, Not(HasSubstr("exposed")));
}

TEST(Stat, IsPolicyOffWithATablePerCallClass) {
  const TempDir folder;
  const std::string file = folder.file("run.jsonl");
  Surroundings how;
  how.variables = {{"IOWEAVE_POLICY", "sync"}};
  const Ran ran = run_ioweave({"stat", "-o", file, "--", "/bin/true"}, how);
  EXPECT_THAT(ran.err, HasSubstr("MB/s"));
  EXPECT_THAT(ran.err, HasSubstr("read   1024  1.0 GiB   1.0 MiB  0.500 s  2147"));
  stats::RunReport report;
  std::string why;
  ASSERT_TRUE(stats::read_run_file(file, report, why)) << why;
  EXPECT_EQ(report.config.policy, config::RunPolicy::off);
  const auto json = nlohmann::json::parse(run_ioweave({"stat", "--json", "/bin/true"}).err);
  EXPECT_EQ(json["type"], "report");
}

// ---- The run directory --------------------------------------------------------------------------

TEST(Run, LeavesNothingBehind) {
  const TempDir folder;
  EXPECT_EQ(shell("exit 0", with_runtime(folder)).code, 0);
  EXPECT_EQ(shell("kill -9 $$", with_runtime(folder)).code, 137);
  EXPECT_EQ(run_ioweave({"run", "nonexistent-program"}, with_runtime(folder)).code, 127);
  EXPECT_EQ(entries(folder.path()), 0u);
}

TEST(Run, WhatAKilledCommandLeavesIsRemovedByTheNextRunThatBeginsAMinuteLater) {
  const TempDir runs;
  const TempDir marks;
  Surroundings how = with_runtime(runs);
  how.meanwhile = [&](pid_t command) {
    EXPECT_TRUE(comes_true([&] { return std::filesystem::exists(marks.file("ready")); }));
    kill(command, SIGKILL);
  };
  const std::string script =
      "cd " + marks.path() + "; touch ready; while ! test -e go; do sleep 0.02; done; touch mark";
  EXPECT_EQ(shell(script, how).code, 128 + SIGKILL);
  write_text(marks, "go", "");
  EXPECT_TRUE(comes_true([&] { return std::filesystem::exists(marks.file("mark")); }));
  ASSERT_EQ(entries(runs.path()), 1u);
  const std::string left = std::filesystem::directory_iterator(runs.path())->path();

  EXPECT_EQ(shell("exit 0", with_runtime(runs)).code, 0);
  EXPECT_TRUE(std::filesystem::exists(left)) << "a run that has just begun looks the same";

  const timespec then{time(nullptr) - 61, 0};
  const timespec times[2]{then, then};
  ASSERT_EQ(utimensat(AT_FDCWD, left.c_str(), times, 0), 0);
  EXPECT_EQ(shell("exit 0", with_runtime(runs)).code, 0);
  EXPECT_EQ(entries(runs.path()), 0u);
}

TEST(Run, KeepsItsDirectoryOnRequest) {
  const TempDir folder;
  const Ran ran = run_ioweave({"run", "--keep-run-dir", "/bin/true"}, with_runtime(folder));
  EXPECT_THAT(ran.err, HasSubstr("the run's directory is kept: " + folder.path()));
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(Run, TakesTheNextPlaceWhereOneCannotBeUsed) {
  Surroundings how;
  how.variables = {{"XDG_RUNTIME_DIR", "/proc"}};
  EXPECT_THAT(run_ioweave({"run", "/bin/true"}, how).err, HasSubstr("exposed"));
}

TEST(Run, PlacesOfTheDirectoryAreTriedInTheirOrder) {
  const TempDir first;
  const TempDir later;
  const std::vector<std::string> words{"run", "-q", "/bin/sh", "-c", "echo $IOWEAVE_RUN_DIR"};
  Surroundings how;
  how.variables = {{"XDG_RUNTIME_DIR", first.path()}, {"TMPDIR", later.path()}};
  EXPECT_THAT(run_ioweave(words, how).out, StartsWith(first.path()));
  how.variables = {{"XDG_RUNTIME_DIR", ""}, {"TMPDIR", later.path()}};
  EXPECT_THAT(run_ioweave(words, how).out, StartsWith("/dev/shm/"));
  how.in_child = [] {
    const bool hidden = unshare(CLONE_NEWNS) == 0 &&
                        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                        mount("none", "/dev/shm", "tmpfs", MS_RDONLY, nullptr) == 0;
    if (!hidden) _exit(77);
  };
  const Ran ran = run_ioweave(words, how);
  if (ran.code == 77) GTEST_SKIP() << "no mount namespace here";
  EXPECT_THAT(ran.out, StartsWith(later.path()));
  how.variables = {{"XDG_RUNTIME_DIR", ""}, {"TMPDIR", "/proc"}};
  EXPECT_THAT(run_ioweave(words, how).out, StartsWith("/tmp/"));
}

TEST(Run, WithoutAPlaceForItTheProgramRunsAndTheReportSaysSo) {
  Surroundings how;
  how.in_child = [] {
    bool refuses = ioweave::test::refuse_syscall(SYS_mkdirat, EACCES);
#if defined(SYS_mkdir)
    refuses = refuses && ioweave::test::refuse_syscall(SYS_mkdir, EACCES);
#endif
    if (!refuses) _exit(77);
  };
  const Ran ran = shell("exit 5", how);
  if (ran.code == 77) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(ran.code, 5);
  EXPECT_THAT(ran.err, HasSubstr("Nothing was observed: no place for the run's directory"));
}

TEST(Run, AFileSizeLimitCostsTheFiguresNotTheProgram) {
  Surroundings how;
  how.in_child = [] {
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  const Ran ran = shell("exit 2", how);
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("limit on file sizes"));
}

TEST(Run, ALibraryPathWithBlanksWorks) {
  const TempDir folder;
  std::filesystem::create_directory(folder.file("my lib"));
  std::filesystem::copy_file(IOWEAVE_FAKE_PRELOAD, folder.file("my lib/x:y.so"));
  Surroundings how;
  how.variables = {{"IOWEAVE_PRELOAD_PATH", folder.file("my lib/x:y.so")}};
  EXPECT_THAT(run_ioweave({"run", "/bin/true"}, how).err, HasSubstr("exposed         0.750 s"));
}

}  // namespace
}  // namespace ioweave::cli::test
