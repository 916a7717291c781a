// Plans of reads in tasks: a task that waits for a read ahead is paused, whoever makes that read,
// and every read returns what the file holds.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "stream/plan/plan.hpp"
#include "support/gated_backend.hpp"
#include "support/hosted_service.hpp"
#include "support/temp_file.hpp"
#include "support/workers.hpp"

namespace ioweave::stream {
namespace {

using test::GatedBackend;
using test::Host;
using test::HostUnderTest;
using test::missing;
using test::name_of;
using test::pattern;
using test::service_options_for;
using test::stats_of;
using test::TempFile;

constexpr uint64_t kPiece = 4096;
#ifdef IOWEAVE_TEST_SANITIZED
constexpr unsigned kTasks = 16;
#else
constexpr unsigned kTasks = 64;
#endif

class PlanInTask : public ::testing::TestWithParam<HostUnderTest> {
 protected:
  void SetUp() override {
    if (const std::string why = missing(GetParam()); !why.empty()) {
      GTEST_SKIP() << why;
    }
    test::make_old(file.fd());
    GatedBackend::close_gate();
  }

  static service::Options gated_options() {
    service::Options options = service_options_for(GetParam());
    options.open_backend = &GatedBackend::open_backend;
    return options;
  }
  static Plan::Owner open_plan(Host& host, iow_plan_schedule schedule) {
    PlanOptions options;
    options.schedule = schedule;
    options.depth = 1;
    options.slice_bytes = kTasks * kPiece;
    options.reads_cached = true;
    int error = 0;
    std::string why;
    Plan::Owner plan = Plan::open(*host.service, options, error, why);
    EXPECT_NE(plan, nullptr) << why;
    return plan;
  }
  [[nodiscard]] bool is_right(Plan& plan, uint64_t offset) const {
    std::vector<std::byte> piece(kPiece);
    const int64_t got = plan.read(file.fd(), piece.data(), kPiece, static_cast<int64_t>(offset));
    return got == static_cast<int64_t>(kPiece) && piece == pattern(offset, kPiece);
  }

  const TempFile file{kTasks * kPiece};
};
INSTANTIATE_TEST_SUITE_P(, PlanInTask,
                         ::testing::Values(HostUnderTest::alpi_thread, HostUnderTest::alpi_task,
                                           HostUnderTest::tbb),
                         [](const auto& host) { return name_of(host.param); });

/// The only worker of those that wait runs what comes behind them. All wait for one slice.
TEST_P(PlanInTask, ATaskThatWaitsForASliceIsPaused) {
  Host host(GetParam(), 1, gated_options());
  const Plan::Owner plan = open_plan(host, IOW_PLAN_PP);
  ASSERT_EQ(plan->add_strided(file.fd(), 0, kTasks * kPiece, 0, 1), 0);
  std::atomic<unsigned> right{0};
  for (unsigned task = 0; task < kTasks; ++task) {
    host.workers->spawn([&, task] { right += is_right(*plan, task * kPiece) ? 1 : 0; });
  }
  std::atomic<bool> other{false};
  host.workers->spawn([&] { other = true; });
  while (!other || stats_of(*host.service).paused != kTasks) {
    std::this_thread::yield();
  }
  EXPECT_EQ(right, 0u);
  GatedBackend::open_gate();
  host.workers->wait();
  EXPECT_EQ(right, kTasks);
  EXPECT_EQ(stats_of(*host.service).paused, 0u);
  const iow_plan_stats stats = plan->statistics();
  EXPECT_EQ(stats.hit_bytes, kTasks * kPiece);
  EXPECT_EQ(stats.own_bytes, 0u);
  EXPECT_EQ(stats.late_reads, kTasks);
}

/// forget() and the end of a plan wait for slices.
TEST_P(PlanInTask, ATaskThatWaitsForTheEndOfSlicesIsPaused) {
  Host host(GetParam(), 1, gated_options());
  Plan::Owner forgetful = open_plan(host, IOW_PLAN_PP);
  Plan::Owner closed = open_plan(host, IOW_PLAN_PP);
  for (const Plan::Owner* const plan : {&forgetful, &closed}) {
    ASSERT_EQ((*plan)->add_strided(file.fd(), 0, kTasks * kPiece, 0, 1), 0);
  }
  int forgotten = 1;
  host.workers->spawn([&] { forgotten = forgetful->forget(file.fd()); });
  host.workers->spawn([&] { closed.reset(); });
  std::atomic<bool> other{false};
  host.workers->spawn([&] { other = true; });
  while (!other || stats_of(*host.service).paused != 2) {
    std::this_thread::yield();
  }
  EXPECT_EQ(forgotten, 1);
  GatedBackend::open_gate();
  host.workers->wait();
  EXPECT_EQ(forgotten, 0);
  EXPECT_EQ(forgetful->statistics().unread_bytes, 0u);
}

/// Between iow_task_begin() and iow_task_end() oneTBB's tasks cannot be paused: such a task reads
/// by itself what is under way.
TEST_P(PlanInTask, ATaskThatCanNeitherPauseNorLetOthersRunReadsByItself) {
  Host host(GetParam(), 1, gated_options());
  const Plan::Owner plan = open_plan(host, IOW_PLAN_PP);
  ASSERT_EQ(plan->add_strided(file.fd(), 0, kTasks * kPiece, 0, 1), 0);
  std::atomic<bool> has_read{false};
  bool right = false;
  host.workers->spawn([&] {
    EXPECT_EQ(host.service->begin_task([](void*) {}, nullptr), 0);
    right = is_right(*plan, kPiece);
    EXPECT_EQ(host.service->end_task(), 0);
    has_read = true;
  });
  while (!has_read && stats_of(*host.service).paused == 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(has_read, GetParam() == HostUnderTest::tbb);
  GatedBackend::open_gate();
  host.workers->wait();
  EXPECT_TRUE(right);
  EXPECT_EQ(plan->statistics().own_bytes, GetParam() == HostUnderTest::tbb ? kPiece : 0);
}

/// Many tasks that plan, read and write the same bytes anew.
TEST_P(PlanInTask, ReadsOfManyTasksReturnWhatTheFileHolds) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (const iow_plan_schedule schedule : {IOW_PLAN_PP, IOW_PLAN_PPIS, IOW_PLAN_WEIGHTED}) {
    Host host(GetParam(), 2, service_options_for(GetParam()));
    PlanOptions options;
    options.schedule = schedule;
    options.budget_bytes = 64 << 10;
    options.slice_bytes = kPiece;
    options.reads_cached = true;
    int error = 0;
    std::string why;
    const Plan::Owner plan = Plan::open(*host.service, options, error, why);
    ASSERT_NE(plan, nullptr) << why;
    std::atomic<unsigned> wrong{0};
    for (unsigned task = 0; task < kTasks; ++task) {
      host.workers->spawn([&, task] {
        std::mt19937 random(seed + task);
        for (int round = 0; round < 30; ++round) {
          const uint64_t offset = random() % kTasks * kPiece;
          if (random() % 3 != 0) {
            wrong += plan->add_strided(file.fd(), static_cast<int64_t>(offset), kPiece, 0, 1) == 0
                         ? 0
                         : 1;
          }
          if (random() % 8 == 0) {
            const std::vector<std::byte> same = pattern(offset, kPiece);
            wrong += plan->write(file.fd(), same.data(), kPiece, static_cast<int64_t>(offset)) ==
                             static_cast<int64_t>(kPiece)
                         ? 0
                         : 1;
          }
          wrong += is_right(*plan, offset) ? 0 : 1;
        }
      });
    }
    host.workers->wait();
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(stats_of(*host.service).paused, 0u);
    EXPECT_EQ(plan->statistics().reads, kTasks * 30);
  }
}

}  // namespace
}  // namespace ioweave::stream
