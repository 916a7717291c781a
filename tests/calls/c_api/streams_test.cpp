// Write streams in C and C++: what reaches the files, who waits, who is told of an error.
#include "ioweave/streams.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <gmock/gmock.h>

#include "stream_support.hpp"
#include "support/child.hpp"
#include "support/small_filesystem.hpp"

namespace ioweave::test {
namespace {

iow_write_stream_stats stats_of(iow_write_stream* stream) {
  iow_write_stream_stats stats{};
  stats.size = sizeof stats;
  EXPECT_EQ(iow_write_stream_get_stats(stream, &stats), 0);
  return stats;
}

/// Every engine, each way to the device.
class Stream : public ::testing::TestWithParam<std::tuple<iow_engine, iow_write_path>> {
 protected:
  void SetUp() override {
    iow_options options{};
    options.engine = std::get<0>(GetParam());
    options.required = 1;
    std::string why;
    service = open_service(options, &why);
    if (service == nullptr) {
      GTEST_SKIP() << why;
    }
  }
  void TearDown() override { EXPECT_EQ(close(), expected_at_close); }

  void open(iow_write_stream_options options = small_stream()) {
    options.path = std::get<1>(GetParam());
    ErrorText text;
    ASSERT_EQ(iow_write_stream_open(service.get(), &stream, &options, text.out()), 0) << text.str();
  }
  int create(const std::string& name, const iow_write_file_options& options = {}) {
    ErrorText text;
    const int file = iow_write_stream_create(stream, path(name).c_str(), &options, text.out());
    EXPECT_GE(file, 0) << text.str();
    return file;
  }
  int close(bool durable = false) {
    return iow_write_stream_close(std::exchange(stream, nullptr), durable ? 1 : 0, nullptr);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return dir.file(name); }
  /// Appends so many bytes of the pattern through a lease.
  int append(int file, uint64_t at, uint64_t bytes) {
    iow_lease lease = lease_of(stream);
    fill(lease, at, bytes);
    return iow_lease_append(&lease, file, bytes);
  }

  void lease_all(std::span<iow_lease> leases) const {
    std::generate(leases.begin(), leases.end(), [this] { return lease_of(stream); });
  }
  static void end_all(std::span<iow_lease> leases) {
    for (iow_lease& lease : leases) {
      iow_lease_end(&lease);
    }
  }

  /// Writes where SmallFilesOnly forbids it: the result of the call.
  int fail(int file) {
    iow_lease lease = lease_of(stream);
    fill(lease, 0, kBuffer);
    return iow_lease_write(&lease, file, kBuffer, kTooFar);
  }
  /// What is told of a file that fail() was called for.
  [[nodiscard]] std::string told_of(const std::string& name) const {
    return "cannot write at offset 2097152 of '" + path(name) + "': File too large";
  }

  TempDir dir;
  OwnedService service;
  iow_write_stream* stream = nullptr;
  int expected_at_close = 0;
};
INSTANTIATE_TEST_SUITE_P(, Stream,
                         ::testing::Combine(every_engine(),
                                            ::testing::Values(IOW_PATH_AUTO, IOW_PATH_BUFFERED)),
                         [](const auto& test) {
                           return name_of({std::get<0>(test.param), 0}) +
                                  (std::get<1>(test.param) == IOW_PATH_AUTO ? "_auto"
                                                                            : "_buffered");
                         });

// ---- What reaches the file

TEST_P(Stream, LeasesOfAnySizeAreAppendedInTheOrderOfTheCalls) {
  open();
  const int file = create("result");
  uint64_t at = 0;
  for (const uint64_t bytes : {kBuffer, kBuffer, uint64_t{4096}, uint64_t{1}, uint64_t{0}, kBuffer,
                               uint64_t{5000}, uint64_t{8192}, kBuffer - 1, uint64_t{4095}}) {
    ASSERT_EQ(append(file, at, bytes), 0);
    at += bytes;
  }
  EXPECT_EQ(close(), 0);
  EXPECT_EQ(content_of(path("result")), pattern(0, at));
}

TEST_P(Stream, WritesAtAnyOffsetLeaveTheirNeighboursAlone) {
  open();
  const int file = create("result");
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  constexpr uint64_t kFile = 2 << 20;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (uint64_t at = 0; at < kFile;) {
    const uint64_t longest = std::min(kFile - at, random() % 3 == 0 ? kBuffer : uint64_t{9000});
    const uint64_t bytes = 1 + random() % longest;
    ranges.emplace_back(at, bytes);
    at += bytes;
  }
  std::shuffle(ranges.begin(), ranges.end(), random);
  for (const auto& [at, bytes] : ranges) {
    if (random() % 2 == 0) {
      iow_lease lease = lease_of(stream);
      fill(lease, at, bytes);
      ASSERT_EQ(iow_lease_write(&lease, file, bytes, static_cast<int64_t>(at)), 0);
      EXPECT_EQ(lease.data, nullptr);
    } else {
      const std::vector<std::byte> content = pattern(at, bytes);
      ASSERT_EQ(
          iow_write_stream_copy(stream, file, content.data(), bytes, static_cast<int64_t>(at)), 0);
    }
  }
  ASSERT_EQ(iow_write_stream_sync(stream, file), 0);
  EXPECT_EQ(content_of(path("result")), pattern(0, kFile));
  const iow_write_stream_stats stats = stats_of(stream);
  EXPECT_EQ(stats.written_bytes, kFile);
  EXPECT_EQ(stats.dropped_bytes, 0u);
  EXPECT_LE(stats.most_in_use, kBuffers);
  EXPECT_EQ(stats.syncs, 1u);
}

TEST_P(Stream, WholePagesGoPastThePageCacheWhereTheFileSystemAllowsIt) {
  const TempFile probe(4096, O_RDWR | O_DIRECT);
  if (probe.fd() < 0) {
    GTEST_SKIP() << "the file system of the temporary directory has no O_DIRECT";
  }
  open();
  const int file = create("result");
  ASSERT_EQ(append(file, 0, kBuffer), 0);
  ASSERT_EQ(append(file, kBuffer, 5000), 0);
  ASSERT_EQ(iow_write_stream_flush(stream, file), 0);
  const bool direct = std::get<1>(GetParam()) == IOW_PATH_AUTO;
  EXPECT_EQ(stats_of(stream).direct_bytes, direct ? kBuffer + 4096 : 0);
}

TEST_P(Stream, CopiesGoBackToWholePages) {
  const TempFile probe(4096, O_RDWR | O_DIRECT);
  if (probe.fd() < 0) {
    GTEST_SKIP() << "the file system of the temporary directory has no O_DIRECT";
  }
  open();
  const bool direct = std::get<1>(GetParam()) == IOW_PATH_AUTO;
  const std::vector<std::byte> content = pattern(0, 4 * kBuffer + 1);
  const int appended = create("appended");
  ASSERT_EQ(iow_write_stream_copy(stream, appended, content.data(), 1, -1), 0);
  ASSERT_EQ(iow_write_stream_copy(stream, appended, content.data() + 1, 4 * kBuffer, -1), 0);
  ASSERT_EQ(iow_write_stream_flush(stream, appended), 0);
  const uint64_t before = stats_of(stream).direct_bytes;
  EXPECT_EQ(before, direct ? 4 * kBuffer : 0);
  const int placed = create("placed");
  ASSERT_EQ(iow_write_stream_copy(stream, placed, content.data(), 4 * kBuffer, 100), 0);
  ASSERT_EQ(iow_write_stream_flush(stream, placed), 0);
  EXPECT_EQ(stats_of(stream).direct_bytes - before, direct ? 4 * kBuffer - 4096 : 0);
  EXPECT_EQ(content_of(path("appended")), content);
}

TEST_P(Stream, SmallCopiesAreGathered) {
  open();
  const int file = create("result");
  const std::vector<std::byte> content = pattern(0, 3 * kBuffer + 777);
  uint64_t at = 0;
  for (uint64_t piece = 1; at < content.size(); piece = piece * 7 % 1000 + 1) {
    const uint64_t bytes = std::min<uint64_t>(piece, content.size() - at);
    ASSERT_EQ(iow_write_stream_copy(stream, file, content.data() + at, bytes, -1), 0);
    at += bytes;
  }
  EXPECT_EQ(stats_of(stream).writes, 3u);
  ASSERT_EQ(iow_write_stream_flush(stream, IOW_ALL_FILES), 0);
  EXPECT_EQ(stats_of(stream).writes, 4u);
  EXPECT_EQ(content_of(path("result")), content);
}

TEST_P(Stream, ACopyMayBeLargerThanTheBudget) {
  open();
  const int file = create("result");
  const std::vector<std::byte> content = pattern(0, 20 * kBuffer + 13);
  ASSERT_EQ(iow_write_stream_copy(stream, file, content.data(), content.size(), 100), 0);
  EXPECT_EQ(close(true), 0);
  std::vector<std::byte> found = content_of(path("result"));
  ASSERT_EQ(found.size(), content.size() + 100);
  found.erase(found.begin(), found.begin() + 100);
  EXPECT_EQ(found, content);
}

/// Each would keep a buffer that it has begun to fill.
TEST_P(Stream, MoreFilesThanBuffersMayGather) {
  open();
  constexpr int kFiles = 3 * kBuffers;
  for (int i = 0; i < kFiles; ++i) {
    create("result" + std::to_string(i));
  }
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kFiles; ++i) {
      const std::vector<std::byte> content = pattern(static_cast<uint64_t>(round) * 100, 100);
      ASSERT_EQ(iow_write_stream_copy(stream, i, content.data(), 100, -1), 0);
    }
  }
  EXPECT_EQ(close(), 0);
  for (int i = 0; i < kFiles; ++i) {
    EXPECT_EQ(content_of(path("result" + std::to_string(i))), pattern(0, 300));
  }
}

TEST_P(Stream, ManyThreadsWriteEveryItemOnce) {
  iow_write_stream_options options = small_stream();
  options.depth = 2;
  open(options);
  constexpr unsigned kThreads = 4;
  constexpr unsigned kItems = 60;
  constexpr uint64_t kItem = 12'000;
  const std::array<int, 2> files{create("a"), create("b")};
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (unsigned i = 0; i < kItems; ++i) {
        const unsigned item = thread * kItems + i;
        const uint64_t at = item / 2 * kItem;
        if (i % 3 == 0) {
          iow_lease lease = lease_of(stream);
          fill(lease, at, kItem);
          EXPECT_EQ(iow_lease_write(&lease, files[item % 2], kItem, static_cast<int64_t>(at)), 0);
        } else {
          const std::vector<std::byte> content = pattern(at, kItem);
          EXPECT_EQ(iow_write_stream_copy(stream, files[item % 2], content.data(), kItem,
                                          static_cast<int64_t>(at)),
                    0);
        }
        if (i % 20 == 19) {
          EXPECT_EQ(iow_write_stream_sync(stream, i % 40 == 19 ? files[0] : IOW_ALL_FILES), 0);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(close(true), 0);
  for (const char* const name : {"a", "b"}) {
    EXPECT_EQ(content_of(path(name)), pattern(0, kThreads * kItems / 2 * kItem));
  }
}

TEST_P(Stream, AsManyBuffersAreWrittenAtOnceAsTheDepthSays) {
  const HeldFlow held(service.get());
  iow_write_stream_options options = small_stream();
  options.flow = held.flow();
  options.depth = 2;
  open(options);
  const int file = create("result");
  for (uint64_t item = 0; item < kBuffers; ++item) {
    ASSERT_EQ(append(file, item * kBuffer, kBuffer), 0);
    EXPECT_EQ(held.waiting(), std::min<uint64_t>(item + 1, 2));
  }
  held.let_go();
  EXPECT_EQ(close(), 0);
  EXPECT_EQ(content_of(path("result")), pattern(0, kBuffers * kBuffer));
}

TEST_P(Stream, AllBuffersAreWrittenAtOnceWithoutADepth) {
  const HeldFlow held(service.get());
  iow_write_stream_options options = small_stream();
  options.flow = held.flow();
  open(options);
  const int file = create("result");
  for (uint64_t item = 0; item < kBuffers; ++item) {
    ASSERT_EQ(append(file, item * kBuffer, kBuffer), 0);
  }
  EXPECT_EQ(held.waiting(), kBuffers);
  held.let_go();
  EXPECT_EQ(close(), 0);
  EXPECT_EQ(content_of(path("result")), pattern(0, kBuffers * kBuffer));
}

// ---- Statistics

TEST_P(Stream, TheStatisticsTellHowManyBuffersWereOfUse) {
  open();
  const int file = create("result");
  std::array<iow_lease, 3> leases{};
  lease_all(leases);
  end_all(leases);
  for (uint64_t item = 0; item < 20; ++item) {
    ASSERT_EQ(append(file, item, 100), 0);
    ASSERT_EQ(iow_write_stream_flush(stream, file), 0);
  }
  EXPECT_EQ(stats_of(stream).most_in_use, 3u);
  EXPECT_EQ(stats_of(stream).buffers, kBuffers);
}

TEST_P(Stream, TheStatisticsTellWhatTheProgramWaitedFor) {
  for (const bool durable : {false, true}) {
    SCOPED_TRACE(durable);
    const HeldFlow held(service.get());
    iow_write_stream_options options = small_stream();
    options.flow = held.flow();
    open(options);
    const int file = create("result");
    std::thread other([&] {
      while (held.waiting() == 0) {
        std::this_thread::yield();  // until the call has sent what was gathered
      }
      std::this_thread::sleep_for(std::chrono::nanoseconds(kMomentNs));
      held.let_go();
    });
    EXPECT_EQ(iow_write_stream_copy(stream, file, "x", 1, -1), 0);
    const iow_write_stream_stats before = stats_of(stream);
    EXPECT_EQ(durable ? iow_write_stream_sync(stream, file) : iow_write_stream_flush(stream, file),
              0);
    other.join();
    const iow_write_stream_stats after = stats_of(stream);
    const uint64_t returned = after.return_ns - before.return_ns;
    EXPECT_EQ(before.durable_ns, 0u);
    EXPECT_GE(durable ? after.durable_ns : returned, uint64_t{kMomentNs});
    EXPECT_EQ(durable ? returned : after.durable_ns, 0u);
    EXPECT_EQ(close(), 0);
  }
}

TEST_P(Stream, TheStatisticsTellHowLongACopyWaitedForBuffers) {
  const HeldFlow held(service.get());
  iow_write_stream_options options = small_stream();
  options.flow = held.flow();
  open(options);
  const int file = create("result");
  std::thread other([&] {
    while (held.waiting() != kBuffers) {
      std::this_thread::yield();
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(kMomentNs));
    held.let_go();
  });
  const std::vector<std::byte> content = pattern(0, 2 * kBuffers * kBuffer);
  EXPECT_EQ(iow_write_stream_copy(stream, file, content.data(), content.size(), -1), 0);
  other.join();
  EXPECT_GE(stats_of(stream).lease_waits, 1u);
  EXPECT_GT(stats_of(stream).lease_wait_ns, 0u);
  EXPECT_GE(stats_of(stream).return_ns, stats_of(stream).lease_wait_ns);
}

// ---- Files

TEST_P(Stream, WhatIsAllocatedInVainIsCutOff) {
  open();
  iow_write_file_options options{};
  options.expected_bytes = 16 * kBuffer;
  const int file = create("result", options);
  struct stat found {};
  ASSERT_EQ(::stat(path("result").c_str(), &found), 0);
  const bool is_allocated = found.st_size != 0;  // not every file system can
  EXPECT_TRUE(!is_allocated || static_cast<uint64_t>(found.st_size) == options.expected_bytes);
  ASSERT_EQ(append(file, 0, kBuffer), 0);
  ASSERT_EQ(append(file, kBuffer, 100), 0);
  EXPECT_EQ(iow_write_stream_end(stream, file, 1, nullptr), 0);
  EXPECT_EQ(content_of(path("result")), pattern(0, kBuffer + 100));
  EXPECT_EQ(iow_write_stream_flush(stream, file), -EBADF);
  EXPECT_EQ(create("next"), file) << "its number is free again";
}

TEST_P(Stream, AFileIsEmptiedOrKeptOrMustBeNew) {
  std::ofstream(path("old")) << std::string(10'000, 'x');
  open();
  iow_write_file_options keep{};
  keep.keep = 1;
  const int kept = create("old", keep);
  ASSERT_EQ(append(kept, 0, 10), 0);
  ASSERT_EQ(iow_write_stream_end(stream, kept, 0, nullptr), 0);
  EXPECT_EQ(content_of(path("old")).size(), 10'010u) << "behind what was there";
  iow_write_file_options exclusive{};
  exclusive.exclusive = 1;
  ErrorText text;
  EXPECT_EQ(iow_write_stream_create(stream, path("old").c_str(), &exclusive, text.out()), -EEXIST);
  EXPECT_NE(text.str().find(path("old")), std::string::npos) << text.str();
  const int emptied = create("old");
  ASSERT_EQ(append(emptied, 0, 10), 0);
  ASSERT_EQ(iow_write_stream_end(stream, emptied, 0, nullptr), 0);
  EXPECT_EQ(content_of(path("old")), pattern(0, 10));
  iow_write_file_options own{};
  own.mode = 0640;
  create("own", own);
  struct stat found {};
  ASSERT_EQ(::stat(path("own").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777u, 0640u);
}

TEST_P(Stream, WhatIsNoRegularFileIsRefusedAndLeftAlone) {
  open();
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  ErrorText text;
  EXPECT_EQ(iow_write_stream_create(stream, dir.path().c_str(), nullptr, text.out()), -EISDIR);
  const int fifo = iow_write_stream_create(stream, path("fifo").c_str(), nullptr, text.out());
  EXPECT_TRUE(fifo == -EINVAL || fifo == -ENXIO) << fifo;
  EXPECT_NE(text.str().find("fifo"), std::string::npos) << text.str();
  EXPECT_EQ(iow_write_stream_create(stream, path("no/where").c_str(), nullptr, text.out()),
            -ENOENT);
  EXPECT_NE(text.str().find("no/where"), std::string::npos) << text.str();
}

// ---- Who waits

TEST_P(Stream, ALeaseWaitsForABufferAndGivesUpInTime) {
  open();
  std::array<iow_lease, kBuffers> leases{};
  for (iow_lease& lease : leases) {
    lease = lease_of(stream);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(lease.data) % 4096, 0u);
    EXPECT_EQ(lease.bytes, kBuffer);
  }
  iow_lease late{};
  EXPECT_EQ(iow_lease_begin(stream, &late, 0), -ETIME);
  EXPECT_EQ(iow_lease_begin(stream, &late, kMomentNs), -ETIME);
  EXPECT_EQ(late.data, nullptr);
  const uint64_t waits = stats_of(stream).lease_waits;
  EXPECT_EQ(waits, 1u);
  std::thread waiter([&] {
    EXPECT_EQ(iow_lease_begin(stream, &late, kForEver), 0);
    iow_lease_end(&late);
  });
  while (stats_of(stream).lease_waits == waits) {
    std::this_thread::yield();
  }
  end_all(leases);
  waiter.join();
  EXPECT_EQ(stats_of(stream).writes, 0u);
}

TEST_P(Stream, ALeaseMayBeRefusedInsteadOfWaitedFor) {
  iow_write_stream_options options = small_stream();
  options.overflow = IOW_OVERFLOW_FAIL;
  open(options);
  const int file = create("result");
  std::array<iow_lease, kBuffers> leases{};
  lease_all(leases);
  iow_lease late{};
  EXPECT_EQ(iow_lease_begin(stream, &late, kForEver), -EAGAIN);
  const auto never = [](iow_lease, void*) { ADD_FAILURE(); };
  EXPECT_EQ(iow_lease_begin_async(stream, never, nullptr), -EAGAIN);
  const std::vector<std::byte> content = pattern(0, kBuffers * kBuffer + 1);
  EXPECT_EQ(iow_write_stream_copy(stream, file, content.data(), 1, -1), -EAGAIN);
  EXPECT_EQ(iow_write_stream_copy(stream, file, content.data(), content.size(), -1), -ENOBUFS);
  end_all(leases);
  EXPECT_EQ(iow_write_stream_copy(stream, file, content.data(), kBuffers * kBuffer, -1), 0);
  EXPECT_EQ(close(), 0);
  EXPECT_EQ(content_of(path("result")), pattern(0, kBuffers * kBuffer))
      << "what was refused left no hole";
}

TEST_P(Stream, ALeaseOfASynchronousStreamIsWrittenWhenTheCallReturns) {
  iow_write_stream_options options = small_stream();
  options.overflow = IOW_OVERFLOW_SYNCHRONOUS;
  open(options);
  const int file = create("result");
  std::array<iow_lease, kBuffers - 1> leases{};
  lease_all(leases);
  for (uint64_t at = 0; at < 5 * kBuffer; at += kBuffer) {
    ASSERT_EQ(append(file, at, kBuffer), 0);
    EXPECT_EQ(content_of(path("result")), pattern(0, at + kBuffer));
  }
  const std::vector<std::byte> content = pattern(5 * kBuffer, 100);
  ASSERT_EQ(iow_write_stream_copy(stream, file, content.data(), 100, -1), 0);
  EXPECT_EQ(content_of(path("result")), pattern(0, 5 * kBuffer + 100));
  EXPECT_EQ(append(file, 0, 0), 0) << "nothing to wait for";
  EXPECT_EQ(append(file + 1, 0, 10), -EBADF);
  EXPECT_EQ(append(file, 5 * kBuffer + 100, 10), 0) << "the spare buffer is back";
  end_all(leases);
}

struct Leased {
  std::atomic<int> count{0};
  iow_lease lease{};
  static void note(iow_lease lease, void* user) {
    auto& leased = *static_cast<Leased*>(user);
    leased.lease = lease;
    ++leased.count;
  }
};

TEST_P(Stream, ACallbackGetsTheBufferAtOnceOrWhenThereIsOne) {
  open();
  const int file = create("result");
  std::array<Leased, kBuffers + 2> leased;
  for (Leased& one : leased) {
    ASSERT_EQ(iow_lease_begin_async(stream, &Leased::note, &one), 0);
  }
  EXPECT_EQ(leased[kBuffers - 1].count, 1);
  EXPECT_EQ(leased[kBuffers].count, 0);
  ASSERT_EQ(iow_lease_append(&leased[0].lease, file, kBuffer), 0);
  await(leased[kBuffers].count, 1);
  iow_lease_end(&leased[1].lease);
  EXPECT_EQ(leased[kBuffers + 1].count, 1) << "inside the call that gives a buffer back";
  Leased never;
  ASSERT_EQ(iow_lease_begin_async(stream, &Leased::note, &never), 0);
  EXPECT_EQ(iow_lease_begin_async(stream, nullptr, nullptr), -EINVAL);
  EXPECT_EQ(close(), 0);
  EXPECT_EQ(never.count, 1) << "who waits at the end is told";
  EXPECT_EQ(never.lease.data, nullptr);
  for (Leased& one : leased) {
    iow_lease_end(&one.lease);
  }
}

TEST_P(Stream, ALeaseOutlivesItsStream) {
  open();
  const int file = create("result");
  iow_lease lease = lease_of(stream);
  iow_lease other = lease_of(stream);
  EXPECT_EQ(close(), 0);
  std::memset(lease.data, 1, lease.bytes);
  EXPECT_EQ(iow_lease_append(&lease, file, 10), -EBADF);
  iow_lease_end(&lease);
  std::memset(other.data, 1, other.bytes);
  iow_lease_end(&other);
  EXPECT_TRUE(content_of(path("result")).empty());
}

/// On the thread that reaps it would wait for itself.
TEST_P(Stream, ACallbackDoesNotWaitForTheWriteOfASynchronousStream) {
  iow_write_stream_options options = small_stream();
  options.overflow = IOW_OVERFLOW_SYNCHRONOUS;
  open(options);
  struct Writer {
    int file;
    std::atomic<int> count{0};
  } writer{create("result")};
  std::array<iow_lease, kBuffers - 1> leases{};
  lease_all(leases);
  const auto write = [](iow_lease lease, void* user) {
    auto& mine = *static_cast<Writer*>(user);
    fill(lease, 0, kBuffer);
    EXPECT_EQ(iow_lease_write(&lease, mine.file, kBuffer, 0), 0);
    ++mine.count;
  };
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(iow_lease_begin_async(stream, write, &writer), 0);
  }
  await(writer.count, 6);
  EXPECT_EQ(close(), 0);
  EXPECT_EQ(content_of(path("result")), pattern(0, kBuffer));
  end_all(leases);
}

/// One inside the other they would need more stack than there is.
TEST_P(Stream, ManyCallbacksRunOneAfterTheOther) {
  open();
  std::array<iow_lease, kBuffers> leases{};
  lease_all(leases);
  std::atomic<int> count{0};
  constexpr int kCallbacks = 100'000;
  const auto end_it = [](iow_lease lease, void* user) {
    iow_lease_end(&lease);
    ++*static_cast<std::atomic<int>*>(user);
  };
  for (int i = 0; i < kCallbacks; ++i) {
    ASSERT_EQ(iow_lease_begin_async(stream, end_it, &count), 0);
  }
  iow_lease_end(&leases[0]);
  EXPECT_EQ(count, kCallbacks);
  end_all(leases);
}

TEST_P(Stream, TheEndOfAFileWaitsForCopiesThatAreUnderWay) {
  iow_write_stream_options options = small_stream();
  options.budget_bytes = kBuffer;
  open(options);
  const std::vector<std::byte> content = pattern(0, 9 * kBuffer + 5);
  for (int round = 0; round < 10; ++round) {
    const int file = create("result");
    std::atomic<bool> begun{false};
    int copied = 0;
    std::thread copier([&] {
      begun = true;
      copied = iow_write_stream_copy(stream, file, content.data(), content.size(), -1);
    });
    while (!begun) {
      std::this_thread::yield();
    }
    EXPECT_EQ(iow_write_stream_end(stream, file, round % 2, nullptr), 0);
    const std::vector<std::byte> found = content_of(path("result"));
    copier.join();
    EXPECT_TRUE(copied == 0 ? found == content : copied == -EBADF && found.empty()) << copied;
  }
}

/// And a flush covers what was gathered before, even if another copy goes on with that buffer.
TEST_P(Stream, AFlushCoversEveryCopyThatHasReturned) {
  open();
  const int file = create("result");
  std::atomic<uint64_t> copied{0};
  std::atomic<bool> stop{false};
  std::thread copier([&] {
    std::vector<std::byte> piece = pattern(0, 1000);
    for (uint64_t at = 0; !stop && at < (8 << 20); at += piece.size()) {
      piece = pattern(at, piece.size());
      EXPECT_EQ(iow_write_stream_copy(stream, file, piece.data(), piece.size(), -1), 0);
      copied = at + piece.size();
    }
  });
  for (int i = 0; i < 50; ++i) {
    const uint64_t least = copied;
    ASSERT_EQ(iow_write_stream_flush(stream, file), 0);
    struct stat found {};
    ASSERT_EQ(::stat(path("result").c_str(), &found), 0);
    EXPECT_GE(static_cast<uint64_t>(found.st_size), least);
    std::this_thread::yield();
  }
  stop = true;
  copier.join();
}

struct Reached {
  std::atomic<int> count{0};
  int error = 1;
  static void note(int error, void* user) {
    auto& reached = *static_cast<Reached*>(user);
    reached.error = error;
    ++reached.count;
  }
};

TEST_P(Stream, ACallbackIsToldThatFilesAreFlushedOrSynced) {
  const HeldFlow held(service.get());
  iow_write_stream_options options = small_stream();
  options.flow = held.flow();
  open(options);
  Reached at_once;
  ASSERT_EQ(iow_write_stream_sync_async(stream, IOW_ALL_FILES, &Reached::note, &at_once), 0);
  EXPECT_EQ(at_once.count, 1) << "there is no file";
  const int file = create("result");
  const int other = create("other");
  ASSERT_EQ(append(file, 0, kBuffer), 0);
  ASSERT_EQ(iow_write_stream_copy(stream, other, "x", 1, -1), 0);
  std::array<Reached, 4> reached;
  ASSERT_EQ(iow_write_stream_flush_async(stream, file, &Reached::note, &reached[0]), 0);
  ASSERT_EQ(iow_write_stream_sync_async(stream, file, &Reached::note, &reached[1]), 0);
  ASSERT_EQ(iow_write_stream_flush_async(stream, other, &Reached::note, &reached[2]), 0);
  ASSERT_EQ(iow_write_stream_sync_async(stream, IOW_ALL_FILES, &Reached::note, &reached[3]), 0);
  for (const Reached& one : reached) {
    EXPECT_EQ(one.count, 0);
  }
  held.let_go();
  for (const Reached& one : reached) {
    await(one.count, 1);
    EXPECT_EQ(one.error, 0);
  }
  EXPECT_GE(stats_of(stream).syncs, 2u);
  EXPECT_EQ(iow_write_stream_flush_async(stream, 7, &Reached::note, &at_once), -EBADF);
  EXPECT_EQ(iow_write_stream_flush_async(stream, file, nullptr, nullptr), -EINVAL);
  EXPECT_EQ(close(), 0);
  EXPECT_EQ(at_once.count, 1);
  for (const Reached& one : reached) {
    EXPECT_EQ(one.count, 1);
  }
}

TEST_P(Stream, ThoseThatSyncAFileMeanwhileShareTheNextSync) {
  const HeldFlow held(service.get());
  iow_write_stream_options options = small_stream();
  options.flow = held.flow();
  open(options);
  const int file = create("result");
  std::array<Reached, 8> reached;
  for (Reached& one : reached) {
    ASSERT_EQ(iow_write_stream_sync_async(stream, file, &Reached::note, &one), 0);
    EXPECT_EQ(held.waiting(), 1u);
  }
  held.let_go();
  for (const Reached& one : reached) {
    await(one.count, 1);
    EXPECT_EQ(one.error, 0);
  }
  EXPECT_EQ(stats_of(stream).syncs, 2u);
}

TEST_P(Stream, AllFilesAreSyncedSideBySide) {
  const HeldFlow held(service.get());
  iow_write_stream_options options = small_stream();
  options.flow = held.flow();
  open(options);
  for (const char* const name : {"a", "b", "c"}) {
    create(name);
  }
  Reached reached;
  ASSERT_EQ(iow_write_stream_sync_async(stream, IOW_ALL_FILES, &Reached::note, &reached), 0);
  EXPECT_EQ(held.waiting(), 3u);
  EXPECT_EQ(reached.count, 0);
  held.let_go();
  await(reached.count, 1);
  EXPECT_EQ(reached.error, 0);
  EXPECT_EQ(stats_of(stream).syncs, 3u);
}

TEST_P(Stream, ACallbackThatWaitsForTheDeviceOutlivesTheStream) {
  open();
  const int file = create("result");
  std::array<Reached, 20> reached;
  for (Reached& one : reached) {
    ASSERT_EQ(append(file, 0, 4096), 0);
    ASSERT_EQ(iow_write_stream_sync_async(stream, file, &Reached::note, &one), 0);
  }
  EXPECT_EQ(close(), 0);
  service = nullptr;
  for (const Reached& one : reached) {
    EXPECT_EQ(one.count, 1) << "the service has ended, and all of its requests before";
    EXPECT_EQ(one.error, 0);
  }
}

TEST_P(Stream, TheEndOfAFileSyncsItWhereItIsToBeDurable) {
  open();
  for (const int durable : {0, 1}) {
    const int file = create("result");
    ASSERT_EQ(append(file, 0, 5000), 0);
    EXPECT_EQ(iow_write_stream_end(stream, file, durable, nullptr), 0);
    EXPECT_EQ(stats_of(stream).syncs, static_cast<uint64_t>(durable));
  }
}

/// Of a file that can be written, but not synced: the name of this thread.
TEST_P(Stream, AnEndThatCannotSyncSaysSoAndOneThatNeedNotDoesNotTry) {
  const std::vector<std::byte> name = content_of("/proc/self/comm");
  const std::string why = "cannot bring to the device '/proc/self/comm': Invalid argument";
  const auto open_and_write = [&] {
    open();
    const int file = iow_write_stream_create(stream, "/proc/self/comm", nullptr, nullptr);
    EXPECT_EQ(file, 0);
    EXPECT_EQ(iow_write_stream_copy(stream, file, name.data(), name.size() - 1, -1), 0);
  };
  for (const int durable : {0, 1}) {
    SCOPED_TRACE(durable);
    ErrorText text;
    open_and_write();
    EXPECT_EQ(iow_write_stream_end(stream, 0, durable, text.out()), durable != 0 ? -EINVAL : 0);
    EXPECT_EQ(text.str(), durable != 0 ? why : "");
    EXPECT_EQ(close(), 0);
    open_and_write();
    EXPECT_EQ(iow_write_stream_close(std::exchange(stream, nullptr), durable, text.out()),
              durable != 0 ? -EINVAL : 0);
    EXPECT_EQ(text.str(), durable != 0 ? why : "");
  }
  open_and_write();
  EXPECT_EQ(iow_write_stream_flush(stream, 0), 0);
  EXPECT_EQ(iow_write_stream_sync(stream, 0), -EINVAL);
  EXPECT_EQ(close(), -ECANCELED);
}

// ---- Errors

TEST_P(Stream, ACallbackIsToldOfAFailureOnce) {
  open();
  const int file = create("limited");
  const SmallFilesOnly limited;
  EXPECT_EQ(fail(file), 0);
  std::array<Reached, 2> reached;
  for (Reached& one : reached) {
    ASSERT_EQ(iow_write_stream_sync_async(stream, file, &Reached::note, &one), 0);
  }
  for (const Reached& one : reached) {
    await(one.count, 1);
  }
  EXPECT_EQ(reached[0].error, -EFBIG);
  EXPECT_EQ(reached[1].error, -ECANCELED);
  expected_at_close = -ECANCELED;
}

TEST_P(Stream, MalformedCallsAreRefusedAndEndTheLease) {
  open();
  const int file = create("result");
  const auto refused = [&](uint64_t bytes, int64_t offset, int where) {
    iow_lease lease = lease_of(stream);
    const int error = iow_lease_write(&lease, where, bytes, offset);
    EXPECT_EQ(lease.data, nullptr);
    return error;
  };
  for (int i = 0; i < 3; ++i) {  // more leases than buffers: each one came back
    EXPECT_EQ(refused(kBuffer + 1, 0, file), -EINVAL);
    EXPECT_EQ(refused(1, -1, file), -EINVAL);
    EXPECT_EQ(refused(2, INT64_MAX - 1, file), -EFBIG);
    EXPECT_EQ(refused(1, 0, file + 1), -EBADF);
    EXPECT_EQ(refused(1, 0, -1), -EBADF);
  }
  iow_lease none{};
  EXPECT_EQ(iow_lease_write(&none, file, 1, 0), -EINVAL);
  EXPECT_EQ(iow_lease_append(nullptr, file, 1), -EINVAL);
  iow_lease_end(&none);
  EXPECT_EQ(iow_write_stream_copy(stream, file, nullptr, 1, 0), -EINVAL);
  EXPECT_EQ(iow_write_stream_copy(stream, file, "x", 1, -2), -EINVAL);
  EXPECT_EQ(iow_write_stream_copy(stream, file + 1, "x", 1, 0), -EBADF);
  EXPECT_EQ(iow_write_stream_sync(stream, file + 1), -EBADF);
  EXPECT_EQ(iow_write_stream_end(stream, -2, 0, nullptr), -EBADF);
  ErrorText text;
  EXPECT_EQ(iow_write_stream_error(stream, file, text.out()), 0);
  EXPECT_EQ(text.str(), "");
  EXPECT_EQ(iow_write_stream_error(stream, 99, text.out()), -EBADF);
}

TEST_P(Stream, AFullDeviceIsReportedOnceAndOtherFilesGoOn) {
  const SmallFilesystem disk(16 << 20);
  if (!disk.problem().empty()) {
    GTEST_SKIP() << disk.problem();
  }
  open();
  ErrorText text;
  const int full = iow_write_stream_create(stream, disk.file("full").c_str(), nullptr, text.out());
  ASSERT_GE(full, 0) << text.str();
  const int good = create("good");
  std::vector<int> errors;
  uint64_t at = 0;
  uint64_t taken = 0;
  for (; at < (64 << 20) && errors.size() < 3; at += kBuffer) {
    const int error = append(full, at, kBuffer);
    if (error != 0) {
      errors.push_back(error);
    } else {
      taken += kBuffer;
    }
    ASSERT_EQ(append(good, at, kBuffer), 0);
  }
  if (errors.empty() && std::get<1>(GetParam()) == IOW_PATH_BUFFERED) {
    GTEST_SKIP() << "the page cache took it all";
  }
  EXPECT_EQ(errors, (std::vector<int>{-ENOSPC, -ECANCELED, -ECANCELED}));
  EXPECT_EQ(iow_write_stream_flush(stream, full), -ECANCELED);
  EXPECT_EQ(iow_write_stream_sync(stream, good), 0);
  EXPECT_EQ(iow_write_stream_error(stream, full, text.out()), -ENOSPC);
  EXPECT_NE(text.str().find(disk.file("full")), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("offset"), std::string::npos) << text.str();
  const iow_write_stream_stats stats = stats_of(stream);
  EXPECT_EQ(stats.written_bytes + stats.dropped_bytes, taken + at + errors.size() * kBuffer);
  EXPECT_EQ(close(), -ECANCELED);
  EXPECT_EQ(content_of(path("good")), pattern(0, at));
  // What was written well before is there: at least as many items as were counted.
  const std::vector<std::byte> found = content_of(disk.file("full"));
  uint64_t intact = 0;
  for (uint64_t item = 0; item + kBuffer <= found.size(); item += kBuffer) {
    const std::vector<std::byte> wanted = pattern(item, kBuffer);
    const auto begin = found.begin() + static_cast<int64_t>(item);
    intact += std::equal(wanted.begin(), wanted.end(), begin) ? kBuffer : 0;
  }
  EXPECT_GE(intact, stats.written_bytes - at);
  EXPECT_GT(intact, uint64_t{8} << 20);
  // All that fit are there, but for as many as were under way when one did not.
  struct statvfs left {};
  struct stat of_file {};
  ASSERT_EQ(::statvfs(disk.file("full").c_str(), &left), 0);
  ASSERT_EQ(::stat(disk.file("full").c_str(), &of_file), 0);
  const uint64_t room =
      left.f_bavail * left.f_frsize + static_cast<uint64_t>(of_file.st_blocks) * 512;
  EXPECT_LE(room, intact + kBuffers * kBuffer);
}

TEST_P(Stream, RoomThatTheDeviceLacksIsMissedWhenTheFileIsCreated) {
  const SmallFilesystem disk(16 << 20);
  if (!disk.problem().empty()) {
    GTEST_SKIP() << disk.problem();
  }
  open();
  iow_write_file_options options{};
  options.expected_bytes = 64 << 20;
  ErrorText text;
  EXPECT_EQ(iow_write_stream_create(stream, disk.file("full").c_str(), &options, text.out()),
            -ENOSPC);
  EXPECT_NE(text.str().find("expected size"), std::string::npos) << text.str();
}

TEST_P(Stream, AFailedFileTellsItsErrorAlsoWhereThereIsNoBuffer) {
  iow_write_stream_options options = small_stream();
  options.overflow = IOW_OVERFLOW_FAIL;
  open(options);
  const int file = create("limited");
  const SmallFilesOnly limited;
  EXPECT_EQ(fail(file), 0);
  std::array<iow_lease, kBuffers> leases{};
  for (iow_lease& one : leases) {
    while (iow_lease_begin(stream, &one, 0) != 0) {
      std::this_thread::yield();  // the failing write has the last one
    }
  }
  EXPECT_EQ(iow_write_stream_copy(stream, file, "x", 1, -1), -EFBIG);
  EXPECT_EQ(iow_write_stream_copy(stream, file, "x", 1, -1), -ECANCELED);
  end_all(leases);
  expected_at_close = -ECANCELED;
}

TEST_P(Stream, NothingOfTheWritesThatWaitedReachesAFileThatFailed) {
  const HeldFlow held(service.get());
  iow_write_stream_options options = small_stream();
  options.flow = held.flow();
  options.depth = 1;
  open(options);
  const int file = create("limited");
  const SmallFilesOnly limited;
  EXPECT_EQ(fail(file), 0);
  EXPECT_EQ(append(file, 0, kBuffer), 0);
  ASSERT_EQ(iow_write_stream_copy(stream, file, pattern(0, 100).data(), 100, 0), 0);
  held.let_go();
  EXPECT_EQ(iow_write_stream_flush(stream, file), -EFBIG);
  EXPECT_EQ(stats_of(stream).written_bytes, 0u);
  EXPECT_EQ(stats_of(stream).dropped_bytes, 2 * kBuffer + 100);
  EXPECT_EQ(close(), -ECANCELED);
  EXPECT_TRUE(content_of(path("limited")).empty());
}

TEST_P(Stream, TheErrorAtTheCloseNamesFileAndOffset) {
  open();
  const int file = create("limited");
  const SmallFilesOnly limited;
  EXPECT_EQ(fail(file), 0) << "it is told later";
  ErrorText text;
  EXPECT_EQ(iow_write_stream_close(std::exchange(stream, nullptr), 1, text.out()), -EFBIG);
  EXPECT_EQ(text.str(), told_of("limited"));
}

TEST_P(Stream, TheErrorAtTheEndOfAFileNamesFileAndOffset) {
  open();
  const int file = create("limited");
  const SmallFilesOnly limited;
  EXPECT_EQ(fail(file), 0);
  ErrorText text;
  EXPECT_EQ(iow_write_stream_end(stream, file, 0, text.out()), -EFBIG);
  EXPECT_EQ(text.str(), told_of("limited"));
  EXPECT_EQ(iow_write_stream_end(stream, file, 0, text.out()), -EBADF);
  EXPECT_EQ(text.str(), "");
}

TEST_P(Stream, TheEndAndTheCloseSayAgainWhatWasReported) {
  open();
  const int first = create("first");
  const int second = create("second");
  const SmallFilesOnly limited;
  for (const int file : {first, second}) {
    EXPECT_EQ(fail(file), 0);
    EXPECT_EQ(iow_write_stream_flush(stream, file), -EFBIG);
  }
  ErrorText text;
  EXPECT_EQ(iow_write_stream_end(stream, first, 0, text.out()), -ECANCELED);
  EXPECT_EQ(text.str(), told_of("first"));
  EXPECT_EQ(iow_write_stream_close(std::exchange(stream, nullptr), 1, text.out()), -ECANCELED);
  EXPECT_EQ(text.str(), told_of("second"));
}

TEST_P(Stream, TheCloseSaysWhatIsNewRatherThanWhatWasReported) {
  open();
  const int first = create("first");
  const int second = create("second");
  const SmallFilesOnly limited;
  EXPECT_EQ(fail(first), 0);
  EXPECT_EQ(iow_write_stream_flush(stream, first), -EFBIG);
  EXPECT_EQ(fail(second), 0);
  ErrorText text;
  EXPECT_EQ(iow_write_stream_close(std::exchange(stream, nullptr), 1, text.out()), -EFBIG);
  EXPECT_THAT(text.str(), ::testing::HasSubstr(path("second")));
}

TEST_P(Stream, OfFilesThatEndTogetherEveryErrorIsReported) {
  open();
  const int first = create("first");
  const int second = create("second");
  const SmallFilesOnly limited;
  EXPECT_EQ(fail(first), 0);
  EXPECT_EQ(fail(second), 0);
  ErrorText text;
  EXPECT_EQ(iow_write_stream_end(stream, IOW_ALL_FILES, 0, text.out()), -EFBIG);
  EXPECT_THAT(text.str(), ::testing::HasSubstr(path("first")));
  EXPECT_EQ(iow_write_stream_close(std::exchange(stream, nullptr), 0, text.out()), -EFBIG);
  EXPECT_THAT(text.str(), ::testing::HasSubstr(path("second")));
}

/// While its write is held back it gathers a copy, so the file fails with a buffer that no write
/// will ever give back.
TEST_P(Stream, ACallbackGetsTheBufferThatGatheredForAFailedFile) {
  const HeldFlow held(service.get());
  iow_write_stream_options options = small_stream();
  options.flow = held.flow();
  open(options);
  const int file = create("limited");
  const SmallFilesOnly limited;
  EXPECT_EQ(fail(file), 0);
  ASSERT_EQ(iow_write_stream_copy(stream, file, "x", 1, -1), 0);
  held.let_go();
  while (iow_write_stream_error(stream, file, nullptr) == 0) {
    std::this_thread::yield();
  }
  std::array<iow_lease, kBuffers - 1> leases{};
  lease_all(leases);
  Leased leased;
  ASSERT_EQ(iow_lease_begin_async(stream, &Leased::note, &leased), 0);
  EXPECT_EQ(leased.count, 1);
  iow_lease_end(&leased.lease);
  end_all(leases);
  expected_at_close = -EFBIG;
}

TEST_P(Stream, AWriteOfALeaseSendsWhatWasGathered) {
  open();
  const int file = create("result");
  ASSERT_EQ(iow_write_stream_copy(stream, file, pattern(0, 100).data(), 100, -1), 0);
  EXPECT_EQ(stats_of(stream).writes, 0u);
  EXPECT_EQ(append(file, 100, 5000), 0);
  EXPECT_EQ(stats_of(stream).writes, 2u);
  EXPECT_EQ(close(), 0);
  EXPECT_EQ(content_of(path("result")), pattern(0, 5100));
}

TEST_P(Stream, ACallbackOfTheCloseGetsNoFurtherLease) {
  open();
  std::array<iow_lease, kBuffers> leases{};
  lease_all(leases);
  struct Again {
    iow_write_stream* stream;
    int result = 0;
  } again{stream};
  const auto ask_again = [](iow_lease, void* user) {
    auto& mine = *static_cast<Again*>(user);
    mine.result = iow_lease_begin_async(mine.stream, &Leased::note, nullptr);
  };
  ASSERT_EQ(iow_lease_begin_async(stream, ask_again, &again), 0);
  EXPECT_EQ(close(), 0);
  EXPECT_EQ(again.result, -ECANCELED);
  end_all(leases);
}

/// The service's thread would wait for itself.
TEST_P(Stream, TheCallbackOfARequestMayWriteTheLeaseOfASynchronousStream) {
  iow_write_stream_options options = small_stream();
  options.overflow = IOW_OVERFLOW_SYNCHRONOUS;
  open(options);
  struct Writer {
    std::array<iow_lease, kBuffers> leases{};
    int file;
    std::atomic<int> count{0};
  } writer;
  writer.file = create("result");
  for (iow_lease& one : writer.leases) {
    one = lease_of(stream);
    fill(one, 0, kBuffer);
  }
  iow_request request = make_nop();
  request.callback = [](iow_request*, void* user) {
    auto& mine = *static_cast<Writer*>(user);
    EXPECT_EQ(iow_lease_write(&mine.leases.back(), mine.file, kBuffer, 0), 0);
    ++mine.count;
  };
  request.user = &writer;
  iow_request* const one = &request;
  ASSERT_EQ(iow_submit(service.get(), &one, 1), 1);
  await(writer.count, 1);
  EXPECT_EQ(close(), 0);
  EXPECT_EQ(content_of(path("result")), pattern(0, kBuffer));
  end_all(writer.leases);
}

/// Device 0 schedules strictly: as long as a request of the foreground is under way no write of a
/// lower class starts, and the thread that would find out that it has ended waits for these.
TEST_P(Stream, AStreamBehindTheForegroundDoesNotWaitForTheWaitersOwnRequests) {
  iow_flow_options behind{};
  behind.priority = IOW_WRITE_BEHIND;
  iow_write_stream_options options = small_stream();
  options.flow = static_cast<uint32_t>(iow_flow_create(service.get(), "behind", &behind, nullptr));
  options.budget_bytes = kBuffer;
  open(options);
  const int file = create("result");
  iow_request request = make_nop();
  request.flags = IOW_MORE;  // it has not even left
  iow_request* const one = &request;
  for (uint64_t item = 0; item < 3; ++item) {
    ASSERT_EQ(iow_submit(service.get(), &one, 1), 1);
    ASSERT_EQ(append(file, item * kBuffer, kBuffer), 0);
    ASSERT_EQ(iow_write_stream_flush(stream, file), 0);
    ASSERT_EQ(iow_wait(service.get(), &request, kForEver), 0);
  }
  ASSERT_EQ(iow_submit(service.get(), &one, 1), 1);
  const int64_t admitted = iow_admit(service.get(), options.flow, 1);
  EXPECT_GT(admitted, 0);
  EXPECT_EQ(iow_finish(service.get(), admitted, 1), 0);
  ASSERT_EQ(iow_wait(service.get(), &request, kForEver), 0);
  EXPECT_EQ(close(), 0);
  EXPECT_EQ(content_of(path("result")), pattern(0, 3 * kBuffer));
}

TEST_P(Stream, AFileThatCannotBeCreatedKeepsItsBytes) {
  const SmallFilesystem disk(16 << 20);
  if (!disk.problem().empty()) {
    GTEST_SKIP() << disk.problem();
  }
  open();
  std::ofstream(disk.file("old")) << "old results";
  for (const uint64_t too_much : {uint64_t{64} << 20, UINT64_MAX}) {
    iow_write_file_options options{};
    options.expected_bytes = too_much;
    EXPECT_LT(iow_write_stream_create(stream, disk.file("old").c_str(), &options, nullptr), 0);
    EXPECT_EQ(content_of(disk.file("old")).size(), 11u);
  }
  iow_write_file_options options{};
  options.expected_bytes = 1 << 20;
  const int file = iow_write_stream_create(stream, disk.file("old").c_str(), &options, nullptr);
  ASSERT_GE(file, 0);
  EXPECT_EQ(append(file, 0, 5000), 0);
  EXPECT_EQ(iow_write_stream_end(stream, file, 1, nullptr), 0);
  EXPECT_EQ(content_of(disk.file("old")), pattern(0, 5000));
}

TEST_P(Stream, AFileIsClosedWhenItHasEnded) {
  open();
  const int file = create("result");
  EXPECT_EQ(append(file, 0, 5000), 0);
  const auto is_open = [&] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::any_of(begin(all), end(all), [&](const auto& one) {
      std::error_code gone;
      return std::filesystem::read_symlink(one.path(), gone) == path("result");
    });
  };
  EXPECT_TRUE(is_open());
  EXPECT_EQ(iow_write_stream_end(stream, file, 1, nullptr), 0);
  EXPECT_FALSE(is_open());
}

TEST_P(Stream, InAForkedChildNothingHappens) {
  open();
  const int file = create("result");
  iow_lease lease = lease_of(stream);
  iow_lease another = lease_of(stream);
  const int status = run_in_child([&] {
    iow_lease fresh{};
    const bool refused = iow_lease_begin(stream, &fresh, 0) == -ECANCELED &&
                         iow_lease_append(&lease, file, 10) == -ECANCELED &&
                         iow_write_stream_copy(stream, file, "x", 1, -1) == -ECANCELED &&
                         iow_write_stream_flush(stream, IOW_ALL_FILES) == -ECANCELED &&
                         iow_write_stream_sync(stream, file) == -ECANCELED &&
                         iow_write_stream_create(stream, "x", nullptr, nullptr) == -ECANCELED;
    iow_lease_end(&another);
    return refused && iow_write_stream_close(stream, 1, nullptr) == -ECANCELED ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  iow_lease_end(&another);
  fill(lease, 0, 10);
  EXPECT_EQ(iow_lease_append(&lease, file, 10), 0);
  EXPECT_EQ(close(true), 0);
  EXPECT_EQ(content_of(path("result")), pattern(0, 10));
}

TEST_P(Stream, AForkedChildOpensAStreamOfItsOwn) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer lets no forked child start a thread";
#endif
  open();
  const int file = create("of the parent");
  ASSERT_EQ(append(file, 0, kBuffer), 0);
  iow_options same{};
  same.engine = std::get<0>(GetParam());
  const int status = run_in_child([&] {
    iow_service* own = nullptr;
    iow_write_stream* mine = nullptr;
    const iow_write_stream_options options = small_stream();
    if (iow_service_open(&own, &same, nullptr) != 0 ||
        iow_write_stream_open(own, &mine, &options, nullptr) != 0) {
      return 1;
    }
    const int created = iow_write_stream_create(mine, path("result").c_str(), nullptr, nullptr);
    const std::vector<std::byte> content = pattern(0, 9 * kBuffer + 5);
    if (iow_write_stream_copy(mine, created, content.data(), content.size(), -1) != 0 ||
        iow_write_stream_close(mine, 1, nullptr) != 0) {
      return 2;
    }
    iow_service_close(own);
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(content_of(path("result")), pattern(0, 9 * kBuffer + 5));
  EXPECT_EQ(close(), 0);
  EXPECT_EQ(content_of(path("of the parent")), pattern(0, kBuffer));
}

// ---- Options

TEST(StreamOptions, OutOfRangeAreNamed) {
  const OwnedService service = open_service({});
  const auto why = [&](const auto& change) {
    iow_write_stream_options options{};
    change(options);
    iow_write_stream* stream = nullptr;
    ErrorText text;
    EXPECT_EQ(iow_write_stream_open(service.get(), &stream, &options, text.out()), -EINVAL);
    EXPECT_EQ(stream, nullptr);
    return text.str();
  };
  using Options = iow_write_stream_options;
  using ::testing::HasSubstr;
  EXPECT_THAT(why([](Options& o) { o.buffer_bytes = 100; }), HasSubstr("buffer_bytes"));
  EXPECT_THAT(why([](Options& o) { o.buffer_bytes = uint64_t{1} << 40; }),
              HasSubstr("buffer_bytes"));
  EXPECT_THAT(why([](Options& o) { o.budget_bytes = 1 << 20; }),
              HasSubstr("raise budget_bytes or lower buffer_bytes"));
  EXPECT_THAT(why([](Options& o) {
                o.budget_bytes = 4 << 20;
                o.overflow = IOW_OVERFLOW_SYNCHRONOUS;
              }),
              HasSubstr("two buffers"));
  EXPECT_THAT(why([](Options& o) { o.budget_bytes = UINT64_MAX; }), HasSubstr("1048576 buffers"));
  EXPECT_THAT(why([](Options& o) { o.flow = 7; }), HasSubstr("flow 7"));
  static constexpr uint32_t kNoPath = 9;
  EXPECT_THAT(why([](Options& o) { std::memcpy(&o.path, &kNoPath, sizeof o.path); }),
              HasSubstr("path must be 0..2, not 9"));
  EXPECT_THAT(why([](Options& o) { o.size = 2; }), HasSubstr("options.size"));
  EXPECT_EQ(iow_write_stream_open(service.get(), nullptr, nullptr, nullptr), -EINVAL);
  EXPECT_EQ(iow_write_stream_close(nullptr, 1, nullptr), 0);
}

TEST(StreamOptions, LeftOutAreEightBuffersOfFourMebibytes) {
  const OwnedService service = open_service({});
  iow_write_stream* stream = nullptr;
  ASSERT_EQ(iow_write_stream_open(service.get(), &stream, nullptr, nullptr), 0);
  iow_lease lease = lease_of(stream);
  EXPECT_EQ(lease.bytes, uint64_t{4} << 20);
  iow_lease_end(&lease);
  EXPECT_EQ(stats_of(stream).buffers, 8u);
  EXPECT_EQ(iow_write_stream_close(stream, 0, nullptr), 0);
}

TEST(StreamOptions, BuffersHave4096BytesTo16GiB) {
  const OwnedService service = open_service({});
  constexpr uint64_t kLeast = 4096;
  constexpr uint64_t kMost = uint64_t{16} << 30;
  for (const uint64_t bytes : {kLeast - 1, kLeast, kMost, kMost + 1}) {
    SCOPED_TRACE(bytes);
    iow_write_stream_options options{};
    options.buffer_bytes = bytes;
    options.budget_bytes = bytes;
    iow_write_stream* stream = nullptr;
    ErrorText text;
    const int error = iow_write_stream_open(service.get(), &stream, &options, text.out());
    if (bytes < kLeast || bytes > kMost) {
      EXPECT_EQ(error, -EINVAL);
      EXPECT_EQ(text.str(), "buffer_bytes must be 4096..17179869184, not " + std::to_string(bytes));
      continue;
    }
    if (error == -ENOMEM) {
      GTEST_SKIP() << "this machine lends no 16 GiB of addresses";
    }
    ASSERT_EQ(error, 0) << text.str();
    iow_lease lease = lease_of(stream);
    EXPECT_EQ(lease.bytes, bytes);
    iow_lease_end(&lease);
    EXPECT_EQ(iow_write_stream_close(stream, 0, nullptr), 0);
  }
}

TEST(StreamOptions, DirectGoesPastThePageCacheAndRefusesFilesWhereThatIsImpossible) {
  const TempDir dir;
  const OwnedService service = open_service({});
  iow_write_stream_options options = small_stream();
  options.path = IOW_PATH_DIRECT;
  iow_write_stream* stream = nullptr;
  ErrorText text;
  ASSERT_EQ(iow_write_stream_open(service.get(), &stream, &options, text.out()), 0) << text.str();
  EXPECT_EQ(iow_write_stream_create(stream, "/proc/self/comm", nullptr, text.out()), -EINVAL);
  EXPECT_THAT(text.str(), ::testing::HasSubstr("use IOW_PATH_AUTO"));
  const int file = iow_write_stream_create(stream, dir.file("result").c_str(), nullptr, text.out());
  if (file >= 0) {
    iow_lease lease = lease_of(stream);
    fill(lease, 0, kBuffer);
    EXPECT_EQ(iow_lease_append(&lease, file, 5000), 0);
    EXPECT_EQ(iow_write_stream_flush(stream, file), 0);
    EXPECT_EQ(stats_of(stream).direct_bytes, 4096u) << "and the rest of the page through it";
  } else {
    EXPECT_THAT(text.str(), ::testing::HasSubstr("use IOW_PATH_AUTO"));
  }
  EXPECT_EQ(iow_write_stream_close(stream, 0, nullptr), 0);
  EXPECT_EQ(content_of(dir.file("result")), pattern(0, file >= 0 ? 5000 : 0));
}

/// The file is the name of this thread.
TEST(StreamOptions, AutoWritesThroughThePageCacheWhereThereIsNoOtherWay) {
  const std::vector<std::byte> name = content_of("/proc/self/comm");
  const OwnedService service = open_service({});
  const iow_write_stream_options options = small_stream();
  iow_write_stream* stream = nullptr;
  ASSERT_EQ(iow_write_stream_open(service.get(), &stream, &options, nullptr), 0);
  ErrorText text;
  const int file = iow_write_stream_create(stream, "/proc/self/comm", nullptr, text.out());
  ASSERT_EQ(file, 0) << text.str();
  iow_lease lease = lease_of(stream);
  std::memset(lease.data, 0, 4096);
  std::memcpy(lease.data, "woven", 5);
  EXPECT_EQ(iow_lease_append(&lease, file, 4096), 0);
  EXPECT_EQ(iow_write_stream_flush(stream, file), 0);
  EXPECT_EQ(stats_of(stream).written_bytes, 4096u);
  EXPECT_EQ(stats_of(stream).direct_bytes, 0u);
  EXPECT_EQ(iow_write_stream_close(stream, 0, nullptr), 0);
  const std::vector<std::byte> found = content_of("/proc/self/comm");
  ASSERT_EQ(found.size(), 6u) << "with the end of its line";
  EXPECT_EQ(std::memcmp(found.data(), "woven", 5), 0);
  std::ofstream("/proc/self/comm")
      .write(reinterpret_cast<const char*>(name.data()),
             static_cast<std::streamsize>(name.size() - 1));
}

// ---- C++

TEST(CppStream, WritesResultsAndReportsWhatFailed) {
  const TempDir dir;
  Service service;
  iow_write_stream_options options = small_stream();
  WriteStream stream(service, options);
  const int file = stream.create(dir.file("result"));
  for (uint64_t item = 0; item < 10; ++item) {
    Lease lease = stream.lease();
    const std::vector<std::byte> content = pattern(item * kBuffer, kBuffer);
    std::copy(content.begin(), content.end(), lease.data().begin());
    lease.append(file, kBuffer);
    EXPECT_FALSE(lease);
  }
  { const Lease unused = stream.lease(); }
  stream.append(file, pattern(10 * kBuffer, 99));
  stream.sync(file);
  EXPECT_EQ(stream.stats().written_bytes, 10 * kBuffer + 99);
  stream.close();
  EXPECT_EQ(content_of(dir.file("result")), pattern(0, 10 * kBuffer + 99));

  WriteStream failing(service, options);
  try {
    static_cast<void>(failing.create(dir.file("no/where")));
    ADD_FAILURE();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ENOENT);
    EXPECT_EQ(error.what(),
              "cannot open '" + dir.file("no/where") + "': No such file or directory");
  }
  Lease lease = failing.lease();
  EXPECT_EQ(lease.as<double>().size(), kBuffer / sizeof(double));
  EXPECT_THROW(lease.append(3, 10), std::system_error);
  std::array<Lease, kBuffers> all;
  for (Lease& one : all) {
    one = failing.lease();
  }
  EXPECT_FALSE(failing.lease_within(std::chrono::nanoseconds(0)).has_value());
  all[0] = Lease();
  EXPECT_TRUE(failing.lease_within(std::chrono::nanoseconds(0)).has_value());
}

/// What a call of C++ throws: its errno and its text. Nothing: 0.
template <typename Call>
std::pair<int, std::string> thrown_by(const Call& call) {
  try {
    call();
  } catch (const std::system_error& error) {
    return {error.code().value(), error.what()};
  }
  return {0, ""};
}

/// One file, in which a write at the offset 2 MiB fails because files may not be so large.
class FailedCppStream : public ::testing::Test {
 protected:
  void fail() { stream.write(file, pattern(0, kBuffer), kTooFar); }
  /// Fails, and the next call may be the first that says so.
  void fail_unsaid() {
    fail();
    while (iow_write_stream_error(stream.raw(), file, nullptr) == 0) {
      std::this_thread::yield();
    }
  }

  TempDir dir;
  Service service;
  WriteStream stream{service, small_stream()};
  const int file = stream.create(dir.file("limited"));
  const SmallFilesOnly limited;
  const std::pair<int, std::string> first{
      EFBIG, "cannot write at offset 2097152 of '" + dir.file("limited") + "': File too large"};
  const std::pair<int, std::string> again{ECANCELED, first.second};
};

TEST_F(FailedCppStream, ThrowsFileAndOffsetFromTheNextLease) {
  fail_unsaid();
  EXPECT_EQ(thrown_by([&] { stream.lease().append(file, 10); }), first);
  EXPECT_EQ(thrown_by([&] { stream.lease().append(file, 10); }), again);
  EXPECT_EQ(thrown_by([&] { stream.lease_within(std::chrono::seconds(-1))->write(file, 10, 0); }),
            again);
}

TEST_F(FailedCppStream, ThrowsFileAndOffsetFromTheNextCopy) {
  fail_unsaid();
  EXPECT_EQ(thrown_by([&] { stream.write(file, pattern(0, 10), 0); }), first);
  EXPECT_EQ(thrown_by([&] { stream.append(file, pattern(0, 10)); }), again);
}

TEST_F(FailedCppStream, ThrowsFileAndOffsetFromTheNextFlush) {
  fail();
  EXPECT_EQ(thrown_by([&] { stream.flush(file); }), first);
  EXPECT_EQ(thrown_by([&] { stream.flush(); }), again);
}

TEST_F(FailedCppStream, ThrowsFileAndOffsetFromTheNextSync) {
  fail();
  EXPECT_EQ(thrown_by([&] { stream.sync(); }), first);
  EXPECT_EQ(thrown_by([&] { stream.sync(file); }), again);
}

TEST_F(FailedCppStream, ThrowsFileAndOffsetFromTheEndOfTheFile) {
  fail();
  EXPECT_EQ(thrown_by([&] { stream.end(file); }), first);
  EXPECT_EQ(thrown_by([&] { stream.close(); }).first, 0) << "its file has ended";
}

TEST_F(FailedCppStream, ThrowsFileAndOffsetFromTheClose) {
  fail();
  EXPECT_EQ(thrown_by([&] { stream.close(); }), first);
  EXPECT_EQ(stream.raw(), nullptr) << "it is closed all the same";
}

TEST_F(FailedCppStream, ThrowsAgainFromTheCloseWhatWasThrownBefore) {
  fail();
  EXPECT_EQ(thrown_by([&] { stream.flush(); }), first);
  EXPECT_EQ(thrown_by([&] { stream.close(); }), again);
}

TEST_F(FailedCppStream, ThrowsOtherErrorsOfACallInWordsOfTheirOwn) {
  fail_unsaid();
  const auto [too_much, why] = thrown_by([&] { stream.lease().append(file, kBuffer + 1); });
  EXPECT_EQ(too_much, EINVAL);
  EXPECT_THAT(why, ::testing::Not(::testing::HasSubstr("offset")));
}

TEST(CppStream, ALeaseThatOutlivesItsStreamIsRefused) {
  const TempDir dir;
  Service service;
  Lease closed;
  Lease destroyed;
  {
    WriteStream stream(service, small_stream());
    static_cast<void>(stream.create(dir.file("result")));
    closed = stream.lease();
    stream.close();
    WriteStream other(service, small_stream());
    WriteStream moved(std::move(other));
    static_cast<void>(moved.create(dir.file("other")));
    destroyed = moved.lease();
  }
  EXPECT_EQ(thrown_by([&] { closed.append(0, 10); }).first, EBADF);
  EXPECT_EQ(thrown_by([&] { destroyed.append(0, 10); }).first, EBADF);
}

}  // namespace
}  // namespace ioweave::test
