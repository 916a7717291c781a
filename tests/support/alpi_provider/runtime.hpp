#pragma once

// The task runtime. See alpi_test.h for what it does, and runtime.cpp for how.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "alpi_test.h"
#include "tasks.hpp"
#include "timer.hpp"

namespace alpi_test {

/// A thread of the pool. It runs while it holds a CPU, and sleeps on `grant` otherwise.
struct Thread {
  // kNone while the thread runs, kAsleep while it sleeps, kEnd, or the number of the CPU it gets.
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kAsleep = UINT32_MAX - 1;
  static constexpr uint32_t kEnd = UINT32_MAX - 2;
  std::atomic<uint32_t> grant{kNone};

  // Goes up when a task goes on after a pause, and when it pauses or ends: what immediate_unblock
  // watches. Of another thread it says nothing but that.
  std::atomic<uint64_t> progress{0};

  std::thread system_thread;
  std::atomic<pid_t> id{0};   // of the system; 0 until it has begun
  uint32_t cpu = 0;           // of the thread itself, while it runs
  uint32_t bound_to = kNone;  // the CPU whose processor it is bound to: who grants, or itself
  Task* task = nullptr;       // set by who grants, before the grant; cleared by the thread
};

/// What a call on a task is refused with; the C interface makes errors of ALPI of them.
enum class Outcome : uint8_t { done, not_running, misuse, no_memory };

struct Spawn {
  void (*body)(void*);
  void* args;
  void (*completion)(void*);
  void* completion_args;
  const char* label;  // may be null
};

/// One per library, never destroyed: threads may still run when the program ends. Thread-safe.
class Runtime {
 public:
  static Runtime& get();

  /// False if it runs already. `cpus` is in 1..kMostCpus.
  [[nodiscard]] bool start(uint32_t cpus);
  void wait_idle();
  void stop();
  [[nodiscard]] bool is_running() const noexcept {
    return running_.load(std::memory_order_acquire);
  }
  void read_stats(alpi_test_stats& stats) const noexcept;

  /// Starts the runtime by the environment if it does not run.
  [[nodiscard]] Outcome spawn(const Spawn& what);
  /// Of the runtime that runs, or of the one that spawn() would start.
  [[nodiscard]] uint32_t cpus();

  [[nodiscard]] Outcome unblock(Handle handle);
  [[nodiscard]] Outcome decrease(Handle handle, uint64_t count);

  /// The task of the calling thread; null outside of one. The functions below are for it alone.
  [[nodiscard]] static Task* self() noexcept;
  /// The virtual CPU that the calling task runs on.
  [[nodiscard]] uint32_t cpu() const noexcept;
  void block(Task& task);
  /// 0 ns: lets others run first that are ready. Returns how long that took.
  uint64_t wait_for(Task& task, uint64_t wait_ns);
  /// False if the task would have more events than can be counted.
  [[nodiscard]] bool increase(Task& task, uint64_t count) noexcept;
  [[nodiscard]] static bool has_events(const Task& task) noexcept;

  static constexpr uint32_t kMostCpus = 4096;

 private:
  struct Stats {
    std::atomic<uint64_t> tasks, blocks, sleeps, unblocks, most_threads, most_blocked, increases,
        decreases, foreign_unblocks, foreign_decreases, extra_cpus, misuses, waits,
        shortest_wait_ns, longest_wait_ns;
    void clear() noexcept;
  };

  // Threads and CPUs. Those that return a thread want it woken when the lock is free.
  void work(Thread& me);
  [[nodiscard]] bool sleep(Thread& me);
  void start_running(Task& task, TaskQueue& queue);
  static void wake_up(Thread* thread) noexcept;
  // Under lock_.
  [[nodiscard]] Thread* release_cpu(uint32_t cpu);
  [[nodiscard]] Thread* run_on(Task& task, uint32_t cpu);
  [[nodiscard]] Thread* make_ready(Task& task, TaskQueue& queue);
  [[nodiscard]] Thread& pooled_thread();
  [[nodiscard]] Thread* grant(Thread& thread, uint32_t what) noexcept;
  void bind(Thread& thread, pid_t id, uint32_t cpu) const noexcept;

  // Steps of a task's life.
  void run_body(Thread& me);
  void pause(Thread& me);
  void wake(Task& task);
  void wake_at_once(Task& task);
  void note_wait(uint64_t wait_ns) noexcept;
  void stand_back(Task& task, uint64_t wait_ns);
  void suspend(Task& task);
  void body_ended(Task& task, bool suspended);
  void out_of_events(Task& task);
  void complete(Task& task);
  [[nodiscard]] Outcome unblock_now(Handle handle);
  void timer_fired(Timer::Action action, Handle handle);
  [[nodiscard]] Outcome misuse(const char* what, const Task* task);

  std::mutex control_;  // of start() and stop(); taken before lock_
  std::atomic<bool> running_{false};
  std::atomic<uint32_t> cpus_{0};
  std::vector<int> processors_;  // of the CPUs, where threads are bound to them; from start() on
  Stats stats_{};
  Timer timer_;

  mutable std::mutex lock_;
  TaskTable table_;
  TaskQueue resumed_;  // tasks that paused and may go on: these first
  TaskQueue fresh_;    // new tasks, and those that stood back
  std::vector<uint32_t> idle_cpus_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Thread*> idle_threads_;
  int64_t blocked_ = 0;    // below zero for a moment where the unblock is faster than the pause
  uint64_t live_ = 0;      // tasks spawned and not completed
  uint64_t watchers_ = 0;  // unblocking threads that look at a Thread without the lock
  std::condition_variable idle_;
};

}  // namespace alpi_test
