// The program as a user runs it.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct CommandResult {
  int exit_code;
  std::string errors;
};

CommandResult run_hill(const std::vector<std::string>& arguments) {
  std::array<int, 2> errors{};
  if (pipe2(errors.data(), O_CLOEXEC) == -1) return {-1, "no pipe"};
  const pid_t child = fork();
  if (child == 0) {
    dup2(errors[1], STDERR_FILENO);
    std::vector<char*> argv = {const_cast<char*>(IOWEAVE_HILL_PATH)};
    for (const std::string& argument : arguments) {
      argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(errors[1]);
  CommandResult result{-1, ""};
  std::array<char, 512> text{};
  for (ssize_t got; (got = read(errors[0], text.data(), text.size())) > 0;) {
    result.errors.append(text.data(), static_cast<size_t>(got));
  }
  close(errors[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

class HillCommand : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "hill-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }

  [[nodiscard]] std::string path(const std::string& name) const { return directory_ / name; }
  [[nodiscard]] std::string make_file(const std::string& name, size_t bytes) const {
    std::mt19937_64 random(bytes);
    std::string data(bytes, '\0');
    for (char& c : data) c = static_cast<char>(random());
    std::ofstream(path(name), std::ios::binary) << data;
    return path(name);
  }
  [[nodiscard]] std::string content(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path directory_;
};

TEST_F(HillCommand, RestoresFilesOfEveryLength) {
  for (const size_t bytes :
       std::initializer_list<size_t>{0, 1, 6, 7, 8, 65535, 65536, 65537, 131072, 500000}) {
    const std::string plain = make_file("plain", bytes);
    ASSERT_EQ(run_hill({"-e", "-k", "7", plain, path("cipher")}).exit_code, 0);
    ASSERT_EQ(run_hill({"-d", "-k", "7", path("cipher"), path("again")}).exit_code, 0);
    EXPECT_EQ(fs::file_size(path("cipher")), bytes);
    EXPECT_EQ(content("again"), content("plain")) << bytes;
  }
}

TEST_F(HillCommand, WritesTheSameCiphertextInChunksOfAnySize) {
  const std::string plain = make_file("plain", 700'001);
  ASSERT_EQ(run_hill({"-e", "-c", "64K", plain, path("small")}).exit_code, 0);
  ASSERT_EQ(run_hill({"-e", "-c", "192K", plain, path("odd")}).exit_code, 0);
  ASSERT_EQ(run_hill({"-e", "-c", "1M", plain, path("large")}).exit_code, 0);
  EXPECT_EQ(content("small"), content("large"));
  EXPECT_EQ(content("odd"), content("large"));
}

TEST_F(HillCommand, TakesItsKeyFromAFile) {
  const std::string plain = make_file("plain", 100'001);
  std::ofstream(path("key")) << "2 3\n5 4\n";
  ASSERT_EQ(run_hill({"-e", "-r", "2", "--key-file", path("key"), plain, path("cipher")}).exit_code,
            0);
  ASSERT_EQ(run_hill({"-d", "-r", "2", "--key-file", path("key"), path("cipher"), path("again")})
                .exit_code,
            0);
  EXPECT_NE(content("cipher"), content("plain"));
  EXPECT_EQ(content("again"), content("plain"));
}

TEST_F(HillCommand, DoesNotOpenToAnotherSeed) {
  const std::string plain = make_file("plain", 10'000);
  ASSERT_EQ(run_hill({"-e", "-s", "1", plain, path("cipher")}).exit_code, 0);
  ASSERT_EQ(run_hill({"-d", "-s", "2", path("cipher"), path("again")}).exit_code, 0);
  EXPECT_NE(content("again"), content("plain"));
}

TEST_F(HillCommand, ReportsItsPhases) {
  const std::string plain = make_file("plain", 200'000);
  ASSERT_EQ(
      run_hill({"-e", "-c", "64K", "--fsync", "--stats-json", path("stats"), plain, path("out")})
          .exit_code,
      0);
  const std::string stats = content("stats");
  for (const char* text :
       {"\"chunks\": 4", "\"bytes\": 200000", "\"chunk_bytes\": 65536", "\"key_size\": 100",
        "\"read_s\": ", "\"compute_s\": ", "\"write_s\": ", "\"fsync_s\": ", "\"total_s\": "}) {
    EXPECT_THAT(stats, HasSubstr(text));
  }
}

TEST_F(HillCommand, SaysHowFarItIsWhenAsked) {
  const std::string plain = make_file("plain", 100'000);
  EXPECT_THAT(run_hill({"-e", "-v", "-c", "64K", plain, path("out")}).errors,
              HasSubstr("chunk 2, 100000 bytes"));
  EXPECT_EQ(run_hill({"-e", plain, path("out")}).errors, "");
}

TEST_F(HillCommand, NamesAMissingInputAndMakesNoOutput) {
  const CommandResult result = run_hill({"-e", path("missing"), path("out")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("missing': No such file"));
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(HillCommand, RefusesADirectoryAsInput) {
  const CommandResult result = run_hill({"-e", directory_, path("out")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("Is a directory"));
}

TEST_F(HillCommand, LeavesTheInputAloneWhenItIsTheOutputToo) {
  const std::string plain = make_file("plain", 1000);
  fs::create_hard_link(plain, path("alias"));
  const CommandResult result = run_hill({"-e", plain, path("alias")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("same file"));
  EXPECT_EQ(content("plain").size(), 1000u);
}

TEST_F(HillCommand, SaysThatTheDeviceIsFull) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "/dev/full is missing";
  const CommandResult result = run_hill({"-e", make_file("plain", 1000), "/dev/full"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("No space left"));
  EXPECT_TRUE(fs::exists("/dev/full"));
}

TEST_F(HillCommand, RemovesAnOutputThatItCouldNotFinish) {
  const std::string plain = make_file("plain", 300'000);
  const CommandResult result = [&] {
    // The shell's limit makes the third chunk fail; SIGXFSZ ignored, write(2) says EFBIG.
    const std::string command =
        "trap '' XFSZ; ulimit -f 256; exec \"$0\" -e -c 64K \"$1\" \"$2\" 2>\"$3\"";
    const pid_t child = fork();
    if (child == 0) {
      execl("/bin/bash", "bash", "-c", command.c_str(), IOWEAVE_HILL_PATH, plain.c_str(),
            path("out").c_str(), path("errors").c_str(), nullptr);
      _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return CommandResult{WIFEXITED(status) ? WEXITSTATUS(status) : -1, content("errors")};
  }();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("File too large"));
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(HillCommand, SaysThatAKeyHasNoInverse) {
  std::ofstream(path("key")) << "2 4 6 8";
  const CommandResult result =
      run_hill({"-e", "--key-file", path("key"), make_file("plain", 10), path("out")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("no inverse modulo 256"));
}

TEST_F(HillCommand, NoticesAMistakeInTheNameOfTheStatisticsFirst) {
  const CommandResult result =
      run_hill({"-e", "--stats-json", path("no/such/dir"), make_file("plain", 10), path("out")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("statistics"));
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(HillCommand, EndsWithTwoOnAUsageError) {
  const CommandResult result = run_hill({"--encypt", "a", "b"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("--help"));
}

}  // namespace
