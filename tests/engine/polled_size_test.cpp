#include "engine/polled_size.hpp"

#include "backend_fixture.hpp"

namespace ioweave::engine {
namespace {

constexpr uint64_t kKiB = 1024;

TEST(PolledSize, IsThePowerOfTwoThatFitsRequestsAndSegments) {
  // An NVMe under qemu: 127 pages that do not adjoin are 508 KiB.
  EXPECT_EQ(largest_polled_bytes({512 * kKiB, 127, 0}), 256 * kKiB);
  EXPECT_EQ(largest_polled_bytes({128 * kKiB, 33, 0}), 128 * kKiB);
  EXPECT_EQ(largest_polled_bytes({128 * kKiB, 32, 0}), 64 * kKiB) << "one page more is touched";
  EXPECT_EQ(largest_polled_bytes({1280 * kKiB, 65535, 0}), 512 * kKiB) << "BIO_MAX_VECS";
}

TEST(PolledSize, IsNothingWhereTheDeviceTakesNoTwoPagesOrHasChunks) {
  EXPECT_EQ(largest_polled_bytes({512 * kKiB, 1, 0}), 0U);
  EXPECT_EQ(largest_polled_bytes({512 * kKiB, 0, 0}), 0U);
  EXPECT_EQ(largest_polled_bytes({512 * kKiB, 127, 128 * kKiB}), 0U);
}

TEST(PolledSize, CutsWhatIsLongerUnlessItMustGoWhole) {
  const Block block(kBlock);
  Operation read = transfer(Op::read, 0, block.data(), 1024 * kKiB, 0);
  EXPECT_EQ(polled_part(read, 256 * kKiB), 256 * kKiB);
  EXPECT_EQ(polled_part(read, 1024 * kKiB), 1024 * kKiB);
  read.whole = true;
  EXPECT_EQ(polled_part(read, 1024 * kKiB), 1024 * kKiB);
  EXPECT_EQ(polled_part(read, 256 * kKiB), 0U);
}

TEST(PolledSize, LeavesWritesThatAFileSystemWaitsFor) {
  const Block block(4 * kBlock);
  const auto waited_for = [&](Op op, size_t memory, size_t length, int64_t offset) {
    return is_waited_for(transfer(op, 0, block.data() + memory, length, offset), 2 * kBlock);
  };
  EXPECT_FALSE(waited_for(Op::write, 0, kBlock, kBlock));
  EXPECT_FALSE(waited_for(Op::write, 0, kBlock, 2 * kBlock)) << "behind the end nothing is polled";
  EXPECT_TRUE(waited_for(Op::write, 0, 2 * kBlock, kBlock)) << "crosses the end";
  EXPECT_TRUE(waited_for(Op::write, 512, kBlock, 0));
  EXPECT_TRUE(waited_for(Op::write, 0, 512, 0));
  EXPECT_TRUE(waited_for(Op::write, 0, kBlock, 512));
  EXPECT_TRUE(waited_for(Op::write, 0, kBlock, kCurrentPosition));
  EXPECT_FALSE(waited_for(Op::read, 512, 512, 512));
  std::vector<iovec> vectors{{block.data(), kBlock}, {block.data() + 2 * kBlock, kBlock}};
  EXPECT_FALSE(is_waited_for(vectored(Op::writev, 0, vectors, 0), 2 * kBlock));
  vectors[1].iov_len = 512;
  EXPECT_TRUE(is_waited_for(vectored(Op::writev, 0, vectors, 0), 2 * kBlock));
}

TEST(PolledSize, TakesVectorsThatMeetAtPages) {
  const Block block(8 * kBlock);
  std::vector<iovec> vectors{{block.data() + 512, kBlock - 512},
                             {block.data() + 4 * kBlock, 2 * kBlock},
                             {block.data() + 2 * kBlock, 512}};
  EXPECT_EQ(polled_part(vectored(Op::readv, 0, vectors, 0), 4 * kBlock), 3 * kBlock);
  EXPECT_EQ(polled_part(vectored(Op::readv, 0, vectors, 0), 2 * kBlock), 0U) << "too long";
  vectors[0].iov_len -= 512;
  EXPECT_EQ(polled_part(vectored(Op::readv, 0, vectors, 0), 4 * kBlock), 0U) << "a gap behind it";
  vectors.erase(vectors.begin());
  vectors[1].iov_base = block.data() + 512;
  EXPECT_EQ(polled_part(vectored(Op::writev, 0, vectors, 0), 4 * kBlock), 0U) << "a gap before it";
}

}  // namespace
}  // namespace ioweave::engine
