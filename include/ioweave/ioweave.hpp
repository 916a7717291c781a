// Ioweave for C++20: RAII and spans over the C interface of ioweave.h, which holds the contracts.
//
// Errors are std::system_error, thrown on the calling thread only. Sizes and offsets are bytes.
#ifndef IOWEAVE_IOWEAVE_HPP
#define IOWEAVE_IOWEAVE_HPP

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "ioweave/ioweave.h"

namespace ioweave {

/// Throws std::system_error for a negated errno; returns everything else unchanged.
template <typename Integer>
Integer check(Integer result, const char* what) {
  if (result < 0) {
    throw std::system_error(static_cast<int>(-result), std::generic_category(), what);
  }
  return result;
}

/// A timeout that waits for ever, as every negative one does.
inline constexpr std::chrono::nanoseconds kForever{-1};

/// One transfer. From submission to completion the library knows the address of the request, so the
/// request must then be neither moved, assigned nor destroyed. At other times it moves like any
/// value; the request it is moved to counts as not yet submitted.
class Request {
 public:
  /// A no-op.
  Request() noexcept = default;
  static Request read(int fd, std::span<std::byte> into, off_t offset) {
    return Request(IOW_OP_READ, fd, into.data(), into.size(), offset);
  }
  static Request write(int fd, std::span<const std::byte> from, off_t offset) {
    return Request(IOW_OP_WRITE, fd, const_cast<std::byte*>(from.data()), from.size(), offset);
  }
  /// `vectors` must live until completion.
  static Request readv(int fd, std::span<const iovec> vectors, off_t offset) {
    return Request(IOW_OP_READV, fd, const_cast<iovec*>(vectors.data()), vectors.size(), offset);
  }
  static Request writev(int fd, std::span<const iovec> vectors, off_t offset) {
    return Request(IOW_OP_WRITEV, fd, const_cast<iovec*>(vectors.data()), vectors.size(), offset);
  }
  static Request fsync(int fd) { return Request(IOW_OP_FSYNC, fd, nullptr, 0, 0); }
  static Request fdatasync(int fd) { return Request(IOW_OP_FDATASYNC, fd, nullptr, 0, 0); }
  static Request prefetch(int fd, uint64_t bytes, off_t offset) {
    return Request(IOW_OP_PREFETCH, fd, nullptr, bytes, offset);
  }
  static Request write_back(int fd, uint64_t bytes, off_t offset) {
    return Request(IOW_OP_WRITE_BACK, fd, nullptr, bytes, offset);
  }

  Request(Request&& other) noexcept { *this = std::move(other); }
  Request& operator=(Request&& other) noexcept {
    iow_request fresh = other.raw_;
    std::fill(std::begin(fresh.internal), std::end(fresh.internal), 0);
    raw_ = fresh;
    return *this;
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  ~Request() = default;

  Request& flow(uint32_t id) noexcept {
    raw_.flow = id;
    return *this;
  }
  Request& flags(unsigned iow_flags) noexcept {
    raw_.flags = static_cast<uint8_t>(iow_flags);
    return *this;
  }
  Request& fixed_buffer(int id) noexcept {
    raw_.fixed_buffer = static_cast<uint16_t>(id);
    return *this;
  }
  Request& fixed_file(int id) noexcept {
    raw_.fixed_file = static_cast<uint16_t>(id);
    return *this;
  }
  /// Sets iow_request.callback, which is called with `user`.
  Request& on_completion(iow_callback callback, void* user) noexcept {
    raw_.callback = callback;
    raw_.user = user;
    return *this;
  }

  /// Returns the bytes transferred, or throws the error of the transfer. Call it after completion.
  [[nodiscard]] size_t bytes() const { return static_cast<size_t>(check(raw_.result, "transfer")); }
  /// Returns the bytes transferred or -errno. Call it after completion.
  [[nodiscard]] int64_t result() const noexcept { return raw_.result; }

  [[nodiscard]] iow_request* raw() noexcept { return &raw_; }

 private:
  Request(iow_op op, int fd, void* buffer, uint64_t bytes, off_t offset) noexcept {
    raw_.op = static_cast<uint8_t>(op);
    raw_.fd = fd;
    raw_.buffer = buffer;
    raw_.bytes = bytes;
    raw_.offset = offset;
  }
  iow_request raw_{};
};

/// Owns an iow_service. Thread-safe but for construction, moving and destruction. The destructor
/// completes what is in flight.
class Service {
 public:
  /// Throws std::system_error whose text names the option or the engine at fault.
  explicit Service(const iow_options& options = {}) {
    char* text = nullptr;
    iow_service* opened = nullptr;
    const int error = iow_service_open(&opened, &options, &text);
    service_.reset(opened);
    fail_with(error, text, "iow_service_open");
  }

  [[nodiscard]] std::string engine() const { return iow_service_engine(raw(), nullptr); }
  /// Returns which engines were passed over and why; empty if none was.
  [[nodiscard]] std::string fallback_reason() const {
    const char* why = "";
    iow_service_engine(raw(), &why);
    return why;
  }

  // Blocking, on the calling thread. Fewer bytes than asked mean end of file, or for a write that
  // the next call will report an error.
  size_t read(int fd, std::span<std::byte> into, off_t offset) {
    return static_cast<size_t>(
        check(iow_pread(raw(), fd, into.data(), into.size(), offset), "iow_pread"));
  }
  size_t write(int fd, std::span<const std::byte> from, off_t offset) {
    return static_cast<size_t>(
        check(iow_pwrite(raw(), fd, from.data(), from.size(), offset), "iow_pwrite"));
  }
  size_t readv(int fd, std::span<const iovec> vectors, off_t offset) {
    return static_cast<size_t>(
        check(iow_preadv(raw(), fd, vectors.data(), static_cast<int>(vectors.size()), offset),
              "iow_preadv"));
  }
  size_t writev(int fd, std::span<const iovec> vectors, off_t offset) {
    return static_cast<size_t>(
        check(iow_pwritev(raw(), fd, vectors.data(), static_cast<int>(vectors.size()), offset),
              "iow_pwritev"));
  }
  void fsync(int fd) { check(iow_fsync(raw(), fd), "iow_fsync"); }
  void fdatasync(int fd) { check(iow_fdatasync(raw(), fd), "iow_fdatasync"); }

  // Asynchronous.
  void submit(Request& request) {
    iow_request* const one = request.raw();
    check(iow_submit(raw(), &one, 1), "iow_submit");
  }
  [[nodiscard]] bool test(Request& request) { return iow_test(raw(), request.raw()) != 0; }
  /// Waits and returns the bytes transferred; throws the error of the transfer.
  size_t wait(Request& request) {
    check(iow_wait(raw(), request.raw(), -1), "iow_wait");
    return request.bytes();
  }
  /// As wait(), but returns nothing if the time is over first; the request is still in flight then.
  std::optional<size_t> wait_for(Request& request, std::chrono::nanoseconds timeout) {
    const int error = iow_wait(raw(), request.raw(), timeout.count());
    if (error == -ETIME) {
      return std::nullopt;
    }
    check(error, "iow_wait");
    return request.bytes();
  }
  /// As iow_poll().
  unsigned poll(unsigned min, std::chrono::nanoseconds timeout = kForever) {
    return static_cast<unsigned>(check(iow_poll(raw(), min, timeout.count()), "iow_poll"));
  }
  /// As iow_cancel(): true if the request was still waiting or the kernel was asked to cancel it.
  /// The request completes in any case.
  bool cancel(Request& request) { return iow_cancel(raw(), request.raw()) == 0; }

  // Devices and flows; both throw a text that names the setting at fault.
  uint32_t create_device(const std::string& name, const iow_device_options& options = {}) {
    char* text = nullptr;
    const int id = iow_device_create(raw(), name.c_str(), &options, &text);
    return fail_with(id, text, "iow_device_create");
  }
  uint32_t create_flow(const std::string& name, const iow_flow_options& options = {}) {
    char* text = nullptr;
    const int id = iow_flow_create(raw(), name.c_str(), &options, &text);
    return fail_with(id, text, "iow_flow_create");
  }

  /// As iow_flow_explain() and iow_flow_learned().
  [[nodiscard]] std::string explain(uint32_t flow) const {
    return text_of(&iow_flow_explain, flow, "iow_flow_explain");
  }
  [[nodiscard]] std::string learned(uint32_t flow) const {
    return text_of(&iow_flow_learned, flow, "iow_flow_learned");
  }
  [[nodiscard]] iow_flow_stats flow_stats(uint32_t flow) const {
    iow_flow_stats stats{};
    stats.size = sizeof stats;
    check(iow_service_flow_stats(raw(), flow, &stats), "iow_service_flow_stats");
    return stats;
  }

  /// For I/O that another library does: runs `body` when the flow's constraint lets it start.
  /// `body` returns the bytes that it moved. What `body` throws passes through.
  template <typename Body>
  auto admitted(uint32_t flow, uint64_t bytes, Body&& body) {
    const int64_t operation = check(iow_admit(raw(), flow, bytes), "iow_admit");
    struct Finish {
      iow_service* service;
      int64_t operation;
      int64_t result = -ECANCELED;
      ~Finish() { iow_finish(service, operation, result); }
    } finish{raw(), operation};
    const auto moved = body();
    finish.result = static_cast<int64_t>(moved);
    return moved;
  }

  [[nodiscard]] int register_buffer(std::span<std::byte> buffer) {
    return check(iow_register_buffer(raw(), buffer.data(), buffer.size()), "iow_register_buffer");
  }
  [[nodiscard]] int register_file(int fd) {
    return check(iow_register_file(raw(), fd), "iow_register_file");
  }
  void unregister_buffer(int id) { check(iow_unregister_buffer(raw(), id), "unregister buffer"); }
  void unregister_file(int id) { check(iow_unregister_file(raw(), id), "unregister file"); }

  [[nodiscard]] iow_stats stats() const {
    iow_stats stats{};
    stats.size = sizeof stats;
    check(iow_service_stats(raw(), &stats), "iow_service_stats");
    return stats;
  }

  [[nodiscard]] iow_service* raw() const noexcept { return service_.get(); }

 private:
  std::string text_of(int (*ask)(iow_service*, uint32_t, char**), uint32_t flow,
                      const char* what) const {
    char* text = nullptr;
    const int error = ask(raw(), flow, &text);
    const std::unique_ptr<char, decltype(&std::free)> owned(text, &std::free);
    check(error, what);
    return owned.get();
  }
  static uint32_t fail_with(int result, char* text, const char* what) {
    const std::unique_ptr<char, decltype(&std::free)> owned(text, &std::free);
    return static_cast<uint32_t>(check(result, owned != nullptr ? owned.get() : what));
  }

  struct Close {
    void operator()(iow_service* service) const noexcept { iow_service_close(service); }
  };
  std::unique_ptr<iow_service, Close> service_;
};

}  // namespace ioweave

#endif  // IOWEAVE_IOWEAVE_HPP
