#pragma once

// One run of one cell: what its tasks do, and what they have done. A runtime (runtime.hpp) takes
// each task that is ready through these steps, on threads of its choice:
//
//   if (run.begin()) {
//     run.compute(task);
//     if (run.does_io(task)) run.moved(task, <carry out run.transfer(task)>);
//   }
//   if (run.ended(task, release)) <that was the last task>;
//
// With task-aware I/O the last two come when the transfer has ended, from wherever that is told.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/clock.hpp"
#include "cell.hpp"
#include "compute.hpp"
#include "series.hpp"

namespace tiom {

/// Which block of the file an I/O is for: its own number, or that in a random order, in which
/// every block comes once.
class BlockOrder {
 public:
  BlockOrder(uint64_t blocks, bool random);
  [[nodiscard]] uint64_t block(uint64_t io_number) const {
    const uint64_t index = io_number % blocks_;
    return order_.empty() ? index : order_[index];
  }
  [[nodiscard]] uint64_t blocks() const { return blocks_; }

 private:
  uint64_t blocks_;
  std::vector<uint32_t> order_;
};

/// A buffer for each transfer that may be in flight, page-aligned. All hold data from the start.
class Buffers {
 public:
  /// Throws std::runtime_error where memory is short.
  Buffers(uint64_t count, uint64_t block_bytes);
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  [[nodiscard]] std::byte* at(uint64_t index) const { return memory_ + index * stride_; }
  [[nodiscard]] uint64_t count() const { return count_; }

 private:
  std::byte* memory_;
  uint64_t count_;
  size_t stride_;
  size_t bytes_;
};

/// Who may use which buffer. The one that has been free longest is handed out, so that all variants
/// move the same memory: with two transfers in flight two buffers would do, and would stay in the
/// processor's caches, which the data of a program that has so many series does not.
class FreeBuffers {
 public:
  explicit FreeBuffers(const Buffers& buffers);
  /// There is one: not more are in use than may be in flight.
  [[nodiscard]] std::byte* take();
  void give_back(std::byte* buffer);

 private:
  std::mutex lock_;
  std::vector<std::byte*> ring_;
  size_t first_ = 0;
  size_t count_;
};

struct Transfer {
  int fd;
  bool write;
  std::byte* buffer;
  size_t bytes;
  off_t offset;
};

/// By plain system calls on the calling thread. Bytes, or -errno.
ssize_t transfer_plainly(const Transfer& transfer);

/// What stays the same for all runs of a cell.
struct Workload {
  Cell cell;
  Shape shape;
  uint64_t turns;  ///< of a unit of computation
  int fd;
  bool write;
  uint64_t time_limit_ns;
  const BlockOrder* order;
  const Buffers* buffers;  ///< shape.series * io_width(mode)
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): what tasks write lies apart.
class Run {
 public:
  explicit Run(const Workload& workload)
      : workload_(workload),
        series_(workload.shape),
        stages_(stages_of(workload.shape.mode)),
        free_buffers_(*workload.buffers),
        buffers_in_use_(lanes()) {}

  [[nodiscard]] const Shape& shape() const { return workload_.shape; }

  /// Starts the clock and releases the first tasks.
  template <typename Release>
  void start(Release&& release) {
    start_clock();
    series_.start(release);
  }
  /// The first half of start(), for a runtime that orders the tasks itself.
  void start_clock() { start_ns_ = ioweave::now_ns(); }

  /// Whether a task that starts now shall do its work. False past the time limit or an error.
  [[nodiscard]] bool begin() {
    // relaxed: late news only mean one more task.
    if (stop_.load(std::memory_order_relaxed)) return false;
    if (ioweave::now_ns() - start_ns_ < workload_.time_limit_ns) return true;
    limited_.store(true, std::memory_order_relaxed);
    stop_.store(true, std::memory_order_relaxed);
    return false;
  }

  void compute(const Task& task) {
    if (!stages_[task.stage].compute) return;
    tiom::compute(workload_.turns);
    computes_.fetch_add(1, std::memory_order_relaxed);
  }

  [[nodiscard]] bool does_io(const Task& task) const { return stages_[task.stage].io; }

  /// The place of a task's transfer among those that may be in flight.
  [[nodiscard]] uint64_t lane(const Task& task) const {
    return uint64_t{task.series} * io_width(workload_.shape.mode) + task.slot;
  }
  [[nodiscard]] uint64_t lanes() const {
    return uint64_t{workload_.shape.series} * io_width(workload_.shape.mode);
  }

  /// The same of tasks of any kind.
  [[nodiscard]] uint64_t task_lane(const Task& task) const {
    return uint64_t{task.series} * stage_width(workload_.shape.mode) + task.slot;
  }
  [[nodiscard]] uint64_t task_lanes() const {
    return uint64_t{workload_.shape.series} * stage_width(workload_.shape.mode);
  }

  /// With a buffer, which the transfer has until moved().
  [[nodiscard]] Transfer transfer(const Task& task) {
    const uint64_t block = workload_.order->block(workload_.shape.io_number(task));
    std::byte* const buffer = buffers_in_use_[lane(task)] = free_buffers_.take();
    return {workload_.fd, workload_.write, buffer, workload_.cell.block_bytes,
            static_cast<off_t>(block * workload_.cell.block_bytes)};
  }

  /// The result of a task's transfer: bytes, or -errno, which ends the run.
  void moved(const Task& task, int64_t result);

  /// Ends the run for an error that is not of a transfer.
  void fail(int error);

  /// The task and its I/O have ended: releases what may start now. True for the last of all, after
  /// which the run may be gone; so it may on another thread once this has returned false.
  template <typename Release>
  [[nodiscard]] bool ended(const Task& task, bool worked, Release&& release) {
    count_task(worked);
    if (!series_.ended(task, stop_.load(std::memory_order_relaxed), release)) return false;
    stop_clock();
    return true;
  }
  // The parts of ended(), for a runtime that orders the tasks itself.
  void count_task(bool worked) {
    if (worked) tasks_.fetch_add(1, std::memory_order_relaxed);
  }
  void stop_clock() { end_ns_ = ioweave::now_ns(); }
  [[nodiscard]] bool stopping() const { return stop_.load(std::memory_order_relaxed); }

  /// After the end. Throws std::runtime_error where a transfer failed.
  [[nodiscard]] RunFigures figures() const;

 private:
  const Workload workload_;
  SeriesSet series_;
  const std::span<const Stage> stages_;
  FreeBuffers free_buffers_;
  std::vector<std::byte*> buffers_in_use_;  ///< by lane
  uint64_t start_ns_ = 0;
  uint64_t end_ns_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<bool> limited_{false};
  std::atomic<int> error_{0};  ///< the first
  // Apart from what every task reads.
  alignas(64) std::atomic<uint64_t> tasks_{0};
  std::atomic<uint64_t> computes_{0};
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace tiom
