// The C interface of spreads: checks what C cannot express, converts, and calls the spread.
// Contracts are in spread.h.

#include "ioweave/spread.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "calls/c_api/conversion.hpp"
#include "calls/c_api/stream_calls.hpp"
#include "stream/spread/spread.hpp"

using namespace ioweave;
using namespace ioweave::calls;
using stream::Spread;
using stream::WriteStream;

struct iow_spread {
  std::unique_ptr<Spread> spread;
};

namespace {

bool to_targets(const char* const* targets, unsigned count, std::vector<std::string>& paths,
                std::string& why) {
  if (count < 1 || count > stream::kMostTargets) {
    why = "a spread has 1..1024 targets, not " + std::to_string(count);
    return false;
  }
  for (unsigned i = 0; i < count; ++i) {
    if (targets == nullptr || targets[i] == nullptr) {
      why = "target " + std::to_string(i) + " must not be NULL";
      return false;
    }
    paths.emplace_back(targets[i]);
  }
  return true;
}

int append(WriteStream::Buffer& buffer, Spread& spread, uint64_t bytes, uint64_t* item) noexcept {
  uint64_t number = 0;
  const int error = spread.append(buffer, bytes, number);
  if (error == 0 && item != nullptr) {
    *item = number;
  }
  return error;
}

}  // namespace

int iow_spread_create(iow_write_stream* stream, iow_spread** spread, const char* manifest,
                      const char* const* targets, unsigned count, const iow_spread_options* options,
                      char** error_text) noexcept {
  give_text(error_text, {});
  if (stream == nullptr || spread == nullptr) {
    give_text(error_text, "stream and spread must not be NULL");
    return -EINVAL;
  }
  *spread = nullptr;
  if (stream->stream->is_inherited()) {
    return -ECANCELED;
  }
  const StreamCall call(*stream->stream);
  return guarded(error_text, [&]() -> int {
    iow_spread_options given;
    std::vector<std::string> paths;
    std::string why = "manifest must not be NULL";
    if (manifest == nullptr || !read_options(options, given, "iow_spread_options", why) ||
        !in_range(number_of(given.placement), IOW_PLACE_ROUND_ROBIN, IOW_PLACE_BY_LOAD, "placement",
                  why) ||
        !in_range(number_of(given.on_failure), IOW_FAILURE_STOP, IOW_FAILURE_MOVE, "on_failure",
                  why) ||
        !to_targets(targets, count, paths, why)) {
      give_text(error_text, why);
      return -EINVAL;
    }
    int error = 0;
    std::unique_ptr<Spread> opened =
        Spread::create(*stream->stream, manifest, paths, given, error, why);
    if (opened == nullptr) {
      give_text(error_text, why);
      return error;
    }
    *spread = new (std::nothrow) iow_spread{std::move(opened)};
    return *spread != nullptr ? 0 : -ENOMEM;
  });
}

int iow_spread_append(iow_lease* lease, iow_spread* spread, uint64_t bytes,
                      uint64_t* item) noexcept {
  WriteStream::Buffer* const buffer = take_buffer(lease);
  if (buffer == nullptr) {
    return -EINVAL;
  }
  if (WriteStream::stream_of(*buffer).is_inherited()) {
    return -ECANCELED;
  }
  const ThreadErrnoKept kept;
  return append(*buffer, *spread->spread, bytes, item);
}

int iow_spread_copy(iow_spread* spread, const void* data, uint64_t bytes, uint64_t* item) noexcept {
  WriteStream& stream = spread->spread->stream();
  if (stream.is_inherited()) {
    return -ECANCELED;
  }
  if ((data == nullptr && bytes != 0) || bytes > stream.buffer_bytes()) {
    return -EINVAL;
  }
  const ThreadErrnoKept kept;
  WriteStream::Buffer* buffer = nullptr;
  if (const int error = stream.lease(buffer, -1); error != 0) {
    return error;
  }
  if (bytes != 0) {
    std::memcpy(WriteStream::lease_of(*buffer).data, data, bytes);
  }
  return append(*buffer, *spread->spread, bytes, item);
}

int iow_spread_end(iow_spread* spread, int durable, char** error_text) noexcept {
  const ThreadErrnoKept kept;
  give_text(error_text, {});
  if (spread->spread->stream().is_inherited()) {
    return -ECANCELED;  // its memory stays: threads of the parent may have had its lock
  }
  const std::unique_ptr<iow_spread> owned(spread);
  return guarded(error_text, [&] {
    std::string why;
    const int error = spread->spread->end(durable != 0, why);
    give_text(error_text, why);
    return error;
  });
}

void iow_spread_abandon(iow_spread* spread) noexcept {
  const ThreadErrnoKept kept;
  if (spread != nullptr && !spread->spread->stream().is_inherited()) {
    delete spread;
  }
}

int iow_spread_get_stats(iow_spread* spread, iow_spread_stats* stats) noexcept {
  if (spread->spread->stream().is_inherited()) {
    return -ECANCELED;
  }
  iow_spread_stats now = spread->spread->statistics();
  return give_stats(stats, now);
}
