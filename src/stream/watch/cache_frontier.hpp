#pragma once

// Finds where somebody reads a file in order, by the pages of it that come into the page cache.
// Pure logic without I/O, clock or thread.
//
// How it works. A read at an explicit offset, by io_uring or by aio_* moves no position, but it
// brings pages in. The first look counts how much of each part of the file is there. If the next
// look finds that one place has got more, somebody reads there. From then on looks follow the end
// of what is there without a hole: the frontier. It is ahead of the reader by the kernel's own
// read-ahead.
//
// Pages that were asked for ahead of the reader hide where it is. It is seen again once it comes to
// the end of them: the kernel's own read-ahead then goes on there.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "stream/watch/file_range.hpp"

namespace ioweave::stream {

/// The frontier of one file. One thread.
class CacheFrontier {
 public:
  /// Returns how many bytes of a range are in pages of the page cache. A page at the end of the
  /// file counts whole.
  using CachedBytes = std::function<uint64_t(FileRange)>;

  /// Looks at the file. What lies before `asked_until` may be there because somebody asked for it
  /// ahead of the reader. Returns true if the frontier was found now, or has moved.
  bool look(const CachedBytes& cached_bytes, uint64_t file_bytes, uint64_t asked_until);

  /// Returns the frontier, a multiple of pages or the end of the file; nothing if it is not found.
  [[nodiscard]] std::optional<uint64_t> frontier() const noexcept { return frontier_; }

  /// Counts what is in the page cache, and returns true if more has come in elsewhere than at the
  /// frontier since the last such count, or since the frontier was found: it has no single reader.
  [[nodiscard]] bool has_grown_elsewhere(const CachedBytes& cached_bytes, uint64_t file_bytes);

  /// Returns what the last such count, or the last look that looked for a frontier, found in the
  /// page cache.
  [[nodiscard]] uint64_t counted_bytes() const noexcept { return counted_bytes_; }

  /// Returns how far it has moved since it was found.
  [[nodiscard]] uint64_t way_bytes() const noexcept { return way_bytes_; }

  /// Forgets the frontier. Later looks may find another one.
  void lose() noexcept;

 private:
  bool find(const CachedBytes& cached_bytes, uint64_t file_bytes);

  std::optional<uint64_t> frontier_;
  uint64_t way_bytes_ = 0;
  uint64_t counted_bytes_ = 0;        // in the page cache, at the last count
  uint64_t counted_at_frontier_ = 0;  // where the frontier was then
  uint64_t part_bytes_ = 0;
  std::vector<uint64_t> cached_;  // by part of the file, at the last look
};

}  // namespace ioweave::stream
