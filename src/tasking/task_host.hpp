#pragma once

// The interface of a task runtime for storage I/O in its tasks, and the waiter of a paused task.
// The runtimes themselves are looked up in the process at run time (alpi.cpp, tbb.cpp); none of
// them is linked.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/futex.hpp"

namespace ioweave::tasking {

/// A task as its runtime names it; opaque.
using Task = void*;

class TaskHost;

/// One pause of one task. It lives on the paused task's stack, so whoever completes it must not
/// touch it afterwards. One state word decides between "it ended before the task slept", when
/// nobody may resume the task, and "the task sleeps", when somebody must resume it exactly once.
class TaskPause {
 public:
  explicit TaskPause(TaskHost& host) noexcept : host_(host) {}
  TaskPause(const TaskPause&) = delete;
  TaskPause& operator=(const TaskPause&) = delete;

  /// Starts what the task waits for, which may call complete() before this returns. The host calls
  /// it once, when `task_` can be resumed or the state prevents that.
  virtual void start() noexcept = 0;

  /// Called by the host for the task: from here on complete() resumes `task`. Returns false if the
  /// wait has ended already: then nobody will resume the task, and it must not sleep.
  [[nodiscard]] bool sleep_as(Task task) noexcept {
    task_ = task;
    uint32_t expected = kPending;
    // Release publishes task_ to complete(); acquire takes its result if it came first.
    return state_.compare_exchange_strong(expected, kPaused, std::memory_order_acq_rel,
                                          std::memory_order_acquire);
  }

  /// Called before the thread sleeps in place of its task, and now and then: whoever reaps may be a
  /// task that needs this worker. Returns how long to sleep then; -1: until the end.
  virtual int64_t help() noexcept { return -1; }

  /// Called by the host if the runtime refused to put the task to sleep: the thread sleeps instead.
  /// Returns false if complete() has resumed the task already, or is about to.
  [[nodiscard]] bool sleep_as_thread() noexcept;

  /// Called by whoever has the result, as its last step: the pause may be gone when it returns.
  void complete() noexcept;

  /// Acquire: a caller that gets true sees the result, whatever order the runtime gives.
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

/// A task runtime. Thread-safe; lives as long as the service that opened it.
class TaskHost {
 public:
  virtual ~TaskHost() = default;
  TaskHost(const TaskHost&) = delete;
  TaskHost& operator=(const TaskHost&) = delete;

  /// Returns a name such as "ALPI 1.2 (nOS-V 3.1)".
  [[nodiscard]] virtual const char* name() const noexcept = 0;
  /// Returns a sentence on what this runtime cannot do, or "".
  [[nodiscard]] virtual const char* missing() const noexcept { return ""; }

  /// Returns the task that runs on this thread, or null.
  [[nodiscard]] virtual Task current() noexcept = 0;

  [[nodiscard]] virtual bool can_pause() const noexcept = 0;
  /// Returns true if this task, the calling one, can pause.
  [[nodiscard]] virtual bool can_pause(Task /*task*/) noexcept { return can_pause(); }
  /// Returns how many tasks the runtime can pause at once.
  [[nodiscard]] virtual uint32_t most_paused() const noexcept { return UINT32_MAX; }
  /// Returns true if a task continues on the thread that it paused on.
  [[nodiscard]] virtual bool keeps_thread() const noexcept = 0;
  /// Called inside a task: calls pause.start() once and returns when the pause is done.
  virtual void pause(TaskPause& pause) noexcept = 0;
  /// Resumes a task that has slept or is about to, see TaskPause. Any thread may call it.
  virtual void resume(Task task) noexcept = 0;

  /// Called inside a task: lets ready tasks run. Returns true if there were none, and false also if
  /// the runtime has no quick way to tell.
  [[nodiscard]] virtual bool none_is_ready() noexcept { return false; }

  [[nodiscard]] virtual bool has_events() const noexcept = 0;
  /// Called inside `task`, which then does not end before one more release(). Returns false if the
  /// runtime refuses.
  [[nodiscard]] virtual bool hold(Task task) noexcept = 0;
  /// Undoes one hold(). Publishes everything written before to the successors of the task. Any
  /// thread may call it.
  virtual void release(Task task) noexcept = 0;

  /// Returns true if a task of the runtime can poll: spawn() runs it, and in yield_for() it lets
  /// others run.
  [[nodiscard]] virtual bool can_poll() const noexcept { return false; }
  /// Runs body(user) in a task, then completed(user). Returns false if the runtime refuses.
  [[nodiscard]] virtual bool spawn(void (*)(void*), void (*)(void*), void*) noexcept {
    return false;
  }
  /// Called inside a task: lets other tasks run for about this long.
  virtual void yield_for(uint64_t) noexcept {}

 protected:
  TaskHost() = default;
};

void sleep_thread_for(uint64_t ns) noexcept;
/// Lets others run for a moment. The caller may be a task, even the only one that can run.
void sleep_briefly(TaskHost& host) noexcept;
/// Lets others run until `word`, for which there are futex wakes, is zero.
void await_zero(const std::atomic<uint32_t>& word, TaskHost& host) noexcept;

enum class HostKind : uint8_t { automatic, none, alpi, tbb };

/// Opens the runtime of this process; or returns null, with a sentence in `why`. `automatic` is
/// ALPI, whose tasks continue on the thread that they paused on. Other runtimes must be asked for.
[[nodiscard]] std::unique_ptr<TaskHost> open_task_host(HostKind kind, std::string& why);

[[nodiscard]] std::unique_ptr<TaskHost> open_alpi(std::string& why);
[[nodiscard]] std::unique_ptr<TaskHost> open_tbb(std::string& why);

}  // namespace ioweave::tasking
