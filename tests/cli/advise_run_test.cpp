// `ioweave advise` from the outside, with the real interposer: one run is observed, its series are
// in the run file, and the run file alone gives the same prediction.

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/command_runner.hpp"
#include "stats/text_file.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::cli::test {
namespace {

using ioweave::test::read_text;
using ioweave::test::TempDir;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

class Advising : public ::testing::Test {
 protected:
  Advising() { std::ofstream(input_, std::ios::binary) << std::string(16u << 20, 'x'); }
  static Ran ioweave(const Words& words) {
    Surroundings how;
    how.variables = {{"IOWEAVE_PRELOAD_PATH", IOWEAVE_PRELOAD_LIBRARY}};
    return run_ioweave(words, how);
  }
  static Ran advise(Words words) {
    words.insert(words.begin(), "advise");
    return ioweave(words);
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

}  // namespace
}  // namespace ioweave::cli::test
