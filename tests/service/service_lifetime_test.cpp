// What ends: threads, services, forked processes, and what they leave behind.
#include <array>
#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "fixture.hpp"
#include "support/child.hpp"

namespace ioweave::service {
namespace {

using test::pattern;
using test::TempFile;

class ServiceLifetime : public EveryEngine {};
INSTANTIATE_TEST_SUITE_P(, ServiceLifetime,
                         ::testing::Values(engine::Kind::uring, engine::Kind::threads),
                         engine_name);

void count(iow_request*, void* user) {
  ++*static_cast<std::atomic<int>*>(user);
}

TEST_P(ServiceLifetime, AThreadCompletesWhatItSubmittedBeforeItEnds) {
  const TempFile file(1 << 20);
  std::vector<std::byte> buffer(64 * 4096);
  std::array<iow_request, 64> requests;
  std::thread submitter([&] {
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i] = make_request(IOW_OP_READ, file.fd(), &buffer[i * 4096], 4096,
                                 static_cast<int64_t>(i * 4096));
      requests[i].flags = IOW_MORE;  // not even handed over
      ASSERT_EQ(submit_one(*service, requests[i]), 1);
    }
  });
  submitter.join();
  for (iow_request& request : requests) {
    EXPECT_EQ(service->test(request), 1);
    EXPECT_EQ(request.result, 4096);
  }
  EXPECT_EQ(buffer, pattern(0, buffer.size()));
}

TEST_P(ServiceLifetime, LanesOfEndedThreadsAreUsedAgain) {
  for (int i = 0; i < 20; ++i) {
    std::thread([&] {
      iow_request request = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
      ASSERT_EQ(submit_one(*service, request), 1);
      ASSERT_EQ(service->wait(request, -1), 0);
    }).join();
  }
  iow_stats stats{};
  service->statistics(stats);
  EXPECT_LE(stats.lanes, 3u);
  EXPECT_EQ(stats.completed, 20u);
}

TEST_P(ServiceLifetime, ClosingCompletesEverything) {
  std::atomic<int> calls{0};
  std::vector<iow_request> requests(300);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].op = IOW_OP_NOP;
    requests[i].flags = i % 3 == 0 ? IOW_CALLBACK_ON_POLL | IOW_MORE : 0;
    requests[i].callback = i % 3 == 2 ? nullptr : &count;
    requests[i].user = &calls;
    ASSERT_EQ(submit_one(*service, requests[i]), 1);
  }
  service.reset();
  EXPECT_EQ(calls, 200);
  for (const iow_request& request : requests) {
    EXPECT_EQ(request.result, 0);
  }
}

TEST_P(ServiceLifetime, SeveralServicesAndThreadsDoNotMixUp) {
  Options options;
  options.engine = GetParam();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        int error = 0;
        std::string why;
        const auto mine = Service::open(options, error, why);
        ASSERT_NE(mine, nullptr) << why;
        iow_request here = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
        iow_request there = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
        ASSERT_EQ(submit_one(*mine, here), 1);
        ASSERT_EQ(submit_one(*service, there), 1);
        ASSERT_EQ(service->wait(there, -1), 0);
        ASSERT_EQ(mine->wait(here, -1), 0);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_P(ServiceLifetime, AForkedChildDoesItsIoAtOnceAndTheParentGoesOn) {
  const TempFile file(1 << 16);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::byte byte{};
  iow_request of_parent = make_request(IOW_OP_READ, ends[0], &byte, 1, -1);
  ASSERT_EQ(submit_one(*service, of_parent), 1);

  std::vector<std::byte> buffer(5000);
  const int code = test::run_in_child([&] {
    if (service->wait(of_parent, -1) != -ECANCELED) {
      return 1;
    }
    std::atomic<int> calls{0};
    iow_request request = make_request(IOW_OP_READ, file.fd(), buffer.data(), 5000, 10);
    request.callback = &count;
    request.user = &calls;
    if (submit_one(*service, request) != 1 || calls != 1 || request.result != 5000) {
      return 2;
    }
    if (buffer != pattern(10, 5000) || service->poll(1, -1) != 0) {
      return 3;
    }
    service.reset();
    int error = 0;
    std::string why;
    const auto fresh = Service::open({}, error, why);  // asked anew: asynchronous again
    iow_request nop = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
    return fresh != nullptr && submit_one(*fresh, nop) == 1 && fresh->wait(nop, -1) == 0 ? 0 : 4;
  });
  EXPECT_EQ(code, 0);

  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  EXPECT_EQ(service->wait(of_parent, -1), 0);
  EXPECT_EQ(of_parent.result, 1);
  iow_request after = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
  EXPECT_EQ(submit_one(*service, after), 1);
  EXPECT_EQ(service->wait(after, -1), 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_P(ServiceLifetime, ForkingWhileThreadsSubmitHangsNobody) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        iow_request request = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
        ASSERT_EQ(submit_one(*service, request), 1);
        ASSERT_EQ(service->wait(request, -1), 0);
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(test::run_in_child([&] {
                iow_request request = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
                return submit_one(*service, request) == 1 && request.result == 0 ? 0 : 1;
              }),
              0);
  }
  stop = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace ioweave::service
