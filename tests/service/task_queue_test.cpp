// The queue that the direct transfers of tasks share: who gets what ended, what waits, what others
// have to carry.
#include "service/task_queue.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "service/driving_here.hpp"
#include "service/service.hpp"
#include "support/direct_memory.hpp"

namespace ioweave::service {
namespace {

/// Ends what the test says, and gives it only to threads that do not sleep for it: the queue's own
/// thread stays out of the way.
class ScriptedQueue final : public engine::SharedQueue {
 public:
  ScriptedQueue() { instance = this; }
  ~ScriptedQueue() override { instance = nullptr; }

  bool submit(engine::Operation& operation) noexcept override {
    const std::lock_guard guard(lock_);
    if (refuses) return false;
    submitted.push_back(&operation);
    return true;
  }
  [[nodiscard]] bool has_ended() const noexcept override {
    const std::lock_guard guard(lock_);
    return !ended_.empty();
  }
  size_t reap(std::span<engine::Operation*> out, bool sleep) noexcept override {
    std::unique_lock guard(lock_);
    if (sleep) {
      woken_.wait(guard, [this] { return is_woken_ || (lets_sleepers_reap && !ended_.empty()); });
      if (std::exchange(is_woken_, false)) return 0;
    }
    const size_t count = std::min(out.size(), ended_.size());
    for (size_t i = 0; i < count; ++i) {
      out[i] = ended_.front();
      ended_.pop_front();
    }
    return count;
  }
  void wake() noexcept override {
    {
      const std::lock_guard guard(lock_);
      is_woken_ = true;
    }
    woken_.notify_all();
  }
  void abandon() noexcept override {}

  /// The oldest in flight ends with this result.
  void end_one(int64_t result) {
    const std::lock_guard guard(lock_);
    submitted.front()->result = result;
    ended_.push_back(submitted.front());
    submitted.pop_front();
    woken_.notify_all();
  }

  static ScriptedQueue* instance;
  bool refuses = false;
  std::atomic<bool> lets_sleepers_reap{false};  ///< set before end_one()
  std::deque<engine::Operation*> submitted;

 private:
  mutable std::mutex lock_;
  std::condition_variable woken_;
  bool is_woken_ = false;
  std::deque<engine::Operation*> ended_;
};

ScriptedQueue* ScriptedQueue::instance = nullptr;

std::unique_ptr<engine::SharedQueue> open_scripted(uint32_t /*entries*/, std::string& /*why*/) {
  return std::make_unique<ScriptedQueue>();
}

class QueueOfTasks : public ::testing::Test, protected OperationClient {
 protected:
  void SetUp() override {
    std::string why;
    ASSERT_EQ(queue_.start(why), 0) << why;
  }
  void TearDown() override { queue_.stop(); }

  void end_operations(std::span<engine::Operation* const> ended,
                      Counters& counters) noexcept override {
    EXPECT_EQ(&counters, &queue_.counters);
    for (engine::Operation* const operation : ended) {
      ended_.push_back(&request_of(*operation));
      queue_.collect();  // as what an end sets off may
    }
  }
  void reroute(iow_request& request) noexcept override { refused_.push_back(&request); }

  /// Reads of `bytes` each, posted in order.
  std::vector<iow_request>& post(size_t count, uint64_t bytes) {
    requests_ = std::vector<iow_request>(count);
    for (iow_request& request : requests_) {
      request.op = IOW_OP_READ;
      request.fd = 0;
      request.buffer = &buffer_;
      request.bytes = bytes;
      EXPECT_EQ(begin_journey(request), 0);
      queue_.post(request);
    }
    return requests_;
  }
  [[nodiscard]] std::vector<iow_request*> in_flight() const {
    std::vector<iow_request*> requests;
    for (engine::Operation* const operation : ScriptedQueue::instance->submitted) {
      requests.push_back(&request_of(*operation));
    }
    return requests;
  }

  static constexpr uint32_t kEntries = 8;
  char buffer_ = 0;
  std::vector<iow_request> requests_;
  std::vector<iow_request*> ended_;
  std::vector<iow_request*> refused_;
  const Processors anywhere_;
  TaskQueue queue_{&open_scripted, kEntries, anywhere_, *this};
};

TEST_F(QueueOfTasks, WhoeverComesByGetsWhatHasEnded) {
  auto& requests = post(2, 1);
  queue_.collect();
  EXPECT_TRUE(ended_.empty());
  ScriptedQueue::instance->end_one(1);
  queue_.collect();
  EXPECT_EQ(ended_, std::vector{&requests[0]});
  ScriptedQueue::instance->end_one(1);
  queue_.collect();
  EXPECT_EQ(ended_, (std::vector{&requests[0], &requests[1]}));
}

TEST_F(QueueOfTasks, WhatAnEndSetsOffCollectsNothing) {
  post(2, 1);
  ScriptedQueue::instance->end_one(1);
  {
    const DrivingHere here;
    queue_.collect();
    EXPECT_TRUE(ended_.empty());
  }
  queue_.collect();
  EXPECT_EQ(ended_.size(), 1u);
}

TEST_F(QueueOfTasks, HoldsBackWhatIsBeyondItsEntriesInOrder) {
  auto& requests = post(kEntries + 3, 1);
  EXPECT_EQ(in_flight().size(), kEntries);
  ScriptedQueue::instance->end_one(1);
  ScriptedQueue::instance->end_one(1);
  queue_.collect();
  ASSERT_EQ(in_flight().size(), kEntries);
  EXPECT_EQ(in_flight().back(), &requests[kEntries + 1]);
}

TEST_F(QueueOfTasks, HoldsBackBytesBeyondTheMostButNotOneThatIsAlone) {
  auto& requests = post(3, kMostBytesInFlight / 2 + 1);
  EXPECT_EQ(in_flight(), std::vector{&requests[0]});
  ScriptedQueue::instance->end_one(1);
  queue_.collect();
  EXPECT_EQ(in_flight(), std::vector{&requests[1]});
  ScriptedQueue::instance->end_one(1);
  queue_.collect();
  ScriptedQueue::instance->end_one(1);
  queue_.collect();
  auto& large = post(1, 2 * kMostBytesInFlight);
  EXPECT_EQ(in_flight(), std::vector{&large[0]});
}

TEST_F(QueueOfTasks, ARefusedOneIsTheClientsAndSomeMoreStayAway) {
  ScriptedQueue::instance->refuses = true;
  EXPECT_TRUE(queue_.is_worth_it());
  auto& requests = post(1, 1);
  EXPECT_EQ(refused_, std::vector{&requests[0]});
  unsigned away = 0;
  while (!queue_.is_worth_it()) ++away;
  EXPECT_EQ(away, 64u);
}

TEST_F(QueueOfTasks, ARefusalMakesRoomForThoseThatWait) {
  auto& requests = post(kEntries + 4, 1);
  ScriptedQueue::instance->refuses = true;
  ScriptedQueue::instance->end_one(1);
  queue_.collect();
  EXPECT_EQ(refused_, (std::vector{&requests[kEntries], &requests[kEntries + 1],
                                   &requests[kEntries + 2], &requests[kEntries + 3]}));
  EXPECT_EQ(in_flight().size(), kEntries - 1);
}

TEST_F(QueueOfTasks, CountsWhatCompletedAndWhatWentOn) {
  auto& requests = post(1, 1);
  requests[0].result = 1;
  queue_.counters.count_end(requests[0]);
  queue_.counters.count_step(Step::continued);
  queue_.counters.count_step(Step::reissued);
  queue_.counters.count_step(Step::refused);
  iow_stats sum{};
  queue_.counters.add_to(sum);
  EXPECT_EQ(sum.completed, 1u);
  EXPECT_EQ(sum.read_bytes, 1u);
  EXPECT_EQ(sum.continued, 1u);
  EXPECT_EQ(sum.reissued, 1u);
}

// ---- In a service

/// A service whose queue of tasks is scripted, for tasks of iow_task_begin().
class ServiceWithQueue : public ::testing::Test {
 public:
  [[nodiscard]] Call read_of(char& byte, int64_t offset) const {
    return {engine::Op::read, file_.fd(), &byte, 1, offset, false};
  }

 protected:
  void SetUp() override {
    if (!file_.direct()) GTEST_SKIP() << "files in memory have no O_DIRECT: Linux 6.6 is needed";
    Options options;
    options.open_task_queue = &open_scripted;
    int error = 0;
    std::string why;
    service_ = Service::open(options, error, why);
    ASSERT_NE(service_, nullptr) << why;
  }

  /// A read of one byte, bound to a task that ends with it.
  void bind_read(char& byte, int64_t offset, ssize_t& result, void (*done)(void*), void* user) {
    ASSERT_EQ(service_->begin_task(done, user), 0);
    EXPECT_EQ(service_->bind(read_of(byte, offset), &result), 0);
    EXPECT_EQ(service_->end_task(), 0);
  }
  /// What is in flight ends, and the queue's thread hands it over.
  void end_all() {
    ScriptedQueue& queue = *ScriptedQueue::instance;
    queue.lets_sleepers_reap = true;
    while (!queue.submitted.empty()) queue.end_one(1);
    service_.reset();  // waits for it
  }

  const test::DirectMemory file_{"abcdefgh"};
  Service::Owner service_;
};

TEST_F(ServiceWithQueue, WhatAnEndSetsOffIsInNoTaskAndItsBlockingCallsArePlain) {
  struct Seen {
    ServiceWithQueue* test = nullptr;
    Service* service = nullptr;
    std::thread::id thread;
    int64_t read = 0;
    int bound = 0;
    char byte = 0;
    ssize_t result = 0;
  } seen{this, service_.get(), {}, 0, 0, 0, 0};
  std::array<char, 2> bytes{};
  std::array<ssize_t, 2> results{};
  bind_read(
      bytes[0], 0, results[0],
      [](void* user) {
        auto& mine = *static_cast<Seen*>(user);
        mine.thread = std::this_thread::get_id();
        mine.read = mine.service->transfer(mine.test->read_of(mine.byte, 2));
        mine.bound = mine.service->bind(mine.test->read_of(mine.byte, 2), &mine.result);
      },
      &seen);
  ScriptedQueue::instance->end_one(1);
  bind_read(
      bytes[1], 1, results[1], [](void*) {}, nullptr);  // collects it
  EXPECT_EQ(seen.thread, std::this_thread::get_id());
  EXPECT_EQ(results[0], 1);
  EXPECT_EQ(results[1], -EINPROGRESS);
  EXPECT_EQ(seen.read, 1);
  EXPECT_EQ(seen.byte, 'c');
  EXPECT_EQ(seen.bound, -ESRCH);
  end_all();
  EXPECT_EQ(results[1], 1);
}

TEST_F(ServiceWithQueue, AnEndThatWouldHaveWaitedIsMadeByTheReaper) {
  char byte = 0;
  ssize_t result = 0;
  bind_read(
      byte, 3, result, [](void*) {}, nullptr);
  ScriptedQueue& queue = *ScriptedQueue::instance;
  queue.lets_sleepers_reap = true;
  queue.end_one(-EAGAIN);
  service_.reset();
  EXPECT_EQ(result, 1);
  EXPECT_EQ(byte, 'd');
}

/// File systems that finish a direct read as a buffered one end where they would have to wait.
class EndsOfNoWait : public ServiceWithQueue, public ::testing::WithParamInterface<int64_t> {};

TEST_P(EndsOfNoWait, AreNoResults) {
  std::array<char, 4> bytes{};
  ssize_t result = 0;
  ASSERT_EQ(service_->begin_task([](void*) {}, nullptr), 0);
  const Call exact{engine::Op::read, file_.fd(), bytes.data(), bytes.size(), 0, true};
  EXPECT_EQ(service_->bind(exact, &result), 0);
  EXPECT_EQ(service_->end_task(), 0);
  ScriptedQueue& queue = *ScriptedQueue::instance;
  queue.lets_sleepers_reap = true;
  queue.end_one(GetParam());
  service_.reset();
  EXPECT_EQ(result, 4);
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "abcd");
}

INSTANTIATE_TEST_SUITE_P(, EndsOfNoWait,
                         ::testing::Values(1, 3, 0, -EIO, -EINTR, -EAGAIN, -EOPNOTSUPP),
                         [](const auto& end) {
                           return (end.param < 0 ? "Error" : "Bytes") +
                                  std::to_string(std::abs(end.param));
                         });

TEST_F(ServiceWithQueue, WhatIsNoDirectTransferDoesNotKeepDirectOnesFromIt) {
  ssize_t synced = 0;
  ssize_t result = 0;
  char byte = 0;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(service_->begin_task([](void*) {}, nullptr), 0);
    EXPECT_EQ(service_->bind({engine::Op::fsync, file_.fd(), nullptr, 0, 0, false}, &synced), 0);
    EXPECT_EQ(service_->bind(read_of(byte, i), &result), 0);
    EXPECT_EQ(service_->end_task(), 0);
    EXPECT_EQ(ScriptedQueue::instance->submitted.size(), static_cast<size_t>(i) + 1);
  }
  end_all();
  EXPECT_EQ(synced, 0);
}

TEST_F(ServiceWithQueue, ItsThreadIsNoneOfTheTwoThatStatisticsTell) {
  char byte = 0;
  ssize_t result = 0;
  bind_read(
      byte, 0, result, [](void*) {}, nullptr);
  iow_stats stats{};
  service_->statistics(stats);
  EXPECT_EQ(stats.lanes, 0u);
  end_all();
}

TEST_F(ServiceWithQueue, WhatTheQueueRefusesIsMadeByTheReaper) {
  char byte = 0;
  ssize_t result = 0;
  bind_read(
      byte, 0, result, [](void*) {}, nullptr);  // opens the queue
  ScriptedQueue::instance->refuses = true;
  std::array<char, 4> bytes{};
  std::array<ssize_t, 4> results{};
  for (size_t i = 0; i < bytes.size(); ++i) {
    bind_read(
        bytes[i], static_cast<int64_t>(i) + 4, results[i], [](void*) {}, nullptr);
  }
  end_all();
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "efgh");
  EXPECT_EQ(results, (std::array<ssize_t, 4>{1, 1, 1, 1}));
}

}  // namespace
}  // namespace ioweave::service
