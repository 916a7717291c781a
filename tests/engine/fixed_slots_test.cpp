#include <cerrno>

#include "backend_fixture.hpp"
#include "engine/fixed_table.hpp"
#include "support/child.hpp"

namespace ioweave::engine {
namespace {

TEST(FixedTable, SlotsBeginAtOneAndAreUsedAgain) {
  FixedTable table;
  const Block block(kBlock);
  EXPECT_EQ(table.add_buffer(block.data(), kBlock), 1);
  EXPECT_EQ(table.add_buffer(block.data(), kBlock), 2);
  EXPECT_EQ(table.remove_buffer(1), 0);
  EXPECT_EQ(table.add_buffer(block.data(), kBlock), 1);
  EXPECT_EQ(table.add_file(7), 1);
  EXPECT_EQ(table.remove_file(1), 0);
}

TEST(FixedTable, UnknownSlotsAreEnoent) {
  FixedTable table;
  EXPECT_EQ(table.remove_buffer(0), -ENOENT);
  EXPECT_EQ(table.remove_buffer(5), -ENOENT);
  EXPECT_EQ(table.remove_file(FixedTable::kSlots - 1), -ENOENT);
}

TEST(FixedTable, IsFullAfterItsLastSlot) {
  FixedTable table;
  for (int slot = 1; slot < FixedTable::kSlots; ++slot) ASSERT_EQ(table.add_file(3), slot);
  EXPECT_EQ(table.add_file(3), -ENOSPC);
}

TEST(FixedTable, EveryChangeIsANewVersion) {
  FixedTable table;
  const uint64_t before = table.version();
  ASSERT_EQ(table.add_file(3), 1);
  const uint64_t after = table.version();
  EXPECT_NE(before, after);
  EXPECT_EQ(table.snapshot().version, after);
  ASSERT_EQ(table.remove_file(1), 0);
  EXPECT_NE(table.version(), after);
}

/// Every backend takes operations that name slots; only io_uring gains by them.
class FixedSlots : public BackendTest {
 protected:
  void SetUp() override {
    BackendOptions options = GetParam().options;
    options.fixed = &table_;
    open(options);
  }
  ~FixedSlots() override { backend_.reset(); }  // before the table it looks at

  [[nodiscard]] uint16_t add_file(int fd) { return static_cast<uint16_t>(table_.add_file(fd)); }
  [[nodiscard]] uint16_t add_buffer(const Block& block) {
    return static_cast<uint16_t>(table_.add_buffer(block.data(), block.size()));
  }
  /// Writes `value` through the slots and reads it back without them.
  void expect_round_trip(int fd, const Block& block, uint16_t file, uint16_t buffer, char value) {
    std::memset(block.data(), value, block.size());
    Operation out = transfer(Op::write, fd, block.data(), kBlock, 0);
    out.fixed_file = file;
    out.fixed_buffer = buffer;
    ASSERT_EQ(run(out), static_cast<int64_t>(kBlock));
    const Block in(kBlock);
    ASSERT_EQ(run(transfer(Op::read, fd, in.data(), kBlock, 0)), static_cast<int64_t>(kBlock));
    EXPECT_TRUE(in.all(value));
  }

  FixedTable table_;
};

TEST_P(FixedSlots, TransfersThroughSlotsMoveTheSameBytes) {
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  const Block block(4 * kBlock);
  const uint16_t file_slot = add_file(file.get());
  const uint16_t buffer_slot = add_buffer(block);
  expect_round_trip(file.get(), block, file_slot, buffer_slot, '1');
  expect_round_trip(file.get(), block, 0, buffer_slot, '2');
  expect_round_trip(file.get(), block, file_slot, 0, '3');
  Operation sync = on_file(Op::fdatasync, file.get());
  sync.fixed_file = file_slot;
  EXPECT_EQ(run(sync), 0);
  EXPECT_EQ(backend_->fixed_error(), 0);
}

TEST_P(FixedSlots, PartOfABufferMayBeUsed) {
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  const Block block(4 * kBlock, 'm');
  Operation out = transfer(Op::write, file.get(), block.data() + kBlock, 2 * kBlock, 0);
  out.fixed_buffer = add_buffer(block);
  EXPECT_EQ(run(out), static_cast<int64_t>(2 * kBlock));
  Operation tail = transfer(Op::read, file.get(), block.data() + 3 * kBlock, kBlock, 0);
  tail.fixed_buffer = out.fixed_buffer;
  EXPECT_EQ(run(tail), static_cast<int64_t>(kBlock));
}

TEST_P(FixedSlots, ARangeOutsideTheSlotGoesThePlainWay) {
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  const Block registered(kBlock);
  const Block other(kBlock);
  expect_round_trip(file.get(), other, 0, add_buffer(registered), 'o');
}

TEST_P(FixedSlots, UnknownSlotsGoThePlainWay) {
  const Descriptor file(open_file("data", O_RDWR | O_CREAT));
  const Block block(kBlock);
  expect_round_trip(file.get(), block, 900, 900, 'u');
  expect_round_trip(file.get(), block, FixedTable::kSlots - 1, FixedTable::kSlots - 1, 'v');
}

TEST_P(FixedSlots, ASlotChangedBetweenOperationsIsFollowed) {
  const Descriptor first(open_file("first", O_RDWR | O_CREAT));
  const Descriptor second(open_file("second", O_RDWR | O_CREAT));
  const Block a(kBlock);
  const Block b(2 * kBlock);
  const uint16_t file_slot = add_file(first.get());
  const uint16_t buffer_slot = add_buffer(a);
  expect_round_trip(first.get(), a, file_slot, buffer_slot, 'a');
  ASSERT_EQ(table_.remove_file(file_slot), 0);
  ASSERT_EQ(table_.remove_buffer(buffer_slot), 0);
  ASSERT_EQ(add_file(second.get()), file_slot);
  ASSERT_EQ(add_buffer(b), buffer_slot);
  expect_round_trip(second.get(), b, file_slot, buffer_slot, 'b');
  expect_round_trip(first.get(), a, 0, 0, 'a');
  EXPECT_EQ(backend_->fixed_error(), 0);
}

TEST_P(FixedSlots, ARemovedFileIsLetGoAtTheNextFlush) {
  // A pipe's reader sees end-of-file only once nobody holds the other end.
  if (GetParam().is(Kind::aio)) GTEST_SKIP() << "native AIO carries no pipes";
  Pipe pipe;
  const Block block(kBlock, 'p');
  Operation out = transfer(Op::write, pipe.in.get(), block.data(), 1, 0);
  out.fixed_file = add_file(pipe.in.get());
  ASSERT_EQ(run(out), 1);
  ASSERT_EQ(table_.remove_file(out.fixed_file), 0);
  ASSERT_EQ(backend_->flush(), 0);
  pipe.in.close();
  char byte = 0;
  ASSERT_EQ(::read(pipe.out.get(), &byte, 1), 1);
  EXPECT_EQ(::read(pipe.out.get(), &byte, 1), 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, FixedSlots, ::testing::ValuesIn(all_backends()), name_of_case);

TEST(FixedSlotsWithoutMemlock, ThePlainOperationIsUsedAndTheReasonKept) {
  const test::TempDir directory;
  const int status = test::run_in_child([&] {
    // Room for a small ring, which recent kernels charge too, and none for the buffer.
    if (!test::limit_locked_memory(128 << 10)) return 77;
    FixedTable table;
    BackendOptions options;
    options.entries = 8;
    options.fixed = &table;
    int error = 0;
    std::string why;
    const auto backend = open_backend(options, error, why);
    if (backend == nullptr) return 77;
    const Descriptor file(
        ::open(directory.file("data").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    const Block block(1 << 20, 'l');
    Operation out = transfer(Op::write, file.get(), block.data(), kBlock, 0);
    out.fixed_buffer = static_cast<uint16_t>(table.add_buffer(block.data(), block.size()));
    Operation* reaped = nullptr;
    if (backend->submit(out) != Submitted::queued) return 1;
    if (backend->reap({&reaped, 1}, {1, kForeverNs, true}) != 1) return 2;
    if (out.result != static_cast<int64_t>(kBlock)) return 3;
    return backend->fixed_error() == -ENOMEM ? 0 : 4;
  });
  if (status == 77) GTEST_SKIP() << "no io_uring, or locked memory cannot be limited here";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ioweave::engine
