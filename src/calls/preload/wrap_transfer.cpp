// read(2), write(2) and their relatives.

#include <cstddef>

#include "calls/libc/real.hpp"
#include "calls/libc/wrap.hpp"
#include "calls/preload/observe.hpp"

namespace ioweave::calls {
namespace {

using engine::Op;
using stats::CallClass;

constexpr int64_t kPosition = engine::kCurrentPosition;

/// In a positional call a negative offset is the kernel's to refuse, -1 included.
constexpr int64_t make_positional(off_t offset) {
  return offset < 0 ? -2 : offset;
}

Transfer describe_buffer(Op op, int fd, const void* buffer, size_t bytes, int64_t offset) {
  return {op, fd, const_cast<void*>(buffer), bytes, offset};
}

/// A count the kernel would refuse is passed on as no vectors at all: the real call refuses it.
Transfer describe_vectors(Op op, int fd, const iovec* vectors, int count, int64_t offset) {
  return describe_buffer(op, fd, vectors, count > 0 ? static_cast<size_t>(count) : 0, offset);
}

/// preadv2(2) with flags asks for more than a plain transfer.
Transfer describe_flagged(Transfer transfer, int flags) {
  transfer.bytes = flags == 0 ? transfer.bytes : 0;
  return transfer;
}

}  // namespace

// ---- Reads --------------------------------------------------------------------------------------

IOWEAVE_WRAP(ssize_t, read, (int fd, void* buffer, size_t bytes)) {
  return perform_transfer<CallClass::read>(
      fd, kPosition, [=] { return real::read(fd, buffer, bytes); },
      [=] { return describe_buffer(Op::read, fd, buffer, bytes, kPosition); });
}

IOWEAVE_WRAP(ssize_t, pread, (int fd, void* buffer, size_t bytes, off_t offset)) {
  return perform_transfer<CallClass::read>(
      fd, make_positional(offset), [=] { return real::pread(fd, buffer, bytes, offset); },
      [=] { return describe_buffer(Op::read, fd, buffer, bytes, make_positional(offset)); });
}

// The checked variants abort where the buffer is too small: then the real one must see the call.
IOWEAVE_WRAP(ssize_t, __read_chk, (int fd, void* buffer, size_t bytes, size_t size)) {
  return bytes <= size ? wrapped_read(fd, buffer, bytes)
                       : real::__read_chk(fd, buffer, bytes, size);
}

IOWEAVE_WRAP(ssize_t, __pread_chk,
             (int fd, void* buffer, size_t bytes, off_t offset, size_t size)) {
  return bytes <= size ? wrapped_pread(fd, buffer, bytes, offset)
                       : real::__pread_chk(fd, buffer, bytes, offset, size);
}

IOWEAVE_WRAP(ssize_t, readv, (int fd, const iovec* vectors, int count)) {
  return perform_transfer<CallClass::read>(
      fd, kPosition, [=] { return real::readv(fd, vectors, count); },
      [=] { return describe_vectors(Op::readv, fd, vectors, count, kPosition); });
}

IOWEAVE_WRAP(ssize_t, preadv, (int fd, const iovec* vectors, int count, off_t offset)) {
  return perform_transfer<CallClass::read>(
      fd, make_positional(offset), [=] { return real::preadv(fd, vectors, count, offset); },
      [=] { return describe_vectors(Op::readv, fd, vectors, count, make_positional(offset)); });
}

IOWEAVE_WRAP(ssize_t, preadv2, (int fd, const iovec* vectors, int count, off_t offset, int flags)) {
  return perform_transfer<CallClass::read>(
      fd, offset, [=] { return real::preadv2(fd, vectors, count, offset, flags); },
      [=] {
        return describe_flagged(describe_vectors(Op::readv, fd, vectors, count, offset), flags);
      });
}

// ---- Writes -------------------------------------------------------------------------------------

IOWEAVE_WRAP(ssize_t, write, (int fd, const void* buffer, size_t bytes)) {
  return perform_transfer<CallClass::write>(
      fd, kPosition, [=] { return real::write(fd, buffer, bytes); },
      [=] { return describe_buffer(Op::write, fd, buffer, bytes, kPosition); });
}

IOWEAVE_WRAP(ssize_t, pwrite, (int fd, const void* buffer, size_t bytes, off_t offset)) {
  return perform_transfer<CallClass::write>(
      fd, make_positional(offset), [=] { return real::pwrite(fd, buffer, bytes, offset); },
      [=] { return describe_buffer(Op::write, fd, buffer, bytes, make_positional(offset)); });
}

IOWEAVE_WRAP(ssize_t, writev, (int fd, const iovec* vectors, int count)) {
  return perform_transfer<CallClass::write>(
      fd, kPosition, [=] { return real::writev(fd, vectors, count); },
      [=] { return describe_vectors(Op::writev, fd, vectors, count, kPosition); });
}

IOWEAVE_WRAP(ssize_t, pwritev, (int fd, const iovec* vectors, int count, off_t offset)) {
  return perform_transfer<CallClass::write>(
      fd, make_positional(offset), [=] { return real::pwritev(fd, vectors, count, offset); },
      [=] { return describe_vectors(Op::writev, fd, vectors, count, make_positional(offset)); });
}

IOWEAVE_WRAP(ssize_t, pwritev2,
             (int fd, const iovec* vectors, int count, off_t offset, int flags)) {
  return perform_transfer<CallClass::write>(
      fd, offset, [=] { return real::pwritev2(fd, vectors, count, offset, flags); },
      [=] {
        return describe_flagged(describe_vectors(Op::writev, fd, vectors, count, offset), flags);
      });
}

// ---- Between descriptors ------------------------------------------------------------------------

IOWEAVE_WRAP(ssize_t, sendfile, (int to, int from, off_t* offset, size_t bytes)) {
  return move_between(from, offset, to, [=] { return real::sendfile(to, from, offset, bytes); });
}

IOWEAVE_WRAP(ssize_t, copy_file_range,
             (int from, off_t* from_at, int to, off_t* to_at, size_t bytes, unsigned flags)) {
  return move_between(from, from_at, to, [=] {
    return real::copy_file_range(from, from_at, to, to_at, bytes, flags);
  });
}

IOWEAVE_WRAP(ssize_t, splice,
             (int from, off_t* from_at, int to, off_t* to_at, size_t bytes, unsigned flags)) {
  return move_between(from, from_at, to,
                      [=] { return real::splice(from, from_at, to, to_at, bytes, flags); });
}

IOWEAVE_VARIANTS(IOWEAVE_TASK_CALLS)
IOWEAVE_VARIANTS(IOWEAVE_TRANSFERS)

}  // namespace ioweave::calls
