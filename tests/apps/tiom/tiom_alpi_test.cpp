// `ioweave tiom --runtime alpi`: how the program comes to have a runtime, and ends it.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tiom_command.hpp"

namespace tiom::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

constexpr const char* kProvider = IOWEAVE_ALPI_TEST;
constexpr const char* kOtherProvider = IOWEAVE_ALPI_TEST_1_1;
constexpr const char* kNosvLike = TIOM_NOSV_LIKE;
constexpr const char* kPreloaded = TIOM_PRELOADED;

class TiomAlpiCommand : public Command {
 protected:
  void SetUp() override {
    for (const char* name : {"NOSV_PREFIX", "NANOS6_PREFIX", "LD_PRELOAD"}) unsetenv(name);
    // A program with AddressSanitizer refuses to start with a library before that of its own.
    const char* const sanitizer = std::getenv("ASAN_OPTIONS");
    setenv("ASAN_OPTIONS",
           ((sanitizer != nullptr ? std::string(sanitizer) + ":" : "") + "verify_asan_link_order=0")
               .c_str(),
           1);
    setenv("ALPI_TEST_CPUS", "2", 1);
    setenv("NOSV_LIKE_LOG", dir_.file("log").c_str(), 1);
  }

  /// A sweep of one cell, which takes little.
  [[nodiscard]] Result run_cell(std::vector<std::string> more,
                                const Environment& added = {}) const {
    std::vector<std::string> words{
        "--runtime", "alpi", "-b",       "4k",  "-c",     "0.01ms", "-s",           "8",  "-r", "2",
        "--bytes",   "128k", "--direct", "off", "--json", "a.json", "--time-limit", "60s"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, added);
  }

  /// That the cell was measured on such a runtime.
  void expect_report(const std::string& runtime) const {
    const Json report = Json::parse(content("a.json"), nullptr, false);
    ASSERT_FALSE(report.is_discarded());
    EXPECT_THAT(report["tasks"].get<std::string>(), HasSubstr(runtime));
    ASSERT_EQ(report["cells"].size(), 1u);
    ASSERT_EQ(report["cells"][0]["variants"].size(), 3u);
    for (const Json& variant : report["cells"][0]["variants"]) {
      for (const Json& one : variant["runs"]) EXPECT_EQ(one["bytes"], 128 << 10);
    }
  }

  [[nodiscard]] std::string alpi_line(const Environment& added,
                                      std::vector<std::string> words = {"--list"}) const {
    const Result result = run(std::move(words), added);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    const size_t start = result.output.find("  alpi ");
    return start == std::string::npos
               ? result.output
               : result.output.substr(start, result.output.find('\n', start) - start);
  }
};

TEST_F(TiomAlpiCommand, TakesTheLibraryThatIsNamed) {
  const Result result = run_cell({"--alpi-library", kProvider});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  expect_report("ALPI test provider");
}

TEST_F(TiomAlpiCommand, TakesTheLibraryBelowNosvPrefix) {
  std::filesystem::create_directories(dir_.file("lib64"));
  std::filesystem::create_symlink(kProvider, dir_.file("lib64/libnosv.so"));
  const Environment prefix{{"NOSV_PREFIX", dir_.path()}};
  EXPECT_THAT(alpi_line(prefix),
              HasSubstr("found by NOSV_PREFIX: " + dir_.file("lib64/libnosv.so")));
  const Result result = run_cell({}, prefix);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  expect_report("ALPI test provider");
}

TEST_F(TiomAlpiCommand, PutsTheRuntimeBeforeTheCLibraryAndEndsIt) {
  for (const char* reaper : {"thread", "task"}) {
    SCOPED_TRACE(reaper);
    std::filesystem::remove(dir_.file("log"));
    const Result result = run_cell({"--alpi-library", kNosvLike, "--reaper", reaper});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    expect_report("ALPI test provider");
    EXPECT_THAT(content("log"), HasSubstr("started\nended\n"));
    EXPECT_THAT(result.errors, Not(HasSubstr("nosv_shutdown")));
  }
}

TEST_F(TiomAlpiCommand, KeepsWhatIsPreloadedBehindTheRuntime) {
  const Result result = run_cell({"--alpi-library", kNosvLike}, {{"LD_PRELOAD", kPreloaded}});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const std::string log = content("log");
  // Children are started with what this program was started with.
  EXPECT_THAT(log, HasSubstr(std::string("LD_PRELOAD=") + kPreloaded + "\n"));
  const std::string libraries = log.substr(log.find("libraries:"));
  EXPECT_LT(libraries.find(kNosvLike), libraries.find(kPreloaded));
  EXPECT_LT(libraries.find(kPreloaded), libraries.find("/libc.so"));
}

TEST_F(TiomAlpiCommand, LeavesNothingInTheEnvironment) {
  ASSERT_EQ(run_cell({"--alpi-library", kNosvLike}).exit_code, 0);
  EXPECT_THAT(content("log"), HasSubstr("LD_PRELOAD=(none)\nIOWEAVE_TIOM_PRELOADED=(none)\n"));
}

TEST_F(TiomAlpiCommand, UsesARuntimeThatIsThere) {
  const std::string both = std::string(kNosvLike) + ":" + kProvider;
  EXPECT_THAT(alpi_line({{"LD_PRELOAD", both}}),
              HasSubstr(std::string("in this process already: ") + kProvider));
  const Result result = run_cell({}, {{"LD_PRELOAD", both}});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  expect_report("ALPI test provider");
  // It has not started again: LD_PRELOAD is as given.
  EXPECT_THAT(content("log"), HasSubstr("LD_PRELOAD=" + both + "\n"));
}

TEST_F(TiomAlpiCommand, TakesNoOtherRuntimeThanTheOneThatIsNamed) {
  const Environment other{{"LD_PRELOAD", kOtherProvider}};
  const Result result = run_cell({"--alpi-library", kProvider}, other);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr(kProvider), HasSubstr(kOtherProvider), HasSubstr("leave out one")));
  EXPECT_EQ(run_cell({"--alpi-library", kOtherProvider}, other).exit_code, 0);
}

TEST_F(TiomAlpiCommand, SaysWhatToDoWhereTheRuntimeIsMissingOrNone) {
  const std::filesystem::path text = dir_.file("text.so");
  std::ofstream(text) << "no library";
  for (const auto& [library, reason] :
       {std::pair<std::string, std::string>{"/does/not/exist.so", "there is no /does/not/exist.so"},
        {"libc.so.6", "is no ALPI runtime: it lacks alpi_task_spawn"},
        {text.string(), text.string()},
        {TIOM_ABORTING, "ends a process that loads it (signal 6)"}}) {
    SCOPED_TRACE(library);
    const Result result = run_cell({"--alpi-library", library});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.errors, AllOf(HasSubstr(reason), HasSubstr("set NOSV_PREFIX"),
                                     HasSubstr("--alpi-library")));
    EXPECT_THAT(alpi_line({}, {"--list", "--runtime", "alpi", "--alpi-library", library}),
                AllOf(HasSubstr(reason), Not(HasSubstr("blocking"))));
  }
  EXPECT_THAT(alpi_line({{"NOSV_PREFIX", "/nowhere"}}),
              AllOf(HasSubstr("by NOSV_PREFIX"), HasSubstr("/nowhere/lib/libnosv.so"),
                    Not(HasSubstr("blocking"))));
}

TEST_F(TiomAlpiCommand, ListsTheLibraryThatIsNamed) {
  EXPECT_THAT(alpi_line({}, {"--list", "--runtime", "alpi", "--alpi-library", kProvider}),
              AllOf(HasSubstr("blocking"),
                    HasSubstr(std::string("found by --alpi-library: ") + kProvider)));
}

TEST_F(TiomAlpiCommand, RefusesAPathThatCannotBePreloaded) {
  const std::string link = dir_.file("a library.so");
  std::filesystem::create_symlink(kProvider, link);
  const Result result = run_cell({"--alpi-library", link});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, AllOf(HasSubstr(link), HasSubstr("by a link without these")));
}

TEST_F(TiomAlpiCommand, StartsAgainOnlyOnce) {
  // As after a start again whose preloading had no effect.
  const Result result =
      run_cell({"--alpi-library", kProvider}, {{"IOWEAVE_TIOM_PRELOADED", "$$ /lost/runtime.so"}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("/lost/runtime.so"), HasSubstr("had no effect")));
}

TEST_F(TiomAlpiCommand, HeedsNoMarkOfAnotherProcess) {
  const Result result =
      run_cell({"--alpi-library", kProvider}, {{"IOWEAVE_TIOM_PRELOADED", "1 /lost/runtime.so"}});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
}

TEST_F(TiomAlpiCommand, EndsTheRuntimeAlsoWhereItFails) {
  const Result usage = run_cell({"--alpi-library", kNosvLike, "--threads", "3"});
  EXPECT_EQ(usage.exit_code, 2);
  EXPECT_THAT(usage.errors, HasSubstr("--threads 3"));
  EXPECT_THAT(content("log"), HasSubstr("started\nended\n"));
  std::filesystem::remove(dir_.file("log"));
  const Result failure =
      run_cell({"--alpi-library", kNosvLike}, {{"ALPI_TEST_MODE", "spawn_fails"}});
  EXPECT_EQ(failure.exit_code, 1);
  EXPECT_THAT(failure.errors, HasSubstr("alpi_task_spawn"));
  EXPECT_THAT(content("log"), HasSubstr("started\nended\n"));
}

TEST_F(TiomAlpiCommand, RunsOnTheRealNosv) {
  const char* const prefix = std::getenv("IOWEAVE_TEST_NOSV_PREFIX");
  if (prefix == nullptr || *prefix == '\0') {
    GTEST_SKIP() << "IOWEAVE_TEST_NOSV_PREFIX is not set; set it to where nOS-V is installed";
  }
  const Environment installed{{"NOSV_PREFIX", prefix}};
  EXPECT_THAT(alpi_line(installed), HasSubstr("found by NOSV_PREFIX: "));
  for (const char* reaper : {"thread", "task"}) {
    SCOPED_TRACE(reaper);
    const Result result = run_cell({"--reaper", reaper}, installed);
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    expect_report("nOS-V");
    // It complains of who has not ended it.
    EXPECT_THAT(result.errors, Not(HasSubstr("nosv_shutdown")));
  }
  const Result refused = run_cell({"--threads", "999"}, installed);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, AllOf(HasSubstr("--threads 999"), Not(HasSubstr("nosv_shutdown"))));
}

}  // namespace
}  // namespace tiom::test
