// What the profile of a device says of the ways of calls: how to cut transfers, and what it gains.

#include "device/expectation.hpp"

#include <cstdint>

#include <gtest/gtest.h>

namespace ioweave::device {
namespace {

using choice::Expectation;
using choice::Operation;
using choice::Pieces;
using choice::Way;

constexpr uint64_t kDevice = 42;
constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr unsigned kReads = 100;
constexpr unsigned kWrites = 0;

class ExpectationTest : public testing::Test {
 protected:
  void add(const Load& load, uint64_t mb_per_s) {
    LoadResult result;
    result.load = load;
    result.samples.push_back({mb_per_s * 1'000'000, 0, 1, 0});
    profile_.results.push_back(result);
  }
  void add_pieces(unsigned read_percent, uint64_t bytes, unsigned depth, uint64_t mb_per_s) {
    add({IoWay::uring, true, true, read_percent, bytes, depth}, mb_per_s);
  }
  [[nodiscard]] Expectation expected() const {
    return expectation_of(profile_, kDevice, IoWay::uring);
  }
  [[nodiscard]] Pieces pieces(Operation operation) const {
    return expected().pieces[static_cast<size_t>(operation)];
  }

  Profile profile_;
};

TEST_F(ExpectationTest, IsOfItsDevice) {
  EXPECT_EQ(expected().device, kDevice);
}

TEST_F(ExpectationTest, WithoutDepthsTransfersAreCutAsWithoutAProfile) {
  add({IoWay::uring, true, false, kReads, kMiB, 1}, 5000);
  EXPECT_EQ(pieces(Operation::read), Pieces());
  EXPECT_EQ(expected().of[0][choice::class_of(4 * kMiB)][static_cast<size_t>(Way::pieces)], 0);
}

TEST_F(ExpectationTest, TransfersAreCutAsWasFastest) {
  add_pieces(kReads, 256 * kKiB, 8, 1000);
  add_pieces(kReads, kMiB, 16, 2000);
  add_pieces(kReads, kMiB, 4, 1500);
  add_pieces(kWrites, 128 * kKiB, 2, 700);
  add_pieces(kWrites, 128 * kKiB, 32, 900);
  EXPECT_EQ(pieces(Operation::read), (Pieces{kMiB, 16}));
  EXPECT_EQ(pieces(Operation::write), (Pieces{128 * kKiB, 32}));
}

TEST_F(ExpectationTest, OfNearlyEqualOnesTheLeastIsUnderWay) {
  add_pieces(kReads, kMiB, 16, 2000);
  add_pieces(kReads, 256 * kKiB, 32, 1990);
  add_pieces(kReads, 256 * kKiB, 16, 1950);
  add_pieces(kReads, 256 * kKiB, 8, 1930);
  EXPECT_EQ(pieces(Operation::read), (Pieces{256 * kKiB, 16}));
}

TEST_F(ExpectationTest, LoadsThatAreNoPiecesAreLeftOut) {
  add_pieces(kReads, 256 * kKiB, 4, 100);
  add_pieces(kReads, 256 * kKiB, 64, 9000);                       // more than go at once
  add_pieces(kReads, 4 * kKiB, 32, 9000);                         // too small
  add_pieces(kReads, 16 * kMiB, 4, 9000);                         // too large
  add_pieces(50, 256 * kKiB, 8, 9000);                            // of both
  add({IoWay::uring, false, true, kReads, kMiB, 8}, 9000);        // by the page cache
  add({IoWay::sqpoll, true, true, kReads, 256 * kKiB, 8}, 9000);  // by another thread
  add_pieces(kReads, kMiB, 1, 9000);                              // one by one
  EXPECT_EQ(pieces(Operation::read), (Pieces{256 * kKiB, 4}));
}

TEST_F(ExpectationTest, PiecesPromiseTheirSpeedOverThatOfOneTransfer) {
  add_pieces(kWrites, kMiB, 4, 3000);
  add({IoWay::psync, true, false, kWrites, 4 * kMiB, 1}, 2000);
  add({IoWay::psync, true, false, kWrites, kMiB, 1}, 2000);
  const auto writes = expected().of[static_cast<size_t>(Operation::write)];
  EXPECT_FLOAT_EQ(writes[choice::class_of(4 * kMiB)][static_cast<size_t>(Way::pieces)], 1.5F);
  EXPECT_EQ(writes[choice::class_of(kMiB)][static_cast<size_t>(Way::pieces)], 0)
      << "that is one piece";
}

}  // namespace
}  // namespace ioweave::device
