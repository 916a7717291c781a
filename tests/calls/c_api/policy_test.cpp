// Devices, flows, cancellation and statistics in C: limits and texts, what is held back, what
// counts.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <mutex>
#include <ostream>
#include <string>
#include <vector>

#include <fcntl.h>

#include <gmock/gmock.h>

#include "fixture.hpp"

namespace ioweave::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Enum>
void set_raw(Enum& field, uint32_t value) {
  static_assert(sizeof field == sizeof value);
  std::memcpy(&field, &value, sizeof value);
}

// ---- Options out of range
// ------------------------------------------------------------------------

template <typename Options>
struct Bad {
  const char* name;
  std::function<void(Options&)> spoil;
  std::vector<std::string> words;  ///< of the text
};
template <typename Options>
void PrintTo(const Bad<Options>& option, std::ostream* out) {
  *out << option.name;
}
using BadDevice = Bad<iow_device_options>;
using BadFlow = Bad<iow_flow_options>;

class CDeviceOption : public ::testing::TestWithParam<BadDevice> {};
class CFlowOption : public ::testing::TestWithParam<BadFlow> {};

OwnedService any_service() {
  iow_options options{};
  options.engine = IOW_ENGINE_THREADS;
  return open_service(options);
}

int create_device(iow_service* service, const iow_device_options& options) {
  ErrorText text;
  const int id = iow_device_create(service, "disk", &options, text.out());
  EXPECT_GT(id, 0) << text.str();
  EXPECT_EQ(text.str(), "");
  return id;
}

uint32_t create_flow(iow_service* service, const iow_flow_options& options) {
  ErrorText text;
  const int id = iow_flow_create(service, "flow", &options, text.out());
  EXPECT_GT(id, 0) << text.str();
  EXPECT_EQ(text.str(), "");
  return static_cast<uint32_t>(id);
}

TEST_P(CDeviceOption, OutOfRangeIsRefusedByName) {
  const OwnedService service = any_service();
  iow_device_options options{};
  GetParam().spoil(options);
  ErrorText text;
  EXPECT_EQ(iow_device_create(service.get(), "tape", &options, text.out()), -EINVAL);
  for (const std::string& word : GetParam().words) {
    EXPECT_THAT(text.str(), HasSubstr(word));
  }
  EXPECT_EQ(iow_device_create(service.get(), "tape", &options, nullptr), -EINVAL);
  EXPECT_EQ(iow_device_create(service.get(), "next", nullptr, nullptr), 1) << "no id was used up";
}

INSTANTIATE_TEST_SUITE_P(
    , CDeviceOption,
    ::testing::Values(
        BadDevice{"size_2", [](auto& o) { o.size = 2; }, {"options.size", "iow_device_options"}},
        BadDevice{
            "scheduling_3", [](auto& o) { set_raw(o.scheduling, 3); }, {"scheduling", "0..2", "3"}},
        BadDevice{
            "scheduling_huge", [](auto& o) { set_raw(o.scheduling, UINT32_MAX); }, {"scheduling"}},
        BadDevice{"budget_negative",
                  [](auto& o) { o.budget_mb_per_s = -1; },
                  {"'tape'", "budget_mb_per_s", "-1"}},
        BadDevice{"budget_tiny", [](auto& o) { o.budget_mb_per_s = 1e-7; }, {"budget_mb_per_s"}},
        BadDevice{"budget_huge", [](auto& o) { o.budget_mb_per_s = 1e13; }, {"budget_mb_per_s"}},
        BadDevice{"budget_nan", [](auto& o) { o.budget_mb_per_s = NAN; }, {"budget_mb_per_s"}},
        BadDevice{
            "weight_10001", [](auto& o) { o.weights[2] = 10'001; }, {"weights", "10000", "10001"}}),
    [](const auto& option) { return std::string(option.param.name); });

TEST_P(CFlowOption, OutOfRangeIsRefusedByName) {
  const OwnedService service = any_service();
  iow_device_options disk{};
  disk.budget_mb_per_s = 100;
  ASSERT_EQ(create_device(service.get(), disk), 1);
  iow_flow_options options{};
  options.device = 1;
  GetParam().spoil(options);
  ErrorText text;
  EXPECT_EQ(iow_flow_create(service.get(), "stream", &options, text.out()), -EINVAL);
  for (const std::string& word : GetParam().words) {
    EXPECT_THAT(text.str(), HasSubstr(word));
  }
  EXPECT_EQ(iow_flow_create(service.get(), "stream", &options, nullptr), -EINVAL);
  EXPECT_EQ(iow_flow_create(service.get(), "next", nullptr, nullptr), 1) << "no id was used up";
}

INSTANTIATE_TEST_SUITE_P(
    , CFlowOption,
    ::testing::Values(
        BadFlow{"size_3", [](auto& o) { o.size = 3; }, {"options.size", "iow_flow_options"}},
        BadFlow{"priority_3", [](auto& o) { set_raw(o.priority, 3); }, {"priority", "0..2", "3"}},
        BadFlow{"priority_huge", [](auto& o) { set_raw(o.priority, UINT32_MAX); }, {"priority"}},
        BadFlow{
            "device_2", [](auto& o) { o.device = 2; }, {"'stream'", "device 2", "does not exist"}},
        BadFlow{"constraint_negative",
                [](auto& o) { o.constraint_mb_per_s = -1; },
                {"constraint", "-1"}},
        BadFlow{"constraint_nan", [](auto& o) { o.constraint_mb_per_s = NAN; }, {"constraint"}},
        BadFlow{"constraint_above_the_budget",
                [](auto& o) { o.constraint_mb_per_s = 101; },
                {"constraint", "'disk'", "100", "101"}}),
    [](const auto& option) { return std::string(option.param.name); });

TEST(CDevice, OptionsMayBeNullZeroedShorterOrLongerAndTheNameNull) {
  const OwnedService service = any_service();
  EXPECT_EQ(iow_device_create(service.get(), nullptr, nullptr, nullptr), 1);
  EXPECT_EQ(create_device(service.get(), {}), 2);
  iow_device_options shorter{};
  shorter.size = offsetof(iow_device_options, weights);
  shorter.weights[0] = 99'999;  // behind the end of the struct that the caller knows
  EXPECT_EQ(create_device(service.get(), shorter), 3);
  struct Newer {
    iow_device_options known{};
    std::array<uint32_t, 16> more{};
  } newer;
  newer.known.size = sizeof newer;
  newer.more.fill(0xffff'ffff);
  EXPECT_EQ(create_device(service.get(), newer.known), 4);

  EXPECT_EQ(iow_flow_create(service.get(), nullptr, nullptr, nullptr), 1);
  iow_flow_options older{};
  older.size = offsetof(iow_flow_options, constraint_mb_per_s);
  older.device = 4;
  older.constraint_mb_per_s = -1;
  EXPECT_EQ(create_flow(service.get(), older), 2u);
  older.size = offsetof(iow_flow_options, max_in_flight);
  EXPECT_EQ(iow_flow_create(service.get(), "f", &older, nullptr), -EINVAL);
}

TEST(CDevice, AServiceHasRoomFor256DevicesAnd4096Flows) {
  const OwnedService service = any_service();
  for (int id = 1; id < 256; ++id) {
    ASSERT_EQ(iow_device_create(service.get(), "disk", nullptr, nullptr), id);
  }
  ErrorText text;
  EXPECT_EQ(iow_device_create(service.get(), "disk", nullptr, text.out()), -EINVAL);
  EXPECT_THAT(text.str(), HasSubstr("256 devices"));
  for (int id = 1; id < 4096; ++id) {
    ASSERT_EQ(iow_flow_create(service.get(), "flow", nullptr, nullptr), id);
  }
  EXPECT_EQ(iow_flow_create(service.get(), "flow", nullptr, text.out()), -EINVAL);
  EXPECT_THAT(text.str(), HasSubstr("4096 flows"));
}

// ---- What is held back
// ---------------------------------------------------------------------------

/// A flow of which one request at a time fits the budget of its device.
uint32_t one_at_a_time(iow_service* service) {
  iow_device_options disk{};
  disk.budget_mb_per_s = 100;
  iow_flow_options flow{};
  flow.device = static_cast<uint32_t>(create_device(service, disk));
  flow.constraint_mb_per_s = 60;
  return create_flow(service, flow);
}

iow_request of_flow(uint32_t flow, iow_request request) {
  request.flow = flow;
  return request;
}

class CFlow : public OnEveryEngine {};
INSTANTIATE_TEST_SUITE_P(, CFlow, every_engine(), name_of);

TEST_P(CFlow, AConstraintHoldsBackWhatDoesNotFitTheBudget) {
  const uint32_t flow = one_at_a_time(service);
  Gate gate;
  iow_request first = of_flow(flow, gate.wait_for_byte());
  iow_request second = of_flow(flow, make_nop());
  ASSERT_EQ(submit(first), 1);
  ASSERT_EQ(submit(second), 1);
  EXPECT_EQ(iow_wait(service, &second, kMomentNs), -ETIME);
  EXPECT_EQ(stats_of(service).held, 1u);
  gate.open();
  EXPECT_EQ(iow_wait(service, &second, kForEver), 0);
  EXPECT_EQ(iow_wait(service, &first, kForEver), 0);
}

TEST_P(CFlow, AConstraintOnADeviceWithoutABudgetHoldsNothingBack) {
  iow_flow_options options{};
  options.constraint_mb_per_s = 60;  // on device 0
  const uint32_t flow = create_flow(service, options);
  Gate gate;
  iow_request first = of_flow(flow, gate.wait_for_byte());
  iow_request second = of_flow(flow, make_nop());
  ASSERT_EQ(submit(first), 1);
  ASSERT_EQ(submit(second), 1);
  EXPECT_EQ(iow_wait(service, &second, kForEver), 0);
  gate.open();
  EXPECT_EQ(iow_wait(service, &first, kForEver), 0);
  EXPECT_EQ(stats_of(service).held, 0u);
}

TEST_P(CFlow, ItsLimitOfRequestsAtOnceHoldsAndSoDoesThatOfItsDevice) {
  iow_device_options narrow{};
  narrow.max_in_flight = 1;
  iow_flow_options by_device{};
  by_device.device = static_cast<uint32_t>(create_device(service, narrow));
  iow_flow_options by_itself{};
  by_itself.max_in_flight = 1;
  for (const iow_flow_options& options : {by_device, by_itself}) {
    const uint32_t flow = create_flow(service, options);
    Gate gate;
    iow_request first = of_flow(flow, gate.wait_for_byte());
    iow_request second = of_flow(flow, make_nop());
    ASSERT_EQ(submit(first), 1);
    ASSERT_EQ(submit(second), 1);
    EXPECT_EQ(iow_wait(service, &second, kMomentNs), -ETIME);
    gate.open();
    EXPECT_EQ(iow_wait(service, &second, kForEver), 0);
    EXPECT_EQ(iow_wait(service, &first, kForEver), 0);
  }
  EXPECT_EQ(stats_of(service).held, 2u);
}

TEST_P(CFlow, OnTheDefaultDeviceLowerClassesWaitForTheForeground) {
  iow_flow_options low{};
  low.priority = IOW_PREFETCH;
  const uint32_t flow = create_flow(service, low);
  Gate gate;
  iow_request foreground = gate.wait_for_byte();
  iow_request behind = of_flow(flow, make_nop());
  ASSERT_EQ(submit(foreground), 1);
  ASSERT_EQ(submit(behind), 1);
  EXPECT_EQ(iow_wait(service, &behind, kMomentNs), -ETIME);
  gate.open();
  EXPECT_EQ(iow_wait(service, &foreground, kForEver), 0);
  EXPECT_EQ(iow_wait(service, &behind, kForEver), 0);
}

TEST_P(CFlow, WithoutSchedulingClassesDoNotWaitForEachOther) {
  iow_flow_options low{};
  low.priority = IOW_PREFETCH;
  low.device = static_cast<uint32_t>(create_device(service, {}));
  iow_flow_options high{};
  high.device = low.device;
  const uint32_t low_flow = create_flow(service, low);
  Gate gate;
  iow_request foreground = of_flow(create_flow(service, high), gate.wait_for_byte());
  iow_request behind = of_flow(low_flow, make_nop());
  ASSERT_EQ(submit(foreground), 1);
  ASSERT_EQ(submit(behind), 1);
  EXPECT_EQ(iow_wait(service, &behind, kForEver), 0);
  gate.open();
  EXPECT_EQ(iow_wait(service, &foreground, kForEver), 0);
}

/// In which order requests ended, by a letter each.
struct Order {
  std::mutex lock;
  std::string letters;
};
struct Lettered {
  iow_request request;
  char letter;
  Order* order;
};

/// On a device with room for one, behind a request that runs: eight of each class, and how many of
/// the first eight to run were of class prefetch.
int64_t prefetches_among_the_first_eight(iow_service* service, const iow_device_options& options) {
  iow_flow_options flow{};
  flow.device = static_cast<uint32_t>(create_device(service, options));
  const uint32_t high = create_flow(service, flow);
  flow.priority = IOW_PREFETCH;
  const uint32_t low = create_flow(service, flow);
  Gate gate;
  iow_request running = of_flow(high, gate.wait_for_byte());
  iow_request* one = &running;
  EXPECT_EQ(iow_submit(service, &one, 1), 1);
  Order order;
  std::array<Lettered, 16> waiting;
  for (size_t i = 0; i < waiting.size(); ++i) {
    waiting[i] = {of_flow(i < 8 ? high : low, make_nop()), i < 8 ? 'h' : 'l', &order};
    waiting[i].request.user = &waiting[i];
    waiting[i].request.callback = [](iow_request*, void* user) {
      const auto& mine = *static_cast<Lettered*>(user);
      const std::lock_guard guard(mine.order->lock);
      mine.order->letters += mine.letter;
    };
    one = &waiting[i].request;
    EXPECT_EQ(iow_submit(service, &one, 1), 1);
  }
  gate.open();
  EXPECT_EQ(iow_wait(service, &running, kForEver), 0);
  while (true) {
    const std::lock_guard guard(order.lock);
    if (order.letters.size() == waiting.size()) {
      return std::count(order.letters.begin(), order.letters.begin() + 8, 'l');
    }
  }
}

TEST_P(CFlow, WeightsShareADeviceWithALimitAndStrictnessDoesNot) {
  iow_device_options device{};
  device.max_in_flight = 1;
  device.scheduling = IOW_SCHEDULE_STRICT;
  EXPECT_EQ(prefetches_among_the_first_eight(service, device), 0);
  device.scheduling = IOW_SCHEDULE_WEIGHTED;
  device.weights[IOW_PREFETCH] = 7;
  device.weights[IOW_FOREGROUND] = 1;
  EXPECT_EQ(prefetches_among_the_first_eight(service, device), 7);
  device.weights[IOW_PREFETCH] = 10'000;
  device.weights[IOW_FOREGROUND] = 10'000;
  EXPECT_EQ(prefetches_among_the_first_eight(service, device), 4);
  device.weights[IOW_PREFETCH] = 0;
  device.weights[IOW_FOREGROUND] = 0;
  EXPECT_LE(prefetches_among_the_first_eight(service, device), 1) << "0 is 1 and 16";
}

// ---- Cancellation
// --------------------------------------------------------------------------------

TEST_P(CFlow, AHeldRequestIsGivenUpWithoutHavingRun) {
  const uint32_t flow = one_at_a_time(service);
  const TempFile file(100);
  std::array<std::byte, 50> bytes{};
  Gate gate;
  iow_request running = of_flow(flow, gate.wait_for_byte());
  iow_request held = of_flow(flow, make_request(IOW_OP_WRITE, file.fd(), bytes.data(), 50, 100));
  iow_request after = of_flow(flow, make_nop());
  ASSERT_EQ(submit(running), 1);
  ASSERT_EQ(submit(held), 1);
  ASSERT_EQ(submit(after), 1);
  EXPECT_EQ(iow_cancel(service, &held), 0);
  EXPECT_EQ(iow_test(service, &held), 1);
  EXPECT_EQ(held.result, -ECANCELED);
  EXPECT_EQ(iow_wait(service, &held, kForEver), 0);
  EXPECT_EQ(iow_cancel(service, &held), -EALREADY) << "it has ended";
  gate.open();
  EXPECT_EQ(iow_wait(service, &after, kForEver), 0);
  EXPECT_EQ(iow_wait(service, &running, kForEver), 0);
  EXPECT_EQ(::lseek(file.fd(), 0, SEEK_END), 100) << "nothing was written";
  const iow_stats stats = stats_of(service);
  EXPECT_EQ(stats.cancelled, 1u);
  EXPECT_EQ(stats.failed, 0u);
  EXPECT_EQ(stats.submitted, 3u);
  EXPECT_EQ(stats.completed, 3u);

  EXPECT_EQ(result_of(held), 50) << "a cancelled request may be submitted again";
}

TEST_P(CFlow, ACancelledRequestsCallbackRunsOnce) {
  const uint32_t flow = one_at_a_time(service);
  Gate gate;
  Calls calls;
  iow_request running = of_flow(flow, gate.wait_for_byte());
  ASSERT_EQ(submit(running), 1);
  for (const unsigned flags : {0u, static_cast<unsigned>(IOW_CALLBACK_ON_POLL)}) {
    calls.count = 0;
    iow_request held = of_flow(flow, make_nop());
    held.flags = static_cast<uint8_t>(flags);
    held.callback = &note_call;
    held.user = &calls;
    ASSERT_EQ(submit(held), 1);
    EXPECT_EQ(iow_cancel(service, &held), 0);
    while (calls.count == 0) {
      (void)iow_poll(service, 1, kMomentNs);
    }
    EXPECT_EQ(calls.result, -ECANCELED);
    EXPECT_EQ(calls.count, 1);
    // Not inside iow_cancel(), whose caller may hold what the callback waits for.
    EXPECT_EQ(calls.thread == std::this_thread::get_id(), flags != 0);
  }
  gate.open();
  EXPECT_EQ(iow_wait(service, &running, kForEver), 0);
}

TEST_P(CFlow, WhatIsUnderWayCompletesWhetherItCouldBeGivenUpOrNot) {
  Gate gate;
  iow_request request = gate.wait_for_byte();
  ASSERT_EQ(submit(request), 1);
  EXPECT_EQ(iow_wait(service, &request, kMomentNs), -ETIME);
  const int cancelled = iow_cancel(service, &request);
  ASSERT_TRUE(cancelled == 0 || cancelled == -EALREADY) << cancelled;
  if (cancelled != 0) {
    gate.open();
  }
  EXPECT_EQ(iow_wait(service, &request, kForEver), 0);
  EXPECT_EQ(request.result, cancelled == 0 ? -ECANCELED : 1);
  EXPECT_EQ(stats_of(service).cancelled, cancelled == 0 ? 1u : 0u);
  EXPECT_EQ(iow_cancel(service, &request), -EALREADY);
}

// ---- Statistics
// ----------------------------------------------------------------------------------

TEST_P(CFlow, StatisticsCountWhatHappenedAndNothingElse) {
  const iow_stats before = stats_of(service);
  iow_stats nothing{};
  nothing.size = sizeof nothing;
  EXPECT_EQ(std::memcmp(&before, &nothing, sizeof before), 0) << "a new service has done nothing";

  const TempFile file(10'000);
  std::vector<std::byte> buffer(4000);
  iovec vector{buffer.data(), 500};
  iow_request read = make_request(IOW_OP_READ, file.fd(), buffer.data(), 4000, 0);
  iow_request readv = make_request(IOW_OP_READV, file.fd(), &vector, 1, 0);
  iow_request write = make_request(IOW_OP_WRITE, file.fd(), buffer.data(), 300, 0);
  iow_request writev = make_request(IOW_OP_WRITEV, file.fd(), &vector, 1, 0);
  iow_request prefetch = make_request(IOW_OP_PREFETCH, file.fd(), nullptr, 8192, 0);
  iow_request sync = make_request(IOW_OP_FSYNC, file.fd(), nullptr, 0, 0);
  iow_request bad = make_request(IOW_OP_READ, 1'000'000, buffer.data(), 10, 0);
  for (iow_request* const request : {&read, &readv, &write, &writev, &prefetch, &sync}) {
    EXPECT_GE(result_of(*request), 0);
  }
  EXPECT_EQ(result_of(bad), -EBADF);
  EXPECT_EQ(iow_pread(service, file.fd(), buffer.data(), 70, 0), 70);
  EXPECT_EQ(iow_pwritev(service, file.fd(), &vector, 1, 0), 500);
  EXPECT_EQ(iow_pread(service, 1'000'000, buffer.data(), 70, 0), -EBADF);

  const iow_stats after = stats_of(service);
  EXPECT_EQ(after.submitted, 7u) << "blocking calls are no requests";
  EXPECT_EQ(after.completed, 7u);
  EXPECT_EQ(after.failed, 1u);
  EXPECT_EQ(after.cancelled, 0u);
  EXPECT_EQ(after.read_bytes, 4000u + 500 + 70) << "but their bytes count";
  EXPECT_EQ(after.written_bytes, 300u + 500 + 500);
  EXPECT_EQ(after.prefetched_bytes, 8192u);
  EXPECT_EQ(after.held, 0u);
  EXPECT_EQ(after.reissued, 0u);
  EXPECT_EQ(after.continued, 0u);
  EXPECT_GE(after.lanes, 1u);
  EXPECT_LE(after.lanes, 3u) << "of this thread, and of the service's own two at most";
  // Native AIO takes no buffered transfer: read, readv, write and writev went to the workers, and
  // those of the bad descriptor, the sync and the prefetch did not pass through it.
  EXPECT_EQ(after.fallbacks, GetParam() == IOW_ENGINE_AIO ? 4u : 0u);
}

TEST_P(CFlow, StatisticsFillTheSizeThatTheCallerKnows) {
  iow_request nop = make_nop();
  EXPECT_EQ(result_of(nop), 0);
  iow_stats older;
  std::memset(&older, 0xAA, sizeof older);
  older.size = offsetof(iow_stats, completed);
  EXPECT_EQ(iow_service_stats(service, &older), 0);
  EXPECT_EQ(older.size, offsetof(iow_stats, completed));
  EXPECT_EQ(older.submitted, 1u);
  EXPECT_EQ(older.completed, 0xAAAA'AAAA'AAAA'AAAAu) << "behind the end of the older struct";

  struct Newer {
    iow_stats known{};
    uint64_t more = 7;
  } newer;
  newer.known.size = sizeof newer;
  EXPECT_EQ(iow_service_stats(service, &newer.known), 0);
  EXPECT_EQ(newer.known.size, sizeof(iow_stats)) << "what this library has filled";
  EXPECT_EQ(newer.known.completed, 1u);
  EXPECT_EQ(newer.more, 7u);
}

TEST(CStatistics, RefuseNothingToFill) {
  const OwnedService service = any_service();
  EXPECT_EQ(iow_service_stats(service.get(), nullptr), -EINVAL);
  iow_stats stats{};
  for (const uint32_t size : {0u, 3u}) {
    stats.size = size;
    EXPECT_EQ(iow_service_stats(service.get(), &stats), -EINVAL) << size;
  }
}

}  // namespace
}  // namespace ioweave::test
