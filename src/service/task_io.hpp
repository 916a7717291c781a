#pragma once

// The state of storage I/O inside tasks: see task_io.cpp and task_bind.cpp for how it works.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ioweave/tasks.h"
#include "service/on_the_spot.hpp"
#include "tasking/counting_event.hpp"
#include "tasking/task_host.hpp"

namespace ioweave::service {

class Service;

/// Whose end a transfer holds up: a task of the runtime, or one that iow_task_begin() opened.
struct BoundTask {
  tasking::CountingEvent* event = nullptr;
  tasking::Task task = nullptr;  ///< of the runtime, where `event` is null
};

/// A transfer of iow_ta_*(), in memory of the service's. From its pool, and back there at its end.
struct BoundTransfer {
  iow_request request{};
  ssize_t* result = nullptr;
  Service* service = nullptr;
  BoundTask task;
  std::unique_ptr<iovec[]> vectors;
  BoundTransfer* next_free = nullptr;
};

/// As many as are pending at once, kept for the next ones. Thread-safe, by a mutex.
class BoundPool {
 public:
  /// Null without memory.
  [[nodiscard]] BoundTransfer* acquire() noexcept;
  void release(BoundTransfer& transfer) noexcept;

 private:
  static constexpr size_t kSlab = 64;
  std::mutex lock_;
  std::vector<std::unique_ptr<std::array<BoundTransfer, kSlab>>> slabs_;
  BoundTransfer* free_ = nullptr;
};

/// Counts, most for people; relaxed throughout.
struct TaskCounters {
  std::atomic<uint32_t> paused{0};  ///< whose I/O is under way
  std::atomic<uint32_t> held{0};    ///< these, and those that have not been resumed yet: stacks
  std::atomic<uint32_t> most_paused{0};
  std::atomic<uint64_t> pauses{0};
  std::atomic<uint64_t> at_once{0};
  std::atomic<uint64_t> made_plain{0};
  std::atomic<uint64_t> alone{0};
  std::atomic<uint64_t> no_room{0};
  std::atomic<uint64_t> bound{0};
  std::atomic<uint64_t> bound_pending{0};
};

struct TaskIo {
  std::unique_ptr<tasking::TaskHost> host;
  std::string why;            ///< why there is no host
  uint32_t max_paused = 0;    ///< whose I/O is under way
  uint32_t max_held = 0;      ///< all that hold a stack, or a thread
  std::string too_many_text;  ///< what to say once one of them was met
  bool reap_in_task = false;
  uint64_t poll_min_ns = 0;
  uint64_t poll_max_ns = 0;
  TaskCounters counters;
  /// Into the page cache, where the kernel throttles who dirties memory faster than it is written.
  /// 250 MB/s is a copy into fresh memory.
  OnTheSpot cached_writes{100'000, 4, 64};
  /// Of a task beside which none is ready: to pause it and to wake it up again would take half as
  /// long once more. Longer ones would keep the core from tasks that come meanwhile.
  OnTheSpot lone_calls{150'000, 0, 8};
  std::atomic<uint32_t> not_alone{0};  ///< answers in a row
  BoundPool pool;

  /// Of what is asked for, 0 for nothing in particular, and what the host and the machine allow.
  /// May throw std::bad_alloc. There is a host.
  void limit_paused(uint32_t wanted);
};

}  // namespace ioweave::service
