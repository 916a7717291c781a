#include "calls/preload/table.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/file_system_kind.hpp"
#include "calls/preload/write_behind.hpp"

namespace ioweave::calls {

constinit DescriptorTable table;

namespace {

using config::RunPolicy;

/// Why the reads of this open file cannot be accelerated, or none.
stats::Degrade reads_degrade(int fd, int flags, const stats::FileRecord& record) {
  if ((flags & O_DIRECT) != 0) {
    return stats::Degrade::direct;
  }
  // Who asks for the kind of a block device adds half a microsecond to an open.
  if (major(record.device) != 0) {
    return stats::Degrade::none;
  }
  return is_memory_file_system(fd) ? stats::Degrade::memory_file : stats::Degrade::none;
}

/// Of a file on a device, opened past the page cache: see engine_calls.hpp. A FUSE server may let
/// itself be interrupted where a device does not.
uint32_t engine_flags(int fd, RunPolicy policy, int flags, stats::FileRecord& record) {
  if (policy != RunPolicy::sync && policy != RunPolicy::writes && policy != RunPolicy::automatic) {
    return 0;
  }
  const bool appends = (flags & O_APPEND) != 0;
  if (appends && policy != RunPolicy::automatic) {
    degrade(record, stats::Degrade::append);
  }
  if ((flags & O_DIRECT) == 0 || is_memory_file_system(fd) || is_fuse(fd)) {
    return 0;
  }
  const uint32_t reads = policy != RunPolicy::writes ? uint32_t{Entry::engine_reads} : 0;
  return appends ? reads : reads | Entry::engine_writes;
}

/// Of a file under policy `behind`, or of one under `auto` that is written past the page cache.
uint32_t behind_flags(int fd, int flags, stats::FileRecord& record) {
  const bool is_by_rule = record.policy == RunPolicy::behind;
  const bool is_by_choice = record.policy == RunPolicy::automatic && (flags & O_DIRECT) != 0;
  if ((!is_by_rule && !is_by_choice) || (flags & O_ACCMODE) == O_RDONLY) {
    return 0;
  }
  const bool appends = (flags & O_APPEND) != 0;
  const bool is_in_memory = is_memory_file_system(fd);
  if (is_by_rule && (appends || is_in_memory)) {
    degrade(record, appends ? stats::Degrade::append : stats::Degrade::memory_file);
  }
  if (appends || is_in_memory || (flags & (O_SYNC | O_DSYNC)) != 0) {
    return 0;
  }
  if (is_by_rule) {
    return Entry::always_holds_back;
  }
  return write_behind.arm(fd) ? uint32_t{Entry::holds_back} : 0;
}

/// Who confines itself may have forbidden the system call that tells a visitor.
bool is_not_ours() noexcept {
  return process.left_alone() || process.is_visitor();
}

/// The flags of a new entry; notes in the record what is in the way of acceleration.
uint32_t entry_flags(int fd, int flags, stats::FileRecord& record) {
  const bool is_readable = (flags & O_ACCMODE) != O_WRONLY;
  const bool overlaps = config::overlaps(record.policy);
  const bool logs = process.config().logs_reads != 0;
  const stats::Degrade reason =
      is_readable && (overlaps || logs) ? reads_degrade(fd, flags, record) : stats::Degrade::none;
  const uint32_t logged =
      is_readable && logs && reason == stats::Degrade::none ? uint32_t{Entry::logs_reads} : 0;
  const uint32_t other_ways =
      engine_flags(fd, record.policy, flags, record) | behind_flags(fd, flags, record);
  if (!overlaps || !is_readable) {
    return logged | other_ways;
  }
  degrade(record, reason);
  return logged | other_ways | Entry::places;
}

}  // namespace

bool DescriptorTable::start() noexcept {
  void* const mapped = mmap(nullptr, kDescriptors * sizeof(Entry), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    return false;
  }
  entries_ = static_cast<Entry*>(mapped);
  limit_.store(kDescriptors, std::memory_order_release);  // pairs with find()
  return true;
}

void DescriptorTable::opened(int fd, const char* said, int flags, uint64_t ticks) noexcept {
  if (!covers(fd) || is_not_ours() || (process.unborn() && !process.be_born()) ||
      limit_.load(std::memory_order_acquire) == 0) {
    return;
  }
  release(entries_[fd]);  // closed behind our back, or it would not be given out again
  struct stat status {};
  if ((flags & O_PATH) != 0 || fstat(fd, &status) != 0 || S_ISDIR(status.st_mode) ||
      S_ISCHR(status.st_mode)) {
    return;
  }
  stats::FileRecord& record = *records.of_file(fd, said, status);
  if (!S_ISREG(status.st_mode)) {
    degrade(record, stats::Degrade::not_regular);
    return;
  }
  count_call(record, stats::CallClass::other, 0, ticks);
  put(fd, record, entry_flags(fd, flags, record));
}

void DescriptorTable::put(int fd, stats::FileRecord& record, uint32_t flags) noexcept {
  Entry& entry = entries_[fd];
  entry.flags.store(flags, std::memory_order_relaxed);
  entry.record.store(&record, std::memory_order_release);  // pairs with find()
  uint32_t highest = highest_.load(std::memory_order_relaxed);
  while (highest <= static_cast<uint32_t>(fd) &&
         !highest_.compare_exchange_weak(highest, static_cast<uint32_t>(fd) + 1,
                                         std::memory_order_relaxed)) {
  }
}

void DescriptorTable::duplicated(int from, int to) noexcept {
  if (from == to || !covers(from) || !covers(to) || is_not_ours() ||
      !(active() || process.unborn())) {
    return;
  }
  release(entries_[to]);
  if (stats::FileRecord* const record = entries_[from].record.load(std::memory_order_acquire);
      record != nullptr) {
    put(to, *record, entries_[from].flags.load(std::memory_order_relaxed));
  }
}

stats::FileRecord* DescriptorTable::closing(int fd) noexcept {
  if (!covers(fd)) {
    return nullptr;
  }
  stats::FileRecord* const record = entries_[fd].record.load(std::memory_order_acquire);
  if (record == nullptr || is_not_ours()) {
    return nullptr;
  }
  release(entries_[fd]);
  return process.unborn() ? nullptr : record;
}

void DescriptorTable::closing_range(unsigned first, unsigned last) noexcept {
  if (entries_ == nullptr || is_not_ours()) {
    return;
  }
  const uint32_t highest = highest_.load(std::memory_order_relaxed);
  for (unsigned fd = first; fd < highest && fd <= last; ++fd) {
    release(entries_[fd]);
  }
}

void DescriptorTable::degraded(int fd, stats::Degrade reason) noexcept {
  Entry* const entry = find(fd);
  if (entry == nullptr || is_not_ours()) {
    return;
  }
  if (stats::FileRecord* const record = entry->record.load(std::memory_order_relaxed);
      record != nullptr) {
    degrade(*record, reason);
  }
}

void DescriptorTable::flags_changed(int fd, int flags) noexcept {
  Entry* const entry = find(fd);
  if (entry == nullptr || is_not_ours()) {
    return;
  }
  stats::FileRecord* const record = entry->record.load(std::memory_order_relaxed);
  if (record == nullptr) {
    return;  // closed meanwhile
  }
  const bool is_direct = (flags & O_DIRECT) != 0;
  // fcntl(2) was told of status flags alone; those of a file that may not be written matter not.
  const uint32_t wanted = uint32_t{Entry::places} | Entry::always_holds_back |
                          (is_direct ? uint32_t{Entry::holds_back} : uint32_t{Entry::logs_reads});
  const uint32_t kept = entry->flags.load(std::memory_order_relaxed) & wanted;
  entry->flags.store(kept | engine_flags(fd, record->policy, flags, *record),
                     std::memory_order_relaxed);
  if ((kept & Entry::places) != 0 && is_direct) {
    degrade(*record, stats::Degrade::direct);
  }
}

Entry* DescriptorTable::find_unborn(int fd) noexcept {
  if (!covers(fd) || entries_[fd].record.load(std::memory_order_relaxed) == nullptr ||
      is_not_ours() || !process.be_born()) {
    return nullptr;
  }
  Entry& entry = entries_[fd];
  return entry.record.load(std::memory_order_relaxed) != nullptr ? &entry : nullptr;
}

void DescriptorTable::adopt() noexcept {
  const uint32_t highest = highest_.load(std::memory_order_relaxed);
  for (uint32_t fd = 0; fd < highest; ++fd) {
    Entry& entry = entries_[fd];
    const stats::FileRecord* const theirs = entry.record.load(std::memory_order_relaxed);
    if (theirs == nullptr) {
      continue;
    }
    stats::FileRecord* const ours = records.inherit(*theirs);
    degrade(*ours, static_cast<stats::Degrade>(theirs->degrade.load(std::memory_order_relaxed)));
    entry.record.store(ours, std::memory_order_relaxed);
  }
  limit_.store(kDescriptors, std::memory_order_release);  // pairs with find()
}

}  // namespace ioweave::calls
