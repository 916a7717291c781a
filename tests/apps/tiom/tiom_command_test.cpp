// The program as a user runs it.
#include "tiom_command.hpp"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace {

using testing::HasSubstr;
using tiom::test::Result;
using Json = nlohmann::json;

class TiomCommand : public tiom::test::Command {
 protected:
  /// A sweep of two cells, which takes little. Not direct: it runs on every file system.
  [[nodiscard]] static std::vector<std::string> small(std::vector<std::string> more) {
    std::vector<std::string> words{"-b",      "4k,8k", "-c",           "0.01ms", "-s",       "8",
                                   "--bytes", "128k",  "-r",           "2",      "--direct", "off",
                                   "-t",      "2",     "--time-limit", "60s"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(TiomCommand, PrintsATableAndLeavesNothingBehind) {
  const Result result = run(small({}));
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("standalone"));
  EXPECT_THAT(result.output, HasSubstr("8k"));
  EXPECT_THAT(result.errors, HasSubstr("cell 2 of 2"));
  std::filesystem::remove(dir_.file("stdout"));
  std::filesystem::remove(dir_.file("stderr"));
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(TiomCommand, WritesEachFormOfItsResults) {
  const Result result = run(small({"--json", "a.json", "--html", "a.html"}));
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(Json::parse(content("a.json"))["cells"].size(), 2u);
  EXPECT_THAT(content("a.html"), HasSubstr("</html>"));
  const Result piped = run(small({"--json", "-"}));
  EXPECT_EQ(Json::parse(piped.output)["schema"], "ioweave-tiom/1");
}

TEST_F(TiomCommand, ReadsAFileThatIsThereAndKeepsIt) {
  const std::string data(300'000, 'd');
  std::ofstream(dir_.file("data")) << data;
  EXPECT_EQ(run(small({"--file", "data"})).exit_code, 0);
  EXPECT_TRUE(content("data") == data);
}

TEST_F(TiomCommand, DoesNotDestroyAFileThatIsThere) {
  std::ofstream(dir_.file("data")) << "precious";
  for (const char* more : {"--list", "--advise", "--repetitions=1"}) {
    const Result result = run(small({"--file", "data", "--op", "write", more}));
    EXPECT_EQ(content("data"), "precious") << more;
    if (std::string(more) == "--list") continue;
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.errors, HasSubstr("--overwrite"));
  }
}

TEST_F(TiomCommand, OverwritesAFileWhenAllowed) {
  std::ofstream(dir_.file("data")) << "old";
  const Result result = run(small({"--file", "data", "--op", "write", "--overwrite"}));
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_GE(content("data").size(), size_t{128} << 10);
}

TEST_F(TiomCommand, GoesOnWhereItWasKilled) {
  const std::vector<std::string> words = {IOWEAVE_TIOM_PATH,
                                          "-b",
                                          "4k,8k,16k,32k",
                                          "-c",
                                          "0.1ms,0.2ms",
                                          "-s",
                                          "4",
                                          "--bytes",
                                          "1g",
                                          "--direct",
                                          "off",
                                          "-r",
                                          "1",
                                          "-t",
                                          "2",
                                          "--time-limit",
                                          "50ms",
                                          "--resume",
                                          "state",
                                          "--file",
                                          "data"};
  // Filled here and kept, so that killing finds a file to go on with.
  std::filesystem::resize_file((std::ofstream(dir_.file("data")).close(), dir_.file("data")),
                               uint64_t{1} << 30);
  const pid_t child = start(words);
  while (content("state").empty() && waitpid(child, nullptr, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_FALSE(content("state").empty()) << content("stderr");
  const Json before = Json::parse(content("state"))["cells"];
  ASSERT_GE(before.size(), 1u);
  std::vector<std::string> again = words;
  again.insert(again.end(), {"--json", "a.json"});
  const Result result = finish(start(again));
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const Json report = Json::parse(content("a.json"));
  ASSERT_EQ(report["cells"].size(), 8u);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(report["cells"][i]["variants"][0]["runs"], before[i]["variants"][0]["runs"]);
  }
  EXPECT_THAT(result.errors, HasSubstr(" of " + std::to_string(8 - before.size()) + " "));
}

TEST_F(TiomCommand, RunsNoFinishedCellAgain) {
  ASSERT_EQ(run(small({"--resume", "state", "--json", "a.json"})).exit_code, 0);
  const Result result = run(small({"--resume", "state", "--json", "b.json"}));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.errors, testing::Not(HasSubstr("cell ")));
  EXPECT_EQ(Json::parse(content("a.json"))["cells"], Json::parse(content("b.json"))["cells"]);
  EXPECT_THAT(run(small({"--resume", "state", "--list"})).output, HasSubstr("(finished)"));
}

TEST_F(TiomCommand, RefusesToResumeAnotherSweep) {
  ASSERT_EQ(run(small({"--resume", "state"})).exit_code, 0);
  const std::string before = content("state");
  const Result result = run(small({"--resume", "state", "--pattern", "sequential"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("--pattern was 'random' and is 'sequential'"));
  EXPECT_EQ(content("state"), before);
}

TEST_F(TiomCommand, ListsRuntimesAndCells) {
  const Result result = run({"--list", "-b", "4k..16k", "-c", "1ms"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* text :
       {"threads", "openmp", "tbb", "alpi", "coroutine", "3 to run", "mix, 16k, 1ms"}) {
    EXPECT_THAT(result.output, HasSubstr(text));
  }
}

TEST_F(TiomCommand, AdvisesWithoutASweep) {
  const Result result = run({"--advise", "-b", "64k", "-c", "1ms,1s", "--bytes", "1m", "--direct",
                             "off", "--json", "a.json"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("page cache"));
  EXPECT_THAT(result.output, HasSubstr("worth it"));
  const Json json = Json::parse(content("a.json"));
  EXPECT_EQ(json["schema"], "ioweave-tiom-advice/1");
  ASSERT_EQ(json["advice"].size(), 2u);
  EXPECT_EQ(json["device"][0]["probes"].size(), 3u);
  EXPECT_EQ(json["advice"][1]["worth_it"], false);
  EXPECT_THAT(json["advice"][1]["reason"].get<std::string>(), HasSubstr("Computation dominates"));
}

TEST_F(TiomCommand, NoticesAMistakeInTheNameOfAResultFirst) {
  for (const char* option : {"--json", "--html", "--resume"}) {
    const Result result = run(small({option, "no/such/folder/file"}));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.errors, HasSubstr(option));
    EXPECT_THAT(result.errors, HasSubstr("no/such/folder"));
  }
  EXPECT_EQ(run(small({"--html", "."})).exit_code, 2);
}

TEST_F(TiomCommand, EndsWithTwoOnAUsageError) {
  const Result result = run({"--blok", "4k"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("'--block'"));
  EXPECT_THAT(result.errors, HasSubstr("--help"));
}

TEST_F(TiomCommand, IsStartedByTheCommand) {
#ifdef IOWEAVE_COMMAND
  const Result help = finish(start({IOWEAVE_COMMAND, "tiom", "--help"}));
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.output, HasSubstr("Usage: ioweave tiom"));
  EXPECT_EQ(finish(start({IOWEAVE_COMMAND, "tiom", "--op", "append"})).exit_code, 2);
  // A copy of the command stands alone.
  std::filesystem::copy_file(IOWEAVE_COMMAND, dir_.file("ioweave"));
  const Result alone = finish(start({dir_.file("ioweave"), "tiom", "--help"}));
  EXPECT_EQ(alone.exit_code, 125);
  EXPECT_THAT(alone.errors, HasSubstr("-DIOWEAVE_BUILD_TIOM=ON"));
#else
  GTEST_SKIP() << "the ioweave command is not built (IOWEAVE_BUILD_CLI)";
#endif
}

}  // namespace
