// `ioweave advise` from the outside, with the real interposer: one run is observed, its series are
// in the run file, and the run file alone gives the same prediction.

#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "calls/preload/run.hpp"
#include "cli/command_runner.hpp"
#include "config/run_config.hpp"
#include "stats/run_file.hpp"
#include "stats/text_file.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::cli::test {
namespace {

using ioweave::test::read_text;
using ioweave::test::TempDir;
using ioweave::test::write_text;
using ioweave::testing::cached_share;
using ioweave::testing::drop_from_cache;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

class Advising : public ::testing::Test {
 protected:
  Advising() { std::ofstream(input_, std::ios::binary) << std::string(16u << 20, 'x'); }
  using Variables = std::vector<std::pair<std::string, std::string>>;
  static Ran ioweave(const Words& words, Variables variables = {}) {
    variables.emplace_back("IOWEAVE_PRELOAD_PATH", IOWEAVE_PRELOAD_LIBRARY);
    Surroundings how;
    how.variables = std::move(variables);
    return run_ioweave(words, how);
  }
  static Ran advise(Words words, Variables variables = {}) {
    words.insert(words.begin(), "advise");
    return ioweave(words, std::move(variables));
  }
  [[nodiscard]] Words reader() const {
    return {"--", IOWEAVE_CHUNK_READER, input_, "65536", "500"};
  }

  TempDir folder_;
  std::string input_ = folder_.file("in");
  std::string run_file_ = folder_.file("run.jsonl");
};

Words joined(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

double bytes_read(const nlohmann::json& advice) {
  double read = 0;
  for (const auto& phase : advice["phases"]) read += phase["read_bytes"].get<double>();
  return read;
}

TEST_F(Advising, AnObservedRunIsPredictedAndKept) {
  const std::string json = folder_.file("advice.json");
  const Ran ran = advise(joined({"--json=" + json, "-o", run_file_}, reader()));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("as it is"));
  EXPECT_THAT(ran.out, Not(HasSubstr("as it is")));  // it belongs to the program
  const auto advice = nlohmann::json::parse(read_text(json));
  EXPECT_EQ(advice["read_file"], input_);
  // A look from outside may find the loader at a library: it reads the first 832 bytes of each.
  EXPECT_NEAR(bytes_read(advice), 16 << 20, 32 << 10);
  const Ran again = advise({"--json", "--no-probe", run_file_});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(nlohmann::json::parse(again.out)["phases"], advice["phases"]);
}

TEST_F(Advising, TheObservedRunIsLeftAloneWhateverTheSettingsSay) {
  const Ran ran = advise(joined({"-o", run_file_}, reader()), {{"IOWEAVE_POLICY", "overlap"}});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, Not(HasSubstr("was not left alone")));
  stats::RunReport report;
  std::string why;
  ASSERT_TRUE(stats::read_run_file(run_file_, report, why)) << why;
  EXPECT_EQ(report.config.policy, config::RunPolicy::off);
}

TEST_F(Advising, TheFilesOfStatAndOfRunHaveWhatCallsRead) {
  for (const char* const command : {"stat", "run"}) {
    SCOPED_TRACE(command);
    const Ran ran = ioweave(joined({command, "-o", run_file_}, reader()));
    ASSERT_EQ(ran.code, 0) << ran.err;
    const Ran advised = advise({"--json", "--no-probe", run_file_});
    ASSERT_EQ(advised.code, 0) << advised.err;
    const auto advice = nlohmann::json::parse(advised.out);
    EXPECT_EQ(advice["read_file"], input_);
    EXPECT_NEAR(bytes_read(advice), 16 << 20, 32 << 10);
    const bool was_helped =
        advice["remarks"].dump().find("was not left alone") != std::string::npos;
    EXPECT_EQ(was_helped, command == std::string("run"));
  }
}

TEST_F(Advising, WhatOnlyPositionsTellIsInTheFileOfStatAndNotOfRun) {
  const Words program{"--", IOWEAVE_STATIC_READER, input_, "65536", "2000"};
  ASSERT_EQ(ioweave(joined({"stat", "-o", run_file_}, program)).code, 0);
  const Ran of_stat = advise({"--json", "--no-probe", run_file_});
  ASSERT_EQ(of_stat.code, 0) << of_stat.err;
  EXPECT_EQ(nlohmann::json::parse(of_stat.out)["read_file"], input_);
  ASSERT_EQ(ioweave(joined({"run", "-o", run_file_}, program)).code, 0);
  const Ran of_run = advise({"--json", "--no-probe", run_file_});
  EXPECT_EQ(of_run.code, 125);
  EXPECT_THAT(of_run.err, HasSubstr("nothing to overlap"));
}

TEST_F(Advising, VerifyPrintsPredictedBesideMeasured) {
  const Ran ran = advise(joined({"--verify"}, reader()));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("verified"));
  EXPECT_THAT(ran.err, HasSubstr("prefetch "));
}

TEST_F(Advising, ARunFileIsVerifiedByRunningItsProgramAgain) {
  const Ran observed = advise(joined({"-o", run_file_}, reader()));
  ASSERT_EQ(observed.code, 0) << observed.err;
  const std::string checksum = observed.out.substr(0, observed.out.find(' '));
  const Ran ran = advise({"--verify", run_file_});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr(checksum));  // the reader's own output
  EXPECT_THAT(ran.out, HasSubstr("verified"));
}

TEST_F(Advising, APictureIsWritten) {
  const std::string picture = folder_.file("advice.svg");
  ASSERT_EQ(advise(joined({"--svg", picture}, reader())).code, 0);
  EXPECT_THAT(read_text(picture), HasSubstr("</svg>"));
}

TEST_F(Advising, WhatCannotBePredictedIsSaid) {
  const Ran ran = advise({"--", "/bin/true"});
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, HasSubstr("nothing to overlap"));
  const Ran missing = advise({folder_.file("missing.jsonl")});
  EXPECT_EQ(missing.code, 125);
  EXPECT_THAT(missing.err, HasSubstr("missing.jsonl: No such file"));
  EXPECT_EQ(advise({"--", "/nonexistent/program"}).code, 127);
}

/// The run file of a program that nobody ran: for a second it computed, read its input from the
/// page cache, and waited half of the time for what it wrote. So a write stream is the advice.
class AdvisingAWriter : public Advising {
 protected:
  AdvisingAWriter() {
    stats::Series series = series_of_slots();
    series.read_calls = series.read_turns = std::vector<uint64_t>(kSlots, 4);
    series.read_bytes = std::vector<uint64_t>(kSlots, kInputBytes / kSlots);
    add_file(input_, series);
    series = series_of_slots();
    series.write_calls = series.write_turns = std::vector<uint64_t>(kSlots, 4);
    series.write_bytes = std::vector<uint64_t>(kSlots, 1u << 20);
    series.write_seconds = std::vector<double>(kSlots, series.slot_s / 2);
    series.sync_seconds[0] = 0.01;  // so that no page cache takes it
    write_text(folder_, "out", "");
    add_file(folder_.file("out"), series);
    report_.command = {"/bin/false"};
    report_.config.policy = config::RunPolicy::off;
    report_.machine.cpus_allowed = 2;
    report_.outcome.wall_seconds = 1;
    report_.outcome.storage_read_bytes = kInputBytes;
    stats::ProcessReport process;
    process.pid = kPid;
    process.active = true;
    process.seconds = 1;
    report_.processes = {process};
  }

  static constexpr size_t kSlots = 16;
  static constexpr uint64_t kInputBytes = 16u << 20;
  static constexpr int32_t kPid = 7;

  static stats::Series series_of_slots() {
    stats::Series series;
    series.pid = kPid;
    series.slot_s = 1.0 / kSlots;
    series.resize(kSlots);
    return series;
  }

  void add_file(const std::string& path, const stats::Series& series) {
    struct stat status {};
    ASSERT_EQ(stat(path.c_str(), &status), 0) << path;
    stats::FileReport file;
    file.path = path;
    file.device = status.st_dev;
    file.inode = status.st_ino;
    file.series = {series};
    report_.files.push_back(file);
  }

  /// Verifies with `changed` as the changed program; what came of it is in `verified_`.
  Ran verify(const Words& changed) {
    write_text(folder_, "run.jsonl", stats::run_file_text(report_));
    const std::string json = folder_.file("advice.json");
    const Ran ran =
        advise(joined({"--no-probe", "--json=" + json, "--verify", run_file_, "--"}, changed));
    const auto advice = nlohmann::json::parse(read_text(json), nullptr, false);
    if (advice.is_object()) verified_ = advice.value("verified", nlohmann::json());
    return ran;
  }

  stats::RunReport report_;
  nlohmann::json verified_;
};

TEST_F(AdvisingAWriter, VerifyRunsTheChangedProgramInsteadAndLeavesItAlone) {
  const std::string copy = folder_.file("config");
  const std::string copying = "echo I am new; cp $IOWEAVE_RUN_DIR/config " + copy;
  const Ran ran = verify({"/bin/sh", "-c", copying});
  ASSERT_EQ(ran.code, 0) << ran.err;  // the observed program would fail
  EXPECT_THAT(ran.out, HasSubstr("I am new\n"));
  EXPECT_THAT(ran.out, HasSubstr("verified"));
  EXPECT_EQ(verified_["way"], "write-behind");
  const std::string bytes = read_text(copy);
  config::RunConfig config;
  ASSERT_GE(bytes.size(), sizeof config);
  std::memcpy(&config, bytes.data(), sizeof config);
  EXPECT_EQ(config.policy, config::RunPolicy::off);  // it has a stream of its own
}

TEST_F(AdvisingAWriter, NothingIsVerifiedWithoutTheChangedProgram) {
  write_text(folder_, "run.jsonl", stats::run_file_text(report_));
  const Ran ran = advise({"--no-probe", "--verify", run_file_});
  EXPECT_EQ(ran.code, 0);  // the observed program would fail
  EXPECT_THAT(ran.err, HasSubstr("--verify RUN.jsonl -- CHANGED-PROGRAM"));
  EXPECT_THAT(ran.out, Not(HasSubstr("verified")));
}

TEST_F(AdvisingAWriter, AChangedProgramThatFailsPassesItsCodeOn) {
  const Ran ran = verify({"/bin/sh", "-c", "exit 3"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.err, HasSubstr("exit code 3"));
  EXPECT_THAT(ran.out, Not(HasSubstr("verified")));
  EXPECT_TRUE(verified_.is_null());
}

TEST_F(AdvisingAWriter, VerifyTakesTheInputOutOfThePageCacheBefore) {
  if (!drop_from_cache(input_)) GTEST_SKIP() << "files of this file system stay in memory";
  ASSERT_EQ(read_text(input_).size(), kInputBytes);
  ASSERT_EQ(cached_share(input_), 1);
  ASSERT_EQ(verify({"/bin/true"}).code, 0);
  EXPECT_EQ(cached_share(input_), 0);
  EXPECT_TRUE(verified_["was_cold"].get<bool>());
}

TEST_F(AdvisingAWriter, VerifyLeavesTheInputInThePageCacheWhereTheObservedRunFoundIt) {
  if (major(report_.files[0].device) == 0) GTEST_SKIP() << "this file system has no block device";
  report_.outcome.storage_read_bytes = 0;
  ASSERT_EQ(read_text(input_).size(), kInputBytes);
  ASSERT_EQ(verify({"/bin/true"}).code, 0);
  EXPECT_EQ(cached_share(input_), 1);
  EXPECT_FALSE(verified_["was_cold"].get<bool>());
}

TEST_F(AdvisingAWriter, TheCurveOfTheOutputsDeviceIsFoundInIoweaveToml) {
  const std::string device = "[[device]]\nname = \"scratch\"\npath = \"" + folder_.path() +
                             "\"\ncurve = [[1, 100.0], [4, 400.0]]\n";
  std::filesystem::create_directory(folder_.file("ioweave"));
  write_text(folder_, "ioweave/ioweave.toml", device);
  const auto found_curve = [&] {
    write_text(folder_, "run.jsonl", stats::run_file_text(report_));
    const Ran ran =
        advise({"--no-probe", "--json", run_file_}, {{"XDG_CONFIG_HOME", folder_.path()}});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return nlohmann::json::parse(ran.out)["write_curve"].dump();
  };
  EXPECT_EQ(found_curve(), "[[1.0,100.0],[4.0,400.0]]");
  ++report_.files[1].device;  // the output is elsewhere
  EXPECT_EQ(found_curve(), "[]");
}

}  // namespace
}  // namespace ioweave::cli::test
