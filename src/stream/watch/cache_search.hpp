#pragma once

// Decides when to look for a reader of a file whose position stands still, and what a look tells.
// cache_frontier.hpp says how the reader is found. Pure logic without I/O, clock or thread.
//
// Such a reader is looked for only while its process reads more than positions show. After some
// looks that found none, the next ones come less and less often.

#include <cstdint>
#include <functional>
#include <optional>

#include "stream/watch/cache_frontier.hpp"
#include "stream/watch/file_range.hpp"

namespace ioweave::stream {

/// The search in one file. One thread. Times in nanoseconds from any origin.
class CacheSearch {
 public:
  /// Returns how many bytes of a range are in the page cache, or nothing if the kernel does not
  /// tell.
  using CachedBytes = std::function<std::optional<uint64_t>(FileRange)>;

  /// What a look came to.
  enum class Result : uint8_t {
    none,    ///< nobody was found; the reader that was followed may be lost
    found,   ///< a reader is followed from now on
    stands,  ///< it has not moved
    moved,
  };

  /// Looks at the file. What lies before `asked_until` may be there because somebody asked for it
  /// ahead of the reader.
  Result look(const CachedBytes& cached_bytes, uint64_t file_bytes, uint64_t asked_until,
              uint64_t now_ns);

  [[nodiscard]] bool is_due(uint64_t now_ns) const noexcept { return now_ns >= next_ns_; }
  /// Returns when the next look is due; 0: at once.
  [[nodiscard]] uint64_t next_ns() const noexcept { return next_ns_; }
  /// Returns true if the next look compares what is there with what the last one saw.
  [[nodiscard]] bool compares_next() const noexcept {
    return looks_ == 1 && next_ns_ != UINT64_MAX;
  }

  /// Returns the place up to which the followed reader has brought pages in.
  [[nodiscard]] std::optional<uint64_t> frontier() const noexcept { return frontier_.frontier(); }
  /// Returns how far that has moved since the reader was found.
  [[nodiscard]] uint64_t way_bytes() const noexcept { return frontier_.way_bytes(); }
  /// Returns true if the last look saw more come in elsewhere: the reader does not read on.
  [[nodiscard]] bool was_elsewhere() const noexcept { return was_elsewhere_; }
  /// Returns true if the last look, which found nobody, saw nothing in the page cache.
  [[nodiscard]] bool saw_nothing() const noexcept { return saw_nothing_; }

  /// Notes that the position has moved after all. `unseen_bytes` is what the process has read
  /// without any position to show for it.
  void note_position(uint64_t unseen_bytes) noexcept;

  /// Returns true if the process was found to read unseen so lately that its next read may not be
  /// counted yet.
  [[nodiscard]] bool has_read_lately(uint64_t now_ns) const noexcept;
  /// Returns true if the process has read on unseen. `largest_move_bytes` is the largest move of a
  /// position of it: some such moves may be counted that have not been seen yet.
  [[nodiscard]] bool reads_unseen(uint64_t unseen_bytes, uint64_t largest_move_bytes,
                                  uint64_t now_ns) noexcept;

 private:
  CacheFrontier frontier_;
  uint64_t moved_ns_ = 0;      // when the frontier last moved
  uint64_t unseen_bytes_ = 0;  // that the process had read when this was last looked at
  uint64_t reads_ns_ = 0;      // when it was last found to have read more
  uint64_t next_ns_ = 0;       // the next look
  unsigned looks_ = 0;         // in a row that found nobody
  bool was_elsewhere_ = false;
  bool saw_nothing_ = false;
};

}  // namespace ioweave::stream
