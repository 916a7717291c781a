#pragma once

// What is expected of each way before a call was made: of calls on one device, by operation and
// size. Pure data, which the command hands to the processes of a run.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "choice/way_choice.hpp"

namespace ioweave::choice {

enum class Operation : uint8_t { read, write };
inline constexpr size_t kOperations = 2;
inline constexpr std::array<std::string_view, kOperations> kOperationNames{"read", "write"};

/// How Way::pieces cuts a transfer. Without a profile, as a virtual disk wrote 1.4 to 2 times as
/// fast as with one transfer of 1 to 64 MiB (docs/decisions/0019-the-fastest-way.md).
struct Pieces {
  uint64_t bytes = 256 << 10;  ///< of an operation; 0: the transfer is not cut
  uint32_t at_once = 8;        ///< operations under way, at most kMostAtOnce

  auto operator<=>(const Pieces&) const = default;
};
inline constexpr Pieces kWhole{0, 1};
inline constexpr uint32_t kMostAtOnce = 32;
/// Larger writes gain nothing by Way::behind: they are copied once more, and join to nothing.
inline constexpr uint64_t kMostHeldBytes = 256 << 10;

/// Calls of similar size behave alike. Sizes up to these bytes are a class each, with those above
/// the last; calls with several buffers, whose sum is not looked at, are the class behind them.
inline constexpr std::array<uint64_t, 7> kClassBytes{4096,     16384,    65536,    262144,
                                                     1u << 20, 4u << 20, 16u << 20};
inline constexpr size_t kVectored = kClassBytes.size() + 1;
inline constexpr size_t kSizeClasses = kVectored + 1;

[[nodiscard]] constexpr size_t class_of(uint64_t bytes) noexcept {
  size_t number = 0;
  while (number < kClassBytes.size() && bytes > kClassBytes[number]) ++number;
  return number;
}

/// Of one device.
struct Expectation {
  uint64_t device = 0;  ///< st_dev; 0: this is none
  std::array<std::array<Expected, kSizeClasses>, kOperations> of{};
  std::array<Pieces, kOperations> pieces{};
};

}  // namespace ioweave::choice
