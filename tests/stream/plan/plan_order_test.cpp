// What a plan asks of a device, and when: on one that keeps what it was asked for, and serves it
// when the test says so.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "engine/backend.hpp"
#include "service/service.hpp"
#include "stream/plan/plan.hpp"
#include "support/temp_file.hpp"

namespace ioweave::stream {
namespace {

using test::make_old;
using test::pattern;
using test::TempFile;

constexpr uint64_t kSlice = 16 << 10;

struct Asked {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  const void* buffer = nullptr;
};

/// What the lanes of a service share.
class Device {
 public:
  /// Serves no more than so many, in the order in which it was asked.
  void serve_at_most(size_t count) {
    const std::lock_guard guard(lock);
    may_serve = count;
    changed.notify_all();
  }
  [[nodiscard]] bool wait_asked(size_t count) {
    std::unique_lock guard(lock);
    return changed.wait_for(guard, kPatience, [&] { return asked.size() >= count; });
  }
  [[nodiscard]] std::vector<Asked> all_asked() {
    const std::lock_guard guard(lock);
    return asked;
  }
  [[nodiscard]] bool was_asked_for(uint64_t offset) {
    const std::lock_guard guard(lock);
    return std::ranges::find(asked, offset, &Asked::offset) != asked.end();
  }
  [[nodiscard]] bool wait_asked_for(uint64_t offset) {
    std::unique_lock guard(lock);
    return changed.wait_for(guard, kPatience, [&] {
      return std::ranges::find(asked, offset, &Asked::offset) != asked.end();
    });
  }

  static constexpr std::chrono::seconds kPatience{20};

  std::mutex lock;  ///< of what follows
  std::condition_variable changed;
  std::vector<Asked> asked;
  size_t served = 0;
  size_t may_serve = SIZE_MAX;
  size_t most_under_way = 0;
};

Device* device = nullptr;  ///< of the test that runs

class Lane final : public engine::Backend {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "threads"; }
  [[nodiscard]] engine::Submitted submit(engine::Operation& operation) noexcept override {
    const std::lock_guard guard(device->lock);
    queue_.emplace_back(device->asked.size(), &operation);
    device->asked.push_back(
        {static_cast<uint64_t>(operation.offset), operation.length, operation.buffer});
    device->most_under_way =
        std::max(device->most_under_way, device->asked.size() - device->served);
    device->changed.notify_all();
    return engine::Submitted::queued;
  }
  [[nodiscard]] int flush() noexcept override { return 0; }
  [[nodiscard]] int reap(std::span<engine::Operation*> out,
                         const engine::Reap& how) noexcept override {
    {
      std::unique_lock guard(device->lock);
      const auto may_serve = [&] {
        return !queue_.empty() && queue_.front().first < device->may_serve;
      };
      const auto is_over = [&] { return is_woken_ || may_serve(); };
      if (how.min_completions != 0 && how.timeout_ns < 0) {
        device->changed.wait(guard, is_over);
      } else if (how.min_completions != 0) {
        device->changed.wait_for(guard, std::chrono::nanoseconds(how.timeout_ns), is_over);
      }
      is_woken_ = false;
      if (!may_serve()) {
        return 0;
      }
      out[0] = queue_.front().second;
      queue_.pop_front();
      ++device->served;
    }
    const ssize_t got = ::pread(out[0]->fd, out[0]->buffer, out[0]->length, out[0]->offset);
    out[0]->result = got < 0 ? -errno : got;
    return 1;
  }
  void wake() noexcept override {
    const std::lock_guard guard(device->lock);
    is_woken_ = true;
    device->changed.notify_all();
  }
  [[nodiscard]] int cancel(engine::Operation&) noexcept override { return -EALREADY; }
  void abandon() noexcept override {}

 private:
  std::deque<std::pair<size_t, engine::Operation*>> queue_;  ///< under the device's lock
  bool is_woken_ = false;                                    ///< also
};

std::unique_ptr<engine::Backend> open_backend(const engine::BackendOptions&, int& error,
                                              std::string&) {
  error = 0;
  return std::make_unique<Lane>();
}

class PlanOrder : public ::testing::Test {
 protected:
  PlanOrder() { device = &device_; }
  void open(iow_plan_schedule schedule, uint32_t depth) {
    make_old(file_.fd());
    service::Options of_service;
    of_service.open_backend = &open_backend;
    int error = 0;
    std::string why;
    service_ = service::Service::open(of_service, error, why);
    ASSERT_NE(service_, nullptr) << why;
    PlanOptions options;
    options.schedule = schedule;
    options.slice_bytes = kSlice;
    options.reads_cached = true;
    options.depth = depth;
    plan_ = Plan::open(*service_, options, error, why);
    ASSERT_NE(plan_, nullptr) << why;
  }
  void add(uint64_t offset, uint64_t bytes) {
    ASSERT_EQ(plan_->add_strided(file_.fd(), static_cast<int64_t>(offset), bytes, 0, 1), 0);
  }
  [[nodiscard]] std::vector<std::byte> read(uint64_t offset, uint64_t bytes) {
    std::vector<std::byte> buffer(bytes);
    const int64_t got = plan_->read(file_.fd(), buffer.data(), bytes, static_cast<int64_t>(offset));
    buffer.resize(static_cast<size_t>(std::max<int64_t>(got, 0)));
    return buffer;
  }
  /// So many, one after the other, each when `at_once` are under way or the last ones are. Then
  /// all.
  void serve_one_by_one(size_t count, size_t at_once, size_t last) {
    bool is_asked = true;
    for (size_t served = 0; served < count && is_asked; ++served) {
      is_asked = device_.wait_asked(std::min(served + at_once, last));
      device_.serve_at_most(served + 1);
    }
    EXPECT_TRUE(is_asked) << device_.all_asked().size();
    device_.serve_at_most(SIZE_MAX);
  }
  void wait_ahead(uint64_t bytes) {
    for (int tries = 0; tries < 20'000 && plan_->statistics().ahead_bytes < bytes; ++tries) {
      ::usleep(1000);
    }
    ASSERT_EQ(plan_->statistics().ahead_bytes, bytes);
  }

  static constexpr uint64_t kMiddle = 8 << 20;
  TempFile file_{2 * kMiddle};
  Device device_;
  service::Service::Owner service_;
  Plan::Owner plan_;
};

/// What was not planned is read in pieces, 16 at once.
TEST_F(PlanOrder, ALargeReadIsMadeInSixteenPiecesAtOnce) {
  open(IOW_PLAN_PPIS, 0);
  constexpr size_t kPieces = 64;
  device_.serve_at_most(0);
  std::vector<std::byte> found;
  std::thread reader([&] { found = read(0, kPieces * kSlice); });
  serve_one_by_one(kPieces, 16, kPieces);
  reader.join();
  EXPECT_EQ(found, pattern(0, kPieces * kSlice));
  EXPECT_EQ(device_.all_asked().size(), kPieces);
  EXPECT_EQ(device_.most_under_way, 16u);
}

/// As many as one look at the plan does not find.
TEST_F(PlanOrder, AReadOfManySlicesIsReadOnceAhead) {
  open(IOW_PLAN_PPIS, 4);
  constexpr uint64_t kBytes = 100 * kSlice;
  add(0, 40 * kSlice);
  add(40 * kSlice, 60 * kSlice);
  wait_ahead(kBytes);
  EXPECT_EQ(read(0, kBytes), pattern(0, kBytes));
  EXPECT_EQ(device_.all_asked().size(), 100u);
  EXPECT_EQ(plan_->statistics().hit_bytes, kBytes);
  EXPECT_EQ(plan_->statistics().hit_reads, 1u);
}

/// The program gets the memory that was read into.
TEST_F(PlanOrder, ALeaseIsTheMemoryThatWasReadInto) {
  open(IOW_PLAN_PPIS, 4);
  constexpr uint64_t kBytes = 5 * kSlice + 100;
  add(1000, kBytes);
  wait_ahead(kBytes);
  LeasedMemory* lease = nullptr;
  ASSERT_EQ(plan_->lease(file_.fd(), kBytes, 1000, lease), static_cast<int64_t>(kBytes));
  const std::vector<Asked> asked = device_.all_asked();
  EXPECT_EQ(asked.size(), 6u);
  for (const Asked& each : asked) {
    EXPECT_EQ(each.buffer, lease->memory.data() + (each.offset - 1000));
  }
  const std::vector<std::byte> wanted = pattern(1000, kBytes);
  EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), lease->memory.data()));
  plan_->end_lease(lease);
}

TEST_F(PlanOrder, TheThirdStrayReadEndsReadingAhead) {
  open(IOW_PLAN_PPIS, 4);
  uint64_t planned = kMiddle;
  const auto add_next = [&] {
    planned += kSlice;
    add(planned, 4096);
  };
  uint64_t stray = 0;
  const auto read_strays = [&](int count) {
    for (; count > 0; --count, stray += 4096) {
      ASSERT_EQ(read(stray, 4096), pattern(stray, 4096));
    }
  };
  add_next();
  wait_ahead(4096);
  ASSERT_EQ(read(planned, 4096), pattern(planned, 4096));

  read_strays(2);
  add_next();
  wait_ahead(2 * 4096);
  const uint64_t ahead = planned;
  read_strays(1);
  add_next();
  EXPECT_FALSE(device_.was_asked_for(planned));
  ASSERT_EQ(read(ahead, 4096), pattern(ahead, 4096));  // a planned one
  EXPECT_TRUE(device_.wait_asked_for(planned));

  // There were three between planned ones: four times as many are no sign.
  read_strays(12);
  add_next();
  EXPECT_TRUE(device_.wait_asked_for(planned));
  read_strays(1);
  add_next();
  EXPECT_FALSE(device_.was_asked_for(planned));
}

/// Under `weighted` more transfers than eight take turns by bytes, 16 of the program's to one of
/// those ahead of it.
TEST_F(PlanOrder, UnderWeightedTransfersTakeTurnsSixteenToOne) {
  open(IOW_PLAN_WEIGHTED, 32);
  constexpr size_t kAtOnce = 8;
  constexpr size_t kTurns = 20;
  constexpr size_t kOwn = 16 * kTurns;
  device_.serve_at_most(0);
  ASSERT_EQ(plan_->add_strided(file_.fd(), kMiddle, kSlice, kSlice, kMiddle / kSlice), 0);
  EXPECT_TRUE(device_.wait_asked(kAtOnce));  // alone they have the device
  std::vector<std::byte> found;
  std::thread reader([&] { found = read(0, kOwn * kSlice); });
  for (int tries = 0; tries < 20'000 && service_->gate().held() < 24 + 16; ++tries) {
    ::usleep(1000);
  }
  constexpr size_t kInTurns = 17 * kTurns;
  serve_one_by_one(kInTurns + 1, kAtOnce, SIZE_MAX);
  reader.join();
  EXPECT_EQ(found, pattern(0, kOwn * kSlice));
  const std::vector<Asked> asked = device_.all_asked();
  ASSERT_GE(asked.size(), kAtOnce + kInTurns);
  size_t ahead = 0;
  for (size_t i = kAtOnce; i < kAtOnce + kInTurns; ++i) {
    ahead += asked[i].offset >= kMiddle ? 1 : 0;
    const size_t turns = (i - kAtOnce + 1) / 17;
    EXPECT_LE(ahead, turns + 1) << i;
    EXPECT_GE(ahead + 1, turns) << i;
  }
}

}  // namespace
}  // namespace ioweave::stream
