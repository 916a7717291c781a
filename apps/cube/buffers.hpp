// Memory for results, in the ways whose cost the Cube study compares: allocated and freed for each
// item or kept in a pool, aligned or not, in huge pages or not.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace cube {

inline constexpr size_t kPageBytes = 4096;

struct BufferOptions {
  size_t bytes = size_t{4} << 20;  // of each, a multiple of kPageBytes
  size_t count = 4;                // most at once
  bool is_aligned = false;         // to pages, and so to cache lines
  bool is_pooled = false;
  bool is_huge = false;  // the kernel is asked for huge pages
};

/// Thread-safe. All buffers must be back before it ends.
class Buffers {
 public:
  explicit Buffers(const BufferOptions& options);
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  ~Buffers();

  /// Waits while `count` are out. Throws CubeError if there is no memory.
  std::byte* take();
  void give_back(std::byte* buffer);

 private:
  [[nodiscard]] std::byte* allocate() const;
  void release(std::byte* buffer) const;
  void make_pool();

  BufferOptions options_;
  std::mutex mutex_;
  std::condition_variable returned_;
  size_t out_ = 0;
  std::vector<std::byte*> pool_;  // those that are not out
  std::byte* slab_ = nullptr;
  size_t slab_bytes_ = 0;
};

}  // namespace cube
