// Ioweave's read streams for C++20: RAII over the C interface of read_streams.h, which holds the
// contracts.
//
//   ioweave::ReadStream results(service, "run7.manifest");
//   while (ioweave::ReadLease lease = results.next()) {
//     use(lease.data());                               // a span of what was read
//   }
//
// Errors are std::system_error, thrown on the calling thread only.
#ifndef IOWEAVE_READ_STREAMS_HPP
#define IOWEAVE_READ_STREAMS_HPP

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ioweave/read_streams.h"
#include "ioweave/streams.hpp"

namespace ioweave {

namespace detail {

/// Throws the error of iow_read_stream_next(), with its sentence.
inline void check_read(iow_read_stream* stream, const iow_read_lease& lease, int result) {
  if (result < 0) {
    char* text = nullptr;
    static_cast<void>(iow_read_stream_explain(stream, &lease, result, &text));
    check_with_text(result, text, "iow_read_stream_next");
  }
}

}  // namespace detail

/// A buffer with what was read. Its end starts the next read. It may outlive its stream.
class ReadLease {
 public:
  ReadLease() noexcept = default;
  explicit ReadLease(const iow_read_lease& raw) noexcept : raw_(raw) {}
  ReadLease(ReadLease&& other) noexcept : raw_(std::exchange(other.raw_, iow_read_lease{})) {}
  ReadLease& operator=(ReadLease&& other) noexcept {
    if (this != &other) {
      iow_read_lease_end(&raw_);
      raw_ = std::exchange(other.raw_, iow_read_lease{});
    }
    return *this;
  }
  ReadLease(const ReadLease&) = delete;
  ReadLease& operator=(const ReadLease&) = delete;
  ~ReadLease() { iow_read_lease_end(&raw_); }

  [[nodiscard]] std::span<std::byte> data() const noexcept {
    return {static_cast<std::byte*>(raw_.data), raw_.bytes};
  }
  /// The same as values of type T, as many as there are.
  template <typename T>
  [[nodiscard]] std::span<T> as() const noexcept {
    return {static_cast<T*>(raw_.data), raw_.bytes / sizeof(T)};
  }
  /// Number of the item, from 0.
  [[nodiscard]] uint64_t item() const noexcept { return raw_.item; }
  /// Where the data begin within the item, which is larger than a buffer if this is not 0.
  [[nodiscard]] uint64_t offset() const noexcept { return raw_.offset; }
  [[nodiscard]] uint64_t item_bytes() const noexcept { return raw_.item_bytes; }
  /// False behind the last item.
  [[nodiscard]] explicit operator bool() const noexcept { return raw_.data != nullptr; }

 private:
  iow_read_lease raw_{};
};

/// Reads items ahead of the program. Thread-safe but for construction, moving and destruction. The
/// service must outlive it.
class ReadStream {
 public:
  /// The items of a manifest. Throws std::system_error whose text says what is wrong.
  ReadStream(Service& service, const std::filesystem::path& manifest,
             const iow_read_stream_options& options = {}) {
    char* text = nullptr;
    iow_read_stream* opened = nullptr;
    const int error =
        iow_read_stream_open(service.raw(), &opened, manifest.c_str(), &options, &text);
    stream_.reset(opened);
    detail::check_with_text(error, text, manifest.c_str());
  }
  /// Plain files, each of which is an item.
  ReadStream(Service& service, const std::vector<std::filesystem::path>& files,
             const iow_read_stream_options& options = {}) {
    std::vector<const char*> paths;
    paths.reserve(files.size());
    for (const std::filesystem::path& file : files) {
      paths.push_back(file.c_str());
    }
    char* text = nullptr;
    iow_read_stream* opened = nullptr;
    const int error = iow_read_stream_open_files(
        service.raw(), &opened, paths.data(), static_cast<unsigned>(paths.size()), &options, &text);
    stream_.reset(opened);
    detail::check_with_text(error, text, "iow_read_stream_open_files");
  }

  /// Waits for what comes next; the lease is none behind the last item. Throws the error of what
  /// cannot be read; the next call goes on behind it.
  [[nodiscard]] ReadLease next() {
    iow_read_lease lease;
    detail::check_read(raw(), lease, iow_read_stream_next(raw(), &lease, -1));
    return ReadLease(lease);
  }
  /// Returns nothing if it does not come within the time; a negative one is for ever.
  [[nodiscard]] std::optional<ReadLease> next_within(std::chrono::nanoseconds timeout) {
    iow_read_lease lease;
    const int result = iow_read_stream_next(raw(), &lease, timeout.count());
    if (result == -ETIME) {
      return std::nullopt;
    }
    detail::check_read(raw(), lease, result);
    return ReadLease(lease);
  }

  [[nodiscard]] iow_read_stream_stats stats() const {
    iow_read_stream_stats stats{};
    stats.size = sizeof stats;
    check(iow_read_stream_get_stats(raw(), &stats), "iow_read_stream_get_stats");
    return stats;
  }
  [[nodiscard]] iow_read_stream* raw() const noexcept { return stream_.get(); }

 private:
  struct Close {
    void operator()(iow_read_stream* stream) const noexcept { iow_read_stream_close(stream); }
  };
  std::unique_ptr<iow_read_stream, Close> stream_;
};

}  // namespace ioweave

#endif  // IOWEAVE_READ_STREAMS_HPP
