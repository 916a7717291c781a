#pragma once

// Early write-back: the kernel writes changed pages when their turn comes, and a later fsync(2)
// then waits for all of them. Asked for it at once, the device works while the program computes.

#include <fcntl.h>

#include "engine/backend.hpp"
#include "engine/backends.hpp"
#include "engine/raw_syscall.hpp"

namespace ioweave::engine {

/// Carries out Op::write_back. 0 or -errno: -ESPIPE for what is no file. It may sleep while the
/// device's queue is full.
inline long begin_write_back(const Operation& operation) noexcept {
  return raw_syscall(SYS_sync_file_range, operation.fd, operation.offset, transfer_bytes(operation),
                     SYNC_FILE_RANGE_WRITE);
}

}  // namespace ioweave::engine
