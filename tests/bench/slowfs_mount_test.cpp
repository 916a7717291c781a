// The mount as a file system: what is done through it is done to the source, byte for byte.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <set>
#include <thread>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slowfs_fixture.hpp"

namespace slowfs_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SlowfsFiles : public SlowfsMount {};

bool is_fuse(const std::string& path) {
  constexpr long kFuseSuperMagic = 0x65735546;
  struct statfs status {};
  return statfs(path.c_str(), &status) == 0 && status.f_type == kFuseSuperMagic;
}

/// Opens, or fails the test.
int open_file(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC, 0644);
  EXPECT_NE(fd, -1) << path << ": " << std::strerror(errno);
  return fd;
}

TEST_F(SlowfsFiles, AreUsableOnceTheCommandReturns) {
  make_source_file("f", 10);
  mount();
  EXPECT_TRUE(is_fuse(mountpoint_));
  EXPECT_EQ(fs::file_size(mounted("f")), 10u);
}

TEST_F(SlowfsFiles, ReadAsTheSourceAtEverySize) {
  for (const size_t bytes :
       std::initializer_list<size_t>{0, 1, 4095, 4096, 4097, 131072, 1048576, 3000001}) {
    make_source_file("f" + std::to_string(bytes), bytes);
  }
  mount({"--read-mb-s", "2000", "--latency-us", "50"});
  for (const size_t bytes :
       std::initializer_list<size_t>{0, 1, 4095, 4096, 4097, 131072, 1048576, 3000001}) {
    EXPECT_EQ(read_file(mounted("f" + std::to_string(bytes))), pattern(bytes)) << bytes;
  }
}

TEST_F(SlowfsFiles, WriteThroughToTheSourceAtEverySize) {
  mount({"--write-mb-s", "2000"});
  for (const size_t bytes : std::initializer_list<size_t>{0, 1, 4097, 1048576, 3000001}) {
    write_file(mounted("f"), pattern(bytes));
    EXPECT_EQ(read_file(source("f")), pattern(bytes)) << bytes;
  }
}

TEST_F(SlowfsFiles, KeepOnlyTheirLengthWithDiscard) {
  mount({"--discard"});
  write_file(mounted("file"), pattern(3'000'001));
  EXPECT_EQ(fs::file_size(source("file")), 3'000'001u);
  EXPECT_EQ(read_file(source("file")), std::vector<char>(3'000'001));
  struct stat status {};
  ASSERT_EQ(::stat(source("file").c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, 1'000'000);
}

TEST_F(SlowfsFiles, WriteBackReachesTheSourceByFsync) {
  mount({"--write-back"});
  const std::vector<char> data = pattern(1'000'001);
  const int fd = open_file(mounted("f"), O_WRONLY | O_CREAT);
  ASSERT_EQ(pwrite(fd, data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
  ASSERT_EQ(pwrite(fd, data.data(), 3, 10), 3);  // a part of a page, read back to be filled
  ASSERT_EQ(fsync(fd), 0);
  close(fd);
  std::vector<char> expected = data;
  std::copy_n(data.begin(), 3, expected.begin() + 10);
  EXPECT_EQ(read_file(source("f")), expected);
}

TEST_F(SlowfsFiles, AppendAtTheEnd) {
  make_source_file("f", 100);
  mount();
  const int fd = open_file(mounted("f"), O_WRONLY | O_APPEND);
  ASSERT_EQ(write(fd, "tail", 4), 4);
  close(fd);
  const std::vector<char> data = read_file(source("f"));
  ASSERT_EQ(data.size(), 104u);
  EXPECT_EQ(std::string(data.end() - 4, data.end()), "tail");
}

TEST_F(SlowfsFiles, WriteWithODirect) {
  mount();
  constexpr size_t kBytes = 64 << 10;
  const std::unique_ptr<char, decltype(&std::free)> block(
      static_cast<char*>(std::aligned_alloc(4096, kBytes)), std::free);
  std::ranges::copy(pattern(kBytes), block.get());
  const int fd = open_file(mounted("f"), O_WRONLY | O_CREAT | O_DIRECT);
  EXPECT_EQ(pwrite(fd, block.get(), kBytes, 0), static_cast<ssize_t>(kBytes));
  close(fd);
  EXPECT_EQ(read_file(source("f")), pattern(kBytes));
}

TEST_F(SlowfsFiles, TruncateByNameAndByDescriptor) {
  make_source_file("f", 5000);
  mount();
  EXPECT_EQ(truncate(mounted("f").c_str(), 4000), 0);
  EXPECT_EQ(fs::file_size(source("f")), 4000u);
  const int fd = open_file(mounted("f"), O_RDWR);
  EXPECT_EQ(ftruncate(fd, 100), 0);
  close(fd);
  EXPECT_EQ(fs::file_size(source("f")), 100u);
  close(open_file(mounted("f"), O_WRONLY | O_TRUNC));
  EXPECT_EQ(fs::file_size(source("f")), 0u);
}

TEST_F(SlowfsFiles, OutliveTheirName) {
  make_source_file("f", 5000);
  mount();
  const int fd = open_file(mounted("f"), O_RDWR);
  ASSERT_EQ(unlink(mounted("f").c_str()), 0);
  std::vector<char> data(5000);
  EXPECT_EQ(pread(fd, data.data(), data.size(), 0), 5000);
  EXPECT_EQ(data, pattern(5000));
  struct stat status {};
  EXPECT_EQ(fstat(fd, &status), 0);
  EXPECT_EQ(status.st_nlink, 0u);
  close(fd);
}

TEST_F(SlowfsFiles, CarryLinksModesAndTimes) {
  make_source_file("f", 1);
  mount();
  ASSERT_EQ(link(mounted("f").c_str(), mounted("hard").c_str()), 0);
  ASSERT_EQ(symlink("f", mounted("soft").c_str()), 0);
  EXPECT_EQ(fs::hard_link_count(source("f")), 2u);
  EXPECT_EQ(fs::read_symlink(mounted("soft")), "f");
  EXPECT_EQ(chmod(mounted("f").c_str(), 0600), 0);
  const std::array<timespec, 2> times = {timespec{1000, 5}, timespec{2000, 7}};
  EXPECT_EQ(utimensat(AT_FDCWD, mounted("f").c_str(), times.data(), 0), 0);
  struct stat status {};
  ASSERT_EQ(stat(source("f").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  EXPECT_EQ(status.st_mtim.tv_sec, 2000);
  EXPECT_EQ(status.st_mtim.tv_nsec, 7);
}

TEST_F(SlowfsFiles, RenameOntoAnotherName) {
  make_source_file("a", 10);
  make_source_file("b", 20);
  mount();
  ASSERT_EQ(rename(mounted("a").c_str(), mounted("b").c_str()), 0);
  EXPECT_FALSE(fs::exists(source("a")));
  EXPECT_EQ(fs::file_size(mounted("b")), 10u);
}

TEST_F(SlowfsFiles, ListALargeDirectoryOnceEach) {
  fs::create_directory(source("d"));
  std::set<std::string> expected;
  for (int i = 0; i < 2000; ++i) {
    const std::string name = "entry-with-a-rather-long-name-" + std::to_string(i);
    write_file(source("d/" + name), {});
    expected.insert(name);
  }
  mount();
  std::multiset<std::string> listed;
  for (const auto& entry : fs::directory_iterator(mounted("d"))) {
    listed.insert(entry.path().filename());
  }
  EXPECT_EQ(listed.size(), expected.size());
  EXPECT_TRUE(std::ranges::equal(listed, expected));
  EXPECT_EQ(fs::remove_all(mounted("d")), 2001u);
  EXPECT_FALSE(fs::exists(source("d")));
}

TEST_F(SlowfsFiles, AnswerTheErrorsOfTheSource) {
  make_source_file("f", 1);
  mount();
  EXPECT_EQ(open(mounted("missing").c_str(), O_RDONLY), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(mkdir(mounted("f").c_str(), 0755), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(rmdir(mounted("f").c_str()), -1);
  EXPECT_EQ(errno, ENOTDIR);
  EXPECT_EQ(open(mounted("f").c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644), -1);
  EXPECT_EQ(errno, EEXIST);
  char value;
  EXPECT_EQ(getxattr(mounted("f").c_str(), "user.x", &value, 1), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(SlowfsFiles, ServeManyThreadsAtOnce) {
  constexpr size_t kBytes = 1 << 20;
  for (int i = 0; i < 8; ++i) make_source_file(std::to_string(i), kBytes, static_cast<unsigned>(i));
  mount({"--read-mb-s", "500", "--per-file", "--latency-us", "100", "--max-background", "4"});
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this, i] {
      const std::vector<char> expected = pattern(kBytes, static_cast<unsigned>(i));
      EXPECT_EQ(read_file(mounted(std::to_string(i))), expected);
      write_file(mounted("copy" + std::to_string(i)), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(read_file(source("copy" + std::to_string(i))),
              pattern(kBytes, static_cast<unsigned>(i)));
  }
}

// ---- mounting and unmounting ----------------------------------------------------------------

class SlowfsCommand : public SlowfsMount {
 protected:
  /// Starts the server in the foreground; returns its process once the mount is ready.
  pid_t start_foreground() {
    std::array<int, 2> ready{};
    EXPECT_EQ(pipe(ready.data()), 0);
    const pid_t server = fork();
    if (server == 0) {
      const std::string fd = std::to_string(ready[1]);
      execl(IOWEAVE_SLOWFS_PATH, IOWEAVE_SLOWFS_PATH, "--foreground", "--ready-fd", fd.c_str(),
            source_.c_str(), mountpoint_.c_str(), nullptr);
      _exit(127);
    }
    close(ready[1]);
    char newline = 0;
    EXPECT_EQ(read(ready[0], &newline, 1), 1);
    EXPECT_EQ(newline, '\n');
    close(ready[0]);
    return server;
  }

  static int exit_code_of(pid_t server) {
    int status = 0;
    waitpid(server, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

TEST_F(SlowfsCommand, EndsAndUnmountsOnSigterm) {
  const pid_t server = start_foreground();
  ASSERT_TRUE(is_fuse(mountpoint_));
  kill(server, SIGTERM);
  EXPECT_EQ(exit_code_of(server), 0);
  EXPECT_FALSE(is_fuse(mountpoint_));
}

TEST_F(SlowfsCommand, ServesWhatIsOpenAfterSigtermUntilItIsClosed) {
  make_source_file("f", 5000);
  const pid_t server = start_foreground();
  const int fd = open_file(mounted("f"), O_RDONLY);
  kill(server, SIGTERM);
  while (is_fuse(mountpoint_)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::vector<char> data(5000);
  EXPECT_EQ(read(fd, data.data(), data.size()), 5000);
  EXPECT_EQ(data, pattern(5000));
  close(fd);
  EXPECT_EQ(exit_code_of(server), 0);
}

TEST_F(SlowfsCommand, EndsWhenSomebodyElseUnmounts) {
  if (geteuid() != 0) GTEST_SKIP() << "umount(2) takes root";
  const pid_t server = start_foreground();
  ASSERT_EQ(umount2(mountpoint_.c_str(), 0), 0);
  EXPECT_EQ(exit_code_of(server), 0);
}

TEST_F(SlowfsCommand, RefusesToUnmountWhatIsInUse) {
  make_source_file("f", 1);
  mount();
  const int fd = open_file(mounted("f"), O_RDONLY);
  const CommandResult result = run_slowfs({"--unmount", mountpoint_});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("fuser"));
  close(fd);
}

TEST_F(SlowfsCommand, RefusesToUnmountWhatIsNotItsOwn) {
  const CommandResult result = run_slowfs({"--unmount", mountpoint_});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("is not a mount point of ioweave-slowfs"));
}

TEST_F(SlowfsCommand, CleansUpAfterAServerThatWasKilled) {
  const pid_t server = start_foreground();
  kill(server, SIGKILL);
  exit_code_of(server);
  EXPECT_EQ(run_slowfs({"--unmount", mountpoint_}).exit_code, 0);
}

TEST_F(SlowfsCommand, NamesAMissingDirectory) {
  const CommandResult result = run_slowfs({source("missing"), mountpoint_});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("missing': No such file or directory"));
}

TEST_F(SlowfsCommand, RefusesAFileAsMountPoint) {
  make_source_file("f", 1);
  const CommandResult result = run_slowfs({source_, source("f")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("is not a directory"));
}

TEST_F(SlowfsCommand, RefusesAMountInsideItsSource) {
  fs::create_directory(source("inner"));
  const CommandResult result = run_slowfs({source_, source("inner")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("choose a directory outside it"));
}

TEST_F(SlowfsCommand, SaysHowToGetAMissingFuseDevice) {
  if (geteuid() != 0) GTEST_SKIP() << "hiding /dev/fuse takes a mount namespace, and root";
  const pid_t child = fork();
  if (child == 0) {
    // Private first: a mount of a shared tree would reach everybody's /dev.
    if (unshare(CLONE_NEWNS) == -1 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == -1 ||
        ::mount("none", "/dev", "tmpfs", 0, nullptr) == -1) {
      _exit(77);
    }
    const CommandResult result = run_slowfs({source_, mountpoint_});
    const bool helpful = result.exit_code == 1 &&
                         result.errors.find("/dev/fuse is missing") != std::string::npos &&
                         result.errors.find("modprobe fuse") != std::string::npos;
    _exit(helpful ? 0 : 1);
  }
  const int code = exit_code_of(child);
  if (code == 77) GTEST_SKIP() << "no mount namespace here";
  EXPECT_EQ(code, 0);
}

TEST_F(SlowfsCommand, EndsWithTwoOnAUsageError) {
  const CommandResult result = run_slowfs({"--read-mb-s", "0", source_, mountpoint_});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("--help"));
}

}  // namespace
}  // namespace slowfs_test
