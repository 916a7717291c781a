#pragma once

// How the bytes of one buffer go to their file. Past the page cache go whole pages only; what is
// left before and behind them goes through it. The kernel keeps the two coherent page by page, so
// neighbouring writes may share a page as long as both go through the cache there.

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/page_bytes.hpp"
#include "stream/write/buffer_pool.hpp"

namespace ioweave::stream {

/// What the page cache holds at once, at least: 64 KiB on some kernels.
[[nodiscard]] inline uint64_t cache_page_bytes() noexcept {
  static const uint64_t bytes = std::max(kPageBytes, page_bytes());
  return bytes;
}

struct WritePart {
  uint64_t begin = 0;  ///< within the buffer's bytes
  uint64_t bytes = 0;
  bool direct = false;
};

struct WriteParts {
  std::array<WritePart, 3> part{};
  uint32_t count = 0;

  void add(uint64_t begin, uint64_t end, bool direct) noexcept {
    if (begin < end) {
      part[count++] = {begin, end - begin, direct};
    }
  }
};

/// The parts of `bytes` bytes at `data` that go to `offset`; `may_go_direct` says whether the file
/// has that way, in pages of `page_bytes`. All go through the cache where address and offset differ
/// within their pages.
[[nodiscard]] inline WriteParts divide_write(const void* data, uint64_t bytes, int64_t offset,
                                             bool may_go_direct, uint64_t page_bytes) noexcept {
  const auto at = static_cast<uint64_t>(offset);
  const uint64_t head = -at & (page_bytes - 1);
  const bool fits = ((reinterpret_cast<uintptr_t>(data) - at) & (kPageBytes - 1)) == 0;
  WriteParts parts;
  if (!may_go_direct || !fits || head >= bytes || bytes - head < page_bytes) {
    parts.add(0, bytes, false);
    return parts;
  }
  const uint64_t tail = head + ((bytes - head) & ~(page_bytes - 1));
  parts.add(0, head, false);
  parts.add(head, tail, true);
  parts.add(tail, bytes, false);
  return parts;
}

}  // namespace ioweave::stream
