#include "engine/fixed_table.hpp"

#include <algorithm>
#include <cerrno>

namespace ioweave::engine {
namespace {

/// The first empty slot, growing the vector up to kSlots; 0 where all are taken.
template <typename Entry>
size_t find_empty(std::vector<Entry>& entries) {
  for (size_t slot = 1; slot < entries.size(); ++slot) {
    if (entries[slot].since == 0) return slot;
  }
  if (entries.size() >= FixedTable::kSlots) return 0;
  entries.resize(std::max<size_t>(entries.size() + 1, 2));  // slot 0 means "none"
  return entries.size() - 1;
}

template <typename Entry>
bool holds(const std::vector<Entry>& entries, uint16_t slot) noexcept {
  return slot != 0 && slot < entries.size() && entries[slot].since != 0;
}

}  // namespace

int FixedTable::add_buffer(void* base, size_t bytes) {
  const std::lock_guard guard(lock_);
  const size_t slot = find_empty(buffers_);
  if (slot == 0) return -ENOSPC;
  buffers_[slot] = {{base, bytes}, next_version()};
  return static_cast<int>(slot);
}

int FixedTable::add_file(int fd) {
  const std::lock_guard guard(lock_);
  const size_t slot = find_empty(files_);
  if (slot == 0) return -ENOSPC;
  files_[slot] = {fd, next_version()};
  return static_cast<int>(slot);
}

int FixedTable::remove_buffer(uint16_t slot) {
  const std::lock_guard guard(lock_);
  if (!holds(buffers_, slot)) return -ENOENT;
  buffers_[slot] = {};
  next_version();
  return 0;
}

int FixedTable::remove_file(uint16_t slot) {
  const std::lock_guard guard(lock_);
  if (!holds(files_, slot)) return -ENOENT;
  files_[slot] = {};
  next_version();
  return 0;
}

uint64_t FixedTable::next_version() noexcept {
  // Pairs with the acquire in version(). Whoever sees it takes a snapshot, for which it waits for
  // the lock: the slot may be written after it.
  return version_.fetch_add(1, std::memory_order_release) + 1;
}

FixedTable::Snapshot FixedTable::snapshot() const {
  const std::lock_guard guard(lock_);
  // Writers hold the lock, so the version read here is the one of these slots.
  return {buffers_, files_, version_.load(std::memory_order_relaxed)};
}

}  // namespace ioweave::engine
