#include "stream/watch/replay/plan_follower.hpp"

#include <algorithm>
#include <bit>

namespace ioweave::stream {
namespace {

constexpr unsigned kMostOfChain = 8;  // reads of one offset that are looked at
constexpr unsigned kCachedRow = 64;   // answers that bring a rest
constexpr unsigned kFarRow = 3;       // reads that agree on a place far ahead
constexpr uint64_t kFarReads = 8;     // each within so many reads of the one before
constexpr uint64_t kLeastRest = 128;  // reads of the plan
constexpr uint64_t kMostRest = 1024;

}  // namespace

// ---- The window ---------------------------------------------------------------------------------

void PlanFollower::extend_window() {
  if (slots_.empty()) slots_.resize(std::min(plan_->count(), kMostWindow));
  const uint64_t wanted = std::min(plan_->count(), front_ + kNear + kFar);
  while (end_ < wanted) {
    if (end_ - begin_ == slots_.size()) expire(begin_++);
    admit(end_++);
  }
}

void PlanFollower::admit(uint64_t number) {
  Slot& added = slot(number);
  // Handed out before the window was there, or not yet.
  added = {plan_->at(number).offset, kNone, false, number < next_};
  Chain& chain = chains_[added.offset];
  if (chain.last == kNone) {
    chain.first = number;
  } else {
    slot(chain.last).later = number;
  }
  chain.last = number;
}

void PlanFollower::expire(uint64_t number) {
  if (!slot(number).is_found) take_from_chain(number);
}

/// Removes a read from the chain of its offset.
void PlanFollower::take_from_chain(uint64_t number) {
  const auto chain = chains_.find(slot(number).offset);
  uint64_t before = kNone;
  for (uint64_t at = chain->second.first; at != number; at = slot(at).later) before = at;
  const uint64_t later = slot(number).later;
  (before == kNone ? chain->second.first : slot(before).later) = later;
  if (later == kNone) chain->second.last = before;
  if (chain->second.first == kNone) chains_.erase(chain);
}

/// Returns a read of this offset that was not found yet: the first one near the front or a little
/// ahead of it; where there is none, the last one before it; else the first one far ahead.
uint64_t PlanFollower::find(uint64_t offset) {
  const auto chain = chains_.find(offset);
  if (chain == chains_.end()) return kNone;
  uint64_t found = kNone;
  unsigned looks = 0;
  for (uint64_t at = chain->second.first; at != kNone && looks < kMostOfChain; ++looks) {
    const bool is_far = at >= front_ + kNear;
    if (!is_far || found == kNone) found = at;
    if (at >= front_) break;
    at = slot(at).later;
  }
  return found;
}

// ---- Where the program is -----------------------------------------------------------------------

bool PlanFollower::observe(FileRange read) {
  extend_window();
  const uint64_t number = find(read.offset);
  // A read of another size than the recorded one, or the rest of a read that was cut short.
  const bool is_part = read.offset >= last_.offset && read.end() <= last_.end();
  bool is_named = false;
  if (number != kNone && number < front_ + kNear) {
    is_named = take_found(number, read);
  } else if (number != kNone) {
    is_named = take_far(number, read);
  } else if (is_part) {
    is_named = true;
    ++named_reads_;
    named_bytes_ += read.bytes;
  }
  judge(is_named);
  return is_named;
}

bool PlanFollower::take_found(uint64_t number, FileRange read) {
  Slot& found = slot(number);
  take_from_chain(number);
  found.is_found = true;
  last_ = plan_->at(number);
  if (found.is_asked) found_asked_bytes_ += last_.bytes;
  front_ = std::max(front_, number + 1);
  ++named_reads_;
  named_bytes_ += read.bytes;
  return true;
}

/// Notes a read that the plan names far ahead. The third one of nearby reads moves the front there.
bool PlanFollower::take_far(uint64_t number, FileRange read) {
  const uint64_t way = std::max(number, far_) - std::min(number, far_);
  const bool agrees = far_row_ > 0 && way <= kNear && reads_ - far_reads_ <= kFarReads;
  far_row_ = agrees ? far_row_ + 1 : 1;
  far_ = number;
  far_reads_ = reads_;
  if (far_row_ < kFarRow) return false;
  far_row_ = 0;
  // What was passed by is not asked for any more.
  next_ = std::max(next_, number + 1);
  return take_found(number, read);
}

void PlanFollower::judge(bool is_named) noexcept {
  ++reads_;
  history_ = history_ << 1 | (is_named ? 1 : 0);
  const uint64_t judged = std::min<uint64_t>(reads_, 64);
  const auto named = static_cast<uint64_t>(std::popcount(history_));
  if (judged >= kLeastJudged && named * 4 < judged && front_ < plan_->count()) {
    has_given_up_ = true;
  }
}

// ---- What to ask for ----------------------------------------------------------------------------

uint64_t PlanFollower::most_ahead() const noexcept {
  return std::min(kMostAhead, kFirstAhead + 2 * named_reads_);
}

/// Returns true if this read is near enough to be asked for now.
bool PlanFollower::may_ask(uint64_t number) const noexcept {
  if (number >= plan_->count() || number >= front_ + most_ahead()) return false;
  const uint64_t ahead =
      plan_->bytes_before(number) - plan_->bytes_before(std::min(front_, number));
  return ahead == 0 || ahead + plan_->at(number).bytes <= lookahead_bytes_;
}

/// Passes over reads that the program has made already, and over those behind the file's end.
void PlanFollower::skip_found() {
  const uint64_t last = std::min(plan_->count(), front_ + most_ahead());
  while (next_ < last) {
    const bool is_found = next_ >= begin_ && next_ < end_ && slot(next_).is_found;
    if (!is_found && plan_->at(next_).offset < file_bytes_) break;
    ++next_;
  }
}

bool PlanFollower::has_next() {
  if (has_given_up_) return false;
  skip_found();
  return may_ask(next_);
}

void PlanFollower::mark_asked(uint64_t number) {
  if (number >= begin_ && number < end_) slot(number).is_asked = true;
}

std::optional<FileRange> PlanFollower::next(uint64_t most_bytes) {
  if (!has_next()) return std::nullopt;
  FileRange range = plan_->at(next_);
  mark_asked(next_++);
  while (may_ask(next_)) {
    const FileRange follows = plan_->at(next_);
    if (follows.offset != range.end() || range.bytes + follows.bytes > most_bytes) break;
    range.bytes += follows.bytes;
    mark_asked(next_++);
  }
  range.bytes = std::min(range.bytes, file_bytes_ - range.offset);
  return range;
}

void PlanFollower::answered(FileRange range, bool cached) noexcept {
  if (!cached) {
    asked_bytes_ += range.bytes;
    cached_row_ = 0;
    rest_ = 0;
    return;
  }
  cached_bytes_ += range.bytes;
  if (++cached_row_ < kCachedRow) return;
  cached_row_ = 0;
  rest_ = std::min(std::max(2 * rest_, kLeastRest), kMostRest);
  next_ = std::min(next_ + rest_, plan_->count());
}

uint64_t PlanFollower::used_bytes() const noexcept {
  const uint64_t all = asked_bytes_ + cached_bytes_;
  if (all == 0) return 0;
  const double part = static_cast<double>(asked_bytes_) / static_cast<double>(all);
  const auto used = static_cast<uint64_t>(static_cast<double>(found_asked_bytes_) * part);
  return std::min(asked_bytes_, used);
}

}  // namespace ioweave::stream
