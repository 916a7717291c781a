#pragma once

// A context of Linux native AIO: its system calls, and how to wake who sleeps on it. Both kinds of
// queue (aio.hpp, shared_queue.hpp) stand on it.

#include <cstdint>
#include <memory>
#include <span>

#include <linux/aio_abi.h>

#include "engine/backends.hpp"

namespace ioweave::engine {

/// IOCB_CMD_* of a transfer, fsync or fdatasync.
[[nodiscard]] uint16_t aio_opcode(Op op) noexcept;

/// 0 where native AIO can carry it without waiting for the device in io_submit, 1 where it cannot,
/// or the operation's own error.
[[nodiscard]] long unsuitable_for_aio(const Operation& operation) noexcept;

/// Sets a control block to what the operation is; aio_data is its address.
void fill_control_block(iocb& block, const Operation& operation) noexcept;

/// Thread-safe, as the kernel's calls are, but for abandon() and destruction.
class AioContext {
 public:
  /// aio_data of the event that wakes a sleeper; no Operation has this address.
  static constexpr uint64_t kWakeEvent = 0;

  /// Room for `entries` operations in flight. Null with the reason in `refusal`.
  [[nodiscard]] static std::unique_ptr<AioContext> open(uint32_t entries, Refusal& refusal);
  ~AioContext();
  AioContext(const AioContext&) = delete;
  AioContext& operator=(const AioContext&) = delete;

  /// As io_submit(2): how many were taken, or -errno.
  [[nodiscard]] long submit(std::span<iocb*> blocks) noexcept;
  /// As io_getevents(2), for at least `min` events; a negative timeout: without end.
  [[nodiscard]] long get_events(std::span<io_event> events, unsigned min,
                                int64_t timeout_ns) noexcept;
  /// Whether get_events() would find something. A look at memory where the kernel's queue is laid
  /// out as known, else always true.
  [[nodiscard]] bool has_events() const noexcept;
  /// Posts one kWakeEvent: by a poll of an eventfd that is always readable, which ends at once.
  /// False where the kernel refuses: by a filter, a descriptor that the program closed, or
  /// before Linux 4.18.
  bool post_wake_event() noexcept;
  /// Ends the context: whoever sleeps in get_events() returns with -EINVAL. Nothing is in flight.
  void destroy() noexcept;

  /// In a forked child, whose parent has the context: closes the eventfd, async-signal-safe.
  void abandon() noexcept;

 private:
  AioContext(aio_context_t context, int ready_fd) noexcept
      : context_(context), ready_fd_(ready_fd) {}

  const aio_context_t context_;
  int ready_fd_;
  bool destroyed_ = false;  ///< or in a forked child, whose parent has it
};

}  // namespace ioweave::engine
