#include "engine/shared_queue.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>

#include <sys/wait.h>

#include "backend_fixture.hpp"

// The queue that many threads submit to and many reap.

namespace ioweave::engine {
namespace {

constexpr uint32_t kEntries = 64;

class SharedQueueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    queue_ = open_shared_queue(kEntries, why);
    if (queue_ == nullptr) GTEST_SKIP() << why;
    const std::string path = directory_.file("data");
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
    if (fd_ < 0) GTEST_SKIP() << path << " has no O_DIRECT: " << std::strerror(errno);
    const Block block(kBlock);
    for (size_t i = 0; i < kBlocks; ++i) {
      std::memset(block.data(), static_cast<int>(i), kBlock);
      ASSERT_EQ(::pwrite(fd_, block.data(), kBlock, static_cast<off_t>(i * kBlock)), kBlock);
    }
    Operation probe = transfer(Op::read, fd_, block.data(), kBlock, 0);
    if (!queue_->submit(probe)) GTEST_SKIP() << path << ": direct reads here cannot but wait";
    ASSERT_EQ(reap_one(), &probe);
  }
  void TearDown() override {
    if (fd_ >= 0) ::close(fd_);
  }

  /// Sleeps for it.
  Operation* reap_one() {
    std::array<Operation*, 1> out{};
    while (queue_->reap(out, true) == 0) {
    }
    return out[0];
  }

  static constexpr size_t kBlocks = 256;
  test::TempDir directory_;
  std::unique_ptr<SharedQueue> queue_;
  int fd_ = -1;
};

TEST_F(SharedQueueTest, EachEndIsGivenToOneOfManyThreads) {
  constexpr size_t kThreads = 4;
  constexpr size_t kEach = 2000;
  std::atomic<size_t> in_flight{0};
  std::atomic<size_t> ended{0};
  const auto collect = [&] {
    std::array<Operation*, 8> out{};
    const size_t reaped = queue_->reap(out, false);
    for (size_t i = 0; i < reaped; ++i) {
      Operation& operation = *out[i];
      const auto* const bytes = static_cast<const unsigned char*>(operation.buffer);
      EXPECT_EQ(operation.result, static_cast<int64_t>(kBlock));
      const auto number = static_cast<size_t>(operation.offset) / kBlock;
      EXPECT_EQ(bytes[0], static_cast<unsigned char>(number));
      EXPECT_EQ(bytes[kBlock - 1], static_cast<unsigned char>(number));
      operation.length = 0;  // free; whoever submits next waits for it to be seen
      std::atomic_ref(operation.fd).store(-1, std::memory_order_release);
      in_flight.fetch_sub(1);
      ended.fetch_add(1);
    }
  };
  std::vector<std::thread> threads;
  for (size_t me = 0; me < kThreads; ++me) {
    threads.emplace_back([&, me] {
      constexpr size_t kOwn = kEntries / kThreads;
      const Block buffers(kOwn * kBlock);
      std::vector<Operation> operations(kOwn);
      for (size_t i = 0; i < kEach; ++i) {
        Operation& operation = operations[i % kOwn];
        while (std::atomic_ref(operation.fd).load(std::memory_order_acquire) != -1) collect();
        operation = transfer(Op::read, fd_, buffers.data() + (i % kOwn) * kBlock, kBlock,
                             static_cast<int64_t>((i * 7 + me) % kBlocks * kBlock));
        in_flight.fetch_add(1);
        while (!queue_->submit(operation)) {
          collect();  // -EAGAIN: the device has no room just now
          std::this_thread::yield();
        }
      }
      for (Operation& operation : operations) {
        while (std::atomic_ref(operation.fd).load(std::memory_order_acquire) != -1) collect();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(in_flight, 0u);
  EXPECT_EQ(ended, kThreads * kEach);
}

TEST_F(SharedQueueTest, WhatWouldWaitInTheCallIsRefusedUntouched) {
  const Block block(kBlock);
  const Descriptor buffered(::open(directory_.file("data").c_str(), O_RDWR | O_CLOEXEC));
  const Pipe pipe;
  const iovec vector{block.data(), kBlock};
  const std::array<Operation, 7> refused{
      transfer(Op::read, buffered.get(), block.data(), kBlock, 0),
      transfer(Op::write, buffered.get(), block.data(), kBlock, 0),
      vectored(Op::readv, buffered.get(), std::span(&vector, 1), 0),
      transfer(Op::read, pipe.out.get(), block.data(), kBlock, 0),
      transfer(Op::read, fd_, block.data(), kBlock, kCurrentPosition),
      on_file(Op::fdatasync, fd_),
      transfer(Op::read, -1, block.data(), kBlock, 0),
  };
  for (size_t i = 0; i < refused.size(); ++i) {
    Operation operation = refused[i];
    operation.result = 4711;
    EXPECT_FALSE(queue_->submit(operation)) << i;
    EXPECT_EQ(operation.result, 4711) << i;
  }
  std::array<Operation*, 1> out{};
  EXPECT_EQ(queue_->reap(out, false), 0u);
}

TEST_F(SharedQueueTest, VectorsAreCarried) {
  const Block block(2 * kBlock);
  const std::array<iovec, 2> vectors{iovec{block.data() + kBlock, kBlock},
                                     iovec{block.data(), kBlock}};
  Operation operation = vectored(Op::readv, fd_, vectors, 3 * kBlock);
  ASSERT_TRUE(queue_->submit(operation));
  ASSERT_EQ(reap_one(), &operation);
  EXPECT_EQ(operation.result, static_cast<int64_t>(2 * kBlock));
  EXPECT_EQ(block.data()[kBlock], 3);
  EXPECT_EQ(block.data()[0], 4);
}

TEST_F(SharedQueueTest, TellsOfAnEndWithoutASystemCall) {
  EXPECT_FALSE(queue_->has_ended());
  const Block block(kBlock);
  Operation operation = transfer(Op::write, fd_, block.data(), kBlock, 0);
  ASSERT_TRUE(queue_->submit(operation));
  while (!queue_->has_ended()) std::this_thread::yield();
  std::array<Operation*, 1> out{};
  EXPECT_EQ(queue_->reap(out, false), 1u);
  EXPECT_EQ(operation.result, static_cast<int64_t>(kBlock));
  EXPECT_FALSE(queue_->has_ended());
}

TEST_F(SharedQueueTest, AWakeEndsTheSleepThatIsOrComes) {
  std::array<Operation*, 1> out{};
  queue_->wake();
  EXPECT_EQ(queue_->reap(out, true), 0u);
  std::thread sleeper([&] { EXPECT_EQ(queue_->reap(out, true), 0u); });
  queue_->wake();
  sleeper.join();
}

/// Programs close what they do not know, with closefrom(3) for instance.
TEST_F(SharedQueueTest, AWakeEndsTheSleepEvenWithoutItsDescriptor) {
  for (int fd = 3; fd < 1024; ++fd) {
    std::array<char, 64> target{};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
    if (std::string(target.data(), length < 0 ? 0 : static_cast<size_t>(length))
            .find("[eventfd]") != std::string::npos) {
      ::close(fd);
    }
  }
  std::array<Operation*, 1> out{};
  std::thread sleeper([&] { EXPECT_EQ(queue_->reap(out, true), 0u); });
  queue_->wake();
  sleeper.join();
}

TEST_F(SharedQueueTest, AForkedChildLeavesItToTheParent) {
  const Block block(kBlock);
  Operation operation = transfer(Op::read, fd_, block.data(), kBlock, 9 * kBlock);
  ASSERT_TRUE(queue_->submit(operation));
  const pid_t child = ::fork();
  if (child == 0) {
    queue_->abandon();
    queue_.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(reap_one(), &operation);
  EXPECT_EQ(block.data()[0], 9);
}

}  // namespace
}  // namespace ioweave::engine
