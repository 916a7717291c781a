#include "stats/run_file.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include <gtest/gtest.h>

#include "base/atomic_file.hpp"
#include "stats/text_file.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::stats {
namespace {

RunReport sample() {
  RunReport report;
  report.version = "0.1.0";
  report.started = "2026-01-31T12:00:00.000Z";
  report.command = {"./app", "a \"b\"\n"};
  report.directory = "/work";
  report.machine = {"host", "6.18", "x86_64", "CPU", 2, 1, 1u << 30};
  report.mounts = {{"/", "ext4", "/dev/vda"}};
  report.config.policy = config::RunPolicy::writes;
  report.config.early_writeback = config::EarlyWriteback::always;
  report.config.rules = 1;
  std::strcpy(report.config.rule[0].glob, "/**/*.log");
  report.config.rule[0].policy = config::RunPolicy::off;
  report.outcome = {12.5, 11, 0.5, 4096, 137, 9};

  ProcessReport process;
  process.pid = 10;
  process.parent_pid = 9;
  process.active = true;
  process.end = ProcessReport::End::killed;
  process.seconds = 12;
  process.program = "/bin/app";
  process.engine = "io_uring";
  FileReport file;
  file.path = "/data/in";
  file.file_system = "ext4";
  file.device = 65024;
  file.inode = 1ull << 63;
  file.degrade = Degrade::random_access;
  file.opens = 1;
  file.call[0] = {10, 4096, 1, 0.25};
  Series series;
  series.pid = 10;
  series.start_s = 0.5;
  series.slot_s = 2;
  series.jumps = 3;
  series.resize(2);
  series.read_calls = {4, 6};
  series.read_bytes = {1000, 3096};
  series.read_seconds = {0.125, 0.25};
  series.read_turns = {4, 1};
  series.sync_seconds = {0, 0.5};
  file.series.push_back(series);
  ChoiceReport choice;
  choice.pid = 10;
  choice.in_use = choice::Way::pieces;
  choice.pieces = {1 << 20, 16};
  choice.of[0].is_usable = true;
  file.choices.push_back(choice);
  RunGatherer gatherer;
  gatherer.add(process, {file});
  gatherer.add(PrefetchReport{"/data/in", 65024, 1ull << 63, 3, 100, 0, -1, true});
  gatherer.add(EarlyWriteReport{"/data/out", 65024, 7, {2, 70, 7}, 0, false});
  HelpNotes notes;
  notes.add({65024, 1ull << 63}, "", ReadHelpReport{ReadHelp::slower, 90, 30, {400, 320.5}});
  notes.add({65024, 7}, "/data/out", EarlyHelpReport{EarlyHelp::early, {500, 600}});
  gatherer.add(std::move(notes));
  std::move(gatherer).finish(report);
  report.remarks = {"A remark."};
  report.mpiio.ranks = 2;
  report.mpiio.schedules.back() = 2;
  report.mpiio.most_gain_of_two = 1.5;
  report.mpiio.hit_reads = 7;
  report.mpiio.left_alone = {{"view", 3}};
  report.mpiio.why = {"no memory"};
  return report;
}

/// The sample's text with one piece replaced.
std::string altered(const std::string& from, const std::string& to) {
  std::string text = run_file_text(sample());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string complaint(const std::string& text) {
  RunReport report;
  std::string why;
  EXPECT_FALSE(parse_run_file(text, report, why));
  return why;
}

TEST(RunFile, WhatIsWrittenIsReadBack) {
  const RunReport before = sample();
  RunReport after;
  std::string why;
  ASSERT_TRUE(parse_run_file(run_file_text(before), after, why)) << why;
  EXPECT_EQ(run_file_text(after), run_file_text(before));
  EXPECT_EQ(after.command, before.command);
  EXPECT_EQ(after.files.at(0).inode, 1ull << 63);
  EXPECT_EQ(after.processes.at(0).end, ProcessReport::End::killed);
  EXPECT_DOUBLE_EQ(after.totals.hidden_seconds, -1);
  EXPECT_EQ(after.totals.early.bytes, 70u);
  EXPECT_EQ(after.files.at(1).early.lost_bytes, 7u);
  EXPECT_EQ(after.config.early_writeback, config::EarlyWriteback::always);
  EXPECT_EQ(after.files.at(0).choices.at(0).in_use, choice::Way::pieces);
  EXPECT_EQ(after.files.at(0).choices.at(0).pieces, (choice::Pieces{1 << 20, 16}));
  EXPECT_EQ(after.outcome.signal, 9);
  EXPECT_EQ(after.mpiio.hit_reads, 7u);
  EXPECT_EQ(after.mpiio.left_alone, before.mpiio.left_alone);
}

TEST(RunFile, WhyAFileWasHelpedOrNotIsReadBack) {
  RunReport after;
  std::string why;
  ASSERT_TRUE(parse_run_file(run_file_text(sample()), after, why)) << why;
  const ReadHelpReport& read = after.files.at(0).read_help;
  EXPECT_EQ(read.why, ReadHelp::slower);
  EXPECT_EQ(read.read_bytes, 90u);
  EXPECT_EQ(read.since_bytes, 30u);
  EXPECT_EQ(read.paces.alone_mb_per_s, 400);
  EXPECT_EQ(read.paces.helped_mb_per_s, 320.5);
  EXPECT_EQ(after.files.at(0).early_help.why, EarlyHelp::not_followed);
  const EarlyHelpReport& early = after.files.at(1).early_help;
  EXPECT_EQ(early.why, EarlyHelp::early);
  EXPECT_EQ(early.paces.alone_mb_per_s, 500);
  EXPECT_EQ(early.paces.helped_mb_per_s, 600);
}

TEST(RunFile, AnOlderOneDoesNotTellWhy) {
  RunReport before = sample();
  before.files.at(0).read_help = {ReadHelp::unknown, 0, 0, {}};
  before.files.at(0).early_help = {EarlyHelp::unknown, {}};
  before.files.resize(1);
  const std::string text = run_file_text(before);
  EXPECT_EQ(text.find("alone_mb_per_s"), std::string::npos);
  RunReport after;
  std::string why;
  ASSERT_TRUE(parse_run_file(text, after, why)) << why;
  EXPECT_EQ(after.files.at(0).read_help.why, ReadHelp::unknown);
  EXPECT_EQ(after.files.at(0).early_help.why, EarlyHelp::unknown);
  EXPECT_EQ(run_file_text(after), text);
}

TEST(RunFile, AnUnknownReasonOfANewerVersionIsNotKnown) {
  for (const char* const name : {"\"slower\"", "\"early\""}) {
    RunReport report;
    std::string why;
    ASSERT_TRUE(parse_run_file(altered(name, "\"new reason\""), report, why)) << why;
  }
}

TEST(RunFile, ASeriesIsReadBack) {
  RunReport after;
  std::string why;
  ASSERT_TRUE(parse_run_file(run_file_text(sample()), after, why)) << why;
  const Series& series = after.files.at(0).series.at(0);
  EXPECT_EQ(series.read_bytes, (std::vector<uint64_t>{1000, 3096}));
  EXPECT_EQ(series.read_turns, (std::vector<uint64_t>{4, 1}));
  EXPECT_EQ(series.sync_seconds, (std::vector<double>{0, 0.5}));
  EXPECT_EQ(series.write_calls, (std::vector<uint64_t>{0, 0}));
  EXPECT_EQ(series.slot_s, 2);
  EXPECT_EQ(series.jumps, 3u);
}

TEST(RunFile, ASeriesWithoutAValueForEachSlotIsRefused) {
  EXPECT_NE(complaint(altered(R"("bytes":[1000,3096])", R"("bytes":[1000])")).find("'bytes'"),
            std::string::npos);
  EXPECT_NE(complaint(altered(R"("sync_s":[0.0,0.5])", R"("sync_s":[0.0,-1])")).find("'sync_s'"),
            std::string::npos);
  EXPECT_NE(complaint(altered(R"("slots":2)", R"("slots":5000)")).find("4096"), std::string::npos);
  EXPECT_NE(complaint(altered(R"("slot_s":2.0)", R"("slot_s":-2.0)")).find("'slot_s'"),
            std::string::npos);
  EXPECT_NE(complaint(altered(R"("bytes":[1000,3096])", R"("bytes":[1000,-1])")).find("'bytes'"),
            std::string::npos);
  EXPECT_NE(complaint(altered(R"("series":[{)", R"("series":[7,{)")).find("series"),
            std::string::npos);
}

TEST(RunFile, OnlyARunWithMpiIoTellsOfIt) {
  RunReport report = sample();
  EXPECT_NE(run_file_text(report).find("\"mpiio\":{\"ranks\":2"), std::string::npos);
  report.mpiio = {};
  EXPECT_EQ(run_file_text(report).find("mpiio"), std::string::npos);
}

TEST(RunFile, EveryLineIsAnObjectWithAType) {
  const std::string text = run_file_text(sample());
  size_t lines = 0;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    EXPECT_EQ(text.compare(at, 9, R"({"type":")"), 0);
    ++lines;
  }
  EXPECT_EQ(lines, 5u);
}

TEST(RunFile, AnotherSchemaIsRefusedByName) {
  EXPECT_NE(complaint(altered("ioweave.run/2", "ioweave.run/3")).find("ioweave.run/3"),
            std::string::npos);
}

TEST(RunFile, ACutOffFileIsRefused) {
  const std::string text = run_file_text(sample());
  EXPECT_NE(complaint(text.substr(0, text.find(R"({"type":"summary")"))).find("cut off"),
            std::string::npos);
  EXPECT_NE(complaint(text.substr(0, text.size() - 20)).find("not JSON"), std::string::npos);
  EXPECT_NE(complaint("").find("empty"), std::string::npos);
}

TEST(RunFile, AMissingOrWrongFieldIsNamedWithItsLine) {
  EXPECT_EQ(complaint(altered(R"("pid":10,)", "")), "line 2: process: 'pid' is missing");
  EXPECT_EQ(complaint(altered(R"("opens":1)", R"("opens":-1)")),
            "line 3: file: 'opens' is not a whole number, at least 0");
  EXPECT_EQ(complaint(altered(R"("wall_s":12.5)", R"("wall_s":"x")")),
            "line 5: summary: 'wall_s' is not a number");
  EXPECT_NE(complaint(altered("killed", "nonsense")).find("'end'"), std::string::npos);
}

TEST(RunFile, LinesOutOfOrderAreRefused) {
  const std::string text = run_file_text(sample());
  const std::string run = text.substr(0, text.find('\n') + 1);
  EXPECT_NE(complaint(text.substr(run.size())).find("first line"), std::string::npos);
  EXPECT_NE(complaint(run + text).find("second 'run'"), std::string::npos);
  EXPECT_NE(complaint(text + R"({"type":"file"})").find("after the summary"), std::string::npos);
}

TEST(RunFile, TheTasksOfAPythonRuntimeAreRead) {
  RunReport report;
  std::string why;
  std::string text =
      altered(R"({"type":"process")",
              "{\"type\":\"call\",\"task\":\"save\",\"device\":\"ssd\"}\n"
              "{\"type\":\"task\",\"name\":\"save\",\"device\":\"ssd\",\"calls\":3,\"failed\":1,"
              "\"seconds\":1.5,\"bytes\":20,\"explanation\":{\"policy\":\"climb\",\"limit\":6}}\n"
              R"({"type":"process")");
  text.insert(1, R"("runtime":{"kind":"embedded"},)");
  ASSERT_TRUE(parse_run_file(text, report, why)) << why;
  EXPECT_EQ(report.runtime, "embedded");
  const TaskReport& task = report.tasks.at(0);
  EXPECT_EQ(task.name + " " + task.device + " " + task.policy, "save ssd climb");
  EXPECT_EQ(task.calls, 3u);
  EXPECT_EQ(task.failed, 1u);
  EXPECT_EQ(task.bytes, 20u);
  EXPECT_EQ(task.seconds, 1.5);
  EXPECT_EQ(task.limit, 6u);
}

TEST(RunFile, TheSettingsOfAnEarlierVersionAreIgnored) {
  RunReport report;
  std::string why;
  const std::string text =
      altered(R"("mode":"plain",)", R"("mode":"plain","schedule":"strict","slice_bytes":1048576,)");
  ASSERT_TRUE(parse_run_file(text, report, why)) << why;
  EXPECT_EQ(report.config.rules, 1u);
}

TEST(RunFile, UnknownKeysAndTypesAreIgnored) {
  RunReport report;
  std::string why;
  const std::string text = altered(
      R"({"type":"process")", "{\"type\":\"future\",\"x\":1}\n{\"new\":[],\"type\":\"process\"");
  EXPECT_TRUE(parse_run_file(text, report, why)) << why;
}

TEST(RunFile, AnUnknownDegradeReasonIsTakenForOther) {
  RunReport report;
  std::string why;
  ASSERT_TRUE(parse_run_file(altered("random access", "a later reason"), report, why)) << why;
  EXPECT_EQ(report.files.at(0).degrade, Degrade::other);
}

TEST(RunFile, TheDocumentationListsEveryDegradeReason) {
  const std::string page = test::read_text(IOWEAVE_DOCS "/run-file.md");
  const size_t begin = page.find("Degrade reasons: ");
  ASSERT_NE(begin, std::string::npos);
  const std::string list = page.substr(begin, page.find("\n\n", begin) - begin);
  for (const std::string_view name : kDegradeNames) {
    EXPECT_NE(list.find("`" + std::string(name) + "`"), std::string::npos) << name;
  }
  EXPECT_EQ(std::ranges::count(list, '`'), std::ssize(kDegradeNames) * 2);
}

TEST(RunFile, TheDocumentationListsEveryReason) {
  const std::string page = test::read_text(IOWEAVE_DOCS "/run-file.md");
  const auto expect_all = [&page](const std::string& title, const auto& names) {
    const size_t found = page.find(title);
    ASSERT_NE(found, std::string::npos) << title;
    const size_t begin = found + title.size();
    const std::string list = page.substr(begin, page.find("\n\n", begin) - begin);
    for (size_t i = 1; i < names.size(); ++i) {  // "unknown" is never written
      EXPECT_NE(list.find("`" + std::string(names[i]) + "`"), std::string::npos) << names[i];
    }
    EXPECT_EQ(std::ranges::count(list, '`'), (std::ssize(names) - 1) * 2) << title;
  };
  expect_all("Reasons of `prefetch`: ", kReadHelpNames);
  expect_all("Reasons of `early_writeback`: ", kEarlyHelpNames);
}

TEST(RunFile, NamesThatAreNotUtf8DoNotBreakIt) {
  RunReport report = sample();
  report.files[0].path = "/data/\xff\xfe";
  RunReport after;
  std::string why;
  EXPECT_TRUE(parse_run_file(run_file_text(report), after, why)) << why;
}

TEST(RunFile, GarbageIsRefusedWithoutACrash) {
  for (const char* const text : {"[]", "1", "null", "{}", R"({"type":5})", "\n\n",
                                 "{\"type\":", R"({"type":"run","schema":7})"}) {
    EXPECT_FALSE(complaint(text).empty()) << text;
  }
}

TEST(RunFile, ReadingAMissingFileNamesIt) {
  RunReport report;
  std::string why;
  EXPECT_FALSE(read_run_file("/nonexistent/run.jsonl", report, why));
  EXPECT_EQ(why, "/nonexistent/run.jsonl: No such file or directory");
}

}  // namespace
}  // namespace ioweave::stats
