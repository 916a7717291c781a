// What becomes of planned reads: where they are found, and how they end. All of it under the plan's
// lock.

#include <algorithm>
#include <climits>
#include <functional>
#include <iterator>
#include <utility>

#include "base/assert.hpp"
#include "stream/plan/aftermath.hpp"
#include "stream/plan/plan.hpp"

namespace ioweave::stream {
namespace {

/// Entries that are looked at before a byte counts as not planned.
constexpr int kMostLookedAt = 64;
constexpr size_t kMostSpare = 1024;

/// Where its file has an entry that is not dropped.
auto place_of(const Entry& entry) noexcept {
  auto place = entry.file->entries.lower_bound(entry.offset);
  while (place->second != &entry) {
    ++place;
  }
  return place;
}

}  // namespace

void Plan::enter_planned(Entry& entry, bool at_front) noexcept {
  Waiting& waiting = waiting_with(entry);
  at_front ? waiting.entries.push_front(entry) : waiting.entries.push_back(entry);
  ++waiting.count;
  waiting.bytes += entry.bytes;
  entry.is_listed = true;
}

void Plan::leave_planned(Entry& entry) noexcept {
  Waiting& waiting = waiting_with(entry);
  waiting.entries.remove(entry);
  --waiting.count;
  waiting.bytes -= entry.bytes;
  entry.is_listed = false;
}

/// The first entry in the plan's order that has this byte; null if there is none.
Entry* Plan::find_entry(File& file, uint64_t at) noexcept {
  Entry* found = nullptr;
  int looks = kMostLookedAt;
  for (auto place = file.entries.upper_bound(at); place != file.entries.begin() && looks-- != 0;) {
    Entry& entry = *std::prev(place)->second;
    --place;
    if (entry.offset + file.longest <= at) {
      break;
    }
    if (entry.end() > at && (found == nullptr || entry.number < found->number)) {
      found = &entry;
    }
  }
  return found;
}

/// How far the program is, as its reads tell but the few that are far ahead of all others.
void Plan::note_taken(const Entry& entry) noexcept {
  uint64_t number = entry.number;
  for (uint64_t& taken : furthest_taken_) {
    if (taken == number) {
      return;
    }
    if (taken < number) {
      std::swap(taken, number);
    }
  }
}

/// The program has read so many bytes of the entry.
void Plan::take(Entry& entry, uint64_t bytes, Aftermath& after) noexcept {
  note_taken(entry);
  entry.taken += bytes;
  if (entry.taken >= entry.bytes && !entry.is_dropped) {
    drop(entry, after);
  }
}

/// The program reads these bytes of an entry that has not begun: what is left of it stays planned.
void Plan::take_planned(Entry& entry, uint64_t begin, uint64_t bytes, Aftermath& after) noexcept {
  const bool is_front = begin == entry.offset;
  if (bytes == entry.bytes || entry.pins != 0 || entry.room != 0 ||
      !(is_front || begin + bytes == entry.end())) {
    return take(entry, bytes, after);
  }
  note_taken(entry);
  waiting_with(entry).bytes -= bytes;
  rekey(entry, is_front ? begin + bytes : entry.offset, entry.bytes - bytes);
}

void Plan::rekey(Entry& entry, uint64_t offset, uint64_t bytes) noexcept {
  auto node = entry.file->entries.extract(place_of(entry));
  node.key() = offset;
  entry.file->entries.insert(std::move(node));
  entry.offset = offset;
  entry.bytes = bytes;
}

/// Takes the entry out of the plan. It ends when nobody uses it.
void Plan::drop(Entry& entry, Aftermath& after) noexcept {
  IOW_ASSERT(!entry.is_dropped);
  entry.is_dropped = true;
  entry.file->entries.erase(place_of(entry));
  for (Slice& slice : entry.slices) {
    if (slice.state != Slice::State::under_way || std::exchange(slice.is_wanted, true)) {
      continue;
    }
    if (slice.is_submitted) {  // else whoever submits it takes it back
      ++entry.pins;
      slice.next_unwanted = std::exchange(after.unwanted, &slice);
    }
  }
  if (entry.is_begun()) {
    begun_.remove(entry);
    --begun_count_;
    current_ = current_ == &entry ? nullptr : current_;
  } else if (entry.is_listed) {
    leave_planned(entry);
  }
  destroy_if_unused(entry, after);
}

void Plan::drop_unread(Entry& entry, bool is_stale, Aftermath& after) noexcept {
  const uint64_t unread = entry.ahead - std::min(entry.ahead, entry.taken);
  stats_.unread_bytes += unread;
  stats_.stale_bytes += is_stale ? unread : 0;
  drop(entry, after);
}

/// Drops what was read ahead of these bytes. Entries of which nothing was read yet are planned
/// anew.
void Plan::drop_range(File& file, uint64_t begin, uint64_t end, Aftermath& after) noexcept {
  ++file.users;  // it would go with its last entry
  std::vector<Entry*> anew;
  const uint64_t first = begin - std::min(begin, file.longest);
  for (auto place = file.entries.lower_bound(first);
       place != file.entries.end() && place->first < end;) {
    Entry& entry = *place->second;
    ++place;
    if (!entry.is_begun() || entry.is_advised || entry.end() <= begin) {
      continue;  // the page cache has what is written
    }
    const bool is_untouched = entry.taken == 0;
    const int fd = entry.fd;
    const uint64_t offset = entry.offset;
    const uint64_t bytes = entry.bytes;
    const uint64_t number = entry.number;
    drop_unread(entry, true, after);  // it may be gone
    if (is_untouched) {
      try {
        anew.reserve(anew.size() + 1);
        anew.push_back(&new_entry(file.id, fd, offset, bytes, number));
      } catch (const std::bad_alloc&) {
        // The program reads it by itself.
      }
    }
  }
  // They have been begun before all others, and are again.
  std::ranges::sort(anew, std::greater{}, &Entry::number);
  for (Entry* const entry : anew) {
    enter_planned(*entry, true);
  }
  release(file);
}

/// One user less.
void Plan::release(File& file) noexcept {
  if (--file.users == 0) {
    files_.erase(FileId(file.id));  // a copy: it goes with the file
  }
}

void Plan::unpin(Entry& entry, Aftermath& after) noexcept {
  --entry.pins;
  destroy_if_unused(entry, after);
}

void Plan::destroy_if_unused(Entry& entry, Aftermath& after) noexcept {
  if (!entry.is_dropped || entry.pins != 0 || entry.under_way != 0) {
    return;
  }
  used_bytes_ -= entry.room;
  if (entry.memory.data() != nullptr) {
    keep_memory(std::move(entry.memory), after);
  }
  File& file = *entry.file;
  delete &entry;
  release(file);
}

/// The next entry of this size gets it.
void Plan::keep_memory(PageMemory memory, Aftermath& after) noexcept {
  try {
    if (is_closed_ || spare_.size() == kMostSpare ||
        used_bytes_ + spare_bytes_ + memory.bytes() > options_.budget_bytes) {
      after.memory.push_back(std::move(memory));
    } else {
      spare_bytes_ += memory.bytes();
      spare_.push_back(std::move(memory));
    }
  } catch (const std::bad_alloc&) {
    // It is given back here.
  }
}

}  // namespace ioweave::stream
