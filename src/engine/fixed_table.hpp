#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include <sys/uio.h>

namespace ioweave::engine {

/// The registered buffers and descriptors of a service. Thread-safe: writers lock; a lane compares
/// `version()` before each batch and takes a snapshot only when it changed.
class FixedTable {
 public:
  static constexpr uint16_t kSlots = 1024;  ///< slot 0 means "none"

  struct Snapshot {
    std::vector<iovec> buffers;  ///< index = slot; {nullptr, 0} where empty
    std::vector<int> files;      ///< index = slot; -1 where empty
    uint64_t version = 0;
  };

  /// A slot in 1..kSlots-1, or -ENOSPC.
  [[nodiscard]] int add_buffer(void* base, size_t bytes);
  [[nodiscard]] int add_file(int fd);
  /// 0 or -ENOENT. The caller guarantees that no operation in flight uses the slot.
  [[nodiscard]] int remove_buffer(uint16_t slot);
  [[nodiscard]] int remove_file(uint16_t slot);

  /// Pairs with the release in the writers: who sees a version sees its slots in snapshot().
  [[nodiscard]] uint64_t version() const noexcept {
    return version_.load(std::memory_order_acquire);
  }
  [[nodiscard]] Snapshot snapshot() const;

 private:
  mutable std::mutex lock_;
  std::vector<iovec> buffers_;
  std::vector<int> files_;
  std::atomic<uint64_t> version_{0};
};

}  // namespace ioweave::engine
