#include "service/inline_io.hpp"

#include <cerrno>

#include "engine/backends.hpp"
#include "engine/prefetch.hpp"
#include "engine/raw_syscall.hpp"
#include "engine/write_back.hpp"

namespace ioweave::service {
namespace {

// Raw: callers may be noexcept, where a cancellation point would end the program.
using engine::raw_syscall;

bool is_current(const engine::Operation& operation) noexcept {
  return operation.offset == engine::kCurrentPosition;
}

int64_t move_one(long at_position, long at_offset, const engine::Operation& operation) noexcept {
  return is_current(operation)
             ? raw_syscall(at_position, operation.fd, operation.buffer, operation.length)
             : raw_syscall(at_offset, operation.fd, operation.buffer, operation.length,
                           operation.offset);
}

int64_t move_vectors(long at_position, long at_offset,
                     const engine::Operation& operation) noexcept {
  return is_current(operation)
             ? raw_syscall(at_position, operation.fd, operation.vectors, operation.vector_count)
             : raw_syscall(at_offset, operation.fd, operation.vectors, operation.vector_count,
                           operation.offset, 0);
}

int64_t prefetch_one(const engine::Operation& operation) noexcept {
  engine::ReadAheadWindows windows;
  const std::atomic<bool> never{false};
  return engine::prefetch(operation.fd, operation.offset, engine::transfer_bytes(operation),
                          windows, never);
}

}  // namespace

int64_t perform_inline(const engine::Operation& operation) noexcept {
  switch (operation.op) {
    case engine::Op::nop:
      return 0;
    case engine::Op::read:
      return move_one(SYS_read, SYS_pread64, operation);
    case engine::Op::write:
      return move_one(SYS_write, SYS_pwrite64, operation);
    case engine::Op::readv:
      return move_vectors(SYS_readv, SYS_preadv, operation);
    case engine::Op::writev:
      return move_vectors(SYS_writev, SYS_pwritev, operation);
    case engine::Op::fsync:
      return raw_syscall(SYS_fsync, operation.fd);
    case engine::Op::fdatasync:
      return raw_syscall(SYS_fdatasync, operation.fd);
    case engine::Op::prefetch:
      return prefetch_one(operation);
    case engine::Op::write_back:
      return engine::begin_write_back(operation);
  }
  return -EINVAL;
}

int64_t perform_inline_as_engine(const engine::Operation& operation) noexcept {
  const int64_t result = perform_inline(operation);
  const bool is_transfer =
      operation.op != engine::Op::prefetch && operation.op != engine::Op::write_back;
  if (result != -ESPIPE || operation.offset < 0 || !is_transfer) {
    return result;
  }
  engine::Operation of_stream = operation;
  of_stream.offset = engine::kCurrentPosition;
  return perform_inline(of_stream);
}

void perform_rest(iow_request& request,
                  int64_t (*perform)(const engine::Operation&) noexcept) noexcept {
  while (advance(request, perform(journey_of(request).operation)) != Step::complete) {
  }
}

}  // namespace ioweave::service
