#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include <liburing.h>

#include "engine/backends.hpp"
#include "engine/polled_size.hpp"
#include "engine/uring_slots.hpp"

namespace ioweave::engine {

/// Besides one completion for each operation in flight the queue has room for the answer to one
/// cancel of each, and for wake-ups: it cannot overflow.
inline constexpr uint32_t kSpareCompletions = 8;
constexpr uint32_t completion_entries(uint32_t entries) noexcept {
  return 2 * entries + kSpareCompletions;
}
/// The kernel's limit is 65536 completions.
inline constexpr uint32_t kMaxUringEntries = (65536 - kSpareCompletions) / 2;

/// Operations that another thread wants given up, left for the owner of a ring where the kernel
/// lets nobody else cancel. Thread-safe: a mutex, and a flag that spares the owner from taking it.
class CancelMailbox {
 public:
  explicit CancelMailbox(uint32_t capacity) { requests_.reserve(capacity); }

  [[nodiscard]] bool any() const noexcept {
    return any_.load(std::memory_order_acquire);  // pairs with the release in post()
  }
  /// False where it is full.
  [[nodiscard]] bool post(const Operation& operation) noexcept;
  /// Drops what was asked about an earlier life of this address.
  void forget(const Operation& operation) noexcept;
  /// The oldest request, or null.
  [[nodiscard]] const Operation* take() noexcept;

 private:
  std::mutex lock_;
  std::vector<const Operation*> requests_;
  std::atomic<bool> any_{false};
};

/// One io_uring. See uring.cpp for how it works and Backend for which thread may call what.
class UringBackend final : public Backend {
 public:
  /// Takes over a ring that has been set up. `wake_fd` is an eventfd.
  UringBackend(const io_uring& ring, int wake_fd, const BackendOptions& options);
  ~UringBackend() override;

  [[nodiscard]] std::string_view name() const noexcept override {
    return backend_name(Kind::uring, mode_);
  }
  [[nodiscard]] Submitted submit(Operation& operation) noexcept override;
  [[nodiscard]] int flush() noexcept override;
  [[nodiscard]] int reap(std::span<Operation*> out, const Reap& how) noexcept override;
  void wake() noexcept override;
  [[nodiscard]] int cancel(Operation& operation) noexcept override;
  [[nodiscard]] int fixed_error() const noexcept override { return slots_.error(); }
  void abandon() noexcept override;

 private:
  /// The owner's half of the shared memory. Copied out of io_uring so that owner and reaper do not
  /// share a cache line.
  struct alignas(kCacheLine) SubmissionQueue {
    explicit SubmissionQueue(const io_uring_sq& sq) noexcept;
    [[nodiscard]] io_uring_sqe* next() noexcept;
    void publish() noexcept;
    /// Published and not yet taken by the kernel.
    [[nodiscard]] unsigned unsubmitted() const noexcept;

    unsigned* const khead;
    unsigned* const ktail;
    io_uring_sqe* const sqes;
    const unsigned mask;
    const unsigned entries;
    unsigned tail = 0;  ///< ahead of *ktail by what has been filled and not published
  };
  /// The reaper's half.
  struct alignas(kCacheLine) CompletionQueue {
    unsigned* const khead;
    const unsigned* const ktail;
    const io_uring_cqe* const cqes;
    const unsigned mask;
  };

  // submission, owner
  [[nodiscard]] uint64_t pollable_bytes(const Operation& operation) noexcept;
  void fill(io_uring_sqe& sqe, const Operation& operation, uint64_t most_bytes) noexcept;
  void use_slots(io_uring_sqe& sqe, const Operation& operation) noexcept;
  [[nodiscard]] io_uring_sqe* next_sqe() noexcept;
  void start() noexcept;
  void prepare_submission() noexcept;
  [[nodiscard]] bool wants_wake_poll() const noexcept;
  void queue_wake_poll() noexcept;
  void queue_cancels() noexcept;
  [[nodiscard]] bool owner_has_chores() const noexcept;
  [[nodiscard]] unsigned submission_flags() const noexcept;
  int submit_published(unsigned min_completions, unsigned flags,
                       const __kernel_timespec* timeout) noexcept;

  // completion, reaper
  size_t collect(std::span<Operation*> out) noexcept;
  void on_wake_poll(const io_uring_cqe& cqe) noexcept;
  [[nodiscard]] bool kernel_holds_completions() const noexcept;
  [[nodiscard]] bool sleeps_in_ring() const noexcept;
  int sleep(unsigned min_completions, int64_t timeout_ns, bool submitting) noexcept;
  int sleep_in_ring(unsigned min_completions, int64_t timeout_ns, bool submitting) noexcept;
  int sleep_in_poll(int64_t timeout_ns) noexcept;
  [[nodiscard]] bool take_wake() noexcept;

  int enter(unsigned to_submit, unsigned min_completions, unsigned flags,
            const __kernel_timespec* timeout) noexcept;

  // Read by both, written by none after construction.
  io_uring ring_;
  int wake_fd_;
  const UringMode mode_;
  const bool single_owner_;
  const cpu_set_t* const processors_;
  const unsigned* const kflags_;
  bool abandoned_ = false;

  SubmissionQueue sq_;
  UringSlots slots_;
  PolledSizes polled_sizes_;       ///< of a backend with IOPOLL
  bool started_ = false;           ///< a disabled ring has been enabled by its owner
  bool wake_poll_queued_ = false;  ///< filled into the queue, perhaps not yet taken by the kernel
  CompletionQueue cq_;
  bool woken_ = false;  ///< this reap() met the wake poll's completion

  InFlight in_flight_;
  CancelMailbox cancels_;

  /// Polls of wake_fd_ that the kernel took (written by the owner) and that ended (by the reaper).
  /// The ring itself wakes the reaper while more have begun than ended.
  alignas(kCacheLine) std::atomic<uint32_t> wake_polls_begun_{0};
  std::atomic<uint32_t> wake_polls_ended_{0};
  std::atomic<bool> wake_polls_refused_{false};
  alignas(kCacheLine) std::atomic<bool> wake_pending_{false};
};

}  // namespace ioweave::engine
