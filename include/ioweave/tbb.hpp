// Ioweave for oneTBB: tasks that end when their I/O has ended. tasks.h holds the contracts of the
// calls.
//
// The blocking form does not need this header: on a service opened with IOW_TASKS_TBB, iow_pread()
// and its like pause the task that calls them. Each paused task keeps a stack. This header offers
// the other form, which keeps the transfer only:
//
//   ioweave::tbb::TaskGroup group;
//   ioweave::tbb::run_io(service, group,
//       [&] { iow_ta_pread(service.raw(), fd, buffer, bytes, offset, &result); },
//       [&] { compute(buffer, result); });
//   group.wait();
//
// How it works. run_io() runs the body now, between iow_task_begin() and iow_task_end(), and defers
// `next` in the group, so that wait() waits for it. If all I/O ends at once, `next` is spawned at
// once. Otherwise the thread that collects the last end puts `next` into a list and resumes the
// group's *courier*, a task that sleeps in tbb::task::suspend() and spawns what is in the list. So
// a thread of the arena spawns `next`, in the arena and the isolation of the task that called
// run_io().
//
// Why not task_arena::enqueue() from the service's thread: only threads at their outermost level
// and outside isolation take enqueued tasks. If all threads wait inside tasks for groups whose end
// needs an enqueued task, no thread ever takes that task. Threads take resumed tasks everywhere.
//
// A consequence of suspending: any wait of TBB in an arena where run_io() is used may continue on
// another thread, as wherever tbb::task::suspend() is used. Hold no lock and nothing thread-local
// across a wait.
#ifndef IOWEAVE_TBB_HPP
#define IOWEAVE_TBB_HPP

#include <atomic>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <oneapi/tbb/task.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include "ioweave/ioweave.hpp"
#include "ioweave/tasks.h"

namespace ioweave::tbb {

namespace detail {

class Courier;

/// The task that waits for the I/O of one run_io(). The deferred task in `handle` owns it, so it is
/// gone when the deferred task has run or was dropped.
struct PendingTask {
  enum class State { running, waiting, ended };

  explicit PendingTask(Courier& of) : courier(of) {}

  Courier& courier;
  ::tbb::task_handle handle;
  PendingTask* link = nullptr;
  /// Whichever comes second, the end of the I/O or run_io() with its courier, spawns the task.
  std::atomic<State> state{State::running};
  bool skips_next = false;
  bool is_abandoned = false;
};

/// Takes tasks whose I/O has ended from any thread into the arena. At most one TBB task does so at
/// a time, and only while I/O is pending. Once resumed, it spawns those tasks and its own successor
/// and ends, so that the task beneath which it happened to run gets its stack back.
class Courier {
 public:
  explicit Courier(::tbb::task_group& group) noexcept : group_(group) {}
  ~Courier() {
    // The round may just be ending. Isolated: this wait must not start other tasks.
    ::tbb::this_task_arena::isolate([this] { rounds_.wait(); });
  }
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  /// Announces one deliver(), before or after it. Where memory runs out, here or in round(), the
  /// program ends, for the transfers are under way.
  void expect() noexcept {
    // Acquire: pairs with the end of the previous round, which has left everything to this one.
    if (pending_.fetch_add(1, std::memory_order_acq_rel) == 0) {
      start_round();
    }
  }

  /// Hands the courier a task whose I/O has ended. Any thread may call it, whether TBB knows the
  /// thread or not. The group may be gone as soon as the task is in the list, unless this call
  /// resumes the courier, which waits for that.
  void deliver(PendingTask& task) noexcept {
    PendingTask* seen = ended_.load(std::memory_order_relaxed);
    do {
      task.link = seen == asleep() ? nullptr : seen;
      // Release: pairs with take(), for the results; acquire: for point_.
    } while (!ended_.compare_exchange_weak(seen, &task, std::memory_order_acq_rel,
                                           std::memory_order_relaxed));
    if (seen == asleep()) {
      ::tbb::task::resume(point_);
    }
  }

 private:
  void start_round() {
    rounds_.run([this] { round(); });
  }

  void round() noexcept {
    size_t delivered = 0;
    for (PendingTask* task = take(); task != nullptr; ++delivered) {
      PendingTask* const next = task->link;  // read now: a spawned task may be gone
      group_.run(std::move(task->handle));
      task = next;
    }
    // The last access to this object if nothing is pending: expect() may start another round.
    if (pending_.fetch_sub(delivered, std::memory_order_acq_rel) != delivered) {
      start_round();
    }
  }

  /// Takes all tasks whose I/O has ended; sleeps until there is one.
  PendingTask* take() {
    PendingTask* ended = ended_.exchange(nullptr, std::memory_order_acquire);
    while (ended == nullptr) {
      ::tbb::task::suspend([this](::tbb::task::suspend_point point) {
        point_ = point;
        PendingTask* nothing = nullptr;
        if (!ended_.compare_exchange_strong(nothing, asleep(), std::memory_order_acq_rel)) {
          ::tbb::task::resume(point);  // something has ended meanwhile
        }
      });
      ended = ended_.exchange(nullptr, std::memory_order_acquire);
    }
    return ended;
  }

  [[nodiscard]] PendingTask* asleep() noexcept { return reinterpret_cast<PendingTask*>(this); }

  ::tbb::task_group& group_;
  std::atomic<size_t> pending_{0};
  std::atomic<PendingTask*> ended_{nullptr};  // a list, or asleep()
  ::tbb::task::suspend_point point_{};        // of the courier, while it is asleep
  // A group of its own: TBB does not run tasks of a cancelled group, but somebody has to wait for
  // their I/O.
  ::tbb::task_group_context context_{::tbb::task_group_context::isolated};
  ::tbb::task_group rounds_{context_};
};

}  // namespace detail

/// A tbb::task_group whose tasks may have I/O. wait() waits for the I/O, too, also when the group
/// is cancelled. All calls of run_io() and wait() for a group must be in one arena.
class TaskGroup : private detail::Courier, public ::tbb::task_group {
 public:
  TaskGroup() : Courier(static_cast<::tbb::task_group&>(*this)) {
    // A group is cancelled with the task that spawned the group's first task. That must be the task
    // that makes the group, not the courier, which belongs to nobody.
    run_and_wait([] {});
  }

 private:
  template <typename Body, typename Next>
  friend void run_io(Service& service, TaskGroup& group, Body&& body, Next&& next);
};

namespace detail {

template <typename Next>
struct TaskWithNext : PendingTask {
  template <typename F>
  TaskWithNext(Courier& of, F&& call) : PendingTask(of), next(std::forward<F>(call)) {}
  Next next;
};

struct DeleteUnlessAbandoned {
  template <typename Task>
  void operator()(Task* task) const noexcept {
    if (!task->is_abandoned) {
      delete task;
    }
  }
};

/// The `done` of iow_task_begin().
inline void io_has_ended(void* user) noexcept {
  auto& task = *static_cast<PendingTask*>(user);
  Courier& courier = task.courier;
  // Acquire and release: whoever runs `next` sees everything that both sides wrote.
  const auto before = task.state.exchange(PendingTask::State::ended, std::memory_order_acq_rel);
  if (before == PendingTask::State::waiting) {
    courier.deliver(task);
  }
}

/// Called after the body. Spawns the deferred task, now or when its I/O has ended. Returns -ESRCH,
/// and drops the deferred task, if this thread is not the one that the body began on.
inline int end_body(Service& service, ::tbb::task_group& group, PendingTask& task) {
  if (const int error = iow_task_end(service.raw()); error != 0) {
    // Unless the body ended the task itself, the thread that it began on still knows its address.
    task.is_abandoned = task.state.load(std::memory_order_acquire) != PendingTask::State::ended;
    const ::tbb::task_handle dropped = std::move(task.handle);
    return error;
  }
  if (task.state.load(std::memory_order_acquire) == PendingTask::State::ended) {
    group.run(std::move(task.handle));
    return 0;
  }
  Courier& courier = task.courier;
  courier.expect();
  const auto before = task.state.exchange(PendingTask::State::waiting, std::memory_order_acq_rel);
  if (before == PendingTask::State::ended) {
    courier.deliver(task);
  }
  return 0;
}

}  // namespace detail

/// Runs `body()` now; every iow_ta_*() call in it starts a transfer. When all transfers have ended,
/// `next()` runs as a task of the group and may read their results. Buffers and results must
/// outlive the group's wait(). The body must not wait for tasks nor pause, for it could then
/// continue on another thread; run_io() throws std::logic_error where it notices that.
///
/// What the body throws passes through at once, and `next` does not run; wait() still waits for the
/// transfers that were started. Before the body runs, run_io() may throw std::bad_alloc and
/// std::system_error (ENOMEM). In a cancelled group `next` does not run.
template <typename Body, typename Next>
void run_io(Service& service, TaskGroup& group, Body&& body, Next&& next) {
  using Task = detail::TaskWithNext<std::decay_t<Next>>;
  std::unique_ptr<Task, detail::DeleteUnlessAbandoned> owned(
      new Task(group, std::forward<Next>(next)));
  Task& task = *owned;
  task.handle = group.defer([owned = std::move(owned)] {
    if (!owned->skips_next) {
      owned->next();
    }
  });
  if (const int error = iow_task_begin(service.raw(), &detail::io_has_ended, &task); error != 0) {
    const ::tbb::task_handle dropped = std::move(task.handle);
    check(error, "iow_task_begin");
  }
  try {
    std::forward<Body>(body)();
  } catch (...) {
    task.skips_next = true;
    static_cast<void>(detail::end_body(service, group, task));
    throw;
  }
  if (detail::end_body(service, group, task) != 0) {
    throw std::logic_error(
        "ioweave::tbb::run_io: the body did not end on the thread it began on, or ended the task "
        "itself; let it start transfers only, and wait in `next`");
  }
}

}  // namespace ioweave::tbb

#endif  // IOWEAVE_TBB_HPP
