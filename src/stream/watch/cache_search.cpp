#include "stream/watch/cache_search.hpp"

#include <algorithm>

namespace ioweave::stream {
namespace {

constexpr uint64_t kLeastUnseenBytes = 64 << 10;  // that a process has read to be looked for
constexpr uint64_t kMovesInFlight = 4;            // beyond such moves that are not seen yet
constexpr uint64_t kUnseenNs = 250'000'000;       // until its next read is counted
constexpr uint64_t kQuietNs = 3'000'000'000;      // a process that reads again after so long is new
constexpr uint64_t kLeastPeriodNs = 10'000'000;   // between looks that find nobody
constexpr uint64_t kMostPeriodNs = 1'000'000'000;
constexpr unsigned kFrequentLooks = 8;       // before looks become rare
constexpr uint64_t kCountNs = 20'000'000;    // behind so long without a sight, all is counted
constexpr uint64_t kLostNs = 1'000'000'000;  // a reader that is not seen for so long is lost

/// Returns the time until the next look behind `looks` that found nobody.
uint64_t period_ns(unsigned looks) {
  constexpr unsigned kMostDoublings = 7;
  const unsigned more = std::max(looks, kFrequentLooks) - kFrequentLooks;
  return std::min(kLeastPeriodNs << std::min(more, kMostDoublings), kMostPeriodNs);
}

}  // namespace

CacheSearch::Result CacheSearch::look(const CachedBytes& cached_bytes, uint64_t file_bytes,
                                      uint64_t asked_until, uint64_t now_ns) {
  bool is_told = true;
  const CacheFrontier::CachedBytes told_bytes = [&](FileRange range) {
    const std::optional<uint64_t> bytes = cached_bytes(range);
    is_told = is_told && bytes;
    return bytes.value_or(0);
  };
  const bool was_found = frontier().has_value();
  const bool has_moved = frontier_.look(told_bytes, file_bytes, asked_until);
  const bool is_lost = !has_moved && was_found && now_ns - moved_ns_ > kLostNs;
  if (!is_told || is_lost) frontier_.lose();
  if (!frontier()) {
    // The look for a frontier has counted the file; one that follows a reader has not.
    saw_nothing_ =
        !is_told || (was_found ? told_bytes({0, file_bytes}) : frontier_.counted_bytes()) == 0;
    next_ns_ = is_told ? now_ns + period_ns(++looks_) : UINT64_MAX;
    return Result::none;
  }
  if (!has_moved) return Result::stands;
  // Help has hidden it for a while. Counting all of a file takes some time.
  was_elsewhere_ = was_found && now_ns - moved_ns_ > kCountNs &&
                   frontier_.has_grown_elsewhere(told_bytes, file_bytes);
  looks_ = 0;
  moved_ns_ = now_ns;
  return was_found ? Result::moved : Result::found;
}

void CacheSearch::note_position(uint64_t unseen_bytes) noexcept {
  frontier_.lose();
  reads_ns_ = 0;
  unseen_bytes_ = unseen_bytes;
}

bool CacheSearch::has_read_lately(uint64_t now_ns) const noexcept {
  return now_ns - reads_ns_ < kUnseenNs;
}

bool CacheSearch::reads_unseen(uint64_t unseen_bytes, uint64_t largest_move_bytes,
                               uint64_t now_ns) noexcept {
  const uint64_t in_flight = kMovesInFlight * largest_move_bytes;
  if (unseen_bytes < unseen_bytes_ + std::max(kLeastUnseenBytes, in_flight)) return false;
  if (now_ns - reads_ns_ > kQuietNs) looks_ = 0;  // it begins anew
  unseen_bytes_ = unseen_bytes;
  reads_ns_ = now_ns;
  return true;
}

}  // namespace ioweave::stream
