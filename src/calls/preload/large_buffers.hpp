#pragma once

// Lays the buffers of large transfers past the page cache in large pages, where that was found to
// pay (choice/large_pages.hpp).
//
// How it works. What counts are buffers that a program uses again. An *extent* is an aligned range
// of the size of a large page. It is laid in one when a transfer comes back to it: one that begins
// there no later than the one before, so that memory which is written once from end to end is left
// alone. The kernel does it at once and in place (MADV_COLLAPSE, Linux 6.1): addresses and contents
// stay, and the program's call follows as it is. An extent of which a page is not there is left
// alone. What is known of an extent is looked at again after 64 uses, since the program may have
// mapped something else there, and then after twice as many each time.

#include <array>
#include <atomic>
#include <cstdint>

#include "calls/preload/call_lane.hpp"
#include "choice/expectation.hpp"

namespace ioweave::calls {

/// The buffers of this process. Thread-safe, async-signal-safe. Constant-initialised.
class LargeBuffers {
 public:
  /// Whether a transfer is one that may gain.
  [[nodiscard]] static bool may_help(const Transfer& transfer) noexcept;
  /// Before a transfer that may. Returns how much of its buffer lies in large pages now.
  [[nodiscard]] uint64_t prepare(const Transfer& transfer) noexcept;
  /// After one that moved all that it should.
  void note(const Transfer& transfer, uint64_t large_bytes, uint64_t ns) noexcept;

  /// In a child after fork(2): whoever was converting something is a thread of the parent's.
  void became_child() noexcept { is_converting_.store(0, std::memory_order_relaxed); }

 private:
  enum class State : uint8_t { unknown, large, refused };
  /// What is known of an extent: one word, so that threads change it at once. A lost use costs
  /// nothing.
  struct Extent {
    uint64_t number = 0;  ///< its address over its size
    uint32_t begin = 0;   ///< where in it the last transfer began, in pages of 4 KiB
    uint32_t looks = 0;   ///< how often it was looked at
    State state = State::unknown;
    uint32_t uses = 0;  ///< since it was looked at
  };
  class Conversion;

  static constexpr uint32_t kExtents = 4096;  // 8 GiB of buffers
  static Extent unpacked(uint64_t word) noexcept;
  static uint64_t packed(const Extent& extent) noexcept;
  [[nodiscard]] static bool is_due(Extent& extent, uint32_t begin) noexcept;
  [[nodiscard]] std::atomic<uint64_t>* find(uint64_t number) noexcept;

  std::array<std::atomic<uint64_t>, kExtents> extents_{};
  std::atomic<uint32_t> is_converting_{0};  // by one thread at a time, so that the allowance holds
};

extern LargeBuffers large_buffers;

}  // namespace ioweave::calls
