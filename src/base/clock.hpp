#pragma once

#include <cstdint>
#include <ctime>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace ioweave {

/// Returns CLOCK_MONOTONIC in nanoseconds. A call takes about 25 ns through the vDSO.
inline uint64_t now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

/// Returns the cheapest steady counter of the machine: the TSC on x86-64, the virtual counter on
/// aarch64, nanoseconds elsewhere. The interposer uses it because the vDSO would cost a cached read
/// too much. Whoever reads the figures finds its rate from two (ticks, now_ns) pairs.
inline uint64_t now_ticks() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return now_ns();
#endif
}

}  // namespace ioweave
