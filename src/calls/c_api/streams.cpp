// The C interface of streams: checks what C cannot express, converts, and calls the stream.
// Contracts are in streams.h.

#include "ioweave/streams.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "calls/c_api/conversion.hpp"
#include "calls/c_api/stream_calls.hpp"
#include "calls/thread_errno.hpp"
#include "stream/write/write_stream.hpp"

using namespace ioweave;
using namespace ioweave::calls;
using stream::WriteStream;

namespace {

bool to_stream_options(const iow_write_stream_options& given, service::Service& service,
                       stream::WriteStreamOptions& options, std::string& why) {
  if (!in_range(number_of(given.overflow), IOW_OVERFLOW_BLOCK, IOW_OVERFLOW_SYNCHRONOUS, "overflow",
                why) ||
      !in_range(number_of(given.path), IOW_PATH_AUTO, IOW_PATH_BUFFERED, "path", why)) {
    return false;
  }
  options.overflow = given.overflow;
  options.path = given.path;
  options.flow = given.flow;
  options.huge_pages = given.small_pages == 0;
  if (!service.gate().knows(given.flow)) {
    why = "flow " + std::to_string(given.flow) + " was not created by iow_flow_create()";
    return false;
  }
  const bool is_synchronous = options.overflow == IOW_OVERFLOW_SYNCHRONOUS;
  BufferRoom room{
      given.buffer_bytes != 0 ? given.buffer_bytes : kDefaultBufferBytes, given.budget_bytes,
      is_synchronous ? 2u : 1u,
      is_synchronous ? "the two buffers that IOW_OVERFLOW_SYNCHRONOUS needs" : "a buffer"};
  if (!divide(room, why)) {
    return false;
  }
  options.buffer_bytes = room.buffer_bytes;
  options.buffers = room.buffers;
  options.depth = given.depth != 0 ? std::min(given.depth, options.buffers) : options.buffers;
  return true;
}

int write_lease(iow_lease* lease, int file, uint64_t bytes, int64_t offset) noexcept {
  WriteStream::Buffer* const buffer = take_buffer(lease);
  if (buffer == nullptr) {
    return -EINVAL;
  }
  WriteStream& stream = WriteStream::stream_of(*buffer);
  if (stream.is_inherited()) {
    return -ECANCELED;
  }
  const ThreadErrnoKept kept;
  return stream.write(*buffer, file, bytes, offset);
}

int reach_async(iow_write_stream* stream, int file, bool durable, iow_reached reached,
                void* user) noexcept {
  if (reached == nullptr) {
    return -EINVAL;
  }
  if (stream->stream->is_inherited()) {
    return -ECANCELED;
  }
  const ErrnoKept kept;
  return guarded(nullptr,
                 [&] { return stream->stream->reach_async(file, durable, reached, user); });
}

}  // namespace

int iow_write_stream_open(iow_service* service, iow_write_stream** stream,
                          const iow_write_stream_options* options, char** error_text) noexcept {
  return open_on(service, stream, "stream", error_text,
                 [&](service::Service& of, iow_write_stream*& handle, std::string& why) {
                   iow_write_stream_options given;
                   stream::WriteStreamOptions wanted;
                   if (!read_options(options, given, "iow_write_stream_options", why) ||
                       !to_stream_options(given, of, wanted, why)) {
                     return -EINVAL;
                   }
                   WriteStream::Owner opened = WriteStream::open(of, wanted);
                   if (opened == nullptr) {
                     return -ENOMEM;
                   }
                   handle = new (std::nothrow) iow_write_stream{std::move(opened)};
                   return handle != nullptr ? 0 : -ENOMEM;
                 });
}

int iow_write_stream_create(iow_write_stream* stream, const char* path,
                            const iow_write_file_options* options, char** error_text) noexcept {
  give_text(error_text, {});
  if (stream->stream->is_inherited()) {
    return -ECANCELED;
  }
  const StreamCall call(*stream->stream);
  return guarded(error_text, [&]() -> int {
    iow_write_file_options given;
    std::string why;
    int result = -EINVAL;
    if (path == nullptr) {
      why = "path must not be NULL";
    } else if (read_options(options, given, "iow_write_file_options", why)) {
      result = stream->stream->create(path, given, why);
    }
    if (result < 0) {
      give_text(error_text, why);
    }
    return result;
  });
}

int iow_lease_begin(iow_write_stream* stream, iow_lease* lease, int64_t timeout_ns) noexcept {
  *lease = {};
  if (stream->stream->is_inherited()) {
    return -ECANCELED;
  }
  const StreamCall call(*stream->stream);
  WriteStream::Buffer* buffer = nullptr;
  const int error = stream->stream->lease(buffer, timeout_ns);
  if (error == 0) {
    *lease = WriteStream::lease_of(*buffer);
  }
  return error;
}

int iow_lease_begin_async(iow_write_stream* stream, iow_leased leased, void* user) noexcept {
  if (leased == nullptr) {
    return -EINVAL;
  }
  if (stream->stream->is_inherited()) {
    return -ECANCELED;
  }
  const ErrnoKept kept;
  return guarded(nullptr, [&] { return stream->stream->lease_async(leased, user); });
}

int iow_lease_write(iow_lease* lease, int file, uint64_t bytes, int64_t offset) noexcept {
  if (offset < 0) {
    iow_lease_end(lease);
    return -EINVAL;
  }
  return write_lease(lease, file, bytes, offset);
}

int iow_lease_append(iow_lease* lease, int file, uint64_t bytes) noexcept {
  return write_lease(lease, file, bytes, WriteStream::kAppend);
}

void iow_lease_end(iow_lease* lease) noexcept {
  const ErrnoKept kept;
  if (WriteStream::Buffer* const buffer = take_buffer(lease); buffer != nullptr) {
    WriteStream::stream_of(*buffer).end_lease(*buffer);
  }
}

int iow_write_stream_copy(iow_write_stream* stream, int file, const void* data, uint64_t bytes,
                          int64_t offset) noexcept {
  if (stream->stream->is_inherited()) {
    return -ECANCELED;
  }
  if (offset < -1 || bytes > INT64_MAX || (data == nullptr && bytes != 0)) {
    return -EINVAL;
  }
  const StreamCall call(*stream->stream);
  return stream->stream->copy(file, static_cast<const std::byte*>(data), bytes, offset);
}

int iow_write_stream_flush(iow_write_stream* stream, int file) noexcept {
  if (stream->stream->is_inherited()) {
    return -ECANCELED;
  }
  const StreamCall call(*stream->stream);
  return guarded(nullptr, [&] { return stream->stream->flush(file); });
}

int iow_write_stream_sync(iow_write_stream* stream, int file) noexcept {
  if (stream->stream->is_inherited()) {
    return -ECANCELED;
  }
  const StreamCall call(*stream->stream, true);
  return guarded(nullptr, [&] { return stream->stream->sync(file); });
}

int iow_write_stream_flush_async(iow_write_stream* stream, int file, iow_reached reached,
                                 void* user) noexcept {
  return reach_async(stream, file, false, reached, user);
}

int iow_write_stream_sync_async(iow_write_stream* stream, int file, iow_reached reached,
                                void* user) noexcept {
  return reach_async(stream, file, true, reached, user);
}

int iow_write_stream_end(iow_write_stream* stream, int file, int durable,
                         char** error_text) noexcept {
  give_text(error_text, {});
  if (stream->stream->is_inherited()) {
    return -ECANCELED;
  }
  const StreamCall call(*stream->stream, durable != 0);
  return guarded(error_text, [&] {
    std::string why;
    const int error = stream->stream->end(file, durable != 0, why);
    give_text(error_text, why);
    return error;
  });
}

int iow_write_stream_close(iow_write_stream* stream, int durable, char** error_text) noexcept {
  const ThreadErrnoKept kept;
  give_text(error_text, {});
  if (stream == nullptr) {
    return 0;
  }
  if (stream->stream->is_inherited()) {
    return -ECANCELED;  // its memory stays: threads of the parent may have had its lock
  }
  std::string why;
  const int error = stream->stream->close(durable != 0, why);
  give_text(error_text, why);
  delete stream;
  return error;
}

int iow_write_stream_error(iow_write_stream* stream, int file, char** text) noexcept {
  const ErrnoKept kept;
  give_text(text, {});
  if (stream->stream->is_inherited()) {
    return -ECANCELED;
  }
  return guarded(text, [&] {
    std::string why;
    const int error = stream->stream->tell_error(file, why);
    give_text(text, why);
    return error;
  });
}

int iow_write_stream_get_stats(iow_write_stream* stream, iow_write_stream_stats* stats) noexcept {
  if (stream->stream->is_inherited()) {
    return -ECANCELED;
  }
  iow_write_stream_stats now = stream->stream->statistics();
  return give_stats(stats, now);
}
