// A thread that gets no memory: what a submission does without, and what it says where it cannot.
#include <array>
#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "fixture.hpp"
#include "support/memory_out.hpp"

namespace ioweave::service {
namespace {

using test::MemoryOut;
using test::pattern;
using test::TempFile;

class ServiceWithoutMemory : public EveryEngine {};
INSTANTIATE_TEST_SUITE_P(, ServiceWithoutMemory,
                         ::testing::Values(engine::Kind::uring, engine::Kind::aio,
                                           engine::Kind::threads),
                         engine_name);

struct Ends {
  std::atomic<int> all{0};
  std::atomic<int> well{0};
  std::atomic<int> without_memory{0};
  std::atomic<std::thread::id> refused_on{};
};

void note_end(iow_request* request, void* user) {
  auto& ends = *static_cast<Ends*>(user);
  if (request->result == -ENOMEM) {
    ends.refused_on = std::this_thread::get_id();
    ++ends.without_memory;
  } else {
    ends.well += request->result == 0 ? 1 : 0;
  }
  ++ends.all;
}

TEST_P(ServiceWithoutMemory, RequestsThatNeedNotAskThePolicyNeedNone) {
  const TempFile file(4096);
  std::array<std::byte, 4096> buffer{};
  const auto read = [&] {
    return make_request(IOW_OP_READ, file.fd(), buffer.data(), buffer.size(), 0);
  };
  Ends ends;
  const auto round = [&](int times) {
    for (int i = 0; i < times; ++i) {
      iow_request waited_for = read();
      if (submit_one(*service, waited_for) != 1 || service->wait(waited_for, -1) != 0 ||
          waited_for.result != 4096) {
        return false;
      }
      iow_request called_back = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
      called_back.callback = &note_end;
      called_back.user = &ends;
      const int before = ends.all;
      if (submit_one(*service, called_back) != 1) {
        return false;
      }
      while (ends.all == before) {
        std::this_thread::yield();
      }
    }
    return true;
  };
  ASSERT_TRUE(round(1));  // makes the queue of this thread, and the service's own
  bool well = false;
  {
    const MemoryOut out;
    well = round(1000);
  }
  EXPECT_TRUE(well);
  EXPECT_EQ(ends.well, 1001);
}

TEST_P(ServiceWithoutMemory, ARequestThatMayHaveToWaitEndsInsideItsSubmission) {
  std::string why;
  policy::FlowConfig config;
  config.name = "one at once";
  config.max_in_flight = 1;
  const int64_t id = service->gate().add_flow(config, why);
  ASSERT_GT(id, 0) << why;
  const auto flow = static_cast<uint32_t>(id);
  test::Gate gate;
  Ends ends;
  iow_request first = gate.wait_for_byte();
  first.flow = flow;
  ASSERT_EQ(submit_one(*service, first), 1);
  std::vector<iow_request> requests(10'000);
  for (iow_request& request : requests) {
    request = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
    request.flow = flow;
    request.callback = &note_end;
    request.user = &ends;
  }
  ASSERT_EQ(submit_one(*service, requests[0]), 1);  // what the flow itself needs is there now
  int held = 1;
  {
    const MemoryOut out;  // what is kept for some more is soon used up
    while (ends.all == 0 && held < 9000) {
      ASSERT_EQ(submit_one(*service, requests.at(static_cast<size_t>(held++))), 1);
    }
  }
  --held;
  EXPECT_EQ(ends.without_memory, 1);
  EXPECT_EQ(ends.refused_on.load(), std::this_thread::get_id());
  iow_request without_callback = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
  without_callback.flow = flow;
  {
    const MemoryOut out;
    EXPECT_EQ(submit_one(*service, without_callback), 1);
  }
  EXPECT_EQ(service->wait(without_callback, 0), 0) << "it has ended already";
  EXPECT_EQ(without_callback.result, -ENOMEM);
  // The others go on, and the next one finds memory again.
  ASSERT_EQ(submit_one(*service, requests.back()), 1);
  gate.open();
  EXPECT_EQ(service->wait(first, -1), 0);
  while (ends.well < held + 1) {
    std::this_thread::yield();
  }
  EXPECT_EQ(ends.without_memory, 1);
}

}  // namespace
}  // namespace ioweave::service
