#include "stream/watch/read_follower.hpp"

#include <algorithm>

namespace ioweave::stream {
namespace {

constexpr uint64_t kLeastRead = 128 << 10;  // before anything is asked for
constexpr uint64_t kLeastUnitBytes = 8u << 20;
// Nobody sees how much such a reader takes before it computes. Its pace is that of some bursts.
constexpr uint64_t kHiddenUnitBytes = 64u << 20;
constexpr uint64_t kAheadOfRead = 3;   // times what was read
constexpr uint64_t kLeastWindows = 2;  // ahead
constexpr uint64_t kRampWindows = 2;   // read, and the kernel's own window has its size
constexpr uint64_t kLeastAheadBytes = 8u << 20;
constexpr uint64_t kCachedToRest = 8;  // ranges in a row
constexpr uint64_t kFirstRestBytes = 64u << 20;
constexpr uint64_t kMostRestBytes = 1u << 30;
constexpr uint64_t kMostRecordsAhead = 64;
constexpr uint64_t kLeastLookNs = 300'000;
constexpr double kLooksAhead = 8;  // in which what is ahead is read
constexpr double kFastDecay = 1.05;
constexpr uint64_t kMostLookNs = 5'000'000;
constexpr uint64_t kMeasuringLookNs = 1'000'000;
constexpr uint64_t kDoubtLookNs = 500'000;    // many looks tell what time its device has
constexpr uint64_t kRestLookNs = 40'000'000;  // while nothing is asked for
constexpr uint64_t kMostIdleLookNs = 100'000'000;
constexpr uint64_t kStillNs = 100'000'000;
// Of a reader that help hides, how far it goes on is not seen.
constexpr uint64_t kHiddenNs = 64'000'000;        // what is ahead of it should last so long
constexpr uint64_t kHiddenReadBytes = 16u << 20;  // it may have read by itself since it was seen
constexpr uint64_t kAheadOfHiddenRead = 2;        // times what it has read
constexpr uint64_t kMostHiddenRead = 256u << 20;  // before it gets help again
constexpr uint64_t kIdleShare = 8;                // of the time since it last moved
constexpr uint64_t kKernelWindows = 4;            // beyond these only others bring something in
constexpr uint64_t kReadsToTell = 8;              // that there is no order

uint64_t distance(uint64_t a, uint64_t b) noexcept {
  return a > b ? a - b : b - a;
}

uint64_t magnitude(int64_t value) noexcept {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

/// Returns true if a reader at `from` reaches `to` by whole strides.
bool is_on_way(uint64_t from, uint64_t to, int64_t stride) noexcept {
  return (to == from || (to < from) == (stride < 0)) && distance(from, to) % magnitude(stride) == 0;
}

}  // namespace

ReadFollower::ReadFollower(const FollowLimits& limits) noexcept : limits_(limits) {
  limits_.window_bytes = std::max<uint64_t>(limits_.window_bytes, 4096);
}

void ReadFollower::begin_again(const Sighting& seen) noexcept {
  total_read_ = seen.read_bytes;
  total_calls_ = seen.read_calls;
  offset_ = seen.offset;
  stride_ = seen.stride;
  record_bytes_ = seen.record_bytes;
  moved_ns_ = seen.now_ns;
  read_bytes_ = 0;
  frontier_ = 0;
  next_record_ = seen.offset;
  records_ahead_ = 0;
  pace_ns_ = 0;
  fast_pace_ns_ = 1e9;
  enough_until_ = 0;
  cached_row_ = 0;
  rest_bytes_ = 0;
  rest_until_ = 0;
  if (is_hidden_) needed_bytes_ = 0;
  trial_.interrupt();
}

/// Where a hidden reader breaks off before it has come to the end of what was asked for, it may do
/// so time and again: it must first get farther than that.
void ReadFollower::note_break() noexcept {
  if (!is_hidden_ || frontier_ <= offset_ || frontier_ >= file_bytes_) return;
  least_hidden_read_ = std::clamp(2 * read_bytes_, kLeastHiddenRead, kMostHiddenRead);
}

void ReadFollower::observe(const Sighting& seen) noexcept {
  file_bytes_ = seen.file_bytes;
  is_hidden_ = seen.is_hidden_by_help;
  const uint64_t read = seen.read_bytes - std::min(seen.read_bytes, total_read_);
  const uint64_t calls = seen.read_calls - std::min(seen.read_calls, total_calls_);
  const bool is_first = !seen_;
  if (is_first) {
    // A reader that is here having begun at 0 has been sequential all the way.
    seen_ = true;
    begin_again(seen);
    if (seen.stride != 0 || seen.offset == 0 || read < seen.offset) return;
    offset_ = 0;
  }
  const uint64_t way = seen.offset - std::min(seen.offset, offset_);
  // It moved further than it read, so it leaves holes.
  const bool goes_on = seen.stride != 0
                           ? seen.stride == stride_ && is_on_way(offset_, seen.offset, stride_)
                           : stride_ == 0 && seen.offset >= offset_ && read >= way - way / 8;
  if (!goes_on || seen.was_elsewhere) {
    note_no_order(read, calls);
    note_break();
    begin_again(seen);
    return;
  }
  record_bytes_ = seen.record_bytes;
  // Bytes read while the position stood still may be of this file: they count with its next move.
  if (seen.offset == offset_) return;
  total_read_ = seen.read_bytes;
  total_calls_ = seen.read_calls;
  largest_read_ =
      std::max(largest_read_, std::min(read / std::max<uint64_t>(calls, 1), file_bytes_));
  // What was ahead of this reader should have lasted for some looks.
  const bool has_passed_all =
      offset_ < frontier_ && seen.offset + kLeastWindows * limits_.window_bytes >= frontier_;
  if (is_hidden_ && has_passed_all && seen.now_ns - moved_ns_ < kHiddenNs) look_farther();
  const uint64_t moved = stride_ != 0 ? std::max<uint64_t>(read, 1) : way;
  if (stride_ != 0) {
    const uint64_t passed = distance(seen.offset, offset_) / magnitude(stride_);
    records_ahead_ -= std::min(records_ahead_, passed);
  }
  read_bytes_ += moved;
  way_bytes_ += moved;
  if (!is_first) {
    const double pace = static_cast<double>(seen.now_ns - moved_ns_) / static_cast<double>(moved);
    pace_ns_ = pace_ns_ == 0 ? pace : pace_ns_ + (pace - pace_ns_) / 4;
    fast_pace_ns_ = std::min(pace_ns_, std::min(pace, fast_pace_ns_ * kFastDecay));
  }
  offset_ = seen.offset;
  moved_ns_ = seen.now_ns;
  if (reads_what_is_cached()) return;
  const uint64_t left = stride_ < 0 ? offset_ : file_bytes_ - std::min(file_bytes_, offset_);
  const uint64_t ramp = kRampWindows * limits_.window_bytes;
  const uint64_t least_unit = is_hidden_ ? kHiddenUnitBytes : kLeastUnitBytes;
  trial_.advance({moved, outstanding_bytes(), left,
                  std::max({largest_read_, 2 * limits_.window_bytes, least_unit}), least_unit, ramp,
                  limits_.lookahead_bytes, seen.now_ns, stride_ != 0});
}

// ---- What to ask for ----------------------------------------------------------------------------

uint64_t ReadFollower::most_ahead_bytes() const noexcept {
  return std::max(limits_.lookahead_bytes, largest_read_ + limits_.window_bytes);
}

uint64_t ReadFollower::ahead_bytes() const noexcept {
  const uint64_t least = std::max({kLeastWindows * limits_.window_bytes,
                                   largest_read_ + limits_.window_bytes, kLeastAheadBytes});
  const uint64_t most = most_ahead_bytes();
  const uint64_t wanted = stride_ != 0 ? most : std::max(least, needed_bytes_);
  const uint64_t times = is_hidden_ ? kAheadOfHiddenRead : kAheadOfRead;
  return std::min({most, wanted, std::max(limits_.window_bytes, times * read_bytes_)});
}

std::optional<uint64_t> ReadFollower::end_of_read() const noexcept {
  const uint64_t end = offset_ + largest_read_;
  if (stride_ != 0 || end >= std::min(frontier_, file_bytes_)) return std::nullopt;
  return end;
}

std::optional<uint64_t> ReadFollower::end_of_read_alone() const noexcept {
  const uint64_t end = offset_ + largest_read_;
  if (!trial_.wants_looks() || stride_ != 0 || end >= file_bytes_) return std::nullopt;
  return end;
}

void ReadFollower::note_wait() noexcept {
  // What was asked for since the last time must first have had its effect.
  if (offset_ + largest_read_ < enough_until_) return;
  enough_until_ = frontier_;
  look_farther();
}

void ReadFollower::look_farther() noexcept {
  needed_bytes_ = std::min(most_ahead_bytes(), 2 * ahead_bytes());
}

std::optional<FileRange> ReadFollower::next() noexcept {
  if (!trial_.helps_now() || reads_what_is_cached()) return std::nullopt;
  return stride_ != 0 ? next_record() : next_window();
}

std::optional<FileRange> ReadFollower::next_window() noexcept {
  const uint64_t window = limits_.window_bytes;
  const uint64_t least_read = is_hidden_ ? least_hidden_read_ : kLeastRead;
  if (read_bytes_ < std::max(least_read, window / 8)) return std::nullopt;
  const uint64_t own = (offset_ / window + 1) * window;  // the kernel is in this window itself
  frontier_ = std::max(frontier_, own);
  // Cached ranges have cost nothing, so they are passed over at once until there are enough to
  // rest.
  const uint64_t until = std::min(file_bytes_, own + ahead_bytes() + cached_row_ * window);
  if (frontier_ >= until) return std::nullopt;
  const FileRange range{frontier_, std::min(window - frontier_ % window, file_bytes_ - frontier_)};
  frontier_ = range.end();
  return range;
}

std::optional<FileRange> ReadFollower::next_record() noexcept {
  const uint64_t most = std::clamp<uint64_t>(ahead_bytes() / record_bytes_, 1, kMostRecordsAhead);
  if (records_ahead_ == 0) next_record_ = offset_;
  if (records_ahead_ >= most) return std::nullopt;
  const uint64_t following = next_record_ + static_cast<uint64_t>(stride_);
  const bool is_round = (following < next_record_) != (stride_ < 0);  // past the end of numbers
  if (is_round || following >= file_bytes_) return std::nullopt;
  next_record_ = following;
  ++records_ahead_;
  return FileRange{next_record_, std::min(record_bytes_, file_bytes_ - next_record_)};
}

void ReadFollower::answered(FileRange range, bool cached) noexcept {
  was_cached_ = was_cached_ || cached;
  if (!cached) {
    if (asked_bytes_ == 0) since_bytes_ = way_bytes_;
    asked_bytes_ += range.bytes;
    cached_row_ = 0;
    rest_bytes_ = 0;
    return;
  }
  // A read that is under way brings in by itself what it covers: that is not found there.
  const uint64_t read_by_itself = is_hidden_ ? kHiddenReadBytes : largest_read_;
  if (stride_ == 0 && range.offset < offset_ + read_by_itself) return;
  if (++cached_row_ < kCachedToRest) return;
  cached_row_ = 0;
  rest_bytes_ = std::clamp(2 * rest_bytes_, kFirstRestBytes, kMostRestBytes);
  rest_until_ = read_bytes_ + rest_bytes_;
  trial_.interrupt();  // cached bytes do not show what help is worth
}

// ---- What came of it ----------------------------------------------------------------------------

void ReadFollower::note_no_order(uint64_t bytes, uint64_t reads) noexcept {
  way_bytes_ += bytes;
  unordered_bytes_ += bytes;
  unordered_reads_ += reads;
}

std::optional<FileRange> ReadFollower::ahead_of_kernel() const noexcept {
  if (knows_ahead_ || stride_ != 0 || trial_.why() != stats::ReadHelp::hardly_waits) {
    return std::nullopt;
  }
  const FileRange range{offset_ + largest_read_ + kKernelWindows * limits_.window_bytes,
                        limits_.window_bytes};
  return range.end() <= file_bytes_ ? std::optional(range) : std::nullopt;
}

stats::ReadHelp ReadFollower::why() const noexcept {
  using stats::ReadHelp;
  const ReadHelp of_trial = trial_.why();
  if (reads_what_is_cached()) return ReadHelp::cached;
  if (of_trial == ReadHelp::hardly_waits && is_ahead_cached_) return ReadHelp::cached;
  if (of_trial == ReadHelp::helped && asked_bytes_ == 0) {
    return was_cached_ ? ReadHelp::cached : ReadHelp::too_short;
  }
  const bool is_in_no_order = unordered_reads_ >= kReadsToTell && unordered_bytes_ > way_bytes_ / 2;
  return of_trial == ReadHelp::too_short && is_in_no_order ? ReadHelp::no_order : of_trial;
}

stats::ReadHelpReport ReadFollower::help() const noexcept {
  return {why(), way_bytes_, since_bytes_, trial_.paces()};
}

uint64_t ReadFollower::outstanding_bytes() const noexcept {
  if (stride_ != 0) return records_ahead_ * record_bytes_;
  const uint64_t until = std::min(frontier_, file_bytes_);
  return until > offset_ ? until - offset_ : 0;
}

bool ReadFollower::wants_more() const noexcept {
  if (reads_what_is_cached()) return false;
  return trial_.is_measuring() || (trial_.helps_now() && (stride_ != 0 || frontier_ < file_bytes_));
}

bool ReadFollower::explains(uint64_t offset) const noexcept {
  if (stride_ == 0) return false;
  const uint64_t way = magnitude(stride_);
  const uint64_t rest = distance(offset, offset_) % way;
  return (offset >= offset_ || rest == 0 ? rest : way - rest) <= record_bytes_;
}

uint64_t ReadFollower::read_offset() const noexcept {
  return stride_ != 0 || offset_ == 0 ? offset_ : offset_ - 1;
}

uint64_t ReadFollower::used_bytes(uint64_t now_ns) const noexcept {
  const double unseen_ns = static_cast<double>(now_ns - std::min(now_ns, moved_ns_));
  // Help hides whether this reader goes on. Nothing is seen behind help up to the end of the file.
  const bool may_have_left = is_hidden_ && frontier_ < file_bytes_;
  const double passed = pace_ns_ > 0 && !may_have_left ? std::min(unseen_ns / pace_ns_, 1e18) : 0;
  const uint64_t ahead = outstanding_bytes();
  const uint64_t unread = ahead - std::min(ahead, static_cast<uint64_t>(passed));
  return asked_bytes_ - std::min(asked_bytes_, unread);
}

bool ReadFollower::stands_still(uint64_t now_ns) const noexcept {
  return now_ns - std::min(now_ns, moved_ns_) > kStillNs;
}

bool ReadFollower::reads_what_is_cached() const noexcept {
  return read_bytes_ < rest_until_;
}

uint64_t ReadFollower::look_again_ns(uint64_t now_ns) const noexcept {
  // A pace that is not known yet may have any value.
  const double known_pace_ns = pace_ns_ > 0 ? fast_pace_ns_ : 0;
  const double part_ns = static_cast<double>(outstanding_bytes()) / kLooksAhead * known_pace_ns;
  const uint64_t idle_ns = now_ns - std::min(now_ns, moved_ns_);
  if (reads_what_is_cached() || trial_.is_resting()) {
    const uint64_t left = rest_until_ - std::min(rest_until_, read_bytes_);
    const double half_ns = std::min(static_cast<double>(left) / 2 * known_pace_ns, 1e18);
    const uint64_t wanted = std::max(idle_ns / kIdleShare, static_cast<uint64_t>(half_ns));
    return std::clamp(wanted, kRestLookNs, kMostIdleLookNs);
  }
  const uint64_t most = trial_.is_in_doubt()    ? kDoubtLookNs
                        : trial_.is_measuring() ? kMeasuringLookNs
                                                : kMostLookNs;
  const uint64_t wanted = part_ns >= static_cast<double>(most)
                              ? most
                              : std::max(kLeastLookNs, static_cast<uint64_t>(part_ns));
  return std::max(wanted, std::min(idle_ns / kIdleShare, kMostIdleLookNs));
}

}  // namespace ioweave::stream
