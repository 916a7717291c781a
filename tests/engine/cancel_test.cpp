#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include <sys/syscall.h>

#include "backend_fixture.hpp"
#include "support/child.hpp"
#include "support/seccomp.hpp"

namespace ioweave::engine {
namespace {

/// A read that waits on an empty pipe until it is cancelled or fed.
struct WaitingRead {
  Pipe pipe;
  Block in{kBlock};
  Operation operation = transfer(Op::read, pipe.out.get(), in.data(), kBlock, 0);

  void feed() const { EXPECT_EQ(::write(pipe.in.get(), "x", 1), 1); }
};

class Cancel : public BackendTest {
 protected:
  void SetUp() override {
    if (GetParam().is(Kind::aio)) GTEST_SKIP() << "native AIO cancels nothing";
    BackendTest::SetUp();
  }
  void start(Operation& operation) {
    ASSERT_EQ(backend_->submit(operation), Submitted::queued);
    ASSERT_EQ(backend_->flush(), 0);
  }
  /// Cancels what the thread of SQPOLL may not have taken yet.
  int cancel_once_taken(Operation& operation) {
    int status = -ENOENT;
    for (int tries = 0; tries < 10'000 && status == -ENOENT; ++tries) {
      if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      status = backend_->cancel(operation);
    }
    return status;
  }
};

TEST_P(Cancel, WhatIsNotInFlightIsEnoent) {
  Operation operation;
  EXPECT_EQ(backend_->cancel(operation), -ENOENT);
}

TEST_P(Cancel, AWaitingReadIsGivenUpByItsOwner) {
  if (!GetParam().is(Kind::uring)) GTEST_SKIP() << "a thread inside read(2) is not interrupted";
  WaitingRead read;
  start(read.operation);
  EXPECT_EQ(cancel_once_taken(read.operation), 0);
  ASSERT_EQ(reap_one(), &read.operation);
  EXPECT_EQ(read.operation.result, -ECANCELED);
}

TEST_P(Cancel, AWaitingReadIsGivenUpByAnotherThread) {
  if (!GetParam().is(Kind::uring)) GTEST_SKIP() << "a thread inside read(2) is not interrupted";
  WaitingRead read;
  start(read.operation);
  std::thread canceller([&] { EXPECT_EQ(cancel_once_taken(read.operation), 0); });
  ASSERT_EQ(reap_one(), &read.operation);
  EXPECT_EQ(read.operation.result, -ECANCELED);
  canceller.join();
}

TEST_P(Cancel, OnlyTheOneAskedForIsGivenUp) {
  if (!GetParam().is(Kind::uring)) GTEST_SKIP() << "a thread inside read(2) is not interrupted";
  WaitingRead kept;
  WaitingRead dropped;
  start(kept.operation);
  start(dropped.operation);
  ASSERT_EQ(cancel_once_taken(dropped.operation), 0);
  ASSERT_EQ(reap_one(), &dropped.operation);
  kept.feed();
  ASSERT_EQ(reap_one(), &kept.operation);
  EXPECT_EQ(kept.operation.result, 1);
}

TEST_P(Cancel, ARequestNeverMeetsALaterOperationAtTheSameAddress) {
  WaitingRead read;
  start(read.operation);
  std::thread feeder([&] { read.feed(); });
  ASSERT_EQ(reap_one(), &read.operation);
  feeder.join();
  EXPECT_EQ(read.operation.result, 1);
  // From another thread, so that a single_owner backend keeps it for its owner.
  std::thread([&] { (void)backend_->cancel(read.operation); }).join();
  start(read.operation);
  read.feed();
  ASSERT_EQ(reap_one(), &read.operation);
  EXPECT_EQ(read.operation.result, 1);
}

TEST_P(Cancel, ThreadsGiveUpWhatHasNotBegun) {
  if (!GetParam().is(Kind::threads)) GTEST_SKIP() << "io_uring has begun it at flush";
  BackendOptions options = GetParam().options;
  options.threads = 1;
  open(options);
  WaitingRead running;
  WaitingRead waiting;
  start(running.operation);
  start(waiting.operation);
  EXPECT_EQ(backend_->cancel(waiting.operation), 0);
  ASSERT_EQ(reap_one(), &waiting.operation);
  EXPECT_EQ(waiting.operation.result, -ECANCELED);
  running.feed();
  ASSERT_EQ(reap_one(), &running.operation);
  EXPECT_EQ(running.operation.result, 1);
}

INSTANTIATE_TEST_SUITE_P(Backends, Cancel, ::testing::ValuesIn(all_backends()), name_of_case);

TEST(CancelOnOldKernels, TheOwnerCancelsWithItsNextFlush) {
  constexpr int64_t kSyncCancel = 24;  // IORING_REGISTER_SYNC_CANCEL, 6.0
  const int status = test::run_in_child([] {
    BackendOptions options;
    int error = 0;
    std::string why;
    const auto backend = open_backend(options, error, why);
    if (backend == nullptr || !test::refuse_syscall(SYS_io_uring_register, EINVAL, kSyncCancel)) {
      return 77;
    }
    WaitingRead read;
    if (backend->submit(read.operation) != Submitted::queued || backend->flush() != 0) return 1;
    if (backend->cancel(read.operation) != 0) return 2;
    Operation* out = nullptr;
    if (backend->reap({&out, 1}, {1, kForeverNs, true}) != 1) return 3;
    return read.operation.result == -ECANCELED ? 0 : 4;
  });
  if (status == 77) GTEST_SKIP() << "io_uring or seccomp filters are not available";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ioweave::engine
