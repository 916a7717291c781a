// Reads are overlapped: on a device slow enough for it to matter (bench/slowfs), what a chunked
// reader asks for next is in the page cache before it asks.

#include <cstdlib>
#include <sstream>

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "preload/run.hpp"

namespace ioweave {
namespace {

using stats::RunPolicy;
using namespace ioweave::testing;

constexpr uint64_t kMiB = 1u << 20;
constexpr const char* kSlowfs = IOWEAVE_SLOWFS;

/// A directory behind a device of 400 MB/s and 0.2 ms.
class SlowDevice {
 public:
  SlowDevice() {
    mkdir((directory_ / "source").c_str(), 0700);
    mkdir((directory_ / "slow").c_str(), 0700);
  }
  ~SlowDevice() {
    if (mounted_) {
      [[maybe_unused]] const int status =
          std::system((std::string(kSlowfs) + " --unmount " + (directory_ / "slow")).c_str());
    }
  }
  SlowDevice(const SlowDevice&) = delete;
  SlowDevice& operator=(const SlowDevice&) = delete;

  [[nodiscard]] bool mount() {
    const std::string command = std::string(kSlowfs) +
                                " --read-mb-s 400 --write-mb-s 400 --latency-us 200 " +
                                (directory_ / "source") + " " + (directory_ / "slow");
    mounted_ = std::system(command.c_str()) == 0;
    return mounted_;
  }
  [[nodiscard]] std::string file(uint64_t bytes) const {
    write_pattern(directory_ / "source/data.bin", bytes);
    return directory_ / "slow/data.bin";
  }

 private:
  TemporaryDirectory directory_{true};
  bool mounted_ = false;
};

struct Seen {
  std::string checksum;
  int chunks = 0;
  int resident = 0;
};

class Overlap : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kSlowfs[0] == '\0') {
      GTEST_SKIP() << "ioweave-slowfs is not built";
    }
    if (access("/dev/fuse", R_OK | W_OK) != 0) {
      GTEST_SKIP() << "no access to /dev/fuse";
    }
    if (!device.mount()) {
      GTEST_SKIP() << "slowfs cannot be mounted here";
    }
  }

  Seen read_chunks(RunPolicy policy, const std::string& path, uint64_t chunk, uint64_t compute_us,
                   uint64_t stride = 0) {
    EXPECT_TRUE(drop_from_cache(path));
    finished = run(with_policy(policy), {IOWEAVE_CHUNK_READER, path, std::to_string(chunk),
                                         std::to_string(compute_us), std::to_string(stride)});
    EXPECT_TRUE(finished.exited_with(0)) << finished.err;
    Seen seen;
    std::istringstream(finished.out) >> seen.checksum >> seen.chunks >> seen.resident;
    return seen;
  }

  SlowDevice device;
  Finished finished;
};

// Each chunk is computed on for about three times as long as it takes to read: on a busy machine
// too the next one should be there. "Most" leaves room for a scheduler that had other things to do.
void expect_most_resident(const Seen& seen, int unhidden) {
  if (seen.resident < 0) {
    GTEST_SKIP() << "no cachestat(2) in this kernel";
  }
  EXPECT_GE(seen.resident, (seen.chunks - unhidden) / 2);
}

TEST_F(Overlap, TheNextChunkIsThereBeforeItIsRead) {
  const std::string path = device.file(48 * kMiB);
  const Seen plain = read_chunks(RunPolicy::off, path, 8 * kMiB, 0);
  const Seen seen = read_chunks(RunPolicy::overlap, path, 8 * kMiB, 60'000);
  EXPECT_EQ(seen.checksum, plain.checksum);
  expect_most_resident(seen, 1);
  const auto* record = record_of(finished, "data.bin");
  ASSERT_NE(record, nullptr);
  EXPECT_GT(record->prefetched_used_bytes.load(), 0u);
  EXPECT_LE(record->prefetched_used_bytes.load(), record->prefetched_bytes.load());
}

TEST_F(Overlap, SmallChunksToo) {
  const std::string path = device.file(16 * kMiB);
  const Seen plain = read_chunks(RunPolicy::off, path, 256 << 10, 0);
  const Seen seen = read_chunks(RunPolicy::overlap, path, 256 << 10, 2'000);
  EXPECT_EQ(seen.checksum, plain.checksum);
  expect_most_resident(seen, 4);
}

TEST_F(Overlap, ChunkSizedHolesToo) {
  const std::string path = device.file(64 * kMiB);
  const Seen plain = read_chunks(RunPolicy::off, path, 2 * kMiB, 0, 8 * kMiB);
  const Seen seen = read_chunks(RunPolicy::overlap, path, 2 * kMiB, 20'000, 8 * kMiB);
  EXPECT_EQ(seen.checksum, plain.checksum);
  expect_most_resident(seen, 3);
}

TEST_F(Overlap, AFileThatWasMadeSmallAndIsReadWithGainHasNoReasonToBeLeftAlone) {
  const std::string path = device.file(0);
  finished = run(with_policy(RunPolicy::overlap), {IOWEAVE_SCENARIO, "makes_and_reads", path});
  ASSERT_TRUE(finished.exited_with(0)) << finished.err;
  const auto* record = record_of(finished, "data.bin");
  ASSERT_NE(record, nullptr);
  if (record->prefetched_used_bytes.load() == 0) {
    GTEST_SKIP() << "what was written did not leave the page cache";
  }
  EXPECT_EQ(stats::kDegradeNames[record->degrade.load()], "none");
}

TEST_F(Overlap, NothingIsBroughtInTwiceForAFileThatIsCached) {
  const std::string path = device.file(32 * kMiB);
  // A machine that reclaims memory of its own accord (DAMON does, on hosts of many guests) may
  // evict pages between the two runs: then they are brought in, and rightly.
  constexpr int kTries = 5;
  uint64_t brought_in = UINT64_MAX;
  for (int i = 0; i < kTries && brought_in != 0; ++i) {
    (void)read_chunks(RunPolicy::off, path, kMiB, 0);
    finished = run(with_policy(RunPolicy::overlap), {IOWEAVE_CHUNK_READER, path, "1048576", "0"});
    const auto* record = record_of(finished, "data.bin");
    ASSERT_NE(record, nullptr);
    brought_in = record->prefetched_bytes.load();
  }
  EXPECT_EQ(brought_in, 0u);
}

TEST_F(Overlap, OffBringsInNothing) {
  const std::string path = device.file(8 * kMiB);
  const Seen seen = read_chunks(RunPolicy::off, path, 2 * kMiB, 1'000);
  EXPECT_EQ(finished.images.at(0)->prefetch_operations.load(), 0u);
  EXPECT_EQ(seen.chunks, 4);
}

}  // namespace
}  // namespace ioweave
