#pragma once

// Whether it pays to lay the buffers of a program's transfers past the page cache in large pages.
// Pure logic without I/O, clock, thread or lock. It may lie in shared memory.
//
// How it works. A device gets the memory of such a transfer as a list of ranges that adjoin. With
// pages of 4 KiB that is one for each; on the disk of a virtual machine, lists of that length take
// most of the time (docs/decisions/0020-large-pages.md). Whoever makes the transfers lays a part of
// a buffer in large pages, as much as allowance_ns() lets him, and tells how long each transfer
// took, and how much of it lay there. The median paces before and after are compared, for each
// operation and range of sizes. Where large pages do not make a tenth of difference, nothing more
// is done, but for another try after eight times as many transfers.
//
// What that costs is bounded. A kind of transfers may try for 12 ms, and all kinds together for a
// 32nd of the time that transfers have taken. Beyond that they may take half of what was gained.

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

  /// The last paces, in ns per byte.
  class Paces {
   public:
    void add(float pace) noexcept { kept_[count_++ % kKept] = pace; }
    void clear() noexcept { count_ = 0; }
    [[nodiscard]] uint32_t count() const noexcept { return count_; }
    /// Returns 0 if there are none.
    [[nodiscard]] float median() const noexcept;

   private:
    static constexpr uint32_t kKept = 9;
    std::array<float, kKept> kept_{};
    uint32_t count_ = 0;
  };

  /// Transfers of one operation and range of sizes (class_of()).
  struct Kind {
    Paces small;  ///< of buffers in small pages
    Paces large;  ///< of buffers that lie in large pages by three eighths or more
    Verdict verdict = Verdict::unknown;
    uint64_t converting_ns = 0;
    uint64_t try_again = 0;  ///< when there were so many transfers
  };

  /// Returns for how long buffers of this kind may be laid in large pages now.
  [[nodiscard]] uint64_t allowance_ns(Operation operation, size_t size_class) const noexcept;
  /// For a transfer of this kind so many bytes were laid in large pages, or none could be, which
  /// took so long.
  void note_conversion(Operation operation, size_t size_class, uint64_t bytes,
                       uint64_t ns) noexcept;
  /// A whole transfer was made, with so much of its buffer in large pages.
  void note_transfer(Operation operation, size_t size_class, uint64_t bytes, uint64_t large_bytes,
                     uint64_t ns) noexcept;

  // For whom it is explained to.
  [[nodiscard]] const Kind& kind(Operation operation, size_t size_class) const noexcept {
    return kinds_[static_cast<size_t>(operation)][size_class];
  }
  [[nodiscard]] uint64_t converted_bytes() const noexcept { return converted_bytes_; }
  [[nodiscard]] uint64_t converting_ns() const noexcept { return converting_ns_; }

 private:
  [[nodiscard]] Kind& kind_to_change(Operation operation, size_t size_class) noexcept {
    return kinds_[static_cast<size_t>(operation)][size_class];
  }
  void judge(Kind& kind, double part) const noexcept;
  void give_up(Kind& kind) const noexcept;

  std::array<std::array<Kind, kSizeClasses>, kOperations> kinds_{};
  uint64_t transfers_ = 0;
  uint64_t transfer_ns_ = 0;
  uint64_t gained_ns_ = 0;
  uint64_t converted_bytes_ = 0;
  uint64_t converting_ns_ = 0;
  uint8_t is_too_slow_ = 0;  // the kernel takes long to find a large page
};

inline constexpr std::array<std::string_view, LargePages::kVerdicts> kVerdictNames{
    "unknown", "pays", "does not pay"};

static_assert(std::is_trivially_copyable_v<LargePages> && std::is_standard_layout_v<LargePages>);

}  // namespace ioweave::choice
