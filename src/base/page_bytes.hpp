#pragma once

#include <cstdint>

#include <unistd.h>

namespace ioweave {

/// Returns the size of a page of memory. Of the C library's own knowledge, no system call.
inline uint64_t page_bytes() noexcept {
  return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace ioweave
