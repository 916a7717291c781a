// Write streams over back ends that misbehave: nothing is lost, mixed up or left hanging, and an
// error is told once.
#include "stream/write/write_stream.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>

#include <gtest/gtest.h>

#include "engine/backend.hpp"
#include "service/service.hpp"
#include "stream/write/write_parts.hpp"
#include "support/faulty_backend.hpp"
#include "support/gated_backend.hpp"
#include "support/temp_dir.hpp"
#include "support/temp_file.hpp"

namespace ioweave::stream {
namespace {

using test::pattern;
using test::TempDir;

// ---- How a buffer is divided

TEST(WriteParts, CoverAllBytesOnceAndGoDirectInWholePagesOnly) {
  alignas(kPageBytes) static std::byte memory[2 * kPageBytes];
  std::mt19937 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t shift = random() % 3 == 0 ? random() % kPageBytes : 0;
    const auto offset = static_cast<int64_t>(random() % (1u << 30));
    const int64_t at = random() % 2 == 0 ? offset : offset & ~int64_t{kPageBytes - 1};
    const uint64_t bytes = 1 + random() % (24 * kPageBytes);
    const bool direct = random() % 4 != 0;
    const uint64_t page = kPageBytes << (random() % 2 * 2);
    const WriteParts parts = divide_write(memory + shift, bytes, at, direct, page);
    uint64_t next = 0;
    uint64_t direct_bytes = 0;
    for (uint32_t k = 0; k < parts.count; ++k) {
      const WritePart& part = parts.part[k];
      ASSERT_EQ(part.begin, next);
      ASSERT_GT(part.bytes, 0u);
      next += part.bytes;
      if (part.direct) {
        direct_bytes += part.bytes;
        ASSERT_TRUE(direct);
        ASSERT_EQ((static_cast<uint64_t>(at) + part.begin) % page, 0u);
        ASSERT_EQ((reinterpret_cast<uintptr_t>(memory) + shift + part.begin) % kPageBytes, 0u);
        ASSERT_EQ(part.bytes % page, 0u);
      }
    }
    ASSERT_EQ(next, bytes);
    const bool congruent = static_cast<uint64_t>(at) % kPageBytes == shift;
    if (direct && congruent && bytes >= 2 * page) {
      ASSERT_GT(direct_bytes + 2 * page, bytes);
    }
  }
}

/// io_uring ends what would wait with EAGAIN on descriptors that do not block.
TEST(TargetFile, ItsDescriptorsBlock) {
  const TempDir dir;
  TargetFile file;
  std::string why;
  ASSERT_EQ(file.open(dir.file("result"), {}, IOW_PATH_AUTO, why), 0) << why;
  EXPECT_EQ(::fcntl(file.cached_fd(), F_GETFL) & O_NONBLOCK, 0);
}

/// A regular file whose file system has no O_DIRECT.
constexpr const char* kNoDirectFile = "/proc/self/comm";

TEST(TargetFile, GoesThroughThePageCacheWhereThereIsNoOtherWay) {
  TargetFile file;
  std::string why;
  ASSERT_EQ(file.open(kNoDirectFile, {}, IOW_PATH_AUTO, why), 0) << why;
  EXPECT_GE(file.cached_fd(), 0);
  EXPECT_EQ(file.direct_fd(), -1);
  TargetFile refused;
  EXPECT_EQ(refused.open(kNoDirectFile, {}, IOW_PATH_DIRECT, why), -EINVAL);
  EXPECT_EQ(why,
            "'/proc/self/comm' cannot be written past the page cache (O_DIRECT): Invalid argument; "
            "use IOW_PATH_AUTO");
}

// ---- Faults

constexpr uint64_t kItem = 16 << 10;
constexpr unsigned kItems = 80;

test::FaultOptions faults;

std::unique_ptr<engine::Backend> open_faulty(const engine::BackendOptions& options, int& error,
                                             std::string& why) {
  auto inner = engine::open_backend(options, error, why);
  return inner == nullptr ? nullptr
                          : std::make_unique<test::FaultyBackend>(std::move(inner), faults);
}

/// The same behind a gate.
std::unique_ptr<engine::Backend> open_gated(const engine::BackendOptions& options, int& error,
                                            std::string& why) {
  auto faulty = open_faulty(options, error, why);
  return faulty == nullptr
             ? nullptr
             : std::make_unique<test::GatedBackend>(std::move(faulty), options.entries);
}

class StreamUnderFaults
    : public ::testing::TestWithParam<std::tuple<engine::Kind, iow_write_path, uint64_t>> {
 protected:
  static uint64_t seed() { return std::get<2>(GetParam()); }

  void open_with(const test::FaultOptions& wanted, bool is_gated = false) {
    faults = wanted;
    faults.seed = seed();
    service::Options options;
    options.engine = std::get<0>(GetParam());
    options.open_backend = is_gated ? &open_gated : &open_faulty;
    int error = 0;
    std::string why;
    service = service::Service::open(options, error, why);
    ASSERT_NE(service, nullptr) << why;
    WriteStreamOptions small;
    small.buffer_bytes = kItem;
    small.buffers = 5;
    small.depth = 3;
    small.path = std::get<1>(GetParam());
    stream = WriteStream::open(*service, small);
    ASSERT_NE(stream, nullptr);
    std::string text;
    file = stream->create(dir.file("result"), {}, text);
    ASSERT_EQ(file, 0) << text;
  }

  int write_item(unsigned item) {
    const std::vector<std::byte> content = pattern(item * kItem, kItem);
    const auto at = static_cast<int64_t>(item * kItem);
    if (item % 3 == 0) {
      return stream->copy(file, content.data(), kItem, at);
    }
    WriteStream::Buffer* buffer = nullptr;
    EXPECT_EQ(stream->lease(buffer, -1), 0);
    std::memcpy(WriteStream::lease_of(*buffer).data, content.data(), kItem);
    return stream->write(*buffer, file, kItem, at);
  }

  [[nodiscard]] std::vector<std::byte> content() const {
    std::ifstream in(dir.file("result"), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
    return {begin, begin + text.size()};
  }
  [[nodiscard]] uint64_t intact_bytes() const {
    const std::vector<std::byte> found = content();
    uint64_t intact = 0;
    for (uint64_t at = 0; at + kItem <= found.size(); at += kItem) {
      const std::vector<std::byte> wanted = pattern(at, kItem);
      const bool same =
          std::equal(wanted.begin(), wanted.end(), found.begin() + static_cast<std::ptrdiff_t>(at));
      intact += same ? kItem : 0;
    }
    return intact;
  }

  TempDir dir;
  service::Service::Owner service;
  WriteStream::Owner stream;
  int file = -1;
};
INSTANTIATE_TEST_SUITE_P(, StreamUnderFaults,
                         ::testing::Combine(::testing::Values(engine::Kind::threads,
                                                              engine::Kind::uring),
                                            ::testing::Values(IOW_PATH_AUTO, IOW_PATH_BUFFERED),
                                            ::testing::Range<uint64_t>(1, 7)));

TEST_P(StreamUnderFaults, PassingFaultsNeverShow) {
  SCOPED_TRACE("seed " + std::to_string(seed()));
  test::FaultOptions passing;
  passing.short_transfer = 0.3;
  passing.interrupted = 0.1;
  passing.again = 0.1;
  passing.cancelled = 0.1;
  passing.delay = 0.2;
  passing.reorder = true;
  open_with(passing);
  for (unsigned item = 0; item < kItems; ++item) {
    ASSERT_EQ(write_item(item), 0);
    if (item % 25 == 24) {
      ASSERT_EQ(stream->sync(file), 0);
      ASSERT_EQ(intact_bytes(), (item + 1) * kItem);
    }
  }
  std::string why;
  EXPECT_EQ(stream->close(true, why), 0) << why;
  EXPECT_EQ(content(), pattern(0, kItems * kItem));
}

/// As by a device whose blocks are larger than pages. The first write, a copy of whole pages, went.
TEST_P(StreamUnderFaults, DirectWritesThatAreRefusedGoThroughThePageCache) {
  const test::TempFile probe(4096, O_RDWR | O_DIRECT);
  const bool is_direct = std::get<1>(GetParam()) == IOW_PATH_AUTO;
  if (is_direct && probe.fd() < 0) {
    GTEST_SKIP() << "the file system of the temporary directory has no O_DIRECT";
  }
  for (const uint64_t written_before : {0, 1}) {
    test::FaultOptions refusing;
    refusing.no_direct = true;
    refusing.only_below = std::filesystem::canonical(dir.path());
    refusing.spared = written_before;
    open_with(refusing);
    for (unsigned item = 0; item < kItems; ++item) {
      ASSERT_EQ(write_item(item), 0);
    }
    ASSERT_EQ(stream->sync(file), 0);
    EXPECT_EQ(content(), pattern(0, kItems * kItem));
    const iow_write_stream_stats stats = stream->statistics();
    EXPECT_EQ(stats.direct_bytes, is_direct ? written_before * kItem : 0);
    EXPECT_EQ(stats.written_bytes, kItems * kItem);
    std::string why;
    EXPECT_EQ(stream->close(true, why), 0) << why;
    stream = nullptr;
  }
}

TEST_P(StreamUnderFaults, AnErrorAtAnyPlaceIsToldOnceAndWhatWasWrittenStays) {
  SCOPED_TRACE("seed " + std::to_string(seed()));
  test::FaultOptions lasting;
  lasting.io_error = seed() % 2 == 0 ? 0.03 : 0.2;
  lasting.no_space = 0.03;
  lasting.delay = 0.3;
  lasting.reorder = true;
  open_with(lasting);
  std::vector<int> told;
  uint64_t handed_over = 0;
  for (unsigned item = 0; item < kItems; ++item) {
    const int error = write_item(item);
    handed_over += kItem;
    if (error != 0) {
      told.push_back(error);
    }
    if (item % 20 == 19) {
      const int flushed = seed() % 3 == 0 ? stream->sync(file) : stream->flush(file);
      if (flushed != 0) {
        told.push_back(flushed);
      }
    }
  }
  std::string text;
  const int first = stream->tell_error(file, text);
  std::string why;
  const int closed = stream->close(false, why);
  const auto is_new = [](int error) { return error == -EIO || error == -ENOSPC; };
  const auto times = std::count_if(told.begin(), told.end(), is_new) + (is_new(closed) ? 1 : 0);
  if (first != 0) {
    EXPECT_TRUE(is_new(first)) << first;
    EXPECT_NE(text.find(dir.file("result")), std::string::npos) << text;
  }
  EXPECT_EQ(times, closed != 0 || !told.empty() ? 1 : 0);
  if (!told.empty()) {
    EXPECT_TRUE(is_new(told.front()));
    EXPECT_TRUE(std::all_of(told.begin() + 1, told.end(), [](int e) { return e == -ECANCELED; }));
    EXPECT_EQ(closed, -ECANCELED);
  }
  const iow_write_stream_stats stats = stream->statistics();
  EXPECT_EQ(stats.written_bytes + stats.dropped_bytes, handed_over);
  EXPECT_GE(intact_bytes(), stats.written_bytes);
}

/// Three fail, in any order, and one that waits behind them is dropped.
TEST_P(StreamUnderFaults, TheErrorIsThatOfTheWriteThatWasHandedOverFirst) {
  SCOPED_TRACE("seed " + std::to_string(seed()));
  test::FaultOptions lasting;
  lasting.io_error = 1;
  lasting.delay = 0.5;
  lasting.reorder = true;
  test::GatedBackend::close_gate();
  open_with(lasting, true);
  for (unsigned item = 0; item < 4; ++item) {
    EXPECT_EQ(write_item(item), 0);
  }
  test::GatedBackend::open_gate();
  EXPECT_EQ(stream->flush(file), -EIO);
  std::string why;
  EXPECT_EQ(stream->close(false, why), -ECANCELED);
  EXPECT_EQ(why, "cannot write at offset 0 of '" + dir.file("result") + "': Input/output error");
  EXPECT_EQ(stream->statistics().dropped_bytes, 4 * kItem);
}

/// Of several threads, some of which give up, and waits that end meanwhile.
TEST_P(StreamUnderFaults, NobodyIsLeftWaiting) {
  SCOPED_TRACE("seed " + std::to_string(seed()));
  test::FaultOptions lasting;
  lasting.io_error = seed() % 2 == 0 ? 0.02 : 0;
  lasting.delay = 0.3;
  lasting.reorder = true;
  open_with(lasting);
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937 random(static_cast<unsigned>(seed()) * 10 + thread);
      for (unsigned item = thread; item < kItems; item += 4) {
        WriteStream::Buffer* buffer = nullptr;
        const int error = stream->lease(buffer, random() % 3 == 0 ? 50'000 : -1);
        if (error != 0) {
          EXPECT_EQ(error, -ETIME);
          continue;
        }
        if (random() % 5 == 0) {
          stream->end_lease(*buffer);
        } else {
          const std::vector<std::byte> content = pattern(item * kItem, kItem);
          std::memcpy(WriteStream::lease_of(*buffer).data, content.data(), kItem);
          static_cast<void>(
              stream->write(*buffer, file, kItem, static_cast<int64_t>(item * kItem)));
        }
        if (random() % 10 == 0) {
          static_cast<void>(random() % 2 == 0 ? stream->sync(file) : stream->flush(IOW_ALL_FILES));
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::string why;
  static_cast<void>(stream->close(true, why));
  EXPECT_GE(intact_bytes(), stream->statistics().written_bytes);
}

}  // namespace
}  // namespace ioweave::stream
