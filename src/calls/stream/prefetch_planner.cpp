#include "calls/stream/prefetch_planner.hpp"

#include <algorithm>

namespace ioweave::calls {
namespace {

/// A first read of at least this much from the start of the file is taken for a chunk of a
/// sequential reader: waiting for a second one would leave the second chunk unhidden.
constexpr uint64_t kEagerChunkBytes = 128u << 10;
/// A hole is believed after one repetition where the records are this large.
constexpr uint64_t kLargeRecordBytes = 1u << 20;
constexpr unsigned kPatternlessReads = 24;
constexpr unsigned kUnhelpedReads = 8;
/// The kernel's own read-ahead is cached, or on its way, up to read_ahead_kb in front of the reader
/// (8 MiB on some disks): the plan steps over that. So much in a row is a file that is cached.
constexpr uint64_t kCachedBytes = 32u << 20;
constexpr uint64_t kMostRecordsAhead = 64;
constexpr size_t kMostReadyRanges = 512;

uint64_t overlap(Range a, Range b) {
  const uint64_t begin = std::max(a.offset, b.offset);
  const uint64_t end = std::min(a.end(), b.end());
  return end > begin ? end - begin : 0;
}

/// `value + distance`, or nothing outside of [0, limit).
std::optional<uint64_t> moved(uint64_t value, int64_t distance, uint64_t limit) {
  if (distance < 0 && value < static_cast<uint64_t>(-distance)) {
    return std::nullopt;
  }
  const uint64_t result = value + static_cast<uint64_t>(distance);
  return result < limit ? std::optional(result) : std::nullopt;
}

}  // namespace

// ---- Tracks -------------------------------------------------------------------------------------

bool PrefetchPlanner::Track::advance(Range read) noexcept {
  if (!alive) {
    return false;
  }
  const bool back_to_back = read.offset == last.end();
  const auto distance = static_cast<int64_t>(read.offset - last.offset);
  if (!back_to_back && (stride == 0 || distance != stride)) {
    return false;
  }
  if (back_to_back && stride != 0) {
    stride = 0;
    repeats = 0;
  }
  ++repeats;
  last = read;
  return true;
}

/// Starts anew from `read`, taking its distance from the read before for the stride to expect.
void PrefetchPlanner::Track::learn(Range read) noexcept {
  stride = alive ? static_cast<int64_t>(read.offset - last.offset) : 0;
  last = read;
  repeats = 0;
  alive = true;
}

/// Whether a candidate has shown enough to be followed. One that must push a living track aside
/// has to show more.
bool PrefetchPlanner::trusted(const Track& track, bool slow) const noexcept {
  if (track.repeats == 0) {
    return !track_.alive && slow && track.stride == 0 && track.last.offset == 0 &&
           track.last.bytes >= kEagerChunkBytes;
  }
  const bool easy = track.stride == 0 || track.last.bytes >= kLargeRecordBytes;
  const bool contested = track_.alive && track_.repeats != 0;
  return track.repeats >= (easy && !contested ? 1u : 2u);
}

// ---- Events -------------------------------------------------------------------------------------

void PrefetchPlanner::resized(uint64_t file_bytes) {
  if (file_bytes < file_bytes_) {
    forget();
  }
  file_bytes_ = file_bytes;
}

void PrefetchPlanner::observe(Range read, bool slow) {
  if (read.bytes == 0) {
    return;
  }
  const uint64_t used = take_used(read);
  weigh(read, used, slow);
  if (track_.advance(read)) {
    candidate_ = track_;  // the next stray read is a distance away from here
    patternless_ = 0;
    follow(read);
    return;
  }
  const bool repeated = candidate_.advance(read);
  if (!repeated) {
    candidate_.learn(read);
    if (++patternless_ >= kPatternlessReads) {
      forget();
      verdict_ = Verdict::random_access;
      return;
    }
  }
  if (trusted(candidate_, slow)) {
    const Track found = candidate_;
    forget();
    track_ = found;
    candidate_ = found;
    patternless_ = 0;
    cursor_ = read.end();
    record_ = read.offset;
    record_done_ = read.bytes;
  }
}

/// The track has moved on to `read`: the plan starts behind it.
void PrefetchPlanner::follow(Range read) {
  cursor_ = std::max(cursor_, read.end());
  if (track_.stride != 0) {
    const bool passed = track_.stride > 0 ? record_ <= read.offset : record_ >= read.offset;
    if (passed) {
      record_ = read.offset;
      record_done_ = read.bytes;
    }
  }
  drop_behind();
}

/// Lets the window grow while what was brought in is used, and notices when it is not needed.
void PrefetchPlanner::weigh(Range read, uint64_t used, bool slow) {
  if (used >= read.bytes / 2 && used > 0) {
    window_ = std::min(limits_.lookahead_bytes,
                       std::max({2 * window_, 2 * read.bytes, limits_.slice_bytes}));
  }
  unhelped_ = slow || used > 0 ? 0 : unhelped_ + 1;
  if (slow) {
    cached_bytes_ = 0;
  }
  if (unhelped_ >= kUnhelpedReads && flying_.empty()) {
    verdict_ = Verdict::no_gain;
  }
}

void PrefetchPlanner::completed(Range slice, Outcome outcome) {
  const auto planned = std::find_if(flying_.begin(), flying_.end(),
                                    [&](const Flight& flight) { return flight.range == slice; });
  const bool wanted = planned != flying_.end();
  const uint64_t read_bytes = wanted ? planned->read_bytes : 0;
  if (wanted) {
    flying_.erase(planned);
  }
  if (outcome == Outcome::cached) {
    cached_bytes_ += slice.bytes;
    cached_until_ = std::max(cached_until_, slice.end());
  } else {
    cached_bytes_ = 0;
  }
  if (cached_bytes_ >= kCachedBytes) {
    verdict_ = Verdict::no_gain;
  }
  if (!wanted) {
    return;  // forgotten meanwhile, and its budget with it
  }
  if (outcome == Outcome::fetched) {
    used_bytes_ += read_bytes;
  }
  if (outcome == Outcome::fetched && read_bytes < slice.bytes && ready_.size() < kMostReadyRanges) {
    add_ready(slice);
    drop_behind();
  } else {
    budget_.give_back(slice.bytes);
  }
}

void PrefetchPlanner::forget() {
  for (const Range& range : ready_) {
    budget_.give_back(range.bytes);
  }
  for (const Flight& flight : flying_) {
    budget_.give_back(flight.range.bytes);
  }
  ready_.clear();
  flying_.clear();
  track_ = {};
  candidate_ = {};
  window_ = 0;
  cached_until_ = 0;
}

void PrefetchPlanner::rearm() noexcept {
  verdict_ = Verdict::watching;
  patternless_ = 0;
  unhelped_ = 0;
  cached_bytes_ = 0;
}

// ---- The plan -----------------------------------------------------------------------------------

uint64_t PrefetchPlanner::window_bytes() const noexcept {
  const uint64_t chunk = track_.last.bytes;
  // The next chunk entirely; behind one that is larger than the look-ahead, as much again as use
  // has earned, so that a compute phase longer than the read is not wasted.
  return chunk > limits_.lookahead_bytes ? chunk + window_ : std::max(chunk, window_);
}

std::optional<Range> PrefetchPlanner::next() {
  if (!track_.alive || verdict_ != Verdict::watching) {
    return std::nullopt;
  }
  const std::optional<Range> slice = track_.stride == 0 ? next_sequential() : next_strided();
  if (!slice || !budget_.take(slice->bytes)) {
    return std::nullopt;
  }
  flying_.push_back({*slice, 0});
  if (track_.stride == 0) {
    cursor_ = slice->end();
  } else {
    if (record_done_ >= track_.last.bytes) {
      record_ = slice->offset;
      record_done_ = 0;
    }
    record_done_ += slice->bytes;
  }
  return slice;
}

std::optional<Range> PrefetchPlanner::next_sequential() const {
  const uint64_t begin = std::max(cursor_, track_.last.end());
  // What the kernel has brought in itself does not use up the window.
  const uint64_t reader = track_.last.end();
  const uint64_t from = std::clamp(cached_until_, reader, reader + kCachedBytes);
  const uint64_t end = std::min(file_bytes_, from + window_bytes());
  if (begin >= end) {
    return std::nullopt;
  }
  const uint64_t slice = limits_.slice_bytes;
  // A window that slides by small reads is topped up a whole slice at a time.
  if (end - begin < slice && end != file_bytes_ && begin != track_.last.end()) {
    return std::nullopt;
  }
  const uint64_t aligned_end = (begin / slice + 1) * slice;
  return Range{begin, std::min(aligned_end, end) - begin};
}

std::optional<Range> PrefetchPlanner::next_strided() const {
  const uint64_t bytes = track_.last.bytes;
  uint64_t begin = record_;
  uint64_t done = record_done_;
  if (done >= bytes) {
    const auto following = moved(record_, track_.stride, file_bytes_);
    if (!following) {
      return std::nullopt;
    }
    begin = *following;
    done = 0;
  }
  const int64_t distance = static_cast<int64_t>(begin - track_.last.offset);
  const auto ahead = static_cast<uint64_t>(distance / track_.stride);
  const uint64_t most = std::clamp<uint64_t>(window_ / bytes, 1, kMostRecordsAhead);
  if (ahead > most || begin + done >= file_bytes_) {
    return std::nullopt;
  }
  const uint64_t left = std::min(bytes - done, file_bytes_ - begin - done);
  return Range{begin + done, std::min(left, limits_.slice_bytes)};
}

bool PrefetchPlanner::comfortable() const noexcept {
  return track_.stride == 0 && cursor_ >= track_.last.end() + track_.last.bytes + window_ / 2;
}

// ---- What is ready ------------------------------------------------------------------------------

/// Removes `read` from what is ready; answers how much of it was, or was about to be.
uint64_t PrefetchPlanner::take_used(Range read) {
  uint64_t used = 0;
  std::vector<Range> rest;
  rest.reserve(ready_.size() + 1);
  for (const Range& range : ready_) {
    used += overlap(range, read);
    if (range.offset < std::min(range.end(), read.offset)) {
      rest.push_back({range.offset, std::min(range.end(), read.offset) - range.offset});
    }
    if (range.end() > std::max(range.offset, read.end())) {
      const uint64_t begin = std::max(range.offset, read.end());
      rest.push_back({begin, range.end() - begin});
    }
  }
  ready_.swap(rest);
  budget_.give_back(used);
  used_bytes_ += used;
  for (Flight& flight : flying_) {
    const uint64_t met = overlap(flight.range, read);
    flight.read_bytes = std::min(flight.range.bytes, flight.read_bytes + met);
    used += met;
  }
  return used;
}

/// What the reader has passed without reading it is not waited for.
void PrefetchPlanner::drop_behind() {
  const uint64_t begin = track_.last.offset;
  const uint64_t end = track_.last.end();
  const bool backwards = track_.stride < 0;
  std::erase_if(ready_, [&](const Range& range) {
    const bool behind = backwards ? range.offset >= end : range.end() <= begin;
    if (behind) {
      budget_.give_back(range.bytes);
    }
    return behind;
  });
}

void PrefetchPlanner::add_ready(Range slice) {
  const auto place =
      std::lower_bound(ready_.begin(), ready_.end(), slice,
                       [](const Range& a, const Range& b) { return a.offset < b.offset; });
  if (place != ready_.begin() && std::prev(place)->end() == slice.offset) {
    std::prev(place)->bytes += slice.bytes;
  } else {
    ready_.insert(place, slice);
  }
}

}  // namespace ioweave::calls
