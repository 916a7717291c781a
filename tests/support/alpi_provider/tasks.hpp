#pragma once

// Tasks, their handles and the queues they wait in.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace alpi_test {

struct Thread;

/// Whether a task sleeps in alpi_task_block(); the low half of Task::block.
enum BlockState : uint32_t {
  kAwake = 0,
  kUnblocked = 1,  // awake, and its next block returns at once
  kBlocked = 2,
  kStackless = 3,       // suspended until an unblock, between two runs of its body
  kUnblockedTwice = 4,  // with count_unblocks: its next two blocks return at once
};

// The low half of Task::events: a count, and two flags. Without count and body the task is over.
constexpr uint32_t kBodyRuns = 1u << 31;
constexpr uint32_t kSuspended = 1u
                                << 30;  // at zero the body runs again, the task does not complete
constexpr uint32_t kMostEvents = kSuspended - 1;

/// Tasks live in a table and are used again; their memory is never returned. The high half of both
/// words is the generation, which is another for each use: a stale handle is always recognised.
struct Task {
  std::atomic<uint64_t> block{0};
  std::atomic<uint64_t> events{0};

  // Written by the spawner, before anybody else knows the task.
  uint32_t index = 0;
  void (*body)(void*) = nullptr;
  void* args = nullptr;
  void (*completion)(void*) = nullptr;
  void* completion_args = nullptr;
  std::array<char, 32> label{};

  // Of the calling task only.
  bool suspends = false;
  int suspend_mode = 0;
  uint64_t suspend_args = 0;

  // Under the runtime's lock.
  Thread* thread = nullptr;  // that holds the task's stack; null between two runs of the body
  Task* next = nullptr;      // in the one list that the task is in
};

constexpr uint64_t word_of(uint32_t generation, uint32_t low) noexcept {
  return uint64_t{generation} << 32 | low;
}
constexpr uint32_t generation_of(uint64_t word) noexcept {
  return static_cast<uint32_t>(word >> 32);
}
constexpr uint32_t low_of(uint64_t word) noexcept {
  return static_cast<uint32_t>(word);
}

/// What alpi_task* holds: the generation, never 0, and the index in the table.
using Handle = uint64_t;

[[nodiscard]] inline Handle handle_of(const Task& task) noexcept {
  return word_of(generation_of(task.block.load(std::memory_order_relaxed)), task.index);
}

/// First in, first out. Intrusive, since the queues must not allocate: in the mode `relaxed`
/// ThreadSanitizer is told to ignore what an unblocking thread does to them.
class TaskQueue {
 public:
  void push(Task& task) noexcept {
    task.next = nullptr;
    (last_ == nullptr ? first_ : last_->next) = &task;
    last_ = &task;
  }
  /// Null if the queue is empty.
  [[nodiscard]] Task* pop() noexcept {
    Task* task = first_;
    if (task != nullptr) {
      first_ = task->next;
      last_ = first_ == nullptr ? nullptr : last_;
    }
    return task;
  }
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }

 private:
  Task* first_ = nullptr;
  Task* last_ = nullptr;
};

/// All tasks there ever were. take() and give_back() under the runtime's lock, find() anywhere.
class TaskTable {
 public:
  /// With both words of a new generation. Null where there is no memory, or no room.
  [[nodiscard]] Task* take();
  void give_back(Task& task) noexcept { free_.push(task); }
  /// Null for an index that was never given out. The generation is the caller's to compare.
  [[nodiscard]] Task* find(Handle handle) const noexcept;

 private:
  static constexpr uint32_t kChunk = 1024;
  static constexpr uint32_t kChunks = 4096;

  [[nodiscard]] bool grow();

  TaskQueue free_;
  uint32_t chunks_used_ = 0;
  std::array<std::atomic<Task*>, kChunks> chunks_{};
};

}  // namespace alpi_test
