// Writes behind the program: in the program's order, seen by whoever drains, and their errors told
// once.

#include "calls/mpiio/write_behind.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "calls/mpiio/range_set.hpp"
#include "support/faulty_backend.hpp"
#include "support/temp_file.hpp"

namespace {

using namespace ioweave;
using calls::RangeSet;
using calls::WriteBehind;
using calls::Writers;

TEST(RangeSet, JoinsWhatTouchesAndRefusesWhatOverlaps) {
  RangeSet set;
  EXPECT_TRUE(set.add({0, 10}));
  EXPECT_TRUE(set.add({20, 10}));
  EXPECT_EQ(set.size(), 2u);
  EXPECT_FALSE(set.add({9, 2}));
  EXPECT_FALSE(set.add({15, 6}));
  EXPECT_FALSE(set.add({0, 100}));
  EXPECT_FALSE(set.add({22, 1}));
  EXPECT_TRUE(set.add({10, 10}));
  EXPECT_EQ(set.size(), 1u) << "0 to 30";
  EXPECT_TRUE(set.add({30, 1}));
  EXPECT_EQ(set.size(), 1u);
  EXPECT_FALSE(set.add({30, 1}));
}

test::FaultOptions faults;

std::unique_ptr<engine::Backend> open_faulty(const engine::BackendOptions& options, int& error,
                                             std::string& why) {
  auto inner = engine::open_backend(options, error, why);
  return inner == nullptr ? nullptr
                          : std::make_unique<test::FaultyBackend>(std::move(inner), faults);
}

class WriteBehindTest : public testing::Test {
 protected:
  void open(const test::FaultOptions& wanted) {
    faults = wanted;
    service::Options options;
    options.open_backend = &open_faulty;
    int error = 0;
    std::string why;
    service_ = service::Service::open(options, error, why);
    ASSERT_NE(service_, nullptr) << why;
    stream::WriteStreamOptions of_stream;
    of_stream.path = IOW_PATH_BUFFERED;
    of_stream.buffer_bytes = 64 << 10;
    of_stream.buffers = 4;
    of_stream.depth = 4;
    stream_ = stream::WriteStream::open(*service_, of_stream);
    writer_ = share();
    ASSERT_NE(writer_, nullptr);
  }
  /// Opens anew; transfers are late, short, interrupted, refused for a moment, and reordered.
  void open_disturbed(uint64_t seed) {
    writer_ = nullptr;
    stream_ = nullptr;
    test::FaultOptions wanted;
    wanted.seed = seed;
    wanted.short_transfer = 0.1;
    wanted.interrupted = 0.05;
    wanted.again = 0.05;
    wanted.delay = 0.3;
    wanted.reorder = true;
    open(wanted);
  }
  std::shared_ptr<WriteBehind> share() {
    stream::FileState state;
    EXPECT_EQ(stream::find_state(file_.fd(), state), 0);
    id_ = state.id;
    return writers_.share(state.id, *stream_, 8);
  }
  [[nodiscard]] std::vector<std::byte> read(uint64_t at, uint64_t bytes) const {
    std::vector<std::byte> found(bytes);
    EXPECT_EQ(::pread(file_.fd(), found.data(), bytes, static_cast<off_t>(at)),
              static_cast<ssize_t>(bytes));
    return found;
  }

  test::TempFile file_{1 << 20, O_RDWR};
  service::Service::Owner service_;
  stream::WriteStream::Owner stream_;
  Writers writers_;
  FileId id_;
  std::shared_ptr<WriteBehind> writer_;
};

TEST_F(WriteBehindTest, WritesAreMadeInTheProgramsOrder) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    open_disturbed(seed);
    std::vector<std::byte> model = read(0, 1 << 20);
    std::mt19937_64 random(seed);
    for (int step = 0; step < 300; ++step) {
      const uint64_t at = random() % ((1 << 20) - 100'000);
      const uint64_t bytes = 1 + random() % (step % 4 == 0 ? 100'000 : 3000);
      const std::vector<std::byte> data(bytes, static_cast<std::byte>(random()));
      ASSERT_TRUE(
          writer_->take({static_cast<int64_t>(at), static_cast<int64_t>(bytes)}, data.data()));
      std::copy(data.begin(), data.end(), model.begin() + static_cast<std::ptrdiff_t>(at));
      if (step % 50 == 49) {
        step % 100 == 99 ? writers_.drain_all() : writers_.drain(id_);
        ASSERT_EQ(read(0, 1 << 20), model) << "step " << step;
      }
    }
    EXPECT_EQ(writer_->take_error(), 0);
    EXPECT_EQ(read(0, 1 << 20), model);
  }
}

/// Each writes to a part of the file of its own, over what it has written, too, and looks now and
/// then.
TEST_F(WriteBehindTest, ThreadsWriteAtTheSameTime) {
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kPart = (1 << 20) / kThreads;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    open_disturbed(seed);
    std::array<uint64_t, kThreads> wrong{};
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        std::mt19937_64 random(seed * kThreads + i);
        std::vector<std::byte> model = read(i * kPart, kPart);
        for (int step = 0; step < 200; ++step) {
          const uint64_t bytes = 1 + random() % (step % 4 == 0 ? 60'000 : 3000);
          const uint64_t at = random() % (kPart - bytes);
          std::byte* const from = model.data() + at;
          std::fill_n(from, bytes, static_cast<std::byte>(random()));
          wrong[i] += !writer_->take(
              {static_cast<int64_t>(i * kPart + at), static_cast<int64_t>(bytes)}, from);
          if (step % 40 == 39) {
            writer_->drain();
            wrong[i] += read(i * kPart, kPart) != model;
          }
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(wrong, (std::array<uint64_t, kThreads>{}));
    EXPECT_EQ(writer_->take_error(), 0);
  }
}

TEST_F(WriteBehindTest, AnErrorIsToldOnceAndTheRestIsTheProgramsToWrite) {
  test::FaultOptions wanted;
  wanted.seed = 1;
  wanted.no_space = 1;
  open(wanted);
  const std::vector<std::byte> data(4096, std::byte{7});
  ASSERT_TRUE(writer_->take({0, 4096}, data.data()));
  EXPECT_EQ(writer_->take_error(), -ENOSPC);
  EXPECT_EQ(writer_->take_error(), 0);
  EXPECT_FALSE(writer_->take({0, 4096}, data.data()));
}

TEST_F(WriteBehindTest, AnErrorThatASettleMeetsIsKept) {
  test::FaultOptions wanted;
  wanted.seed = 1;
  wanted.io_error = 1;
  open(wanted);
  const std::vector<std::byte> data(4096, std::byte{7});
  ASSERT_TRUE(writer_->take({0, 4096}, data.data()));
  writer_->drain();
  EXPECT_FALSE(writer_->take({8192, 4096}, data.data()));
  EXPECT_EQ(writer_->take_error(), -EIO);
}

TEST_F(WriteBehindTest, AFileHasOneWriterAndItsEndSettles) {
  open({});
  EXPECT_EQ(share(), writer_);
  const std::vector<std::byte> data(4096, std::byte{7});
  ASSERT_TRUE(writer_->take({100, 4096}, data.data()));
  writer_ = nullptr;
  EXPECT_EQ(read(100, 4096), data);
  EXPECT_NE(share(), nullptr);
}

TEST_F(WriteBehindTest, ThereAreNoMoreThanAllowed) {
  open({});
  const test::TempFile other(4096);
  stream::FileState state;
  ASSERT_EQ(stream::find_state(other.fd(), state), 0);
  EXPECT_EQ(writers_.share(state.id, *stream_, 1), nullptr);
  EXPECT_NE(writers_.share(state.id, *stream_, 2), nullptr);
}

TEST_F(WriteBehindTest, ErrorsThatNobodyAskedForAreFound) {
  test::FaultOptions wanted;
  wanted.seed = 1;
  wanted.no_space = 1;
  open(wanted);
  const std::vector<std::byte> data(4096, std::byte{7});
  ASSERT_TRUE(writer_->take({0, 4096}, data.data()));
  EXPECT_EQ(writers_.take_errors(), -ENOSPC);
  EXPECT_EQ(writers_.take_errors(), 0);
}

TEST_F(WriteBehindTest, AFileThatIsNotOpenToWriteHasNone) {
  open({});
  const test::TempFile other(4096, O_RDONLY);
  stream::FileState state;
  ASSERT_EQ(stream::find_state(other.fd(), state), 0);
  EXPECT_EQ(writers_.share(state.id, *stream_, 8), nullptr);
}

}  // namespace
