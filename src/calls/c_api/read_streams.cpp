// The C interface of read streams: checks what C cannot express, converts, and calls the stream.
// Contracts are in read_streams.h.

#include "ioweave/read_streams.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "calls/c_api/conversion.hpp"
#include "calls/c_api/stream_calls.hpp"
#include "stream/manifest/manifest_reader.hpp"
#include "stream/read/file_list.hpp"
#include "stream/read/read_stream.hpp"

using namespace ioweave;
using namespace ioweave::calls;
using stream::ReadStream;

struct iow_read_stream {
  ReadStream::Owner stream;
};

namespace {

using Targets = std::vector<std::unique_ptr<stream::SourceTarget>>;

constexpr unsigned kMostFiles = 65536;
constexpr uint64_t kMostDefaultBufferBytes = 512 << 20;
constexpr uint64_t kMostDefaultBudget = 1 << 30;

/// `largest`: most bytes of a lease, unless a size was given.
bool to_read_options(const iow_read_stream_options& given, service::Service& service,
                     uint64_t largest, stream::ReadStreamOptions& options, std::string& why) {
  if (!service.gate().knows(given.flow)) {
    why = "flow " + std::to_string(given.flow) + " was not created by iow_flow_create()";
    return false;
  }
  BufferRoom room{
      given.buffer_bytes != 0 ? given.buffer_bytes : std::max(largest, stream::kPageBytes),
      given.budget_bytes, 1, "a buffer", kMostDefaultBudget};
  if (!divide(room, why)) {
    return false;
  }
  options.buffer_bytes = room.buffer_bytes;
  options.buffers = room.buffers;
  options.flow = given.flow;
  options.huge_pages = given.small_pages == 0;
  return true;
}

/// What is to be read, from what the caller named.
struct Opened {
  std::unique_ptr<stream::ItemSource> source;
  Targets targets;
  uint64_t largest = 0;
};

/// Opens what `open` finds; 0, or -errno with a sentence.
template <typename Open>
int open_stream(iow_service* service, iow_read_stream** stream,
                const iow_read_stream_options* options, char** error_text,
                const Open& open) noexcept {
  return open_on(
      service, stream, "stream", error_text,
      [&](service::Service& of, iow_read_stream*& handle, std::string& why) {
        iow_read_stream_options given;
        if (!read_options(options, given, "iow_read_stream_options", why) ||
            !in_range(number_of(given.path), IOW_PATH_AUTO, IOW_PATH_BUFFERED, "path", why)) {
          return -EINVAL;
        }
        Opened opened;
        stream::ReadStreamOptions wanted;
        if (const int error = open(given, opened, why); error != 0) {
          return error;
        }
        if (!to_read_options(given, of, opened.largest, wanted, why)) {
          return -EINVAL;
        }
        ReadStream::Owner owner =
            ReadStream::open(of, std::move(opened.source), std::move(opened.targets), wanted);
        if (owner == nullptr) {
          return -ENOMEM;
        }
        auto made = std::unique_ptr<iow_read_stream>(new (std::nothrow) iow_read_stream);
        if (made == nullptr) {
          owner->close();
          return -ENOMEM;
        }
        made->stream = std::move(owner);
        handle = made.release();
        return 0;
      });
}

int open_manifest(const char* path, const iow_read_stream_options& options, Opened& opened,
                  std::string& why) {
  int error = 0;
  auto reader = stream::ManifestReader::open(path, options.relative_only != 0, error, why);
  if (reader == nullptr) {
    return error;
  }
  const std::string folder = std::filesystem::path(path).parent_path();
  for (const std::string& target : reader->targets()) {
    auto& one = *opened.targets.emplace_back(std::make_unique<stream::SourceTarget>());
    one.error = one.file.open(target, options.path, one.why,
                              options.relative_only != 0 ? &folder : nullptr);  // its items tell
  }
  opened.largest = std::min(reader->totals().largest, kMostDefaultBufferBytes);
  opened.source = std::move(reader);
  return 0;
}

int open_files(const char* const* paths, unsigned count, const iow_read_stream_options& options,
               Opened& opened, std::string& why) {
  if (count < 1 || count > kMostFiles) {
    why = "a read stream has 1..65536 files, not " + std::to_string(count);
    return -EINVAL;
  }
  std::vector<std::string> names;
  std::vector<uint64_t> sizes;
  for (unsigned i = 0; i < count; ++i) {
    if (paths == nullptr || paths[i] == nullptr) {
      why = "path " + std::to_string(i) + " must not be NULL";
      return -EINVAL;
    }
    auto& one = *opened.targets.emplace_back(std::make_unique<stream::SourceTarget>());
    if (const int error = one.file.open(paths[i], options.path, why); error != 0) {
      return error;
    }
    names.emplace_back(paths[i]);
    sizes.push_back(one.file.bytes());
  }
  opened.source = std::make_unique<stream::FileList>(std::move(names), std::move(sizes));
  opened.largest = std::min(opened.source->totals().largest, kDefaultBufferBytes);
  return 0;
}

}  // namespace

int iow_read_stream_open(iow_service* service, iow_read_stream** stream, const char* manifest,
                         const iow_read_stream_options* options, char** error_text) noexcept {
  return open_stream(service, stream, options, error_text,
                     [&](const iow_read_stream_options& given, Opened& opened, std::string& why) {
                       if (manifest == nullptr) {
                         why = "manifest must not be NULL";
                         return -EINVAL;
                       }
                       return open_manifest(manifest, given, opened, why);
                     });
}

int iow_read_stream_open_files(iow_service* service, iow_read_stream** stream,
                               const char* const* paths, unsigned count,
                               const iow_read_stream_options* options, char** error_text) noexcept {
  return open_stream(service, stream, options, error_text,
                     [&](const iow_read_stream_options& given, Opened& opened, std::string& why) {
                       return open_files(paths, count, given, opened, why);
                     });
}

int iow_read_stream_next(iow_read_stream* stream, iow_read_lease* lease,
                         int64_t timeout_ns) noexcept {
  *lease = {};
  if (stream->stream->is_inherited()) {
    return -ECANCELED;
  }
  const ThreadErrnoKept kept;
  return stream->stream->next(*lease, timeout_ns);
}

int iow_read_stream_next_async(iow_read_stream* stream, iow_read_done done, void* user) noexcept {
  if (done == nullptr) {
    return -EINVAL;
  }
  if (stream->stream->is_inherited()) {
    return -ECANCELED;
  }
  const ErrnoKept kept;
  return guarded(nullptr, [&] { return stream->stream->next_async(done, user); });
}

void iow_read_lease_end(iow_read_lease* lease) noexcept {
  const ErrnoKept kept;
  if (lease == nullptr) {
    return;
  }
  if (void* const buffer = std::exchange(*lease, {}).internal[0]; buffer != nullptr) {
    ReadStream::end_lease(*static_cast<ReadStream::Buffer*>(buffer));
  }
}

int iow_read_stream_explain(iow_read_stream* stream, const iow_read_lease* lease, int error,
                            char** text) noexcept {
  const ErrnoKept kept;
  if (text == nullptr || lease == nullptr) {
    return -EINVAL;
  }
  give_text(text, {});
  if (stream->stream->is_inherited()) {
    return -ECANCELED;
  }
  return guarded(text, [&] {
    give_text(text, stream->stream->explain(*lease, error));
    return *text != nullptr ? 0 : -ENOMEM;
  });
}

int iow_read_stream_close(iow_read_stream* stream) noexcept {
  const ThreadErrnoKept kept;
  if (stream == nullptr) {
    return 0;
  }
  if (stream->stream->is_inherited()) {
    return -ECANCELED;  // its memory stays: threads of the parent may have had its lock
  }
  stream->stream->close();
  delete stream;
  return 0;
}

int iow_read_stream_get_stats(iow_read_stream* stream, iow_read_stream_stats* stats) noexcept {
  if (stream->stream->is_inherited()) {
    return -ECANCELED;
  }
  iow_read_stream_stats now = stream->stream->statistics();
  return give_stats(stats, now);
}
