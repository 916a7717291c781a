// Transfers awaited by coroutines: where they go on, what they get, and the race between the end of
// a transfer and the coroutine that is about to wait for it.
#include "ioweave/coroutine.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "coroutine_support.hpp"
#include "ioweave/coroutine_task.hpp"
#include "support/child.hpp"
#include "support/request.hpp"
#include "support/temp_file.hpp"

namespace ioweave::test {
namespace {

using ::testing::HasSubstr;

constexpr int kNoFd = 1'000'000;

static_assert(Executor<Queue> && Executor<ThreadPoolExecutor>);

class Coroutines : public ::testing::TestWithParam<iow_engine> {
 protected:
  void SetUp() override {
    iow_options options{};
    options.engine = GetParam();
    options.required = 1;
    try {
      opened_.emplace(options);
    } catch (const std::system_error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  Service& service() { return *opened_; }
  uint64_t pending() {
    const iow_stats stats = service().stats();
    return stats.submitted - stats.completed;
  }

  // Destroyed after the service, which may still be about to leave post().
  Queue queue_;
  std::optional<Service> opened_;
};
INSTANTIATE_TEST_SUITE_P(, Coroutines,
                         ::testing::Values(IOW_ENGINE_URING, IOW_ENGINE_AIO, IOW_ENGINE_THREADS),
                         [](const auto& chosen) -> std::string {
                           return chosen.param == IOW_ENGINE_URING ? "uring"
                                  : chosen.param == IOW_ENGINE_AIO ? "aio"
                                                                   : "threads";
                         });

Task<> move_bytes_in_every_way(Service& service, ThreadPoolExecutor& pool, int fd, uint32_t flow) {
  std::vector<std::byte> buffer(600);
  EXPECT_EQ(co_await async_read(service, pool, fd, buffer, 300).flow(flow), 600u);
  EXPECT_EQ(buffer, pattern(300, 600));
  const std::vector<std::byte> bytes = pattern(5, 200);
  EXPECT_EQ(co_await async_write(service, pool, fd, bytes, 2000).flow(flow), 200u);
  std::vector<std::byte> one(50);
  std::vector<std::byte> two(150);
  const std::array<iovec, 2> vectors{iovec{one.data(), 50}, iovec{two.data(), 150}};
  EXPECT_EQ(co_await async_readv(service, pool, fd, vectors, 2000).flow(flow), 200u);
  EXPECT_EQ(one, pattern(5, 50));
  EXPECT_EQ(two, pattern(55, 150));
  EXPECT_EQ(co_await async_writev(service, pool, fd, vectors, 0).flow(flow), 200u);
  co_await async_fsync(service, pool, fd).flow(flow);
  co_await async_fdatasync(service, pool, fd).flow(flow);
  EXPECT_EQ(co_await async_request(service, pool, Request::read(fd, two, 0)).flow(flow), 150u);
  EXPECT_EQ(two, pattern(5, 150));
}

TEST_P(Coroutines, MoveBytesInEveryWay) {
  const uint32_t no_flow = 0;  // what the page cache has is done at once
  for (const uint32_t flow : {no_flow, service().create_flow("flow")}) {
    const TempFile file(1000);
    ThreadPoolExecutor pool(2);
    sync_wait(move_bytes_in_every_way(service(), pool, file.fd(), flow));
  }
}

Task<> read_past_the_end(Service& service, ThreadPoolExecutor& pool, int fd) {
  std::vector<std::byte> buffer(600);
  EXPECT_EQ(co_await async_read(service, pool, fd, buffer, 900), 100u);
  EXPECT_EQ(std::vector(buffer.begin(), buffer.begin() + 100), pattern(900, 100));
  EXPECT_EQ(co_await async_read(service, pool, fd, buffer, 1000), 0u);
  EXPECT_EQ(co_await async_read(service, pool, fd, buffer, 5000).result(), 0);
  EXPECT_EQ(co_await async_read(service, pool, fd, std::span<std::byte>(), 0), 0u);
}

TEST_P(Coroutines, GetFewerBytesAtTheEndOfTheFile) {
  const TempFile file(1000);
  ThreadPoolExecutor pool(1);
  sync_wait(read_past_the_end(service(), pool, file.fd()));
}

// ---- Where they go on

Task<> expect_to_go_on_in(Service& service, ThreadPoolExecutor& pool, Gate& gate,
                          const std::set<std::thread::id>& threads) {
  std::array<std::byte, 1> byte{};
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(co_await async_read(service, pool, gate.fd(), byte, -1), 1u);
    EXPECT_TRUE(threads.contains(std::this_thread::get_id()));
  }
}

Task<> note_thread(ThreadPoolExecutor& pool, std::set<std::thread::id>& threads) {
  co_await pool.schedule();
  threads.insert(std::this_thread::get_id());
}

TEST_P(Coroutines, GoOnOnAThreadOfTheExecutor) {
  ThreadPoolExecutor pool(1);
  std::set<std::thread::id> threads;
  sync_wait(note_thread(pool, threads));
  ASSERT_EQ(threads.size(), 1u);
  Gate gate;
  std::thread opens([&] {
    for (int i = 0; i < 20; ++i) {
      gate.open();
    }
  });
  sync_wait(expect_to_go_on_in(service(), pool, gate, threads));
  opens.join();
}

Foreign read_a_byte(Service& service, Queue& queue, int fd, std::thread::id& resumed_on) {
  std::array<std::byte, 1> byte{};
  EXPECT_EQ(co_await async_read(service, queue, fd, byte, -1), 1u);
  EXPECT_EQ(byte[0], std::byte{'x'});
  resumed_on = std::this_thread::get_id();
}

TEST_P(Coroutines, ArePostedByTheServicesThreadAndNeverResumedThere) {
  Gate gate;
  std::thread::id resumed_on;
  read_a_byte(service(), queue_, gate.fd(), resumed_on);
  EXPECT_EQ(queue_.posts(), 0u);
  gate.open();
  queue_.run(1);
  EXPECT_EQ(resumed_on, std::this_thread::get_id());
  EXPECT_FALSE(queue_.posters().contains(resumed_on));
}

// ---- What is there already

bool page_cache_answers_at_once(int fd) {
  std::byte byte{};
  const iovec vector{&byte, 1};
  return ::preadv2(fd, &vector, 1, 0, RWF_NOWAIT) == 1;
}

Foreign use_the_cache(Service& service, Queue& queue, int fd, bool& ended) {
  std::vector<std::byte> buffer(1000);
  const std::array<iovec, 2> vectors{iovec{buffer.data(), 1}, iovec{buffer.data() + 1, 999}};
  EXPECT_EQ(co_await async_read(service, queue, fd, buffer, 0), 1000u);
  EXPECT_EQ(buffer, pattern(0, 1000));
  EXPECT_EQ(co_await async_readv(service, queue, fd, vectors, 7), 1000u);
  EXPECT_EQ(buffer, pattern(7, 1000));
  Transfer transfer(service, queue, Request::read(fd, buffer, 3));
  EXPECT_TRUE(transfer.is_done());
  EXPECT_EQ(co_await transfer, 1000u);
  EXPECT_EQ(buffer, pattern(3, 1000));
  EXPECT_EQ(co_await async_read(service, queue, fd, buffer, 100'000), 0u) << "the end of the file";
  ended = true;
}

TEST_P(Coroutines, AreNotSuspendedForWhatThePageCacheHolds) {
  const TempFile file(100'000);
  if (!page_cache_answers_at_once(file.fd())) {
    GTEST_SKIP() << "no RWF_NOWAIT on the file system of " << file.path();
  }
  bool ended = false;
  use_the_cache(service(), queue_, file.fd(), ended);
  EXPECT_TRUE(ended);
  EXPECT_EQ(queue_.posts(), 0u);
  EXPECT_EQ(service().stats().submitted, 0u);
}

Foreign read_once(Service& service, Queue& queue, int fd, std::span<std::byte> buffer,
                  uint32_t flow, int64_t& result) {
  result = co_await async_read(service, queue, fd, buffer, 0).flow(flow).result();
}

TEST_P(Coroutines, LeaveReadsOfAFlowAndOfODirectToTheService) {
  const TempFile buffered(4096);
  const TempFile direct(4096, O_RDONLY | O_DIRECT);
  alignas(4096) static std::array<std::byte, 4096> buffer;
  std::array<int64_t, 2> results{-1, -1};
  const uint32_t flow = service().create_flow("flow");
  read_once(service(), queue_, buffered.fd(), buffer, flow, results[0]);
  queue_.run(1);
  EXPECT_EQ(results[0], 4096);
  EXPECT_EQ(service().stats().submitted, 1u);
  if (direct.fd() < 0) {
    GTEST_SKIP() << "no O_DIRECT on the file system of " << direct.path();
  }
  read_once(service(), queue_, direct.fd(), buffer, 0, results[1]);
  queue_.run(2);
  EXPECT_EQ(results[1], 4096);
  EXPECT_EQ(service().stats().submitted, 2u);
}

// ---- Errors

Task<> expect_own_error(Service& service, ThreadPoolExecutor& pool, int fd, int index) {
  co_await pool.schedule();
  std::vector<std::byte> buffer(64);
  const bool is_bad = index % 3 == 0;
  try {
    EXPECT_EQ(co_await async_write(service, pool, is_bad ? kNoFd : fd, buffer, index * 64), 64u);
    EXPECT_FALSE(is_bad);
  } catch (const std::system_error& error) {
    EXPECT_TRUE(is_bad);
    EXPECT_EQ(error.code(), std::error_code(EBADF, std::generic_category()));
    EXPECT_THAT(error.what(), HasSubstr("async_write"));
  }
  EXPECT_EQ(co_await async_write(service, pool, is_bad ? kNoFd : fd, buffer, 0).result(),
            is_bad ? -EBADF : 64);
}

TEST_P(Coroutines, GetTheErrorOfTheirOwnTransfer) {
  const TempFile file;
  ThreadPoolExecutor pool(2);
  std::vector<Task<>> tasks;
  for (int i = 0; i < 300; ++i) {
    tasks.push_back(expect_own_error(service(), pool, file.fd(), i));
  }
  sync_wait(when_all(std::move(tasks)));
}

Foreign submit_malformed(Service& service, Queue& queue, int fd, bool& ended) {
  std::array<std::byte, 1> byte{};
  EXPECT_EQ(co_await async_read(service, queue, fd, byte, -7).result(), -EINVAL);
  EXPECT_EQ(co_await async_read(service, queue, fd, byte, 0).flow(99).result(), -EINVAL);
  Transfer transfer(service, queue, Request::write(fd, byte, -7));
  EXPECT_TRUE(transfer.is_done());
  EXPECT_EQ(co_await transfer.result(), -EINVAL);
  const std::span<const iovec> missing(static_cast<const iovec*>(nullptr), 2);
  EXPECT_EQ(co_await async_readv(service, queue, fd, missing, 0).result(), -EINVAL);
  try {
    co_await async_fsync(service, queue, fd).flow(99);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), EINVAL);
  }
  ended = true;
}

TEST_P(Coroutines, AreNotSuspendedByAMalformedRequest) {
  const TempFile file(10);
  bool ended = false;
  submit_malformed(service(), queue_, file.fd(), ended);
  EXPECT_TRUE(ended);
  EXPECT_EQ(queue_.posts(), 0u);
}

// ---- Many

Task<size_t> await_empty_requests(Service& service, ThreadPoolExecutor& pool, int count) {
  co_await pool.schedule();
  size_t ended = 0;
  for (int i = 0; i < count; ++i) {
    co_await async_request(service, pool, Request());
    Transfer transfer(service, pool, Request());
    co_await transfer;
    ended += 2;
  }
  co_return ended;
}

Task<> add_empty_requests(Service& service, ThreadPoolExecutor& pool, int count,
                          std::atomic<size_t>& sum) {
  sum += co_await await_empty_requests(service, pool, count);
}

TEST_P(Coroutines, SurviveAHundredThousandEndsThatRaceWithTheirSuspension) {
  ThreadPoolExecutor pool(3);
  std::atomic<size_t> sum{0};
  std::vector<Task<>> tasks;
  for (int i = 0; i < 50; ++i) {
    tasks.push_back(add_empty_requests(service(), pool, 1000, sum));
  }
  sync_wait(when_all(std::move(tasks)));
  EXPECT_EQ(sum, 100'000u);
  EXPECT_EQ(service().stats().submitted, 100'000u);
}

Foreign count_a_byte(Service& service, Queue& queue, int fd, size_t& bytes) {
  std::array<std::byte, 1> byte{};
  bytes += co_await async_read(service, queue, fd, byte, -1);
}

TEST_P(Coroutines, MayBePendingByTheTenThousands) {
  constexpr size_t kCount = 10'000;
  Gate gate;
  size_t bytes = 0;
  for (size_t i = 0; i < kCount; ++i) {
    count_a_byte(service(), queue_, gate.fd(), bytes);
  }
  EXPECT_EQ(pending(), kCount);
  EXPECT_EQ(queue_.posts(), 0u);
  gate.open(std::string(kCount, 'x'));
  queue_.run(kCount);
  EXPECT_EQ(bytes, kCount);
}

TEST_P(Coroutines, AreAllPostedBeforeTheServiceIsClosed) {
  const TempFile file(100'000);
  std::vector<std::array<std::byte, 64>> buffers(500);
  std::vector<int64_t> results(buffers.size(), -1);
  const uint32_t flow = service().create_flow("flow");
  for (size_t i = 0; i < buffers.size(); ++i) {
    read_once(service(), queue_, file.fd(), buffers[i], flow, results[i]);
  }
  opened_.reset();
  EXPECT_EQ(queue_.posts(), buffers.size());
  queue_.run(buffers.size());
  EXPECT_THAT(results, ::testing::Each(64));
}

// ---- Transfers

/// A write that is never done at once.
Request write_later(int fd, std::span<const std::byte> bytes, off_t offset, uint32_t flow) {
  Request request = Request::write(fd, bytes, offset);
  request.flow(flow);
  return request;
}

Task<> start_several(Service& service, ThreadPoolExecutor& pool, int fd, Gate& gate,
                     uint32_t flow) {
  std::vector<std::vector<std::byte>> buffers(32, std::vector<std::byte>(100));
  std::deque<Transfer<ThreadPoolExecutor>> transfers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    buffers[i] = pattern(i * 100, 100);
    transfers.emplace_back(service, pool,
                           write_later(fd, buffers[i], static_cast<off_t>(i * 100), flow));
  }
  std::array<std::byte, 1> byte{};
  Transfer held(service, pool, Request::read(gate.fd(), byte, -1));
  EXPECT_FALSE(held.is_done());
  for (auto& transfer : transfers) {
    EXPECT_EQ(co_await transfer, 100u);
    EXPECT_TRUE(transfer.is_done());
    EXPECT_EQ(co_await transfer.result(), 100) << "a second look gives the same";
  }
  gate.open("g");
  EXPECT_EQ(co_await held, 1u);
  EXPECT_EQ(byte[0], std::byte{'g'});
}

TEST_P(Coroutines, StartSeveralTransfersAndAwaitThemLater) {
  const TempFile file;
  Gate gate;
  ThreadPoolExecutor pool(2);
  sync_wait(start_several(service(), pool, file.fd(), gate, service().create_flow("flow")));
  std::vector<std::byte> content(3200);
  EXPECT_EQ(service().read(file.fd(), content, 0), 3200u);
  EXPECT_EQ(content, pattern(0, 3200));
}

Task<> fail_with_one_in_flight(Service& service, ThreadPoolExecutor& pool, int fd, uint32_t flow) {
  std::vector<std::byte> buffer(1 << 20);
  Transfer write(service, pool, write_later(fd, buffer, 0, flow));
  Transfer bad(service, pool, Request::write(kNoFd, buffer, 0));
  EXPECT_EQ(co_await bad, 0u);
}

TEST_P(Coroutines, ThatThrowGiveUpTheirTransfersFirst) {
  const TempFile file;
  const uint32_t flow = service().create_flow("flow");
  ThreadPoolExecutor pool(1);
  for (int i = 0; i < 20; ++i) {
    try {
      sync_wait(fail_with_one_in_flight(service(), pool, file.fd(), flow));
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code().value(), EBADF);
    }
    EXPECT_EQ(pending(), 0u);
  }
}

TEST_P(Coroutines, LeaveNoTransferBehindThatNobodyAwaited) {
  const TempFile file;
  const uint32_t flow = service().create_flow("flow");
  std::vector<std::byte> buffer(5000);
  for (int i = 0; i < 200; ++i) {
    const Transfer unawaited(service(), queue_, write_later(file.fd(), buffer, 0, flow));
  }
  EXPECT_EQ(service().stats().submitted, 200u);
  EXPECT_EQ(pending(), 0u);
  EXPECT_EQ(queue_.posts(), 0u);
}

TEST_P(Coroutines, CanWaitForMoreThanOneEngineThreadTakes) {
  // Reads of the gate hold every worker of the threads engine, and the file's reads queue behind.
  const TempFile file(100'000);
  Gate gate;
  size_t bytes = 0;
  const uint32_t flow = service().create_flow("flow");
  std::vector<std::array<std::byte, 64>> buffers(8);
  std::vector<int64_t> results(buffers.size(), -1);
  for (size_t i = 0; i < buffers.size(); ++i) {
    count_a_byte(service(), queue_, gate.fd(), bytes);
    read_once(service(), queue_, file.fd(), buffers[i], flow, results[i]);
  }
  gate.open(std::string(buffers.size(), 'x'));
  queue_.run(2 * buffers.size());
  EXPECT_EQ(bytes, buffers.size());
  EXPECT_THAT(results, ::testing::Each(64));
}

// ---- Fork

Foreign write_in_child(Service& service, Queue& queue, int fd, int& steps) {
  const std::vector<std::byte> bytes = pattern(0, 100);
  EXPECT_EQ(co_await async_write(service, queue, fd, bytes, 0), 100u);
  ++steps;
  Transfer transfer(service, queue, Request::write(fd, bytes, 100));
  EXPECT_EQ(co_await transfer, 100u);
  ++steps;
}

TEST_P(Coroutines, AreResumedByTheExecutorWhereSubmittingIsAlreadyTheEnd) {
  const TempFile file;
  const int status = run_in_child([&] {
    int steps = 0;
    write_in_child(service(), queue_, file.fd(), steps);
    if (steps != 0 || queue_.posts() != 1) {
      return 1;  // resumed inside the submission
    }
    queue_.run(1);
    return steps == 2 && !::testing::Test::HasFailure() ? 0 : 2;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ioweave::test
