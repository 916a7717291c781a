#include "device/expectation.hpp"

#include <algorithm>

namespace ioweave::device {
namespace {

using choice::Operation;
using choice::Pieces;
using choice::Way;

constexpr uint64_t kLeastPieceBytes = 64 << 10;  // smaller ones cost more than they can gain
constexpr uint64_t kMostPieceBytes = 4 << 20;
constexpr double kNotWorthIt = 0.97;        // of the best speed: less under way at once is kinder
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

/// How pieces are fastest on the device, and how fast that is.
struct FastestPieces {
  Pieces pieces;
  double mb_per_s = 0;  ///< 0: it is not known
};

uint64_t bytes_at_once(const Load& load) noexcept {
  return load.block_bytes * load.depth;
}

/// Of the loads that move nearly as much as the fastest one, the one with the least under way.
FastestPieces fastest_pieces(const Profile& profile, unsigned read_percent) {
  const auto is_piece = [&](const LoadResult& result) {
    const Load& load = result.load;
    return load.way == IoWay::uring && load.direct && load.read_percent == read_percent &&
           load.depth > 1 && load.depth <= choice::kMostAtOnce &&
           load.block_bytes >= kLeastPieceBytes && load.block_bytes <= kMostPieceBytes;
  };
  double best = 0;
  for (const LoadResult& result : profile.results) {
    if (is_piece(result)) best = std::max(best, result.mb_per_s());
  }
  const LoadResult* fastest = nullptr;
  for (const LoadResult& result : profile.results) {
    if (!is_piece(result) || result.mb_per_s() < kNotWorthIt * best) continue;
    const bool is_less =
        fastest == nullptr || bytes_at_once(result.load) < bytes_at_once(fastest->load);
    if (is_less) fastest = &result;
  }
  if (fastest == nullptr || best == 0) return {};
  return {{fastest->load.block_bytes, fastest->load.depth}, fastest->mb_per_s()};
}

/// 0 where one of them is not known.
float ratio_of(double speed, double plain) {
  return plain > 0 ? static_cast<float>(speed / plain) : 0;
}

unsigned read_percent_of(Operation operation) noexcept {
  return operation == Operation::read ? 100 : 0;
}

choice::Expected expected_of(const Profile& profile, Operation operation, uint64_t block,
                             IoWay engine, const FastestPieces& pieces) {
  const unsigned read_percent = read_percent_of(operation);
  const auto in_order = [&](IoWay way, uint64_t bytes) {
    return speed_of(profile, {way, true, false, read_percent, bytes, 1});
  };
  const double plain = in_order(IoWay::psync, block);
  choice::Expected expected{};
  expected[static_cast<size_t>(Way::engine)] = ratio_of(in_order(engine, block), plain);
  if (block >= 2 * pieces.pieces.bytes) {
    expected[static_cast<size_t>(Way::pieces)] = ratio_of(pieces.mb_per_s, plain);
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
  for (size_t i = 0; i < choice::kOperations; ++i) {
    const auto operation = static_cast<Operation>(i);
    const FastestPieces pieces = fastest_pieces(profile, read_percent_of(operation));
    expectation.pieces[i] = pieces.pieces;
    for (size_t size = 0; size < choice::kVectored; ++size) {
      expectation.of[i][size] = expected_of(profile, operation, block_of(size), engine, pieces);
    }
  }
  return expectation;
}

}  // namespace ioweave::device
