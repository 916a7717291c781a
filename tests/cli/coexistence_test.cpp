// Programs that bring something of their own that stands between them and the C library: under
// `ioweave run` they do what they do without it, and their calls are still observed.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

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

using Words = std::vector<std::string>;
using Variables = std::vector<std::pair<std::string, std::string>>;
using Texts = std::map<std::string, std::string>;

constexpr int kFiles = 5;

/// A run in a folder of its own.
struct Outcome {
  Ran ran;
  Texts files;     ///< what it left
  Texts observed;  ///< calls of each file, as the report counts them
};

void PrintTo(const Outcome& outcome, std::ostream* out) {
  *out << "exit code " << outcome.ran.code << "\n" << outcome.ran.out << outcome.ran.err;
}

Texts files_in(const std::string& folder) {
  Texts files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files[entry.path().filename()] = read_text(entry.path());
  }
  return files;
}

Texts calls_in(const std::string& report_path) {
  Texts observed;
  const auto report = nlohmann::json::parse(read_text(report_path), nullptr, false);
  EXPECT_TRUE(report.is_object()) << "there is no report";
  if (!report.is_object()) return observed;
  for (const auto& file : report["files"]) {
    const auto& calls = file["calls"];
    std::string text = "opened " + file["opens"].dump();
    for (const char* const kind : {"read", "write", "sync", "other"}) {
      text += std::string(", ") + kind + " " + calls[kind]["calls"].dump() + " of " +
              calls[kind]["bytes"].dump();
    }
    observed[std::filesystem::path(file["path"].get<std::string>()).filename()] = text;
  }
  return observed;
}

Outcome run_plain(const Words& program, const Variables& variables = {}) {
  const TempDir folder;
  Surroundings how;
  how.directory = folder.path();
  how.variables = variables;
  Outcome outcome{run_any(program, how), {}, {}};
  outcome.files = files_in(folder.path());
  return outcome;
}

/// With the default policy. The variables are those of the command, as they are where somebody
/// writes `LD_PRELOAD=... ioweave run`.
Outcome run_observed(const Words& program, const Variables& variables = {}) {
  const TempDir folder;
  const TempDir elsewhere;
  const std::string report = elsewhere.file("report.json");
  Words words{"run", "-q", "--json=" + report, "--"};
  words.insert(words.end(), program.begin(), program.end());
  Surroundings how;
  how.directory = folder.path();
  how.variables = {{"IOWEAVE_PRELOAD_PATH", IOWEAVE_PRELOAD_LIBRARY}};
  how.variables.insert(how.variables.end(), variables.begin(), variables.end());
  Outcome outcome{run_ioweave(words, how), {}, {}};
  outcome.files = files_in(folder.path());
  outcome.observed = calls_in(report);
  return outcome;
}

Words many_calls() {
  return {IOWEAVE_MANY_CALLS, "out"};
}

/// The program starts with `library` in front of what `ioweave run` preloads into it.
Words with_in_front(const std::string& library) {
  return {"/bin/sh", "-c",
          "LD_PRELOAD=" + library + ":$LD_PRELOAD exec " IOWEAVE_MANY_CALLS " out"};
}

/// `observed` did what `plain` did, and was seen to make the calls that the program makes with
/// nothing else around it.
void expect_same(const Outcome& observed, const Outcome& plain) {
  EXPECT_EQ(observed.ran.code, 42) << ::testing::PrintToString(observed);
  EXPECT_EQ(observed.ran.code, plain.ran.code);
  EXPECT_EQ(observed.ran.out, plain.ran.out);
  EXPECT_EQ(observed.ran.err, plain.ran.err);
  EXPECT_EQ(observed.files.size(), size_t{kFiles});
  EXPECT_TRUE(observed.files == plain.files);
  static const Texts alone = run_observed(many_calls()).observed;
  EXPECT_EQ(alone.size(), size_t{kFiles});
  EXPECT_EQ(observed.observed, alone);
}

TEST(Coexistence, OfALibraryThatCountsCallsBehindTheInterposer) {
  const Variables preload{{"LD_PRELOAD", IOWEAVE_OTHER_PRELOAD}};
  const Outcome plain = run_plain(many_calls(), preload);
  ASSERT_THAT(plain.ran.err, HasSubstr("writes 800"));
  expect_same(run_observed(many_calls(), preload), plain);
}

TEST(Coexistence, OfALibraryThatCountsCallsInFrontOfTheInterposer) {
  const Outcome plain = run_plain(with_in_front(IOWEAVE_OTHER_PRELOAD), {{"LD_PRELOAD", ""}});
  ASSERT_THAT(plain.ran.err, HasSubstr("writes 800"));
  expect_same(run_observed(with_in_front(IOWEAVE_OTHER_PRELOAD)), plain);
}

TEST(Coexistence, OfALibraryThatAuditsTheLoader) {
  Words program{"/usr/bin/env", "LD_AUDIT=" IOWEAVE_AUDIT_LIBRARY};
  for (const std::string& word : many_calls()) program.push_back(word);
  const Outcome plain = run_plain(program);
  ASSERT_EQ(plain.ran.err, "audited\n");
  expect_same(run_observed(program), plain);
}

/// The command is audited, too.
TEST(Coexistence, OfALibraryThatAuditsTheLoaderOfAllProcesses) {
  const Variables audit{{"LD_AUDIT", IOWEAVE_AUDIT_LIBRARY}};
  const Outcome plain = run_plain(many_calls(), audit);
  Outcome observed = run_observed(many_calls(), audit);
  EXPECT_THAT(observed.ran.err, HasSubstr("audited\n"));
  observed.ran.err = plain.ran.err;
  expect_same(observed, plain);
}

/// It once found a data race in the interposer, and made the program end with 66.
TEST(Coexistence, OfAProgramWithThreadSanitizer) {
  const std::string program = IOWEAVE_THREAD_SANITIZED_PROGRAM;
  if (program.empty()) GTEST_SKIP() << "the compiler has no ThreadSanitizer";
  const Outcome plain = run_plain({program, "out"});
  if (plain.ran.code != 42) GTEST_SKIP() << "ThreadSanitizer does not run here: " << plain.ran.err;
  expect_same(run_observed({program, "out"}), plain);
}

class CoexistenceOfAllocators : public ::testing::TestWithParam<const char*> {};

TEST_P(CoexistenceOfAllocators, OnBothSidesOfTheInterposer) {
  const std::string library = GetParam();
  const Variables preload{{"LD_PRELOAD", library}};
  const Outcome plain = run_plain(many_calls(), preload);
  if (plain.ran.out.find(library) == std::string::npos) {
    GTEST_SKIP() << library << " is not installed: " << plain.ran.err;
  }
  expect_same(run_observed(many_calls(), preload), plain);
  expect_same(run_observed(with_in_front(library)), plain);
}

INSTANTIATE_TEST_SUITE_P(Each, CoexistenceOfAllocators,
                         ::testing::Values("libjemalloc.so.2", "libtcmalloc_minimal.so.4"),
                         [](const auto& each) {
                           return std::string(each.param).find("jemalloc") != std::string::npos
                                      ? "jemalloc"
                                      : "tcmalloc";
                         });

}  // namespace
}  // namespace ioweave::cli::test
