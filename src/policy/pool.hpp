#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace ioweave::policy {

/// Objects at stable addresses, reused last in first out so that the steady path neither allocates
/// nor leaves the cache. Blocks double up to a few thousand objects and live as long as the pool.
/// One thread at a time.
template <class T>
class Pool {
 public:
  /// A default-constructed T.
  [[nodiscard]] T* acquire() {
    reserve_one();
    T* const object = free_.back();
    free_.pop_back();
    return object;
  }

  /// The next acquire() allocates nothing.
  void reserve_one() {
    if (free_.empty()) {
      add_block();
    }
  }

  void release(T* object) {
    *object = T{};
    free_.push_back(object);  // Never allocates: add_block reserved room for every object.
  }

 private:
  static constexpr size_t kFirstBlock = 16;
  static constexpr size_t kLargestBlock = 4096;

  void add_block() {
    const size_t count = std::clamp(total_, kFirstBlock, kLargestBlock);
    total_ += count;
    // Doubling, because reserve() alone grows to exactly what is asked: quadratic over a run.
    if (free_.capacity() < total_) {
      free_.reserve(2 * total_);
    }
    blocks_.push_back(std::make_unique<T[]>(count));
    for (size_t i = count; i > 0; --i) {
      free_.push_back(&blocks_.back()[i - 1]);
    }
  }

  std::vector<std::unique_ptr<T[]>> blocks_;
  std::vector<T*> free_;
  size_t total_ = 0;
};

}  // namespace ioweave::policy
