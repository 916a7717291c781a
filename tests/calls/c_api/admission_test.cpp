// I/O that others do, in C and C++: asked for, let go, finished, withdrawn, forgotten.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>

#include <gmock/gmock.h>

#include "fixture.hpp"
#include "ioweave/ioweave.hpp"

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

}  // namespace
}  // namespace ioweave::test
