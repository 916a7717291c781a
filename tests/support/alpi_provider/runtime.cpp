// How it works. One lock guards the queues, the CPUs and the pool. Whoever gives a CPU away,
// because its task pauses or ends, looks for the next task and hands the CPU to that task's thread
// (release_cpu); so a CPU is idle only while nothing is ready, and a task that becomes ready needs
// to look at idle CPUs only (make_ready).
//
// Blocking is decided by one word per task and without the lock where the unblock came first. The
// other way round the unblock makes the task ready, perhaps before the task's thread came to give
// its CPU away: the thread then finds that it holds one CPU and is granted another, or the same.
#include "runtime.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include <sched.h>
#include <unistd.h>

#include "alpi.h"
#include "base/futex.hpp"
#include "mode.hpp"
#include "unordered.hpp"

namespace alpi_test {
namespace {

using namespace std::chrono_literals;
constexpr auto kMostDelay = 2ms;                   // of late_unblock
constexpr auto kMostWatched = 1ms;                 // of immediate_unblock
constexpr uint64_t kMostWait = uint64_t{1} << 60;  // 36 years, so that no clock overflows

thread_local Thread* this_thread = nullptr;

/// Returns `fallback` where the variable is not set; ends the program where it is no such number.
uint64_t number_from(const char* variable, uint64_t most, uint64_t fallback) {
  const char* text = std::getenv(variable);
  if (text == nullptr) {
    return fallback;
  }
  char* end = nullptr;
  errno = 0;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value > most) {
    die("%s is \"%s\"; it must be a number up to %llu", variable, text,
        static_cast<unsigned long long>(most));
  }
  return value;
}

uint32_t cpus_from_environment() {
  const long online = std::clamp<long>(sysconf(_SC_NPROCESSORS_ONLN), 1, Runtime::kMostCpus);
  const uint64_t cpus =
      number_from("ALPI_TEST_CPUS", Runtime::kMostCpus, static_cast<uint64_t>(online));
  if (cpus == 0) {
    die("ALPI_TEST_CPUS is 0; a runtime needs at least one CPU");
  }
  return static_cast<uint32_t>(cpus);
}

/// The processors that CPUs stand for where threads are bound to them; else none.
std::vector<int> processors_to_bind_to(uint32_t cpus) {
  std::vector<int> processors;
  cpu_set_t allowed;
  if (number_from("ALPI_TEST_BIND", 1, 0) == 0 ||
      sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    return processors;
  }
  for (int processor = 0; processor < CPU_SETSIZE && processors.size() < cpus; ++processor) {
    if (CPU_ISSET(processor, &allowed)) {
      processors.push_back(processor);
    }
  }
  if (processors.size() < cpus) {
    die("ALPI_TEST_BIND is 1, but there are %u CPUs and %zu processors", cpus, processors.size());
  }
  return processors;
}

void raise(std::atomic<uint64_t>& most, uint64_t value) {
  if (value > most.load(std::memory_order_relaxed)) {
    most.store(value, std::memory_order_relaxed);  // writers hold the lock
  }
}

void add(std::atomic<uint64_t>& counter, uint64_t count = 1) {
  counter.fetch_add(count, std::memory_order_relaxed);
}

Timer::Clock::time_point later(uint64_t wait_ns) {
  return Timer::Clock::now() + std::chrono::nanoseconds(std::min(wait_ns, kMostWait));
}

/// As compare_exchange_weak(). The strong order is acquire and release: what came before a change
/// happens before what follows any later change of the word.
bool change(std::atomic<uint64_t>& word, uint64_t& expected, uint64_t desired, bool relaxed) {
  return relaxed ? word.compare_exchange_weak(expected, desired, std::memory_order_relaxed)
                 : word.compare_exchange_weak(expected, desired, std::memory_order_acq_rel,
                                              std::memory_order_relaxed);
}

/// True if an unblock had come, which is used up; else the task is in state `otherwise`.
bool take_unblock(Task& task, BlockState otherwise) {
  uint64_t word = task.block.load(std::memory_order_relaxed);
  uint32_t next = kAwake;
  do {
    next = low_of(word) == kUnblocked        ? kAwake
           : low_of(word) == kUnblockedTwice ? kUnblocked
                                             : otherwise;
  } while (!change(task.block, word, word_of(generation_of(word), next), has(kRelaxedUnblock)));
  return next != otherwise;
}

}  // namespace

Runtime& Runtime::get() {
  static Runtime* const runtime = new Runtime;
  return *runtime;
}

void Runtime::Stats::clear() noexcept {
  for (auto* counter : {&tasks, &blocks, &sleeps, &unblocks, &most_threads, &most_blocked,
                        &increases, &decreases, &foreign_unblocks, &foreign_decreases, &extra_cpus,
                        &misuses, &waits, &shortest_wait_ns, &longest_wait_ns}) {
    counter->store(0, std::memory_order_relaxed);
  }
}

void Runtime::read_stats(alpi_test_stats& stats) const noexcept {
  const auto value = [](const std::atomic<uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  stats = {.tasks = value(stats_.tasks),
           .blocks = value(stats_.blocks),
           .sleeps = value(stats_.sleeps),
           .unblocks = value(stats_.unblocks),
           .most_threads = value(stats_.most_threads),
           .most_blocked = value(stats_.most_blocked),
           .increases = value(stats_.increases),
           .decreases = value(stats_.decreases),
           .foreign_unblocks = value(stats_.foreign_unblocks),
           .foreign_decreases = value(stats_.foreign_decreases),
           .extra_cpus = value(stats_.extra_cpus),
           .misuses = value(stats_.misuses),
           .waits = value(stats_.waits),
           .shortest_wait_ns = value(stats_.shortest_wait_ns),
           .longest_wait_ns = value(stats_.longest_wait_ns)};
}

// ---- Start and stop ----

bool Runtime::start(uint32_t cpus) {
  const std::lock_guard control(control_);
  if (running_.load(std::memory_order_relaxed)) {
    return false;
  }
  stats_.clear();
  timer_.start([](Timer::Action action, Handle handle) { get().timer_fired(action, handle); },
               number_from("ALPI_TEST_SEED", UINT64_MAX, 1));
  const std::lock_guard guard(lock_);
  cpus_.store(cpus, std::memory_order_relaxed);
  processors_ = processors_to_bind_to(cpus);
  idle_cpus_.clear();
  for (uint32_t cpu = cpus; cpu-- > 0;) {
    idle_cpus_.push_back(cpu);
  }
  running_.store(true, std::memory_order_release);  // pairs with the loads in spawn() and others
  return true;
}

void Runtime::wait_idle() {
  if (this_thread != nullptr) {
    die("alpi_test_wait_idle() and alpi_test_stop() were called on a thread of the runtime, and "
        "would wait for themselves; call them on another");
  }
  std::unique_lock guard(lock_);
  idle_.wait(guard, [this] { return live_ == 0; });
}

void Runtime::stop() {
  wait_idle();
  const std::lock_guard control(control_);
  if (!running_.exchange(false, std::memory_order_acq_rel)) {
    return;
  }
  timer_.stop();
  std::vector<std::unique_ptr<Thread>> ending;
  {
    // The last task's thread is on its way into the pool, an unblocker may still watch it.
    std::unique_lock guard(lock_);
    idle_.wait(guard, [this] { return watchers_ == 0; });
    ending.swap(threads_);
    idle_.wait(guard, [&] { return idle_threads_.size() == ending.size(); });
    idle_threads_.clear();
  }
  for (const auto& thread : ending) {
    wake_up(grant(*thread, Thread::kEnd));
    thread->system_thread.join();
  }
}

// ---- Threads and CPUs ----

/// The thread, if it has to be woken.
Thread* Runtime::grant(Thread& thread, uint32_t what) noexcept {
  // Before it wakes: a thread that runs already would have to move.
  bind(thread, thread.id.load(std::memory_order_relaxed), what);
  // The release pairs with the acquire in sleep().
  const bool asleep = thread.grant.exchange(what, std::memory_order_acq_rel) == Thread::kAsleep;
  return asleep ? &thread : nullptr;
}

/// Without the lock: a thread that wakes on the same processor may run before its waker goes on.
void Runtime::wake_up(Thread* thread) noexcept {
  if (thread != nullptr) {
    ioweave::futex_wake(thread->grant, 1);
  }
}

void Runtime::bind(Thread& thread, pid_t id, uint32_t cpu) const noexcept {
  if (cpu >= processors_.size() || cpu == thread.bound_to || id == 0) {
    return;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processors_[cpu], &one);
  static_cast<void>(sched_setaffinity(id, sizeof one, &one));  // slower without, and no worse
  thread.bound_to = cpu;
}

/// Until the thread is granted a CPU. False: the thread is to end.
bool Runtime::sleep(Thread& me) {
  uint32_t granted = Thread::kNone;
  me.grant.compare_exchange_strong(granted, Thread::kAsleep, std::memory_order_acq_rel);
  while (granted == Thread::kNone || granted == Thread::kAsleep) {
    ioweave::futex_wait(me.grant, Thread::kAsleep);
    granted = me.grant.load(std::memory_order_acquire);
  }
  me.grant.store(Thread::kNone, std::memory_order_relaxed);  // who runs is granted nothing
  me.cpu = granted;
  return granted != Thread::kEnd;
}

void Runtime::work(Thread& me) {
  this_thread = &me;
  const pid_t id = gettid();
  me.id.store(id, std::memory_order_relaxed);
  while (sleep(me)) {
    bind(me, id, me.cpu);  // where who granted did not know its number yet
    run_body(me);
    Thread* next = nullptr;
    {
      const std::lock_guard guard(lock_);
      idle_threads_.push_back(&me);  // first, so that this thread takes the next new task itself
      next = release_cpu(me.cpu);
      if (live_ == 0) {
        idle_.notify_all();  // stop() waits for all threads to be here
      }
    }
    wake_up(next);
  }
}

/// Who is to be woken, as the next two.
Thread* Runtime::release_cpu(uint32_t cpu) {
  if (cpu >= cpus_.load(std::memory_order_relaxed)) {
    return nullptr;  // one that wake_at_once() lent
  }
  Task* next = resumed_.pop();
  if (next == nullptr) {
    next = fresh_.pop();
  }
  if (next == nullptr) {
    idle_cpus_.push_back(cpu);
    return nullptr;
  }
  return run_on(*next, cpu);
}

Thread* Runtime::run_on(Task& task, uint32_t cpu) {
  if (task.thread == nullptr) {
    task.thread = &pooled_thread();
    task.thread->task = &task;
  }
  return grant(*task.thread, cpu);
}

Thread* Runtime::make_ready(Task& task, TaskQueue& queue) {
  queue.push(task);
  if (idle_cpus_.empty()) {
    return nullptr;
  }
  const uint32_t cpu = idle_cpus_.back();
  idle_cpus_.pop_back();
  return release_cpu(cpu);
}

/// As make_ready(), without the lock, and wakes.
void Runtime::start_running(Task& task, TaskQueue& queue) {
  Thread* next = nullptr;
  {
    const std::lock_guard guard(lock_);
    next = make_ready(task, queue);
  }
  wake_up(next);
}

Thread& Runtime::pooled_thread() {
  if (!idle_threads_.empty()) {
    Thread* thread = idle_threads_.back();
    idle_threads_.pop_back();
    return *thread;
  }
  Thread& thread = *threads_.emplace_back(std::make_unique<Thread>());
  idle_threads_.reserve(threads_.size());
  try {
    thread.system_thread = std::thread(&Runtime::work, this, std::ref(thread));
  } catch (const std::system_error& error) {
    die("cannot start thread number %zu: %s; each blocked task holds a thread, so let fewer block "
        "at once or raise the limit on threads (ulimit -u)",
        threads_.size(), error.what());
  }
  raise(stats_.most_threads, threads_.size());
  return thread;
}

// ---- The life of a task ----

Outcome Runtime::spawn(const Spawn& what) {
  if (!running_.load(std::memory_order_acquire)) {
    // False if another thread was faster: then the runtime runs as well.
    static_cast<void>(start(cpus_from_environment()));
  }
  std::unique_lock guard(lock_);
  Task* task = table_.take();
  if (task == nullptr) {
    return Outcome::no_memory;
  }
  task->body = what.body;
  task->args = what.args;
  task->completion = what.completion;
  task->completion_args = what.completion_args;
  task->suspend_mode = ALPI_SUSPEND_NONE;
  const char* label = what.label == nullptr ? "without a label" : what.label;
  task->label.fill('\0');
  std::strncpy(task->label.data(), label, task->label.size() - 1);
  ++live_;
  Thread* const next = make_ready(*task, fresh_);
  guard.unlock();
  wake_up(next);
  return Outcome::done;
}

void Runtime::run_body(Thread& me) {
  Task& task = *me.task;
  task.suspends = false;
  task.body(task.args);
  me.task = nullptr;
  me.progress.fetch_add(1, std::memory_order_relaxed);
  if (task.suspends) {
    suspend(task);
    return;
  }
  if (low_of(task.block.load(std::memory_order_relaxed)) == kUnblocked) {
    static_cast<void>(misuse("a task ended with an unblock that no block matched", &task));
  }
  body_ended(task, false);
}

/// The task may run again, on another thread, before this returns.
void Runtime::suspend(Task& task) {
  std::unique_lock guard(lock_);
  task.thread = nullptr;
  if (task.suspend_mode == ALPI_SUSPEND_TIMEOUT_SUBMIT) {
    timer_.at(later(task.suspend_args), Timer::Action::make_ready, handle_of(task));
    return;
  }
  if (task.suspend_mode == ALPI_SUSPEND_EVENT_SUBMIT) {
    guard.unlock();
    body_ended(task, true);
    return;
  }
  // Under the lock, for the unblock may come before this line.
  const bool is_ready = task.suspend_mode == ALPI_SUSPEND_SUBMIT || take_unblock(task, kStackless);
  Thread* const next = is_ready ? make_ready(task, fresh_) : nullptr;
  guard.unlock();
  wake_up(next);
}

/// The body counts as an event until here. Afterwards the task may be gone.
void Runtime::body_ended(Task& task, bool suspended) {
  uint64_t word = task.events.load(std::memory_order_relaxed);
  uint64_t left = 0;
  do {
    left = (word - kBodyRuns) | (suspended ? kSuspended : 0);
    // Always a release, for the completion may run on the thread of the last decrease.
  } while (!(has(kRelaxedDecrease)
                 ? task.events.compare_exchange_weak(word, left, std::memory_order_release,
                                                     std::memory_order_relaxed)
                 : change(task.events, word, left, false)));
  if ((low_of(left) & kMostEvents) == 0) {
    out_of_events(task);
  }
}

Outcome Runtime::decrease(Handle handle, uint64_t count) {
  if (!running_.load(std::memory_order_acquire)) {
    return Outcome::not_running;
  }
  if (self() == nullptr) {
    add(stats_.foreign_decreases);
  }
  Task* task = table_.find(handle);
  if (task == nullptr) {
    return misuse("a decrease of events of what is no task", nullptr);
  }
  uint64_t word = task->events.load(std::memory_order_relaxed);
  do {
    if (generation_of(word) != generation_of(handle)) {
      return misuse("a decrease of events of a task that is done", nullptr);
    }
    if (count > (low_of(word) & kMostEvents)) {
      return misuse("a decrease by more events than the task has", task);
    }
  } while (!change(task->events, word, word - count, has(kRelaxedDecrease)));
  add(stats_.decreases, count);
  const uint32_t left = low_of(word) - static_cast<uint32_t>(count);
  if ((left & (kBodyRuns | kMostEvents)) == 0) {
    out_of_events(*task);
  }
  return Outcome::done;
}

void Runtime::out_of_events(Task& task) {
  // Pairs with the release of body_ended(), also where the last change was a relaxed decrease.
  const uint64_t word = task.events.load(std::memory_order_acquire);
  if ((low_of(word) & kSuspended) == 0) {
    complete(task);
    return;
  }
  task.events.store(word_of(generation_of(word), kBodyRuns), std::memory_order_release);
  start_running(task, fresh_);
}

void Runtime::complete(Task& task) {
  void (*const completion)(void*) = task.completion;
  void* const args = task.completion_args;
  // From here on the handle is stale, for the completion too.
  const uint32_t next = generation_of(task.events.load(std::memory_order_relaxed)) + 1;
  task.block.store(word_of(next, kAwake), std::memory_order_relaxed);
  task.events.store(word_of(next, 0), std::memory_order_relaxed);
  completion(args);
  add(stats_.tasks);
  const std::lock_guard guard(lock_);
  table_.give_back(task);
  if (--live_ == 0) {
    idle_.notify_all();
  }
}

// ---- Pausing ----

Task* Runtime::self() noexcept {
  return this_thread == nullptr ? nullptr : this_thread->task;
}

uint32_t Runtime::cpu() const noexcept {
  return this_thread->cpu % cpus_.load(std::memory_order_relaxed);
}

/// Gives the CPU away and sleeps until the task's thread is granted one again.
void Runtime::pause(Thread& me) {
  Thread* next = nullptr;
  {
    const std::lock_guard guard(lock_);
    next = release_cpu(me.cpu);
  }
  wake_up(next);
  if (!sleep(me)) {
    die("the runtime was stopped while a task was paused");
  }
  me.progress.fetch_add(1, std::memory_order_relaxed);
}

void Runtime::block(Task& task) {
  add(stats_.blocks);
  this_thread->progress.fetch_add(1, std::memory_order_relaxed);  // before who unblocks looks at it
  if (take_unblock(task, kBlocked)) {
    return;
  }
  {
    const std::lock_guard guard(lock_);
    ++blocked_;
    add(stats_.sleeps);
    raise(stats_.most_blocked, static_cast<uint64_t>(std::max<int64_t>(blocked_, 0)));
  }
  pause(*this_thread);
}

Outcome Runtime::unblock(Handle handle) {
  if (!running_.load(std::memory_order_acquire)) {
    return Outcome::not_running;
  }
  if (self() == nullptr) {
    add(stats_.foreign_unblocks);
  }
  if (!has(kLateUnblock)) {
    return unblock_now(handle);
  }
  const Task* task = table_.find(handle);
  if (task == nullptr ||
      generation_of(task->block.load(std::memory_order_relaxed)) != generation_of(handle)) {
    return unblock_now(handle);  // which says what is wrong, while the caller is on the stack
  }
  timer_.soon(kMostDelay, Timer::Action::unblock, handle);
  return Outcome::done;
}

Outcome Runtime::unblock_now(Handle handle) {
  Task* task = table_.find(handle);
  if (task == nullptr) {
    return misuse("an unblock of what is no task", nullptr);
  }
  uint64_t word = task->block.load(std::memory_order_relaxed);
  uint32_t next = kAwake;
  do {
    if (generation_of(word) != generation_of(handle)) {
      return misuse("an unblock of a task that is done", nullptr);
    }
    if (low_of(word) == kUnblockedTwice || (low_of(word) == kUnblocked && !has(kCountUnblocks))) {
      return misuse("a second unblock before a block", task);
    }
    next = low_of(word) == kAwake       ? kUnblocked
           : low_of(word) == kUnblocked ? kUnblockedTwice
                                        : kAwake;
  } while (!change(task->block, word, word_of(generation_of(word), next), has(kRelaxedUnblock)));
  add(stats_.unblocks);
  if (low_of(word) == kBlocked) {
    has(kImmediateUnblock) ? wake_at_once(*task) : wake(*task);
  } else if (low_of(word) == kStackless) {
    start_running(*task, fresh_);
  }
  return Outcome::done;
}

void Runtime::wake(Task& task) {
  const Unordered unordered(has(kRelaxedUnblock));
  Thread* next = nullptr;
  {
    const std::lock_guard guard(lock_);
    --blocked_;
    next = make_ready(task, resumed_);
  }
  wake_up(next);
}

void Runtime::wake_at_once(Task& task) {
  const Unordered unordered(has(kRelaxedUnblock));
  std::unique_lock guard(lock_);
  --blocked_;
  uint32_t cpu = cpus_.load(std::memory_order_relaxed);  // one more than there are
  if (idle_cpus_.empty()) {
    add(stats_.extra_cpus);
  } else {
    cpu = idle_cpus_.back();
    idle_cpus_.pop_back();
  }
  Thread& thread = *task.thread;
  const uint64_t before = thread.progress.load(std::memory_order_relaxed);
  ++watchers_;
  Thread* const asleep = grant(thread, cpu);
  guard.unlock();
  wake_up(asleep);
  // Two steps: the task goes on, and it pauses again or ends. Bounded, for what the task does next
  // may take long, or may even wait for the caller.
  const auto limit = Timer::Clock::now() + kMostWatched;
  while (thread.progress.load(std::memory_order_relaxed) < before + 2 &&
         Timer::Clock::now() < limit) {
    std::this_thread::yield();
  }
  guard.lock();
  if (--watchers_ == 0) {
    idle_.notify_all();
  }
}

/// Without the lock, which would order what a test wants to see unordered.
void Runtime::note_wait(uint64_t wait_ns) noexcept {
  uint64_t seen = stats_.shortest_wait_ns.load(std::memory_order_relaxed);
  while ((seen == 0 || wait_ns < seen) &&
         !stats_.shortest_wait_ns.compare_exchange_weak(seen, wait_ns, std::memory_order_relaxed)) {
  }
  seen = stats_.longest_wait_ns.load(std::memory_order_relaxed);
  while (wait_ns > seen &&
         !stats_.longest_wait_ns.compare_exchange_weak(seen, wait_ns, std::memory_order_relaxed)) {
  }
  add(stats_.waits);
}

uint64_t Runtime::wait_for(Task& task, uint64_t wait_ns) {
  if (wait_ns > 0) {
    note_wait(wait_ns);
  }
  const auto begin = Timer::Clock::now();
  stand_back(task, wait_ns);
  return static_cast<uint64_t>(std::chrono::nanoseconds(Timer::Clock::now() - begin).count());
}

void Runtime::stand_back(Task& task, uint64_t wait_ns) {
  this_thread->progress.fetch_add(1, std::memory_order_relaxed);
  if (wait_ns > 0) {
    timer_.at(later(wait_ns), Timer::Action::make_ready, handle_of(task));
  } else {
    const std::lock_guard guard(lock_);
    if (resumed_.empty() && fresh_.empty()) {
      return;
    }
    fresh_.push(task);  // also behind new tasks, or one that looks again and again starves them
  }
  pause(*this_thread);
}

void Runtime::timer_fired(Timer::Action action, Handle handle) {
  if (action == Timer::Action::unblock) {
    static_cast<void>(unblock_now(handle));
    return;
  }
  start_running(*table_.find(handle), resumed_);
}

// ---- Events, misuse ----

bool Runtime::increase(Task& task, uint64_t count) noexcept {
  uint64_t word = task.events.load(std::memory_order_relaxed);
  do {
    if (count > kMostEvents - (low_of(word) & kMostEvents)) {
      return false;
    }
  } while (!change(task.events, word, word + count, has(kRelaxedDecrease)));
  add(stats_.increases, count);
  return true;
}

bool Runtime::has_events(const Task& task) noexcept {
  return (low_of(task.events.load(std::memory_order_acquire)) & kMostEvents) != 0;
}

uint32_t Runtime::cpus() {
  return running_.load(std::memory_order_acquire) ? cpus_.load(std::memory_order_relaxed)
                                                  : cpus_from_environment();
}

Outcome Runtime::misuse(const char* what, const Task* task) {
  if (!has(kCountMisuse)) {
    die("misuse of ALPI: %s (task \"%s\"); the mode count_misuse counts this instead", what,
        task == nullptr ? "unknown" : task->label.data());
  }
  add(stats_.misuses);
  return Outcome::misuse;
}

}  // namespace alpi_test
