#pragma once

// Lays the buffers of large transfers past the page cache in large pages, where that was found to
// pay (choice/large_pages.hpp).
//
// How it works. What counts are the buffers that a program uses again: an *extent*, an aligned
// range of the size of a large page, is laid in one when it is used for the second time. The kernel
// does it at once and in place (MADV_COLLAPSE, Linux 6.1): addresses and contents stay, and the
// program's call follows as it is. No memory is added: an extent is left alone of which a page is
// not there. What is known of an extent is looked at again after 64 uses, since the program may
// have mapped something else there; so is one that could not be laid in a large page.

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
  /// After it, if it moved something.
  void note(const Transfer& transfer, uint64_t bytes, uint64_t large_bytes, uint64_t ns) noexcept;

 private:
  /// The number of an extent (its address over its size), what is known of it, and how often it was
  /// used since: one word, so that threads change it at once. A lost use costs nothing.
  struct Extent {
    enum class State : uint8_t { small, large, refused };
    uint64_t number = 0;
    State state = State::small;
    uint32_t uses = 0;
  };
  static constexpr uint32_t kExtents = 4096;  // 8 GiB of buffers
  static Extent unpacked(uint64_t word) noexcept;
  static uint64_t packed(const Extent& extent) noexcept;
  [[nodiscard]] std::atomic<uint64_t>* find(uint64_t number) noexcept;

  std::array<std::atomic<uint64_t>, kExtents> extents_{};
};

extern LargeBuffers large_buffers;

}  // namespace ioweave::calls
