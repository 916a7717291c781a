// A block that cannot be read, in a file that is read ahead: who reads it gets the error, and
// nobody else.
#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "bench/slowfs_fixture.hpp"
#include "service/service.hpp"
#include "stream/plan/plan.hpp"

namespace ioweave::stream {
namespace {

constexpr uint64_t kFile = 4 << 20;
constexpr uint64_t kBlock = 64 << 10;
constexpr const char* kBadAt = "2100000";

/// What a read returned, with its bytes.
struct Found {
  int64_t result = 0;
  std::vector<std::byte> bytes;
  bool operator==(const Found&) const = default;
};

class BadBlock : public slowfs_test::SlowfsMount,
                 public testing::WithParamInterface<iow_plan_schedule> {
 protected:
  void mount_cold() {
    mount({"--bad-at", kBadAt, "--latency-us", "200"});
    fd_ = ::open(mounted("data").c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_NE(fd_, -1);
  }
  void leave() {
    ::close(fd_);
    unmount();
  }
  template <typename Read>
  [[nodiscard]] static std::vector<Found> read_blocks(const Read& read) {
    std::vector<Found> found;
    for (uint64_t at = 0; at < kFile; at += kBlock) {
      Found each{0, std::vector<std::byte>(kBlock)};
      each.result = read(each.bytes.data(), static_cast<int64_t>(at));
      each.bytes.resize(each.result > 0 ? static_cast<size_t>(each.result) : 0);
      found.push_back(std::move(each));
    }
    return found;
  }

  int fd_ = -1;
};

TEST_P(BadBlock, ItsErrorReachesWhoeverReadsItAndNobodyElse) {
  make_source_file("data", kFile);
  ASSERT_NO_FATAL_FAILURE(mount_cold());
  const std::vector<Found> plain = read_blocks([&](std::byte* to, int64_t at) -> int64_t {
    const ssize_t got = ::pread(fd_, to, kBlock, at);
    return got < 0 ? -errno : got;
  });
  leave();
  ASSERT_EQ(plain[2'100'000 / kBlock].result, -EIO);

  ASSERT_NO_FATAL_FAILURE(mount_cold());
  {
    int error = 0;
    std::string why;
    const service::Service::Owner service = service::Service::open({}, error, why);
    ASSERT_NE(service, nullptr) << why;
    PlanOptions options;
    options.schedule = GetParam();
    options.slice_bytes = 256 << 10;
    options.reads_cached = true;  // the kernel's own reading ahead may meet the block first
    const Plan::Owner plan = Plan::open(*service, options, error, why);
    ASSERT_NE(plan, nullptr) << why;
    ASSERT_EQ(plan->add_strided(fd_, 0, kBlock, kBlock, kFile / kBlock), 0);
    for (int tries = 0; tries < 20'000 && plan->statistics().failed_slices == 0; ++tries) {
      ::usleep(1000);
    }
    EXPECT_GT(plan->statistics().failed_slices, 0u);
    const std::vector<Found> planned =
        read_blocks([&](std::byte* to, int64_t at) { return plan->read(fd_, to, kBlock, at); });
    for (size_t i = 0; i < plain.size(); ++i) {
      EXPECT_TRUE(planned[i] == plain[i])
          << "block " << i << ": " << planned[i].result << ", not " << plain[i].result;
    }
    EXPECT_GT(plan->statistics().hit_bytes, 0u);
    ASSERT_EQ(plan->forget(fd_), 0);
  }
  leave();
}

/// What `auto` has settled on after it has read a file ahead.
class AutoSchedule : public slowfs_test::SlowfsMount {
 protected:
  /// On a machine that has other things to do one of the two stretches that are compared may take
  /// longer: it is tried some times.
  [[nodiscard]] iow_plan_stats settle_on(iow_plan_schedule wanted,
                                         const std::vector<std::string>& device) {
    make_source_file("data", kLargeFile);
    iow_plan_stats stats = settle(device);
    for (int tries = 1; tries < 5 && stats.schedule != wanted; ++tries) {
      stats = settle(device);
    }
    return stats;
  }

 private:
  [[nodiscard]] iow_plan_stats settle(const std::vector<std::string>& device) {
    iow_plan_stats stats{};
    mount(device);
    const int fd = ::open(mounted("data").c_str(), O_RDONLY | O_CLOEXEC);
    EXPECT_NE(fd, -1);
    int error = 0;
    std::string why;
    const service::Service::Owner service = service::Service::open({}, error, why);
    EXPECT_NE(service, nullptr) << why;
    PlanOptions options;
    options.slice_bytes = 256 << 10;  // more than the kernel reads ahead of one of them
    const Plan::Owner plan = Plan::open(*service, options, error, why);
    EXPECT_NE(plan, nullptr) << why;
    EXPECT_EQ(plan->add_strided(fd, 0, kLargeFile, 0, 1), 0);
    for (int tries = 0; tries < 20'000 && plan->statistics().ahead_bytes < kLargeFile; ++tries) {
      ::usleep(1000);
    }
    stats = plan->statistics();
    EXPECT_EQ(plan->forget(fd), 0);
    ::close(fd);
    unmount();
    return stats;
  }

  static constexpr uint64_t kLargeFile = 32 << 20;
};

TEST_F(AutoSchedule, IsPpWhereReadsDoNotSlowEachOtherDown) {
  const iow_plan_stats stats = settle_on(IOW_PLAN_PP, {"--latency-us", "10000"});
  EXPECT_EQ(stats.is_settled, 1);
  EXPECT_EQ(stats.schedule, IOW_PLAN_PP) << stats.gain_of_two;
  EXPECT_GT(stats.gain_of_two, 1.3);
  EXPECT_GT(stats.depth, 2u);
}

TEST_F(AutoSchedule, StaysPpisWhereReadsShareTheBandwidth) {
  const iow_plan_stats stats = settle_on(IOW_PLAN_PPIS, {"--read-mb-s", "100"});
  EXPECT_EQ(stats.is_settled, 1);
  EXPECT_EQ(stats.schedule, IOW_PLAN_PPIS) << stats.gain_of_two;
  EXPECT_LT(stats.gain_of_two, 1.3);
  EXPECT_LE(stats.depth, 32u);
}

INSTANTIATE_TEST_SUITE_P(, BadBlock,
                         testing::Values(IOW_PLAN_AUTO, IOW_PLAN_PP, IOW_PLAN_PPIS,
                                         IOW_PLAN_WEIGHTED));

}  // namespace
}  // namespace ioweave::stream
