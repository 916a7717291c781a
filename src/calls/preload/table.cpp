#include "calls/preload/table.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>

#include "calls/preload/prefetcher.hpp"
#include "calls/preload/real.hpp"

namespace ioweave::calls {

constinit DescriptorTable table;

namespace {

constexpr off_t kLeastFollowedBytes = 1 << 20;

/// Why the reads of this open file are not worth following, or none.
stats::Degrade reads_degrade(const struct stat& status, const Device* device, int flags) {
  if ((flags & O_DIRECT) != 0) {
    return stats::Degrade::direct;
  }
  if (device == nullptr) {
    return stats::Degrade::no_resources;
  }
  if (device->memory.load(std::memory_order_relaxed) == 2) {
    return stats::Degrade::memory_file;
  }
  return status.st_size < kLeastFollowedBytes ? stats::Degrade::no_gain : stats::Degrade::none;
}

uint32_t engine_flags(stats::RunPolicy policy, int flags, stats::FileRecord& record) {
  const bool writes = policy == stats::RunPolicy::sync || policy == stats::RunPolicy::writes;
  if (!writes) {
    return 0;
  }
  const uint32_t reads = policy == stats::RunPolicy::sync ? uint32_t{Entry::engine_reads} : 0;
  if ((flags & O_APPEND) != 0) {
    degrade(record, stats::Degrade::append);
    return reads;
  }
  return reads | Entry::engine_writes;
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
  if (!covers(fd) || process.is_visitor() || (process.unborn() && !process.be_born()) ||
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
  put(fd, status, record, flags);
}

void DescriptorTable::put(int fd, const struct stat& status, stats::FileRecord& record,
                          int flags) noexcept {
  Entry& entry = entries_[fd];
  Device* const device = records.device_of(fd, status);
  Stream* stream = nullptr;
  if (record.policy == stats::RunPolicy::overlap && (flags & O_ACCMODE) != O_WRONLY) {
    stats::Degrade reason = reads_degrade(status, device, flags);
    if (reason == stats::Degrade::none) {
      stream = streams.open(fd, status, record, device);
      reason = stream != nullptr ? reason : stats::Degrade::no_resources;
    }
    degrade(record, reason);
  }
  entry.stream.store(stream, std::memory_order_relaxed);
  entry.device.store(device, std::memory_order_relaxed);
  entry.flags.store(engine_flags(record.policy, flags, record), std::memory_order_relaxed);
  publish(fd, &record);
}

void DescriptorTable::publish(int fd, stats::FileRecord* record) noexcept {
  entries_[fd].record.store(record, std::memory_order_release);  // pairs with find()
  uint32_t highest = highest_.load(std::memory_order_relaxed);
  while (highest <= static_cast<uint32_t>(fd) &&
         !highest_.compare_exchange_weak(highest, static_cast<uint32_t>(fd) + 1,
                                         std::memory_order_relaxed)) {
  }
}

void DescriptorTable::duplicated(int from, int to) noexcept {
  if (from == to || !covers(from) || !covers(to) || process.is_visitor() ||
      !(active() || process.unborn())) {
    return;
  }
  const int saved = errno;
  release(entries_[to]);
  stats::FileRecord* const record = entries_[from].record.load(std::memory_order_acquire);
  struct stat status {};
  if (record != nullptr && process.unborn()) {
    publish(to, record);  // adopt() sees to the rest, should it come to that
  } else if (record != nullptr && fstat(to, &status) == 0 && S_ISREG(status.st_mode)) {
    const int flags = real::fcntl(to, F_GETFL, nullptr);
    put(to, status, *record, flags < 0 ? O_WRONLY : flags);
  }
  errno = saved;
}

stats::FileRecord* DescriptorTable::closing(int fd) noexcept {
  if (!covers(fd)) {
    return nullptr;
  }
  stats::FileRecord* const record = entries_[fd].record.load(std::memory_order_acquire);
  if (record == nullptr || process.is_visitor()) {
    return nullptr;
  }
  release(entries_[fd]);
  return process.unborn() ? nullptr : record;
}

void DescriptorTable::closing_range(unsigned first, unsigned last) noexcept {
  if (entries_ == nullptr || process.is_visitor()) {
    return;
  }
  const uint32_t highest = highest_.load(std::memory_order_relaxed);
  for (unsigned fd = first; fd < highest && fd <= last; ++fd) {
    release(entries_[fd]);
  }
}

void DescriptorTable::release(Entry& entry) noexcept {
  entry.record.store(nullptr, std::memory_order_relaxed);
  Stream* const stream = entry.stream.exchange(nullptr, std::memory_order_relaxed);
  if (stream != nullptr && !process.unborn()) {  // else it is the parent's
    streams.close(*stream);
  }
}

void DescriptorTable::stop_following(int fd, stats::Degrade reason) noexcept {
  Entry* const entry = find(fd);
  if (entry == nullptr || process.is_visitor()) {
    return;
  }
  degrade(*entry->record.load(std::memory_order_relaxed), reason);
  if (Stream* const stream = entry->stream.exchange(nullptr, std::memory_order_relaxed);
      stream != nullptr) {
    streams.close(*stream);
  }
}

void DescriptorTable::flags_changed(int fd, int flags) noexcept {
  Entry* const entry = find(fd);
  if (entry == nullptr || process.is_visitor()) {
    return;
  }
  stats::FileRecord& record = *entry->record.load(std::memory_order_relaxed);
  entry->flags.store(engine_flags(record.policy, flags, record), std::memory_order_relaxed);
  if ((flags & O_DIRECT) != 0) {
    stop_following(fd, stats::Degrade::direct);
  }
}

Entry* DescriptorTable::find_unborn(int fd) noexcept {
  if (!covers(fd) || entries_[fd].record.load(std::memory_order_relaxed) == nullptr ||
      process.is_visitor() || !process.be_born()) {
    return nullptr;
  }
  Entry& entry = entries_[fd];
  return entry.record.load(std::memory_order_relaxed) != nullptr ? &entry : nullptr;
}

void DescriptorTable::adopt() noexcept {
  prefetcher.became_child();
  streams.forget();
  const uint32_t highest = highest_.load(std::memory_order_relaxed);
  for (uint32_t fd = 0; fd < highest; ++fd) {
    Entry& entry = entries_[fd];
    const stats::FileRecord* const theirs = entry.record.load(std::memory_order_relaxed);
    if (theirs == nullptr) {
      continue;
    }
    // The position is shared with the parent from now on: reads here are counted, not followed.
    entry.stream.store(nullptr, std::memory_order_relaxed);
    stats::FileRecord* const ours = records.inherit(*theirs);
    degrade(*ours, stats::Degrade::duplicated);
    entry.record.store(ours, std::memory_order_relaxed);
  }
  limit_.store(kDescriptors, std::memory_order_release);  // pairs with find()
}

}  // namespace ioweave::calls
