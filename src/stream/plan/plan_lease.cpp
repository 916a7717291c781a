// Reads whose bytes stay where they were read: leases of the plan's memory.

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "stream/plan/aftermath.hpp"
#include "stream/plan/plan.hpp"
#include "stream/write/buffer_pool.hpp"

namespace ioweave::stream {
namespace {

/// Slices are under way into memory that the caller would have, and it cannot wait for them.
constexpr int64_t kCannotWait = -EDEADLK;

}  // namespace

int64_t Plan::lease(int fd, uint64_t bytes, int64_t offset, LeasedMemory*& memory) noexcept {
  memory = nullptr;
  std::unique_ptr<LeasedMemory> lease(new (std::nothrow) LeasedMemory);
  if (lease == nullptr || bytes > INT64_MAX - kPageBytes) {
    return -ENOMEM;
  }
  lease->born = service::fork_generation();
  int64_t got = 0;
  if (!lease_planned(fd, bytes, offset, *lease, got)) {
    const uint64_t room = whole_pages(std::max<uint64_t>(bytes, 1));
    if (!is_inherited()) {
      const std::lock_guard guard(lock_);
      lease->memory = take_spare(room);
    }
    if (lease->memory.data() == nullptr) {
      lease->memory = PageMemory(room, options_.huge_pages);
    }
    if (lease->memory.data() == nullptr) {
      return -ENOMEM;
    }
    got = read(fd, lease->memory.data(), bytes, offset);
  }
  if (got > 0) {
    memory = lease.release();
  }
  return got;
}

/// False if these bytes were not planned as one read, or are in other hands.
bool Plan::lease_planned(int fd, uint64_t bytes, int64_t offset, LeasedMemory& lease,
                         int64_t& got) noexcept {
  Reading reading{};
  if (!find_reading(fd, nullptr, bytes, offset, reading)) {
    return false;
  }
  unroll();
  ReadCounts counts;
  Entry* const entry = claim(reading, counts);
  if (entry == nullptr) {
    return false;
  }
  reading.to = entry->memory.data();
  got = complete(*entry, reading, counts);
  give_away(*entry, got > 0 ? &lease : nullptr);
  if (got != kCannotWait) {
    count_read(got > 0 ? static_cast<uint64_t>(got) : 0, counts);
  }
  drive();
  return got != kCannotWait;
}

void Plan::end_lease(LeasedMemory* memory) noexcept {
  if (memory == nullptr || (is_inherited() && memory->born != service::fork_generation())) {
    return;  // what the parent has leased is the parent's
  }
  const std::unique_ptr<LeasedMemory> lease(memory);
  if (is_inherited()) {
    return;
  }
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    used_bytes_ -= lease->room;
    keep_memory(std::move(lease->memory), after);
  }
  finish(after);
  drive();
}

/// The entry that has these very bytes, if nobody uses it: it is the caller's alone then, and
/// pinned.
Entry* Plan::claim(const Reading& reading, ReadCounts& counts) noexcept {
  Aftermath after;
  Entry* entry = nullptr;
  {
    const std::lock_guard guard(lock_);
    const auto found = files_.find(reading.file);
    entry = found != files_.end() ? find_entry(found->second, reading.offset) : nullptr;
    if (entry == nullptr || entry->offset != reading.offset || entry->bytes != reading.bytes ||
        !entry->is_begun() || entry->is_advised || entry->pins != 0 || entry->taken != 0) {
      return nullptr;
    }
    counts.is_planned = true;
    for (Slice& slice : entry->slices) {
      if (slice.state == Slice::State::waiting) {
        slice.state = Slice::State::missing;  // nobody else reads it
      }
      slice.is_wanted = slice.state == Slice::State::under_way;
      counts.is_late = counts.is_late || slice.state != Slice::State::read;
    }
    ++entry->pins;
    take(*entry, entry->bytes, after);
  }
  finish(after);
  return entry;
}

/// Reads what is missing of a claimed entry, waits for what is under way, and reads all of it anew
/// if the file has changed. Returns how many bytes there are from the first one on, or the error if
/// there are none.
int64_t Plan::complete(Entry& entry, const Reading& reading, ReadCounts& counts) noexcept {
  read_missing(entry, reading, counts);
  uint64_t sum = 0;
  bool is_stale = false;
  for (Slice& slice : entry.slices) {
    if (!wait_for(slice, counts)) {
      return kCannotWait;
    }
    uint64_t usable = 0;
    {
      const std::lock_guard guard(lock_);
      if (slice.state == Slice::State::read) {
        is_stale = is_stale || (!slice.is_own && entry.stamp != reading.stamp);
        usable = slice.got;
        counts.hit_bytes += slice.is_own ? 0 : usable;
      }
    }
    if (is_stale) {
      break;
    }
    sum += usable;
    if (usable < slice.bytes) {
      counts.is_late = true;
      const int64_t rest = read_own(reading, slice.begin + usable, slice.bytes - usable, counts);
      if (rest < 0 && sum == 0) {
        return rest;
      }
      sum += rest > 0 ? static_cast<uint64_t>(rest) : 0;
      if (rest < static_cast<int64_t>(slice.bytes - usable)) {
        break;  // the end of the file, or an error that the next read will meet
      }
    }
  }
  // Nothing may be read into memory that is the caller's.
  for (Slice& slice : entry.slices) {
    if (!wait_for(slice, counts)) {
      return kCannotWait;
    }
  }
  if (!is_stale) {
    return static_cast<int64_t>(sum);
  }
  {
    const std::lock_guard guard(lock_);
    stats_.unread_bytes += entry.ahead;
    stats_.stale_bytes += entry.ahead;
  }
  counts.is_late = true;
  counts.hit_bytes = 0;
  return read_own(reading, 0, entry.bytes, counts);
}

/// Reads runs of missing slices, while others are under way.
void Plan::read_missing(Entry& entry, const Reading& reading, ReadCounts& counts) noexcept {
  std::vector<Slice>& slices = entry.slices;
  for (size_t i = 0; i < slices.size();) {
    uint64_t bytes = 0;
    size_t end = i;
    {
      const std::lock_guard guard(lock_);
      while (end < slices.size() && slices[end].state == Slice::State::missing) {
        bytes += slices[end++].bytes;
      }
    }
    if (bytes == 0) {
      ++i;
      continue;
    }
    const int64_t got = read_own(reading, slices[i].begin, bytes, counts);
    uint64_t left = got > 0 ? static_cast<uint64_t>(got) : 0;
    {
      const std::lock_guard guard(lock_);
      for (; i < end; ++i) {
        slices[i].got = std::min(left, slices[i].bytes);
        slices[i].state = slices[i].got != 0 ? Slice::State::read : Slice::State::missing;
        slices[i].is_own = true;
        left -= slices[i].got;
      }
    }
    if (got < static_cast<int64_t>(bytes)) {
      return;  // the end of the file, or an error
    }
  }
}

/// Ends a claimed entry. Its memory is the lease's, or free again.
void Plan::give_away(Entry& entry, LeasedMemory* memory) noexcept {
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    if (memory != nullptr) {
      memory->memory = std::move(entry.memory);
      memory->room = std::exchange(entry.room, 0);
    }
    unpin(entry, after);
  }
  finish(after);
}

}  // namespace ioweave::stream
