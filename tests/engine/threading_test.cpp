#include <atomic>
#include <cerrno>
#include <thread>

#include "backend_fixture.hpp"

// Which thread may do what: waking, reaping by another thread, owners that exit.

namespace ioweave::engine {
namespace {

using Threading = BackendTest;

TEST_P(Threading, WakeBeforeReapIsNotLost) {
  std::array<Operation*, 4> out{};
  backend_->wake();
  EXPECT_EQ(backend_->reap(out, {1, -1, false}), 0);
  backend_->wake();
  EXPECT_EQ(backend_->reap(out, {1, -1, true}), 0);
}

TEST_P(Threading, ManyWakesBeforeReapCountOnce) {
  std::array<Operation*, 4> out{};
  ASSERT_EQ(run(on_file(Op::nop, -1)), 0);
  for (int i = 0; i < 1000; ++i) backend_->wake();
  EXPECT_EQ(backend_->reap(out, {1, -1, false}), 0);
  // What is left of them may end one more sleep, but not each of the following ones.
  int early = 0;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(backend_->reap(out, {1, 2'000'000, false}), 0);
    backend_->wake();
    EXPECT_EQ(backend_->reap(out, {1, -1, false}), 0);
    ++early;
  }
  EXPECT_EQ(early, 5);
}

TEST_P(Threading, ReapWithoutAMinimumLeavesTheWakeForOneThatSleeps) {
  std::array<Operation*, 4> out{};
  backend_->wake();
  EXPECT_EQ(backend_->reap(out, {}), 0);
  EXPECT_EQ(backend_->reap(out, {1, -1, false}), 0);
}

TEST_P(Threading, WakeEndsASleepingReap) {
  for (int round = 0; round < 50; ++round) {
    std::atomic<bool> asleep{false};
    std::thread waker([&] {
      while (!asleep.load()) std::this_thread::yield();
      if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      backend_->wake();
    });
    std::array<Operation*, 4> out{};
    asleep = true;
    EXPECT_EQ(backend_->reap(out, {1, -1, round % 3 == 0}), 0);
    waker.join();
  }
}

TEST_P(Threading, NoWakeIsLostBetweenManyWakers) {
  // Each waker waits until the reaper has answered its own wake: one lost wake hangs the test.
  constexpr int kWakers = 4;
  constexpr int kRounds = 200;
  std::array<std::atomic<int>, kWakers> asked{};
  std::array<std::atomic<int>, kWakers> answered{};
  std::vector<std::thread> wakers;
  for (size_t me = 0; me < kWakers; ++me) {
    wakers.emplace_back([&, me] {
      for (int round = 1; round <= kRounds; ++round) {
        asked[me] = round;
        backend_->wake();
        while (answered[me].load() < round) std::this_thread::yield();
      }
    });
  }
  std::array<Operation*, 4> out{};
  bool all = false;
  while (!all) {
    all = true;
    for (size_t i = 0; i < kWakers; ++i) {
      answered[i] = asked[i].load();
      all = all && answered[i].load() == kRounds;
    }
    if (!all) {
      EXPECT_EQ(backend_->reap(out, {1, -1, false}), 0);
    }
  }
  for (std::thread& waker : wakers) waker.join();
}

TEST_P(Threading, WakesDoNotUseUpCapacity) {
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  ASSERT_EQ(::ftruncate(file.get(), kBlock), 0);
  const Block block(kBlock);
  std::array<Operation*, 4> none{};
  for (int i = 0; i < 200; ++i) {
    backend_->wake();
    ASSERT_EQ(backend_->reap(none, {1, -1, true}), 0);
  }
  const uint32_t entries = GetParam().options.entries;
  std::vector<Operation> operations(entries,
                                    transfer(Op::read, file.get(), block.data(), kBlock, 0));
  for (Operation& operation : operations) ASSERT_EQ(backend_->submit(operation), Submitted::queued);
  ASSERT_EQ(backend_->flush(), 0);
  for (uint32_t i = 0; i < entries; ++i) ASSERT_NE(reap_one(), nullptr);
}

TEST_P(Threading, OneThreadSubmitsAnotherReaps) {
  if (!GetParam().foreign_reaper()) GTEST_SKIP() << "the owner of this backend is its only reaper";
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  ASSERT_EQ(::ftruncate(file.get(), kBlock), 0);
  constexpr size_t kOperations = 2000;
  const Block block(kBlock);
  std::vector<Operation> operations(kOperations);
  std::thread reaper([&] {
    std::array<Operation*, 16> out{};
    for (size_t reaped = 0; reaped < kOperations;) {
      const int got = backend_->reap(out, {1, -1, false});
      ASSERT_GE(got, 0);
      for (int i = 0; i < got; ++i) {
        Operation& operation = *out[static_cast<size_t>(i)];
        EXPECT_EQ(operation.result, static_cast<int64_t>(kBlock));
        operation = {};  // it is the reaper's now
      }
      reaped += static_cast<size_t>(got);
    }
  });
  for (size_t i = 0; i < kOperations; ++i) {
    operations[i] = transfer(Op::read, file.get(), block.data(), kBlock, 0);
    while (backend_->submit(operations[i]) == Submitted::busy) {
      ASSERT_EQ(backend_->flush(), 0);
      std::this_thread::yield();
    }
    if (i % 8 == 7) {
      ASSERT_EQ(backend_->flush(), 0);
    }
  }
  ASSERT_EQ(backend_->flush(), 0);
  reaper.join();
}

TEST_P(Threading, ABackendMayBeOpenedForAnotherThread) {
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  std::thread owner([&] {
    EXPECT_EQ(run(on_file(Op::fsync, file.get())), 0);
    std::array<Operation*, 4> out{};
    backend_->wake();
    EXPECT_EQ(backend_->reap(out, {1, -1, true}), 0);
  });
  owner.join();
}

TEST_P(Threading, WakeWorksAfterTheOwnerHasExited) {
  if (!GetParam().foreign_reaper()) GTEST_SKIP() << "the owner of this backend is its only reaper";
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  std::thread([&] { EXPECT_EQ(run(on_file(Op::fsync, file.get())), 0); }).join();
  for (int round = 0; round < 20; ++round) {
    std::thread waker([&] { backend_->wake(); });
    std::array<Operation*, 4> out{};
    EXPECT_EQ(backend_->reap(out, {1, -1, false}), 0);
    waker.join();
  }
  EXPECT_EQ(run(on_file(Op::fsync, file.get())), 0) << "this thread is the new owner";
  backend_->wake();
  std::array<Operation*, 4> out{};
  EXPECT_EQ(backend_->reap(out, {1, -1, true}), 0);
}

TEST_P(Threading, ASubmitterThatExitsLosesNothing) {
  if (!GetParam().foreign_reaper()) GTEST_SKIP() << "the owner of this backend is its only reaper";
  if (GetParam().is(Kind::aio)) GTEST_SKIP() << "native AIO carries no pipes";
  Pipe pipe;
  const Block in(kBlock);
  Operation waiting = transfer(Op::read, pipe.out.get(), in.data(), kBlock, 0);
  std::thread([&] {
    ASSERT_EQ(backend_->submit(waiting), Submitted::queued);
    ASSERT_EQ(backend_->flush(), 0);
  }).join();
  ASSERT_EQ(::write(pipe.in.get(), "x", 1), 1);
  ASSERT_EQ(reap_one(), &waiting);
  // io_uring cancels what a thread submitted when it exits: the service submits it again.
  EXPECT_TRUE(waiting.result == 1 || waiting.result == -ECANCELED) << waiting.result;
}

INSTANTIATE_TEST_SUITE_P(Backends, Threading, ::testing::ValuesIn(all_backends()), name_of_case);

}  // namespace
}  // namespace ioweave::engine
