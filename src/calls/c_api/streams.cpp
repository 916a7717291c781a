// The C interface of streams: checks what C cannot express, converts, and calls the stream.
// Contracts are in streams.h.

#include "ioweave/streams.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "base/clock.hpp"
#include "calls/c_api/conversion.hpp"
#include "calls/thread_errno.hpp"
#include "stream/write/write_parts.hpp"
#include "stream/write/write_stream.hpp"

using namespace ioweave;
using namespace ioweave::calls;
using stream::WriteStream;

struct iow_write_stream {
  WriteStream::Owner stream;
};

namespace {

constexpr uint64_t kDefaultBufferBytes = 4 << 20;
constexpr uint64_t kMostBufferBytes = uint64_t{16} << 30;
constexpr uint64_t kDefaultBuffers = 8;
constexpr uint64_t kMostBuffers = 1 << 20;

bool to_buffers(const iow_write_stream_options& given, stream::WriteStreamOptions& options,
                std::string& why) {
  const uint64_t wanted = given.buffer_bytes != 0 ? given.buffer_bytes : kDefaultBufferBytes;
  if (wanted < stream::kPageBytes || wanted > kMostBufferBytes) {
    why = "buffer_bytes must be 4096..17179869184, not " + std::to_string(wanted);
    return false;
  }
  const uint64_t page = stream::cache_page_bytes();
  options.buffer_bytes = (wanted + page - 1) & ~(page - 1);
  const uint64_t budget =
      given.budget_bytes != 0 ? given.budget_bytes : kDefaultBuffers * options.buffer_bytes;
  const uint64_t buffers = budget / options.buffer_bytes;
  const uint64_t least = options.overflow == IOW_OVERFLOW_SYNCHRONOUS ? 2 : 1;
  if (buffers < least) {
    why = "budget_bytes of " + std::to_string(budget) + " has no room for " +
          (least == 1 ? "a buffer" : "the two buffers that IOW_OVERFLOW_SYNCHRONOUS needs") +
          " of " + std::to_string(options.buffer_bytes) +
          " bytes: raise budget_bytes or lower buffer_bytes";
    return false;
  }
  if (buffers > kMostBuffers) {
    why = "budget_bytes of " + std::to_string(budget) + " makes more than 1048576 buffers of " +
          std::to_string(options.buffer_bytes) + " bytes: raise buffer_bytes";
    return false;
  }
  options.buffers = static_cast<uint32_t>(buffers);
  options.depth = given.depth != 0 ? std::min(given.depth, options.buffers) : options.buffers;
  return true;
}

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
  return to_buffers(given, options, why);
}

/// A call that may pause its task: keeps errno, and counts its time.
class Call {
 public:
  explicit Call(WriteStream& stream, bool durable = false) noexcept
      : stream_(stream), durable_(durable) {}
  ~Call() { stream_.count_call(now_ns() - begin_, durable_); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  const ThreadErrnoKept errno_kept_;
  WriteStream& stream_;
  const bool durable_;
  const uint64_t begin_ = now_ns();
};

/// Ends the lease of the caller's struct and returns its buffer; null if it is none.
WriteStream::Buffer* take_buffer(iow_lease* lease) noexcept {
  if (lease == nullptr) {
    return nullptr;
  }
  return static_cast<WriteStream::Buffer*>(std::exchange(*lease, iow_lease{}).internal[0]);
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
  const ErrnoKept kept;
  give_text(error_text, {});
  return guarded(error_text, [&]() -> int {
    if (stream == nullptr || service == nullptr) {
      give_text(error_text, "service and stream must not be NULL");
      return -EINVAL;
    }
    *stream = nullptr;
    if (is_inherited(service, error_text)) {
      return -ECANCELED;
    }
    iow_write_stream_options given;
    stream::WriteStreamOptions wanted;
    std::string why = "options.size is not the size of an iow_write_stream_options";
    if (!read_options(options, given) ||
        !to_stream_options(given, *service->service, wanted, why)) {
      give_text(error_text, why);
      return -EINVAL;
    }
    WriteStream::Owner opened = WriteStream::open(*service->service, wanted);
    if (opened == nullptr) {
      return -ENOMEM;
    }
    *stream = new (std::nothrow) iow_write_stream{std::move(opened)};
    return *stream != nullptr ? 0 : -ENOMEM;
  });
}

int iow_write_stream_create(iow_write_stream* stream, const char* path,
                            const iow_write_file_options* options, char** error_text) noexcept {
  give_text(error_text, {});
  if (stream->stream->is_inherited()) {
    return -ECANCELED;
  }
  const Call call(*stream->stream);
  return guarded(error_text, [&]() -> int {
    iow_write_file_options given;
    std::string why = "options.size is not the size of an iow_write_file_options";
    const int result = path == nullptr || !read_options(options, given)
                           ? -EINVAL
                           : stream->stream->create(path, given, why);
    if (result < 0) {
      give_text(error_text, path != nullptr ? why : "path must not be NULL");
    }
    return result;
  });
}

int iow_lease_begin(iow_write_stream* stream, iow_lease* lease, int64_t timeout_ns) noexcept {
  *lease = {};
  if (stream->stream->is_inherited()) {
    return -ECANCELED;
  }
  const Call call(*stream->stream);
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
  const Call call(*stream->stream);
  return stream->stream->copy(file, static_cast<const std::byte*>(data), bytes, offset);
}

int iow_write_stream_flush(iow_write_stream* stream, int file) noexcept {
  if (stream->stream->is_inherited()) {
    return -ECANCELED;
  }
  const Call call(*stream->stream);
  return guarded(nullptr, [&] { return stream->stream->flush(file); });
}

int iow_write_stream_sync(iow_write_stream* stream, int file) noexcept {
  if (stream->stream->is_inherited()) {
    return -ECANCELED;
  }
  const Call call(*stream->stream, true);
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
  const Call call(*stream->stream, durable != 0);
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
