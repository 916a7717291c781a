// The program's own reads and writes of files with a plan.

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <span>
#include <utility>

#include "base/clock.hpp"
#include "stream/plan/aftermath.hpp"
#include "stream/plan/plan.hpp"
#include "stream/write/transfer_flags.hpp"

namespace ioweave::stream {
namespace {

/// A read of an advised entry that takes longer was not in the page cache yet.
constexpr uint64_t kMostCachedNs = 100'000;

}  // namespace

// ---- Transfers of the caller's own

/// A transfer on the flow of the program's own, for which the caller waits. It is made in pieces,
/// some at a time: beside others a program gets of a device what it asks for, and one read at a
/// time is little.
class Plan::OwnTransfer final : public service::Wait {
 public:
  OwnTransfer(service::Service& service, const iow_request& whole, uint64_t piece_bytes) noexcept
      : service_(service),
        whole_(whole),
        piece_bytes_(std::min<uint64_t>(piece_bytes, std::max<uint64_t>(whole.bytes, 1))),
        count_((std::max<uint64_t>(whole.bytes, 1) + piece_bytes_ - 1) / piece_bytes_),
        first_bad_(count_) {}

  bool begin() noexcept override {
    const uint64_t at_once = std::min<uint64_t>(count_, pieces_.size());
    next_ = at_once;
    under_way_ = at_once + 1;  // this call, too
    for (uint64_t i = 0; i < at_once; ++i) {
      pieces_[i].of = this;
      static_cast<void>(run(pieces_[i], i));
    }
    const std::lock_guard guard(lock_);
    return --under_way_ == 0;
  }
  bool withdraw() noexcept override { return false; }

  /// Bytes from the first one on, or the error if there are none.
  [[nodiscard]] int64_t result() const noexcept {
    if (first_bad_ == count_) {
      return static_cast<int64_t>(whole_.bytes);
    }
    const int64_t sum =
        static_cast<int64_t>(first_bad_ * piece_bytes_) + std::max<int64_t>(bad_result_, 0);
    return sum != 0 ? sum : bad_result_;
  }

 private:
  struct Piece {
    OwnTransfer* of = nullptr;
    uint64_t number = 0;
    iow_request request{};
  };
  /// What follows the end of a piece.
  enum class Next : uint8_t { piece, nothing, end };

  /// Submits this piece. One that cannot be submitted ends at once, and others in its stead.
  Next run(Piece& piece, uint64_t number) noexcept {
    Next next = Next::piece;
    while (next == Next::piece) {
      piece.number = number;
      piece.request = whole_;
      const uint64_t begin = number * piece_bytes_;
      piece.request.buffer = static_cast<std::byte*>(whole_.buffer) + begin;
      piece.request.bytes = std::min(piece_bytes_, whole_.bytes - begin);
      piece.request.offset = whole_.offset + static_cast<int64_t>(begin);
      piece.request.user = &piece;
      piece.request.callback = [](iow_request*, void* user) {
        Piece& ended = *static_cast<Piece*>(user);
        ended.of->go_on(ended);
      };
      iow_request* const one = &piece.request;
      const int taken = service_.submit({&one, 1});
      if (taken == 1) {
        return Next::nothing;
      }
      piece.request.result = taken < 0 ? taken : -EIO;
      next = note_end(piece, number);
    }
    return next;
  }

  /// A piece has ended. Whoever ends the last one is the last to touch this.
  void go_on(Piece& piece) noexcept {
    uint64_t number = 0;
    Next next = note_end(piece, number);
    if (next == Next::piece) {
      next = run(piece, number);
    }
    if (next == Next::end) {
      end();
    }
  }

  Next note_end(const Piece& piece, uint64_t& number) noexcept {
    const std::lock_guard guard(lock_);
    const int64_t result = piece.request.result;
    if (result != static_cast<int64_t>(piece.request.bytes) && piece.number < first_bad_) {
      first_bad_ = piece.number;
      bad_result_ = result;
    }
    if (next_ < first_bad_) {
      number = next_++;
      return Next::piece;
    }
    return --under_way_ == 0 ? Next::end : Next::nothing;
  }

  service::Service& service_;
  const iow_request whole_;
  const uint64_t piece_bytes_;
  const uint64_t count_;
  std::mutex lock_;  ///< of the next four
  uint64_t next_ = 0;
  uint64_t under_way_ = 0;
  uint64_t first_bad_;  ///< the first piece that did not move all of its bytes, and its result
  int64_t bad_result_ = 0;
  std::array<Piece, 16> pieces_;
};

int64_t Plan::move_own(engine::Op op, int fd, std::byte* buffer, uint64_t bytes, int64_t offset,
                       uint8_t flags) noexcept {
  service::Call call;
  call.op = op;
  call.fd = fd;
  call.buffer = buffer;
  call.bytes = bytes;
  call.offset = offset;
  if (offset < 0) {
    return service_.transfer(call);  // which refuses it
  }
  const bool is_divided = op == engine::Op::read && bytes > options_.slice_bytes &&
                          bytes <= INT64_MAX - static_cast<uint64_t>(offset) &&
                          options_.schedule != IOW_PLAN_NORMAL;
  if ((own_flow_ == 0 && !is_divided) || is_inherited()) {
    return service_.transfer(call);
  }
  iow_request request = service::request_for(call);
  request.flow = own_flow_;
  request.flags |= flags;
  OwnTransfer transfer(service_, request, is_divided ? options_.slice_bytes : bytes);
  static_cast<void>(service_.wait_for(transfer, -1));
  const int64_t done = transfer.result();
  if (!is_divided || done == static_cast<int64_t>(bytes)) {
    return done;
  }
  // Where a piece was short or failed, one read decides what there is.
  const int64_t before = std::max<int64_t>(done, 0);
  call.buffer = buffer + before;
  call.bytes = bytes - static_cast<uint64_t>(before);
  call.offset = offset + before;
  const int64_t rest = service_.transfer(call);
  return rest > 0 || before == 0 ? before + rest : before;
}

// ---- Reads

/// False if a plan has nothing to do with this read, or it fails at once.
bool Plan::find_reading(int fd, std::byte* to, uint64_t bytes, int64_t offset,
                        Reading& reading) const noexcept {
  FileState state;
  if (is_inherited() || options_.schedule == IOW_PLAN_NORMAL || offset < 0 || bytes == 0 ||
      bytes > INT64_MAX - static_cast<uint64_t>(offset) || find_state(fd, state) != 0) {
    return false;
  }
  reading = {fd, to, static_cast<uint64_t>(offset), bytes, state.id, state.stamp};
  return true;
}

int64_t Plan::read(int fd, void* buffer, uint64_t bytes, int64_t offset) noexcept {
  auto* const to = static_cast<std::byte*>(buffer);
  Reading reading{};
  if (!find_reading(fd, to, bytes, offset, reading)) {
    return move_own(engine::Op::read, fd, to, bytes, offset);
  }
  unroll();
  uint64_t done = 0;
  int64_t error = 0;
  bool is_over = false;
  bool is_whole = true;  // one read of the caller's own
  ReadCounts counts;
  while (done < bytes && !is_over) {
    Parts parts;
    {
      Aftermath after;
      {
        const std::lock_guard guard(lock_);
        find_parts(reading, done, parts, counts, after);
      }
      finish(after);
    }
    const int64_t got = fill(reading, parts, counts);
    end_parts(parts);
    is_whole = is_whole && parts.bytes == bytes && parts.count == 1 && !parts.part[0].slice;
    error = got < 0 ? got : 0;
    done += got < 0 ? 0 : static_cast<uint64_t>(got);
    is_over = got < 0 || static_cast<uint64_t>(got) < parts.bytes;
  }
  if (done < bytes && !is_whole && is_direct(fd)) {
    // A part need not be aligned as O_DIRECT demands it of a read: the whole of it is asked for.
    const int64_t got = read_own(reading, 0, bytes, counts);
    counts.is_late = true;
    counts.hit_bytes = 0;
    error = std::min<int64_t>(got, 0);
    done = static_cast<uint64_t>(std::max<int64_t>(got, 0));
  }
  count_read(done, counts);
  drive();
  return done == 0 ? error : static_cast<int64_t>(done);
}

void Plan::count_read(uint64_t done, const ReadCounts& counts) noexcept {
  const std::lock_guard guard(lock_);
  ++reads_;
  if (counts.is_planned) {
    most_strays_ = std::max(most_strays_, strays_);
    strays_ = 0;
    was_followed_ = true;
  } else if (done != 0) {
    ++strays_;
    has_strayed_ = has_strayed_ || was_followed_;  // what comes before the plan does not count
  }
  stats_.reads += done != 0 ? 1 : 0;
  stats_.unplanned_reads += done != 0 && !counts.is_planned ? 1 : 0;
  stats_.late_reads += done != 0 && counts.is_late ? 1 : 0;
  stats_.hit_reads += done != 0 && counts.hit_bytes == done && !counts.is_late ? 1 : 0;
  stats_.hit_bytes += counts.hit_bytes;
  stats_.own_bytes += counts.own_bytes;
  stats_.wait_ns += counts.wait_ns;
  stats_.read_ns += counts.read_ns;
  if (trusted_bytes_ < options_.budget_bytes) {
    trusted_bytes_ += counts.hit_bytes;
  }
  if (counts.is_late && has_enough_) {
    enough_bytes_ = 2 * std::max(enough_bytes_, used_bytes_);
    has_enough_ = false;
  }
}

/// The next parts of what is read. What they are of is pinned.
void Plan::find_parts(const Reading& reading, uint64_t done, Parts& parts, ReadCounts& counts,
                      Aftermath& after) noexcept {
  const auto found = files_.find(reading.file);
  while (parts.bytes < reading.bytes - done && parts.count < Parts::kMost) {
    const uint64_t begin = done + parts.bytes;
    Part part{.begin = begin, .bytes = reading.bytes - begin};
    // The file goes with its last entry.
    if (found != files_.end() && files_.contains(reading.file)) {
      find_part(found->second, reading.offset + begin, reading.waits, part, counts, after);
    }
    Part* const last = parts.count != 0 ? &parts.part[parts.count - 1] : nullptr;
    if (part.slice == nullptr && last != nullptr && last->slice == nullptr &&
        part.is_advised == last->is_advised) {
      last->bytes += part.bytes;
    } else {
      parts.part[parts.count++] = part;
    }
    parts.bytes += part.bytes;
  }
}

/// Cuts `part`, which begins at byte `at` of the file, to what lies together, and says where it
/// lies.
void Plan::find_part(File& file, uint64_t at, bool waits, Part& part, ReadCounts& counts,
                     Aftermath& after) noexcept {
  Entry* const entry = find_entry(file, at);
  if (entry == nullptr) {
    const auto next = file.entries.upper_bound(at);
    if (next != file.entries.end()) {
      part.bytes = std::min(part.bytes, next->first - at);
    }
    return;
  }
  counts.is_planned = true;
  part.bytes = std::min(part.bytes, entry->end() - at);
  if (!entry->is_begun()) {
    counts.is_late = true;
    return take_planned(*entry, at, part.bytes, after);
  }
  if (entry->is_advised) {
    part.is_advised = true;
    return take(*entry, part.bytes, after);
  }
  Slice& slice = entry->slices[(at - entry->offset) / options_.slice_bytes];
  part.at = at - entry->offset - slice.begin;
  part.bytes = std::min(part.bytes, slice.bytes - part.at);
  if (slice.state == Slice::State::waiting) {
    slice.state = Slice::State::missing;  // nobody else reads it
  }
  if (slice.state == Slice::State::missing) {
    counts.is_late = true;
    return take(*entry, part.bytes, after);
  }
  counts.is_late = counts.is_late || slice.state == Slice::State::under_way;
  slice.is_wanted = slice.is_wanted || (waits && slice.state == Slice::State::under_way);
  part.slice = &slice;
  ++entry->pins;
}

/// Fills the parts in: first what is to be read, while slices are under way. Returns how many bytes
/// there are from the first part on without a gap, or the error if there are none.
int64_t Plan::fill(const Reading& reading, const Parts& parts, ReadCounts& counts) noexcept {
  std::array<int64_t, Parts::kMost> results{};
  for (size_t i = 0; i < parts.count; ++i) {
    const Part& part = parts.part[i];
    if (part.slice == nullptr) {
      results[i] = part.is_advised ? read_advised(reading, part, counts)
                                   : read_own(reading, part.begin, part.bytes, counts);
      if (results[i] < static_cast<int64_t>(part.bytes)) {
        break;  // the end of the file, or an error
      }
    }
  }
  int64_t sum = 0;
  for (size_t i = 0; i < parts.count; ++i) {
    const Part& part = parts.part[i];
    const int64_t got = part.slice != nullptr ? fill_from_slice(reading, part, counts) : results[i];
    if (got < 0) {
      return sum != 0 ? sum : got;
    }
    sum += got;
    if (static_cast<uint64_t>(got) < part.bytes) {
      break;
    }
  }
  return sum;
}

int64_t Plan::read_own(const Reading& reading, uint64_t begin, uint64_t bytes,
                       ReadCounts& counts) noexcept {
  const uint64_t begin_ns = now_ns();
  uint8_t flags = 0;
  {
    const std::lock_guard guard(lock_);
    ++own_under_way_;
    const auto file = files_.find(reading.file);
    flags = transfer_flags(file != files_.end() && file->second.is_on_fuse, bytes);
  }
  const int64_t got = move_own(engine::Op::read, reading.fd, reading.to + begin, bytes,
                               static_cast<int64_t>(reading.offset + begin), flags);
  const uint64_t end_ns = now_ns();
  {
    const std::lock_guard guard(lock_);
    --own_under_way_;
    own_ended_ns_ = end_ns;
  }
  counts.read_ns += end_ns - begin_ns;
  counts.own_bytes += got > 0 ? static_cast<uint64_t>(got) : 0;
  return got;
}

/// The kernel does not tell whether it had the bytes, but the time does.
int64_t Plan::read_advised(const Reading& reading, const Part& part, ReadCounts& counts) noexcept {
  const uint64_t begin_ns = now_ns();
  const int64_t got = move_own(engine::Op::read, reading.fd, reading.to + part.begin, part.bytes,
                               static_cast<int64_t>(reading.offset + part.begin));
  const uint64_t passed_ns = now_ns() - begin_ns;
  counts.hit_bytes += got > 0 ? static_cast<uint64_t>(got) : 0;
  if (passed_ns > kMostCachedNs) {
    counts.is_late = true;
    counts.wait_ns += passed_ns;
  }
  return got;
}

int64_t Plan::fill_from_slice(const Reading& reading, const Part& part,
                              ReadCounts& counts) noexcept {
  const bool has_ended = wait_for(*part.slice, counts);
  const Slice& slice = *part.slice;
  uint64_t usable = 0;
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    Entry& entry = *slice.entry;
    if (has_ended && slice.state == Slice::State::read && slice.got > part.at) {
      usable = std::min(part.bytes, slice.got - part.at);
    }
    if (usable != 0 && entry.stamp != reading.stamp) {
      usable = 0;
      if (!entry.is_dropped) {
        drop_unread(entry, true, after);
      }
    }
  }
  finish(after);
  // It is pinned, and nothing is read into it any more.
  std::memcpy(reading.to + part.begin, slice.entry->memory.data() + slice.begin + part.at, usable);
  counts.hit_bytes += usable;
  if (usable == part.bytes) {
    return static_cast<int64_t>(usable);
  }
  counts.is_late = true;
  const int64_t rest = read_own(reading, part.begin + usable, part.bytes - usable, counts);
  return rest < 0 && usable == 0 ? rest : static_cast<int64_t>(usable) + std::max<int64_t>(rest, 0);
}

/// A place among those who wait for a slice.
class Plan::OneSlice final : public SliceWait {
 public:
  OneSlice(Plan& plan, Slice& slice) noexcept : plan_(plan), slice_(slice) {}

  bool begin() noexcept override {
    const std::lock_guard guard(plan_.lock_);
    if (slice_.state != Slice::State::under_way) {
      return true;
    }
    slice_.waits.push_back(*this);
    return false;
  }
  bool withdraw() noexcept override {
    const std::lock_guard guard(plan_.lock_);
    if (slice_.state != Slice::State::under_way) {
      return false;  // it is being told
    }
    slice_.waits.remove(*this);
    return true;
  }

 private:
  Plan& plan_;
  Slice& slice_;
};

/// Waits until the slice has ended. False if this caller cannot wait.
bool Plan::wait_for(Slice& slice, ReadCounts& counts) noexcept {
  bool is_held = false;
  {
    const std::lock_guard guard(lock_);
    if (slice.state != Slice::State::under_way) {
      return true;
    }
    is_held = slice.is_submitted;  // perhaps
  }
  if (is_held) {
    static_cast<void>(service_.cancel_if_held(slice.request));
  }
  // The program waits for its data: no other read ahead begins meanwhile.
  const uint64_t begin_ns = now_ns();
  const gate::Activity activity(service_.gate(), own_flow_);
  OneSlice wait(*this, slice);
  const int error = service_.wait_for(wait, -1);
  counts.wait_ns += now_ns() - begin_ns;
  return error == 0;
}

void Plan::end_parts(const Parts& parts) noexcept {
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    for (size_t i = 0; i < parts.count; ++i) {
      if (parts.part[i].slice != nullptr) {
        Entry& entry = *parts.part[i].slice->entry;
        take(entry, parts.part[i].bytes, after);
        unpin(entry, after);
      }
    }
  }
  finish(after);
}

// ---- Reads by other means

Plan::Activity::Activity(Plan& plan) noexcept
    : plan_(plan), activity_(plan.service_.gate(), plan.own_flow_) {
  const std::lock_guard guard(plan_.lock_);
  ++plan_.own_under_way_;
}

Plan::Activity::~Activity() {
  const uint64_t end_ns = now_ns();
  const std::lock_guard guard(plan_.lock_);
  --plan_.own_under_way_;
  plan_.own_ended_ns_ = end_ns;
}

bool Plan::hand_over(int fd, int64_t offset, uint64_t bytes, bool waits) noexcept {
  Reading reading{};
  if (!find_reading(fd, nullptr, bytes, offset, reading)) {
    return false;
  }
  reading.waits = waits;
  unroll();
  ReadCounts counts;
  for (uint64_t done = 0; done < bytes;) {
    Parts parts;
    {
      Aftermath after;
      {
        const std::lock_guard guard(lock_);
        find_parts(reading, done, parts, counts, after);
      }
      finish(after);
    }
    for (const Part& part : std::span(parts.part).first(parts.count)) {
      if (part.is_advised ||
          (part.slice != nullptr && is_cached(*part.slice, part, waits, counts))) {
        counts.hit_bytes += part.bytes;
      } else {
        counts.own_bytes += part.bytes;
      }
    }
    end_parts(parts);
    done += parts.bytes;
  }
  count_read(bytes, counts);
  drive();
  return counts.own_bytes == 0;
}

/// Whether the bytes have been read ahead, after a wait for them if they are under way.
bool Plan::is_cached(Slice& slice, const Part& part, bool waits, ReadCounts& counts) noexcept {
  const bool has_ended = !waits || wait_for(slice, counts);
  const std::lock_guard guard(lock_);
  return has_ended && slice.state == Slice::State::read && slice.got >= part.at + part.bytes;
}

// ---- Writes, and files that are given up

int64_t Plan::write(int fd, const void* buffer, uint64_t bytes, int64_t offset) noexcept {
  auto* const from = static_cast<std::byte*>(const_cast<void*>(buffer));
  FileState before;
  if (is_inherited() || find_state(fd, before) != 0 || offset < 0 ||
      bytes > INT64_MAX - static_cast<uint64_t>(offset)) {
    return move_own(engine::Op::write, fd, from, bytes, offset);
  }
  const auto begin = static_cast<uint64_t>(offset);
  drop_written(before.id, begin, begin + bytes, nullptr);
  const int64_t result = move_own(engine::Op::write, fd, from, bytes, offset);
  FileState state;
  if (find_state(fd, state) == 0) {
    const Restamp restamp{before.stamp, state.stamp};
    if (options_.is_sole_writer) {
      drop_written(before.id, begin, begin + bytes, &restamp);
    } else {
      drop_written(before.id, 0, INT64_MAX, nullptr);
    }
  }
  drive();  // not before the bytes are written
  return result;
}

/// What was read ahead of these bytes may be of before the write. All else is as it was where there
/// is no other writer; where there may be one, the file's times do not tell his writes from ours,
/// and what was read before them all is not used any more.
void Plan::drop_written(FileId id, uint64_t begin, uint64_t end, const Restamp* restamp) noexcept {
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    const auto found = files_.find(id);
    if (found != files_.end()) {
      File& file = found->second;
      if (restamp != nullptr) {
        for (const auto& [at, entry] : file.entries) {
          if (entry->is_begun() && entry->stamp == restamp->before) {
            entry->stamp = restamp->after;
          }
        }
        file.is_own_stamp = true;
        file.own_stamp = restamp->after;
      }
      drop_range(file, begin, end, after);
    }
  }
  finish(after);
}

int Plan::invalidate(int fd, int64_t offset, uint64_t bytes) noexcept {
  FileState state;
  if (offset < 0) {
    return -EINVAL;
  }
  if (const int error = find_state(fd, state); error != 0) {
    return error;
  }
  const auto begin = static_cast<uint64_t>(offset);
  const uint64_t end = bytes == 0 || bytes > INT64_MAX - begin ? INT64_MAX : begin + bytes;
  drop_written(state.id, begin, end, nullptr);
  drive();
  return 0;
}

int Plan::forget(int fd) noexcept {
  FileState state;
  if (const int error = find_state(fd, state); error != 0) {
    return error;
  }
  drop_file(state.id);  // which takes back what the gate holds: it might do so for ever
  IdleWait wait(*this, &state.id);
  static_cast<void>(service_.wait_for(wait, -1));
  drive();
  return 0;
}

void Plan::drop_file(FileId id) noexcept {
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    std::erase_if(sources_, [&](const Source& source) {
      return source.next == nullptr && source.file == id;
    });
    // The file goes with its last entry.
    for (auto found = files_.find(id); found != files_.end() && !found->second.entries.empty();
         found = files_.find(id)) {
      drop_unread(*found->second.entries.begin()->second, false, after);
    }
  }
  finish(after);
}

}  // namespace ioweave::stream
