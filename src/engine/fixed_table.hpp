#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include <sys/uio.h>

namespace ioweave::engine {

/// The registered buffers and descriptors of a service. Thread-safe: writers lock; a backend
/// compares `version()` before each batch and takes a snapshot only when it changed.
class FixedTable {
 public:
  static constexpr uint16_t kSlots = 1024;  ///< slot 0 means "none"

  /// What a slot holds. `since` tells one registration from the next: the same number may be
  /// another file by then, and the same address other memory.
  struct Buffer {
    iovec range{};       ///< {nullptr, 0} where empty
    uint64_t since = 0;  ///< the version that put it there; 0 where empty
  };
  struct File {
    int fd = -1;  ///< -1 where empty
    uint64_t since = 0;
  };
  struct Snapshot {
    std::vector<Buffer> buffers;  ///< index = slot
    std::vector<File> files;      ///< index = slot
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
  uint64_t next_version() noexcept;

  mutable std::mutex lock_;
  std::vector<Buffer> buffers_;
  std::vector<File> files_;
  std::atomic<uint64_t> version_{0};
};

}  // namespace ioweave::engine
