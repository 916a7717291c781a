#include "engine/fixed_table.hpp"

#include <cerrno>

namespace ioweave::engine {
namespace {

/// The first empty slot, growing the vector up to kSlots; 0 where all are taken.
template <typename Entry, typename IsEmpty>
size_t find_empty(std::vector<Entry>& entries, const Entry& empty, IsEmpty is_empty) {
  for (size_t slot = 1; slot < entries.size(); ++slot) {
    if (is_empty(entries[slot])) return slot;
  }
  if (entries.size() >= FixedTable::kSlots) return 0;
  if (entries.empty()) entries.push_back(empty);  // slot 0 means "none"
  entries.push_back(empty);
  return entries.size() - 1;
}

}  // namespace

int FixedTable::add_buffer(void* base, size_t bytes) {
  const std::lock_guard guard(lock_);
  const size_t slot =
      find_empty(buffers_, iovec{}, [](const iovec& entry) { return entry.iov_base == nullptr; });
  if (slot == 0) return -ENOSPC;
  buffers_[slot] = {base, bytes};
  version_.fetch_add(1, std::memory_order_release);  // pairs with the acquire in version()
  return static_cast<int>(slot);
}

int FixedTable::add_file(int fd) {
  const std::lock_guard guard(lock_);
  const size_t slot = find_empty(files_, -1, [](int entry) { return entry < 0; });
  if (slot == 0) return -ENOSPC;
  files_[slot] = fd;
  version_.fetch_add(1, std::memory_order_release);  // pairs with the acquire in version()
  return static_cast<int>(slot);
}

int FixedTable::remove_buffer(uint16_t slot) {
  const std::lock_guard guard(lock_);
  if (slot == 0 || slot >= buffers_.size() || buffers_[slot].iov_base == nullptr) return -ENOENT;
  buffers_[slot] = {};
  version_.fetch_add(1, std::memory_order_release);  // pairs with the acquire in version()
  return 0;
}

int FixedTable::remove_file(uint16_t slot) {
  const std::lock_guard guard(lock_);
  if (slot == 0 || slot >= files_.size() || files_[slot] < 0) return -ENOENT;
  files_[slot] = -1;
  version_.fetch_add(1, std::memory_order_release);  // pairs with the acquire in version()
  return 0;
}

FixedTable::Snapshot FixedTable::snapshot() const {
  const std::lock_guard guard(lock_);
  // Writers hold the lock, so the version read here is the one of these slots.
  return {buffers_, files_, version_.load(std::memory_order_relaxed)};
}

}  // namespace ioweave::engine
