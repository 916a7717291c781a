#pragma once

// Flags of a stream's requests.

#include <cstdint>

#include "ioweave/ioweave.h"

namespace ioweave::stream {

/// Below, a kernel thread costs more than trying in vain.
inline constexpr uint64_t kLeastHandedOver = 64 << 10;

/// For a transfer of so many bytes. Files of FUSE always poll as ready, so io_uring tries their
/// transfers up to 128 times before it hands them over to a kernel thread.
[[nodiscard]] constexpr uint8_t transfer_flags(bool is_on_fuse, uint64_t bytes) noexcept {
  return is_on_fuse && bytes >= kLeastHandedOver ? uint8_t{IOW_ASYNC} : uint8_t{0};
}

}  // namespace ioweave::stream
