#include "service/inline_io.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

namespace ioweave::service {
namespace {

int64_t or_errno(int64_t result) noexcept {
  return result < 0 ? -errno : result;
}

int64_t read_one(const engine::Operation& operation) noexcept {
  return or_errno(
      operation.offset == engine::kCurrentPosition
          ? ::read(operation.fd, operation.buffer, operation.length)
          : ::pread(operation.fd, operation.buffer, operation.length, operation.offset));
}

int64_t write_one(const engine::Operation& operation) noexcept {
  return or_errno(
      operation.offset == engine::kCurrentPosition
          ? ::write(operation.fd, operation.buffer, operation.length)
          : ::pwrite(operation.fd, operation.buffer, operation.length, operation.offset));
}

int64_t read_vectors(const engine::Operation& operation) noexcept {
  const int count = static_cast<int>(operation.vector_count);
  return or_errno(operation.offset == engine::kCurrentPosition
                      ? ::readv(operation.fd, operation.vectors, count)
                      : ::preadv(operation.fd, operation.vectors, count, operation.offset));
}

int64_t write_vectors(const engine::Operation& operation) noexcept {
  const int count = static_cast<int>(operation.vector_count);
  return or_errno(operation.offset == engine::kCurrentPosition
                      ? ::writev(operation.fd, operation.vectors, count)
                      : ::pwritev(operation.fd, operation.vectors, count, operation.offset));
}

/// The hint only: a forked child or a process without threads has nobody to await it.
int64_t start_prefetch(const engine::Operation& operation) noexcept {
  const int error = ::posix_fadvise(operation.fd, operation.offset,
                                    static_cast<off_t>(operation.length), POSIX_FADV_WILLNEED);
  return error != 0 ? -error : static_cast<int64_t>(operation.length);
}

}  // namespace

int64_t perform_inline(const engine::Operation& operation) noexcept {
  switch (operation.op) {
    case engine::Op::nop:
      return 0;
    case engine::Op::read:
      return read_one(operation);
    case engine::Op::write:
      return write_one(operation);
    case engine::Op::readv:
      return read_vectors(operation);
    case engine::Op::writev:
      return write_vectors(operation);
    case engine::Op::fsync:
      return or_errno(::fsync(operation.fd));
    case engine::Op::fdatasync:
      return or_errno(::fdatasync(operation.fd));
    case engine::Op::prefetch:
      return start_prefetch(operation);
  }
  return -EINVAL;
}

int64_t perform_inline_as_engine(const engine::Operation& operation) noexcept {
  const int64_t result = perform_inline(operation);
  if (result != -ESPIPE || operation.offset < 0 || operation.op == engine::Op::prefetch) {
    return result;
  }
  engine::Operation of_stream = operation;
  of_stream.offset = engine::kCurrentPosition;
  return perform_inline(of_stream);
}

}  // namespace ioweave::service
