#include "service/request.hpp"

#include <cerrno>
#include <climits>

namespace ioweave::service {
namespace {

constexpr unsigned kKnownFlags =
    IOW_MORE | IOW_NOWAIT | IOW_CALLBACK_ON_POLL | IOW_EXACT | IOW_ASYNC;

/// -EAGAIN from a descriptor that is non-blocking for its own reasons must reach the caller; from
/// the kernel's passing shortages it goes away.
constexpr uint8_t kMostAttempts = 16;

bool is_vectored(const iow_request& request) noexcept {
  return request.op == IOW_OP_READV || request.op == IOW_OP_WRITEV;
}

bool has_range(const iow_request& request) noexcept {
  return request.op == IOW_OP_READ || request.op == IOW_OP_WRITE || is_vectored(request) ||
         request.op == IOW_OP_PREFETCH || request.op == IOW_OP_WRITE_BACK;
}

/// Bytes of all vectors, or -EINVAL as readv(2).
int64_t vector_bytes(const iow_request& request) noexcept {
  if (request.bytes > IOV_MAX || (request.bytes > 0 && request.buffer == nullptr)) {
    return -EINVAL;
  }
  const auto* vectors = static_cast<const iovec*>(request.buffer);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < request.bytes; ++i) {
    if (vectors[i].iov_len > static_cast<uint64_t>(SSIZE_MAX) - sum) {
      return -EINVAL;
    }
    sum += vectors[i].iov_len;
  }
  return static_cast<int64_t>(sum);
}

/// Bytes to move, or -EINVAL.
int64_t checked_bytes(const iow_request& request) noexcept {
  if (request.op > IOW_OP_WRITE_BACK || (request.flags & ~kKnownFlags) != 0) {
    return -EINVAL;
  }
  if (!has_range(request)) {
    return 0;
  }
  const bool has_position = request.op != IOW_OP_PREFETCH && request.op != IOW_OP_WRITE_BACK;
  const int64_t lowest_offset = has_position ? engine::kCurrentPosition : 0;
  if (request.offset < lowest_offset) {
    return -EINVAL;
  }
  if (is_vectored(request)) {
    return vector_bytes(request);
  }
  return request.bytes > static_cast<uint64_t>(SSIZE_MAX) ? -EINVAL
                                                          : static_cast<int64_t>(request.bytes);
}

bool is_exact(const iow_request& request) noexcept {
  return (request.flags & IOW_EXACT) != 0 ||
         (has_range(request) && request.offset == engine::kCurrentPosition);
}

/// The vectors from `done` bytes on: the rest of a vector that was cut is an operation of its own,
/// as the caller's array is not ours to change.
void load_vectors(const iow_request& request, uint64_t done,
                  engine::Operation& operation) noexcept {
  const auto* vectors = static_cast<const iovec*>(request.buffer);
  uint64_t index = 0;
  while (index < request.bytes && done >= vectors[index].iov_len && done > 0) {
    done -= vectors[index].iov_len;
    ++index;
  }
  if (done > 0) {
    operation.op = request.op == IOW_OP_READV ? engine::Op::read : engine::Op::write;
    operation.buffer = static_cast<std::byte*>(vectors[index].iov_base) + done;
    operation.length = vectors[index].iov_len - done;
    return;
  }
  operation.vectors = vectors + index;
  operation.vector_count = static_cast<uint32_t>(request.bytes - index);
}

bool worth_repeating(const Journey& journey, int64_t result) noexcept {
  switch (result) {
    case -EINTR:
      return true;
    case -EAGAIN:
      return journey.attempts < kMostAttempts;
    case -ECANCELED:  // a thread that exits cancels what it submitted; transfers are idempotent
      return !journey.cancel_wanted.load(std::memory_order_relaxed) &&
             journey.attempts < kMostAttempts;
    default:
      return false;
  }
}

}  // namespace

int begin_journey(iow_request& request) noexcept {
  const int64_t bytes = checked_bytes(request);
  if (bytes < 0) {
    return static_cast<int>(bytes);
  }
  Journey& journey = journey_of(request);
  if (!journey.event.prepare()) {
    return -EBUSY;
  }
  journey.station.store(Station::none, std::memory_order_relaxed);
  journey.cancel_wanted.store(false, std::memory_order_relaxed);
  journey.attempts = 0;
  journey.counted = false;
  journey.managed = false;
  journey.way = Way::engine;
  journey.lane.store(nullptr, std::memory_order_relaxed);
  journey.home = nullptr;
  journey.done_bytes = 0;
  journey.total_bytes = static_cast<uint64_t>(bytes);
  journey.operation.descriptor_flags = -1;
  load_operation(request);
  return 0;
}

void load_operation(iow_request& request) noexcept {
  static_assert(static_cast<int>(engine::Op::write_back) == IOW_OP_WRITE_BACK &&
                static_cast<int>(engine::Op::fdatasync) == IOW_OP_FDATASYNC &&
                static_cast<int>(engine::Op::writev) == IOW_OP_WRITEV);
  Journey& journey = journey_of(request);
  engine::Operation& operation = journey.operation;
  const uint64_t done = journey.done_bytes;
  operation.op = static_cast<engine::Op>(request.op);
  operation.fixed_buffer = request.fixed_buffer;
  operation.fixed_file = request.fixed_file;
  operation.fd = request.fd;
  operation.hand_over = (request.flags & IOW_ASYNC) != 0;
  operation.whole = is_exact(request);
  operation.offset = request.offset == engine::kCurrentPosition
                         ? engine::kCurrentPosition
                         : request.offset + static_cast<int64_t>(done);
  if (is_vectored(request)) {
    load_vectors(request, done, operation);
  } else {
    operation.buffer = static_cast<std::byte*>(request.buffer) + done;
    operation.length = journey.total_bytes - done;
  }
}

Step advance(iow_request& request, int64_t result) noexcept {
  Journey& journey = journey_of(request);
  const bool exact = is_exact(request);
  // What the kernel cancelled unasked is no result of a system call.
  if (result < 0 && (!exact || result == -ECANCELED) && worth_repeating(journey, result)) {
    ++journey.attempts;
    return Step::reissued;
  }
  if (!exact) {
    if (result > 0) {
      journey.attempts = 0;
      journey.done_bytes += static_cast<uint64_t>(result);
      // A prefetch that ended early met the end of the file; a read learns that from a zero.
      const bool more = journey.done_bytes < journey.total_bytes &&
                        (request.op != IOW_OP_PREFETCH ||
                         static_cast<uint64_t>(result) == engine::kMaxTransferBytes);
      if (more) {
        load_operation(request);
        return Step::continued;
      }
    }
    if (journey.done_bytes > 0) {
      result = static_cast<int64_t>(journey.done_bytes);  // also before an error, as write(2)
    }
  }
  request.result = result;
  return Step::complete;
}

}  // namespace ioweave::service
