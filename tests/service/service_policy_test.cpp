// The service as a driver of the policy: what is held, what starts, what strict means for real I/O.
#include <array>
#include <atomic>
#include <cerrno>
#include <future>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include "fixture.hpp"

namespace ioweave::service {
namespace {

using test::Gate;
using test::TempFile;

class ServiceAsDriver : public EveryEngine {};
INSTANTIATE_TEST_SUITE_P(, ServiceAsDriver,
                         ::testing::Values(engine::Kind::uring, engine::Kind::threads),
                         engine_name);

uint32_t add_flow(Service& service, const policy::FlowConfig& config) {
  std::string why;
  const int64_t id = service.gate().add_flow(config, why);
  EXPECT_GT(id, 0) << why;
  return static_cast<uint32_t>(id);
}

uint32_t add_device(Service& service, const policy::DeviceConfig& config) {
  std::string why;
  const int64_t id = service.gate().add_device(config, why);
  EXPECT_GT(id, 0) << why;
  return static_cast<uint32_t>(id);
}

policy::FlowConfig prefetch_flow() {
  policy::FlowConfig flow;
  flow.name = "prefetch";
  flow.priority = policy::Class::prefetch;
  return flow;
}

/// A foreground request of another thread that is in flight until end().
class Busy {
 public:
  explicit Busy(Service& service)
      : request_(gate_.wait_for_byte()), thread_([&] {
          EXPECT_EQ(submit_one(service, request_), 1);
          submitted_.set_value();
          EXPECT_EQ(service.wait(request_, -1), 0);
        }) {
    submitted_.get_future().wait();
  }
  ~Busy() { end(); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

  /// It may end from here on.
  void open() { gate_.open(); }
  void end() {
    if (thread_.joinable()) {
      open();
      thread_.join();
    }
  }

 private:
  Gate gate_;
  iow_request request_;
  std::promise<void> submitted_;
  std::thread thread_;
};

bool ends_within(Service& service, iow_request& request, int64_t ns) {
  return service.wait(request, ns) == 0;
}

TEST_P(ServiceAsDriver, StrictHoldsPrefetchWhileTheForegroundIsInFlight) {
  const uint32_t flow = add_flow(*service, prefetch_flow());
  Gate gate;
  iow_request foreground = gate.wait_for_byte();
  ASSERT_EQ(submit_one(*service, foreground), 1);
  iow_request low = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
  low.flow = flow;
  ASSERT_EQ(submit_one(*service, low), 1);
  EXPECT_FALSE(ends_within(*service, low, 20'000'000));
  gate.open();
  EXPECT_EQ(service->wait(foreground, -1), 0);
  EXPECT_EQ(service->wait(low, -1), 0);
  iow_stats stats{};
  service->statistics(stats);
  EXPECT_EQ(stats.held, 1u);
}

TEST_P(ServiceAsDriver, StrictYieldsToForegroundOfOtherThreads) {
  const uint32_t flow = add_flow(*service, prefetch_flow());
  iow_request low = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
  low.flow = flow;
  Busy busy(*service);
  ASSERT_EQ(submit_one(*service, low), 1);
  EXPECT_FALSE(ends_within(*service, low, 20'000'000));
  busy.end();
  EXPECT_EQ(service->wait(low, -1), 0);
}

TEST_P(ServiceAsDriver, AFixedConstraintBoundsWhatRunsAtOnce) {
  policy::DeviceConfig disk;
  disk.name = "disk";
  disk.budget_mb_per_s = 100;
  policy::FlowConfig config;
  config.name = "checkpoint";
  config.device = add_device(*service, disk);
  config.constraint = {policy::Constraint::Kind::fixed, 40};  // two fit
  const uint32_t flow = add_flow(*service, config);
  std::array<Gate, 5> gates;
  std::array<iow_request, 5> requests;
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i] = gates[i].wait_for_byte();
    requests[i].flow = flow;
    ASSERT_EQ(submit_one(*service, requests[i]), 1);
  }
  gates[2].open();  // not started yet: opening it lets nothing through
  EXPECT_FALSE(ends_within(*service, requests[2], 20'000'000));
  gates[0].open();
  EXPECT_EQ(service->wait(requests[0], -1), 0);
  EXPECT_EQ(service->wait(requests[2], -1), 0);
  for (const size_t i : {1u, 3u, 4u}) {
    gates[i].open();
    EXPECT_EQ(service->wait(requests[i], -1), 0);
    EXPECT_EQ(requests[i].result, 1);
  }
}

TEST_P(ServiceAsDriver, AHeldRequestCanBeCancelled) {
  const uint32_t flow = add_flow(*service, prefetch_flow());
  iow_request low = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
  low.flow = flow;
  const Busy busy(*service);
  ASSERT_EQ(submit_one(*service, low), 1);
  EXPECT_EQ(service->cancel(low), 0);
  EXPECT_EQ(service->wait(low, -1), 0);
  EXPECT_EQ(low.result, -ECANCELED);
  EXPECT_EQ(service->cancel(low), -EALREADY);
}

TEST_P(ServiceAsDriver, ACancellationMayMeetTheEndOfWhatHeldTheRequest) {
  const uint32_t flow = add_flow(*service, prefetch_flow());
  for (int round = 0; round < 500; ++round) {
    Busy busy(*service);
    iow_request low = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
    low.flow = flow;
    ASSERT_EQ(submit_one(*service, low), 1);
    busy.open();
    (void)service->cancel(low);
    busy.end();
    ASSERT_EQ(service->wait(low, -1), 0);
    ASSERT_TRUE(low.result == 0 || low.result == -ECANCELED) << low.result;
  }
}

TEST_P(ServiceAsDriver, WhatIsUnderWayCompletesWhetherCancelledOrNot) {
  Gate gate;
  iow_request request = gate.wait_for_byte();
  ASSERT_EQ(submit_one(*service, request), 1);
  if (service->cancel(request) != 0) {
    gate.open();
  }
  EXPECT_EQ(service->wait(request, -1), 0);
  EXPECT_TRUE(request.result == 1 || request.result == -ECANCELED) << request.result;
}

TEST_P(ServiceAsDriver, ForegroundAndPrefetchFromManyThreadsAllEnd) {
  const TempFile file(1 << 20);
  const uint32_t flow = add_flow(*service, prefetch_flow());
  std::atomic<int> ended{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::byte> buffer(4096);
      for (int i = 0; i < 200; ++i) {
        iow_request request = make_request(t % 2 == 0 ? IOW_OP_READ : IOW_OP_PREFETCH, file.fd(),
                                           buffer.data(), 4096, (i % 200) * 4096);
        request.flow = t % 2 == 0 ? 0 : flow;
        ASSERT_EQ(submit_one(*service, request), 1);
        ASSERT_EQ(service->wait(request, -1), 0);
        ASSERT_EQ(request.result, 4096);
        ++ended;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(ended, 800);
}

// Whatever the threads did to each other: what the policy decided then it decides again.
TEST_P(ServiceAsDriver, TheLogOfRealTrafficIsReplayedToTheSameDecisions) {
  std::stringstream log;
  Options options;
  options.policy_log = [&log](std::string_view line) { log << line << '\n'; };
  open(options);
  policy::DeviceConfig disk;
  disk.name = "disk";
  disk.budget_mb_per_s = 400;
  const uint32_t device = add_device(*service, disk);
  policy::FlowConfig limited;
  limited.name = "results";
  limited.device = device;
  limited.constraint = {policy::Constraint::Kind::fixed, 100};
  const uint32_t results = add_flow(*service, limited);
  const uint32_t prefetch = add_flow(*service, prefetch_flow());
  const TempFile file(1 << 20);
  constexpr int kPerThread = 100;
  std::vector<std::thread> threads;
  for (const uint32_t flow : {0u, results, results, prefetch}) {
    threads.emplace_back([&, flow] {
      std::vector<std::byte> buffer(4 * 4096);
      for (int i = 0; i < kPerThread; i += 4) {
        std::array<iow_request, 4> requests;
        for (size_t k = 0; k < requests.size(); ++k) {
          const iow_op op = flow == prefetch ? IOW_OP_PREFETCH : IOW_OP_READ;
          requests[k] = make_request(op, file.fd(), &buffer[k * 4096], 4096, (i % 200) * 4096);
          requests[k].flow = flow;
          ASSERT_EQ(submit_one(*service, requests[k]), 1);
        }
        (void)service->cancel(requests[3]);
        for (iow_request& request : requests) {
          ASSERT_EQ(service->wait(request, -1), 0);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  service.reset();
  const policy::Replayed replayed = policy::replay(log);
  EXPECT_TRUE(replayed.same) << "line " << replayed.line << ": " << replayed.reason;
  EXPECT_GT(replayed.decisions, 2u * kPerThread);
}

}  // namespace
}  // namespace ioweave::service
