// Each way of writing puts every byte at its place, keeps to its buffers, and tells of failures.
#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error.hpp"
#include "output_file.hpp"
#include "placement.hpp"
#include "result_writer.hpp"

namespace {

namespace fs = std::filesystem;
using cube::BufferOptions;
using cube::CubeError;
using cube::Item;
using cube::Mode;
using cube::WriterOptions;
using testing::HasSubstr;

constexpr size_t kItemBytes = 8192;

class CubeWriter : public testing::TestWithParam<std::tuple<Mode, bool, bool, bool, bool>> {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "cube-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }

  [[nodiscard]] WriterOptions options(uint64_t items) const {
    const auto [mode, aligned, pooled, huge, pinned] = GetParam();
    WriterOptions options;
    options.mode = mode;
    options.path = (directory_ / "out").string();
    options.bytes = items * kItemBytes;
    options.buffers = {.bytes = kItemBytes,
                       .count = 3,
                       .is_aligned = aligned,
                       .is_pooled = pooled,
                       .is_huge = huge};
    options.is_pinned = pinned;
    return options;
  }
  [[nodiscard]] std::vector<char> content() const {
    std::ifstream file(directory_ / "out", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path directory_;
};

void write_item(cube::ResultWriter& writer, uint64_t number) {
  const Item item = writer.begin();
  ASSERT_EQ(item.data.size(), kItemBytes);
  std::fill(item.data.begin(), item.data.end(), static_cast<std::byte>(number % 251));
  writer.hand_over(item, kItemBytes, number * kItemBytes);
}

TEST_P(CubeWriter, PutsEachItemAtItsPlace) {
  constexpr uint64_t kItems = 100;
  {
    const auto writer = cube::make_writer(options(kItems));
    for (uint64_t i = kItems; i-- > 0;) write_item(*writer, i);
    writer->finish();
    writer->sync();
  }
  const std::vector<char> bytes = content();
  ASSERT_EQ(bytes.size(), kItems * kItemBytes);
  for (size_t i = 0; i < bytes.size(); i += 512) {
    ASSERT_EQ(static_cast<uint8_t>(bytes[i]), i / kItemBytes % 251) << i;
  }
}

TEST_P(CubeWriter, ServesSeveralThreads) {
  constexpr uint64_t kItems = 400;
  {
    const auto writer = cube::make_writer(options(kItems));
    std::atomic<uint64_t> next{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (uint64_t item; (item = next++) < kItems;) write_item(*writer, item);
      });
    }
    for (std::thread& thread : threads) thread.join();
    writer->finish();
  }
  const std::vector<char> bytes = content();
  ASSERT_EQ(bytes.size(), kItems * kItemBytes);
  for (size_t i = 0; i < bytes.size(); i += 512) {
    ASSERT_EQ(static_cast<uint8_t>(bytes[i]), i / kItemBytes % 251) << i;
  }
}

TEST_P(CubeWriter, WritesThePartOfABufferThatIsHandedOver) {
  {
    WriterOptions wanted = options(1);
    wanted.bytes = 100;
    const auto writer = cube::make_writer(wanted);
    const Item item = writer->begin();
    std::fill(item.data.begin(), item.data.end(), std::byte{7});
    writer->hand_over(item, 100, 0);
    writer->finish();
  }
  EXPECT_EQ(content(), std::vector<char>(100, 7));
}

TEST_P(CubeWriter, HasSoManyBuffersAndTakesThemBack) {
  const auto writer = cube::make_writer(options(1));
  std::set<const std::byte*> seen;
  for (int round = 0; round < 10; ++round) {
    std::vector<Item> items;
    for (int i = 0; i < 3; ++i) items.push_back(writer->begin());
    std::set<const std::byte*> now;
    for (const Item& item : items) now.insert(item.data.data());
    EXPECT_EQ(now.size(), 3u);
    seen.insert(now.begin(), now.end());
    for (const Item& item : items) writer->drop(item);
  }
  if (std::get<2>(GetParam())) {  // pooled
    EXPECT_EQ(seen.size(), 3u);
  }
}

TEST_P(CubeWriter, LendsBuffersWhenAllIsOnTheDevice) {
  const auto writer = cube::make_writer(options(2));
  write_item(*writer, 0);
  write_item(*writer, 1);
  writer->finish();
  writer->sync();
  for (int round = 0; round < 10; ++round) {
    const Item item = writer->begin();
    std::fill(item.data.begin(), item.data.end(), std::byte{99});
    writer->drop(item);
  }
  const std::vector<char> bytes = content();
  ASSERT_EQ(bytes.size(), 2 * kItemBytes);
  EXPECT_EQ(bytes[0], 0);
  EXPECT_EQ(bytes[kItemBytes], 1);
}

TEST_P(CubeWriter, TellsThatAWriteFailed) {
  // Behind the limit of the file's size; the signal that comes with it is ignored.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  std::string message;
  {
    WriterOptions wanted = options(0);
    const auto writer = cube::make_writer(wanted);
    const rlimit small{.rlim_cur = 10 * kItemBytes, .rlim_max = before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    try {
      for (uint64_t i = 0; i < 20; ++i) write_item(*writer, i);
      writer->finish();
    } catch (const CubeError& error) {
      message = error.what();
    }
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, HasSubstr("File too large"));
  // Ioweave's writes end in any order; the others write one after the other.
  const bool ordered = std::get<0>(GetParam()) != Mode::kIoweave;
  EXPECT_THAT(message, HasSubstr(ordered ? "offset 81920" : "offset "));
}

std::string name_of(const testing::TestParamInfo<CubeWriter::ParamType>& info) {
  const auto [mode, aligned, pooled, huge, pinned] = info.param;
  return std::string(cube::mode_name(mode)) + (aligned ? "Aligned" : "") +
         (pooled ? "Pooled" : "") + (huge ? "Huge" : "") + (pinned ? "Pinned" : "");
}

INSTANTIATE_TEST_SUITE_P(
    All, CubeWriter,
    testing::Values(CubeWriter::ParamType{Mode::kSynchronous, false, false, false, false},
                    CubeWriter::ParamType{Mode::kSynchronous, true, true, true, true},
                    CubeWriter::ParamType{Mode::kAio, false, false, false, false},
                    CubeWriter::ParamType{Mode::kAio, false, false, false, true},
                    CubeWriter::ParamType{Mode::kAio, true, false, false, true},
                    CubeWriter::ParamType{Mode::kAio, true, true, false, true},
                    CubeWriter::ParamType{Mode::kAio, true, false, true, true},
                    CubeWriter::ParamType{Mode::kAio, false, true, true, false},
                    CubeWriter::ParamType{Mode::kIoweave, true, true, false, false},
                    CubeWriter::ParamType{Mode::kIoweave, true, true, true, true}),
    name_of);

class CubeOutputFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "cube-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }
  /// Memory that begins at a page.
  static std::span<std::byte> pages() {
    alignas(cube::kPageBytes) static std::array<std::byte, 3 * cube::kPageBytes> memory;
    return memory;
  }

  fs::path directory_;
};

TEST_F(CubeOutputFile, TakesWholePagesPastThePageCacheAndNothingElse) {
  const std::string probe = (directory_ / "probe").string();
  const int fd = open(probe.c_str(), O_WRONLY | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
  if (fd == -1) GTEST_SKIP() << "no O_DIRECT in " << directory_;
  close(fd);
  const cube::OutputFile file((directory_ / "out").string(), 100000, cube::WritePath::kDirect);
  const auto is_direct = [&](std::span<const std::byte> bytes, uint64_t offset) {
    return (fcntl(file.fd_for(bytes, offset), F_GETFL) & O_DIRECT) != 0;
  };
  const std::span<std::byte> memory = pages();
  EXPECT_TRUE(is_direct(memory, 0));
  EXPECT_TRUE(is_direct(memory.first(cube::kPageBytes), 2 * cube::kPageBytes));
  EXPECT_FALSE(is_direct(memory, 512));
  EXPECT_FALSE(is_direct(memory.first(100), 0));
  EXPECT_FALSE(is_direct(memory.subspan(16, cube::kPageBytes), 0));
}

TEST_F(CubeOutputFile, GoesThroughThePageCacheUnlessAskedOtherwise) {
  for (const cube::WritePath path : {cube::WritePath::kAuto, cube::WritePath::kBuffered}) {
    const cube::OutputFile file((directory_ / "out").string(), 100000, path);
    EXPECT_EQ(fcntl(file.fd_for(pages(), 0), F_GETFL) & O_DIRECT, 0);
  }
}

TEST(CubeBuffers, BeginAtAPageIfAskedOrInHugePages) {
  for (const bool pooled : {false, true}) {
    for (const bool huge : {false, true}) {
      cube::Buffers buffers({.bytes = 3 * cube::kPageBytes,
                             .count = 4,
                             .is_aligned = true,
                             .is_pooled = pooled,
                             .is_huge = huge});
      std::vector<std::byte*> taken;
      for (int i = 0; i < 4; ++i) taken.push_back(buffers.take());
      for (std::byte* buffer : taken) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer) % cube::kPageBytes, 0u);
        std::fill_n(buffer, 3 * cube::kPageBytes, std::byte{1});
        buffers.give_back(buffer);
      }
    }
  }
}

TEST(CubePlacement, DividesTheProcessorsItMayUse) {
  const cube::Placement placement = cube::choose_placement();
  cpu_set_t mask;
  CPU_ZERO(&mask);
  ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
  const int allowed = CPU_COUNT(&mask);
  if (allowed < 2) {
    EXPECT_TRUE(placement.io.empty());
    return;
  }
  EXPECT_EQ(placement.io.size(), 1u);
  EXPECT_EQ(placement.computing.size(), static_cast<size_t>(allowed - 1));
  EXPECT_TRUE(CPU_ISSET(static_cast<size_t>(placement.io[0]), &mask));
}

TEST(CubePlacement, HasNothingToDivideOnOneProcessor) {
  const cube::Placement all = cube::choose_placement();
  if (all.io.empty()) GTEST_SKIP() << "one processor only, or too many to name";
  const cube::OnProcessors one(all.io);
  EXPECT_TRUE(cube::choose_placement().io.empty());
}

TEST(CubePlacement, GivesThreadsBackWhereTheyWere) {
  const cube::Placement before = cube::choose_placement();
  { const cube::OnProcessors there(before.io); }
  EXPECT_EQ(cube::choose_placement().computing, before.computing);
}

}  // namespace
