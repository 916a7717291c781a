#pragma once

// Whether it pays to lay the buffers of a program's transfers past the page cache in large pages.
// Pure logic without I/O, clock, thread or lock. It may lie in shared memory.
//
// How it works. A device gets the memory of such a transfer as a list of ranges that adjoin. With
// pages of 4 KiB that is one for each; on the disk of a virtual machine, lists of that length take
// most of the time (docs/decisions/0020-large-pages.md). Whoever makes the transfers lays a part of
// a buffer in large pages, as much as allowance_ns() lets him, and tells how long each transfer
// took, and how much of it lay there. The best paces before and after are compared, for each
// operation and range of sizes. Where large pages do not make a tenth of difference, no more is
// done.
//
// What that may cost is bounded: until it is known to pay, by 25 ms and a sixteenth of the time
// that such transfers have taken; then by a quarter of it, which the next uses of the buffer bring
// back.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "choice/expectation.hpp"

namespace ioweave::choice {

/// Smaller transfers gain little.
inline constexpr uint64_t kLeastLargeBytes = 256 << 10;

/// Over all files of a process. One thread at a time.
class LargePages {
 public:
  enum class Verdict : uint8_t { unknown, pays, pays_not };
  static constexpr size_t kVerdicts = 3;

  /// Transfers of one operation and range of sizes (class_of()).
  struct Kind {
    float small_pace =
        0;  ///< the best of a buffer in small pages, in ns per byte; 0: none was seen
    float large_pace = 0;  ///< of one that lies in large pages by three eighths or more
    uint32_t small = 0;    ///< how many transfers that is of
    uint32_t large = 0;
    Verdict verdict = Verdict::unknown;
  };

  /// Returns for how long buffers of this kind may be laid in large pages now.
  [[nodiscard]] uint64_t allowance_ns(Operation operation, size_t size_class) const noexcept;
  /// So many bytes were laid in large pages, or none could be, which took so long.
  void note_conversion(uint64_t bytes, uint64_t ns) noexcept;
  /// A transfer was made, with so much of its buffer in large pages.
  void note_transfer(Operation operation, size_t size_class, uint64_t bytes, uint64_t large_bytes,
                     uint64_t ns) noexcept;

  // For whom it is explained to.
  [[nodiscard]] const Kind& kind(Operation operation, size_t size_class) const noexcept {
    return kinds_[static_cast<size_t>(operation)][size_class];
  }
  [[nodiscard]] uint64_t converted_bytes() const noexcept { return converted_bytes_; }
  [[nodiscard]] uint64_t converting_ns() const noexcept { return converting_ns_; }

 private:
  std::array<std::array<Kind, kSizeClasses>, kOperations> kinds_{};
  uint64_t transfer_ns_ = 0;
  uint64_t converted_bytes_ = 0;
  uint64_t converting_ns_ = 0;
};

inline constexpr std::array<std::string_view, LargePages::kVerdicts> kVerdictNames{
    "unknown", "pays", "does not pay"};

static_assert(std::is_trivially_copyable_v<LargePages> && std::is_standard_layout_v<LargePages>);

}  // namespace ioweave::choice
