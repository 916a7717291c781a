#pragma once

// What a task runtime must be able to do for storage I/O in its tasks, and the waiter of a task
// that is paused. The runtimes themselves are looked up in the process at run time (alpi.cpp,
// tbb.cpp): nothing of them is linked.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/futex.hpp"

namespace ioweave::tasking {

/// A task as its runtime names it; opaque.
using Task = void*;

class TaskHost;

/// One pause of one task. Lives on the paused task's stack: whoever completes it does not touch it
/// afterwards. One state word decides between "it ended before the task slept", where nobody may
/// resume the task, and "the task sleeps", where somebody must, exactly once.
class TaskPause {
 public:
  explicit TaskPause(TaskHost& host) noexcept : host_(host) {}
  TaskPause(const TaskPause&) = delete;
  TaskPause& operator=(const TaskPause&) = delete;

  /// Starts what the task waits for, which may call complete() before this returns. The host calls
  /// it once, when resuming `task_` is possible or prevented by the state.
  virtual void start() noexcept = 0;

  /// The host, on the task's behalf: from here on complete() resumes `task`. False where it has
  /// ended already: then nobody will, and the task must not sleep.
  [[nodiscard]] bool sleep_as(Task task) noexcept {
    task_ = task;
    uint32_t expected = kPending;
    // Release publishes task_ to complete(); acquire takes its result where it came first.
    return state_.compare_exchange_strong(expected, kPaused, std::memory_order_acq_rel,
                                          std::memory_order_acquire);
  }

  /// What the thread does, before it sleeps in place of its task and now and then: whoever reaps
  /// may be a task that needs the very worker. For how long to sleep then; -1: until the end.
  virtual int64_t help() noexcept { return -1; }

  /// The host, where the runtime refused to put the task to sleep: sleeps with the thread instead.
  /// False where complete() has resumed the task already, or is about to.
  [[nodiscard]] bool sleep_as_thread() noexcept;

  /// Whoever has the result. Last of all: the pause may be gone when it returns.
  void complete() noexcept;

  /// Acquire: the result is visible to who sees true, whatever order the runtime gives.
  [[nodiscard]] bool done() const noexcept {
    return state_.load(std::memory_order_acquire) == kDone;
  }

 protected:
  ~TaskPause() = default;

 private:
  static constexpr uint32_t kPending = 0;
  static constexpr uint32_t kPaused = 1;  // complete() resumes the task
  static constexpr uint32_t kWaited = 2;  // complete() wakes the thread
  static constexpr uint32_t kDone = 3;
  TaskHost& host_;
  Task task_ = nullptr;
  std::atomic<uint32_t> state_{kPending};
};

/// Thread-safe; lives as long as the service that opened it.
class TaskHost {
 public:
  virtual ~TaskHost() = default;
  TaskHost(const TaskHost&) = delete;
  TaskHost& operator=(const TaskHost&) = delete;

  /// "ALPI 1.2 (nOS-V 3.1)".
  [[nodiscard]] virtual const char* name() const noexcept = 0;
  /// A sentence on what this runtime cannot do, or "".
  [[nodiscard]] virtual const char* missing() const noexcept { return ""; }

  /// The task that runs on this thread, or null.
  [[nodiscard]] virtual Task current() noexcept = 0;

  [[nodiscard]] virtual bool can_pause() const noexcept = 0;
  /// Whether this task can: the one that calls.
  [[nodiscard]] virtual bool can_pause(Task /*task*/) noexcept { return can_pause(); }
  /// Tasks at once, as far as the runtime can.
  [[nodiscard]] virtual uint32_t most_paused() const noexcept { return UINT32_MAX; }
  /// Whether a task goes on on the thread that it paused on.
  [[nodiscard]] virtual bool keeps_thread() const noexcept = 0;
  /// Inside a task: calls pause.start() once and returns when the pause is done.
  virtual void pause(TaskPause& pause) noexcept = 0;
  /// Any thread. The task has slept or is about to, see TaskPause.
  virtual void resume(Task task) noexcept = 0;

  /// Inside a task: lets tasks run that are ready, and says whether there were none. False where
  /// the runtime has no quick way to tell.
  [[nodiscard]] virtual bool none_is_ready() noexcept { return false; }

  [[nodiscard]] virtual bool has_events() const noexcept = 0;
  /// Inside `task`: it does not end before one more release(). False where the runtime refuses.
  [[nodiscard]] virtual bool hold(Task task) noexcept = 0;
  /// Any thread. Publishes everything written before to the successors of the task.
  virtual void release(Task task) noexcept = 0;

  /// Whether a task of the runtime can poll: one that spawn() runs and that yield_for() lets others
  /// run.
  [[nodiscard]] virtual bool can_poll() const noexcept { return false; }
  /// Runs body(user) in a task, then completed(user). False where the runtime refuses.
  [[nodiscard]] virtual bool spawn(void (*)(void*), void (*)(void*), void*) noexcept {
    return false;
  }
  /// Inside a task: lets others run for about this long.
  virtual void yield_for(uint64_t) noexcept {}

 protected:
  TaskHost() = default;
};

void sleep_thread_for(uint64_t ns) noexcept;
/// For callers that may be tasks, even the only one that can run: lets others run for a moment.
void sleep_briefly(TaskHost& host) noexcept;
/// The same until `word`, for which there are futex wakes, is zero.
void await_zero(const std::atomic<uint32_t>& word, TaskHost& host) noexcept;

enum class HostKind : uint8_t { automatic, none, alpi, tbb };

/// The runtime of this process, or null with a sentence in `why`. `automatic` is ALPI, whose tasks
/// go on on the thread they paused on; what does not keep that must be asked for.
[[nodiscard]] std::unique_ptr<TaskHost> open_task_host(HostKind kind, std::string& why);

[[nodiscard]] std::unique_ptr<TaskHost> open_alpi(std::string& why);
[[nodiscard]] std::unique_ptr<TaskHost> open_tbb(std::string& why);

}  // namespace ioweave::tasking
