#pragma once

// The state of storage I/O inside tasks: see task_io.cpp for how it works.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ioweave/tasks.h"
#include "tasking/counting_event.hpp"
#include "tasking/task_host.hpp"

namespace ioweave::service {

/// Whose end a transfer holds up: a task of the runtime, or one that iow_task_begin() opened.
struct BoundTask {
  tasking::CountingEvent* event = nullptr;
  tasking::Task task = nullptr;  ///< of the runtime, where `event` is null
};

/// A transfer of iow_ta_*(), in memory of the service's. From its pool, and back there at its end.
struct BoundTransfer {
  iow_request request{};
  ssize_t* result = nullptr;
  void* service = nullptr;  ///< the Impl
  BoundTask task;
  std::unique_ptr<iovec[]> vectors;
  BoundTransfer* next_free = nullptr;
};

/// As many as are pending at once, kept for the next ones. Thread-safe, by a mutex.
class BoundPool {
 public:
  /// Null without memory.
  [[nodiscard]] BoundTransfer* take() noexcept;
  void give_back(BoundTransfer& transfer) noexcept;

 private:
  static constexpr size_t kSlab = 64;
  std::mutex lock_;
  std::vector<std::unique_ptr<std::array<BoundTransfer, kSlab>>> slabs_;
  BoundTransfer* free_ = nullptr;
};

/// Counts for people; relaxed throughout.
struct TaskCounters {
  std::atomic<uint32_t> paused{0};
  std::atomic<uint32_t> most_paused{0};
  std::atomic<uint64_t> pauses{0};
  std::atomic<uint64_t> at_once{0};
  std::atomic<uint64_t> made_plain{0};
  std::atomic<bool> too_many{false};  ///< max_paused was met
  std::atomic<uint64_t> bound{0};
  std::atomic<uint64_t> bound_pending{0};
};

/// Whether writes into the page cache are worth doing on the spot: they are until one waits for the
/// device (the kernel throttles who dirties memory faster than it is written). After that, some go
/// the asynchronous way before the next is tried.
class CachedWrites {
 public:
  [[nodiscard]] bool on_the_spot() noexcept {
    uint32_t left = away_.load(std::memory_order_relaxed);
    while (left != 0) {
      if (away_.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {
        return false;
      }
    }
    return true;
  }
  void took(uint64_t bytes, uint64_t ns) noexcept {
    if (ns > kPatienceNs + bytes * kSlowestCopyNsPerByte) {
      away_.store(kAway, std::memory_order_relaxed);
    }
  }

 private:
  static constexpr uint64_t kPatienceNs = 100'000;
  static constexpr uint64_t kSlowestCopyNsPerByte = 4;  // 250 MB/s: a copy into fresh memory
  static constexpr uint32_t kAway = 64;
  std::atomic<uint32_t> away_{0};
};

struct TaskIo {
  std::unique_ptr<tasking::TaskHost> host;
  std::string why;  ///< why there is no host
  uint32_t max_paused = 0;
  std::string too_many_text;  ///< what to say once max_paused was met
  bool reap_in_task = false;
  uint64_t poll_min_ns = 0;
  uint64_t poll_max_ns = 0;
  TaskCounters counters;
  CachedWrites cached_writes;
  BoundPool pool;
};

}  // namespace ioweave::service
