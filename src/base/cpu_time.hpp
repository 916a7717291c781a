#pragma once

#include <sys/resource.h>

namespace ioweave {

/// Returns the processor time of a usage, in user mode and in the kernel.
inline double cpu_seconds_of(const rusage& usage) noexcept {
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

/// Returns the processor time of all threads of this process, those of io_uring included.
inline double process_cpu_seconds() noexcept {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return cpu_seconds_of(usage);
}

}  // namespace ioweave
