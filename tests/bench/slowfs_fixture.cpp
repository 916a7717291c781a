#include "slowfs_fixture.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace slowfs_test {
namespace fs = std::filesystem;

CommandResult run_slowfs(const std::vector<std::string>& arguments) {
  std::array<int, 2> errors{};
  if (pipe2(errors.data(), O_CLOEXEC) == -1) return {-1, std::strerror(errno)};
  const pid_t child = fork();
  if (child == 0) {
    dup2(errors[1], STDERR_FILENO);
    std::vector<char*> argv = {const_cast<char*>(IOWEAVE_SLOWFS_PATH)};
    for (const std::string& argument : arguments)
      argv.push_back(const_cast<char*>(argument.c_str()));
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

namespace {

CommandResult try_mount(const fs::path& source, const fs::path& mountpoint) {
  CommandResult result = run_slowfs({source, mountpoint});
  return result.exit_code == 0 ? run_slowfs({"--unmount", mountpoint}) : result;
}

}  // namespace

void SlowfsMount::SetUp() {
  std::string name = (fs::temp_directory_path() / "slowfs-test-XXXXXX").string();
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  root_ = name;
  source_ = root_ / "source";
  mountpoint_ = root_ / "mount";
  fs::create_directories(source_);
  fs::create_directories(mountpoint_);
  // A container may show /dev/fuse and still refuse the mount: only a trial tells.
  static const CommandResult trial = try_mount(source_, mountpoint_);
  if (trial.exit_code != 0) GTEST_SKIP() << "no FUSE mount here: " << trial.errors;
}

void SlowfsMount::TearDown() {
  if (mounted_) unmount();
  if (!root_.empty()) fs::remove_all(root_);
}

void SlowfsMount::mount(const std::vector<std::string>& options) {
  std::vector<std::string> arguments = options;
  arguments.push_back(source_);
  arguments.push_back(mountpoint_);
  const CommandResult result = run_slowfs(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  mounted_ = true;
}

void SlowfsMount::unmount() {
  const CommandResult result = run_slowfs({"--unmount", mountpoint_});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  mounted_ = false;
}

std::vector<char> SlowfsMount::pattern(size_t bytes, unsigned seed) {
  std::vector<char> data(bytes);
  uint64_t state = seed;
  for (char& byte : data) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<char>(state >> 56);
  }
  return data;
}

void SlowfsMount::make_source_file(const std::string& name, size_t bytes, unsigned seed) const {
  write_file(source(name), pattern(bytes, seed));
}

std::vector<char> read_file(const std::string& path, int extra_flags) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | extra_flags);
  EXPECT_NE(fd, -1) << path << ": " << std::strerror(errno);
  std::vector<char> data;
  constexpr size_t kPiece = 1 << 20;
  const std::unique_ptr<char, decltype(&std::free)> piece(
      static_cast<char*>(std::aligned_alloc(4096, kPiece)), std::free);
  ssize_t got;
  while ((got = read(fd, piece.get(), kPiece)) > 0) {
    data.insert(data.end(), piece.get(), piece.get() + got);
  }
  EXPECT_EQ(got, 0) << path << ": " << std::strerror(errno);
  close(fd);
  return data;
}

void write_file(const std::string& path, const std::vector<char>& data) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  ASSERT_NE(fd, -1) << path << ": " << std::strerror(errno);
  size_t done = 0;
  while (done < data.size()) {
    const ssize_t put = write(fd, data.data() + done, data.size() - done);
    ASSERT_GT(put, 0) << path << ": " << std::strerror(errno);
    done += static_cast<size_t>(put);
  }
  EXPECT_EQ(close(fd), 0);
}

}  // namespace slowfs_test
