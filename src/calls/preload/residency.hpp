#pragma once

#include <cstdint>

namespace ioweave::calls {

/// Whether [offset, offset + bytes) of a file, bytes > 0, is in the page cache already. Errs
/// towards false; never waits for the device. cachestat(2) where it is allowed (6.5), else a look
/// at the first and the last byte by a read that must not block.
[[nodiscard]] bool is_resident(int fd, uint64_t offset, uint64_t bytes) noexcept;

}  // namespace ioweave::calls
