// `ioweave run --record` and `--replay`, by the built command with the real interposer: what is
// recorded is what the program read, and a replay changes nothing but what is in the page cache.

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "calls/preload/run.hpp"
#include "cli/command_runner.hpp"
#include "cli/slow_device.hpp"
#include "stats/text_file.hpp"
#include "stream/watch/replay/read_plan.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::cli::test {
namespace {

using ioweave::test::read_text;
using ioweave::test::TempDir;
using ioweave::test::write_text;
using ioweave::testing::drop_from_cache;
using ioweave::testing::TemporaryDirectory;
using ioweave::testing::write_pattern;
using stream::FileRange;
using stream::ReadPlan;
using ::testing::HasSubstr;
using ::testing::Not;

using Words = std::vector<std::string>;

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kFileBytes = 32 * kMiB;
constexpr const char* kSlowfs = IOWEAVE_SLOWFS;

/// The words of the program behind its name and file.
struct Pattern {
  std::string how = "pread";
  uint64_t bytes = 4096;
  uint64_t count = 200;
  uint64_t seed = 1;
  unsigned threads = 1;
  unsigned processes = 1;
};

Words reader(const std::string& path, const Pattern& pattern) {
  return {IOWEAVE_SCATTERED_READER,
          path,
          pattern.how,
          std::to_string(pattern.bytes),
          std::to_string(pattern.count),
          std::to_string(pattern.seed),
          std::to_string(pattern.threads),
          std::to_string(pattern.processes)};
}

std::string as_script(const Words& words) {
  std::string script;
  for (const std::string& word : words) script += word + " ";
  return script;
}

/// The reads of one thread, as programs/scattered_reader.c makes them.
std::vector<FileRange> reads_of(const Pattern& pattern, uint64_t seed) {
  std::vector<FileRange> reads;
  uint64_t state = seed;
  for (uint64_t i = 0; i < pattern.count; ++i) {
    state += 0x9e3779b97f4a7c15u;
    uint64_t value = state;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    value ^= value >> 31;
    reads.push_back({value % (kFileBytes / pattern.bytes) * pattern.bytes, pattern.bytes});
  }
  return reads;
}

std::vector<FileRange> all_of(const stream::PlannedReads& reads) {
  std::vector<FileRange> all;
  for (uint64_t i = 0; i < reads.count(); ++i) all.push_back(reads.at(i));
  return all;
}

std::vector<FileRange> sorted(std::vector<FileRange> reads) {
  std::ranges::sort(reads, {}, &FileRange::offset);
  return reads;
}

/// What the reader prints.
struct Printed {
  std::string checksum;
  uint64_t resident = 0;
};

Printed printed_by(const Ran& ran) {
  Printed printed;
  std::istringstream(ran.out) >> printed.checksum >> printed.resident;
  return printed;
}

class RecordAndReplay : public ::testing::Test {
 protected:
  void SetUp() override { write_pattern(data, kFileBytes); }

  [[nodiscard]] Surroundings in_folder(const std::string& where = "") const {
    Surroundings how;
    how.variables = {{"IOWEAVE_PRELOAD_PATH", IOWEAVE_PRELOAD_LIBRARY}};
    how.directory = where.empty() ? folder.path() : where;
    return how;
  }
  /// Runs `ioweave run` in the folder of the data.
  [[nodiscard]] Ran run(const Words& options, const Words& program,
                        const std::string& where = "") const {
    Words words{"run"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), program.begin(), program.end());
    return run_ioweave(words, in_folder(where));
  }
  [[nodiscard]] Ran record(const Words& program) const {
    return run({"--record", plan_path}, program);
  }
  /// Replays, and returns what the report says of it.
  nlohmann::json replay(const Words& program, const std::string& where = "") {
    ran = run({"--json=" + report_path, "--replay", plan_path}, program, where);
    const auto report =
        nlohmann::json::parse(read_text(report_path), nullptr, /*allow_exceptions=*/false);
    return report.is_object() ? report["summary"]["replay"] : nlohmann::json{};
  }
  [[nodiscard]] ReadPlan plan() const {
    ReadPlan found;
    std::string why;
    EXPECT_TRUE(stream::read_plan(plan_path, found, why)) << why;
    return found;
  }
  /// The only file of the plan.
  [[nodiscard]] stream::PlannedFile planned() const {
    ReadPlan found = plan();
    EXPECT_EQ(found.files.size(), 1u);
    return found.files.empty() ? stream::PlannedFile{} : found.files[0];
  }

  TemporaryDirectory folder;  // on the disk: files in memory are not recorded
  TempDir elsewhere;
  std::string data = folder / "data.bin";
  std::string plan_path = elsewhere.file("app.plan");
  std::string report_path = elsewhere.file("report.json");
  Ran ran;
};

// ---- Recording

TEST_F(RecordAndReplay, APlanHoldsTheReadsInTheirOrder) {
  for (const std::string how : {"pread", "seek", "readv", "send"}) {
    const Pattern pattern{.how = how, .bytes = 12'288};
    const Ran recorded = record(reader("data.bin", pattern));
    ASSERT_EQ(recorded.code, 0) << recorded.err;
    EXPECT_THAT(recorded.err, HasSubstr("200 reads of 1 file, in ")) << how;
    const stream::PlannedFile file = planned();
    EXPECT_EQ(file.name, "data.bin") << "relative to where the program was started";
    EXPECT_EQ(file.size, kFileBytes);
    EXPECT_EQ(all_of(file.reads), reads_of(pattern, 1)) << how;
  }
}

TEST_F(RecordAndReplay, FilesElsewhereHaveAbsoluteNames) {
  const std::string where = std::filesystem::canonical(data);
  ASSERT_EQ(run({"--record", plan_path}, reader(data, {}), elsewhere.path()).code, 0);
  EXPECT_EQ(planned().name, where);
}

TEST_F(RecordAndReplay, ThreadsAndProcessesAreRecordedTogether) {
  const Pattern pattern{.count = 300, .threads = 3, .processes = 2};
  ASSERT_EQ(record(reader("data.bin", pattern)).code, 0);
  std::vector<FileRange> expected;
  for (const uint64_t seed : {1, 2, 3, 65, 66, 67}) {
    std::ranges::move(reads_of(pattern, seed), std::back_inserter(expected));
  }
  EXPECT_EQ(sorted(all_of(planned().reads)), sorted(expected));
}

TEST_F(RecordAndReplay, ProgramsThatEndSoonAreRecordedToTheLastRead) {
  std::string script;
  std::vector<FileRange> expected;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Pattern pattern{.count = 10, .seed = seed};
    script += as_script(reader("data.bin", pattern)) + "> /dev/null;";
    std::ranges::move(reads_of(pattern, seed), std::back_inserter(expected));
  }
  ASSERT_EQ(record({"/bin/sh", "-c", script}).code, 0);
  EXPECT_EQ(all_of(planned().reads), expected);
}

TEST_F(RecordAndReplay, AProgramThatIsKilledLeavesItsReads) {
  const Pattern pattern{.how = "die"};
  const Ran recorded = record(reader("data.bin", pattern));
  EXPECT_EQ(recorded.code, 128 + SIGKILL);
  EXPECT_EQ(all_of(planned().reads), reads_of(pattern, 1));
}

TEST_F(RecordAndReplay, AReaderInOrderIsOneLine) {
  ASSERT_EQ(record({IOWEAVE_CHUNK_READER, "data.bin", "65536", "0"}).code, 0);
  EXPECT_THAT(read_text(plan_path),
              HasSubstr("\nread 0 65536 x512 +65536\nend 1 files 512 reads\n"));
}

TEST_F(RecordAndReplay, PolicyOffIsRecordedToo) {
  ASSERT_EQ(run({"--policy", "off", "--record", plan_path}, reader("data.bin", {})).code, 0);
  EXPECT_EQ(planned().reads.count(), 200u);
}

TEST_F(RecordAndReplay, WithoutTheOptionsNothingIsNoted) {
  const Words program{"/bin/sh", "-c",
                      "dd if=data.bin of=/dev/null bs=4k count=9 2>/dev/null; "
                      "ls $IOWEAVE_RUN_DIR"};
  EXPECT_THAT(run({"-q"}, program).out, AllOf(HasSubstr(".segment"), Not(HasSubstr(".reads"))));
  EXPECT_THAT(run({"-q", "--record", plan_path}, program).out, HasSubstr(".reads"));
}

TEST_F(RecordAndReplay, WhatIsNotSeenIsSaid) {
  const Ran recorded = record({IOWEAVE_STATIC_READER, "data.bin", "65536", "1000"});
  ASSERT_EQ(recorded.code, 0) << recorded.err;
  EXPECT_THAT(recorded.err, HasSubstr("No read was recorded, and no plan was written"));
  EXPECT_THAT(recorded.err, HasSubstr("read by other ways"));
  EXPECT_NE(access(plan_path.c_str(), F_OK), 0);
}

// ---- Replaying

TEST_F(RecordAndReplay, AProgramReadsTheSameAndThePlanNamesItAll) {
  for (const Pattern& pattern :
       {Pattern{}, Pattern{.how = "seek", .bytes = 65536}, Pattern{.how = "send"},
        Pattern{.threads = 4}, Pattern{.count = 100, .threads = 2, .processes = 3}}) {
    const Words program = reader("data.bin", pattern);
    const std::string plain = printed_by(record(program)).checksum;
    ASSERT_TRUE(drop_from_cache(data));
    const nlohmann::json report = replay(program);
    EXPECT_EQ(ran.code, 0);
    EXPECT_EQ(printed_by(ran).checksum, plain);
    const uint64_t reads = pattern.count * pattern.threads * pattern.processes;
    EXPECT_EQ(report["reads"], reads);
    EXPECT_EQ(report["named_reads"], reads);
    EXPECT_EQ(report["named_bytes"], reads * pattern.bytes);
    EXPECT_EQ(report["seen_reads"], reads);
    EXPECT_EQ(report["lost_reads"], 0u);
    EXPECT_EQ(report["changed_files"], 0u);
    EXPECT_THAT(ran.err, HasSubstr(" 100 % in the plan of " + std::to_string(reads) + " reads"));
  }
}

TEST_F(RecordAndReplay, ReadsAreThereBeforeTheProgramAsks) {
  if (kSlowfs[0] == '\0') GTEST_SKIP() << "ioweave-slowfs is not built";
  if (access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "no access to /dev/fuse";
  SlowDevice device(kSlowfs);
  if (!device.mount(3000, 1000)) GTEST_SKIP() << "slowfs cannot be mounted here";
  const std::string path = device.file(kFileBytes);
  const Pattern pattern{.count = 800};
  const std::string plain = printed_by(record(reader(path, pattern))).checksum;
  // The watcher may come late where the machine has other things to do.
  uint64_t most = 0;
  bool is_said = false;
  for (int tries = 0; tries < 5 && (!is_said || most < pattern.count * 4 / 5); ++tries) {
    ASSERT_TRUE(drop_from_cache(path));
    const nlohmann::json report = replay(reader(path, pattern));
    is_said = is_said || read_text(report_path).find(R"("why":"replayed")") != std::string::npos;
    EXPECT_EQ(printed_by(ran).checksum, plain);
    EXPECT_LE(report["asked_bytes"].get<uint64_t>(), pattern.count * pattern.bytes);
    most = std::max(most, printed_by(ran).resident);
  }
  EXPECT_GE(most, pattern.count * 4 / 5);
  EXPECT_TRUE(is_said);
}

TEST_F(RecordAndReplay, AChangedFileIsReplayedAsFarAsItGoesAndThatIsSaid) {
  ASSERT_EQ(record(reader("data.bin", {})).code, 0);
  ASSERT_EQ(truncate(data.c_str(), kFileBytes / 2), 0);
  const Words program = reader("data.bin", {});
  const Ran plain = run_any(program, in_folder());
  ASSERT_TRUE(drop_from_cache(data));
  const nlohmann::json report = replay(program);
  EXPECT_EQ(printed_by(ran).checksum, printed_by(plain).checksum);
  EXPECT_EQ(report["changed_files"], 1u);
  EXPECT_THAT(ran.err, HasSubstr("1 of the plan's 1 file has another size or time"));
}

TEST_F(RecordAndReplay, AFileThatIsMissingIsSkippedAndThatIsSaid) {
  const std::string other = folder / "other.bin";
  write_pattern(other, kMiB);
  const Words script{"/bin/sh", "-c",
                     as_script(reader("other.bin", {})) + ";" + as_script(reader("data.bin", {}))};
  ASSERT_EQ(record(script).code, 0);
  ASSERT_EQ(plan().files.size(), 2u);
  ASSERT_EQ(unlink(other.c_str()), 0);
  const nlohmann::json report = replay(script);
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(report["missing_files"], 1u);
  EXPECT_EQ(report["named_reads"], 200u);
  EXPECT_THAT(ran.err, HasSubstr("1 of the plan's 2 files is missing, and skipped."));
}

TEST_F(RecordAndReplay, AFolderMayHaveMoved) {
  ASSERT_EQ(record(reader("data.bin", {})).code, 0);
  const TemporaryDirectory moved;
  std::filesystem::copy_file(data, moved / "data.bin");
  ASSERT_EQ(unlink(data.c_str()), 0);
  const nlohmann::json report = replay(reader("data.bin", {}), moved.path());
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(report["missing_files"], 0u);
  EXPECT_EQ(report["named_reads"], 200u);
}

TEST_F(RecordAndReplay, AProgramThatReadsSomethingElseIsLeftAlone) {
  ASSERT_EQ(record(reader("data.bin", {.count = 2000})).code, 0);
  const Words program = reader("data.bin", {.count = 2000, .seed = 99});
  const Ran plain = run_any(program, in_folder());
  ASSERT_TRUE(drop_from_cache(data));
  const nlohmann::json report = replay(program);
  EXPECT_EQ(printed_by(ran).checksum, printed_by(plain).checksum);
  EXPECT_EQ(report["given_up_files"], 1u);
  EXPECT_LE(report["asked_bytes"].get<uint64_t>(), 200u * 4096);
  EXPECT_THAT(ran.err, HasSubstr("help by the plan was given up there."));
}

TEST_F(RecordAndReplay, AFileThatIsReadInOrderIsLeftToTheFollower) {
  const Words program{IOWEAVE_CHUNK_READER, "data.bin", "65536", "0"};
  ASSERT_EQ(record(program).code, 0);
  const nlohmann::json report = replay(program);
  EXPECT_EQ(report["followed_files"], 1u);
  EXPECT_EQ(report["asked_bytes"], 0u);
  EXPECT_EQ(report["named_reads"], 512u);
}

TEST_F(RecordAndReplay, ReadsCanBeRecordedAnewWhileThePlanIsReplayed) {
  ASSERT_EQ(record(reader("data.bin", {})).code, 0);
  const std::string before = read_text(plan_path);
  const Ran both = run({"--record", plan_path, "--replay", plan_path}, reader("data.bin", {}));
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_EQ(read_text(plan_path), before);
  EXPECT_THAT(both.err, HasSubstr("recorded"));
  EXPECT_THAT(both.err, HasSubstr("replayed"));
}

TEST_F(RecordAndReplay, AReportShowsItAgain) {
  ASSERT_EQ(record(reader("data.bin", {})).code, 0);
  const std::string file = elsewhere.file("run.jsonl");
  ASSERT_EQ(run({"-o", file, "--replay", plan_path}, reader("data.bin", {})).code, 0);
  const Ran shown = run_ioweave({"report", file});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("of 200 reads 100 % in the plan of 200 reads"));
}

// ---- Mistakes, before the program runs

TEST_F(RecordAndReplay, AMistakeIsSaidBeforeTheProgramRuns) {
  const std::string mark = elsewhere.file("mark");
  const Words program{"/usr/bin/touch", mark};
  const std::string empty = write_text(elsewhere, "empty", "");
  const std::string wrong = write_text(elsewhere, "wrong", "ioweave-plan/1\nread 1 2\n");
  const std::vector<std::pair<Words, std::string>> cases{
      {{"--replay", elsewhere.file("none")}, "No such file or directory; write one with"},
      {{"--replay", elsewhere.path()}, "is a directory: a plan is a file"},
      {{"--replay", empty}, "is empty; write one with"},
      {{"--replay", wrong}, wrong + ", line 2: stands before the first 'file'"},
      {{"--record", elsewhere.path()}, "is a directory: name a file for the plan"},
      {{"--record", elsewhere.file("no/app.plan")}, "make it, or name another file"},
      {{"--record", ""}, "the name of the plan is empty"},
      {{"--replay", ""}, "the name of the plan is empty"},
  };
  for (const auto& [options, expected] : cases) {
    const Ran refused = run(options, program);
    EXPECT_EQ(refused.code, 125) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(expected));
    EXPECT_NE(access(mark.c_str(), F_OK), 0) << "the program ran: " << expected;
  }
  const std::string good = write_text(elsewhere, "good",
                                      "ioweave-plan/1\nfile \"a\" size 1 mtime 1.000000000\n"
                                      "read 0 1\nend 1 files 1 reads\n");
  const Ran refused = run({"--policy", "off", "--replay", good}, program);
  EXPECT_EQ(refused.code, 125);
  EXPECT_THAT(refused.err, HasSubstr("--replay reads ahead, which policy 'off' forbids"));
  EXPECT_EQ(run({"--replay", good}, program).code, 0);
  EXPECT_EQ(access(mark.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace ioweave::cli::test
