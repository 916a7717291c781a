// I/O that others do, in C and C++: asked for, let go, finished, withdrawn, forgotten.
#include <array>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>

#include <gmock/gmock.h>

#include "fixture.hpp"
#include "ioweave/ioweave.hpp"
#include "policy/event_log.hpp"

namespace ioweave::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Admission : public ::testing::Test {
 protected:
  void SetUp() override {
    iow_options options{};
    options.engine = IOW_ENGINE_THREADS;
    service_ = open_service(options);
    ASSERT_NE(service_, nullptr);
    one_at_once_ = flow(1, {});
  }
  uint32_t flow(uint32_t at_once, const char* constraint, double budget = 0) {
    iow_device_options device{};
    device.budget_mb_per_s = budget;
    device.max_in_flight = at_once;
    const int on = iow_device_create(service(), "disk", &device, nullptr);
    EXPECT_GT(on, 0);
    iow_flow_options options{};
    options.device = static_cast<uint32_t>(on);
    options.constraint = constraint;
    ErrorText text;
    const int id = iow_flow_create(service(), "flow", &options, text.out());
    EXPECT_GT(id, 0) << text.str();
    return static_cast<uint32_t>(id);
  }
  iow_service* service() { return service_.get(); }

  /// Remembers the numbers, in order.
  static void note(int64_t operation, void* user) {
    static_cast<std::vector<int64_t>*>(user)->push_back(operation);
  }

  OwnedService service_;
  uint32_t one_at_once_ = 0;
};

TEST_F(Admission, IsGivenAtOnceWhereThereIsRoom) {
  const int64_t operation = iow_admit(service(), one_at_once_, 4096);
  ASSERT_GT(operation, 0);
  EXPECT_EQ(iow_finish(service(), operation, 4096), 0);
  EXPECT_EQ(iow_finish(service(), operation, 4096), -ENOENT) << "it has ended";
}

TEST_F(Admission, ThatMustWaitIsGivenByTheEndOfAnother) {
  const int64_t first = iow_admit(service(), one_at_once_, 4096);
  std::atomic<int64_t> second{0};
  std::thread waits([&] { second = iow_admit(service(), one_at_once_, 4096); });
  iow_stats stats{};
  stats.size = sizeof stats;
  while (stats.held == 0) {
    ASSERT_EQ(iow_service_stats(service(), &stats), 0);
  }
  EXPECT_EQ(second, 0);
  EXPECT_EQ(iow_finish(service(), first, -EIO), 0);
  waits.join();
  EXPECT_GT(second, first);
  EXPECT_EQ(iow_finish(service(), second, 0), 0);
}

TEST_F(Admission, ByCallbackRunsOnceInsideTheCallOrWhereRoomIsMade) {
  std::vector<int64_t> admitted;
  const int64_t first = iow_admit_async(service(), one_at_once_, 1, &note, &admitted);
  const int64_t second = iow_admit_async(service(), one_at_once_, 1, &note, &admitted);
  const int64_t third = iow_admit_async(service(), one_at_once_, 1, &note, &admitted);
  EXPECT_THAT(admitted, ElementsAre(first));
  EXPECT_EQ(iow_finish(service(), second, 0), -EBUSY);
  EXPECT_EQ(iow_withdraw(service(), second), 0);
  EXPECT_EQ(iow_withdraw(service(), second), -EALREADY);
  EXPECT_EQ(iow_withdraw(service(), first), -EALREADY);
  EXPECT_EQ(iow_finish(service(), first, 1), 0);
  EXPECT_THAT(admitted, ElementsAre(first, third));
  EXPECT_EQ(iow_finish(service(), third, 1), 0);
}

/// One thread makes the room, the other takes back the operation that waits for it.
TEST_F(Admission, AWithdrawalThatMeetsTheAdmissionLeavesOneOutcomeAndTheRoom) {
  constexpr int kRounds = 3000;
  const auto count = [](int64_t, void* user) { ++*static_cast<std::atomic<int>*>(user); };
  int64_t first = 0;
  std::atomic<bool> enough{false};
  std::barrier together(2);
  std::thread finishes([&] {
    for (together.arrive_and_wait(); !enough; together.arrive_and_wait()) {
      EXPECT_EQ(iow_finish(service(), first, 1), 0);
      together.arrive_and_wait();
    }
  });
  int withdrawn = 0;
  int admitted = 0;
  while (withdrawn + admitted < kRounds && !HasFailure()) {
    std::atomic<int> calls_of_first{0};
    std::atomic<int> calls{0};
    first = iow_admit_async(service(), one_at_once_, 1, count, &calls_of_first);
    const int64_t second = iow_admit_async(service(), one_at_once_, 1, count, &calls);
    EXPECT_EQ(calls_of_first, 1) << "the room is there again";
    EXPECT_EQ(calls, 0) << "and no more than that";
    together.arrive_and_wait();
    const int answer = iow_withdraw(service(), second);
    together.arrive_and_wait();
    if (answer == 0) {
      ++withdrawn;
      EXPECT_EQ(calls, 0);
      EXPECT_EQ(iow_finish(service(), second, 1), -ENOENT);
    } else {
      ++admitted;
      EXPECT_EQ(answer, -EALREADY);
      EXPECT_EQ(calls, 1);
      EXPECT_EQ(iow_finish(service(), second, 1), 0);
    }
  }
  enough = true;
  together.arrive_and_wait();
  finishes.join();
  EXPECT_EQ(withdrawn + admitted, kRounds);
  iow_flow_stats stats{};
  stats.size = sizeof stats;
  ASSERT_EQ(iow_service_flow_stats(service(), one_at_once_, &stats), 0);
  EXPECT_EQ(stats.waiting, 0u);
  EXPECT_EQ(stats.running, 0u);
}

TEST_F(Admission, MayBeFinishedInsideTheCallback) {
  struct Chain {
    iow_service* service;
    int ended;
  } chain{service(), 0};
  const auto end = [](int64_t operation, void* user) {
    auto& mine = *static_cast<Chain*>(user);
    ++mine.ended;
    EXPECT_EQ(iow_finish(mine.service, operation, 1), 0);
  };
  constexpr int kLong = 100'000;  // as deep a chain of calls would not fit on the stack
  const int64_t first = iow_admit(service(), one_at_once_, 1);
  for (int i = 0; i < kLong; ++i) {
    EXPECT_GT(iow_admit_async(service(), one_at_once_, 1, end, &chain), 0);
  }
  EXPECT_EQ(chain.ended, 0);
  EXPECT_EQ(iow_finish(service(), first, 1), 0);
  EXPECT_EQ(chain.ended, kLong);
}

/// Requests and the operations of others share what the device has.
TEST_F(Admission, HoldsRequestsBackAndIsHeldBackByThem) {
  const int64_t operation = iow_admit(service(), one_at_once_, 1);
  iow_request request = make_nop();
  request.flow = one_at_once_;
  iow_request* one = &request;
  ASSERT_EQ(iow_submit(service(), &one, 1), 1);
  EXPECT_EQ(iow_wait(service(), &request, kMomentNs), -ETIME);
  EXPECT_EQ(iow_finish(service(), operation, 1), 0);
  EXPECT_EQ(iow_wait(service(), &request, kForEver), 0);
}

TEST_F(Admission, IsRefusedWhereItCannotBeMeant) {
  EXPECT_EQ(iow_admit(service(), 77, 1), -EINVAL);
  EXPECT_EQ(iow_admit_async(service(), 77, 1, &note, nullptr), -EINVAL);
  EXPECT_EQ(iow_admit_async(service(), one_at_once_, 1, nullptr, nullptr), -EINVAL);
  EXPECT_EQ(iow_finish(service(), 0, 1), -ENOENT);
  EXPECT_EQ(iow_finish(service(), -1, 1), -ENOENT);
  EXPECT_EQ(iow_withdraw(service(), 5), -EALREADY);
}

TEST_F(Admission, InAForkedChildIsRefused) {
  const int64_t operation = iow_admit(service(), one_at_once_, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = iow_admit(service(), one_at_once_, 1) == -ECANCELED &&
                         iow_admit_async(service(), 0, 1, &note, nullptr) == -ECANCELED &&
                         iow_finish(service(), operation, 1) == -ECANCELED &&
                         iow_withdraw(service(), operation) == -ECANCELED;
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(iow_finish(service(), operation, 1), 0);
}

TEST_F(Admission, ClosingForgetsWhatWaitsOrWasNotFinishedAndCompletesRequests) {
  std::vector<int64_t> admitted;
  static_cast<void>(iow_admit(service(), one_at_once_, 1));
  EXPECT_GT(iow_admit_async(service(), one_at_once_, 1, &note, &admitted), 0);
  static bool completed;
  completed = false;
  iow_request request = make_nop();
  request.flow = one_at_once_;
  request.callback = [](iow_request*, void*) { completed = true; };
  iow_request* one = &request;
  ASSERT_EQ(iow_submit(service(), &one, 1), 1);
  service_.reset();
  EXPECT_TRUE(completed);
  EXPECT_THAT(admitted, IsEmpty());
}

TEST_F(Admission, IsRefusedWhileTheServiceCloses) {
  ASSERT_GT(iow_admit(service(), one_at_once_, 1), 0);
  struct Asker {
    iow_service* service;
    uint32_t flow;
    int64_t waits;
    int64_t later = 0;
    int64_t later_async = 0;
  } asker{service(), one_at_once_, 0};
  const auto never = [](int64_t, void*) { ADD_FAILURE() << "nobody makes room"; };
  asker.waits = iow_admit_async(service(), one_at_once_, 1, never, nullptr);
  ASSERT_GT(asker.waits, 0);
  Gate gate;
  iow_request request = gate.wait_for_byte();
  request.user = &asker;
  request.callback = [](iow_request*, void* user) {
    auto& mine = *static_cast<Asker*>(user);
    while (iow_finish(mine.service, mine.waits, 0) == -EBUSY) {
      std::this_thread::yield();  // until closing has forgotten it
    }
    const auto admitted = [](int64_t, void*) { ADD_FAILURE(); };
    mine.later = iow_admit(mine.service, 0, 1);
    mine.later_async = iow_admit_async(mine.service, mine.flow, 1, admitted, nullptr);
  };
  iow_request* one = &request;
  ASSERT_EQ(iow_submit(service(), &one, 1), 1);
  gate.open();
  service_.reset();
  EXPECT_EQ(asker.later, -ECANCELED);
  EXPECT_EQ(asker.later_async, -ECANCELED);
}

/// Requests end on the service's threads, and let operations go, while it closes.
TEST_F(Admission, ClosingMeetsRequestsThatEndAndAskersThatComeLate) {
  for (int round = 0; round < 200; ++round) {
    iow_options options{};
    options.engine = IOW_ENGINE_THREADS;
    service_ = open_service(options);
    const uint32_t two = flow(2, {});
    std::atomic<int> late{0};
    struct Asker {
      iow_service* service;
      uint32_t flow;
      std::atomic<int>& late;
    } asker{service(), two, late};
    const auto ask = [](iow_request*, void* user) {
      auto& mine = *static_cast<Asker*>(user);
      const auto admitted = [](int64_t, void*) {};
      const int64_t operation = iow_admit_async(mine.service, mine.flow, 1, admitted, nullptr);
      EXPECT_TRUE(operation > 0 || operation == -ECANCELED) << operation;
      mine.late += operation < 0 ? 1 : 0;
    };
    std::vector<iow_request> requests(20, make_nop());
    for (iow_request& request : requests) {
      request.flow = two;
      request.callback = ask;
      request.user = &asker;
      iow_request* one = &request;
      ASSERT_EQ(iow_submit(service(), &one, 1), 1);
      ASSERT_GT(iow_admit_async(
                    service(), two, 1, [](int64_t, void*) {}, nullptr),
                0);
    }
    service_.reset();
    for (const iow_request& request : requests) {
      EXPECT_EQ(request.result, 0);
    }
  }
}

/// Of a budget of 100 MB/s each holds 25.
TEST_F(Admission, ConstraintsAreWrittenInTheWordsOfEveryInterface) {
  const uint32_t fixed = flow(0, "25", 100);
  std::array<int64_t, 4> operations{};
  for (int64_t& operation : operations) {
    operation = iow_admit(service(), fixed, 1);
    ASSERT_GT(operation, 0);
  }
  std::vector<int64_t> admitted;
  const int64_t fifth = iow_admit_async(service(), fixed, 1, &note, &admitted);
  EXPECT_THAT(admitted, IsEmpty());
  for (const int64_t operation : operations) {
    EXPECT_EQ(iow_finish(service(), operation, 1), 0);
  }
  EXPECT_THAT(admitted, ElementsAre(fifth));
  EXPECT_EQ(iow_finish(service(), fifth, 1), 0);
  for (const char* words : {"climb", "auto(2,64,2)", "none"}) {
    const int64_t operation = iow_admit(service(), flow(0, words, 100), 1);
    EXPECT_GT(operation, 0) << words;
    EXPECT_EQ(iow_finish(service(), operation, 1), 0);
  }
}

TEST_F(Admission, AutoBeginsWithTheFlowsMostInFlight) {
  iow_device_options device{};
  device.budget_mb_per_s = 100;
  iow_flow_options options{};
  options.device = static_cast<uint32_t>(iow_device_create(service(), "disk", &device, nullptr));
  options.constraint = "auto";
  ErrorText text;
  EXPECT_EQ(iow_flow_create(service(), "saves", &options, text.out()), -EINVAL);
  EXPECT_THAT(text.str(), HasSubstr("flow 'saves': "));
  EXPECT_THAT(text.str(), HasSubstr("max_in_flight"));
  options.max_in_flight = 8;
  EXPECT_GT(iow_flow_create(service(), "saves", &options, text.out()), 0) << text.str();
}

TEST_F(Admission, WordsThatAreNoneAreNamed) {
  for (const char* words : {"", "fast", "auto(2,64)", "auto(2,64,2", "20 MB/s", "-1", "nan"}) {
    iow_flow_options options{};
    options.constraint = words;
    ErrorText text;
    EXPECT_EQ(iow_flow_create(service(), "saves", &options, text.out()), -EINVAL) << words;
    EXPECT_THAT(text.str(), HasSubstr("flow 'saves': ")) << words;
    EXPECT_THAT(text.str(), HasSubstr("constraint")) << words;
  }
  iow_flow_options both{};
  both.constraint = "20";
  both.constraint_mb_per_s = 20;
  ErrorText text;
  EXPECT_EQ(iow_flow_create(service(), "saves", &both, text.out()), -EINVAL);
  EXPECT_THAT(text.str(), HasSubstr("both set"));
}

TEST(CppAdmission, EndsWithItsBodyHoweverThatEnds) {
  Service service;
  iow_device_options device{};
  device.max_in_flight = 1;
  iow_flow_options options{};
  options.device = service.create_device("disk", device);
  const uint32_t flow = service.create_flow("saves", options);
  EXPECT_EQ(service.admitted(flow, 10, [] { return size_t{10}; }), 10u);
  EXPECT_THROW(
      service.admitted(flow, 10, []() -> size_t { throw std::runtime_error("the disk is full"); }),
      std::runtime_error);
  EXPECT_EQ(service.admitted(flow, 10, [] { return size_t{7}; }), 7u) << "the room was given back";
  EXPECT_THROW(service.admitted(77, 10, [] { return 0; }), std::system_error);
}

// ---- What flows are asked about -----------------------------------------------------------------

TEST_F(Admission, FlowsAreCountedWithTheLimitOfTheirConstraint) {
  const uint32_t twenty = flow(0, "20", 40);
  std::vector<int64_t> admitted;
  for (int i = 0; i < 3; ++i) {
    ASSERT_GT(iow_admit_async(service(), twenty, 1, &note, &admitted), 0);
  }
  iow_flow_stats stats{};
  stats.size = sizeof stats;
  ASSERT_EQ(iow_service_flow_stats(service(), twenty, &stats), 0);
  EXPECT_EQ(stats.limit, 2u);
  EXPECT_EQ(stats.waiting, 1u);
  EXPECT_EQ(stats.running, 2u);
  stats.size = 2;
  EXPECT_EQ(iow_service_flow_stats(service(), twenty, &stats), -EINVAL);
  stats.size = sizeof stats;
  EXPECT_EQ(iow_service_flow_stats(service(), twenty + 1, &stats), -EINVAL) << "there is none";
}

TEST_F(Admission, FlowsExplainTheirConstraint) {
  const uint32_t twenty = flow(0, "20", 40);
  char* json = nullptr;
  ASSERT_EQ(iow_flow_explain(service(), twenty, &json), 0);
  EXPECT_THAT(json, HasSubstr("\"policy\":\"fixed\""));
  free(json);
  EXPECT_EQ(iow_flow_explain(service(), twenty + 1, &json), -EINVAL);
  EXPECT_EQ(json, nullptr);
  EXPECT_EQ(iow_flow_explain(service(), twenty, nullptr), -EINVAL);
}

TEST_F(Admission, WhatWasLearnedIsBegunWith) {
  const uint32_t learns = flow(0, "auto(10,20,2)", 100);
  char* text = nullptr;
  ASSERT_EQ(iow_flow_learned(service(), learns, &text), 0);
  EXPECT_STREQ(text, "");
  free(text);
  for (int i = 0; i < 100; ++i) {  // two epochs, of as many operations as it likes
    const int64_t operation = iow_admit(service(), learns, 1);
    ASSERT_EQ(iow_finish(service(), operation, 1), 0);
  }
  ASSERT_EQ(iow_flow_learned(service(), learns, &text), 0);
  const std::string learned = text;
  free(text);
  EXPECT_NE(learned, "");

  iow_device_options device{};
  device.budget_mb_per_s = 100;
  iow_flow_options options{};
  options.device = static_cast<uint32_t>(iow_device_create(service(), "disk", &device, nullptr));
  options.constraint = "auto(10,20,2)";
  options.learned = learned.c_str();
  ErrorText why;
  const int again = iow_flow_create(service(), "again", &options, why.out());
  ASSERT_GT(again, 0) << why.str();
  ASSERT_EQ(iow_flow_explain(service(), static_cast<uint32_t>(again), &text), 0);
  EXPECT_THAT(text, HasSubstr("\"phase\":\"chosen\""));
  free(text);
  options.learned = "nonsense";
  EXPECT_EQ(iow_flow_create(service(), "again", &options, why.out()), -EINVAL);
  EXPECT_THAT(why.str(), HasSubstr("learned"));
}

TEST_F(Admission, AMeasuredDeviceIsToldItsThroughput) {
  iow_device_options device{};
  device.is_measured = 1;
  device.begins_at = 4;
  const int on = iow_device_create(service(), "disk", &device, nullptr);
  ASSERT_GT(on, 0);
  const auto disk = static_cast<uint32_t>(on);
  iow_flow_options options{};
  options.device = disk;
  options.constraint = "climb";
  const auto climbs = static_cast<uint32_t>(iow_flow_create(service(), "flow", &options, nullptr));
  EXPECT_EQ(iow_device_needs_samples(service(), disk), 0);
  const int64_t operation = iow_admit(service(), climbs, 1);
  EXPECT_EQ(iow_device_needs_samples(service(), disk), 1);
  EXPECT_EQ(iow_device_sample(service(), disk, 1e8, 1), 0);
  iow_flow_stats stats{};
  stats.size = sizeof stats;
  ASSERT_EQ(iow_service_flow_stats(service(), climbs, &stats), 0);
  EXPECT_EQ(stats.limit, 4u);
  EXPECT_EQ(iow_finish(service(), operation, 1), 0);
  char* json = nullptr;
  ASSERT_EQ(iow_flow_explain(service(), climbs, &json), 0);
  EXPECT_THAT(json, HasSubstr("\"mb_per_s\":100,"));
  free(json);

  EXPECT_EQ(iow_device_sample(service(), disk, -1, 1), -EINVAL);
  EXPECT_EQ(iow_device_sample(service(), disk, 1, 0), -EINVAL);
  EXPECT_EQ(iow_device_sample(service(), disk, std::nan(""), 1), -EINVAL);
  EXPECT_EQ(iow_device_sample(service(), disk + 1, 1, 1), -EINVAL) << "there is none";
  EXPECT_EQ(iow_device_sample(service(), 0, 1, 1), -EINVAL) << "it is not measured";
  ASSERT_EQ(iow_service_flow_stats(service(), climbs, &stats), 0);
  EXPECT_EQ(stats.moved_bytes, 1u);
  EXPECT_EQ(iow_device_needs_samples(service(), disk + 1), -EINVAL);
}

TEST_F(Admission, AMeasuredDeviceNeedsSamplesWhileOperationsOnlyWaitForIt) {
  iow_device_options device{};
  device.scheduling = IOW_SCHEDULE_STRICT;
  device.is_measured = 1;
  const int on = iow_device_create(service(), "disk", &device, nullptr);
  ASSERT_GT(on, 0);
  const auto disk = static_cast<uint32_t>(on);
  iow_flow_options options{};
  options.device = disk;
  const int foreground = iow_flow_create(service(), "foreground", &options, nullptr);
  ASSERT_GT(foreground, 0);
  options.priority = IOW_PREFETCH;
  options.constraint = "climb";
  const auto climbs = static_cast<uint32_t>(iow_flow_create(service(), "flow", &options, nullptr));
  Gate gate;
  iow_request keeps_it = gate.wait_for_byte();  // no operation with "climb"
  keeps_it.flow = static_cast<uint32_t>(foreground);
  iow_request* one = &keeps_it;
  ASSERT_EQ(iow_submit(service(), &one, 1), 1);
  EXPECT_EQ(iow_device_needs_samples(service(), disk), 0);

  std::vector<int64_t> admitted;
  const int64_t operation = iow_admit_async(service(), climbs, 1, &note, &admitted);
  EXPECT_THAT(admitted, IsEmpty());
  EXPECT_EQ(iow_device_needs_samples(service(), disk), 1);
  EXPECT_EQ(iow_withdraw(service(), operation), 0);
  EXPECT_EQ(iow_device_needs_samples(service(), disk), 0);
  gate.open();
  EXPECT_EQ(iow_wait(service(), &keeps_it, kForEver), 0);
}

TEST(AdmissionLog, HasTheLinesOfThePolicysEvents) {
  std::string log;
  iow_options options{};
  options.engine = IOW_ENGINE_THREADS;
  options.log_user = &log;
  options.log = [](const char* line, size_t bytes, void* user) {
    static_cast<std::string*>(user)->append(line, bytes).push_back('\n');
  };
  const OwnedService service = open_service(options);
  ASSERT_NE(service, nullptr);
  iow_device_options device{};
  device.max_in_flight = 1;
  iow_flow_options flow{};
  flow.device = static_cast<uint32_t>(iow_device_create(service.get(), "disk", &device, nullptr));
  const int id = iow_flow_create(service.get(), "saves", &flow, nullptr);
  const int64_t operation = iow_admit(service.get(), static_cast<uint32_t>(id), 7);
  ASSERT_EQ(iow_finish(service.get(), operation, 7), 0);
  EXPECT_THAT(log, HasSubstr("saves"));
  std::istringstream lines(log);
  const policy::Replayed replayed = policy::replay(lines);
  EXPECT_TRUE(replayed.same) << replayed.reason;
  EXPECT_EQ(replayed.decisions, 1u);
}

}  // namespace
}  // namespace ioweave::test
