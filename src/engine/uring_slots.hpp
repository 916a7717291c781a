#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include <liburing.h>

#include "engine/backend.hpp"
#include "engine/fixed_table.hpp"

namespace ioweave::engine {

/// One ring's view of the service's FixedTable. A slot is registered with the kernel the first
/// time an operation of this ring names it (registering pins the pages of a buffer, and a backend
/// that never uses a buffer should not pay for it) and given back when the table drops it.
/// What the kernel refuses, for memlock or because it is too old, is remembered per slot and the
/// plain operation is used: losing a registration is a downgrade and never an error.
///
/// One thread: the owner of the backend. error() may be called by any.
class UringSlots {
 public:
  UringSlots(io_uring& ring, const FixedTable* table) noexcept : ring_(ring), table_(table) {}

  /// Follows the table where it has changed. Called at each flush and before a slot is used.
  void follow() noexcept {
    if (table_ != nullptr && table_->version() != seen_.version) catch_up();
  }

  /// True where `slot` is registered here and holds the whole range.
  [[nodiscard]] bool holds_buffer(uint16_t slot, const void* base, uint64_t bytes) noexcept;
  /// True where `slot` is registered here and holds `fd`.
  [[nodiscard]] bool holds_file(uint16_t slot, int fd) noexcept;

  /// -errno of the first refused registration; 0: none was refused.
  [[nodiscard]] int error() const noexcept { return error_.load(std::memory_order_relaxed); }

 private:
  enum class State : uint8_t { untried, registered, refused };
  using States = std::array<State, FixedTable::kSlots>;

  void catch_up() noexcept;
  void drop_buffer(uint16_t slot) noexcept;
  void drop_file(uint16_t slot) noexcept;
  [[nodiscard]] State register_buffer(uint16_t slot) noexcept;
  [[nodiscard]] State register_file(uint16_t slot) noexcept;
  [[nodiscard]] State refused(int error) noexcept;

  io_uring& ring_;
  const FixedTable* const table_;
  FixedTable::Snapshot seen_;
  States buffers_{};
  States files_{};
  bool has_buffer_table_ = false;
  bool has_file_table_ = false;
  /// A statistic: orders nothing, so relaxed on both sides.
  std::atomic<int> error_{0};
};

}  // namespace ioweave::engine
