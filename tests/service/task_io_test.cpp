// Storage I/O in tasks does the same in each host: what it moves, what it returns, and what it
// counts.
#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ioweave/plans.h"
#include "ioweave/read_streams.h"
#include "ioweave/spread.h"
#include "support/request.hpp"
#include "task_service.hpp"

namespace ioweave::test {
namespace {

constexpr size_t kFileBytes = 256 * kBlock;
#ifdef IOWEAVE_TEST_SANITIZED
constexpr unsigned kTasks = 16;
#else
constexpr unsigned kTasks = 64;
#endif
constexpr unsigned kReads = 20;

#ifdef IOWEAVE_TEST_REAL_ALPI
const auto kPausing = ::testing::Values(HostUnderTest::alpi_thread, HostUnderTest::alpi_task);
const auto kBinding = kPausing;
#else
const auto kPausing =
    ::testing::Values(HostUnderTest::alpi_thread, HostUnderTest::alpi_task, HostUnderTest::tbb);
const auto kBinding = ::testing::Values(HostUnderTest::alpi_thread, HostUnderTest::alpi_task,
                                        HostUnderTest::tbb, HostUnderTest::begun);
#endif
INSTANTIATE_TEST_SUITE_P(, BlockingInTask, kPausing,
                         [](const auto& host) { return name_of(host.param); });
INSTANTIATE_TEST_SUITE_P(, BoundToTask, kBinding,
                         [](const auto& host) { return name_of(host.param); });

/// A file of the pattern, opened past the page cache.
class DirectFile : public TempFile {
 public:
  explicit DirectFile(size_t bytes = kFileBytes) : TempFile(bytes, O_RDWR | O_DIRECT) {}
};

#define SKIP_WITHOUT_DIRECT(file)                                                                \
  if ((file).fd() < 0) {                                                                         \
    GTEST_SKIP() << "the file system of the temporary directory has no O_DIRECT; set TMPDIR to " \
                    "one that has";                                                              \
  }                                                                                              \
  static_assert(true)

off_t offset_of(size_t block) {
  return static_cast<off_t>(block * kBlock);
}

// ---- Outside tasks

TEST_P(BlockingInTask, OutsideOneItIsThePlainCall) {
  open(2);
  const DirectFile file;
  SKIP_WITHOUT_DIRECT(file);
  const auto use = [&] {
    const Aligned buffer(kBlock);
    EXPECT_EQ(iow_pread(service, file.fd(), buffer.data(), kBlock, offset_of(3)),
              static_cast<ssize_t>(kBlock));
    EXPECT_EQ(buffer.first(kBlock), pattern(3 * kBlock, kBlock));
    EXPECT_EQ(iow_fsync(service, file.fd()), 0);
  };
  use();
  std::thread(use).join();
  EXPECT_EQ(stats().pauses, 0u);
  EXPECT_EQ(stats().at_once, 0u);
}

uint32_t flow_of_one_at_once(iow_service* service) {
  iow_device_options device{};
  device.max_in_flight = 1;
  iow_flow_options options{};
  options.device = static_cast<uint32_t>(iow_device_create(service, "disk", &device, nullptr));
  return static_cast<uint32_t>(iow_flow_create(service, "saves", &options, nullptr));
}

/// The only worker of those that wait runs what comes behind them.
TEST_P(BlockingInTask, ATaskThatWaitsToBeAdmittedIsPaused) {
  open(1);
  const uint32_t flow = flow_of_one_at_once(service);
  const int64_t held = iow_admit(service, flow, 1);
  ASSERT_GT(held, 0);
  std::atomic<unsigned> admitted{0};
  for (unsigned task = 0; task < kTasks; ++task) {
    workers->spawn([&] {
      set_errno(EDOM);
      const int64_t operation = iow_admit(service, flow, 1);
      EXPECT_EQ(get_errno(), EDOM);
      EXPECT_GT(operation, 0);
      ++admitted;
      EXPECT_EQ(iow_finish(service, operation, 1), 0);
    });
  }
  std::atomic<bool> other{false};
  workers->spawn([&] { other = true; });
  while (!other || stats().paused != kTasks) {
    std::this_thread::yield();
  }
  EXPECT_EQ(admitted, 0u);
  EXPECT_EQ(iow_finish(service, held, 1), 0);
  workers->wait();
  EXPECT_EQ(admitted, kTasks);
  EXPECT_EQ(stats().paused, 0u);
}

/// The only worker of those that wait for a buffer runs what comes behind them.
TEST_P(BlockingInTask, ATaskThatWaitsForABufferIsPaused) {
  open(1);
  const TempFile result;
  iow_write_stream_options options{};
  options.buffer_bytes = kBlock;
  options.budget_bytes = kBlock;
  iow_write_stream* stream = nullptr;
  ASSERT_EQ(iow_write_stream_open(service, &stream, &options, nullptr), 0);
  const int file = iow_write_stream_create(stream, result.path().c_str(), nullptr, nullptr);
  ASSERT_EQ(file, 0);
  iow_lease held{};
  ASSERT_EQ(iow_lease_begin(stream, &held, -1), 0);
  for (unsigned task = 0; task < kTasks; ++task) {
    workers->spawn([&, task] {
      set_errno(EDOM);
      iow_lease lease{};
      EXPECT_EQ(iow_lease_begin(stream, &lease, -1), 0);
      EXPECT_EQ(get_errno(), EDOM);
      const std::vector<std::byte> content = pattern(task * kBlock, kBlock);
      std::copy(content.begin(), content.end(), static_cast<std::byte*>(lease.data));
      EXPECT_EQ(iow_lease_write(&lease, file, kBlock, offset_of(task)), 0);
      EXPECT_EQ(get_errno(), EDOM);
    });
  }
  std::atomic<bool> other{false};
  workers->spawn([&] { other = true; });
  while (!other || stats().paused != kTasks) {
    std::this_thread::yield();
  }
  iow_lease_end(&held);
  workers->spawn([&] {
    EXPECT_EQ(iow_write_stream_sync(stream, file), 0);
    EXPECT_EQ(iow_write_stream_flush(stream, IOW_ALL_FILES), 0);
  });
  workers->wait();
  EXPECT_EQ(stats().paused, 0u);
  EXPECT_EQ(iow_write_stream_close(stream, 0, nullptr), 0);
  std::vector<std::byte> found(kTasks * kBlock);
  ASSERT_EQ(::pread(result.fd(), found.data(), found.size(), 0),
            static_cast<ssize_t>(found.size()));
  EXPECT_EQ(found, pattern(0, kTasks * kBlock));
}

/// The only worker of those that wait for an item runs what comes behind them. Nobody calls for the
/// next item once all wait.
TEST_P(BlockingInTask, ATaskThatWaitsForAnItemIsPaused) {
  open(1);
  const TempFile file(kFileBytes);
  const char* const path = file.path().c_str();
  iow_read_stream_options options{};
  options.buffer_bytes = kBlock;
  options.budget_bytes = kBlock;
  iow_read_stream* stream = nullptr;
  ASSERT_EQ(iow_read_stream_open_files(service, &stream, &path, 1, &options, nullptr), 0);
  iow_read_lease held{};
  ASSERT_EQ(iow_read_stream_next(stream, &held, -1), 1);
  std::atomic<unsigned> good{0};
  for (unsigned task = 0; task < kTasks; ++task) {
    workers->spawn([&] {
      set_errno(EDOM);
      iow_read_lease lease{};
      EXPECT_EQ(iow_read_stream_next(stream, &lease, -1), 1);
      EXPECT_EQ(get_errno(), EDOM);
      const std::vector<std::byte> wanted = pattern(lease.offset, kBlock);
      good += lease.bytes == kBlock &&
              std::equal(wanted.begin(), wanted.end(), static_cast<std::byte*>(lease.data));
      iow_read_lease_end(&lease);
    });
  }
  std::atomic<bool> other{false};
  workers->spawn([&] { other = true; });
  while (!other || stats().paused != kTasks) {
    std::this_thread::yield();
  }
  iow_read_lease_end(&held);
  workers->wait();
  EXPECT_EQ(good, kTasks);
  EXPECT_EQ(stats().paused, 0u);
  EXPECT_EQ(iow_read_stream_close(stream), 0);
}

/// The only worker of those that wait for a device runs what comes behind them.
TEST_P(BlockingInTask, ATaskThatWaitsForAReadOfAPlanIsPaused) {
  open(1);
  const TempFile file(kTasks * kBlock);
  iow_plan_options options{};
  options.flow = flow_of_one_at_once(service);
  options.own_flow = options.flow;
  const int64_t held = iow_admit(service, options.flow, 1);
  ASSERT_GT(held, 0);
  iow_plan* plan = nullptr;
  ASSERT_EQ(iow_plan_open(service, &plan, &options, nullptr), 0);
  ASSERT_EQ(iow_plan_add_strided(plan, file.fd(), 0, kBlock, kBlock, kTasks), 0);
  std::atomic<unsigned> good{0};
  for (unsigned task = 0; task < kTasks; ++task) {
    workers->spawn([&, task] {
      set_errno(EDOM);
      std::vector<std::byte> block(kBlock);
      EXPECT_EQ(iow_plan_read(plan, file.fd(), block.data(), kBlock, offset_of(task)),
                static_cast<ssize_t>(kBlock));
      EXPECT_EQ(get_errno(), EDOM);
      good += block == pattern(task * kBlock, kBlock) ? 1 : 0;
    });
  }
  std::atomic<bool> other{false};
  workers->spawn([&] { other = true; });
  while (!other || stats().paused != kTasks) {
    std::this_thread::yield();
  }
  EXPECT_EQ(good, 0u);
  EXPECT_EQ(iow_finish(service, held, 1), 0);
  workers->wait();
  EXPECT_EQ(good, kTasks);
  EXPECT_EQ(stats().paused, 0u);
  workers->spawn([&] {
    EXPECT_EQ(iow_plan_write(plan, file.fd(), "x", 1, 0), 1);
    EXPECT_EQ(iow_plan_forget(plan, file.fd()), 0);
    iow_plan_close(plan);
  });
  workers->wait();
}

TEST_P(BlockingInTask, ItemsOfASpreadAreAppendedAndReadByTasks) {
  open(2);
  const TempDir dir;
  const std::string manifest = dir.file("manifest");
  const std::string first = dir.file("a");
  const std::string second = dir.file("b");
  const std::array<const char*, 2> targets{first.c_str(), second.c_str()};
  iow_write_stream_options small{};
  small.buffer_bytes = kBlock;
  small.budget_bytes = 2 * kBlock;
  iow_write_stream* stream = nullptr;
  iow_spread* spread = nullptr;
  ASSERT_EQ(iow_write_stream_open(service, &stream, &small, nullptr), 0);
  ASSERT_EQ(
      iow_spread_create(stream, &spread, manifest.c_str(), targets.data(), 2, nullptr, nullptr), 0);
  std::array<uint64_t, kTasks> items{};
  for (unsigned task = 0; task < kTasks; ++task) {
    workers->spawn([&, task] {
      const std::vector<std::byte> content = pattern(task, 1000);
      EXPECT_EQ(iow_spread_copy(spread, content.data(), content.size(), &items[task]), 0);
    });
  }
  workers->wait();
  int ended = 1;
  workers->spawn([&] { ended = iow_spread_end(spread, 1, nullptr); });
  workers->wait();
  EXPECT_EQ(ended, 0);
  iow_read_stream_options one_buffer{};
  one_buffer.budget_bytes = kBlock;
  iow_read_stream* results = nullptr;
  ASSERT_EQ(iow_read_stream_open(service, &results, manifest.c_str(), &one_buffer, nullptr), 0);
  std::array<std::atomic<unsigned>, kTasks> found{};
  for (unsigned task = 0; task < kTasks; ++task) {
    workers->spawn([&] {
      iow_read_lease lease{};
      EXPECT_EQ(iow_read_stream_next(results, &lease, -1), 1);
      const auto at = std::find(items.begin(), items.end(), lease.item) - items.begin();
      const std::vector<std::byte> wanted = pattern(static_cast<uint64_t>(at), 1000);
      found[lease.item] += lease.bytes == 1000 && std::equal(wanted.begin(), wanted.end(),
                                                             static_cast<std::byte*>(lease.data));
      iow_read_lease_end(&lease);
    });
  }
  workers->wait();
  for (const auto& times : found) {
    EXPECT_EQ(times, 1u);
  }
  int closed = 1;
  workers->spawn([&] { closed = iow_read_stream_close(results); });
  workers->wait();
  EXPECT_EQ(closed, 0);
  EXPECT_EQ(iow_write_stream_close(stream, 0, nullptr), 0);
}

/// oneTBB's tasks may not go on on another thread between iow_task_begin() and iow_task_end(), and
/// its workers cannot run others in a task that waits.
TEST_P(BlockingInTask, ATaskThatCanNeitherPauseNorLetOthersRunIsNotAdmittedLater) {
  open(1);
  const uint32_t flow = flow_of_one_at_once(service);
  const int64_t held = iow_admit(service, flow, 1);
  std::atomic<bool> answered{false};
  int64_t operation = 0;
  workers->spawn([&] {
    EXPECT_EQ(iow_task_begin(
                  service, [](void*) {}, nullptr),
              0);
    operation = iow_admit(service, flow, 1);
    EXPECT_EQ(iow_task_end(service), 0);
    answered = true;
  });
  while (!answered && stats().paused == 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(answered, GetParam() == HostUnderTest::tbb);
  EXPECT_EQ(iow_finish(service, held, 1), 0);
  workers->wait();
  if (GetParam() == HostUnderTest::tbb) {
    EXPECT_EQ(operation, -EAGAIN);
  } else {
    EXPECT_EQ(iow_finish(service, operation, 1), 0);
  }
}

TEST_P(BlockingInTask, ATaskThatCanNeitherPauseNorLetOthersRunGetsNoItemLater) {
  open(1);
  const TempFile file(kBlock);
  const char* const path = file.path().c_str();
  iow_read_stream_options options{};
  options.buffer_bytes = kBlock;
  options.flow = flow_of_one_at_once(service);
  const int64_t held = iow_admit(service, options.flow, 1);
  iow_read_stream* stream = nullptr;
  ASSERT_EQ(iow_read_stream_open_files(service, &stream, &path, 1, &options, nullptr), 0);
  std::atomic<bool> answered{false};
  iow_read_lease lease{};
  int result = 0;
  workers->spawn([&] {
    EXPECT_EQ(iow_task_begin(
                  service, [](void*) {}, nullptr),
              0);
    result = iow_read_stream_next(stream, &lease, -1);
    EXPECT_EQ(iow_task_end(service), 0);
    answered = true;
  });
  while (!answered && stats().paused == 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(answered, GetParam() == HostUnderTest::tbb);
  EXPECT_EQ(iow_finish(service, held, 1), 0);
  workers->wait();
  if (GetParam() == HostUnderTest::tbb) {
    EXPECT_EQ(result, -EAGAIN);
    EXPECT_EQ(iow_read_stream_next(stream, &lease, -1), 1) << "it is the next one still";
  } else {
    EXPECT_EQ(result, 1);
  }
  iow_read_lease_end(&lease);
  EXPECT_EQ(iow_read_stream_close(stream), 0);
}

TEST_P(BoundToTask, OutsideOneNothingStarts) {
  open(2);
  const TempFile file(kFileBytes);
  std::array<std::byte, 100> buffer{};
  iovec vector{buffer.data(), buffer.size()};
  ssize_t result = 4711;
  const auto use = [&] {
    EXPECT_EQ(iow_ta_pread(service, file.fd(), buffer.data(), 100, 0, &result), -ESRCH);
    EXPECT_EQ(result, -ESRCH);
    EXPECT_EQ(iow_ta_pwrite(service, file.fd(), buffer.data(), 100, 0, &result), -ESRCH);
    EXPECT_EQ(iow_ta_preadv(service, file.fd(), &vector, 1, 0, &result), -ESRCH);
    EXPECT_EQ(iow_ta_pwritev(service, file.fd(), &vector, 1, 0, &result), -ESRCH);
    EXPECT_EQ(iow_ta_fsync(service, file.fd(), &result), -ESRCH);
    EXPECT_EQ(iow_ta_fdatasync(service, file.fd(), &result), -ESRCH);
    EXPECT_EQ(iow_task_end(service), -ESRCH);
  };
  use();
  std::thread(use).join();
  EXPECT_EQ(buffer, (std::array<std::byte, 100>{}));
  EXPECT_EQ(stats().bound, 0u);
  EXPECT_EQ(stats().at_once, 0u);
}

TEST_P(BoundToTask, TheServiceNamesItsHost) {
  open(1);
  const char* why = nullptr;
  const std::string name = iow_service_tasks(service, &why);
#ifdef IOWEAVE_TEST_REAL_ALPI
  EXPECT_EQ(name.substr(0, 7), "ALPI 1.") << name;
#else
  EXPECT_EQ(name, is_alpi(GetParam())                ? "ALPI 1.2 (ALPI test provider 1)"
                  : GetParam() == HostUnderTest::tbb ? "oneTBB"
                                                     : "none");
#endif
  EXPECT_STREQ(why, "");
  EXPECT_EQ(iow_service_tasks(service, nullptr), name);
}

// ---- Blocking calls

TEST_P(BlockingInTask, EachReadGetsItsOwnData) {
  open(2);
  const DirectFile file;
  SKIP_WITHOUT_DIRECT(file);
  for (unsigned task = 0; task < kTasks; ++task) {
    workers->spawn([&, task] {
      std::mt19937 random(task);
      const Aligned buffer(2 * kBlock);
      for (unsigned i = 0; i < kReads; ++i) {
        const size_t block = random() % (kFileBytes / kBlock - 1);
        ASSERT_EQ(iow_pread(service, file.fd(), buffer.data(), 2 * kBlock, offset_of(block)),
                  static_cast<ssize_t>(2 * kBlock));
        ASSERT_EQ(buffer.first(2 * kBlock), pattern(block * kBlock, 2 * kBlock));
      }
    });
  }
  workers->wait();
  EXPECT_EQ(waits(), kTasks * kReads);
  EXPECT_EQ(stats().at_once, 0u);
  EXPECT_EQ(stats().made_plain, 0u);
  EXPECT_EQ(stats().paused, 0u);
  EXPECT_GE(stats().most_paused, 1u);
}

TEST_P(BlockingInTask, WhatWasWrittenAndSyncedIsInTheFile) {
  open(2);
  const DirectFile file;
  SKIP_WITHOUT_DIRECT(file);
  for (unsigned task = 0; task < kTasks; ++task) {
    workers->spawn([&, task] {
      const Aligned buffer(kBlock);
      const std::vector<std::byte> content = pattern(kFileBytes + task * kBlock, kBlock);
      std::copy(content.begin(), content.end(), buffer.data());
      ASSERT_EQ(iow_pwrite(service, file.fd(), buffer.data(), kBlock, offset_of(task)),
                static_cast<ssize_t>(kBlock));
      ASSERT_EQ(iow_fdatasync(service, file.fd()), 0);
      ASSERT_EQ(iow_fsync(service, file.fd()), 0);
    });
  }
  workers->wait();
  EXPECT_EQ(waits(), 3 * kTasks);
  const int cached = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<std::byte> found(kTasks * kBlock);
  EXPECT_EQ(::pread(cached, found.data(), found.size(), 0), static_cast<ssize_t>(found.size()));
  EXPECT_EQ(found, pattern(kFileBytes, found.size()));
  ::close(cached);
}

/// Writes that make the file longer, each by a task, in whatever order they come.
void check_growing_file(Workers& workers, iow_service* service, bool bound) {
  const DirectFile direct(0);
  SKIP_WITHOUT_DIRECT(direct);
  constexpr unsigned kBlocks = 60;
  std::vector<Aligned> buffers;
  std::vector<ssize_t> results(kBlocks, 4711);
  for (unsigned block = 0; block < kBlocks; ++block) {
    buffers.emplace_back(kBlock);
    const auto bytes = pattern(block * kBlock, kBlock);
    std::copy(bytes.begin(), bytes.end(), buffers.back().data());
  }
  for (unsigned block = 0; block < kBlocks; ++block) {
    workers.spawn_bound(
        [&, block] {
          std::byte* const from = buffers[block].data();
          if (bound) {
            EXPECT_EQ(iow_ta_pwrite(service, direct.fd(), from, kBlock, offset_of(block),
                                    &results[block]),
                      0);
          } else {
            results[block] = iow_pwrite(service, direct.fd(), from, kBlock, offset_of(block));
          }
        },
        [] {});
  }
  workers.wait();
  for (const ssize_t result : results) {
    EXPECT_EQ(result, ssize_t{kBlock});
  }
  std::vector<std::byte> content(kBlocks * kBlock + 1);
  const int plain = ::open(direct.path().c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(::pread(plain, content.data(), content.size(), 0),
            static_cast<ssize_t>(kBlocks * kBlock));
  ::close(plain);
  content.pop_back();
  EXPECT_EQ(content, pattern(0, kBlocks * kBlock));
}

TEST_P(BlockingInTask, WritesThatMakeTheFileLongerArriveWhole) {
  open(2);
  check_growing_file(*workers, service, false);
}

TEST_P(BoundToTask, WritesThatMakeTheFileLongerArriveWhole) {
  open(2);
  check_growing_file(*workers, service, true);
}

TEST_P(BlockingInTask, VectorsGoBothWays) {
  open(2);
  const DirectFile direct;
  SKIP_WITHOUT_DIRECT(direct);
  const TempFile cached(kFileBytes);
  for (const int fd : {direct.fd(), cached.fd()}) {
    workers->spawn([this, fd] {
      const Aligned first(kBlock);
      const Aligned second(2 * kBlock);
      const std::array<iovec, 3> vectors{
          {{first.data(), kBlock}, {nullptr, 0}, {second.data(), 2 * kBlock}}};
      ASSERT_EQ(iow_preadv(service, fd, vectors.data(), 3, offset_of(5)),
                static_cast<ssize_t>(3 * kBlock));
      ASSERT_EQ(first.first(kBlock), pattern(5 * kBlock, kBlock));
      ASSERT_EQ(second.first(2 * kBlock), pattern(6 * kBlock, 2 * kBlock));
      ASSERT_EQ(iow_pwritev(service, fd, vectors.data(), 3, offset_of(100)),
                static_cast<ssize_t>(3 * kBlock));
      ASSERT_EQ(iow_pread(service, fd, second.data(), kBlock, offset_of(102)),
                static_cast<ssize_t>(kBlock));
      ASSERT_EQ(second.first(kBlock), pattern(7 * kBlock, kBlock));
    });
  }
  workers->wait();
}

TEST_P(BlockingInTask, WhatThePageCacheHoldsIsReadAtOnce) {
  open(2);
  const TempFile file(kFileBytes);
  for (unsigned task = 0; task < kTasks; ++task) {
    workers->spawn([&, task] {
      std::vector<std::byte> buffer(1000);
      for (unsigned i = 0; i < kReads; ++i) {
        const off_t offset = off_t{task} * 1000 + i;
        ASSERT_EQ(iow_pread(service, file.fd(), buffer.data(), 1000, offset), 1000);
        ASSERT_EQ(buffer, pattern(static_cast<uint64_t>(offset), 1000));
      }
    });
  }
  workers->wait();
  EXPECT_EQ(stats().pauses, 0u);
  EXPECT_EQ(stats().at_once, kTasks * kReads);
}

TEST_P(BlockingInTask, WritesIntoThePageCacheNeedNoPause) {
  open(2);
  const TempFile file;
  for (unsigned task = 0; task < kTasks; ++task) {
    workers->spawn([&, task] {
      const std::vector<std::byte> content = pattern(task * 1000, 1000);
      ASSERT_EQ(iow_pwrite(service, file.fd(), content.data(), 1000, task * 1000), 1000);
    });
  }
  workers->wait();
  // One that was slow, on a busy machine, sends the next 64 the asynchronous way.
  EXPECT_GE(stats().at_once, 1u);
  EXPECT_EQ(stats().at_once + waits(), kTasks);
  std::vector<std::byte> found(kTasks * 1000);
  ASSERT_EQ(::pread(file.fd(), found.data(), found.size(), 0), static_cast<ssize_t>(found.size()));
  EXPECT_EQ(found, pattern(0, found.size()));
}

TEST_P(BlockingInTask, ErrnoIsLeftAlone) {
  open(2);
  const DirectFile direct;
  SKIP_WITHOUT_DIRECT(direct);
  const TempFile cached(kFileBytes);
  workers->spawn([&] {
    const Aligned buffer(kBlock);
    for (const int fd : {direct.fd(), cached.fd(), -1}) {
      for (int i = 0; i < 20; ++i) {
        set_errno(EXDEV);
        static_cast<void>(iow_pread(service, fd, buffer.data(), kBlock, 0));
        ASSERT_EQ(get_errno(), EXDEV);
        static_cast<void>(iow_pwrite(service, fd, buffer.data(), kBlock, 0));
        ASSERT_EQ(get_errno(), EXDEV);
      }
      static_cast<void>(iow_fsync(service, fd));
      ASSERT_EQ(get_errno(), EXDEV);
    }
  });
  workers->wait();
}

// ---- The results of the system call

/// Descriptors that each refuse something else.
struct Descriptors {
  TempFile file{3 * kBlock + 100};
  int direct = ::open(file.path().c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
  int read_only = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
  int write_only = ::open(file.path().c_str(), O_WRONLY | O_CLOEXEC);
  int directory = ::open(file.dir().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int path_only = ::open(file.path().c_str(), O_PATH | O_CLOEXEC);
  int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  int null_sync = ::open("/dev/null", O_RDWR | O_SYNC | O_CLOEXEC);
  int event = ::eventfd(1, EFD_CLOEXEC);
  // Only root has it as a rule. It takes positions, though it does not seek.
  int fuse = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  std::array<int, 2> pipe{-1, -1};
  std::array<int, 2> direct_pipe{-1, -1};
  std::array<int, 2> socket{-1, -1};

  Descriptors() {
    EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(direct_pipe.data(), O_CLOEXEC | O_DIRECT), 0);
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socket.data()), 0);
    for (const int end : {pipe[1], direct_pipe[1], socket[1]}) {
      EXPECT_EQ(::write(end, "data", 4), 4);
    }
  }
  ~Descriptors() {
    for (const auto& [name, fd] : all()) {
      if (fd >= 0 && fd != file.fd()) {
        ::close(fd);
      }
    }
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  [[nodiscard]] std::vector<std::pair<std::string, int>> all() const {
    return {{"file", file.fd()},
            {"direct", direct},
            {"read_only", read_only},
            {"write_only", write_only},
            {"directory", directory},
            {"path_only", path_only},
            {"null", null},
            {"null_sync", null_sync},
            {"event", event},
            {"/dev/fuse", fuse},
            {"pipe to read", pipe[0]},
            {"pipe to write", pipe[1]},
            {"O_DIRECT pipe to read", direct_pipe[0]},
            {"O_DIRECT pipe to write", direct_pipe[1]},
            {"socket", socket[0]},
            {"other socket", socket[1]},
            {"none", -1}};
  }
};

struct CallUnderTest {
  std::string name;
  std::function<ssize_t(int fd)> plain;
  std::function<ssize_t(iow_service*, int fd)> blocking;
  std::function<int(iow_service*, int fd, ssize_t*)> bound;
};

/// All calls at one place of the file.
void add_calls(std::vector<CallUnderTest>& calls, const std::string& where, std::byte* buffer,
               size_t bytes, off_t offset) {
  calls.push_back({"pread " + where, [=](int fd) { return ::pread(fd, buffer, bytes, offset); },
                   [=](iow_service* s, int fd) { return iow_pread(s, fd, buffer, bytes, offset); },
                   [=](iow_service* s, int fd, ssize_t* result) {
                     return iow_ta_pread(s, fd, buffer, bytes, offset, result);
                   }});
  calls.push_back({"pwrite " + where, [=](int fd) { return ::pwrite(fd, buffer, bytes, offset); },
                   [=](iow_service* s, int fd) { return iow_pwrite(s, fd, buffer, bytes, offset); },
                   [=](iow_service* s, int fd, ssize_t* result) {
                     return iow_ta_pwrite(s, fd, buffer, bytes, offset, result);
                   }});
  calls.push_back({"preadv " + where,
                   [=](int fd) {
                     const iovec vector{buffer, bytes};
                     return ::preadv(fd, &vector, 1, offset);
                   },
                   [=](iow_service* s, int fd) {
                     const iovec vector{buffer, bytes};
                     return iow_preadv(s, fd, &vector, 1, offset);
                   },
                   [=](iow_service* s, int fd, ssize_t* result) {
                     const iovec vector{buffer, bytes};
                     return iow_ta_preadv(s, fd, &vector, 1, offset, result);
                   }});
  calls.push_back({"pwritev " + where,
                   [=](int fd) {
                     const iovec vector{buffer, bytes};
                     return ::pwritev(fd, &vector, 1, offset);
                   },
                   [=](iow_service* s, int fd) {
                     const iovec vector{buffer, bytes};
                     return iow_pwritev(s, fd, &vector, 1, offset);
                   },
                   [=](iow_service* s, int fd, ssize_t* result) {
                     const iovec vector{buffer, bytes};
                     return iow_ta_pwritev(s, fd, &vector, 1, offset, result);
                   }});
}

/// Writes repeat what is there, so that the order of the calls does not matter.
std::vector<CallUnderTest> all_calls(std::byte* buffer) {
  std::vector<CallUnderTest> calls;
  add_calls(calls, "of a block", buffer, kBlock, 0);
  add_calls(calls, "of nothing", buffer, 0, 0);
  add_calls(calls, "out of alignment", buffer + 1, 100, 1);
  add_calls(calls, "of no memory", nullptr, kBlock, 0);
  add_calls(calls, "before the file", buffer, kBlock, -1);
  add_calls(calls, "at the end of offsets", buffer, kBlock, INT64_MAX - 100);
  add_calls(calls, "beyond the largest file", buffer, kBlock, INT64_MAX - 2 * offset_of(1) + 1);
  calls.push_back({"fsync", [](int fd) { return ::fsync(fd); }, iow_fsync, iow_ta_fsync});
  calls.push_back(
      {"fdatasync", [](int fd) { return ::fdatasync(fd); }, iow_fdatasync, iow_ta_fdatasync});
  return calls;
}

ssize_t or_errno(ssize_t result) {
  return result < 0 ? -errno : result;
}

TEST_P(BlockingInTask, ResultsAreThoseOfTheSystemCall) {
  open(2);
  const Descriptors descriptors;
  SKIP_WITHOUT_DIRECT(descriptors.file);
  const Aligned buffer(2 * kBlock);
  const std::vector<std::byte> content = pattern(0, 2 * kBlock);
  std::copy(content.begin(), content.end(), buffer.data());
  for (const CallUnderTest& call : all_calls(buffer.data())) {
    for (const auto& [name, fd] : descriptors.all()) {
      const ssize_t expected = or_errno(call.plain(fd));
      workers->spawn([this, &call, name = name, fd = fd, expected] {
        EXPECT_EQ(call.blocking(service, fd), expected) << call.name << ", " << name;
      });
      workers->wait();
    }
  }
  // Nothing was taken out of a stream, nor put into one.
  std::array<char, 16> left{};
  EXPECT_EQ(::read(descriptors.pipe[0], left.data(), left.size()), 4);
  EXPECT_EQ(::read(descriptors.direct_pipe[0], left.data(), left.size()), 4);
  EXPECT_EQ(::read(descriptors.socket[0], left.data(), left.size()), 4);
}

TEST_P(BoundToTask, ResultsAreThoseOfTheSystemCall) {
  open(2);
  const Descriptors descriptors;
  SKIP_WITHOUT_DIRECT(descriptors.file);
  const Aligned buffer(2 * kBlock);
  const std::vector<std::byte> content = pattern(0, 2 * kBlock);
  std::copy(content.begin(), content.end(), buffer.data());
  for (const CallUnderTest& call : all_calls(buffer.data())) {
    for (const auto& [name, fd] : descriptors.all()) {
      const ssize_t expected = or_errno(call.plain(fd));
      ssize_t result = 4711;
      int refused = 0;
      workers->spawn_bound(
          [this, &call, fd = fd, &result, &refused] { refused = call.bound(service, fd, &result); },
          [&] {
            EXPECT_EQ(refused == 0 ? result : refused, expected) << call.name << ", " << name;
          });
      workers->wait();
    }
  }
  std::array<char, 16> left{};
  EXPECT_EQ(::read(descriptors.pipe[0], left.data(), left.size()), 4);
  EXPECT_EQ(::read(descriptors.direct_pipe[0], left.data(), left.size()), 4);
  EXPECT_EQ(::read(descriptors.socket[0], left.data(), left.size()), 4);
}

TEST_P(BlockingInTask, ReadsEndWithTheFile) {
  open(2);
  const DirectFile file(3 * kBlock + 100);
  SKIP_WITHOUT_DIRECT(file);
  const int cached = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
  for (const int fd : {file.fd(), cached}) {
    workers->spawn([this, fd] {
      const Aligned buffer(4 * kBlock);
      EXPECT_EQ(iow_pread(service, fd, buffer.data(), 4 * kBlock, offset_of(2)),
                static_cast<ssize_t>(kBlock + 100));
      EXPECT_EQ(buffer.first(kBlock + 100), pattern(2 * kBlock, kBlock + 100));
      EXPECT_EQ(iow_pread(service, fd, buffer.data(), kBlock, offset_of(4)), 0);
      EXPECT_EQ(iow_pread(service, fd, buffer.data(), kBlock, offset_of(400)), 0);
      const std::array<iovec, 2> vectors{
          {{buffer.data(), kBlock}, {buffer.data() + kBlock, kBlock}}};
      EXPECT_EQ(iow_preadv(service, fd, vectors.data(), 2, offset_of(3)), 100);
    });
  }
  workers->wait();
  ::close(cached);
}

TEST_P(BlockingInTask, VectorsOutOfRangeAreRefused) {
  open(1);
  const TempFile file(kFileBytes);
  workers->spawn([&] {
    std::array<std::byte, 10> buffer{};
    const std::vector<iovec> many(IOV_MAX + 1, iovec{buffer.data(), 1});
    EXPECT_EQ(iow_preadv(service, file.fd(), many.data(), IOV_MAX, 0), IOV_MAX);
    EXPECT_EQ(iow_preadv(service, file.fd(), many.data(), IOV_MAX + 1, 0), -EINVAL);
    EXPECT_EQ(iow_preadv(service, file.fd(), many.data(), -1, 0), -EINVAL);
    EXPECT_EQ(iow_preadv(service, file.fd(), nullptr, 1, 0), -EINVAL);
    EXPECT_EQ(iow_preadv(service, file.fd(), nullptr, 0, 0), 0);
    const std::array<iovec, 2> vast{{{buffer.data(), SSIZE_MAX}, {buffer.data(), 1}}};
    EXPECT_EQ(iow_preadv(service, file.fd(), vast.data(), 2, 0), -EINVAL);
  });
  workers->wait();
}

// ---- A thread that is to be cancelled

/// Opening looks at what room there is for paused tasks, in files of /proc.
TEST_P(BlockingInTask, OpeningAndClosingAServiceWithTasksIsNoCancellationPoint) {
  struct Opening {
    iow_options options;
    iow_service* service = nullptr;
    int error = -1;
    bool has_closed = false;
  } opening{options_for(GetParam())};
  const auto workers_loaded = make_workers(GetParam(), 1);
  // Without variables on its stack: AddressSanitizer does not see that a cancelled thread drops it.
  const auto main = [](void* user) -> void* {
    auto& mine = *static_cast<Opening*>(user);
    pthread_cancel(pthread_self());
    mine.error = iow_service_open(&mine.service, &mine.options, nullptr);
    iow_service_close(mine.service);
    mine.has_closed = true;
    pthread_testcancel();
    return nullptr;
  };
  pthread_t thread{};
  ASSERT_EQ(pthread_create(&thread, nullptr, main, &opening), 0);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  EXPECT_EQ(opening.error, 0);
  EXPECT_TRUE(opening.has_closed);
}

// ---- The task that reaps

#ifndef IOWEAVE_TEST_REAL_ALPI  // which does not tell how long its tasks wait
class PollingTask : public TaskService {
 protected:
  /// Until the runtime's tasks have begun so many more waits.
  static void await_waits(uint64_t more) {
    const uint64_t enough = AlpiRuntime::stats().waits + more;
    while (AlpiRuntime::stats().waits < enough) {
      std::this_thread::yield();
    }
  }
  int submit(iow_request& request) {
    iow_request* const one = &request;
    return iow_submit(service, &one, 1);
  }
};
INSTANTIATE_TEST_SUITE_P(, PollingTask, ::testing::Values(HostUnderTest::alpi_task),
                         [](const auto& host) { return name_of(host.param); });

TEST_P(PollingTask, WaitsBetweenItsPollsAsShortAndAsLongAsTheOptionsSay) {
  struct Given {
    uint32_t min_us, max_us;
    uint64_t shortest_ns, longest_ns;
  };
  for (const Given& given : {Given{77, 77, 77'000, 77'000}, Given{0, 0, 20'000, 1'000'000},
                             Given{50, 130, 50'000, 130'000}, Given{0, 30, 20'000, 30'000},
                             Given{2000, 0, 2'000'000, 2'000'000}}) {
    SCOPED_TRACE(std::to_string(given.min_us) + " to " + std::to_string(given.max_us));
    iow_options options = options_for(GetParam());
    options.poll_min_us = given.min_us;
    options.poll_max_us = given.max_us;
    open(1, options);
    std::atomic<int> ended{0};
    std::array<Gate, 2> gates;
    std::array<iow_request, 2> requests;
    for (size_t i = 0; i < 2; ++i) {
      requests.at(i) = gates.at(i).wait_for_byte();
      requests.at(i).callback = [](iow_request*, void* user) {
        ++*static_cast<std::atomic<int>*>(user);
      };
      requests.at(i).user = &ended;
      ASSERT_EQ(submit(requests.at(i)), 1);
    }
    await_waits(12);  // it finds nothing: by then it waits as long as it may
    EXPECT_EQ(AlpiRuntime::stats().longest_wait_ns, given.longest_ns);
    gates[0].open();
    while (ended < 1) {
      std::this_thread::yield();
    }
    await_waits(1);  // behind one that followed a find
    EXPECT_EQ(AlpiRuntime::stats().shortest_wait_ns, given.shortest_ns);
    gates[1].open();
    while (ended < 2) {
      std::this_thread::yield();
    }
    AlpiRuntime::wait_idle();
    EXPECT_EQ(AlpiRuntime::stats().longest_wait_ns, given.longest_ns);
    close();
    workers.reset();
  }
}
#endif

// ---- Many tasks, few workers

TEST_P(BlockingInTask, BeyondTheMostPausedCallsArePlain) {
  for (const unsigned most : {1u, 2u}) {
    iow_options options = options_for(GetParam());
    options.max_paused = most;
    open(2, options);
    const DirectFile file;
    SKIP_WITHOUT_DIRECT(file);
    for (unsigned task = 0; task < kTasks; ++task) {
      workers->spawn([&, task] {
        const Aligned buffer(kBlock);
        for (unsigned i = 0; i < kReads; ++i) {
          const size_t block = (task + i) % (kFileBytes / kBlock);
          ASSERT_EQ(iow_pread(service, file.fd(), buffer.data(), kBlock, offset_of(block)),
                    static_cast<ssize_t>(kBlock));
          ASSERT_EQ(buffer.first(kBlock), pattern(block * kBlock, kBlock));
        }
      });
    }
    workers->wait();
    EXPECT_LE(stats().most_paused, most);
    EXPECT_GE(waits(), 1u);
    EXPECT_EQ(waits() + stats().made_plain, kTasks * kReads);
    EXPECT_EQ(stats().paused, 0u);
    const char* why = nullptr;
    iow_service_tasks(service, &why);
    EXPECT_EQ(std::string(why).find("more than " + std::to_string(most) + " tasks") == 0,
              stats().made_plain > 0)
        << why;
    close();
    workers.reset();
  }
}

TEST_P(BlockingInTask, OneWorkerRunsTasksThatWaitForTasks) {
  open(1);
  const DirectFile file;
  SKIP_WITHOUT_DIRECT(file);
  std::atomic<unsigned> leaves{0};
  const auto read_one = [&](size_t block) {
    const Aligned buffer(kBlock);
    ASSERT_EQ(iow_pread(service, file.fd(), buffer.data(), kBlock, offset_of(block)),
              static_cast<ssize_t>(kBlock));
    ASSERT_EQ(buffer.first(kBlock), pattern(block * kBlock, kBlock));
  };
  for (unsigned task = 0; task < 4; ++task) {
    workers->spawn([&, task] {
      read_one(task);
      std::vector<Workers::Body> children;
      for (unsigned child = 0; child < 5; ++child) {
        children.emplace_back([&, child] {
          read_one(10 + child);
          ++leaves;
        });
      }
      workers->fork_join(std::move(children));
      read_one(task + 1);
    });
  }
  workers->wait();
  EXPECT_EQ(leaves, 20u);
  EXPECT_EQ(waits(), 4u * 7);
}

TEST_P(BlockingInTask, OneTaskPausesHundredsOfTimes) {
  open(1);
  const DirectFile file;
  SKIP_WITHOUT_DIRECT(file);
  workers->spawn([&] {
    const Aligned buffer(kBlock);
    for (size_t i = 0; i < 500; ++i) {
      const size_t block = i % (kFileBytes / kBlock);
      ASSERT_EQ(iow_pread(service, file.fd(), buffer.data(), kBlock, offset_of(block)),
                static_cast<ssize_t>(kBlock));
      ASSERT_EQ(buffer.first(kBlock), pattern(block * kBlock, kBlock));
    }
  });
  workers->wait();
  EXPECT_EQ(waits(), 500u);
  EXPECT_EQ(stats().most_paused, 1u);
}

TEST_P(BlockingInTask, ARingOfOneServesAThousandTasks) {
  iow_options options = options_for(GetParam());
  options.queue_depth = 1;
  open(2, options);
  const DirectFile file;
  SKIP_WITHOUT_DIRECT(file);
  constexpr unsigned kMany = kTasks * 16;
  for (unsigned task = 0; task < kMany; ++task) {
    workers->spawn([&, task] {
      const Aligned buffer(kBlock);
      const size_t block = task % (kFileBytes / kBlock);
      ASSERT_EQ(iow_pread(service, file.fd(), buffer.data(), kBlock, offset_of(block)),
                static_cast<ssize_t>(kBlock));
      ASSERT_EQ(buffer.first(kBlock), pattern(block * kBlock, kBlock));
    });
  }
  workers->wait();
  EXPECT_EQ(waits() + stats().made_plain, kMany);
}

// What a flow may hold back, and what completes by callback, goes to who reaps for tasks. That may
// be a task itself, which needs the very worker that waits.
TEST_P(BlockingInTask, TheOnlyWorkerMayWaitForRequests) {
  open(1);
  const DirectFile file;
  SKIP_WITHOUT_DIRECT(file);
  static std::atomic<unsigned> called;
  called = 0;
  workers->spawn([&] {
    iow_flow_options one_at_a_time{};
    one_at_a_time.max_in_flight = 1;
    const int flow = iow_flow_create(service, "one at a time", &one_at_a_time, nullptr);
    ASSERT_GT(flow, 0);
    const Aligned buffer(4 * kBlock);
    std::array<iow_request, 4> requests{};
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].op = IOW_OP_READ;
      requests[i].fd = file.fd();
      requests[i].buffer = buffer.data() + i * kBlock;
      requests[i].bytes = kBlock;
      requests[i].offset = offset_of(i);
      requests[i].flow = static_cast<uint32_t>(flow);
      if (i >= 2) {
        requests[i].flags = IOW_CALLBACK_ON_POLL;
        requests[i].callback = [](iow_request*, void*) { ++called; };
      }
    }
    const auto submit = [&](size_t i) {
      iow_request* const one = &requests[i];
      ASSERT_EQ(iow_submit(service, &one, 1), 1);
    };
    for (size_t i = 0; i < 3; ++i) {
      submit(i);
    }
    EXPECT_EQ(iow_wait(service, &requests[0], -1), 0);
    EXPECT_EQ(iow_wait(service, &requests[1], -1), 0);
    while (called == 0) {
      EXPECT_GE(iow_poll(service, 1, -1), 0);
    }
    submit(3);
    close();
    EXPECT_EQ(called, 2u);
    EXPECT_EQ(buffer.first(4 * kBlock), pattern(0, 4 * kBlock));
  });
  workers->wait();
}

TEST_P(BlockingInTask, ATaskMayCloseTheService) {
  open(1);
  const DirectFile file;
  SKIP_WITHOUT_DIRECT(file);
  workers->spawn([&] {
    const Aligned buffer(kBlock);
    for (size_t block = 0; block < 10; ++block) {
      ASSERT_EQ(iow_pread(service, file.fd(), buffer.data(), kBlock, offset_of(block)),
                static_cast<ssize_t>(kBlock));
    }
    close();
  });
  workers->wait();
  EXPECT_EQ(service, nullptr);
}

TEST_P(BoundToTask, ATaskMayCloseTheServiceWhileTransfersArePending) {
  open(1);
  const DirectFile file;
  SKIP_WITHOUT_DIRECT(file);
  constexpr size_t kPending = 50;
  const Aligned buffer(kPending * kBlock);
  std::array<ssize_t, kPending> results{};
  std::atomic<bool> all_bound{false};
  std::atomic<bool> successor{false};
  workers->spawn_bound(
      [&] {
        for (size_t i = 0; i < kPending; ++i) {
          ASSERT_EQ(iow_ta_pread(service, file.fd(), buffer.data() + i * kBlock, kBlock,
                                 offset_of(i), &results[i]),
                    0);
        }
        all_bound = true;
      },
      [&] { successor = true; });
  const auto close_it = [&] {
    while (!all_bound) {  // with one worker they are
      std::this_thread::yield();
    }
    close();
    EXPECT_TRUE(std::all_of(results.begin(), results.end(),
                            [](ssize_t result) { return result == ssize_t{kBlock}; }));
  };
  if (is_alpi(GetParam())) {
    workers->spawn(close_it);
  } else {
    // The brackets of a closing task need the service: it closes in a task without.
    workers->wait();
    close_it();
  }
  workers->wait();
  EXPECT_TRUE(successor);
  EXPECT_EQ(buffer.first(kPending * kBlock), pattern(0, kPending * kBlock));
}

// ---- Bound transfers

TEST_P(BoundToTask, TheTaskEndsAfterAllItsTransfers) {
  open(2);
  const DirectFile file;
  SKIP_WITHOUT_DIRECT(file);
  constexpr size_t kEach = 8;
  struct OneTask {
    Aligned buffer{kEach * kBlock};
    std::array<ssize_t, kEach> results{};
    unsigned successors = 0;
  };
  std::vector<OneTask> tasks(kTasks);
  for (unsigned task = 0; task < kTasks; ++task) {
    workers->spawn_bound(
        [&, task] {
          OneTask& mine = tasks[task];
          for (size_t i = 0; i < kEach; ++i) {
            ASSERT_EQ(iow_ta_pread(service, file.fd(), mine.buffer.data() + i * kBlock, kBlock,
                                   offset_of(task + i), &mine.results[i]),
                      0);
          }
        },
        [&, task] {
          OneTask& mine = tasks[task];
          ++mine.successors;
          for (const ssize_t result : mine.results) {
            EXPECT_EQ(result, static_cast<ssize_t>(kBlock));
          }
          EXPECT_EQ(mine.buffer.first(kEach * kBlock), pattern(task * kBlock, kEach * kBlock));
        });
  }
  workers->wait();
  for (const OneTask& task : tasks) {
    EXPECT_EQ(task.successors, 1u);
  }
  EXPECT_EQ(stats().bound, kTasks * kEach);
  EXPECT_EQ(stats().bound_pending, 0u);
  EXPECT_EQ(stats().at_once, 0u);
  EXPECT_EQ(stats().pauses, 0u);
}

TEST_P(BoundToTask, WritesAndSyncsEndWithTheTask) {
  open(2);
  const DirectFile file;
  SKIP_WITHOUT_DIRECT(file);
  const Aligned content(4 * kBlock);
  const std::vector<std::byte> bytes = pattern(kFileBytes, 4 * kBlock);
  std::copy(bytes.begin(), bytes.end(), content.data());
  std::array<ssize_t, 4> results{};
  const std::array<iovec, 2> vectors{
      {{content.data() + kBlock, kBlock}, {content.data() + 2 * kBlock, 2 * kBlock}}};
  workers->spawn_bound(
      [&] {
        EXPECT_EQ(iow_ta_pwrite(service, file.fd(), content.data(), kBlock, 0, &results[0]), 0);
        EXPECT_EQ(iow_ta_pwritev(service, file.fd(), vectors.data(), 2, offset_of(1), &results[1]),
                  0);
        EXPECT_EQ(iow_ta_fsync(service, file.fd(), &results[2]), 0);
        EXPECT_EQ(iow_ta_fdatasync(service, file.fd(), &results[3]), 0);
      },
      [&] {
        EXPECT_EQ(results, (std::array<ssize_t, 4>{kBlock, 3 * kBlock, 0, 0}));
        const Aligned found(4 * kBlock);
        EXPECT_EQ(::pread(file.fd(), found.data(), 4 * kBlock, 0),
                  static_cast<ssize_t>(4 * kBlock));
        EXPECT_EQ(found.first(4 * kBlock), pattern(kFileBytes, 4 * kBlock));
      });
  workers->wait();
  EXPECT_EQ(stats().bound, 4u);
}

TEST_P(BoundToTask, VectorsMayGoWithTheBody) {
  open(2);
  const DirectFile file;
  SKIP_WITHOUT_DIRECT(file);
  struct OneTask {
    Aligned first{kBlock};
    Aligned second{2 * kBlock};
    ssize_t result = 0;
  };
  std::vector<OneTask> tasks(kTasks);
  for (unsigned task = 0; task < kTasks; ++task) {
    workers->spawn_bound(
        [&, task] {
          OneTask& mine = tasks[task];
          const auto vectors = std::make_unique<std::array<iovec, 2>>();
          (*vectors)[0] = {mine.first.data(), kBlock};
          (*vectors)[1] = {mine.second.data(), 2 * kBlock};
          ASSERT_EQ(
              iow_ta_preadv(service, file.fd(), vectors->data(), 2, offset_of(task), &mine.result),
              0);
          *vectors = {};  // whoever still reads it reads nothing
        },
        [&, task] {
          const OneTask& mine = tasks[task];
          EXPECT_EQ(mine.result, static_cast<ssize_t>(3 * kBlock));
          EXPECT_EQ(mine.first.first(kBlock), pattern(task * kBlock, kBlock));
          EXPECT_EQ(mine.second.first(2 * kBlock), pattern((task + 1) * kBlock, 2 * kBlock));
        });
  }
  workers->wait();
}

TEST_P(BoundToTask, WhatThePageCacheHoldsIsThereAtOnce) {
  open(1);
  const TempFile file(kFileBytes);
  std::vector<std::byte> buffer(1000);
  ssize_t result = 4711;
  workers->spawn_bound(
      [&] {
        set_errno(EXDEV);
        EXPECT_EQ(iow_ta_pread(service, file.fd(), buffer.data(), 1000, 77, &result), 0);
        EXPECT_EQ(get_errno(), EXDEV);
        EXPECT_EQ(result, 1000);
      },
      [] {});
  workers->wait();
  EXPECT_EQ(buffer, pattern(77, 1000));
  EXPECT_EQ(stats().bound, 0u);
  EXPECT_EQ(stats().at_once, 1u);
}

TEST_P(BoundToTask, WhatCannotBeStartedIsRefused) {
  open(1);
  const TempFile file(kFileBytes);
  std::array<std::byte, 10> buffer{};
  workers->spawn_bound(
      [&] {
        std::array<ssize_t, 4> results{};
        const iovec vector{buffer.data(), 10};
        EXPECT_EQ(iow_ta_pread(service, file.fd(), buffer.data(), 10, 0, nullptr), -EINVAL);
        EXPECT_EQ(iow_ta_pread(service, file.fd(), buffer.data(), 10, -1, &results[0]), -EINVAL);
        EXPECT_EQ(iow_ta_preadv(service, file.fd(), nullptr, 1, 0, &results[1]), -EINVAL);
        EXPECT_EQ(iow_ta_preadv(service, file.fd(), &vector, -1, 0, &results[2]), -EINVAL);
        EXPECT_EQ(iow_ta_pread(service, file.fd(), buffer.data(), SIZE_MAX, 0, &results[3]),
                  -EINVAL);
        EXPECT_EQ(results, (std::array<ssize_t, 4>{-EINVAL, -EINVAL, -EINVAL, -EINVAL}));
      },
      [] {});
  workers->wait();
  EXPECT_EQ(stats().bound, 0u);
}

TEST_P(BoundToTask, BlockingCallsMayComeBetween) {
  open(2);
  const DirectFile file;
  SKIP_WITHOUT_DIRECT(file);
  struct OneTask {
    Aligned bound{kBlock};
    ssize_t result = 0;
  };
  std::vector<OneTask> tasks(kTasks);
  for (unsigned task = 0; task < kTasks; ++task) {
    workers->spawn_bound(
        [&, task] {
          const Aligned blocking(kBlock);
          ASSERT_EQ(iow_ta_pread(service, file.fd(), tasks[task].bound.data(), kBlock,
                                 offset_of(task), &tasks[task].result),
                    0);
          ASSERT_EQ(iow_pread(service, file.fd(), blocking.data(), kBlock, offset_of(task + 1)),
                    static_cast<ssize_t>(kBlock));
          ASSERT_EQ(blocking.first(kBlock), pattern((task + 1) * kBlock, kBlock));
        },
        [&, task] {
          EXPECT_EQ(tasks[task].result, static_cast<ssize_t>(kBlock));
          EXPECT_EQ(tasks[task].bound.first(kBlock), pattern(task * kBlock, kBlock));
        });
  }
  workers->wait();
  // On oneTBB a paused task might go on elsewhere, and leave its iow_task_begin() behind.
  EXPECT_EQ(waits(), is_alpi(GetParam()) ? kTasks : 0u);
  EXPECT_EQ(stats().made_plain, GetParam() == HostUnderTest::tbb ? kTasks : 0u);
  EXPECT_EQ(stats().bound, kTasks);
}

// ---- A forked child

/// 0 if the child of a task does its I/O by itself.
int io_of_child(iow_service* service, int fd, bool bound) {
  const Aligned buffer(kBlock);
  if (iow_pread(service, fd, buffer.data(), kBlock, offset_of(2)) != ssize_t{kBlock} ||
      std::memcmp(buffer.data(), pattern(2 * kBlock, kBlock).data(), kBlock) != 0) {
    return 1;
  }
  ssize_t result = 4711;
  if (bound && (iow_ta_pread(service, fd, buffer.data(), kBlock, offset_of(9), &result) != 0 ||
                result != ssize_t{kBlock} ||
                std::memcmp(buffer.data(), pattern(9 * kBlock, kBlock).data(), kBlock) != 0)) {
    return 2;
  }
  iow_task_stats stats{};
  stats.size = sizeof stats;
  return iow_service_task_stats(service, &stats) == 0 && stats.pauses + stats.alone == 1 ? 0 : 3;
}

TEST_P(BlockingInTask, AForkedChildOfATaskIsOnItsOwn) {
  open(2);
  const DirectFile file;
  SKIP_WITHOUT_DIRECT(file);
  workers->spawn([&] {
    const Aligned buffer(kBlock);
    EXPECT_EQ(iow_pread(service, file.fd(), buffer.data(), kBlock, 0), ssize_t{kBlock});
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(io_of_child(service, file.fd(), is_alpi(GetParam())));
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_EQ(iow_pread(service, file.fd(), buffer.data(), kBlock, offset_of(1)), ssize_t{kBlock});
    EXPECT_EQ(buffer.first(kBlock), pattern(kBlock, kBlock));
  });
  workers->wait();
  EXPECT_EQ(waits(), 2u);
}

}  // namespace
}  // namespace ioweave::test
