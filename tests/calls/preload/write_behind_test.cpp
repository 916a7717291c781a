// Writes that are held back, without the wrappers, so that the sanitizers can watch the threads.

#include "calls/preload/write_behind.hpp"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "calls/libc/real.hpp"
#include "calls/preload/process.hpp"
#include "calls/preload/run.hpp"
#include "calls/preload/table.hpp"

// The sanitizers' own fault handlers let every thread be in a handler, where nothing is held back.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:handle_sigfpe=0";
}
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:handle_sigfpe=0";
}

// The tests call what wrappers would call.
extern "C" const bool ioweave_has_exposures = true;

namespace ioweave::calls {
namespace {

using engine::Op;
using testing::TemporaryDirectory;

constexpr uint64_t kFileBytes = 6 << 20;
constexpr int kThreads = 3;

/// One process of a run, for all tests of this program.
void join_run() {
  static const auto* const directory = [] {
    auto* const made = new TemporaryDirectory(true);
    config::RunConfig config;
    config.policy = config::RunPolicy::behind;
    struct stat pids {};
    EXPECT_EQ(stat("/proc/self/ns/pid", &pids), 0);
    config.pid_namespace = pids.st_ino;
    testing::write_config(*made, config);
    real::resolve();
    setenv(config::kRunDirVariable, made->path().c_str(), 1);
    EXPECT_TRUE(process.attach());
    EXPECT_TRUE(table.start());
    write_behind.begin(process.config());
    return made;
  }();
  ASSERT_NE(directory, nullptr);
}

class HeldFile {
 public:
  explicit HeldFile(const std::string& path)
      : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {
    struct stat status {};
    EXPECT_EQ(fstat(fd_, &status), 0);
    record_->policy = config::RunPolicy::behind;
    record_->device = status.st_dev;
    record_->inode = status.st_ino;
  }
  ~HeldFile() {
    write_behind.let_go(*record_, fd_);
    close(fd_);
  }
  HeldFile(const HeldFile&) = delete;
  HeldFile& operator=(const HeldFile&) = delete;

  /// As the wrapper does.
  int64_t write(const void* data, size_t bytes, int64_t offset) {
    int64_t result = 0;
    const Transfer transfer{Op::write, fd_, const_cast<void*>(data), bytes, offset};
    if (write_behind.take(transfer, *record_, result)) {
      ++held_writes_;
      return result;
    }
    return offset < 0 ? ::write(fd_, data, bytes) : pwrite(fd_, data, bytes, offset);
  }
  void drain() { write_behind.drain(*record_); }
  [[nodiscard]] int fd() const { return fd_; }
  /// By this process or the one that it was forked from.
  [[nodiscard]] int held_writes() const { return held_writes_; }
  [[nodiscard]] const stats::FileRecord& record() const { return *record_; }

  [[nodiscard]] std::string contents() {
    drain();
    std::string text(static_cast<size_t>(lseek(fd_, 0, SEEK_END)), '\0');
    EXPECT_EQ(pread(fd_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    return text;
  }

 private:
  int fd_;
  std::atomic<int> held_writes_{0};
  std::unique_ptr<stats::FileRecord> record_ = std::make_unique<stats::FileRecord>();
};

class HoldingWrites : public ::testing::Test {
 protected:
  void SetUp() override { join_run(); }
  void TearDown() override {
    EXPECT_FALSE(holds_writes());
    write_behind.end_threads();  // or ThreadSanitizer takes them for leaked
  }

  TemporaryDirectory folder_;
};

TEST_F(HoldingWrites, ThreadsWriteOneFileAndItHoldsAllOfIt) {
  HeldFile file(folder_ / "a");
  std::string expected(kThreads * kFileBytes, '\0');
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937 random(static_cast<unsigned>(number));
      const uint64_t begin = static_cast<uint64_t>(number) * kFileBytes;
      std::vector<char> data(100'000);
      for (int step = 0; step < 300; ++step) {
        const uint64_t bytes = 1 + random() % data.size();
        const uint64_t at = random() % (kFileBytes - bytes);
        std::memset(data.data(), static_cast<int>(random() % 255 + 1), bytes);
        ASSERT_EQ(file.write(data.data(), bytes, static_cast<int64_t>(begin + at)),
                  static_cast<int64_t>(bytes));
        std::memcpy(expected.data() + begin + at, data.data(), bytes);
        if (step % 50 == 0) {
          file.drain();
          std::vector<char> found(bytes);
          ASSERT_EQ(pread(file.fd(), found.data(), bytes, static_cast<off_t>(begin + at)),
                    static_cast<ssize_t>(bytes));
          ASSERT_EQ(std::memcmp(found.data(), data.data(), bytes), 0);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(file.held_writes(), 0);
  std::string found = file.contents();
  found.resize(expected.size(), '\0');
  EXPECT_TRUE(found == expected);
}

TEST_F(HoldingWrites, ManyFilesAtOnceTakeTurns) {
  std::vector<std::unique_ptr<HeldFile>> files;
  for (int i = 0; i < 100; ++i) {
    files.push_back(std::make_unique<HeldFile>(folder_ / std::to_string(i)));
  }
  for (int round = 0; round < 20; ++round) {
    for (auto& file : files) ASSERT_EQ(file->write("0123456789", 10, -1), 10);
  }
  EXPECT_GT(files.front()->held_writes(), 0);
  std::string expected;
  for (int round = 0; round < 20; ++round) expected += "0123456789";
  for (auto& file : files) EXPECT_EQ(file->contents(), expected);
}

TEST_F(HoldingWrites, AnUnreadableBufferIsThePrograms) {
  HeldFile file(folder_ / "a");
  auto* const nowhere = reinterpret_cast<void*>(4096);
  EXPECT_EQ(file.write(nowhere, 100, -1), -1);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(lseek(file.fd(), 0, SEEK_CUR), 0);
  EXPECT_EQ(file.contents(), "");
}

TEST_F(HoldingWrites, AForkedChildWritesItsOwn) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer lets no forked child start a thread";
#endif
  HeldFile file(folder_ / "a");
  ASSERT_EQ(file.write("parent", 6, -1), 6);
  write_behind.forbid();
  const pid_t child = fork();
  if (child == 0) {
    write_behind.after_fork_in_child();
    process.became_child();
    const bool is_born = process.be_born();
    const bool is_written = file.write(" child", 6, -1) == 6;
    file.drain();
    _exit(is_born && is_written && file.held_writes() == 2 && !holds_writes() ? 0 : 1);
  }
  write_behind.allow();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(file.write("!", 1, -1), 1);
  EXPECT_EQ(file.contents(), "parent child!");
}

/// The file cannot be written any more: its descriptor was closed behind our back, and it has no
/// name to be found by.
TEST_F(HoldingWrites, AnErrorIsToldOnce) {
  const std::string path = folder_ / "a";
  constexpr int kTries = 20;  // it may be written before it is gone
  int error = 0;
  for (int i = 0; i < kTries && error == 0; ++i) {
    HeldFile file(path);
    ASSERT_EQ(file.write("x", 1, -1), 1);
    ASSERT_GE(dup(file.fd()), 0);  // for good: no later file has its number and is plain as well
    ::close(file.fd());
    ASSERT_EQ(unlink(path.c_str()), 0);
    file.drain();
    error = write_behind.take_error(file.record());
    EXPECT_EQ(write_behind.take_error(file.record()), 0);
  }
  EXPECT_EQ(error, EBADF);
}

TEST_F(HoldingWrites, ThreadsEndWhenTheyAreToldTo) {
  HeldFile file(folder_ / "a");
  ASSERT_EQ(file.write("x", 1, -1), 1);
  write_behind.end_threads();
  EXPECT_FALSE(holds_writes());
  ASSERT_EQ(file.write("y", 1, -1), 1);  // and begin again
  EXPECT_EQ(file.held_writes(), 2);
  EXPECT_EQ(file.contents(), "xy");
}

}  // namespace
}  // namespace ioweave::calls
