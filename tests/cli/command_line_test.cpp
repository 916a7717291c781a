#include "cli/command_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/output.hpp"

namespace ioweave::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parsed {
  std::optional<int> code;
  RunOptions options;
  std::string complaint;
};

Parsed parse(const std::vector<const char*>& words) {
  Parsed parsed;
  ::testing::internal::CaptureStderr();
  parsed.code = parse_run(words, parsed.options);
  parsed.complaint = ::testing::internal::GetCapturedStderr();
  return parsed;
}

TEST(RunLine, TheProgramStartsAtTheFirstWordThatIsNoOption) {
  const Parsed parsed = parse({"--policy", "off", "-v", "prog", "--policy", "sync", "--"});
  EXPECT_EQ(parsed.code, std::nullopt) << parsed.complaint;
  EXPECT_THAT(parsed.options.command, ElementsAre("prog", "--policy", "sync", "--"));
  ASSERT_EQ(parsed.options.settings.entries.size(), 1u);
  EXPECT_EQ(parsed.options.settings.entries[0].value, "off");
  EXPECT_EQ(parsed.options.verbose, 1u);
}

TEST(RunLine, TwoDashesEndTheOptions) {
  EXPECT_THAT(parse({"--", "--odd-name"}).options.command, ElementsAre("--odd-name"));
  EXPECT_THAT(parse({"-q", "--", "--", "x"}).options.command, ElementsAre("--", "x"));
}

TEST(RunLine, ShortOptionsMayBeJoined) {
  const Parsed parsed = parse({"-qvo", "file", "prog"});
  EXPECT_EQ(parsed.code, std::nullopt) << parsed.complaint;
  EXPECT_THAT(parsed.options.command, ElementsAre("prog"));
  EXPECT_EQ(parse({"-ofile", "prog"}).options.settings.entries.at(0).value, "file");
}

TEST(RunLine, JsonTakesAFileOnlyBehindAnEqualsSign) {
  const Parsed bare = parse({"--json", "prog"});
  EXPECT_TRUE(bare.options.json);
  EXPECT_EQ(bare.options.json_file, "");
  EXPECT_THAT(bare.options.command, ElementsAre("prog"));
  EXPECT_EQ(parse({"--json=x.json", "prog"}).options.json_file, "x.json");
}

TEST(RunLine, RulesKeepTheirOrder) {
  const Parsed parsed = parse({"--rule", "*.a=off", "--rule=/b=sync", "prog"});
  ASSERT_EQ(parsed.options.settings.rules.size(), 2u);
  EXPECT_EQ(parsed.options.settings.rules[0].glob, "*.a");
  EXPECT_EQ(parsed.options.settings.rules[1].policy, "sync");
}

TEST(RunLine, TheLastOfARepeatedOptionCounts) {
  EXPECT_EQ(
      parse({"--lookahead", "1m", "--lookahead", "2m", "p"}).options.settings.entries.at(0).value,
      "2m");
}

TEST(RunLine, AnUnknownOptionIsAnsweredWithTheNearest) {
  const Parsed parsed = parse({"--polcy=off", "prog"});
  EXPECT_EQ(parsed.code, kFailed);
  EXPECT_THAT(parsed.complaint, HasSubstr("unknown option '--polcy'; did you mean '--policy'?"));
  EXPECT_EQ(parse({"-Z", "prog"}).code, kFailed);
  EXPECT_EQ(parse({"-qZ", "prog"}).code, kFailed);
}

TEST(RunLine, AnOptionOfAnEarlierVersionIsAnsweredWithWhyItWent) {
  EXPECT_THAT(parse({"--slice=1m", "prog"}).complaint,
              HasSubstr("unknown option '--slice': 'slice' is no longer a setting: requests have"));
}

TEST(RunLine, AWrongValueIsAnErrorHere) {
  const Parsed parsed = parse({"--policy", "overlp", "prog"});
  EXPECT_EQ(parsed.code, kFailed);
  EXPECT_THAT(parsed.complaint, HasSubstr("did you mean 'overlap'?"));
  EXPECT_THAT(parse({"--lookahead", "1.5m", "prog"}).complaint, HasSubstr("is not a size"));
  EXPECT_THAT(parse({"--rule", "x", "prog"}).complaint, HasSubstr("GLOB=policy"));
  EXPECT_THAT(parse({"--rule", "x=of", "prog"}).complaint, HasSubstr("did you mean 'off'?"));
}

TEST(RunLine, AValueThatIsMissingIsAnError) {
  EXPECT_EQ(parse({"--policy"}).code, kFailed);
  EXPECT_EQ(parse({"-o"}).code, kFailed);
}

TEST(RunLine, AForgottenValueIsNotTakenFromWhatFollows) {
  for (const char* const option : {"-o", "-qo", "--output", "--rule", "--lookahead"}) {
    const Parsed parsed = parse({option, "--", "true"});
    EXPECT_EQ(parsed.code, kFailed) << option;
    EXPECT_THAT(parsed.complaint,
                HasSubstr(std::string("'") + option + "' needs a value, but '--' is not one"));
  }
  EXPECT_THAT(parse({"-o", "--lookahead", "1m", "true"}).complaint,
              HasSubstr("'--lookahead' is not one"));
  EXPECT_THAT(parse({"-o", "-q", "true"}).complaint, HasSubstr("'-q' is not one"));
  EXPECT_EQ(parse({"-o", "-odd", "-q", "true"}).code, kFailed) << "-odd is -o dd";
  EXPECT_EQ(parse({"--output=--", "true"}).options.settings.entries.at(0).value, "--");
}

TEST(RunLine, ADashIsNoRunFileAndForJsonIsStandardError) {
  EXPECT_THAT(parse({"-o", "-", "true"}).complaint,
              HasSubstr("output '-' is no file; --json prints the report on standard error"));
  const Parsed parsed = parse({"--json=-", "true"});
  EXPECT_EQ(parsed.code, std::nullopt) << parsed.complaint;
  EXPECT_TRUE(parsed.options.json);
  EXPECT_EQ(parsed.options.json_file, "");
}

TEST(RunLine, AProgramBehindABareJsonIsRemembered) {
  EXPECT_TRUE(parse({"--json", "x.json", "--", "true"}).options.program_behind_json);
  EXPECT_FALSE(parse({"--json", "--", "true"}).options.program_behind_json);
  EXPECT_FALSE(parse({"--json=x", "true"}).options.program_behind_json);
  EXPECT_FALSE(parse({"--json", "-q", "true"}).options.program_behind_json);
}

TEST(RunLine, AModeOfAnotherEngineIsAnError) {
  EXPECT_THAT(parse({"--engine", "aio", "--mode", "iopoll", "p"}).complaint,
              HasSubstr("mode 'iopoll' belongs to engine 'uring': engine 'aio' has no modes"));
  EXPECT_EQ(parse({"--engine", "aio", "--mode", "plain", "p"}).code, std::nullopt);
  EXPECT_EQ(parse({"--engine", "uring", "--mode", "sqpoll", "p"}).code, std::nullopt);
  EXPECT_EQ(parse({"--mode", "iopoll", "p"}).code, std::nullopt);
}

TEST(RunLine, NoProgramIsAnError) {
  EXPECT_THAT(parse({}).complaint, HasSubstr("no program was given"));
  EXPECT_THAT(parse({"--policy", "off", "--"}).complaint, HasSubstr("no program was given"));
}

TEST(StatLine, HasNoOptionsThatWouldDoSomething) {
  RunOptions options;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(parse_stat(std::vector<const char*>{"--policy", "sync", "prog"}, options), kFailed);
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(parse_stat(std::vector<const char*>{"-o", "x", "--", "prog"}, options), std::nullopt);
}

TEST(ConfigLine, NamesItsActions) {
  ConfigOptions options;
  EXPECT_EQ(parse_config(std::vector<const char*>{"explain", "/x"}, options), std::nullopt);
  EXPECT_EQ(options.action, ConfigOptions::Action::explain);
  options = {};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(parse_config(std::vector<const char*>{"explain"}, options), kFailed);
  EXPECT_EQ(parse_config(std::vector<const char*>{"explian", "/x"}, options), kFailed);
  EXPECT_EQ(parse_config(std::vector<const char*>{}, options), kFailed);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("did you mean 'explain'?"));
}

std::optional<int> parse_advice(const std::vector<const char*>& words, AdviseOptions& options,
                                std::string& complaint) {
  ::testing::internal::CaptureStderr();
  const std::optional<int> code = parse_advise(words, options);
  complaint = ::testing::internal::GetCapturedStderr();
  return code;
}

TEST(AdviseLine, AProgramStandsBehindDashes) {
  AdviseOptions options;
  std::string complaint;
  EXPECT_EQ(parse_advice({"-o", "run.jsonl", "--verify", "--", "prog", "-x"}, options, complaint),
            std::nullopt)
      << complaint;
  EXPECT_THAT(options.run.command, ElementsAre("prog", "-x"));
  EXPECT_TRUE(options.verify);
  EXPECT_TRUE(options.probe);
  EXPECT_EQ(options.run_file, "");
}

TEST(AdviseLine, AWordWithoutDashesIsARunFile) {
  AdviseOptions options;
  std::string complaint;
  EXPECT_EQ(parse_advice({"--no-probe", "run.jsonl", "--", "./new"}, options, complaint),
            std::nullopt)
      << complaint;
  EXPECT_EQ(options.run_file, "run.jsonl");
  EXPECT_THAT(options.changed, ElementsAre("./new"));
  EXPECT_TRUE(options.verify);
  EXPECT_FALSE(options.probe);
}

TEST(AdviseLine, AProgramWithoutDashesIsRefusedWithTheWayOut) {
  AdviseOptions options;
  std::string complaint;
  EXPECT_EQ(parse_advice({"prog", "argument"}, options, complaint), kFailed);
  EXPECT_THAT(complaint, HasSubstr("put '--' before the program"));
  EXPECT_EQ(parse_advice({}, options, complaint), kFailed);
  EXPECT_THAT(complaint, HasSubstr("no run file or program"));
  EXPECT_EQ(parse_advice({"--verfy", "x"}, options, complaint), kFailed);
  EXPECT_THAT(complaint, HasSubstr("--verify"));
}

}  // namespace
}  // namespace ioweave::cli
