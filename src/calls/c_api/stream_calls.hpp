#pragma once

// What the C interfaces of streams share: calls, leases, and how memory becomes buffers.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "calls/thread_errno.hpp"
#include "ioweave/streams.h"
#include "stream/write/write_parts.hpp"
#include "stream/write/write_stream.hpp"

struct iow_write_stream {
  ioweave::stream::WriteStream::Owner stream;
};

namespace ioweave::calls {

inline constexpr uint64_t kDefaultBufferBytes = 4 << 20;

/// A call that may pause its task: keeps errno, and counts its time.
class StreamCall {
 public:
  explicit StreamCall(stream::WriteStream& stream, bool durable = false) noexcept
      : stream_(stream), durable_(durable) {}
  ~StreamCall() { stream_.count_call(now_ns() - begin_, durable_); }
  StreamCall(const StreamCall&) = delete;
  StreamCall& operator=(const StreamCall&) = delete;

 private:
  const ThreadErrnoKept errno_kept_;
  stream::WriteStream& stream_;
  const bool durable_;
  const uint64_t begin_ = now_ns();
};

/// Ends the lease of the caller's struct and returns its buffer; null if it is none.
inline stream::WriteStream::Buffer* take_buffer(iow_lease* lease) noexcept {
  if (lease == nullptr) {
    return nullptr;
  }
  return static_cast<stream::WriteStream::Buffer*>(std::exchange(*lease, iow_lease{}).internal[0]);
}

/// Memory in buffers: what was asked for, and what it comes to.
struct BufferRoom {
  uint64_t buffer_bytes;
  uint64_t budget_bytes;  ///< 0: eight buffers, or what `usual_bytes` says
  uint32_t least;         ///< buffers that must fit, which a text calls `least_called`
  const char* least_called;
  uint64_t usual_bytes = UINT64_MAX;  ///< most of a budget left out, where two buffers fit
  uint32_t buffers = 0;
};

inline bool divide(BufferRoom& room, std::string& why) {
  constexpr uint64_t kMostBufferBytes = uint64_t{16} << 30;
  constexpr uint64_t kDefaultBuffers = 8;
  constexpr uint64_t kMostBuffers = 1 << 20;
  if (room.buffer_bytes < stream::kPageBytes || room.buffer_bytes > kMostBufferBytes) {
    why = "buffer_bytes must be 4096..17179869184, not " + std::to_string(room.buffer_bytes);
    return false;
  }
  const uint64_t page = stream::cache_page_bytes();
  room.buffer_bytes = (room.buffer_bytes + page - 1) & ~(page - 1);
  if (room.budget_bytes == 0) {
    const uint64_t fitting = room.usual_bytes / room.buffer_bytes;
    room.budget_bytes = std::clamp<uint64_t>(fitting, 2, kDefaultBuffers) * room.buffer_bytes;
  }
  const uint64_t buffers = room.budget_bytes / room.buffer_bytes;
  const std::string of_bytes = " of " + std::to_string(room.buffer_bytes) + " bytes: ";
  if (buffers < room.least) {
    why = "budget_bytes of " + std::to_string(room.budget_bytes) + " has no room for " +
          room.least_called + of_bytes + "raise budget_bytes or lower buffer_bytes";
    return false;
  }
  if (buffers > kMostBuffers) {
    why = "budget_bytes of " + std::to_string(room.budget_bytes) +
          " makes more than 1048576 buffers" + of_bytes + "raise buffer_bytes";
    return false;
  }
  room.buffers = static_cast<uint32_t>(buffers);
  return true;
}

}  // namespace ioweave::calls
