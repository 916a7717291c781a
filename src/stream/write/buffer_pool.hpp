#pragma once

// The buffers of a write stream: one mapping, in huge pages where the kernel has them. Nothing is
// touched before a user of a buffer fills it, so a page lies on the node of the thread that does.

#include <cstddef>
#include <cstdint>

namespace ioweave::stream {

/// What direct I/O wants of addresses, offsets and lengths.
inline constexpr uint64_t kPageBytes = 4096;

/// So many bytes and the rest of the last page.
[[nodiscard]] constexpr uint64_t whole_pages(uint64_t bytes) noexcept {
  return (bytes + kPageBytes - 1) & ~(kPageBytes - 1);
}

/// Owns the memory, and nothing else: who has which buffer is for the stream to know.
class BufferPool {
 public:
  BufferPool() = default;
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// Maps `count` buffers of `buffer_bytes`, a multiple of kPageBytes. 0 or -errno. Once.
  [[nodiscard]] int map(uint64_t buffer_bytes, uint32_t count, bool huge_pages) noexcept;

  [[nodiscard]] std::byte* at(uint32_t index) const noexcept {
    return base_ + index * buffer_bytes_;
  }
  [[nodiscard]] uint64_t buffer_bytes() const noexcept { return buffer_bytes_; }
  /// Whether the kernel was asked for huge pages and did not refuse.
  [[nodiscard]] bool has_huge_pages() const noexcept { return has_huge_pages_; }

 private:
  void* mapping_ = nullptr;
  uint64_t mapped_bytes_ = 0;
  std::byte* base_ = nullptr;
  uint64_t buffer_bytes_ = 0;
  bool has_huge_pages_ = false;
};

}  // namespace ioweave::stream
