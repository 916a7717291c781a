#include "engine/prefetch.hpp"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <vector>

#include <sys/syscall.h>

#include "backend_fixture.hpp"
#include "support/resident_pages.hpp"
#include "support/watched_calls.hpp"

namespace ioweave::engine {
namespace {

using test::resident_pages;

constexpr size_t kFileBytes = (3 << 20) + 123;

class Prefetch : public ::testing::Test {
 protected:
  void SetUp() override {
    BackendOptions options;
    options.kind = Kind::threads;
    int error = 0;
    std::string why;
    backend_ = open_backend(options, error, why);
    ASSERT_NE(backend_, nullptr) << why;
    const std::vector<char> bytes(kFileBytes, 'z');
    const Descriptor file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(::write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(kFileBytes));
    ASSERT_EQ(::fsync(file.get()), 0);
  }

  [[nodiscard]] int open_file(int flags) const { return ::open(path_.c_str(), flags | O_CLOEXEC); }

  /// False where this file system keeps its pages whatever it is told (tmpfs).
  static bool drop_cache(int fd) {
    return ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0 &&
           resident_pages(fd, 0, kFileBytes) == 0;
  }

  int64_t run(int fd, int64_t offset, uint64_t length) {
    Operation operation = transfer(Op::prefetch, fd, nullptr, length, offset);
    EXPECT_EQ(backend_->submit(operation), Submitted::queued);
    Operation* out = nullptr;
    EXPECT_EQ(backend_->reap({&out, 1}, {1, kForeverNs, true}), 1);
    return operation.result;
  }

  test::TempDir directory_;
  const std::string path_ = directory_.file("data");
  std::unique_ptr<Backend> backend_;
};

TEST_F(Prefetch, BringsTheWholeRangeAndNothingBeforeIt) {
  const Descriptor file(open_file(O_RDONLY));
  if (!drop_cache(file.get())) GTEST_SKIP() << "this file system does not drop pages";
  constexpr size_t kBegin = 1 << 20;
  constexpr size_t kLength = 1 << 20;
  EXPECT_EQ(run(file.get(), kBegin, kLength), static_cast<int64_t>(kLength));
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_EQ(resident_pages(file.get(), kBegin, kLength), kLength / page);
  EXPECT_EQ(resident_pages(file.get(), 0, kBegin - (256 << 10)), 0u);
}

TEST_F(Prefetch, EndsAtTheEndOfTheFile) {
  const Descriptor file(open_file(O_RDONLY));
  EXPECT_EQ(run(file.get(), 1 << 20, 1 << 30), static_cast<int64_t>(kFileBytes - (1 << 20)));
  EXPECT_EQ(run(file.get(), kFileBytes, 100), 0);
  EXPECT_EQ(run(file.get(), int64_t{1} << 40, 100), 0);
  EXPECT_EQ(run(file.get(), 0, 0), 0);
}

TEST_F(Prefetch, OddRangesAreCounted) {
  const Descriptor file(open_file(O_RDONLY));
  EXPECT_EQ(run(file.get(), 4095, 2), 2);
  EXPECT_EQ(run(file.get(), 130'000, 300'001), 300'001);
}

TEST_F(Prefetch, LeavesPositionAndContentAlone) {
  const Descriptor file(open_file(O_RDWR));
  ASSERT_EQ(::lseek(file.get(), 1234, SEEK_SET), 1234);
  EXPECT_EQ(run(file.get(), 0, kFileBytes), static_cast<int64_t>(kFileBytes));
  EXPECT_EQ(::lseek(file.get(), 0, SEEK_CUR), 1234);
}

TEST_F(Prefetch, RefusesWhatHasNoPageCacheBehindIt) {
  const Descriptor direct(open_file(O_RDONLY | O_DIRECT));
  if (direct.get() >= 0) {
    EXPECT_EQ(run(direct.get(), 0, kBlock), -EINVAL);
  }
  const Descriptor write_only(open_file(O_WRONLY));
  EXPECT_EQ(run(write_only.get(), 0, kBlock), -EBADF);
  const Pipe pipe;
  EXPECT_EQ(run(pipe.out.get(), 0, kBlock), -ESPIPE);
  const Descriptor directory(::open(directory_.path().c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(run(directory.get(), 0, kBlock), -EISDIR);
  EXPECT_EQ(run(-1, 0, kBlock), -EBADF);
  const Descriptor file(open_file(O_RDONLY));
  EXPECT_EQ(run(file.get(), -5, kBlock), -EINVAL);
}

TEST_F(Prefetch, AsksForNothingWhereItWasCancelledBefore) {
  const Descriptor file(open_file(O_RDONLY));
  ReadAheadWindows windows;
  const std::atomic<bool> cancelled{true};
  EXPECT_EQ(prefetch(file.get(), 0, kFileBytes, windows, cancelled), -ECANCELED);
}

/// A prefetch of several pieces that is cancelled during one of its calls.
struct CancelledPrefetch {
  bool watched = false;
  int64_t result = 0;
  std::vector<uint64_t> asked;    ///< offsets of what the kernel was asked for
  std::vector<uint64_t> awaited;  ///< offsets of the bytes whose arrival was waited for
};

CancelledPrefetch cancel_during(long call_number, const std::string& path) {
  constexpr off_t kBytes = 4 * static_cast<off_t>(kMostReadAheadBytes);
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_EQ(::ftruncate(file.get(), kBytes), 0);  // a hole: nothing of it is in the cache
  CancelledPrefetch seen;
  ReadAheadWindows windows;
  std::atomic<bool> cancelled{false};
  const auto look = [&](const test::WatchedCall& call) {
    const bool asks = call.number == SYS_fadvise64;
    // Else it only looks whether a page is there, where the kernel has no better way.
    const bool waits = call.number == SYS_preadv2 && call.arguments[5] == 0;
    if (asks) seen.asked.push_back(call.arguments[1]);
    if (waits) seen.awaited.push_back(call.arguments[3]);
    if ((asks || waits) && call.number == call_number) cancelled = true;
  };
  seen.watched = test::run_watched({SYS_fadvise64, SYS_preadv2}, look, [&] {
    seen.result = prefetch(file.get(), 0, kBytes, windows, cancelled);
  });
  return seen;
}

TEST_F(Prefetch, StopsBetweenThePiecesItAsksForWhenCancelled) {
  const CancelledPrefetch seen = cancel_during(SYS_fadvise64, directory_.file("hole"));
  if (!seen.watched) GTEST_SKIP() << "no notifications of seccomp here";
  EXPECT_EQ(seen.result, -ECANCELED);
  EXPECT_EQ(seen.asked, std::vector<uint64_t>{0}) << "the first piece only";
  EXPECT_EQ(seen.awaited, std::vector<uint64_t>{});
}

TEST_F(Prefetch, StopsBetweenThePiecesItWaitsForWhenCancelled) {
  const CancelledPrefetch seen = cancel_during(SYS_preadv2, directory_.file("hole"));
  if (!seen.watched) GTEST_SKIP() << "no notifications of seccomp here";
  EXPECT_EQ(seen.result, -ECANCELED);
  ASSERT_GE(seen.asked.size(), 4u) << "all pieces had been asked for";
  ASSERT_FALSE(seen.awaited.empty());
  EXPECT_LT(std::ranges::max(seen.awaited), seen.asked[1]) << "bytes of the first piece only";
}

TEST_F(Prefetch, EmptyFileHasNothingToBring) {
  const std::string path = directory_.file("empty");
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_EQ(run(file.get(), 0, kBlock), 0);
}

TEST(ReadAheadWindows, UnknownDevicesGetTheKernelsDefault) {
  ReadAheadWindows windows;
  EXPECT_EQ(windows.bytes(0xFFFFFFF0u), kDefaultReadAheadBytes);
}

TEST(ReadAheadWindows, StayWithinTheirBounds) {
  ReadAheadWindows windows;
  for (dev_t device = 0; device < 40; ++device) {
    const uint64_t bytes = windows.bytes(device);
    EXPECT_GE(bytes, 4096u);
    EXPECT_LE(bytes, kMostReadAheadBytes);
    EXPECT_EQ(bytes % 4096, 0u);
  }
}

}  // namespace
}  // namespace ioweave::engine
