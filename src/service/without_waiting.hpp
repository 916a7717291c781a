#pragma once

// What a transfer is for the caches and the devices: what can be done of it without waiting.

#include <cstdint>

#include "service/on_the_spot.hpp"
#include "service/request.hpp"

namespace ioweave::service {

[[nodiscard]] inline bool is_read(engine::Op op) noexcept {
  return op == engine::Op::read || op == engine::Op::readv;
}

[[nodiscard]] inline bool is_transfer(engine::Op op) noexcept {
  return is_read(op) || op == engine::Op::write || op == engine::Op::writev;
}

/// No result: the operation would wait for a device.
inline constexpr int64_t kWouldWait = INT64_MIN;

/// The operation's result where it can be had without waiting for a device, else kWouldWait. Leaves
/// the descriptor's flags in the operation. `cached_writes`: whether writing into the page cache is
/// worth it.
[[nodiscard]] int64_t perform_without_waiting(engine::Operation& operation,
                                              OnTheSpot& cached_writes) noexcept;

/// Whether a transfer goes past the page cache. perform_without_waiting() has been called.
[[nodiscard]] bool passes_cache(const engine::Operation& operation) noexcept;

/// Whether a write past the page cache makes its file longer. The kernel does one of these at a
/// time for a file, from begin to end, with a lock in hand that io_uring's threads hand to each
/// other: 10,000 of 4 KiB took 12 to 17 s beside nOS-V's workers, and 1 to 2 s by our own
/// (ext4, 6.18).
[[nodiscard]] bool extends_file(const engine::Operation& operation) noexcept;

/// Pipes, sockets and the like, where a positional call is an error and io_uring would use the
/// stream.
[[nodiscard]] bool is_stream(const engine::Operation& operation) noexcept;

}  // namespace ioweave::service
