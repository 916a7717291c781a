#pragma once

// What the backends of this folder share: their constructors behind open_backend(), the count of
// what is in flight, and a few values of the kernel's interface.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include <fcntl.h>

#include "engine/backend.hpp"
#include "engine/raw_syscall.hpp"

namespace ioweave::engine {

inline constexpr size_t kCacheLine = 64;

/// With SQPOLL a thread of the kernel takes a core of its own while there is work. With fewer cores
/// than this the program pays for it: measured on two, one operation took 8 ms while it spun.
inline constexpr unsigned kCoresForSqpoll = 3;

/// The bytes that one submission asks the kernel to move.
inline uint32_t transfer_bytes(const Operation& operation) noexcept {
  return static_cast<uint32_t>(std::min<uint64_t>(operation.length, kMaxTransferBytes));
}

/// The descriptor's flags (O_DIRECT and so on), or -errno.
inline long find_descriptor_flags(const Operation& operation) noexcept {
  return operation.descriptor_flags >= 0 ? operation.descriptor_flags
                                         : raw_syscall(SYS_fcntl, operation.fd, F_GETFL, 0);
}

/// Counts operations between submit and reap without a read-modify-write: the owner writes one
/// counter, the reaper the other, each on a cache line of its own.
class InFlight {
 public:
  explicit InFlight(uint32_t limit) noexcept : limit_(limit) {}

  /// Owner. Looks at the reaper's cache line only when its old value says "full".
  [[nodiscard]] bool full() noexcept {
    const uint64_t submitted = submitted_.load(std::memory_order_relaxed);  // written by us only
    if (submitted - reaped_seen_ < limit_) return false;
    reaped_seen_ = reaped_.load(std::memory_order_acquire);  // pairs with the release in remove()
    return submitted - reaped_seen_ >= limit_;
  }
  /// Owner.
  void add() noexcept {
    // Pairs with the acquire in count(): the reaper of a polled backend asks whether there is any.
    submitted_.store(submitted_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  /// Reaper. After the completion queue's head has moved: who sees the room may use it.
  void remove(uint64_t count) noexcept {
    reaped_.store(reaped_.load(std::memory_order_relaxed) + count, std::memory_order_release);
  }
  /// Any thread; exact for the owner and the reaper as far as they know themselves.
  [[nodiscard]] uint64_t count() const noexcept {
    const uint64_t reaped = reaped_.load(std::memory_order_acquire);  // before submitted: never < 0
    return submitted_.load(std::memory_order_acquire) - reaped;
  }

 private:
  alignas(kCacheLine) std::atomic<uint64_t> submitted_{0};
  uint64_t reaped_seen_ = 0;
  const uint32_t limit_;
  alignas(kCacheLine) std::atomic<uint64_t> reaped_{0};
};

/// The operation whose address the kernel carried as an integer.
inline Operation* operation_at(uint64_t user_data) noexcept {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): that is the kernel's interface.
  return reinterpret_cast<Operation*>(static_cast<uintptr_t>(user_data));
}

/// Why a backend could not be opened: two parts of a sentence for users.
struct Refusal {
  int error = 0;       ///< -errno
  std::string cause;   ///< what is wrong
  std::string remedy;  ///< who can mend it and how
};

/// As open_backend(), with the reason in its parts.
[[nodiscard]] std::unique_ptr<Backend> try_open_backend(const BackendOptions& options,
                                                        Refusal& refusal);

[[nodiscard]] std::unique_ptr<Backend> open_uring(const BackendOptions& options, Refusal& refusal);
[[nodiscard]] std::unique_ptr<Backend> open_aio(const BackendOptions& options, Refusal& refusal);
[[nodiscard]] std::unique_ptr<Backend> open_threads(const BackendOptions& options);

}  // namespace ioweave::engine
