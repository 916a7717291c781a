// Ioweave's streams for C++20: RAII over the C interface of streams.h, which holds the contracts.
//
//   ioweave::WriteStream results(service);
//   int file = results.create("result.bin");
//   for (...) {
//     ioweave::Lease lease = results.lease();
//     size_t bytes = compute(lease.data());          // a span of all its bytes
//     lease.append(file, bytes);
//   }
//   results.close();                                 // durable; throws the first error
//
// Errors are std::system_error, thrown on the calling thread only.
#ifndef IOWEAVE_STREAMS_HPP
#define IOWEAVE_STREAMS_HPP

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "ioweave/ioweave.hpp"
#include "ioweave/streams.h"

namespace ioweave {

/// What a stream throws: its text is the sentence of the C interface alone.
class StreamError : public std::system_error {
 public:
  StreamError(int error, std::string text)
      : std::system_error(error, std::generic_category()), text_(std::move(text)) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

namespace detail {

/// As check(), with the sentence of the C interface, which it frees; `what` where there is none.
inline int check_with_text(int result, char* text, const char* what) {
  const std::unique_ptr<char, decltype(&std::free)> owned(text, &std::free);
  if (result < 0 && owned != nullptr) {
    throw StreamError(-result, owned.get());
  }
  return check(result, what);
}

/// The sentence on the failure of a file, or of the first of all, which the caller frees; null
/// where `result` is another error of a call.
inline char* failure_text(iow_write_stream* stream, int file, int result) {
  char* text = nullptr;
  const int failure = iow_write_stream_error(stream, file, &text);
  if (result != failure && result != -ECANCELED) {
    std::free(std::exchange(text, nullptr));
  }
  return text;
}

/// The result of a call on a file, or on all.
inline void check_files(iow_write_stream* stream, int file, int result, const char* what) {
  if (result < 0) {
    check_with_text(result, failure_text(stream, file, result), what);
  }
}

/// A stream as its leases know it, which may outlive it. Any thread.
class StreamOfLeases {
 public:
  explicit StreamOfLeases(iow_write_stream* stream) noexcept : stream_(stream) {}
  /// Before the stream is closed.
  void forget() {
    const std::lock_guard guard(lock_);
    stream_ = nullptr;
  }
  [[nodiscard]] char* failure_text(int file, int result) {
    const std::lock_guard guard(lock_);
    return stream_ != nullptr ? detail::failure_text(stream_, file, result) : nullptr;
  }

 private:
  std::mutex lock_;
  iow_write_stream* stream_;
};

}  // namespace detail

/// A buffer to fill. One that is destroyed without having been handed over writes nothing. It may
/// outlive its stream, but then no longer be written.
class Lease {
 public:
  Lease() noexcept = default;
  /// With a stream, errors name file and offset.
  explicit Lease(const iow_lease& raw,
                 std::shared_ptr<detail::StreamOfLeases> stream = nullptr) noexcept
      : raw_(raw), stream_(std::move(stream)) {}
  Lease(Lease&& other) noexcept
      : raw_(std::exchange(other.raw_, iow_lease{})), stream_(std::move(other.stream_)) {}
  Lease& operator=(Lease&& other) noexcept {
    if (this != &other) {
      iow_lease_end(&raw_);
      raw_ = std::exchange(other.raw_, iow_lease{});
      stream_ = std::move(other.stream_);
    }
    return *this;
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() { iow_lease_end(&raw_); }

  /// All bytes of the buffer.
  [[nodiscard]] std::span<std::byte> data() const noexcept {
    return {static_cast<std::byte*>(raw_.data), raw_.bytes};
  }
  /// The same as values of type T, as many as fit.
  template <typename T>
  [[nodiscard]] std::span<T> as() const noexcept {
    return {static_cast<T*>(raw_.data), raw_.bytes / sizeof(T)};
  }
  [[nodiscard]] explicit operator bool() const noexcept { return raw_.data != nullptr; }
  /// The lease as the C interface knows it, which the caller owns now.
  [[nodiscard]] iow_lease release() noexcept { return std::exchange(raw_, iow_lease{}); }

  /// Hand the first `bytes` over; the lease is empty afterwards, whatever happens.
  void write(int file, size_t bytes, off_t offset) {
    check_file(file, iow_lease_write(&raw_, file, bytes, offset), "iow_lease_write");
  }
  void append(int file, size_t bytes) {
    check_file(file, iow_lease_append(&raw_, file, bytes), "iow_lease_append");
  }

 private:
  void check_file(int file, int result, const char* what) const {
    if (result < 0) {
      char* const text = stream_ != nullptr ? stream_->failure_text(file, result) : nullptr;
      detail::check_with_text(result, text, what);
    }
  }

  iow_lease raw_{};
  std::shared_ptr<detail::StreamOfLeases> stream_;
};

/// Writes results while the program computes. Thread-safe but for construction, moving, close() and
/// destruction. The service must outlive it.
class WriteStream {
 public:
  /// Throws std::system_error whose text names the option at fault.
  explicit WriteStream(Service& service, const iow_write_stream_options& options = {}) {
    char* text = nullptr;
    iow_write_stream* opened = nullptr;
    const int error = iow_write_stream_open(service.raw(), &opened, &options, &text);
    stream_.reset(opened);
    detail::check_with_text(error, text, "iow_write_stream_open");
    stream_.get_deleter().leases = std::make_shared<detail::StreamOfLeases>(opened);
  }

  /// Returns the number of the file. The text of what is thrown names the path.
  int create(const std::filesystem::path& path, const iow_write_file_options& options = {}) {
    char* text = nullptr;
    const int file = iow_write_stream_create(raw(), path.c_str(), &options, &text);
    return detail::check_with_text(file, text, path.c_str());
  }

  /// Waits for a buffer.
  [[nodiscard]] Lease lease() {
    iow_lease lease;
    check(iow_lease_begin(raw(), &lease, -1), "iow_lease_begin");
    return Lease(lease, of_leases());
  }
  /// Returns nothing if there is no buffer within the time; a negative one is for ever.
  [[nodiscard]] std::optional<Lease> lease_within(std::chrono::nanoseconds timeout) {
    iow_lease lease;
    const int error = iow_lease_begin(raw(), &lease, timeout.count());
    if (error == -ETIME || error == -EAGAIN) {
      return std::nullopt;
    }
    check(error, "iow_lease_begin");
    return Lease(lease, of_leases());
  }

  /// Copy bytes into buffers of the stream, for this offset or behind what was appended before.
  void write(int file, std::span<const std::byte> bytes, off_t offset) {
    check(offset < 0 ? -EINVAL : 0, "write at an offset below 0");  // -1 would append
    copy(file, bytes, offset, "write");
  }
  void append(int file, std::span<const std::byte> bytes) { copy(file, bytes, -1, "append"); }

  void flush(int file = IOW_ALL_FILES) {
    detail::check_files(raw(), file, iow_write_stream_flush(raw(), file), "flush");
  }
  void sync(int file = IOW_ALL_FILES) {
    detail::check_files(raw(), file, iow_write_stream_sync(raw(), file), "sync");
  }
  void end(int file, bool durable = true) {
    char* text = nullptr;
    const int error = iow_write_stream_end(raw(), file, durable ? 1 : 0, &text);
    detail::check_with_text(error, text, "iow_write_stream_end");
  }
  /// Ends everything. A stream that is destroyed without it drops what went wrong.
  void close(bool durable = true) {
    if (stream_ != nullptr) {
      of_leases()->forget();
    }
    char* text = nullptr;
    const int error = iow_write_stream_close(stream_.release(), durable ? 1 : 0, &text);
    detail::check_with_text(error, text, "iow_write_stream_close");
  }

  [[nodiscard]] iow_write_stream_stats stats() const {
    iow_write_stream_stats stats{};
    stats.size = sizeof stats;
    check(iow_write_stream_get_stats(raw(), &stats), "iow_write_stream_get_stats");
    return stats;
  }
  [[nodiscard]] iow_write_stream* raw() const noexcept { return stream_.get(); }
  /// For a Lease that was taken by the C interface.
  [[nodiscard]] const std::shared_ptr<detail::StreamOfLeases>& of_leases() const noexcept {
    return stream_.get_deleter().leases;
  }

 private:
  void copy(int file, std::span<const std::byte> bytes, off_t offset, const char* what) {
    const int result = iow_write_stream_copy(raw(), file, bytes.data(), bytes.size(), offset);
    detail::check_files(raw(), file, result, what);
  }

  struct Close {
    void operator()(iow_write_stream* stream) const noexcept {
      if (leases != nullptr) {
        leases->forget();
      }
      iow_write_stream_close(stream, 0, nullptr);
    }
    std::shared_ptr<detail::StreamOfLeases> leases;
  };
  std::unique_ptr<iow_write_stream, Close> stream_;
};

}  // namespace ioweave

#endif  // IOWEAVE_STREAMS_HPP
