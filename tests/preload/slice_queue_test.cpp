#include "calls/preload/slice_queue.hpp"

#include <cerrno>
#include <memory>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "preload/run.hpp"

namespace ioweave::calls {
namespace {

using testing::TemporaryDirectory;
constexpr uint64_t kFileBytes = 4u << 20;
constexpr uint64_t kSliceBytes = 128u << 10;

class Slices : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = directory_ / "data";
    testing::write_pattern(path, kFileBytes);
    cold_ = testing::drop_from_cache(path);
    fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    ASSERT_EQ(fstat(fd_, &status), 0);
    stream_ = streams.open(fd_, status, *record_, device_.get());
    ASSERT_NE(stream_, nullptr);
  }
  void TearDown() override {
    streams.close(*stream_);
    close(fd_);
  }

  /// Submits the i-th slice of the file.
  Slice& submit(uint64_t i) {
    Slice* const slice = queue.free_slice();
    EXPECT_NE(slice, nullptr);
    slice->stream = stream_;
    slice->fd = fd_;
    slice->device = device_.get();
    slice->range = {i * kSliceBytes, kSliceBytes};
    std::string why;
    EXPECT_TRUE(queue.submit(*slice, why)) << why;
    return *slice;
  }

  std::unique_ptr<stats::FileRecord> record_ = std::make_unique<stats::FileRecord>();
  std::unique_ptr<Device> device_ = std::make_unique<Device>();
  PrefetchClock clock;
  std::atomic<bool> cancelled{false};
  SliceQueue queue{policy::Scheduling::strict, clock, cancelled};
  bool cold_ = false;
  int fd_ = -1;

 private:
  TemporaryDirectory directory_;
  Stream* stream_ = nullptr;
};

TEST_F(Slices, EndInTheOrderInWhichTheyWent) {
  Slice& first = submit(0);
  Slice& second = submit(1);
  EXPECT_EQ(first.stage, Slice::Stage::flying);
  EXPECT_EQ(second.stage, Slice::Stage::flying);
  ASSERT_TRUE(queue.await_oldest());
  EXPECT_EQ(first.stage, Slice::Stage::ended);
  EXPECT_EQ(second.stage, Slice::Stage::flying);
  EXPECT_EQ(first.result, static_cast<int64_t>(kSliceBytes));
  ASSERT_TRUE(queue.await_oldest());
  EXPECT_EQ(second.result, static_cast<int64_t>(kSliceBytes));
  EXPECT_FALSE(queue.await_oldest());
}

TEST_F(Slices, NoMoreFlyThanTheDeviceNeeds) {
  submit(0);
  submit(1);
  Slice& third = submit(2);
  EXPECT_EQ(third.stage, Slice::Stage::held);
  ASSERT_TRUE(queue.await_oldest());
  EXPECT_EQ(third.stage, Slice::Stage::flying);
  while (queue.await_oldest()) {
  }
}

TEST_F(Slices, SayWhatWasCachedAlready) {
  if (!cold_) {
    GTEST_SKIP() << "the file stays in the page cache";
  }
  Slice& fetched = submit(0);
  ASSERT_TRUE(queue.await_oldest());
  EXPECT_TRUE(fetched.missing);
  fetched.stage = Slice::Stage::free;
  Slice& again = submit(0);
  ASSERT_TRUE(queue.await_oldest());
  EXPECT_FALSE(again.missing);
  EXPECT_EQ(again.result, static_cast<int64_t>(kSliceBytes));
}

TEST_F(Slices, WaitForTheProgramsOwnCalls) {
  device_->foreground = 1;
  Slice& slice = submit(0);
  EXPECT_EQ(slice.stage, Slice::Stage::held);
  EXPECT_FALSE(queue.watch_for_quiet());
  EXPECT_EQ(device_->prefetching.load(), Device::kWakeAtEnd);
  device_->foreground = 0;
  EXPECT_TRUE(queue.watch_for_quiet());
  EXPECT_EQ(slice.stage, Slice::Stage::flying);
  EXPECT_EQ(device_->prefetching.load(), Device::kWatch);
  EXPECT_TRUE(queue.await_oldest());
  queue.rest();
  EXPECT_EQ(device_->prefetching.load(), 0u);
}

TEST_F(Slices, MayBeWithdrawnWhileTheyAreHeld) {
  device_->foreground = 1;
  Slice& slice = submit(0);
  queue.withdraw(slice);
  EXPECT_EQ(slice.stage, Slice::Stage::ended);
  EXPECT_EQ(slice.result, -ECANCELED);
  EXPECT_FALSE(queue.await_oldest());
  device_->foreground = 0;
  Slice& next = submit(1);
  queue.withdraw(next);  // too late
  EXPECT_EQ(next.stage, Slice::Stage::flying);
  EXPECT_TRUE(queue.await_oldest());
}

TEST_F(Slices, AnErrorEndsOnlyItsOwn) {
  const int good = fd_;
  fd_ = 1'000'000;
  Slice& bad = submit(0);
  fd_ = good;
  Slice& well = submit(1);
  ASSERT_TRUE(queue.await_oldest());
  EXPECT_EQ(bad.result, -EBADF);
  ASSERT_TRUE(queue.await_oldest());
  EXPECT_EQ(well.result, static_cast<int64_t>(kSliceBytes));
}

TEST_F(Slices, AreGivenUpOnceEverythingIs) {
  cancelled = true;
  Slice& slice = submit(0);
  ASSERT_TRUE(queue.await_oldest());
  EXPECT_EQ(slice.result, -ECANCELED);
}

}  // namespace
}  // namespace ioweave::calls
