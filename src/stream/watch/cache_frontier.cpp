#include "stream/watch/cache_frontier.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/page_bytes.hpp"

namespace ioweave::stream {
namespace {

constexpr uint64_t kLeastPartBytes = 8u << 20;
constexpr uint64_t kMostParts = 128;
constexpr uint64_t kFirstStepBytes = 64 << 10;
// The reader goes on between the look at the frontier and the count.
constexpr uint64_t kLeastElsewhereBytes = 16u << 20;

/// Returns the last place from which `holds(place)` is true, between `from`, where it is, and `to`,
/// where it is not; a multiple of pages from `from`.
template <class Holds>
uint64_t last_place(uint64_t from, uint64_t to, Holds holds) {
  const uint64_t page = page_bytes();
  while (to - from > page) {
    const uint64_t pages = (to - from + page - 1) / page;
    const uint64_t middle = from + pages / 2 * page;
    (holds(middle) ? from : to) = middle;
  }
  return from;
}

/// Returns the end of what is there without a hole from `begin` on.
uint64_t end_of_run(const CacheFrontier::CachedBytes& cached_bytes, uint64_t begin,
                    uint64_t file_bytes) {
  const auto is_there = [&](uint64_t from, uint64_t to) {
    return cached_bytes({from, to - from}) >= to - from;
  };
  uint64_t end = begin;
  for (uint64_t step = page_bytes(); end < file_bytes;) {
    const uint64_t next = std::min(file_bytes, end + step);
    if (!is_there(end, next)) {
      return last_place(end, next, [&](uint64_t place) { return is_there(end, place); });
    }
    end = next;
    step = std::max(kFirstStepBytes, 2 * step);
  }
  return end;
}

}  // namespace

void CacheFrontier::lose() noexcept {
  frontier_.reset();
  cached_.clear();
}

bool CacheFrontier::look(const CachedBytes& cached_bytes, uint64_t file_bytes,
                         uint64_t asked_until) {
  if (!frontier_) return find(cached_bytes, file_bytes);
  const uint64_t before = *frontier_;
  const uint64_t begin = std::max(before, asked_until);
  if (begin >= file_bytes) return false;
  const uint64_t end = end_of_run(cached_bytes, begin, file_bytes);
  if (end == begin) return false;
  frontier_ = end;
  way_bytes_ += end - before;
  return true;
}

bool CacheFrontier::has_grown_elsewhere(const CachedBytes& cached_bytes, uint64_t file_bytes) {
  const uint64_t now = cached_bytes({0, file_bytes});
  const uint64_t before = std::exchange(counted_bytes_, now);
  const uint64_t frontier = frontier_.value_or(0);
  const uint64_t moved = frontier - std::exchange(counted_at_frontier_, frontier);
  return now > before + moved + kLeastElsewhereBytes;
}

/// Compares what is there with the last look.
bool CacheFrontier::find(const CachedBytes& cached_bytes, uint64_t file_bytes) {
  const uint64_t page = page_bytes();
  const uint64_t part_bytes =
      std::max(kLeastPartBytes, (file_bytes / kMostParts / page + 1) * page);
  std::vector<uint64_t> now;
  for (uint64_t at = 0; at < file_bytes; at += part_bytes) {
    now.push_back(cached_bytes({at, std::min(part_bytes, file_bytes - at)}));
  }
  counted_bytes_ = std::accumulate(now.begin(), now.end(), uint64_t{0});
  const std::vector<uint64_t> before = std::exchange(cached_, std::move(now));
  if (std::exchange(part_bytes_, part_bytes) != part_bytes || before.size() != cached_.size()) {
    return false;  // the first look, or the file has got another size
  }
  size_t first = 0;
  while (first < before.size() && cached_[first] <= before[first]) ++first;
  if (first == before.size()) return false;
  size_t last = first;
  while (last + 1 < before.size() && cached_[last + 1] > before[last + 1]) ++last;
  for (size_t part = last + 1; part < before.size(); ++part) {
    if (cached_[part] > before[part]) return false;  // it got more in two places
  }
  const uint64_t begin = last * part_bytes;
  const uint64_t end = std::min(file_bytes, begin + part_bytes);
  const uint64_t run = last_place(begin, end, [&](uint64_t place) {
    return cached_bytes({begin, place - begin}) == 0;
  });
  frontier_ = end_of_run(cached_bytes, run, file_bytes);
  way_bytes_ = 0;
  counted_at_frontier_ = *frontier_;
  return true;
}

}  // namespace ioweave::stream
