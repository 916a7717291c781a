// What a prefetcher relies on: pages that stay, pages that go, and read-ahead that does not wait.
// Asserted by mincore, never by time; transfers that must be seen unfinished are made very slow.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "slowfs_fixture.hpp"

namespace slowfs_test {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kWindow = 128 << 10;  // the kernel's read-ahead window on a FUSE mount
constexpr size_t kFileBytes = 1 << 20;
constexpr int kTries = 4;
constexpr int kEnough = 3;  ///< of these must succeed

/// A file opened for reading, and which of its pages the kernel holds.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    map_ = mmap(nullptr, kFileBytes, PROT_READ, MAP_SHARED, fd_, 0);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    munmap(map_, kFileBytes);
    close(fd_);
  }

  [[nodiscard]] bool usable() const { return fd_ != -1 && map_ != MAP_FAILED; }
  [[nodiscard]] size_t resident_bytes(size_t bytes) const {
    return kPage * static_cast<size_t>(std::ranges::count(resident_pages(bytes), true));
  }
  void read_all() const {
    std::vector<char> data(kFileBytes);
    EXPECT_EQ(pread(fd_, data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
  }
  [[nodiscard]] int advise(size_t offset, size_t bytes, int advice) const {
    return posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes), advice);
  }
  /// Asks for the first bytes in slices, at once, and waits until each page was seen in the cache.
  /// Anew after three seconds, which no transfer of these tests takes: read-ahead is best effort,
  /// and where memory is short the kernel gives up quietly, or takes pages back. So not every try
  /// must succeed, but most of them.
  void expect_filled_by_willneed(size_t bytes, size_t slice) const {
    int filled = 0;
    int tries = 0;
    std::string missing;
    while (filled < kEnough && tries - filled <= kTries - kEnough) {
      ++tries;
      ASSERT_EQ(advise(0, 0, POSIX_FADV_DONTNEED), 0);
      for (size_t offset = 0; offset < bytes; offset += slice) {
        ASSERT_EQ(advise(offset, slice, POSIX_FADV_WILLNEED), 0);
      }
      EXPECT_LT(resident_bytes(bytes), bytes) << "WILLNEED waited for the transfer";
      const auto unseen = unseen_pages(bytes);
      filled += unseen == 0 ? 1 : 0;
      missing += " " + std::to_string(unseen);
    }
    EXPECT_EQ(filled, kEnough) << filled << " of " << tries << " tries filled the cache; pages of "
                               << bytes / kPage << " that did not come:" << missing;
  }

 private:
  [[nodiscard]] std::vector<bool> resident_pages(size_t bytes) const {
    std::vector<unsigned char> pages(bytes / kPage);
    if (mincore(map_, bytes, pages.data()) == -1) return {};
    std::vector<bool> resident;
    for (const unsigned char page : pages) resident.push_back((page & 1u) != 0);
    return resident;
  }
  /// Pages that were not seen in the cache at any time within three seconds.
  [[nodiscard]] std::ptrdiff_t unseen_pages(size_t bytes) const {
    std::vector<bool> seen(bytes / kPage);
    for (int i = 0; i < 3'000 && std::ranges::count(seen, false) > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::vector<bool> now = resident_pages(bytes);
      for (size_t page = 0; page < now.size(); ++page) seen[page] = seen[page] || now[page];
    }
    return std::ranges::count(seen, false);
  }

  int fd_;
  void* map_;
};

class SlowfsCache : public SlowfsMount {
 protected:
  void SetUp() override {
    SlowfsMount::SetUp();
    if (!IsSkipped()) make_source_file("f", kFileBytes);
  }
};

TEST_F(SlowfsCache, KeepsPagesAcrossOpens) {
  mount();
  { OpenFile(mounted("f")).read_all(); }
  const OpenFile again(mounted("f"));
  ASSERT_TRUE(again.usable());
  EXPECT_EQ(again.resident_bytes(kFileBytes), kFileBytes);
}

TEST_F(SlowfsCache, DropsPagesOnDontneed) {
  mount();
  const OpenFile file(mounted("f"));
  ASSERT_TRUE(file.usable());
  file.read_all();
  ASSERT_EQ(file.advise(0, 0, POSIX_FADV_DONTNEED), 0);
  EXPECT_EQ(file.resident_bytes(kFileBytes), 0u);
}

TEST_F(SlowfsCache, KeepsWhatWasWrittenThroughTheMount) {
  mount();
  const std::vector<char> data = pattern(kFileBytes, 7);
  write_file(mounted("f"), data);
  const OpenFile file(mounted("f"));
  ASSERT_TRUE(file.usable());
  EXPECT_EQ(file.resident_bytes(kFileBytes), kFileBytes);
  EXPECT_EQ(read_file(mounted("f")), data);
}

TEST_F(SlowfsCache, DropsPagesOfAFileThatChangedBehindTheMount) {
  mount();
  EXPECT_EQ(read_file(mounted("f")), pattern(kFileBytes, 1));
  make_source_file("f", kFileBytes, 2);
  EXPECT_EQ(read_file(mounted("f")), pattern(kFileBytes, 2));
}

TEST_F(SlowfsCache, WillneedReturnsBeforeTheTransferAndFillsTheCache) {
  mount({"--read-mb-s", "0.2"});  // the window takes 0.6 s
  const OpenFile file(mounted("f"));
  ASSERT_TRUE(file.usable());
  ASSERT_EQ(file.advise(0, kWindow, POSIX_FADV_WILLNEED), 0);
  EXPECT_EQ(file.resident_bytes(kWindow), 0u);
  file.expect_filled_by_willneed(kWindow, kWindow);
}

TEST_F(SlowfsCache, WillneedInSlicesQueuesThemAll) {
  mount({"--read-mb-s", "1"});  // all of it takes a second
  const OpenFile file(mounted("f"));
  ASSERT_TRUE(file.usable());
  file.expect_filled_by_willneed(kFileBytes, kWindow);
}

TEST_F(SlowfsCache, ReadsPastTheCacheWithODirect) {
  mount();
  EXPECT_EQ(read_file(mounted("f"), O_DIRECT), pattern(kFileBytes));
  const OpenFile file(mounted("f"));
  ASSERT_TRUE(file.usable());
  EXPECT_EQ(file.resident_bytes(kFileBytes), 0u);
}

TEST_F(SlowfsCache, RaisesTheReadaheadWindowOnRequest) {
  if (geteuid() != 0) GTEST_SKIP() << "raising read_ahead_kb takes root";
  mount({"--max-readahead-kb", "1024", "--read-mb-s", "1"});
  const OpenFile file(mounted("f"));
  ASSERT_TRUE(file.usable());
  file.expect_filled_by_willneed(kFileBytes, kFileBytes);
}

}  // namespace
}  // namespace slowfs_test
