#pragma once

// Brings in what lies ahead of a reader by the kernel's own read-ahead, walked from outside.
//
// How it works. A read with RWF_NOWAIT of a page that is not in the cache starts read-ahead on the
// open file and answers EAGAIN at once. Read-ahead marks a page of each window; a read of that page
// starts the next window, also while the first one is still on its way. So touching one mark after
// another walks as far ahead as somebody likes and never waits for the device.
//
// Why not POSIX_FADV_WILLNEED: that brings in single pages (Linux 6.18), where read-ahead takes
// folios of up to 2 MiB. A window of 8 MiB is asked for in 0.1 ms by the walk and in 1.5 to 2 ms by
// advice, and the reader finds its data in fewer, larger pieces (docs/decisions/0010).
// Where the walk does not work (file systems without RWF_NOWAIT) advice does the same, slower.
// Where the kernel does not tell what is in the cache (cachestat(2): before 6.5, and for files of
// others that may not be written) each window is started anew, by its first page.

#include <cstdint>

namespace ioweave::engine {

/// One open file. One thread.
class ReadAheadWalk {
 public:
  enum class Answer : uint8_t {
    asked,   ///< it is on its way
    cached,  ///< it was there, or on its way, already
    failed,  ///< the kernel refuses read-ahead, or the descriptor reads past the page cache
  };

  /// `fd` stays the caller's. It must be an open file description of its own: the kernel keeps the
  /// state of read-ahead there, and the reader's must not be disturbed. `window_bytes`: the
  /// device's read-ahead window, a multiple of the page size.
  ReadAheadWalk(int fd, uint64_t window_bytes) noexcept;

  /// Asks for [offset, offset + bytes), bytes <= window. Ranges that follow one another are
  /// cheapest. Returns without waiting for the device, but for room in its queue.
  [[nodiscard]] Answer ask(uint64_t offset, uint64_t bytes) noexcept;

  /// Asks for the range, of any length, and nothing beside it: by advice.
  [[nodiscard]] Answer ask_only(uint64_t offset, uint64_t bytes) noexcept;

 private:
  [[nodiscard]] bool touch(uint64_t offset) const noexcept;
  enum class Start : uint8_t { begun, there, refused };
  [[nodiscard]] Start start_at(uint64_t offset) const noexcept;
  [[nodiscard]] Answer ask_unseen(uint64_t offset, uint64_t bytes) noexcept;
  [[nodiscard]] Answer advise(uint64_t offset, uint64_t bytes) noexcept;

  int fd_;
  uint64_t window_bytes_;
  bool is_buffered_ = false;   // reads through the page cache
  uint64_t window_begin_ = 0;  // of the last window asked for
  uint64_t next_ = 0;          // where the walk goes on; 0: nowhere
  bool walks_ = true;          // false: RWF_NOWAIT is not to be had
};

}  // namespace ioweave::engine
