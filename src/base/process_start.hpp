#pragma once

// When a process began, by which it is told from a later one of the same number.

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "base/append_number.hpp"

namespace ioweave {

/// What /proc/PID/stat says of a process.
struct ProcessStat {
  char state = '\0';   ///< 'Z' and 'X': it has ended
  uint64_t flags = 0;  ///< kExiting: its first thread is ending
  uint64_t threads = 0;
  static constexpr uint64_t kExiting = 4;  // PF_EXITING
  uint64_t start_time = 0;                 ///< in ticks since the boot; 0: there is no such process
};

[[nodiscard]] inline ProcessStat stat_of_process(int pid) noexcept {
  char path[40];
  stpcpy(append_number(stpcpy(path, "/proc/"), static_cast<uint64_t>(pid)), "/stat");
  char text[1024];
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t bytes = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  ProcessStat stat;
  if (bytes <= 0) return stat;
  text[bytes] = '\0';
  char* at = strrchr(text, ')');  // the name before it may hold anything
  if (at == nullptr || at[1] != ' ') return stat;
  stat.state = at[2];
  at += 3;
  for (int field = 4; field <= 22; ++field) {
    const uint64_t value = strtoull(at, &at, 10);  // of a negative number nothing is wanted
    if (field == 9) stat.flags = value;
    if (field == 20) stat.threads = value;
    if (field == 22) stat.start_time = value;
  }
  return stat;
}

/// Returns its start in ticks since the boot, or 0.
[[nodiscard]] inline uint64_t start_time_of_process(int pid) noexcept {
  return stat_of_process(pid).start_time;
}

}  // namespace ioweave
