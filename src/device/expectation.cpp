#include "device/expectation.hpp"

namespace ioweave::device {
namespace {

using choice::kPieceBytes;
using choice::Operation;
using choice::Way;

constexpr unsigned kPieces = 4;             // at once: the depth of the study that is nearest
constexpr uint64_t kJoinedBytes = 1 << 20;  // what small writes are joined to
/// A held write is copied once more: `bench/run behind` has 0.56 for writes of that size, which
/// join to nothing.
constexpr double kCopied = 0.56;

constexpr uint64_t block_of(size_t size_class) noexcept {
  const size_t last = choice::kClassBytes.size();
  return size_class < last ? choice::kClassBytes[size_class] : choice::kClassBytes[last - 1] * 4;
}

double speed_of(const Profile& profile, const Load& load) {
  const LoadResult* const result = result_of(profile, load);
  return result != nullptr && !result->samples.empty() ? result->mb_per_s() : 0;
}

/// 0 where one of them is not known.
float ratio_of(double speed, double plain) {
  return plain > 0 ? static_cast<float>(speed / plain) : 0;
}

choice::Expected expected_of(const Profile& profile, Operation operation, uint64_t block,
                             IoWay engine) {
  const unsigned read_percent = operation == Operation::read ? 100 : 0;
  const auto in_order = [&](IoWay way, uint64_t bytes) {
    return speed_of(profile, {way, true, false, read_percent, bytes, 1});
  };
  const double plain = in_order(IoWay::psync, block);
  const double pieces =
      speed_of(profile, {IoWay::uring, true, true, read_percent, kPieceBytes, kPieces});
  choice::Expected expected{};
  expected[static_cast<size_t>(Way::engine)] = ratio_of(in_order(engine, block), plain);
  if (block >= 2 * kPieceBytes) {
    expected[static_cast<size_t>(Way::pieces)] = ratio_of(pieces, plain);
  }
  if (operation == Operation::write && block <= choice::kMostHeldBytes) {
    expected[static_cast<size_t>(Way::behind)] =
        ratio_of(kCopied * in_order(IoWay::psync, kJoinedBytes), plain);
  }
  return expected;
}

}  // namespace

choice::Expectation expectation_of(const Profile& profile, uint64_t number, IoWay engine) {
  choice::Expectation expectation;
  expectation.device = number;
  for (size_t operation = 0; operation < choice::kOperations; ++operation) {
    for (size_t size = 0; size < choice::kVectored; ++size) {
      expectation.of[operation][size] =
          expected_of(profile, static_cast<Operation>(operation), block_of(size), engine);
    }
  }
  return expectation;
}

}  // namespace ioweave::device
