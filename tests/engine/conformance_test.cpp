#include <array>
#include <cerrno>
#include <climits>
#include <set>

#include "backend_fixture.hpp"

// What every backend promises about operations, whatever moves the bytes.

namespace ioweave::engine {
namespace {

using Conformance = BackendTest;

TEST_P(Conformance, NameTellsTheEngine) {
  EXPECT_EQ(backend_->name(), backend_name(GetParam().options.kind, GetParam().options.mode));
}

TEST_P(Conformance, NopCompletesWithZero) {
  EXPECT_EQ(run(Operation{}), 0);
}

TEST_P(Conformance, WhatIsWrittenIsRead) {
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  const Block out(2 * kBlock, 'w');
  const Block in(2 * kBlock);
  ASSERT_EQ(run(transfer(Op::write, file.get(), out.data(), out.size(), kBlock)),
            static_cast<int64_t>(out.size()));
  ASSERT_EQ(run(transfer(Op::read, file.get(), in.data(), in.size(), kBlock)),
            static_cast<int64_t>(in.size()));
  EXPECT_TRUE(in.all('w'));
}

TEST_P(Conformance, VectorsAreGatheredAndScattered) {
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  const Block a(kBlock, 'a');
  const Block b(2 * kBlock, 'b');
  const std::array<iovec, 2> out{{{a.data(), a.size()}, {b.data(), b.size()}}};
  ASSERT_EQ(run(vectored(Op::writev, file.get(), out, 0)), static_cast<int64_t>(3 * kBlock));
  const Block c(2 * kBlock);
  const Block d(kBlock);
  const std::array<iovec, 2> in{{{c.data(), c.size()}, {d.data(), d.size()}}};
  ASSERT_EQ(run(vectored(Op::readv, file.get(), in, 0)), static_cast<int64_t>(3 * kBlock));
  EXPECT_EQ(c.data()[kBlock - 1], 'a');
  EXPECT_EQ(c.data()[kBlock], 'b');
  EXPECT_TRUE(d.all('b'));
}

TEST_P(Conformance, SyncSucceeds) {
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  const Block out(kBlock, 's');
  ASSERT_EQ(run(transfer(Op::write, file.get(), out.data(), out.size(), 0)),
            static_cast<int64_t>(kBlock));
  EXPECT_EQ(run(on_file(Op::fsync, file.get())), 0);
  EXPECT_EQ(run(on_file(Op::fdatasync, file.get())), 0);
}

TEST_P(Conformance, ReadAcrossTheEndIsShortAndBeyondItZero) {
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  ASSERT_EQ(::ftruncate(file.get(), kBlock + 100), 0);
  const Block in(2 * kBlock, 'x');
  EXPECT_EQ(run(transfer(Op::read, file.get(), in.data(), in.size(), 0)),
            static_cast<int64_t>(kBlock + 100));
  EXPECT_EQ(run(transfer(Op::read, file.get(), in.data(), in.size(), 4 * kBlock)), 0);
}

TEST_P(Conformance, ZeroLengthMovesNothing) {
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  const Block block(kBlock);
  EXPECT_EQ(run(transfer(Op::read, file.get(), block.data(), 0, 0)), 0);
  EXPECT_EQ(run(transfer(Op::write, file.get(), block.data(), 0, 0)), 0);
}

TEST_P(Conformance, ClosedDescriptorIsEbadf) {
  Descriptor file(open_file("data", O_RDWR | O_CREAT));
  const int closed = file.get();
  file.close();
  const Block block(kBlock);
  EXPECT_EQ(run(transfer(Op::read, closed, block.data(), kBlock, 0)), -EBADF);
  EXPECT_EQ(run(on_file(Op::fsync, closed)), -EBADF);
  EXPECT_EQ(run(transfer(Op::write, -1, block.data(), kBlock, 0)), -EBADF);
}

TEST_P(Conformance, WrongModeIsEbadf) {
  const Descriptor writable(open_file("data", O_WRONLY | O_CREAT));
  const Descriptor readable(open_file("data", O_RDONLY));
  const Block block(kBlock);
  EXPECT_EQ(run(transfer(Op::read, writable.get(), block.data(), kBlock, 0)), -EBADF);
  EXPECT_EQ(run(transfer(Op::write, readable.get(), block.data(), kBlock, 0)), -EBADF);
}

TEST_P(Conformance, DirectoryIsEisdir) {
  const Descriptor directory(::open(directory_.path().c_str(), O_RDONLY | O_CLOEXEC));
  const Block block(kBlock);
  const int64_t result = run(transfer(Op::read, directory.get(), block.data(), kBlock, 0));
  EXPECT_EQ(result, GetParam().is(Kind::aio) ? -ENOTSUP : -EISDIR);
}

TEST_P(Conformance, OffsetIsIgnoredOnAPipe) {
  if (GetParam().is(Kind::aio)) GTEST_SKIP() << "native AIO carries O_DIRECT files only";
  Pipe pipe;
  const Block out(kBlock, 'p');
  const Block in(kBlock);
  EXPECT_EQ(run(transfer(Op::write, pipe.in.get(), out.data(), 100, 0)), 100);
  EXPECT_EQ(run(transfer(Op::read, pipe.out.get(), in.data(), kBlock, 12345)), 100);
  EXPECT_TRUE(in.all('p', 100));
}

TEST_P(Conformance, NegativeOffsetIsEinval) {
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  const Block block(kBlock);
  const auto offset = -static_cast<int64_t>(kBlock);
  EXPECT_EQ(run(transfer(Op::read, file.get(), block.data(), kBlock, offset)), -EINVAL);
  EXPECT_EQ(run(transfer(Op::write, file.get(), block.data(), kBlock, offset)), -EINVAL);
}

TEST_P(Conformance, BadBufferIsEfault) {
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  ASSERT_EQ(::ftruncate(file.get(), kBlock), 0);
  auto* nowhere =
      static_cast<char*>(::mmap(nullptr, kBlock, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  EXPECT_EQ(run(transfer(Op::read, file.get(), nowhere, kBlock, 0)), -EFAULT);
  ::munmap(nowhere, kBlock);
}

TEST_P(Conformance, MisalignedDirectTransferIsEinval) {
  const std::string path = directory_.file("direct");
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600));
  if (file.get() < 0) GTEST_SKIP() << "no O_DIRECT on this file system";
  const Block block(2 * kBlock, 'm');  // real blocks: in a hole anything may be read
  ASSERT_EQ(::pwrite(file.get(), block.data(), block.size(), 0), ssize_t{2 * kBlock});
  EXPECT_EQ(run(transfer(Op::read, file.get(), block.data() + 1, 100, 3)), -EINVAL);
}

TEST_P(Conformance, CurrentPositionIsUsedAndMoved) {
  if (GetParam().is(Kind::aio)) GTEST_SKIP() << "native AIO has no current position";
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  const Block out(kBlock, 'c');
  EXPECT_EQ(run(transfer(Op::write, file.get(), out.data(), 100, kCurrentPosition)), 100);
  EXPECT_EQ(::lseek(file.get(), 0, SEEK_CUR), 100);
}

TEST_P(Conformance, CurrentPositionIsUnsupportedByAio) {
  if (!GetParam().is(Kind::aio)) GTEST_SKIP() << "the other backends have it";
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  const Block block(kBlock);
  Operation operation = transfer(Op::read, file.get(), block.data(), kBlock, kCurrentPosition);
  EXPECT_EQ(backend_->submit(operation), Submitted::unsupported);
}

TEST_P(Conformance, BufferedTransferIsUnsupportedByAio) {
  if (!GetParam().is(Kind::aio)) GTEST_SKIP() << "the other backends have it";
  const std::string path = directory_.file("buffered");
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const Block block(kBlock);
  Operation operation = transfer(Op::write, file.get(), block.data(), kBlock, 0);
  EXPECT_EQ(backend_->submit(operation), Submitted::unsupported);
}

TEST_P(Conformance, TransferIsCutAtTheKernelsLimit) {
  if (GetParam().is(Kind::aio)) GTEST_SKIP() << "/dev/null knows no O_DIRECT";
  // Nothing is touched: /dev/null does not look at what it is given.
  constexpr size_t kBytes = size_t{3} << 30;
  void* memory =
      ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const Descriptor null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const int64_t moved = run(transfer(Op::write, null.get(), static_cast<char*>(memory), kBytes, 0));
  EXPECT_EQ(moved, static_cast<int64_t>(kMaxTransferBytes));
  ::munmap(memory, kBytes);
}

TEST_P(Conformance, OffsetsBeyondFourGibAreKept) {
  const Descriptor file(open_file("sparse", O_RDWR | O_CREAT));
  constexpr int64_t kFar = int64_t{5} << 30;
  const Block out(kBlock, 'f');
  const Block in(kBlock);
  ASSERT_EQ(run(transfer(Op::write, file.get(), out.data(), kBlock, kFar)),
            static_cast<int64_t>(kBlock));
  ASSERT_EQ(run(transfer(Op::read, file.get(), in.data(), kBlock, kFar)),
            static_cast<int64_t>(kBlock));
  EXPECT_TRUE(in.all('f'));
  ASSERT_EQ(run(transfer(Op::read, file.get(), in.data(), kBlock, kFar - int64_t{1} * kBlock)),
            static_cast<int64_t>(kBlock));
  EXPECT_TRUE(in.all(0));
}

TEST_P(Conformance, BusyAtCapacityAndNothingIsLost) {
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  ASSERT_EQ(::ftruncate(file.get(), kBlock), 0);
  const uint32_t entries = GetParam().options.entries;
  const Block block(kBlock);
  std::vector<Operation> operations(size_t{10} * entries,
                                    transfer(Op::read, file.get(), block.data(), kBlock, 0));
  std::set<Operation*> reaped;
  size_t submitted = 0;
  bool was_busy = false;
  while (reaped.size() < operations.size()) {
    while (submitted < operations.size()) {
      const Submitted answer = backend_->submit(operations[submitted]);
      if (answer == Submitted::busy) {
        was_busy = true;
        break;
      }
      ASSERT_EQ(answer, Submitted::queued);
      ++submitted;
    }
    EXPECT_LE(submitted - reaped.size(), entries);
    std::array<Operation*, 5> out{};
    const int got = backend_->reap(out, {1, kForeverNs, true});
    ASSERT_GT(got, 0);
    for (int i = 0; i < got; ++i) {
      EXPECT_EQ(out[static_cast<size_t>(i)]->result, static_cast<int64_t>(kBlock));
      EXPECT_TRUE(reaped.insert(out[static_cast<size_t>(i)]).second) << "reaped twice";
    }
  }
  EXPECT_TRUE(was_busy);
}

TEST_P(Conformance, BusyLeavesTheOperationUntouched) {
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  ASSERT_EQ(::ftruncate(file.get(), kBlock), 0);
  const Block block(kBlock);
  const uint32_t entries = GetParam().options.entries;
  std::vector<Operation> operations(entries,
                                    transfer(Op::read, file.get(), block.data(), kBlock, 0));
  for (Operation& operation : operations) ASSERT_EQ(backend_->submit(operation), Submitted::queued);
  Operation extra = transfer(Op::read, file.get(), block.data(), kBlock, 0);
  EXPECT_EQ(backend_->submit(extra), Submitted::busy);
  EXPECT_EQ(extra.result, 0);
  ASSERT_EQ(backend_->flush(), 0);
  for (uint32_t i = 0; i < entries; ++i) ASSERT_NE(reap_one(), nullptr);
  EXPECT_EQ(run(extra), static_cast<int64_t>(kBlock));
}

TEST_P(Conformance, ReapWaitsForAsManyAsAsked) {
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  ASSERT_EQ(::ftruncate(file.get(), kBlock), 0);
  const Block block(kBlock);
  std::vector<Operation> operations(8, transfer(Op::read, file.get(), block.data(), kBlock, 0));
  for (Operation& operation : operations) ASSERT_EQ(backend_->submit(operation), Submitted::queued);
  std::array<Operation*, 32> out{};
  size_t reaped = 0;
  while (reaped < operations.size()) {
    const auto wanted = static_cast<uint32_t>(operations.size() - reaped);
    const int got = backend_->reap(out, {wanted, kForeverNs, true});
    ASSERT_GE(got, 0);
    reaped += static_cast<size_t>(got);
  }
  EXPECT_EQ(reaped, operations.size());
}

TEST_P(Conformance, ReapOfNothingTimesOut) {
  std::array<Operation*, 4> out{};
  EXPECT_EQ(backend_->reap(out, {1, 1'000'000, false}), 0);
  EXPECT_EQ(backend_->reap(out, {1, 1'000'000, true}), 0);
  EXPECT_EQ(backend_->reap(out, {1, 0, false}), 0);
}

TEST_P(Conformance, ReapWithoutAMinimumNeverSleeps) {
  std::array<Operation*, 4> out{};
  EXPECT_EQ(backend_->reap(out, {}), 0);
  EXPECT_EQ(backend_->reap(out, {0, -1, true}), 0);
}

TEST_P(Conformance, ReapIntoNoRoomTakesNothing) {
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  Operation operation = on_file(Op::fsync, file.get());
  ASSERT_EQ(backend_->submit(operation), Submitted::queued);
  EXPECT_EQ(backend_->reap({}, {1, -1, true}), 0);
  EXPECT_EQ(reap_one(), &operation);
}

TEST_P(Conformance, PrefetchIsForThreadsOnly) {
  if (GetParam().is(Kind::threads)) GTEST_SKIP() << "see prefetch_test.cpp";
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  Operation operation = transfer(Op::prefetch, file.get(), nullptr, kBlock, 0);
  EXPECT_EQ(backend_->submit(operation), Submitted::unsupported);
}

TEST_P(Conformance, WriteBackBeginsToWriteChangedPagesOrLeavesItToOthers) {
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  alignas(kBlock) static const std::array<std::byte, kBlock> bytes{};
  ASSERT_EQ(::pwrite(file.get(), bytes.data(), kBlock, 0), static_cast<ssize_t>(kBlock));
  Operation operation = transfer(Op::write_back, file.get(), nullptr, kBlock, 0);
  operation.result = -1;
  const Submitted submitted = backend_->submit(operation);
  if (GetParam().is(Kind::aio) || submitted == Submitted::unsupported) {
    EXPECT_EQ(submitted, Submitted::unsupported);
    return;
  }
  ASSERT_EQ(submitted, Submitted::queued);
  ASSERT_EQ(backend_->flush(), 0);
  EXPECT_EQ(reap_one(), &operation);
  EXPECT_EQ(operation.result, 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance, ::testing::ValuesIn(all_backends()), name_of_case);

}  // namespace
}  // namespace ioweave::engine
