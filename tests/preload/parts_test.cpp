// The parts that program threads and Ioweave's threads share, without the wrappers, so that the
// sanitizers can watch them.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/futex.hpp"
#include "base/private_descriptors.hpp"
#include "calls/preload/observe.hpp"
#include "calls/preload/prefetcher.hpp"
#include "calls/preload/process.hpp"
#include "calls/preload/real.hpp"
#include "calls/preload/table.hpp"
#include "preload/run.hpp"

namespace ioweave::calls {
namespace {

using testing::TemporaryDirectory;

TEST(ObservationRing, KeepsOrderAndDropsWhenFull) {
  auto ring = std::make_unique<ObservationRing>();
  uint64_t pushed = 0;
  while (ring->push({Observation::Kind::read, false, 0, 0, pushed, 1})) {
    ++pushed;
  }
  EXPECT_GT(pushed, 100u);
  Observation got{};
  for (uint64_t i = 0; i < pushed; ++i) {
    ASSERT_TRUE(ring->pop(got));
    EXPECT_EQ(got.offset, i);
  }
  EXPECT_FALSE(ring->pop(got));
  EXPECT_TRUE(ring->push({Observation::Kind::read, false, 0, 0, 7, 1}));
  EXPECT_TRUE(ring->pop(got));
}

TEST(ObservationRing, ManyProducersLoseNothingThatWasTaken) {
  auto ring = std::make_unique<ObservationRing>();
  std::atomic<uint64_t> sum_in{0};
  std::atomic<int> running{4};
  std::vector<std::thread> producers;
  for (uint64_t t = 0; t < 4; ++t) {
    producers.emplace_back([&, t] {
      for (uint64_t i = 0; i < 5000; ++i) {
        if (ring->push({Observation::Kind::read, false, 0, 0, t * 5000 + i, 1})) {
          sum_in.fetch_add(t * 5000 + i);
        }
      }
      --running;
    });
  }
  uint64_t sum_out = 0;
  Observation got{};
  while (running.load() != 0) {
    while (ring->pop(got)) {
      sum_out += got.offset;
    }
    std::this_thread::yield();
  }
  for (std::thread& producer : producers) {
    producer.join();
  }
  while (ring->pop(got)) {
    sum_out += got.offset;
  }
  EXPECT_EQ(sum_out, sum_in.load());
}

TEST(PrefetchClock, CountsTheTimeWithAnythingInFlightOnce) {
  PrefetchClock clock;
  EXPECT_EQ(clock.busy(100), 0u);
  clock.begin(100);
  clock.begin(110);
  EXPECT_EQ(clock.busy(150), 50u);
  clock.end(160);
  EXPECT_EQ(clock.busy(170), 70u);
  clock.end(200);
  EXPECT_EQ(clock.busy(500), 100u);
  clock.begin(600);
  EXPECT_EQ(clock.busy(610), 110u);
  clock.end(620);
}

TEST(PrivateDescriptors, AreMovedOutOfTheWay) {
  const int low = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int moved =
      make_descriptor_private(low, [](auto... arguments) { return ::syscall(arguments...); });
  EXPECT_GT(moved, 200);
  EXPECT_TRUE(is_private_descriptor(moved));
  EXPECT_FALSE(is_private_descriptor(low));
  const int again = open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(again, low);
  close(again);
  forget_private_descriptor(moved);
  EXPECT_FALSE(is_private_descriptor(moved));
  close(moved);
}

/// The process as `ioweave run` would have started it.
class Attached : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    run_directory = new TemporaryDirectory(true);
    stats::RunConfig config;
    std::ofstream(*run_directory / "config", std::ios::binary)
        .write(reinterpret_cast<const char*>(&config), sizeof config);
    setenv(stats::kRunDirVariable, run_directory->path().c_str(), 1);
    real::resolve();
    ASSERT_TRUE(process.attach());
    ASSERT_TRUE(table.start());
  }
  static void TearDownTestSuite() {
    prefetcher.stop();
    delete run_directory;
  }
  static TemporaryDirectory* run_directory;

  static int tracked_open(const std::string& path) {
    const int fd = real::open(path.c_str(), O_RDONLY | O_CLOEXEC, 0);
    table.opened(fd, path.c_str(), O_RDONLY, 1);
    return fd;
  }
  static void tracked_close(int fd) {
    (void)table.closing(fd);
    real::close(fd);
  }
  /// As a wrapper does, with the speed made up.
  static void read_slowly(int fd, char* buffer, size_t bytes, off_t offset, bool slow) {
    const ssize_t got = real::pread(fd, buffer, bytes, offset);
    Entry* const entry = table.find(fd);
    if (got <= 0 || entry == nullptr) {
      return;
    }
    Device* const device = entry->device.load();
    const bool beside = device->prefetching.load() != 0;
    if (beside) {
      prefetcher.foreground_begin(*device);
    }
    if (Stream* const stream = entry->stream.load(); stream != nullptr) {
      stream->observe(offset, static_cast<uint64_t>(got), slow ? 1u << 30 : 1);
    }
    if (beside) {
      prefetcher.foreground_end(*device);
    }
  }

  const TemporaryDirectory directory;
};
TemporaryDirectory* Attached::run_directory = nullptr;

TEST_F(Attached, OneFileHasOneRecordHoweverItIsOpened) {
  testing::write_pattern(directory / "a", 4096);
  const int one = tracked_open(directory / "a");
  const int two = tracked_open(directory.path() + "/./a");
  ASSERT_NE(table.find(one), nullptr);
  ASSERT_NE(table.find(two), nullptr);
  stats::FileRecord* const record = table.find(one)->record.load();
  EXPECT_EQ(record, table.find(two)->record.load());
  EXPECT_EQ(record->opens, 2u);
  tracked_close(one);
  EXPECT_EQ(table.find(one), nullptr);
  tracked_close(two);
}

TEST_F(Attached, AFileThatTakesOverAnInodeIsAnotherFile) {
  struct stat status {};
  status.st_dev = 99;
  status.st_ino = 1;
  EXPECT_NE(records.of_file(-1, "/x/old", status), records.of_file(-1, "/x/new", status));
  EXPECT_EQ(records.of_file(-1, "/x/old", status), records.of_file(-1, "/x/old", status));
}

TEST_F(Attached, ClosingWaitsForSlicesAndAllowsNoFurtherOnes) {
  testing::write_pattern(directory / "a", 2 << 20);
  const int fd = tracked_open(directory / "a");
  Stream* const stream = table.find(fd)->stream.load();
  if (stream == nullptr) {
    GTEST_SKIP() << "the build folder is on a memory file system";
  }
  ASSERT_TRUE(stream->begin_slice());
  std::atomic<bool> closed{false};
  std::thread closer([&] {
    tracked_close(fd);
    closed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(closed.load());
  EXPECT_FALSE(stream->begin_slice());
  stream->end_slice();
  closer.join();
}

TEST_F(Attached, ACallByTheEngineKeepsSlicesOfItsDeviceWaitingLikeAnyOther) {
  testing::write_pattern(directory / "a", 4096);
  const int fd = tracked_open(directory / "a");
  Device device{};
  device.prefetching = Device::kWatch;
  Entry entry{};
  entry.record = table.find(fd)->record.load();
  entry.device = &device;

  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::atomic<ssize_t> result{-1};
  std::atomic<bool> by_plain_call{false};
  std::thread reader([&] {
    char byte = 0;
    const Transfer transfer{engine::Op::read, ends[0], &byte, 1, engine::kCurrentPosition};
    result = by_engine(entry, stats::CallClass::read, transfer, [&] {
      by_plain_call = true;
      return real::read(ends[0], &byte, 1);
    });
  });
  // It cannot end before the byte below is written, so there is time to see it.
  const Deadline deadline(20'000'000'000);
  while (device.foreground.load() == 0 && !deadline.passed()) {
    std::this_thread::yield();
  }
  EXPECT_EQ(device.foreground.load(), 1u);
  EXPECT_EQ(real::write(ends[1], "x", 1), 1);
  reader.join();
  EXPECT_EQ(result.load(), 1);
  EXPECT_EQ(device.foreground.load(), 0u);
  close(ends[0]);
  close(ends[1]);
  tracked_close(fd);
  if (by_plain_call.load()) {
    const std::string why = process.segment()->why;
    GTEST_SKIP() << "the engine did not carry the call: "
                 << (why.empty() ? "it may be in a signal handler (ThreadSanitizer)" : why);
  }
}

TEST_F(Attached, ThreadsThatOpenReadSlowlyAndCloseDoNotDisturbThePrefetcher) {
  const std::string paths[] = {directory / "a", directory / "b"};
  testing::write_pattern(paths[0], 24 << 20, 1);
  testing::write_pattern(paths[1], 24 << 20, 2);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<char> buffer(1 << 20);
      for (int round = 0; round < 6; ++round) {
        (void)testing::drop_from_cache(paths[t % 2]);
        const int fd = tracked_open(paths[t % 2]);
        const int chunks = round % 3 == 0 ? 24 : 5;
        for (int i = 0; i < chunks; ++i) {
          read_slowly(fd, buffer.data(), buffer.size(), off_t{i} << 20, i % 2 == 0);
          std::this_thread::sleep_for(std::chrono::microseconds(500));  // time to get ahead
        }
        tracked_close(fd);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const int fd = tracked_open(paths[0]);
  const stats::FileRecord& record = *table.find(fd)->record.load();
  EXPECT_LE(record.prefetched_used_bytes.load(), record.prefetched_bytes.load());
  tracked_close(fd);
}

}  // namespace
}  // namespace ioweave::calls
