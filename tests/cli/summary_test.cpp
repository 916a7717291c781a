#include "cli/summary.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/format.hpp"
#include "cli/remarks.hpp"
#include "stats/mpiio_report.hpp"

namespace ioweave::cli {
namespace {

using stats::CallClass;
using stats::Degrade;
using stats::FileReport;
using stats::ProcessReport;
using stats::RunReport;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

FileReport file_of(std::string path, Degrade degrade, double seconds,
                   CallClass which = CallClass::read) {
  FileReport file;
  file.path = std::move(path);
  file.degrade = degrade;
  file.call[static_cast<size_t>(which)] = {10, 1u << 20, 0, seconds};
  return file;
}

RunReport report_of(std::vector<FileReport> files) {
  RunReport report;
  report.command = {"app", "in put"};
  report.outcome.wall_seconds = 10;
  ProcessReport process;
  process.pid = 1;
  process.active = true;
  process.end = ProcessReport::End::exited;
  process.program = "/bin/app";
  stats::RunGatherer gatherer;
  gatherer.add(process, std::move(files));
  std::move(gatherer).finish(report);
  return report;
}

Program followed() {
  Program program;
  program.path = "/bin/app";
  return program;
}

FileReport prefetched(uint64_t used) {
  FileReport file = file_of("/in", Degrade::none, 1);
  file.prefetched_bytes = 100;
  file.prefetched_used_bytes = used;
  return file;
}

TEST(Format, BytesAndSharesAndRates) {
  EXPECT_EQ(bytes_text(0), "-");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text((1u << 20) - 1), "1.0 MiB");
  EXPECT_EQ(bytes_text(UINT64_MAX), "16.0 EiB");
  EXPECT_EQ(percent_text(0.774), "77 %");
  EXPECT_EQ(percent_text(0.0042), "0.4 %");
  EXPECT_EQ(percent_text(0), "0 %");
  EXPECT_EQ(percent_text(0.0001), "< 0.1 %");
  EXPECT_EQ(rate_text(1'000'000, 0.5), "2");
  EXPECT_EQ(rate_text(1'000'000, 0), "-");
}

TEST(Format, NamesCannotControlTheTerminal) {
  EXPECT_EQ(shown_name("a\x1b[31mb\nc", 100), "a?[31mb?c");
  EXPECT_EQ(shown_name("\xc2\x9b"
                       "2Jgr\xc3\xbc\xc3\x9f",
                       100),
            "?2Jgr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(shown_name("/very/long/path", 8), ".../path");
  EXPECT_EQ(shown_command({"a", "b c", "it's", ""}, 100), "a 'b c' 'it'\\''s' ''");
  EXPECT_EQ(shown_command({"abcdefgh", "ijkl"}, 10), "abcdefg...");
}

TEST(Format, TextIsBrokenBetweenWords) {
  EXPECT_EQ(wrapped("aa bb cc", 7, 2), "aa bb\n  cc");
  EXPECT_EQ(wrapped("averylongword b", 5, 0), "averylongword\nb");
}

TEST(Summary, IsShortAndNamesTheExposedSeconds) {
  std::vector<FileReport> files;
  files.reserve(50);
  for (int i = 0; i < 50; ++i) {
    files.push_back(file_of("/data/" + std::to_string(i), Degrade::append, 0.01 * i));
  }
  RunReport report = report_of(std::move(files));
  report.remarks = {"One.", "Two.", "Three.", "Four."};
  const std::string text = summary_text(report, {.files = 3, .remarks = 3});
  EXPECT_LT(std::ranges::count(text, '\n'), 16);
  EXPECT_THAT(text, HasSubstr("exposed        12.250 s   summed over threads and processes"));
  EXPECT_THAT(text, HasSubstr("app 'in put'  (exit 0)"));
  EXPECT_THAT(text, HasSubstr("/data/49"));
  EXPECT_THAT(text, Not(HasSubstr("/data/46 ")));
  EXPECT_THAT(text, Not(HasSubstr("Four.")));
}

/// The summary of a run whose wall time is 10 s.
std::string summary_with(double saved_seconds, bool is_compared, double trial_seconds = 0) {
  stats::PrefetchReport prefetch{"/in",        1, 2, 8, 100, 90, saved_seconds, is_compared,
                                 trial_seconds};
  RunReport report;
  report.outcome.wall_seconds = 10;
  ProcessReport process;
  process.active = true;
  stats::RunGatherer gatherer;
  gatherer.add(process, {file_of("/in", Degrade::none, 1)});
  if (is_compared || saved_seconds != 0) gatherer.add(std::move(prefetch));
  std::move(gatherer).finish(report);
  return summary_text(report, {});
}

TEST(Summary, SaysInOneLineWhatWasSavedOrLost) {
  EXPECT_THAT(
      summary_with(3, true),
      HasSubstr("hidden          3.000 s   75 % of the I/O time, 23 % of the time without"));
  EXPECT_THAT(summary_with(-0.12, true),
              HasSubstr("cost            0.120 s   1.2 % of the time without prefetching"));
  EXPECT_THAT(summary_with(1, false), HasSubstr("hidden        not known"));
  EXPECT_THAT(summary_with(0, false),
              HasSubstr("hidden          0.000 s   nothing was prefetched"));
}

TEST(Summary, SaysWhatItCostToKnowThat) {
  EXPECT_THAT(summary_with(3, true, 0.15),
              HasSubstr("  comparing       0.150 s   1.5 % of the wall time"));
  EXPECT_THAT(summary_with(3, true, 0.0001), Not(HasSubstr("comparing")));
}

TEST(Summary, SaysHowMuchOfWhatWasPrefetchedWasReadAndWhatMovedIt) {
  const std::string text = summary_with(3, true);
  EXPECT_THAT(text, HasSubstr("  prefetched        100 B   90 % of it read, in 8 operations\n"));
  EXPECT_THAT(text, HasSubstr("  engine     page-cache prefetch   policy auto\n"));
  EXPECT_THAT(text, HasSubstr("  processes             1\n"));
}

TEST(Summary, OfAProgramThatWasNotObservedItSaysWhatPrefetchingSaved) {
  RunReport report;
  report.outcome.wall_seconds = 10;
  stats::RunGatherer gatherer;
  gatherer.add(stats::PrefetchReport{"/in", 1, 2, 8, 100, 90, 2, true});
  std::move(gatherer).finish(report);
  EXPECT_THAT(summary_text(report, {}), HasSubstr("hidden          2.000 s"));
}

/// A run whose ranks read a memory file slowly, and others by MPI-IO.
RunReport report_of_mpiio(const std::string& lines) {
  RunReport report = report_of({file_of("/in", Degrade::memory_file, 1)});
  stats::add_mpiio_lines(lines, report);
  return report;
}

constexpr const char* kRankAhead =
    R"({"rank":0,"files":1,"reads":32,"schedule":"ppis","depth":2,"is_settled":1,)"
    R"("gain_of_two":0.96,"ahead_bytes":1887437,"hit_reads":12,"late_reads":4})"
    "\n";

TEST(Summary, SaysWhatMpiIoReadAheadAndWhatDecidedHow) {
  const RunReport report = report_of_mpiio(kRankAhead);
  const std::string text = summary_text(report, {});
  EXPECT_THAT(text, HasSubstr("  MPI-IO          1.8 MiB   ahead by ppis, depth 2, two at once 1.0 "
                              "times as fast; 75 % in time\n"));
  EXPECT_THAT(text, HasSubstr("  hidden        not known   MPI-IO is not compared"));
  EXPECT_THAT(text, Not(HasSubstr("nothing was prefetched")));
  EXPECT_THAT(text, Not(HasSubstr("none needed")));
}

TEST(Summary, SaysWhereRanksFoundDifferentThings) {
  const std::string text = summary_text(
      report_of_mpiio(std::string(kRankAhead) +
                      R"({"rank":1,"reads":3,"schedule":"pp","depth":5,"gain_of_two":1.5,)"
                      R"("ahead_bytes":1048576})"
                      "\n"
                      R"({"rank":2,"reads":3,"schedule":"auto","depth":0,"gain_of_two":0})"),
      {});
  EXPECT_THAT(text, HasSubstr("ahead by pp and ppis, depth 2 to 5, two at once 1.0 to 1.5 times"));
}

TEST(Summary, SaysWhyMpiIoWasNotReadAhead) {
  const auto text_of = [](const std::string& rest) {
    return summary_text(report_of_mpiio(R"({"rank":0,"reads":3,)" + rest + "}"), {});
  };
  EXPECT_THAT(text_of(R"("schedule":"normal")"), HasSubstr("nothing is read ahead by schedule"));
  EXPECT_THAT(text_of(R"("schedule":"auto","files":1)"), HasSubstr("reads were quick, or in no"));
  EXPECT_THAT(text_of(R"("schedule":"auto","left_alone":{"in_memory":1})"),
              HasSubstr("files were left alone: in_memory"));
  EXPECT_THAT(text_of(R"("schedule":"auto","why":"no \u001bmemory")"), HasSubstr("no ?memory"));
}

TEST(Summary, SaysWhatWasWrittenBehindMpiIo) {
  EXPECT_THAT(
      summary_text(report_of_mpiio(R"({"rank":0,"behind_writes":3,"behind_bytes":2048})"), {}),
      HasSubstr("  behind          2.0 KiB   of MPI-IO written behind the program, in 3 writes\n"));
}

TEST(Summary, OfRanksThatDidNothingByMpiIoItSaysNothing) {
  EXPECT_THAT(summary_text(report_of_mpiio(R"({"rank":0,"reads":0})"), {}),
              Not(HasSubstr("MPI-IO")));
}

TEST(Remarks, DoNotContradictWhatMpiIoSays) {
  EXPECT_THAT(remarks_on(report_of_mpiio(kRankAhead), followed()), IsEmpty());
  EXPECT_THAT(remarks_on(report_of_mpiio(R"({"rank":0,"reads":0})"), followed()),
              ElementsAre(HasSubstr("in memory")));
}

TEST(Summary, SmallFilesAreListedOnRequestOnly) {
  FileReport file = file_of("/small", Degrade::no_gain, 0.0001);
  file.call[0].bytes = 1000;
  const RunReport report = report_of({file});
  EXPECT_THAT(summary_text(report, {}), Not(HasSubstr("/small")));
  EXPECT_THAT(summary_text(report, {.files = 3, .remarks = 3, .small_files = true}),
              HasSubstr("/small"));
}

TEST(Summary, AKilledProgramIsNamedWithItsSignal) {
  RunReport report = report_of({});
  report.outcome.signal = 11;
  EXPECT_THAT(summary_text(report, {}), HasSubstr("(killed by SIGSEGV)"));
}

TEST(Summary, WithoutObservationItShowsNoZeros) {
  RunReport report;
  report.command = {"app"};
  report.remarks = {"Nothing was observed: reason."};
  const std::string text = summary_text(report, {});
  EXPECT_THAT(text, HasSubstr("Nothing was observed: reason."));
  EXPECT_THAT(text, Not(HasSubstr("exposed")));
}

TEST(Summary, WhatARunFileHoldsCannotControlTheTerminal) {
  const std::string evil = "\x1b]0;x\x07";
  RunReport report;
  report.command = {evil};
  report.runtime = report.engine = evil;
  report.remarks = {evil};
  stats::TaskReport task;
  task.name = task.device = task.policy = evil;
  report.tasks = {task};
  EXPECT_THAT(tasks_text(report), Not(HasSubstr("\x1b")));
  EXPECT_THAT(summary_text(report, Detail{}), Not(HasSubstr("\x1b")));
}

TEST(Stat, HasARowPerCallClass) {
  FileReport file = file_of("/in", Degrade::mapped, 0.5);
  file.call[static_cast<size_t>(CallClass::sync)] = {2, 0, 1, 0.125};
  const std::string text = stat_text(report_of({file}), {.files = 10, .remarks = 3});
  EXPECT_THAT(text, HasSubstr("/in"));
  EXPECT_THAT(text, HasSubstr("read     10  1.0 MiB  102.4 KiB  0.500 s     2       -  mapped"));
  EXPECT_THAT(text, HasSubstr("sync      2        -          -  0.125 s     -       1"));
}

TEST(Remarks, CachedReadsAreCalledThat) {
  EXPECT_THAT(remarks_on(report_of({file_of("/in", Degrade::no_gain, 1)}), followed()),
              ElementsAre(HasSubstr("page cache already")));
}

TEST(Remarks, TheReasonThatCostMostReadingIsNamed) {
  const auto remarks = remarks_on(
      report_of({file_of("/a", Degrade::mapped, 0.1), file_of("/b", Degrade::stream, 0.2)}),
      followed());
  EXPECT_THAT(remarks, ElementsAre(HasSubstr("stdio stream")));
}

TEST(Remarks, SmallReadsLeftToTheKernelAreCalledThat) {
  EXPECT_THAT(remarks_on(report_of({file_of("/in", Degrade::read_ahead, 1)}), followed()),
              Contains(HasSubstr("read-ahead")));
}

TEST(Remarks, WhoOnlyWritesIsToldWhatHelps) {
  RunReport report = report_of({file_of("/out", Degrade::none, 1, CallClass::write)});
  EXPECT_THAT(remarks_on(report, followed()), ElementsAre(HasSubstr("synced nothing")));
  report = report_of({file_of("/out", Degrade::none, 1, CallClass::write),
                      file_of("/out", Degrade::none, 1, CallClass::sync)});
  EXPECT_THAT(remarks_on(report, followed()), ElementsAre(HasSubstr("--early-writeback always")));
  report.config.early_writeback = config::EarlyWriteback::never;
  EXPECT_THAT(remarks_on(report, followed()), ElementsAre(HasSubstr("'never'")));
  report.totals.early.bytes = 1;
  EXPECT_THAT(remarks_on(report, followed()), IsEmpty());
}

TEST(Remarks, NoIoIsSaid) {
  EXPECT_THAT(remarks_on(report_of({}), followed()),
              ElementsAre(HasSubstr("No read or write call was counted")));
}

TEST(Remarks, IoThatPassesUsByIsAdmitted) {
  RunReport report = report_of({});
  report.outcome.storage_read_bytes = 200u << 20;
  EXPECT_THAT(remarks_on(report, followed()),
              ElementsAre(HasSubstr("yet 200.0 MiB came from local disks")));
  EXPECT_THAT(
      remarks_on(report_of({file_of("/in", Degrade::none, 1, CallClass::other)}), followed()),
      ElementsAre(HasSubstr("copy_file_range")));
}

TEST(Remarks, AGoodRunNeedsNone) {
  EXPECT_THAT(remarks_on(report_of({prefetched(90)}), followed()), IsEmpty());
}

TEST(Remarks, WrongGuessesAreAdmitted) {
  EXPECT_THAT(remarks_on(report_of({prefetched(10)}), followed()),
              ElementsAre(HasSubstr("Only 10 % of the prefetched bytes were read")));
}

TEST(Remarks, APolicyThatCostTimeIsNamedWithTheFigure) {
  RunReport report = report_of({prefetched(90)});
  report.totals.engine_cost_seconds = 0.1;
  EXPECT_THAT(remarks_on(report, followed()), IsEmpty()) << "1 % of the run";
  report.totals.engine_cost_seconds = 0.8;
  EXPECT_THAT(remarks_on(report, followed()),
              ElementsAre(HasSubstr("The engine cost about 0.800 s")));
}

TEST(Remarks, LittleIoIsSaid) {
  EXPECT_THAT(remarks_on(report_of({file_of("/in", Degrade::no_gain, 0.01)}), followed()),
              Contains(HasSubstr("I/O is 0.1 % of the wall time")));
}

TEST(Remarks, PolicyOffMakesNoExcuses) {
  RunReport report = report_of({file_of("/in", Degrade::mapped, 1)});
  report.config.policy = config::RunPolicy::off;
  report.files[0].policy = config::RunPolicy::off;
  EXPECT_THAT(remarks_on(report, followed()), IsEmpty());
}

FileReport ruled(std::string path, config::RunPolicy policy, double seconds) {
  FileReport file = file_of(std::move(path), Degrade::none, seconds);
  file.policy = policy;
  return file;
}

TEST(Remarks, ARuleThatSwitchesPrefetchingOffIsNamedAsTheReason) {
  const RunReport report = report_of(
      {ruled("/big", config::RunPolicy::off, 1), file_of("/small", Degrade::no_gain, 0.5)});
  EXPECT_THAT(remarks_on(report, followed()),
              ElementsAre(AllOf(HasSubstr("to which a rule gives policy 'off'"),
                                HasSubstr("ioweave config explain FILE"))));
}

TEST(Remarks, FilesThatARuleExemptsDoNotHideTheReasonOfTheOthers) {
  const RunReport report =
      report_of({ruled("/a", config::RunPolicy::off, 0.5), file_of("/b", Degrade::no_gain, 1)});
  EXPECT_THAT(remarks_on(report, followed()), ElementsAre(HasSubstr("page cache already")));
}

TEST(Remarks, APolicyOfTheRunIsNotCalledARules) {
  RunReport report = report_of({ruled("/big", config::RunPolicy::sync, 1),
                                ruled("/small", config::RunPolicy::automatic, 0.5)});
  report.config.policy = config::RunPolicy::sync;
  EXPECT_THAT(remarks_on(report, followed()),
              ElementsAre(HasSubstr("policy 'sync' as no rule says otherwise")));
}

TEST(Summary, ShowsThePolicyThatARuleGaveAFile) {
  FileReport mapped = ruled("/b", config::RunPolicy::writes, 1);
  mapped.degrade = Degrade::mapped;
  RunReport report = report_of(
      {ruled("/a", config::RunPolicy::off, 2), std::move(mapped), file_of("/c", Degrade::none, 1)});
  report.config.rules = 1;
  const std::string text = summary_text(report, {});
  EXPECT_THAT(text, HasSubstr("2.000 s  policy off\n"));
  EXPECT_THAT(text, HasSubstr("1.000 s  policy writes, mapped\n"));
  EXPECT_THAT(text, HasSubstr("1.000 s\n"));
  EXPECT_THAT(text, HasSubstr("policy auto, 1 rule\n"));
}

TEST(Remarks, AProgramThatCannotBeFollowedSaysWhy) {
  Program program = followed();
  program.followable = Followable::static_program;
  EXPECT_THAT(
      remarks_on(RunReport{}, program),
      ElementsAre(AllOf(HasSubstr("statically linked"), HasSubstr("Nothing was observed"))));
  EXPECT_THAT(remarks_on(report_of({prefetched(90)}), program),
              ElementsAre(HasSubstr("Only programs that it started were observed")));
}

TEST(Remarks, AProcessThatSteppedAsideSaysWhyOnce) {
  RunReport report = report_of({});
  for (int i = 0; i < 2; ++i) {
    report.processes[0].active = false;
    report.processes[0].why = "memory ran out";
    report.processes.push_back(report.processes[0]);
  }
  EXPECT_THAT(remarks_on(report, followed()), ElementsAre("Nothing was observed: memory ran out"));
}

TEST(Remarks, ProcessesThatLiveOnAreCounted) {
  RunReport report = report_of({prefetched(90)});
  report.processes[0].end = ProcessReport::End::running;
  EXPECT_THAT(remarks_on(report, followed()), ElementsAre(HasSubstr("1 process is still running")));
}

TEST(Remarks, DowngradesAreReportedOncePerReason) {
  RunReport report = report_of({prefetched(90)});
  report.processes[0].why = "io_uring is forbidden by seccomp; threads are used";
  report.processes.push_back(report.processes[0]);
  EXPECT_THAT(remarks_on(report, followed()),
              ElementsAre("app: io_uring is forbidden by seccomp; threads are used"));
}

}  // namespace
}  // namespace ioweave::cli
