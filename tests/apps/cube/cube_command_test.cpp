// The program as a user runs it.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cube_profile.hpp"
#include "error.hpp"
#include "options.hpp"

namespace {

namespace fs = std::filesystem;
using cube_test::Bytes;
using cube_test::Profile;
using testing::HasSubstr;
using testing::StartsWith;

const std::vector<uint64_t> kCounts = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

struct CommandResult {
  int exit_code;
  std::string output;  // and errors
};

CommandResult run_command(const std::vector<std::string>& arguments) {
  std::array<int, 2> output{};
  if (pipe2(output.data(), O_CLOEXEC) == -1) return {-1, "no pipe"};
  const pid_t child = fork();
  if (child == 0) {
    dup2(output[1], STDOUT_FILENO);
    dup2(output[1], STDERR_FILENO);
    std::vector<char*> argv;
    for (const std::string& argument : arguments) {
      argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(output[1]);
  CommandResult result{-1, ""};
  std::array<char, 512> text{};
  for (ssize_t got; (got = read(output[0], text.data(), text.size())) > 0;) {
    result.output.append(text.data(), static_cast<size_t>(got));
  }
  close(output[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

class CubeCommand : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "cube-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    write("in.cubex", profile().bytes());
  }
  void TearDown() override { fs::remove_all(directory_); }

  static Profile profile() {
    Profile profile;
    profile.add("n", "EXCLUSIVE", "UINT64", {}, kCounts);
    profile.add<double>("t", "INCLUSIVE", "DOUBLE", {}, std::vector<double>(15, 2.5),
                        {.swapped = true, .compressed = true});
    profile.derive("d", "POSTDERIVED", "metric::t() / metric::n()");
    profile.add_member("remapping.spec", cube_test::to_bytes("<metrics/>"));
    return profile;
  }

  [[nodiscard]] std::string path(const std::string& name) const { return directory_ / name; }
  void write(const std::string& name, const Bytes& bytes) const {
    std::ofstream(path(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  [[nodiscard]] Bytes content(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return cube_test::to_bytes(std::string{std::istreambuf_iterator<char>(file), {}});
  }
  [[nodiscard]] std::string text(const std::string& name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] CommandResult remap(std::vector<std::string> options) const {
    options.insert(options.begin(), IOWEAVE_CUBE_PATH);
    options.push_back(path("in.cubex"));
    options.push_back(path("out.cubex"));
    return run_command(options);
  }

  fs::path directory_;
};

TEST_F(CubeCommand, WritesTheSameInEachModeAndByAllSteps) {
  const Bytes expected = cube_test::remapped(profile().bytes(), {.locations = 5000});
  for (const std::string mode : {"synchronous", "aio", "ioweave"}) {
    for (const std::vector<std::string>& steps :
         {std::vector<std::string>{},
          {"--pin"},
          {"--pin", "--align"},
          {"--pin", "--align", "--pool"},
          {"--pin", "--align", "--pool", "--huge-pages"},
          {"--compute-threads", "3", "--buffers", "2", "--work", "2.5"},
          {"--buffers", "1", "--compute-threads", "2"},
          {"--item", "4K", "--budget", "8K"},
          {"--item", "64K"}}) {
      std::vector<std::string> options = {"-m", mode, "--threads", "5000", "--item", "8K"};
      options.insert(options.end(), steps.begin(), steps.end());
      const CommandResult result = remap(options);
      ASSERT_EQ(result.exit_code, 0) << mode << ": " << result.output;
      ASSERT_EQ(content("out.cubex"), expected) << mode << " " << testing::PrintToString(steps);
    }
  }
}

TEST_F(CubeCommand, GivesTheSameForItemsOfAnySize) {
  ASSERT_EQ(remap({"--aggregate", "node", "--as", "exclusive", "--item", "4K"}).exit_code, 0);
  const Bytes expected = content("out.cubex");
  EXPECT_EQ(expected,
            cube_test::remapped(profile().bytes(), {.as = cube::StoreAs::kExclusive,
                                                    .aggregate = cube::Aggregate::kNode}));
  ASSERT_EQ(remap({"--aggregate", "node", "--as", "exclusive"}).exit_code, 0);
  EXPECT_EQ(content("out.cubex"), expected);
}

TEST_F(CubeCommand, WritesAnArchiveThatTarLists) {
  ASSERT_EQ(remap({}).exit_code, 0);
  const CommandResult listed = run_command({"/bin/tar", "tf", path("out.cubex")});
  EXPECT_EQ(listed.exit_code, 0) << listed.output;
  EXPECT_EQ(listed.output,
            "0.index\n0.data\n1.index\n1.data\n2.index\n2.data\nremapping.spec\nanchor.xml\n");
}

TEST_F(CubeCommand, ReportsItsPhases) {
  ASSERT_EQ(remap({"--json", path("report"), "--threads", "1000", "--item", "8K", "-m", "aio",
                   "--buffers", "9", "--budget", "24K"})
                .exit_code,
            0);
  const std::string report = text("report");
  for (const char* part :
       {"\"mode\": \"aio\"", "\"as\": \"inclusive\"", "\"threads\": 1000", "\"columns\": 1000",
        "\"metrics\": 3", "\"rows\": 15", "\"item_bytes\": 8192", "\"buffers\": 3",
        "\"budget_bytes\": 24576", "\"read_s\": ", "\"compute_s\": ", "\"write_s\": ",
        "\"wait_s\": ", "\"total_s\": ", "\"durable_s\": ", "\"peak_bytes\": "}) {
    EXPECT_THAT(report, HasSubstr(part));
  }
  EXPECT_THAT(report, HasSubstr("\"bytes\": " + std::to_string(fs::file_size(path("out.cubex")))));
}

TEST_F(CubeCommand, WritesTheSamePastThePageCache) {
  const std::string probe = path("probe");
  const int fd = open(probe.c_str(), O_WRONLY | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
  if (fd == -1) GTEST_SKIP() << "no O_DIRECT in " << directory_;
  close(fd);
  const Bytes expected = cube_test::remapped(profile().bytes(), {.locations = 5000});
  for (const std::string mode : {"synchronous", "aio", "ioweave"}) {
    for (const std::string threads : {"1", "3"}) {
      const CommandResult result = remap({"-m", mode, "--path", "direct", "--align", "--threads",
                                          "5000", "--item", "8K", "--compute-threads", threads});
      ASSERT_EQ(result.exit_code, 0) << mode << ": " << result.output;
      ASSERT_EQ(content("out.cubex"), expected) << mode << ", " << threads;
    }
  }
}

TEST_F(CubeCommand, ComputesItemsOnceMoreAndWritesTheSame) {
  const Bytes expected = cube_test::remapped(profile().bytes(), {.locations = 5000});
  const auto number_of = [](const std::string& report, const std::string& name) {
    const std::string key = "\"" + name + "\": ";
    return std::stod(report.substr(report.find(key) + key.size()));
  };
  for (const std::string mode : {"synchronous", "aio", "ioweave"}) {
    for (const std::string items : {"5", "1000000"}) {
      const CommandResult result =
          remap({"-m", mode, "--alone", items, "--threads", "5000", "--item", "8K",
                 "--compute-threads", "2", "--pin", "--work", "50", "--json", path("report")});
      ASSERT_EQ(result.exit_code, 0) << mode << ": " << result.output;
      EXPECT_EQ(content("out.cubex"), expected) << mode;
      const std::string report = text("report");
      // The anchor is an item, too, but not computed as the others are.
      const double all = number_of(report, "items") - 1;
      EXPECT_EQ(number_of(report, "alone_items"), std::min(std::stod(items), all));
      EXPECT_GT(number_of(report, "alone_s"), 0);
      EXPECT_GT(number_of(report, "beside_s"), 0);
      // It is a part of the loop.
      EXPECT_LE(number_of(report, "beside_s"), number_of(report, "compute_s") + 1e-6);
    }
  }
}

TEST_F(CubeCommand, KeepsToItsBudgetHoweverLargeTheOutputIs) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer takes memory of its own";
#endif
  for (const std::string mode : {"synchronous", "aio", "ioweave"}) {
    const CommandResult result =
        remap({"-m", mode, "--threads", "262143", "--item", "64K", "--budget", "256K",
               "--compute-threads", "2", "--json", path("report")});
    ASSERT_EQ(result.exit_code, 0) << result.output;
    const std::string report = text("report");
    const std::string key = "\"peak_bytes\": ";
    const uint64_t peak = std::stoull(report.substr(report.find(key) + key.size()));
    EXPECT_LT(peak, fs::file_size(path("out.cubex")) / 4) << report;
  }
}

TEST_F(CubeCommand, DoesNotCountTheMemoryOfWhoStartedIt) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer takes memory of its own";
#endif
  constexpr size_t kBytes = size_t{256} << 20;
  const std::vector<char> touched(kBytes, 1);  // this process has it while it starts the program
  ASSERT_EQ(remap({"-m", "synchronous", "--json", path("report")}).exit_code, 0);
  EXPECT_EQ(touched.back(), 1);
  const std::string report = text("report");
  const std::string key = "\"peak_bytes\": ";
  EXPECT_LT(std::stoull(report.substr(report.find(key) + key.size())), kBytes / 2);
}

TEST_F(CubeCommand, PrintsTheReportOnStandardOutputIfAsked) {
  EXPECT_THAT(remap({"--json", "-"}).output, StartsWith("{\"mode\": \"ioweave\""));
  EXPECT_EQ(remap({}).output, "");
}

TEST_F(CubeCommand, NotesWhatAnOptionCannotDo) {
  EXPECT_THAT(remap({"--pin", "-m", "synchronous"}).output, HasSubstr("has no threads for I/O"));
  EXPECT_THAT(remap({"--threads", "9"}).output, HasSubstr("'remapping.spec' is left out"));
}

TEST_F(CubeCommand, NamesAMissingInputAndMakesNoOutput) {
  fs::remove(path("in.cubex"));
  const CommandResult result = remap({});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("in.cubex': No such file"));
  EXPECT_FALSE(fs::exists(path("out.cubex")));
}

TEST_F(CubeCommand, LeavesAnOutputAloneWhenTheInputIsBad) {
  Bytes bytes = content("in.cubex");
  bytes.resize(bytes.size() / 2);
  write("in.cubex", bytes);
  write("out.cubex", cube_test::to_bytes("precious"));
  const CommandResult result = remap({});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("in.cubex"));
  EXPECT_EQ(text("out.cubex"), "precious");
}

TEST_F(CubeCommand, RemovesAnOutputWhoseComputationFailed) {
  Bytes bytes = content("in.cubex");
  // The compressed rows are read when their turn comes.
  const auto archive = cube_test::open_archive(bytes);
  const cube::Member data = *archive.find("1.data");
  bytes[data.offset + data.bytes - 1] ^= std::byte{255};
  write("in.cubex", bytes);
  for (const std::string mode : {"synchronous", "aio", "ioweave"}) {
    const CommandResult result = remap({"-m", mode, "--compute-threads", "3", "--item", "4K"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.output, HasSubstr("member '1.data'"));
    EXPECT_FALSE(fs::exists(path("out.cubex")));
  }
}

TEST_F(CubeCommand, LeavesTheInputAloneWhenItIsTheOutputToo) {
  fs::create_hard_link(path("in.cubex"), path("out.cubex"));
  const CommandResult result = remap({});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("same file"));
  EXPECT_EQ(content("in.cubex"), profile().bytes());
}

TEST_F(CubeCommand, WritesToRegularFilesOnly) {
  for (const std::string mode : {"synchronous", "aio", "ioweave"}) {
    const CommandResult result =
        run_command({IOWEAVE_CUBE_PATH, "-m", mode, path("in.cubex"), "/dev/full"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.output, HasSubstr("not a regular file"));
  }
  EXPECT_TRUE(fs::exists("/dev/full"));
}

TEST_F(CubeCommand, RemovesAnOutputForWhichThereIsNoRoom) {
  for (const std::string mode : {"synchronous", "aio", "ioweave"}) {
    // SIGXFSZ ignored, the call says EFBIG.
    const CommandResult result = run_command(
        {"/bin/bash", "-c",
         "trap '' XFSZ; ulimit -f 64; exec \"$0\" -m " + mode + " --threads 100000 \"$1\" \"$2\"",
         IOWEAVE_CUBE_PATH, path("in.cubex"), path("out.cubex")});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.output, HasSubstr("File too large"));
    EXPECT_FALSE(fs::exists(path("out.cubex")));
  }
}

TEST_F(CubeCommand, NoticesAMistakeInTheNameOfTheReportFirst) {
  const CommandResult result = remap({"--json", path("no/such/folder")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("report"));
  EXPECT_FALSE(fs::exists(path("out.cubex")));
}

TEST_F(CubeCommand, DoesNotScaleDown) {
  const CommandResult result = remap({"--threads", "2"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("has 3 threads"));
}

TEST_F(CubeCommand, EndsWithTwoOnAUsageError) {
  const CommandResult result = remap({"too", "many"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("--help"));
}

TEST_F(CubeCommand, ExplainsItself) {
  const CommandResult result = run_command({IOWEAVE_CUBE_PATH, "--help"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* option : {"--mode",    "--aggregate",   "--threads",
                             "--as",      "--metrics",     "--item",
                             "--buffers", "--budget",      "--compute-threads",
                             "--work",    "--pin",         "--align",
                             "--pool",    "--huge-pages",  "--path",
                             "--alone",   "--input-limit", "--json",
                             "--verbose", "--help"}) {
    EXPECT_THAT(result.output, HasSubstr(option));
  }
}

cube::Options parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "cube_remap");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return cube::parse_options(static_cast<int>(arguments.size()), argv.data());
}

TEST(CubeOptions, RefuseWhatCannotBeMeant) {
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--mode", "fast"},
                                                {"--aggregate", "thread"},
                                                {"--as", "both"},
                                                {"--threads", "0"},
                                                {"--threads", "5000000"},
                                                {"--threads", "-3"},
                                                {"--item", "5000"},
                                                {"--item", "2G"},
                                                {"--buffers", "0"},
                                                {"--budget", "1M"},
                                                {"--compute-threads", "0"},
                                                {"--path", "fast"},
                                                {"--path", "direct", "-m", "aio"},
                                                {"--path", "direct", "-m", "synchronous"},
                                                {"--alone", "0"},
                                                {"--work", "0.5"},
                                                {"--work", "nan"},
                                                {"--work", "2x"},
                                                {"--metrics", ","}}) {
    std::vector<std::string> arguments = wrong;
    arguments.insert(arguments.end(), {"in", "out"});
    EXPECT_THROW(parse(arguments), cube::UsageError) << wrong[0] << " " << wrong[1];
  }
}

TEST(CubeOptions, BudgetBoundsTheBuffers) {
  EXPECT_EQ(parse({"--budget", "9M", "in", "out"}).remap.writer.buffers.count, 2u);
  EXPECT_EQ(parse({"--budget", "1G", "in", "out"}).remap.writer.buffers.count, 4u);
  EXPECT_EQ(parse({"in", "out"}).remap.writer.buffers.bytes, size_t{4} << 20);
}

TEST(CubeOptions, SplitNamesOfMetrics) {
  EXPECT_THAT(parse({"--metrics", "a,b::c", "in", "out"}).remap.plan.metrics,
              testing::ElementsAre("a", "b::c"));
}

}  // namespace
