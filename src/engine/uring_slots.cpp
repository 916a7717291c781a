#include "engine/uring_slots.hpp"

#include <new>
#include <vector>

namespace ioweave::engine {
namespace {

template <typename Entry>
Entry entry_of(const std::vector<Entry>& entries, uint16_t slot) noexcept {
  return slot < entries.size() ? entries[slot] : Entry{};
}

}  // namespace

bool UringSlots::holds_buffer(uint16_t slot, const void* base, uint64_t bytes) noexcept {
  follow();
  const auto [range, since] = entry_of(seen_.buffers, slot);
  if (since == 0) return false;
  const auto begin = reinterpret_cast<uintptr_t>(base);
  const auto slot_begin = reinterpret_cast<uintptr_t>(range.iov_base);
  if (begin < slot_begin || begin - slot_begin > range.iov_len) return false;
  if (bytes > range.iov_len - (begin - slot_begin)) return false;
  if (buffers_[slot] == State::untried) buffers_[slot] = register_buffer(slot);
  return buffers_[slot] == State::registered;
}

bool UringSlots::holds_file(uint16_t slot, int fd) noexcept {
  follow();
  if (fd < 0 || entry_of(seen_.files, slot).fd != fd) return false;
  if (files_[slot] == State::untried) files_[slot] = register_file(slot);
  return files_[slot] == State::registered;
}

void UringSlots::catch_up() noexcept {
  FixedTable::Snapshot fresh;
  try {
    fresh = table_->snapshot();
  } catch (const std::bad_alloc&) {
    return;  // the old view is dropped slot by slot only once the new one is known; try later
  }
  for (uint16_t slot = 1; slot < FixedTable::kSlots; ++slot) {
    if (entry_of(seen_.buffers, slot).since != entry_of(fresh.buffers, slot).since) {
      drop_buffer(slot);
    }
    if (entry_of(seen_.files, slot).since != entry_of(fresh.files, slot).since) drop_file(slot);
  }
  seen_ = std::move(fresh);
}

void UringSlots::drop_buffer(uint16_t slot) noexcept {
  if (buffers_[slot] == State::registered) {
    const iovec nothing{};
    const __u64 no_tag = 0;
    // Cannot fail for a slot that exists: nothing is pinned and nothing allocated.
    io_uring_register_buffers_update_tag(&ring_, slot, &nothing, &no_tag, 1);
  }
  buffers_[slot] = State::untried;
}

void UringSlots::drop_file(uint16_t slot) noexcept {
  if (files_[slot] == State::registered) {
    const int nothing = -1;
    io_uring_register_files_update(&ring_, slot, &nothing, 1);
  }
  files_[slot] = State::untried;
}

UringSlots::State UringSlots::register_buffer(uint16_t slot) noexcept {
  if (!has_buffer_table_) {
    // A table of empty entries, which 5.13 and newer take; the SPARSE flag needs 5.19.
    static constexpr std::array<iovec, FixedTable::kSlots> kEmpty{};
    const int status = io_uring_register_buffers(&ring_, kEmpty.data(), FixedTable::kSlots);
    if (status < 0) return refused(status);
    has_buffer_table_ = true;
  }
  const __u64 no_tag = 0;
  const int updated =
      io_uring_register_buffers_update_tag(&ring_, slot, &seen_.buffers[slot].range, &no_tag, 1);
  return updated == 1 ? State::registered : refused(updated);
}

UringSlots::State UringSlots::register_file(uint16_t slot) noexcept {
  if (!has_file_table_) {
    std::array<int, FixedTable::kSlots> empty;
    empty.fill(-1);
    const int status = io_uring_register_files(&ring_, empty.data(), FixedTable::kSlots);
    if (status < 0) return refused(status);
    has_file_table_ = true;
  }
  const int updated = io_uring_register_files_update(&ring_, slot, &seen_.files[slot].fd, 1);
  return updated == 1 ? State::registered : refused(updated);
}

UringSlots::State UringSlots::refused(int error) noexcept {
  if (error_.load(std::memory_order_relaxed) == 0) {
    error_.store(error < 0 ? error : -EINVAL, std::memory_order_relaxed);
  }
  return State::refused;
}

}  // namespace ioweave::engine
