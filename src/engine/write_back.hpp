#pragma once

// Early write-back: the kernel writes changed pages when their turn comes, and a later fsync(2)
// then waits for all of them. Asked for it at once, the device works while the program computes.

#include <algorithm>
#include <cstdint>

#include <fcntl.h>

#include "engine/backend.hpp"
#include "engine/raw_syscall.hpp"

namespace ioweave::engine {

/// Carries out Op::write_back, whatever its length: one system call tells nothing of how far it
/// came. 0 or -errno: -ESPIPE for what is no file. It may sleep while the device's queue is full.
inline long begin_write_back(const Operation& operation) noexcept {
  const uint64_t most = static_cast<uint64_t>(INT64_MAX - operation.offset);  // else -EINVAL
  return raw_syscall(SYS_sync_file_range, operation.fd, operation.offset,
                     std::min(operation.length, most), SYNC_FILE_RANGE_WRITE);
}

}  // namespace ioweave::engine
