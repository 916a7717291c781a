#pragma once

// Runs bodies as tasks, on a few workers, whatever the host: what storage I/O in tasks promises
// does not depend on it.

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/alpi_tasks.hpp"
#ifdef IOWEAVE_TEST_REAL_ALPI
#include "support/real_alpi.hpp"
#endif

#ifdef IOWEAVE_TEST_TBB
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#endif

namespace ioweave::test {

/// Who runs the tasks, and who reaps for them.
enum class HostUnderTest { alpi_thread, alpi_task, tbb, begun };

inline std::string name_of(HostUnderTest host) {
  switch (host) {
    case HostUnderTest::alpi_thread:
      return "AlpiThreadReaps";
    case HostUnderTest::alpi_task:
      return "AlpiTaskReaps";
    case HostUnderTest::tbb:
      return "Tbb";
    case HostUnderTest::begun:
      return "BegunOnThreads";
  }
  return "";
}

inline bool is_alpi(HostUnderTest host) {
  return host == HostUnderTest::alpi_thread || host == HostUnderTest::alpi_task;
}

/// Empty, or why there is no such host in this program.
inline std::string missing(HostUnderTest host) {
#if defined(IOWEAVE_TEST_REAL_ALPI)
  return is_alpi(host) ? find_real_alpi().reason : "only ALPI's tasks are tested by this program";
#elif !defined(IOWEAVE_TEST_TBB)
  if (host == HostUnderTest::tbb) {
    return "oneTBB's development files are not installed, or this is ThreadSanitizer, which its "
           "library is not built for";
  }
#else
  static_cast<void>(host);
#endif
  return "";
}

/// What has begun and not ended.
class Outstanding {
 public:
  void add() {
    const std::lock_guard guard(lock_);
    ++count_;
  }
  void drop() {
    const std::lock_guard guard(lock_);
    if (--count_ == 0) {
      none_.notify_all();
    }
  }
  void wait() {
    std::unique_lock guard(lock_);
    none_.wait(guard, [this] { return count_ == 0; });
  }

 private:
  std::mutex lock_;
  std::condition_variable none_;
  size_t count_ = 0;
};

/// Opens and closes a task of a runtime without external events: iow_task_begin() and its end.
struct Brackets {
  std::function<int(void (*done)(void*), void* user)> begin;
  std::function<int()> end;
};

/// Bodies must have been waited for before destruction; the service is closed between the two.
class Workers {
 public:
  using Body = std::function<void()>;

  Workers() = default;
  virtual ~Workers() = default;
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// A task whose blocking calls pause it.
  virtual void spawn(Body body) = 0;
  /// A task that transfers may be bound to. `completed` is its successor: it runs once, after the
  /// body and the transfers.
  virtual void spawn_bound(Body body, Body completed) = 0;
  /// Inside a task: runs the bodies as tasks and waits for them, as a task does.
  virtual void fork_join(std::vector<Body> bodies) = 0;
  /// Outside tasks: for all that were spawned.
  virtual void wait() = 0;

  [[nodiscard]] virtual Brackets& brackets() { return brackets_; }

 private:
  Brackets brackets_;
};

class AlpiWorkers final : public Workers {
 public:
  explicit AlpiWorkers(unsigned workers, const char* modes = "") : runtime_(workers, modes) {}
  ~AlpiWorkers() override { wait(); }

  void spawn(Body body) override { spawn_bound(std::move(body), nullptr); }
  void spawn_bound(Body body, Body completed) override {
    outstanding_.add();
    EXPECT_EQ(spawn_alpi_task(std::move(body),
                              [this, completed = std::move(completed)] {
                                if (completed) {
                                  completed();
                                }
                                outstanding_.drop();
                              }),
              ALPI_SUCCESS);
  }
  void fork_join(std::vector<Body> bodies) override {
    const auto left = std::make_shared<std::atomic<size_t>>(bodies.size());
    for (Body& body : bodies) {
      spawn_bound(std::move(body), [left] { left->fetch_sub(1, std::memory_order_release); });
    }
    while (left->load(std::memory_order_acquire) != 0) {
      EXPECT_EQ(alpi_task_waitfor_ns(20'000, nullptr), ALPI_SUCCESS);
    }
  }
  // Not AlpiRuntime::wait_idle(): real runtimes have no such call.
  void wait() override { outstanding_.wait(); }

 private:
  AlpiRuntime runtime_;
  Outstanding outstanding_;
};

/// A body in brackets, with its successor as a closure.
inline void run_bracketed(const Brackets& brackets, const Workers::Body& body,
                          Workers::Body completed) {
  auto kept = std::make_unique<Workers::Body>(std::move(completed));
  const int begun = brackets.begin(
      [](void* user) {
        const std::unique_ptr<Workers::Body> mine(static_cast<Workers::Body*>(user));
        (*mine)();
      },
      kept.get());
  ASSERT_EQ(begun, 0);
  static_cast<void>(kept.release());
  body();
  EXPECT_EQ(brackets.end(), 0);
}

/// Plain threads, with brackets.
class ThreadWorkers final : public Workers {
 public:
  explicit ThreadWorkers(unsigned workers) {
    for (unsigned i = 0; i < workers; ++i) {
      threads_.emplace_back([this] { work(); });
    }
  }
  ~ThreadWorkers() override {
    wait();
    {
      const std::lock_guard guard(lock_);
      stop_ = true;
    }
    some_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  void spawn(Body body) override {
    spawn_bound(std::move(body), [] {});
  }
  void spawn_bound(Body body, Body completed) override {
    outstanding_.add();
    {
      const std::lock_guard guard(lock_);
      bodies_.push_back([this, body = std::move(body), completed = std::move(completed)] {
        run_bracketed(brackets(), body, [this, completed] {
          completed();
          outstanding_.drop();
        });
      });
    }
    some_.notify_one();
  }
  void fork_join(std::vector<Body> /*bodies*/) override {
    FAIL() << "a thread that waits does not run others";
  }
  void wait() override { outstanding_.wait(); }

 private:
  void work() {
    std::unique_lock guard(lock_);
    while (true) {
      some_.wait(guard, [this] { return stop_ || !bodies_.empty(); });
      if (bodies_.empty()) {
        return;
      }
      const Body body = std::move(bodies_.front());
      bodies_.pop_front();
      guard.unlock();
      body();
      guard.lock();
    }
  }

  Outstanding outstanding_;
  std::mutex lock_;
  std::condition_variable some_;
  std::deque<Body> bodies_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

#ifdef IOWEAVE_TEST_TBB
class TbbWorkers final : public Workers {
 public:
  /// One thread more than workers: the one that waits is none of them.
  explicit TbbWorkers(unsigned workers)
      : limit_(tbb::global_control::max_allowed_parallelism, workers + 1),
        arena_(static_cast<int>(workers), 0) {}
  ~TbbWorkers() override { wait(); }

  void spawn(Body body) override {
    outstanding_.add();
    arena_.enqueue(Spawned{std::move(body), &outstanding_});
  }
  void spawn_bound(Body body, Body completed) override {
    outstanding_.add();
    arena_.enqueue([this, body = std::move(body), completed = std::move(completed)] {
      run_bracketed(brackets(), body, [this, completed] {
        completed();
        outstanding_.drop();
      });
    });
  }
  void fork_join(std::vector<Body> bodies) override {
    tbb::task_group group;
    for (Body& body : bodies) {
      group.run(std::move(body));
    }
    group.wait();
  }
  void wait() override { outstanding_.wait(); }

 private:
  /// What the body holds is gone before the last task counts as ended: the stack of one that was
  /// paused is no place where LeakSanitizer looks.
  struct Spawned {
    mutable Body body;
    Outstanding* outstanding;
    void operator()() const {
      body();
      body = nullptr;
      outstanding->drop();
    }
  };

  Outstanding outstanding_;
  tbb::global_control limit_;
  tbb::task_arena arena_;
};
#endif

[[nodiscard]] inline std::unique_ptr<Workers> make_workers(HostUnderTest host, unsigned workers,
                                                           const char* alpi_modes = "") {
  if (is_alpi(host)) {
    return std::make_unique<AlpiWorkers>(workers, alpi_modes);
  }
#ifdef IOWEAVE_TEST_TBB
  if (host == HostUnderTest::tbb) {
    return std::make_unique<TbbWorkers>(workers);
  }
#endif
  return std::make_unique<ThreadWorkers>(workers);
}

}  // namespace ioweave::test
