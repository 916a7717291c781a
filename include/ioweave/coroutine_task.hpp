// What a program without a coroutine library needs to use ioweave/coroutine.hpp: a pool of threads
// that resumes coroutines, a lazy Task, when_all() and sync_wait(). Any other coroutine type can
// await what coroutine.hpp offers, too; coroutine.hpp does not depend on this header.
#ifndef IOWEAVE_COROUTINE_TASK_HPP
#define IOWEAVE_COROUTINE_TASK_HPP

#include <atomic>
#include <condition_variable>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "ioweave/coroutine.hpp"

namespace ioweave {

/// Threads that resume coroutines in the order they were posted. Thread-safe, but for construction
/// and destruction. The destructor resumes what was posted and joins the threads. Nothing may be
/// posted once it runs, so no transfer or coroutine that will post here may be under way then.
class ThreadPoolExecutor {
 public:
  explicit ThreadPoolExecutor(size_t threads) {
    if (threads == 0) {
      throw std::invalid_argument(
          "ThreadPoolExecutor: 0 threads resume nothing; ask for 1 or more");
    }
    threads_.reserve(threads);
    try {
      while (threads_.size() < threads) {
        threads_.emplace_back([this] { work(); });
      }
    } catch (...) {
      stop();  // the threads that did start
      throw;
    }
  }
  ~ThreadPoolExecutor() { stop(); }
  ThreadPoolExecutor(const ThreadPoolExecutor&) = delete;
  ThreadPoolExecutor& operator=(const ThreadPoolExecutor&) = delete;

  /// Queues a coroutine. The link lies in the suspended coroutine, so this cannot fail.
  void post(Resumption& resumption) noexcept {
    const std::lock_guard guard(lock_);  // held to the end, after which the pool may be gone
    resumption.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &resumption;
    last_ = &resumption;
    wake_one();
  }
  /// Queues a handle without a link, by a coroutine whose frame holds the link. The program ends if
  /// there is no memory for that frame. The awaitables of coroutine.hpp do not use this function.
  void post(std::coroutine_handle<> handle) noexcept { carry(*this, handle); }

  /// `co_await pool.schedule()` continues the coroutine on one of the pool's threads.
  [[nodiscard]] auto schedule() noexcept {
    struct Awaitable {
      ThreadPoolExecutor& pool;
      Resumption resumption{};
      bool await_ready() const noexcept { return false; }
      // Never inlined: as Operation::await_suspend().
      [[gnu::noinline]] void await_suspend(std::coroutine_handle<> awaiting) noexcept {
        resumption.handle = awaiting;
        pool.post(resumption);
      }
      void await_resume() const noexcept {}
    };
    return Awaitable{*this};
  }

 private:
  /// A coroutine that nobody waits for.
  struct Detached {
    struct promise_type {
      Detached get_return_object() noexcept { return {}; }
      std::suspend_never initial_suspend() noexcept { return {}; }
      std::suspend_never final_suspend() noexcept { return {}; }
      void return_void() noexcept {}
      void unhandled_exception() noexcept { std::terminate(); }
    };
  };
  static Detached carry(ThreadPoolExecutor& pool, std::coroutine_handle<> handle) {
    co_await pool.schedule();
    handle.resume();
  }

  /// Called under the lock. At most one thread is waking up at a time; it wakes the next one if
  /// there is work for two. So a batch of completions costs the thread that posts it one wake-up.
  void wake_one() noexcept {
    if (idle_ > 0 && !waking_) {
      waking_ = true;
      work_or_end_.notify_one();
    }
  }

  [[nodiscard]] std::coroutine_handle<> take() noexcept {
    const std::coroutine_handle<> handle = first_->handle;
    first_ = first_->next;
    if (first_ == nullptr) {
      last_ = nullptr;
    } else {
      wake_one();
    }
    return handle;
  }

  void work() noexcept {
    std::unique_lock guard(lock_);
    for (;;) {
      if (first_ != nullptr) {
        const std::coroutine_handle<> handle = take();
        guard.unlock();
        handle.resume();
        guard.lock();
      } else if (ending_) {
        return;
      } else {
        ++idle_;
        work_or_end_.wait(guard);
        --idle_;
        waking_ = false;
      }
    }
  }

  void stop() noexcept {
    {
      const std::lock_guard guard(lock_);
      ending_ = true;
      work_or_end_.notify_all();
    }
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  std::mutex lock_;
  std::condition_variable work_or_end_;
  Resumption* first_ = nullptr;
  Resumption* last_ = nullptr;
  size_t idle_ = 0;      // threads asleep
  bool waking_ = false;  // one of these was told to wake up and has not woken yet
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

template <typename T = void>
class Task;

namespace detail {

/// Counts tasks that end; after the last one, a coroutine continues or a thread wakes up.
struct TaskEnd {
  explicit TaskEnd(size_t tasks) noexcept : running(tasks) {}

  /// Counts one end and returns the coroutine that continues. If other tasks still run, or a
  /// sleeping thread is woken, this object and the calling task may be gone afterwards.
  std::coroutine_handle<> one_ended() noexcept {
    // Release what this task did, acquire what the others did.
    if (running.fetch_sub(1, std::memory_order_acq_rel) != 1) {
      return std::noop_coroutine();
    }
    if (sleeper != nullptr) {
      sleeper->set();
      return std::noop_coroutine();
    }
    return continuation;
  }

  std::atomic<size_t> running;
  std::coroutine_handle<> continuation;
  Signal* sleeper = nullptr;
};

class TaskPromiseBase {
 public:
  struct EndAwaitable {
    bool await_ready() const noexcept { return false; }
    // Never inlined: as Operation::await_suspend().
    template <typename Promise>
    [[gnu::noinline]] std::coroutine_handle<> await_suspend(
        std::coroutine_handle<Promise> ended) const noexcept {
      return ended.promise().end->one_ended();
    }
    void await_resume() const noexcept {}
  };
  std::suspend_always initial_suspend() noexcept { return {}; }
  EndAwaitable final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { error_ = std::current_exception(); }

  TaskEnd* end = nullptr;  // set before it starts
  TaskEnd own_end{1};      // for a task that is awaited alone

 protected:
  void rethrow() const {
    if (error_ != nullptr) {
      std::rethrow_exception(error_);
    }
  }

 private:
  std::exception_ptr error_;
};

template <typename T>
class TaskPromise : public TaskPromiseBase {
 public:
  Task<T> get_return_object() noexcept;
  template <typename U>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T take() {
    rethrow();
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class TaskPromise<void> : public TaskPromiseBase {
 public:
  Task<void> get_return_object() noexcept;
  void return_void() noexcept {}
  void take() const { rethrow(); }
};

}  // namespace detail

/// A coroutine that returns a T or throws. It starts when it is awaited, on the awaiting thread.
/// Await it once. It may be destroyed before it has started and after it has ended.
template <typename T>
class [[nodiscard("a Task does nothing until it is awaited")]] Task {
 public:
  using promise_type = detail::TaskPromise<T>;

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) {
      handle_.destroy();
    }
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) noexcept {
    promise_type& promise = handle_.promise();
    promise.own_end.continuation = awaiting;
    return starting_for(promise.own_end);
  }
  T await_resume() { return handle_.promise().take(); }

  /// For other ways of waiting: returns the coroutine to resume, which tells `end` when it ends.
  /// await_resume() then returns its result.
  std::coroutine_handle<> starting_for(detail::TaskEnd& end) noexcept {
    handle_.promise().end = &end;
    return handle_;
  }

 private:
  friend promise_type;
  explicit Task(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}

  std::coroutine_handle<promise_type> handle_;
};

namespace detail {

template <typename T>
Task<T> TaskPromise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}
inline Task<void> TaskPromise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

/// Starts each task where this is awaited, and continues when all have ended.
class AllTasks {
 public:
  explicit AllTasks(std::vector<Task<>>& tasks) noexcept : tasks_(tasks), end_(tasks.size() + 1) {}
  bool await_ready() const noexcept { return tasks_.empty(); }
  // Never inlined: as Operation::await_suspend().
  [[gnu::noinline]] std::coroutine_handle<> await_suspend(
      std::coroutine_handle<> awaiting) noexcept {
    end_.continuation = awaiting;
    for (Task<>& task : tasks_) {
      task.starting_for(end_).resume();
    }
    return end_.one_ended();  // drops the count that stood for this loop
  }
  void await_resume() const noexcept {}

 private:
  std::vector<Task<>>& tasks_;
  TaskEnd end_;
};

}  // namespace detail

/// Starts the tasks one after the other on the calling thread, each up to where it first suspends
/// (`co_await pool.schedule()` moves a task to the pool). It ends when all tasks have ended, and
/// throws the error of the first one in the vector that failed.
inline Task<> when_all(std::vector<Task<>> tasks) {
  co_await detail::AllTasks(tasks);
  for (Task<>& task : tasks) {
    task.await_resume();
  }
}

/// Starts the task on the calling thread and sleeps until it has ended. Do not call it on a thread
/// of an executor that the task needs.
template <typename T>
T sync_wait(Task<T> task) {
  detail::Signal ended;
  detail::TaskEnd end(1);
  end.sleeper = &ended;
  task.starting_for(end).resume();
  ended.wait();
  return task.await_resume();
}

}  // namespace ioweave

#endif  // IOWEAVE_COROUTINE_TASK_HPP
