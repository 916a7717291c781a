#include "service/without_waiting.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/clock.hpp"
#include "engine/backends.hpp"
#include "service/inline_io.hpp"

namespace ioweave::service {
namespace {

/// What is there without waiting, or kWouldWait.
int64_t read_cached(const engine::Operation& operation) noexcept {
  const iovec one{operation.buffer, operation.length};
  const bool vectored = operation.op == engine::Op::readv;
  const long result =
      engine::raw_syscall(SYS_preadv2, operation.fd, vectored ? operation.vectors : &one,
                          vectored ? operation.vector_count : 1u, operation.offset, 0, RWF_NOWAIT);
  switch (result) {
    case 0:  // the end of the file; Linux 5.9 and 5.10 say so in its midst, too
      return perform_inline(operation);
    case -EAGAIN:
    case -EOPNOTSUPP:  // a file system that cannot say so
    case -EINTR:       // may be told for what it never tried
      return kWouldWait;
    default:
      return result;
  }
}

uint64_t bytes_of(const engine::Operation& operation) noexcept {
  if (operation.op == engine::Op::read || operation.op == engine::Op::write) {
    return operation.length;
  }
  uint64_t sum = 0;
  for (uint32_t i = 0; i < operation.vector_count; ++i) {
    sum += operation.vectors[i].iov_len;
  }
  return sum;
}

int64_t write_cached(const engine::Operation& operation, OnTheSpot& writes) noexcept {
  if (!writes.is_worth_it()) {
    return kWouldWait;
  }
  const uint64_t begin = now_ns();
  const int64_t result = perform_inline(operation);
  writes.note_duration(bytes_of(operation), now_ns() - begin);
  return result;
}

}  // namespace

int64_t perform_without_waiting(engine::Operation& operation, OnTheSpot& cached_writes) noexcept {
  if (!is_transfer(operation.op)) {
    return operation.op == engine::Op::nop ? 0 : kWouldWait;
  }
  if (bytes_of(operation) == 0) {
    return perform_inline(operation);  // waits for nothing; preadv2(2) leaves out some checks
  }
  const long flags = engine::find_descriptor_flags(operation);
  if (flags < 0) {
    return flags;
  }
  operation.descriptor_flags = static_cast<int32_t>(flags);
  const int waits = is_read(operation.op) ? O_DIRECT : O_DIRECT | O_SYNC | O_DSYNC;
  if ((flags & waits) != 0) {
    return kWouldWait;
  }
  return is_read(operation.op) ? read_cached(operation) : write_cached(operation, cached_writes);
}

bool passes_cache(const engine::Operation& operation) noexcept {
  return is_transfer(operation.op) && operation.descriptor_flags >= 0 &&
         (operation.descriptor_flags & O_DIRECT) != 0;
}

bool extends_file(const engine::Operation& operation) noexcept {
  struct stat status {};
  return (operation.op == engine::Op::write || operation.op == engine::Op::writev) &&
         engine::raw_syscall(SYS_fstat, operation.fd, &status) == 0 && S_ISREG(status.st_mode) &&
         ((operation.descriptor_flags & O_APPEND) != 0 || operation.offset > status.st_size ||
          bytes_of(operation) > static_cast<uint64_t>(status.st_size - operation.offset));
}

/// The kernel tells by a call that moves nothing; that lseek(2) works is another matter.
bool is_stream(const engine::Operation& operation) noexcept {
  const long number = is_read(operation.op) ? SYS_preadv : SYS_pwritev;
  return engine::raw_syscall(number, operation.fd, nullptr, 0, 0, 0) == -ESPIPE;
}

}  // namespace ioweave::service
