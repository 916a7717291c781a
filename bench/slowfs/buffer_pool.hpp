#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include <sys/mman.h>

namespace slowfs {

/// Buffers of one size, the last used first: a hundred workers take turns at the requests, and
/// with a buffer each they would drag as many megabytes through the cache. Grows to as many
/// buffers as are in use at once and keeps them. Thread-safe by a mutex.
class BufferPool {
 public:
  explicit BufferPool(size_t buffer_bytes) : buffer_bytes_(buffer_bytes) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool() {
    for (std::byte* buffer : idle_) munmap(buffer, buffer_bytes_);
  }

  struct Return {
    BufferPool* pool;
    void operator()(std::byte* buffer) const {
      const std::lock_guard lock(pool->mutex_);
      pool->idle_.push_back(buffer);
    }
  };
  using Lease = std::unique_ptr<std::byte, Return>;

  /// Page-aligned; null if memory is exhausted.
  Lease take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::byte* buffer = idle_.back();
        idle_.pop_back();
        return {buffer, Return{this}};
      }
    }
    void* memory =
        mmap(nullptr, buffer_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return {memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory), Return{this}};
  }

 private:
  const size_t buffer_bytes_;
  std::mutex mutex_;
  std::vector<std::byte*> idle_;
};

}  // namespace slowfs
