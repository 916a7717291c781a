// What a service promises on every engine: transfers, waiting from anywhere, callbacks, batches.
#include "service/service.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <random>
#include <thread>
#include <vector>

#include <sys/stat.h>

#include "fixture.hpp"
#include "support/small_filesystem.hpp"

namespace ioweave::service {
namespace {

using test::pattern;
using test::TempFile;
constexpr size_t kFileBytes = 1 << 20;

class ServiceTransfers : public EveryEngine {};
INSTANTIATE_TEST_SUITE_P(, ServiceTransfers,
                         ::testing::Values(engine::Kind::uring, engine::Kind::aio,
                                           engine::Kind::threads),
                         engine_name);

TEST_P(ServiceTransfers, ReadsWhatIsThere) {
  const TempFile file(kFileBytes);
  std::vector<std::byte> buffer(5000);
  iow_request request = make_request(IOW_OP_READ, file.fd(), buffer.data(), buffer.size(), 12345);
  ASSERT_EQ(submit_one(*service, request), 1);
  ASSERT_EQ(service->wait(request, -1), 0);
  EXPECT_EQ(request.result, 5000);
  EXPECT_EQ(buffer, pattern(12345, 5000));
}

TEST_P(ServiceTransfers, WritesVectorsAndSyncs) {
  const TempFile file;
  std::vector<std::byte> content = pattern(0, 9000);
  const iovec vectors[] = {{content.data(), 100}, {content.data() + 100, 8900}};
  iow_request write = make_request(IOW_OP_WRITEV, file.fd(), const_cast<iovec*>(vectors), 2, 0);
  ASSERT_EQ(submit_one(*service, write), 1);
  ASSERT_EQ(service->wait(write, -1), 0);
  EXPECT_EQ(write.result, 9000);
  iow_request sync = make_request(IOW_OP_FSYNC, file.fd(), nullptr, 0, 0);
  ASSERT_EQ(submit_one(*service, sync), 1);
  ASSERT_EQ(service->wait(sync, -1), 0);
  EXPECT_EQ(sync.result, 0);
  std::vector<std::byte> back(10000);
  EXPECT_EQ(service->transfer({engine::Op::read, file.fd(), back.data(), back.size(), 0}), 9000);
  back.resize(9000);
  EXPECT_EQ(back, content);
}

TEST_P(ServiceTransfers, ErrorsOfTheTransferAreTheResult) {
  const TempFile file(100);
  std::array<std::byte, 10> buffer;
  iow_request closed = make_request(IOW_OP_READ, 1000000, buffer.data(), buffer.size(), 0);
  ASSERT_EQ(submit_one(*service, closed), 1);
  ASSERT_EQ(service->wait(closed, -1), 0);
  EXPECT_EQ(closed.result, -EBADF);

  const TempFile read_only(100, O_RDONLY);
  iow_request wrong_mode = make_request(IOW_OP_WRITE, read_only.fd(), buffer.data(), 10, 0);
  ASSERT_EQ(submit_one(*service, wrong_mode), 1);
  ASSERT_EQ(service->wait(wrong_mode, -1), 0);
  EXPECT_EQ(wrong_mode.result, -EBADF);

  const int directory = ::open(file.dir().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  iow_request of_directory = make_request(IOW_OP_READ, directory, buffer.data(), 10, 0);
  ASSERT_EQ(submit_one(*service, of_directory), 1);
  ASSERT_EQ(service->wait(of_directory, -1), 0);
  EXPECT_EQ(of_directory.result, -EISDIR);
  ::close(directory);
}

TEST_P(ServiceTransfers, WhereSpaceEndsTheResultsSayHowMuchIsThere) {
  const test::SmallFilesystem disk(8 << 20);
  if (!disk.problem().empty()) {
    GTEST_SKIP() << disk.problem();
  }
  const int fd = ::open(disk.file("data").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  std::vector<std::byte> content = pattern(0, 8 << 20);
  size_t written = 0;
  int64_t result = 0;
  while (written < content.size() && result >= 0) {
    const size_t bytes = std::min<size_t>(300'000, content.size() - written);
    iow_request write =
        make_request(IOW_OP_WRITE, fd, &content[written], bytes, static_cast<int64_t>(written));
    ASSERT_EQ(submit_one(*service, write), 1);
    ASSERT_EQ(service->wait(write, -1), 0);
    result = write.result;
    written += result > 0 ? static_cast<size_t>(result) : 0;
  }
  EXPECT_EQ(result, -ENOSPC);
  EXPECT_GT(written, 1u << 20);
  EXPECT_EQ(service->transfer({engine::Op::fsync, fd, nullptr, 0, 0}), 0);
  std::vector<std::byte> back(content.size());
  EXPECT_EQ(service->transfer({engine::Op::read, fd, back.data(), back.size(), 0}),
            static_cast<int64_t>(written));
  back.resize(written);
  content.resize(written);
  EXPECT_TRUE(back == content);
  ::close(fd);
}

TEST_P(ServiceTransfers, APipeHasNoOffsets) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  std::array<std::byte, 10> buffer;
  EXPECT_EQ(service->transfer({engine::Op::read, ends[0], buffer.data(), 10, 0}), -ESPIPE);
  iow_request request = make_request(IOW_OP_READ, ends[0], buffer.data(), 10, 0);
  request.flags = IOW_EXACT;
  ASSERT_EQ(submit_one(*service, request), 1);
  ASSERT_EQ(service->wait(request, -1), 0);
  EXPECT_EQ(request.result, 1) << "a request reads the stream, on every engine";
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_P(ServiceTransfers, ZeroBytesAndEndOfFile) {
  const TempFile file(100);
  std::array<std::byte, 200> buffer;
  for (const auto& [bytes, offset, expected] :
       {std::tuple{0u, 0, 0}, std::tuple{200u, 0, 100}, std::tuple{200u, 40, 60},
        std::tuple{200u, 100, 0}, std::tuple{200u, 5000, 0}}) {
    iow_request request = make_request(IOW_OP_READ, file.fd(), buffer.data(), bytes, offset);
    ASSERT_EQ(submit_one(*service, request), 1);
    ASSERT_EQ(service->wait(request, -1), 0);
    EXPECT_EQ(request.result, expected) << bytes << " at " << offset;
  }
}

TEST_P(ServiceTransfers, RefusesMalformedRequestsOneByOne) {
  iow_request good = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
  iow_request bad = make_request(IOW_OP_READ, 0, nullptr, 10, -7);
  iow_request* both[] = {&good, &bad};
  EXPECT_EQ(service->submit(both), 1);
  EXPECT_EQ(service->wait(good, -1), 0);
  EXPECT_EQ(submit_one(*service, bad), -EINVAL);
  iow_request unknown_flow = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
  unknown_flow.flow = 77;
  EXPECT_EQ(submit_one(*service, unknown_flow), -EINVAL);
  iow_request never = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
  EXPECT_EQ(service->wait(never, -1), -EINVAL);
  EXPECT_EQ(service->test(never), 0);
}

TEST_P(ServiceTransfers, AWaitGivesUpInTime) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::byte byte{};
  iow_request request = make_request(IOW_OP_READ, ends[0], &byte, 1, -1);
  ASSERT_EQ(submit_one(*service, request), 1);
  EXPECT_EQ(service->wait(request, 1'000'000), -ETIME);
  EXPECT_EQ(service->test(request), 0);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  EXPECT_EQ(service->wait(request, -1), 0);
  EXPECT_EQ(request.result, 1);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_P(ServiceTransfers, AnyThreadMayWait) {
  const TempFile file(kFileBytes);
  std::vector<std::byte> buffer(4096);
  for (int round = 0; round < 50; ++round) {
    iow_request request = make_request(IOW_OP_READ, file.fd(), buffer.data(), 4096, round * 4096);
    ASSERT_EQ(submit_one(*service, request), 1);
    std::vector<std::thread> waiters;
    for (int i = 0; i < 3; ++i) {
      waiters.emplace_back([&] { EXPECT_EQ(service->wait(request, -1), 0); });
    }
    EXPECT_EQ(service->wait(request, -1), 0);
    for (std::thread& waiter : waiters) {
      waiter.join();
    }
    EXPECT_EQ(request.result, 4096);
  }
}

TEST_P(ServiceTransfers, AForeignWaiterIsToldWhileTheOwnerPollsForMore) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::array<std::byte, 2> bytes{};
  iow_request first = make_request(IOW_OP_READ, ends[0], &bytes[0], 1, -1);
  iow_request second = make_request(IOW_OP_READ, ends[0], &bytes[1], 1, -1);
  iow_request* both[] = {&first, &second};
  std::atomic<bool> submitted{false};
  std::thread owner([&] {
    EXPECT_EQ(service->submit(both), 2);
    submitted = true;
    EXPECT_LE(service->poll(2, -1), 2);  // sleeps until both are there, whoever reaps them
  });
  while (!submitted) {
    std::this_thread::yield();
  }
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  while (service->wait(first, 1'000'000) != 0 && service->wait(second, 1'000'000) != 0) {
  }
  ASSERT_EQ(::write(ends[1], "y", 1), 1);
  EXPECT_EQ(service->wait(first, -1), 0);
  EXPECT_EQ(service->wait(second, -1), 0);
  // The owner polls for ends it may not have reaped itself: it must come back all the same.
  owner.join();
  ::close(ends[0]);
  ::close(ends[1]);
}

struct Counted {
  std::atomic<int> calls{0};
  std::atomic<std::thread::id> thread{};
};

void count(iow_request*, void* user) {
  auto& counted = *static_cast<Counted*>(user);
  counted.thread = std::this_thread::get_id();
  ++counted.calls;
}

TEST_P(ServiceTransfers, CallbacksRunOnTheServicesThread) {
  Counted counted;
  iow_request request = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
  request.callback = &count;
  request.user = &counted;
  ASSERT_EQ(submit_one(*service, request), 1);
  while (counted.calls == 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(counted.calls, 1);
  EXPECT_NE(counted.thread.load(), std::this_thread::get_id());
}

TEST_P(ServiceTransfers, CallbacksOnPollRunOnTheSubmittersThread) {
  Counted counted;
  std::array<iow_request, 10> requests{};
  for (iow_request& request : requests) {
    request.op = IOW_OP_NOP;
    request.flags = IOW_CALLBACK_ON_POLL;
    request.callback = &count;
    request.user = &counted;
    ASSERT_EQ(submit_one(*service, request), 1);
  }
  int polled = 0;
  while (polled < 10) {
    const int now = service->poll(1, -1);
    ASSERT_GT(now, 0);
    polled += now;
  }
  EXPECT_EQ(polled, 10);
  EXPECT_EQ(counted.calls, 10);
  EXPECT_EQ(counted.thread.load(), std::this_thread::get_id());
  EXPECT_EQ(service->poll(1, -1), 0) << "nothing is in flight: a poll must not sleep";
}

struct Chain {
  Service* service;
  int left;
};

void resubmit(iow_request* request, void* user) {
  auto& chain = *static_cast<Chain*>(user);
  if (--chain.left > 0) {
    EXPECT_EQ(submit_one(*chain.service, *request), 1);
  }
}

TEST_P(ServiceTransfers, ACallbackMaySubmitItsRequestAgain) {
  Chain chain{service.get(), 100};
  iow_request request = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
  request.flags = IOW_CALLBACK_ON_POLL;
  request.callback = &resubmit;
  request.user = &chain;
  ASSERT_EQ(submit_one(*service, request), 1);
  int polled = 0;
  while (polled < 100) {
    polled += service->poll(1, -1);
  }
  EXPECT_EQ(chain.left, 0);
}

TEST_P(ServiceTransfers, ACallbackMayPollWhileOthersAreDue) {
  struct Nested {
    Service* service;
    int due;
  } nested{service.get(), 8};
  std::array<iow_request, 8> requests;
  for (iow_request& request : requests) {
    request = make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
    request.flags = IOW_CALLBACK_ON_POLL | IOW_MORE;
    request.callback = [](iow_request*, void* user) {
      auto& mine = *static_cast<Nested*>(user);
      --mine.due;
      (void)mine.service->poll(1, -1);  // must not wait for those that ended together with this one
    };
    request.user = &nested;
    ASSERT_EQ(submit_one(*service, request), 1);
  }
  while (nested.due > 0) {
    (void)service->poll(8, -1);
  }
  EXPECT_EQ(service->poll(1, -1), 0);
}

TEST_P(ServiceTransfers, HeldBatchesGoOutWithTheNextWait) {
  const TempFile file(kFileBytes);
  std::vector<std::byte> buffer(8 * 512);
  std::array<iow_request, 8> requests;
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i] =
        make_request(IOW_OP_READ, file.fd(), &buffer[i * 512], 512, static_cast<int64_t>(i * 512));
    requests[i].flags = IOW_MORE;
    ASSERT_EQ(submit_one(*service, requests[i]), 1);
  }
  for (iow_request& request : requests) {
    EXPECT_EQ(service->wait(request, -1), 0);
    EXPECT_EQ(request.result, 512);
  }
  EXPECT_EQ(buffer, pattern(0, buffer.size()));
}

TEST_P(ServiceTransfers, AFullQueueMakesTheSubmitterWaitAndLosesNothing) {
  open({.queue_depth = 4});
  const TempFile file(kFileBytes);
  std::vector<std::byte> buffer(200 * 512);
  std::vector<iow_request> requests(200);
  std::vector<iow_request*> all;
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i] =
        make_request(IOW_OP_READ, file.fd(), &buffer[i * 512], 512, static_cast<int64_t>(i * 512));
    all.push_back(&requests[i]);
  }
  EXPECT_EQ(service->submit(all), 200);
  for (iow_request& request : requests) {
    ASSERT_EQ(service->wait(request, -1), 0);
    ASSERT_EQ(request.result, 512);
  }
  EXPECT_EQ(buffer, pattern(0, buffer.size()));
}

TEST_P(ServiceTransfers, ManyThreadsShareAService) {
  const TempFile file(kFileBytes);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::array<iow_request, 4> requests;
      std::array<std::vector<std::byte>, 4> buffers;
      for (int round = 0; round < 100; ++round) {
        std::array<int64_t, 4> offsets{};
        for (size_t i = 0; i < 4; ++i) {
          buffers[i].assign(700, std::byte{});
          offsets[i] = random() % (kFileBytes - 700);
          requests[i] = make_request(IOW_OP_READ, file.fd(), buffers[i].data(), 700, offsets[i]);
          ASSERT_EQ(submit_one(*service, requests[i]), 1);
        }
        for (size_t i = 0; i < 4; ++i) {
          ASSERT_EQ(service->wait(requests[i], -1), 0);
          ASSERT_EQ(requests[i].result, 700);
          ASSERT_EQ(buffers[i], pattern(static_cast<uint64_t>(offsets[i]), 700));
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  iow_stats stats{};
  service->statistics(stats);
  EXPECT_EQ(stats.submitted, 8u * 100 * 4);
  EXPECT_EQ(stats.completed, stats.submitted);
  EXPECT_EQ(stats.failed, 0u);
  EXPECT_EQ(stats.read_bytes, 8u * 100 * 4 * 700);
}

TEST_P(ServiceTransfers, FixedBuffersAndFilesReadTheSame) {
  const TempFile file(kFileBytes);
  std::vector<std::byte> buffer(8192);
  const int buffer_id = service->fixed().add_buffer(buffer.data(), buffer.size());
  const int file_id = service->fixed().add_file(file.fd());
  ASSERT_GT(buffer_id, 0);
  ASSERT_GT(file_id, 0);
  iow_request request = make_request(IOW_OP_READ, file.fd(), buffer.data() + 100, 4000, 777);
  request.fixed_buffer = static_cast<uint16_t>(buffer_id);
  request.fixed_file = static_cast<uint16_t>(file_id);
  ASSERT_EQ(submit_one(*service, request), 1);
  ASSERT_EQ(service->wait(request, -1), 0);
  EXPECT_EQ(request.result, 4000);
  EXPECT_EQ(std::vector(buffer.begin() + 100, buffer.begin() + 4100), pattern(777, 4000));
}

TEST_P(ServiceTransfers, BlockingCallsAnswerLikeSystemCalls) {
  const TempFile file(kFileBytes);
  std::vector<std::byte> buffer(100);
  EXPECT_EQ(service->transfer({engine::Op::read, file.fd(), buffer.data(), 100, 50}), 100);
  EXPECT_EQ(buffer, pattern(50, 100));
  EXPECT_EQ(service->transfer({engine::Op::read, 1000000, buffer.data(), 100, 0}), -EBADF);
  EXPECT_EQ(service->transfer({engine::Op::read, file.fd(), buffer.data(), 100, -1}), -EINVAL);
  EXPECT_EQ(service->transfer({engine::Op::fsync, file.fd(), nullptr, 0, 0}), 0);
}

TEST_P(ServiceTransfers, APrefetchEndsWhenTheBytesAreThere) {
  const TempFile file(kFileBytes);
  iow_request request = make_request(IOW_OP_PREFETCH, file.fd(), nullptr, kFileBytes, 0);
  ASSERT_EQ(submit_one(*service, request), 1);
  ASSERT_EQ(service->wait(request, -1), 0);
  EXPECT_EQ(request.result, static_cast<int64_t>(kFileBytes));
}

}  // namespace
}  // namespace ioweave::service
