#pragma once

#include <cstdint>

namespace alpi_test {

/// One bit each; alpi_test.h says what they do.
enum Mode : uint32_t {
  kLateUnblock = 1u << 0,
  kImmediateUnblock = 1u << 1,
  kRelaxedUnblock = 1u << 2,
  kRelaxedDecrease = 1u << 3,
  kCountMisuse = 1u << 4,
  kRefuseForeignDecrease = 1u << 5,
  kRefuseForeignUnblock = 1u << 6,
  kNoBlocking = 1u << 7,
  kNoEvents = 1u << 8,
  kSpawnFails = 1u << 9,
  kBlockFails = 1u << 10,
  kIncreaseFails = 1u << 11,
  kCountUnblocks = 1u << 12,
  kParallelUnseen = 1u << 13,
  kYields = 1u << 14,
};

/// Thread-safe, both. Orders nothing.
[[nodiscard]] bool has(Mode mode) noexcept;
void set_modes(const char* words) noexcept;

/// Prints "alpi_test: <text>" to standard error and aborts.
[[noreturn]] __attribute__((format(printf, 1, 2))) void die(const char* format, ...) noexcept;

}  // namespace alpi_test
