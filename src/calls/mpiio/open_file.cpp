#include "calls/mpiio/open_file.hpp"

#include <algorithm>
#include <cerrno>
#include <new>

#include <fcntl.h>

#include "stream/plan/file_state.hpp"

namespace ioweave::calls {
namespace {

/// A sequence is foretold in so many bytes at least.
constexpr int64_t kLeastUnit = 1 << 20;
/// Gaps up to here do not interrupt a sequence.
constexpr int64_t kMostGap = 64 << 10;
constexpr int64_t kLeastReach = 2;
constexpr int64_t kMostReach = 256;
/// Ranges of one access; with more it is left alone.
constexpr size_t kMostRanges = 1024;
/// A read that is faster came from the page cache.
constexpr uint64_t kMostCachedNs = 50'000;
constexpr uint64_t kCachedBytesPerNs = 1;

}  // namespace

Descriptor open_known(const NamedFile& file) noexcept {
  // What has the name now may be one that waits for somebody who writes.
  Descriptor fd(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  stream::FileState state;
  if (!fd.is_open() || stream::find_state(fd.get(), state) != 0 || state.id != file.id ||
      ::fcntl(fd.get(), F_SETFL, O_RDONLY) != 0) {
    return Descriptor();
  }
  return fd;
}

OpenFile::OpenFile(NamedFile name, PlanKeeper& keeper, int64_t most_ahead, bool is_eager) noexcept
    : name_(std::move(name)), keeper_(keeper), most_ahead_(most_ahead), is_eager_(is_eager) {}

OpenFile::~OpenFile() {
  if (fd_.is_open()) {
    static_cast<void>(plan_->forget(fd_.get()));
    fd_ = Descriptor();
    keeper_.note_closed();
  }
}

/// Makes ready to read ahead of the file.
bool OpenFile::open_ahead() noexcept {
  plan_ = plan_ != nullptr ? plan_ : keeper_.open_plan();
  if (plan_ != nullptr && !fd_.is_open()) {
    fd_ = keeper_.open_file(name_);
  }
  return fd_.is_open();
}

void OpenFile::set_view(FileView view) noexcept {
  const std::lock_guard guard(lock_);
  drop_ahead();
  view_ = std::move(view);
}

/// Of a view with elements.
Access OpenFile::access_of(int64_t offset, uint64_t bytes) const noexcept {
  const auto element = static_cast<uint64_t>(view_.element_bytes());
  return {offset, static_cast<int64_t>((bytes + element - 1) / element)};
}

void OpenFile::forget() noexcept {
  const std::lock_guard guard(lock_);
  drop_ahead();
}

void OpenFile::drop_ahead() noexcept {
  if (ahead_ != Ahead::nothing) {
    static_cast<void>(plan_->drop_file(fd_.get()));
  }
  ahead_ = Ahead::nothing;
  pattern_.forget();
  was_slow_.store(false, std::memory_order_relaxed);
}

void OpenFile::note_time(uint64_t bytes, uint64_t passed_ns) noexcept {
  if (passed_ns > kMostCachedNs + bytes / kCachedBytesPerNs) {
    was_slow_.store(true, std::memory_order_relaxed);
  }
}

bool OpenFile::begin_read(int64_t offset, uint64_t bytes, bool waits) noexcept {
  Ranges awaited;
  stream::Plan* plan = nullptr;
  try {
    const std::lock_guard guard(lock_);
    if (view_.element_bytes() == 0) {
      return false;  // nothing is known of it
    }
    follow(access_of(offset, bytes), awaited);
    plan = plan_;
  } catch (const std::bad_alloc&) {
    return false;  // it is read without us
  }
  bool is_there = !awaited.empty();
  for (const FileRange& range : awaited) {
    const auto length = static_cast<uint64_t>(range.bytes);
    if (waits) {
      is_there = plan->await(fd_.get(), range.offset, length) && is_there;
    } else {
      plan->pass(fd_.get(), range.offset, length);
    }
  }
  return is_there;
}

/// Where an access lies; false if that is not to be known, or in too many pieces.
bool OpenFile::find_ranges(const Access& access, Ranges& ranges) {
  if (view_.find_ranges(access, kMostRanges, ranges)) {
    return true;
  }
  keeper_.leave_alone(view_.element_bytes() == 0 ? LeftAlone::view : LeftAlone::pieces);
  return false;
}

/// Notes an access. `awaited` gets what is to be awaited before it.
void OpenFile::follow(const Access& access, Ranges& awaited) {
  if (ahead_ == Ahead::nothing) {
    pattern_.note(access);
    if (pattern_.is_regular() && (is_eager_ || was_slow_.load(std::memory_order_relaxed))) {
      begin_ahead(access);
    }
    return;
  }
  Ranges ranges;
  if (!find_ranges(access, ranges)) {
    if (ahead_ != Ahead::planned) {
      drop_ahead();
    }
    return;
  }
  if (ahead_ == Ahead::planned) {
    awaited = std::move(ranges);
    return;
  }
  if (ahead_ == Ahead::sequence) {
    const int64_t begin = ranges.front().offset;
    if (ranges.size() == 1 && begin >= end_ && begin - end_ <= kMostGap) {
      follow_sequence(ranges.front(), awaited);
      return;
    }
    drop_ahead();
  } else if (ahead_ == Ahead::steps) {
    if (access == pattern_.next(1)) {
      pattern_.note(access);
      --planned_;
      awaited = ranges;
      lengthen_reach(access.count * view_.element_bytes());
      plan_steps();
      return;
    }
    drop_ahead();
  }
  pattern_.note(access);
}

void OpenFile::follow_sequence(const FileRange& range, Ranges& awaited) {
  end_ = range.offset + range.bytes;
  if (end_ <= awaited_end_) {
    return;
  }
  // As much as is foretold at a time, so that small reads have it behind them at once.
  const int64_t begin = std::max(awaited_end_, range.offset);
  awaited_end_ = std::max(end_, std::min(begin + unit_, planned_end_));
  awaited.push_back({begin, awaited_end_ - begin});
  planned_end_ = std::max(planned_end_, awaited_end_);
  lengthen_reach(unit_);
  plan_sequence();
}

void OpenFile::begin_ahead(const Access& access) {
  Ranges now;
  Ranges next;
  const Access following = pattern_.next(1);
  if (following.offset < 0 || !open_ahead() || !find_ranges(access, now) ||
      !find_ranges(following, next)) {
    pattern_.forget();  // to be tried again after some more accesses
    return;
  }
  reach_ = kLeastReach;
  planned_ = 0;
  const FileRange range = now.front();
  const int64_t gap =
      now.size() == 1 && next.size() == 1 ? next.front().offset - (range.offset + range.bytes) : -1;
  if (gap < 0 || gap > kMostGap) {
    ahead_ = Ahead::steps;
    lengthen_reach(access.count * view_.element_bytes());
    plan_steps();
    return;
  }
  ahead_ = Ahead::sequence;
  unit_ = std::max(range.bytes + gap, kLeastUnit);
  end_ = awaited_end_ = planned_end_ = range.offset + range.bytes;
  lengthen_reach(unit_);
  plan_sequence();
}

/// What is foretold grows while it comes true.
void OpenFile::lengthen_reach(int64_t bytes) noexcept {
  const int64_t most = most_ahead_ / std::max<int64_t>(bytes, 1);
  reach_ = std::clamp<int64_t>(2 * reach_, 1, std::clamp<int64_t>(most, 1, kMostReach));
}

void OpenFile::plan_sequence() {
  while (planned_end_ - awaited_end_ < reach_ * unit_ && is_inside(planned_end_)) {
    const int64_t bytes = std::min(unit_, bytes_ - planned_end_);
    if (!add({{planned_end_, bytes}})) {
      return;
    }
    planned_end_ += bytes;
  }
}

void OpenFile::plan_steps() {
  planned_ = std::max<int64_t>(planned_, 0);
  while (planned_ < reach_) {
    const Access next = pattern_.next(planned_ + 1);
    Ranges ranges;
    if (next.offset < 0 || !find_ranges(next, ranges) || !is_inside(ranges.front().offset) ||
        !add(ranges)) {
      return;
    }
    ++planned_;
  }
}

std::optional<FileRange> OpenFile::find_written(int64_t offset, uint64_t bytes) noexcept {
  try {
    const std::lock_guard guard(lock_);
    const auto element = static_cast<uint64_t>(view_.element_bytes());
    if (element == 0 || bytes % element != 0) {
      return std::nullopt;
    }
    return view_.find_solid_range(access_of(offset, bytes));
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

int OpenFile::add_planned(int64_t offset, uint64_t bytes) noexcept {
  try {
    const std::lock_guard guard(lock_);
    Ranges ranges;
    if (view_.element_bytes() == 0 || bytes == 0 || offset < 0) {
      return -EINVAL;
    }
    if (!find_ranges(access_of(offset, bytes), ranges)) {
      return -E2BIG;
    }
    if (!open_ahead()) {
      return -ENOTSUP;
    }
    if (ahead_ != Ahead::planned) {
      drop_ahead();
      ahead_ = Ahead::planned;
    }
    return add(ranges) ? 0 : -ENOBUFS;
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
}

/// Whether the file has a byte there.
bool OpenFile::is_inside(int64_t offset) noexcept {
  if (offset >= 0 && offset >= bytes_) {
    stream::FileState state;
    bytes_ = stream::find_state(fd_.get(), state) == 0 ? state.stamp.bytes : 0;
  }
  return offset >= 0 && offset < bytes_;
}

/// Adds them to the plan; false if there is no place for one.
bool OpenFile::add(const Ranges& ranges) noexcept {
  for (const FileRange& range : ranges) {
    try {
      if (range.offset < 0 || range.bytes <= 0 ||
          plan_->add_strided(fd_.get(), range.offset, static_cast<uint64_t>(range.bytes), 0, 1) !=
              0) {
        return false;
      }
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  return true;
}

}  // namespace ioweave::calls
