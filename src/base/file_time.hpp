#pragma once

#include <cstdint>
#include <ctime>

#include <sys/stat.h>

namespace ioweave {

/// Returns a time of a file in nanoseconds since the epoch.
[[nodiscard]] constexpr int64_t in_ns(const timespec& time) noexcept {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}
[[nodiscard]] constexpr int64_t in_ns(const statx_timestamp& time) noexcept {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace ioweave
