#include "device/read_rate.hpp"

#include <string>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/descriptor.hpp"
#include "stats/text_file.hpp"
#include "support/resident_pages.hpp"

namespace ioweave::device {
namespace {

using test::resident_pages;
using test::TempDir;
using test::write_text;

class ReadRates : public ::testing::Test {
 protected:
  /// Makes a file; all of it is in the page cache.
  std::string make_file(uint64_t bytes) {
    bytes_ = bytes;
    const std::string path = write_text(folder_, "input", std::string(bytes, 'x'));
    file_ = Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return path;
  }
  [[nodiscard]] uint64_t cached_pages() const { return resident_pages(file_.get(), 0, bytes_); }
  /// Returns false where the file stays in the page cache.
  [[nodiscard]] bool drop() const {
    fdatasync(file_.get());
    posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);
    return cached_pages() == 0;
  }

  static constexpr uint64_t kMiB = 1 << 20;
  TempDir folder_;
  uint64_t bytes_ = 0;
  Descriptor file_;
};

TEST_F(ReadRates, OfThePageCacheAreKnownWhereTheBeginningOfAFileIs) {
  const std::string path = make_file(5 * kMiB);
  const std::optional<double> seconds = cached_read_time(path);
  if (!seconds) GTEST_SKIP() << "no reads from the page cache alone on this file system";
  EXPECT_GT(*seconds, 0);
  EXPECT_FALSE(cached_read_time(make_file(3 * kMiB)));
}

TEST_F(ReadRates, LeaveAColdFileCold) {
  const std::string path = make_file(32 * kMiB);
  if (!drop()) GTEST_SKIP() << "files of this file system stay in memory";
  EXPECT_FALSE(cached_read_time(path));
  EXPECT_EQ(cached_pages(), 0u);
  const std::optional<double> rate = device_read_rate(path);
  EXPECT_EQ(cached_pages(), 0u);
  if (!rate) GTEST_SKIP() << "no O_DIRECT on this file system";
  EXPECT_GT(*rate, 0);
}

TEST_F(ReadRates, OfADeviceAreNotKnownByASmallFile) {
  EXPECT_FALSE(device_read_rate(make_file(15 * kMiB)));
  EXPECT_FALSE(device_read_rate(folder_.file("missing")));
}

}  // namespace
}  // namespace ioweave::device
