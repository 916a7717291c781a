// The other subcommands from the outside.

#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/command_runner.hpp"
#include "cli/config_text.hpp"
#include "stats/text_file.hpp"
#include "support/child.hpp"

namespace ioweave::cli::test {
namespace {

using ioweave::test::read_text;
using ioweave::test::TempDir;
using ioweave::test::write_text;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Command, HelpAndVersionGoToStandardOutput) {
  for (const char* const word : {"--help", "-h", "help"}) {
    const Ran ran = run_ioweave({word});
    EXPECT_EQ(ran.code, 0);
    EXPECT_THAT(ran.out, HasSubstr("Examples:"));
  }
  EXPECT_EQ(run_ioweave({"--version"}).out, "ioweave " IOWEAVE_VERSION "\n");
  for (const char* const name : {"run", "stat", "report", "doctor", "config", "path", "measure"}) {
    const Ran ran = run_ioweave({name, "--help"});
    EXPECT_EQ(ran.code, 0) << name;
    EXPECT_THAT(ran.out, HasSubstr("Examples:")) << name;
    EXPECT_THAT(ran.err, IsEmpty()) << name;
  }
}

TEST(Command, HelpLeavesOutWhatIsNotInstalled) {
  const TempDir folder;
  const std::string alone = folder.file("ioweave");
  std::filesystem::copy_file(IOWEAVE_COMMAND, alone);
  const Ran ran = run_any({alone, "--help"});
  EXPECT_THAT(ran.out, AllOf(HasSubstr("  measure "), Not(HasSubstr("tiom"))));
  const Ran tiom = run_any({alone, "tiom"});
  EXPECT_EQ(tiom.code, 125);
  EXPECT_THAT(tiom.err, HasSubstr("ioweave-tiom was not found"));
}

TEST(Command, AnUnknownOneIsAnsweredWithTheNearest) {
  const Ran ran = run_ioweave({"docter"});
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, HasSubstr("did you mean 'doctor'?"));
  EXPECT_EQ(run_ioweave({}).code, 125);
}

TEST(Command, AnUnknownOptionIsAnsweredWithTheNearest) {
  for (const char* const word : {"--versoin", "-V", "-v"}) {
    const Ran ran = run_ioweave({word});
    EXPECT_EQ(ran.code, 125);
    EXPECT_THAT(ran.err,
                HasSubstr(std::string("unknown option '") + word + "'; did you mean '--version'?"));
  }
  EXPECT_THAT(run_ioweave({"-x"}).err, HasSubstr("unknown option '-x' (see 'ioweave --help')"));
}

TEST(Command, AReaderThatWentAwayIsNoCrash) {
  Surroundings how;
  how.in_child = [] { fclose(stdout); };
  EXPECT_EQ(run_any({"/bin/sh", "-c", "'" IOWEAVE_COMMAND "' run --help | head -1"}).code, 0);
}

TEST(Command, AFullStandardOutputIsSaid) {
  Surroundings full;
  full.in_child = [] { dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO); };
  for (const auto& words : {std::vector<std::string>{"--version"},
                            {"--help"},
                            {"run", "--help"},
                            {"path", "--preload"},
                            {"config", "show"}}) {
    const Ran ran = run_ioweave(words, full);
    EXPECT_EQ(ran.code, 125) << words[0];
    EXPECT_THAT(ran.err, HasSubstr("cannot write to standard output: No space left on device"));
  }
}

TEST(Path, PrintsTheInterposer) {
  const Ran ran = run_ioweave({"path", "--preload"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, IOWEAVE_FAKE_PRELOAD "\n");
}

TEST(Path, AnInstallationMayBeMovedAsAWhole) {
  namespace fs = std::filesystem;
  const TempDir folder;
  const fs::path bin = fs::path(folder.path()) / "bin";
  const fs::path lib = (bin / IOWEAVE_BIN_TO_LIB).lexically_normal();
  fs::create_directories(bin);
  fs::create_directories(lib / "ioweave");
  fs::create_directories(lib / "pkgconfig");
  fs::create_directories(lib / "cmake/ioweave");
  fs::copy_file(IOWEAVE_COMMAND, bin / "ioweave");
  fs::copy_file(IOWEAVE_FAKE_PRELOAD, lib / "ioweave/libioweave_preload.so");
  write_text(folder, fs::relative(lib / "pkgconfig/ioweave.pc", folder.path()), "");
  write_text(folder, fs::relative(lib / "cmake/ioweave/ioweave-config.cmake", folder.path()), "");
  Surroundings how;
  how.variables = {{"IOWEAVE_PRELOAD_PATH", ""}};
  const Ran ran = run_any({bin / "ioweave", "path", "--preload", "--cmake", "--pkgconfig"}, how);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, (lib / "ioweave/libioweave_preload.so").string() + "\n" +
                         (lib / "cmake/ioweave").string() + "\n" + (lib / "pkgconfig").string() +
                         "\n");
}

TEST(Path, WhatIsNotInstalledIsSaid) {
  const Ran ran = run_ioweave({"path", "--pkgconfig"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("ioweave.pc does not exist"));
  EXPECT_EQ(run_ioweave({"path"}).code, 125);
}

TEST(Config, ShowsValuesAndWhereTheyAreFrom) {
  const TempDir folder;
  write_text(folder, "ioweave.toml",
             "lookahead = \"2m\"\n[[rule]]\nglob = \"*.log\"\npolicy = \"off\"\n");
  Surroundings how;
  how.directory = folder.path();
  how.variables = {{"IOWEAVE_POLICY", "writes"}};
  const Ran ran = run_ioweave({"config", "show"}, how);
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, HasSubstr("IOWEAVE_POLICY"));
  EXPECT_THAT(ran.out, HasSubstr("./ioweave.toml:1"));
  const auto json = nlohmann::json::parse(run_ioweave({"config", "show", "--json"}, how).out);
  EXPECT_EQ(json["settings"]["policy"]["value"], "writes");
  EXPECT_EQ(json["settings"]["lookahead"]["layer"], "directory");
  EXPECT_EQ(json["rules"][0]["glob"], "/**/*.log");
}

TEST(Config, ExplainsAPath) {
  const TempDir folder;
  write_text(folder, "ioweave.toml", "[[rule]]\nglob = \"out/*.log\"\npolicy = \"off\"\n");
  Surroundings how;
  how.directory = folder.path();
  const Ran ran = run_ioweave({"config", "explain", "out/x.log"}, how);
  EXPECT_THAT(ran.out, HasSubstr("/out/x.log: off\n"));
  EXPECT_THAT(ran.out, HasSubstr("./ioweave.toml:1"));
}

TEST(Config, ExplainsAFileThatIsStillToBeMadeBelowALink) {
  const TempDir folder;
  const std::string real = std::filesystem::canonical(folder.path()).string() + "/real";
  std::filesystem::create_directory(real);
  std::filesystem::create_directory_symlink(real, folder.file("link"));
  Surroundings how;
  how.directory = folder.path();
  how.variables = {{"IOWEAVE_RULES", real + "/**=off"}};
  for (const char* const path : {"link/new/x.log", "link/../real/x.log"}) {
    EXPECT_THAT(run_ioweave({"config", "explain", path}, how).out,
                AllOf(StartsWith(real + "/"), HasSubstr("x.log: off\n")));
  }
}

TEST(Config, ExplainsAsJson) {
  Surroundings how;
  how.variables = {{"IOWEAVE_RULES", "*.log=off;/var/**=sync"}};
  const auto ruled =
      nlohmann::json::parse(run_ioweave({"config", "explain", "--json", "/var/x.log"}, how).out);
  EXPECT_EQ(ruled["path"], "/var/x.log");
  EXPECT_EQ(ruled["policy"], "off");
  EXPECT_EQ(ruled["rules"].size(), 2u);
  EXPECT_EQ(ruled["rules"][0]["glob"], "/**/*.log");
  EXPECT_EQ(ruled["default"]["policy"], "auto");
  const auto unruled =
      nlohmann::json::parse(run_ioweave({"config", "explain", "--json", "/x"}, how).out);
  EXPECT_EQ(unruled["policy"], "auto");
  EXPECT_EQ(unruled["rules"].size(), 0u);
}

TEST(Config, AListAsJsonIsRefused) {
  const Ran ran = run_ioweave({"config", "list", "--json"});
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, HasSubstr("list has no JSON form"));
  EXPECT_THAT(ran.out, IsEmpty());
}

TEST(Config, TheDocumentationHoldsTheTableOfSettings) {
  EXPECT_EQ(run_ioweave({"config", "list"}).out, settings_list());
  EXPECT_THAT(read_text(IOWEAVE_DOCS "/configuration.md"), HasSubstr(settings_list()))
      << "put the output of `ioweave config list` into docs/configuration.md";
}

TEST(Doctor, FindsTheInterposerUsable) {
  const Ran ran = run_ioweave({"doctor", "--json"});
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json["exit_code"], ran.code);
  bool found = false;
  for (const auto& finding : json["findings"]) {
    if (finding["subject"] != "interposer") continue;
    found = true;
    EXPECT_EQ(finding["usable"], "yes") << finding;
  }
  EXPECT_TRUE(found);
}

TEST(Doctor, AMissingInterposerIsUnusable) {
  Surroundings how;
  how.variables = {{"IOWEAVE_PRELOAD_PATH", "/nonexistent/x.so"}};
  const Ran ran = run_ioweave({"doctor"}, how);
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.out, HasSubstr("remedy"));
}

TEST(Doctor, AnInterposerThatDoesNothingIsUnusable) {
  Surroundings how;
  how.variables = {{"IOWEAVE_PRELOAD_PATH", IOWEAVE_OTHER_PRELOAD}};
  EXPECT_EQ(run_ioweave({"doctor"}, how).code, 2);
}

TEST(Doctor, SaysOfAProgramWhetherItCanBeFollowed) {
  const Ran ran = run_ioweave({"doctor", IOWEAVE_STATIC_PROGRAM});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("statically linked"));
  EXPECT_EQ(run_ioweave({"doctor", "/bin/sh"}).code, 0);
}

TEST(Doctor, SaysOfATaskProgramWhichRuntimeItFindsAndWhatItLacks) {
  const Ran ran = run_ioweave({"doctor", "--json", IOWEAVE_TASK_LATE});
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(ran.code, 1) << ran.out;
  EXPECT_EQ(json["findings"][1]["subject"], "calls of " IOWEAVE_TASK_LATE);
  const auto& tasks = json["findings"][2];
  EXPECT_EQ(tasks["subject"], "tasks of " IOWEAVE_TASK_LATE);
  EXPECT_EQ(tasks["usable"], "degraded");
  EXPECT_THAT(tasks["detail"].get<std::string>(), HasSubstr("nOS-V (libnosv.so.0)"));
  EXPECT_THAT(tasks["remedy"].get<std::string>(), HasSubstr("LD_PRELOAD=/"));
  EXPECT_EQ(run_ioweave({"doctor", IOWEAVE_TASK_NOSV}).code, 0);
}

TEST(Doctor, ABareNameIsLookedUpInPath) {
  const TempDir folder;
  const std::string program = folder.file("my-tool");
  std::filesystem::copy_file("/bin/sh", program);
  const TempDir elsewhere;
  Surroundings how;
  how.directory = elsewhere.path();
  how.variables = {{"PATH", folder.path() + ":/usr/bin:/bin"}};
  const Ran ran = run_ioweave({"doctor", "my-tool"}, how);
  EXPECT_EQ(ran.code, 2) << ran.out;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("there is a program of this name in PATH"),
                             HasSubstr("ioweave doctor " + program)));
  EXPECT_EQ(run_ioweave({"doctor", program}, how).code, 0);
}

TEST(Doctor, WithoutLockedMemoryThreadsStandInForIoUring) {
  Surroundings how;
  how.in_child = [] {
    prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK);  // or root has it again after exec
    (void)ioweave::test::limit_locked_memory(0);
  };
  const Ran ran = run_ioweave({"doctor"}, how);
  if (ran.out.find("no memory for an io_uring") == std::string::npos) {
    GTEST_SKIP() << "locked memory cannot be limited here, or this kernel does not count rings";
  }
  EXPECT_EQ(ran.code, 1) << ran.out;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("degraded  io_uring\n"), HasSubstr("ulimit -l"),
                             Not(HasSubstr("unusable"))));
}

TEST(Doctor, DoesRealIoInAFolder) {
  const TempDir folder;
  const Ran ran = run_ioweave({"doctor", folder.path()});
  EXPECT_THAT(ran.code, AnyOf(0, 1)) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr(folder.path()));
}

TEST(Doctor, AMissingPathIsUnusable) {
  const Ran ran = run_ioweave({"doctor", "/nonexistent/folder"});
  EXPECT_EQ(ran.code, 2) << ran.out;
}

}  // namespace
}  // namespace ioweave::cli::test
