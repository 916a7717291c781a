// On real files of the disk. What was asked for is awaited by looking at the page cache, with a
// limit that only a device that hangs reaches.

#include "engine/read_ahead_walk.hpp"

#include <algorithm>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "backend_fixture.hpp"
#include "engine/prefetch.hpp"
#include "support/child.hpp"
#include "support/resident_pages.hpp"
#include "support/temp_file.hpp"

namespace ioweave::engine {
namespace {

using Answer = ReadAheadWalk::Answer;

constexpr uint64_t kWindows = 6;  // of the file

bool has_cachestat() {
  struct {
    uint64_t offset = 0, length = 0;
  } range;
  uint64_t answer[5];
  const int fd = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  const bool has = ::syscall(451, fd, &range, answer, 0) == 0;
  ::close(fd);
  return has;
}

class ReadAheadWalkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_cachestat()) GTEST_SKIP() << "no cachestat(2) in this kernel";
    page_ = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    struct stat status {};
    ASSERT_EQ(::stat(directory_.path().c_str(), &status), 0);
    window_ = std::max(read_ahead_window_bytes(status.st_dev), page_);
    if (window_ > (32 << 20)) GTEST_SKIP() << "this device reads too far ahead for a test";
    bytes_ = kWindows * window_;
    const Descriptor file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    for (uint64_t at = 0; at < bytes_; at += window_) {
      const std::vector<std::byte> piece = test::pattern(at, window_);
      ASSERT_EQ(::pwrite(file.get(), piece.data(), piece.size(), static_cast<off_t>(at)),
                static_cast<ssize_t>(piece.size()));
    }
    ASSERT_EQ(::fsync(file.get()), 0);
    if (!drop_cache()) GTEST_SKIP() << "this file system does not drop pages";
  }

  [[nodiscard]] Descriptor open_file(int flags = O_RDONLY) const {
    return Descriptor(::open(path_.c_str(), flags | O_CLOEXEC));
  }
  [[nodiscard]] bool drop_cache() const {
    const Descriptor file = open_file();
    return ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED) == 0 &&
           resident_pages(0, bytes_) == 0;
  }
  [[nodiscard]] uint64_t resident_pages(uint64_t offset, uint64_t length) const {
    return test::resident_pages(open_file().get(), offset, length);
  }
  /// Whether each page has been there. Where memory is full of other files the kernel takes some
  /// away again before the last ones have come.
  [[nodiscard]] bool comes(uint64_t offset, uint64_t length) const {
    constexpr int kLooks = 10'000;  // of a millisecond
    std::vector<bool> came;
    for (int i = 0; i < kLooks; ++i) {
      test::mark_resident(open_file().get(), offset, length, came);
      if (std::ranges::count(came, false) == 0) return true;
      ::usleep(1000);
    }
    return false;
  }

  test::TempDir directory_;
  const std::string path_ = directory_.file("data");
  uint64_t page_ = 0;
  uint64_t window_ = 0;
  uint64_t bytes_ = 0;
};

TEST_F(ReadAheadWalkTest, EachWindowThatWasAskedForComesIn) {
  const Descriptor file = open_file();
  ReadAheadWalk walk(file.get(), window_);
  for (uint64_t at = 0; at < bytes_; at += window_) {
    // Read-ahead may have begun with it already.
    EXPECT_NE(walk.ask(at, window_), Answer::failed);
  }
  EXPECT_TRUE(comes(0, bytes_));
}

TEST_F(ReadAheadWalkTest, AWindowInTheMiddleComesInAlone) {
  const Descriptor file = open_file();
  ReadAheadWalk walk(file.get(), window_);
  EXPECT_EQ(walk.ask(2 * window_, window_), Answer::asked);
  EXPECT_TRUE(comes(2 * window_, window_));
  EXPECT_EQ(resident_pages(0, 2 * window_), 0u);
  EXPECT_EQ(resident_pages(4 * window_, 2 * window_), 0u);
}

TEST_F(ReadAheadWalkTest, TheEndOfTheFileComesIn) {
  bytes_ = bytes_ - window_ / 2 + 100;
  const Descriptor file = open_file(O_RDWR);
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes_)), 0);
  ASSERT_EQ(::fsync(file.get()), 0);
  ASSERT_TRUE(drop_cache());
  ReadAheadWalk walk(file.get(), window_);
  const uint64_t last = (kWindows - 1) * window_;
  EXPECT_NE(walk.ask(last - window_, window_), Answer::failed);
  EXPECT_NE(walk.ask(last, bytes_ - last), Answer::failed);
  EXPECT_TRUE(comes(last - window_, bytes_ - last + window_))
      << resident_pages(last - window_, window_) << " pages, then "
      << resident_pages(last, bytes_ - last);
}

TEST_F(ReadAheadWalkTest, RangesOfAnyOrderComeIn) {
  const Descriptor file = open_file();
  ReadAheadWalk walk(file.get(), window_);
  for (const uint64_t i : {4u, 0u, 5u, 1u, 3u, 2u}) {
    EXPECT_NE(walk.ask(i * window_, window_), Answer::failed);
  }
  EXPECT_TRUE(comes(0, bytes_));
}

TEST_F(ReadAheadWalkTest, OddRangesComeIn) {
  const Descriptor file = open_file();
  ReadAheadWalk walk(file.get(), window_);
  uint64_t at = 0;
  for (const uint64_t bytes : {uint64_t{100}, page_ + 1, window_ / 2 - 7, window_}) {
    EXPECT_NE(walk.ask(at, bytes), Answer::failed);
    at += bytes;
  }
  EXPECT_TRUE(comes(0, at));
}

TEST_F(ReadAheadWalkTest, WhatIsCachedIsAnsweredSo) {
  const Descriptor file = open_file();
  ReadAheadWalk walk(file.get(), window_);
  EXPECT_EQ(walk.ask(0, window_), Answer::asked);
  ASSERT_TRUE(comes(0, window_));
  EXPECT_EQ(walk.ask(0, window_), Answer::cached);
  EXPECT_EQ(walk.ask_only(0, window_), Answer::cached);
  EXPECT_EQ(walk.ask(bytes_ - window_, 0), Answer::cached) << "nothing is there always";
}

TEST_F(ReadAheadWalkTest, AFileOfAnotherUserComesInAndIsThenAnsweredCached) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root becomes another user";
  const auto as_nobody = [&](Answer expected) {
    return test::run_in_child([&] {
      const Descriptor file = open_file();
      if (::setresuid(65534, 65534, 65534) != 0) return 1;
      if (is_known_resident(file.get(), 0, page_)) return 2;  // the kernel tells it all the same
      ReadAheadWalk walk(file.get(), window_);
      for (uint64_t at = 0; at < bytes_; at += window_) {
        if (walk.ask(at, window_) != expected) return 3;
      }
      return 0;
    });
  };
  EXPECT_EQ(as_nobody(Answer::asked), 0);
  EXPECT_TRUE(comes(0, bytes_));
  EXPECT_EQ(as_nobody(Answer::cached), 0);
}

TEST_F(ReadAheadWalkTest, NeitherThePositionNorTheFileChanges) {
  const Descriptor file = open_file(O_RDWR);
  ASSERT_EQ(::lseek(file.get(), 1234, SEEK_SET), 1234);
  struct stat before {};
  ASSERT_EQ(::fstat(file.get(), &before), 0);
  ReadAheadWalk walk(file.get(), window_);
  for (uint64_t at = 0; at < bytes_; at += window_) {
    EXPECT_NE(walk.ask(at, window_), Answer::failed);
  }
  EXPECT_EQ(::lseek(file.get(), 0, SEEK_CUR), 1234);
  struct stat after {};
  ASSERT_EQ(::fstat(file.get(), &after), 0);
  EXPECT_EQ(after.st_size, before.st_size);
  EXPECT_EQ(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
  std::vector<std::byte> content(window_);
  for (uint64_t at = 0; at < bytes_; at += window_) {
    ASSERT_EQ(::pread(file.get(), content.data(), window_, static_cast<off_t>(at)),
              static_cast<ssize_t>(window_));
    ASSERT_EQ(content, test::pattern(at, window_));
  }
}

TEST_F(ReadAheadWalkTest, AskOnlyBringsInThePagesOfTheRangeAndNoOther) {
  const Descriptor file = open_file();
  ReadAheadWalk walk(file.get(), window_);
  const uint64_t stride = window_;
  const uint64_t record = 3 * page_;
  for (uint64_t at = 0; at < bytes_; at += stride) {
    EXPECT_EQ(walk.ask_only(at + page_ / 2, record - page_), Answer::asked);
  }
  for (uint64_t at = 0; at < bytes_; at += stride) EXPECT_TRUE(comes(at, record));
  EXPECT_EQ(resident_pages(0, bytes_), 3 * kWindows);
}

TEST_F(ReadAheadWalkTest, AskOnlyTakesRangesOfAnyLength) {
  const Descriptor file = open_file();
  ReadAheadWalk walk(file.get(), window_);
  EXPECT_EQ(walk.ask_only(window_, 3 * window_), Answer::asked);
  EXPECT_TRUE(comes(window_, 3 * window_));
  EXPECT_EQ(resident_pages(0, window_), 0u);
  EXPECT_EQ(resident_pages(4 * window_, 2 * window_), 0u);
}

TEST_F(ReadAheadWalkTest, DescriptorsThatDoNotReadThroughThePageCacheFail) {
  const Descriptor direct = open_file(O_RDONLY | O_DIRECT);
  const Descriptor write_only = open_file(O_WRONLY);
  for (const int fd : {direct.get(), write_only.get()}) {
    if (fd < 0) continue;  // no O_DIRECT here
    ReadAheadWalk walk(fd, window_);
    EXPECT_EQ(walk.ask(0, window_), Answer::failed);
    EXPECT_EQ(walk.ask_only(window_, page_), Answer::failed);
  }
  EXPECT_EQ(resident_pages(0, bytes_), 0u);
}

TEST(ReadAheadWalk, WhatIsNoFileFails) {
  const Pipe pipe;
  ReadAheadWalk on_pipe(pipe.out.get(), 128 << 10);
  EXPECT_EQ(on_pipe.ask(0, 4096), Answer::failed);
  EXPECT_EQ(on_pipe.ask_only(0, 4096), Answer::failed);
  ReadAheadWalk on_nothing(-1, 128 << 10);
  EXPECT_EQ(on_nothing.ask(0, 4096), Answer::failed);
  EXPECT_EQ(on_nothing.ask_only(0, 4096), Answer::failed);
}

}  // namespace
}  // namespace ioweave::engine
