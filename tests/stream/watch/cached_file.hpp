#pragma once

// A file in the page cache, made up.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/page_bytes.hpp"
#include "stream/watch/file_range.hpp"

namespace ioweave::stream {

/// A file, and which of its pages are in the page cache.
class CachedFile {
 public:
  explicit CachedFile(uint64_t bytes)
      : bytes_(bytes), is_there_((bytes + page_bytes() - 1) / page_bytes()) {}

  [[nodiscard]] uint64_t bytes() const { return bytes_; }

  void bring_in(uint64_t begin, uint64_t end) {
    for (uint64_t at = begin; at < std::min(end, bytes_); at += page_bytes()) {
      is_there_[at / page_bytes()] = true;
    }
  }
  void empty() { is_there_.assign(is_there_.size(), false); }
  /// The bytes of a range that are there.
  uint64_t count(FileRange range) {
    ++counts_;
    EXPECT_GT(range.bytes, 0u);
    EXPECT_LE(range.end(), bytes_);
    uint64_t there = 0;
    for (uint64_t at = range.offset; at < range.end(); at += page_bytes()) {
      there += is_there_[at / page_bytes()] ? page_bytes() : 0;
    }
    return there;
  }
  /// How often somebody had pages counted since the last call.
  [[nodiscard]] unsigned take_counts() { return std::exchange(counts_, 0); }

 private:
  const uint64_t bytes_;
  std::vector<bool> is_there_;
  unsigned counts_ = 0;
};

}  // namespace ioweave::stream
