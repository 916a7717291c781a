// The task that reaps: how often it looks, and when it does not.
#include "service/task_poller.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tasking/gated_backend.hpp"

namespace ioweave::service {
namespace {

using test::GatedBackend;

/// A runtime of one task, whose yields pass at once and are noted.
class NotingHost final : public tasking::TaskHost {
 public:
  ~NotingHost() override { thread_.join(); }

  [[nodiscard]] const char* name() const noexcept override { return "noting"; }
  [[nodiscard]] tasking::Task current() noexcept override { return this; }
  [[nodiscard]] bool can_pause() const noexcept override { return true; }
  [[nodiscard]] bool keeps_thread() const noexcept override { return true; }
  void pause(tasking::TaskPause& pause) noexcept override {
    std::unique_lock guard(lock_);
    resumed_ = false;
    ++pauses_;
    guard.unlock();
    changed_.notify_all();
    if (!pause.sleep_as(this)) return;
    pause.start();
    guard.lock();
    changed_.wait(guard, [this] { return resumed_; });
  }
  void resume(tasking::Task /*task*/) noexcept override {
    const std::lock_guard guard(lock_);
    resumed_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] bool has_events() const noexcept override { return false; }
  [[nodiscard]] bool hold(tasking::Task /*task*/) noexcept override { return false; }
  void release(tasking::Task /*task*/) noexcept override {}
  [[nodiscard]] bool can_poll() const noexcept override { return true; }
  [[nodiscard]] bool spawn(void (*body)(void*), void (*completed)(void*),
                           void* user) noexcept override {
    thread_ = std::thread([=] {
      body(user);
      completed(user);
    });
    return true;
  }
  void yield_for(uint64_t ns) noexcept override {
    {
      const std::lock_guard guard(lock_);
      yields_.push_back(ns);
    }
    changed_.notify_all();
    std::this_thread::yield();
  }

  /// The next ones, when there are so many.
  std::vector<uint64_t> await_yields(size_t count) {
    std::unique_lock guard(lock_);
    yields_.clear();
    changed_.wait(guard, [&] { return yields_.size() >= count; });
    return yields_;
  }
  void await_pauses(unsigned count) {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return pauses_ >= count; });
  }
  [[nodiscard]] std::vector<uint64_t> yields() {
    const std::lock_guard guard(lock_);
    return yields_;
  }

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<uint64_t> yields_;
  unsigned pauses_ = 0;
  bool resumed_ = false;
  std::thread thread_;
};

/// Counts what is under way, as the service does.
class Counting final : public PumpClient {
 public:
  void ended(iow_request& /*request*/, Pump& /*pump*/) noexcept override {
    unfinished.fetch_sub(1, std::memory_order_seq_cst);
  }
  void refused(iow_request& /*request*/, Pump& /*pump*/) noexcept override { ADD_FAILURE(); }
  std::atomic<uint32_t> unfinished{0};
};

TEST(TaskThatReaps, LooksLessOftenWhileItFindsNothingAndNotAtAllWhileThereIsNothing) {
  constexpr uint64_t kShortest = 1000;
  constexpr uint64_t kLongest = 6000;
  GatedBackend::close_gate();
  Counting client;
  Pump pump({}, &GatedBackend::open_lane, client);
  std::string why;
  ASSERT_EQ(pump.start_driven(why), 0) << why;
  NotingHost host;
  TaskPoller poller(pump, client.unfinished);
  ASSERT_TRUE(poller.start(host, kShortest, kLongest));
  host.await_pauses(1);
  EXPECT_EQ(host.yields(), std::vector<uint64_t>{});

  for (unsigned round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    GatedBackend::close_gate();
    iow_request request{};
    request.op = IOW_OP_NOP;
    ASSERT_EQ(begin_journey(request), 0);
    client.unfinished.fetch_add(1, std::memory_order_seq_cst);
    pump.post(request);
    poller.wake();
    // It waits at the gate.
    const std::vector<uint64_t> yields = host.await_yields(6);
    EXPECT_EQ(yields.back(), kLongest);
    EXPECT_TRUE(std::is_sorted(yields.begin(), yields.end()));
    EXPECT_TRUE(std::all_of(yields.begin(), yields.end(), [](uint64_t ns) {
      return ns == 2 * kShortest || ns == 4 * kShortest || ns == kLongest;
    }));
    GatedBackend::open_gate();
    host.await_pauses(2 + round);
  }
  poller.stop();
  pump.stop();
}

}  // namespace
}  // namespace ioweave::service
