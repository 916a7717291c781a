// The task that reaps: how often it looks, and when it does not.
#include "service/task_poller.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/gated_backend.hpp"

namespace ioweave::service {
namespace {

using test::GatedBackend;

/// A runtime with one task at a time, whose yields pass at once and are noted.
class NotingHost final : public tasking::TaskHost {
 public:
  ~NotingHost() override {
    for (std::thread& thread : threads_) thread.join();
  }

  [[nodiscard]] const char* name() const noexcept override { return "noting"; }
  [[nodiscard]] tasking::Task current() noexcept override { return this; }
  [[nodiscard]] bool can_pause() const noexcept override { return true; }
  [[nodiscard]] bool keeps_thread() const noexcept override { return true; }
  void pause(tasking::TaskPause& /*pause*/) noexcept override {
    ADD_FAILURE() << "the task that polls is never paused";
  }
  void resume(tasking::Task /*task*/) noexcept override {}
  [[nodiscard]] bool has_events() const noexcept override { return false; }
  [[nodiscard]] bool hold(tasking::Task /*task*/) noexcept override { return false; }
  void release(tasking::Task /*task*/) noexcept override {}
  [[nodiscard]] bool can_poll() const noexcept override { return true; }
  [[nodiscard]] bool spawn(void (*body)(void*), void (*completed)(void*),
                           void* user) noexcept override {
    const std::lock_guard guard(lock_);
    if (refuses_) return false;
    ++spawned_;
    threads_.emplace_back([this, body, completed, user] {
      body(user);
      {
        const std::lock_guard end(lock_);
        ++ended_;
      }
      changed_.notify_all();
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
  /// Until so many tasks have ended.
  void await_ends(unsigned count) {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return ended_ >= count; });
  }
  void refuse_tasks() {
    const std::lock_guard guard(lock_);
    refuses_ = true;
  }
  [[nodiscard]] unsigned spawned() {
    const std::lock_guard guard(lock_);
    return spawned_;
  }

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<uint64_t> yields_;
  unsigned spawned_ = 0;
  unsigned ended_ = 0;
  bool refuses_ = false;
  std::vector<std::thread> threads_;
};

/// Counts what is under way, as the service does.
class Counting final : public OperationClient {
 public:
  void end_operations(std::span<engine::Operation* const> ended,
                      Counters& /*counters*/) noexcept override {
    unfinished.fetch_sub(static_cast<uint32_t>(ended.size()), std::memory_order_seq_cst);
  }
  void reroute(iow_request& /*request*/) noexcept override { ADD_FAILURE(); }
  std::atomic<uint32_t> unfinished{0};
};

class TaskThatPolls : public ::testing::Test {
 protected:
  static constexpr uint64_t kShortest = 1000;
  static constexpr uint64_t kLongest = 6000;

  void SetUp() override {
    std::string why;
    ASSERT_EQ(pump_.start_driven(why), 0) << why;
  }
  /// A request that waits at the gate.
  void post(iow_request& request) {
    GatedBackend::close_gate();
    request = {};
    request.op = IOW_OP_NOP;
    ASSERT_EQ(begin_journey(request), 0);
    client_.unfinished.fetch_add(1, std::memory_order_seq_cst);
    pump_.post(request);
    poller_.wake();
  }

  Counting client_;
  Pump pump_{{}, &GatedBackend::open_backend, client_};
  NotingHost host_;
  TaskPoller poller_{pump_, client_.unfinished};
};

TEST_F(TaskThatPolls, LooksLessOftenWhileItFindsNothingAndEndsWhereThereIsNothing) {
  ASSERT_TRUE(poller_.start(host_, kShortest, kLongest));
  host_.await_ends(1);
  for (unsigned round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    iow_request request;
    post(request);
    const std::vector<uint64_t> yields = host_.await_yields(6);
    EXPECT_EQ(yields.back(), kLongest);
    EXPECT_TRUE(std::is_sorted(yields.begin(), yields.end()));
    EXPECT_TRUE(std::all_of(yields.begin(), yields.end(), [](uint64_t ns) {
      return ns == 2 * kShortest || ns == 4 * kShortest || ns == kLongest;
    }));
    GatedBackend::open_gate();
    host_.await_ends(2 + round);
  }
  EXPECT_EQ(host_.spawned(), 4u);
  poller_.stop();
  pump_.stop();
}

TEST_F(TaskThatPolls, EndsWhereOnlyOthersHaveSomethingInHand) {
  client_.unfinished = 1;  // the workers, say
  ASSERT_TRUE(poller_.start(host_, kShortest, kLongest));
  host_.await_ends(1);
  client_.unfinished = 0;
  poller_.stop();
  pump_.stop();
}

TEST_F(TaskThatPolls, AThreadPollsWhereTheRuntimeHasNoTaskToGive) {
  ASSERT_TRUE(poller_.start(host_, kShortest, kLongest));
  host_.await_ends(1);
  host_.refuse_tasks();
  for (unsigned round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    iow_request request;
    post(request);
    EXPECT_EQ(host_.await_yields(6).back(), kLongest);
    GatedBackend::open_gate();
    while (client_.unfinished.load() != 0) std::this_thread::yield();
  }
  EXPECT_EQ(host_.spawned(), 1u);
  poller_.stop();
  pump_.stop();
}

TEST_F(TaskThatPolls, WhereTheFirstIsRefusedItDoesNotStart) {
  host_.refuse_tasks();
  EXPECT_FALSE(poller_.start(host_, kShortest, kLongest));
  EXPECT_FALSE(poller_.started());
  pump_.stop();
}

}  // namespace
}  // namespace ioweave::service
