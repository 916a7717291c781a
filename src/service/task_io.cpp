// Storage I/O inside tasks.
//
// A blocking call in a task: what can be done at once is (finish_at_once); the rest becomes a
// request on the task's stack whose callback completes a TaskPause, and the host puts the task to
// sleep. It goes to the queue that tasks share, or to the reaper, through submit_for_task(), past
// the lane of the thread: on nOS-V every paused task has a thread of its own, and a queue for each
// would be thousands of them. Bound calls (task_bind.cpp) go the same way.
//
// After a pause the task may be on another thread. So nothing thread-local, errno included, may be
// held across one, not even by the compiler: what pauses is noinline.

#include "service/task_io.hpp"

#include <algorithm>
#include <cerrno>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "engine/available_memory.hpp"
#include "engine/available_threads.hpp"
#include "service/driving_here.hpp"
#include "service/inline_io.hpp"
#include "service/service.hpp"
#include "service/without_waiting.hpp"

namespace ioweave::service {
namespace {

void raise(std::atomic<uint32_t>& most, uint32_t value) noexcept {
  uint32_t seen = most.load(std::memory_order_relaxed);
  while (seen < value && !most.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

void count(std::atomic<uint64_t>& counter) noexcept {
  counter.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// ---- How many tasks may be paused

namespace {

/// Paused tasks, each with a stack or a thread of its own, that the machine has room for. 10,000 of
/// nOS-V took 100 MB here, of an eighth of what is available at most; and a runtime that cannot
/// start one more thread may end the program.
uint32_t room_for_paused_tasks(const tasking::TaskHost& host) {
  constexpr uint64_t kTaskBytes = 16 << 10;
  constexpr uint64_t kMemoryShare = 8;
  constexpr uint64_t kLeast = 16;
  constexpr uint64_t kMost = 65'536;
  const uint64_t in_memory = engine::available_memory_bytes() / kMemoryShare / kTaskBytes;
  const uint64_t threads = host.keeps_thread() ? engine::available_threads() : UINT64_MAX;
  return static_cast<uint32_t>(std::clamp(std::min(in_memory, threads), kLeast, kMost));
}

}  // namespace

void TaskIo::limit_paused(uint32_t wanted) {
  const uint32_t room = std::min(room_for_paused_tasks(*host), host->most_paused());
  max_paused = std::min(wanted != 0 ? wanted : room, host->most_paused());
  max_held = std::max(max_paused, room);
  too_many_text = "more than " + std::to_string(max_paused) +
                  " tasks were to be paused at once (max_paused): calls beyond that are plain; "
                  "raise it, or bind the transfers by iow_ta_*(), which needs no stack for each";
}

// ---- What needs no waiting

/// First part of a call in a task: sets `request` up and does what needs no waiting. True where
/// that was all of it, with the result in request.result.
bool Service::finish_at_once(iow_request& request) noexcept {
  engine::Operation& operation = journey_of(request).operation;
  while (true) {
    const int64_t result = perform_without_waiting(operation, tasks_.cached_writes);
    const bool cut = result > 0 && static_cast<uint64_t>(result) < journey_of(request).total_bytes;
    if (result == kWouldWait ||
        (cut && is_read(operation.op) && (request.flags & IOW_EXACT) != 0)) {
      return false;  // a system call would have gone on where the cache ends
    }
    if (advance(request, result) == Step::complete) {
      return true;
    }
  }
}

int Service::try_at_once(iow_request& request) noexcept {
  const auto op = static_cast<engine::Op>(request.op);
  if (request.flow != 0 || !is_transfer(op) || request.offset < 0 || is_inherited()) {
    return gate_.knows(request.flow) ? 0 : -EINVAL;
  }
  if (const int error = begin_journey(request); error != 0) {
    return error;
  }
  Journey& journey = journey_of(request);
  if (!finish_at_once(request)) {
    if (is_read(op) || journey.done_bytes == 0) {
      journey.event.retract();
      return 0;
    }
    perform_rest(request);  // what is written must not be submitted again
  }
  if (request.result < 0) {
    journey.event.retract();
    return 0;  // an error, too, is for the submission to find: it treats streams otherwise
  }
  blocking_bytes_.add(is_read(op), request.result);
  journey.event.complete();
  return 1;
}

// ---- Tasks

/// The caller's task, or null: outside one; in a forked child, where the runtime must not even be
/// asked (nOS-V has no memory there); and while its thread reaps, for what the end of a transfer
/// sets off runs there, and would pause the task with the reaper in its hands.
tasking::Task Service::current_task() const noexcept {
  const bool may_ask = tasks_.host != nullptr && !is_inherited() && !DrivingHere::any();
  return may_ask ? tasks_.host->current() : nullptr;
}

/// Whether transfer() would pause the caller.
bool Service::is_in_pausable_task() const noexcept {
  const tasking::Task task = current_task();
  return task != nullptr && tasks_.host->can_pause(task);
}

// ---- Blocking calls

/// A blocking call of a task that is paused.
class Service::PausedTransfer final : public tasking::TaskPause {
 public:
  PausedTransfer(Service& service, iow_request& request) noexcept
      : TaskPause(*service.tasks_.host), service_(service), request_(request) {
    request_.callback = [](iow_request*, void* user) {
      auto& pause = *static_cast<PausedTransfer*>(user);
      pause.service_.tasks_.counters.paused.fetch_sub(1, std::memory_order_relaxed);
      pause.complete();
    };
    request_.user = this;
  }
  void start() noexcept override { service_.submit_for_task(request_); }
  int64_t help() noexcept override { return service_.help_reaper(); }

 private:
  Service& service_;
  iow_request& request_;
};

int64_t Service::transfer_in_task(const Call& call) noexcept {
  if (call.offset < 0) {
    return -EINVAL;
  }
  iow_request request = request_for(call);
  if (const int error = begin_journey(request); error != 0) {
    return error;
  }
  if (finish_at_once(request)) {
    count_end_at_once(call, request.result);
    return request.result;
  }
  if (is_transfer(call.op) && is_stream(journey_of(request).operation)) {
    return -ESPIPE;
  }
  if (is_alone()) {
    count(tasks_.counters.alone);
    const uint64_t begin = now_ns();
    const int64_t result = finish_on_thread(call, request);
    tasks_.lone_calls.note_duration(0, now_ns() - begin);
    return result;
  }
  if (!count_pause()) {
    count(tasks_.counters.made_plain);
    return finish_on_thread(call, request);
  }
  pause_task(request);
  tasks_.counters.held.fetch_sub(1, std::memory_order_relaxed);
  return request.result;  // its bytes are in the counters of the pump
}

/// Whether nobody would have the core meanwhile: no task is paused here that could become ready,
/// and none is ready now. To ask lets others run before the transfer has begun, so one task asks at
/// a time, holding its stack meanwhile, and seldom where the answer was no.
bool Service::is_alone() noexcept {
  constexpr uint32_t kLongestAway = 256;
  std::atomic<uint32_t>& held = tasks_.counters.held;
  uint32_t none = 0;
  if (held.load(std::memory_order_relaxed) != 0 || !tasks_.lone_calls.is_worth_it() ||
      !held.compare_exchange_strong(none, 1, std::memory_order_relaxed)) {
    return false;
  }
  const bool alone = tasks_.host->none_is_ready();
  held.fetch_sub(1, std::memory_order_relaxed);
  if (alone) {
    tasks_.not_alone.store(0, std::memory_order_relaxed);
  } else {
    const uint32_t times = tasks_.not_alone.fetch_add(1, std::memory_order_relaxed);
    tasks_.lone_calls.stay_away(times < 7 ? 2u << times : kLongestAway);
  }
  return alone;
}

/// Counts the caller as paused, unless too many tasks are, or it is in a task of iow_task_begin()
/// that it would leave behind on this thread.
bool Service::count_pause() noexcept {
  if (!tasks_.host->keeps_thread() && tasking::CountingEvent::any()) {
    return false;
  }
  TaskCounters& counters = tasks_.counters;
  const uint32_t held = counters.held.fetch_add(1, std::memory_order_relaxed) + 1;
  const uint32_t paused = counters.paused.fetch_add(1, std::memory_order_relaxed) + 1;
  if (paused > tasks_.max_paused || held > tasks_.max_held) {
    counters.paused.fetch_sub(1, std::memory_order_relaxed);
    counters.held.fetch_sub(1, std::memory_order_relaxed);
    count(counters.no_room);
    return false;
  }
  raise(counters.most_paused, paused);
  count(counters.pauses);
  return true;
}

/// As transfer_on_thread(), but only what is left: what was appended must not be repeated.
int64_t Service::finish_on_thread(const Call& call, iow_request& request) noexcept {
  if (journey_of(request).done_bytes == 0) {
    return transfer_on_thread(call);
  }
  perform_rest(request);
  blocking_bytes_.add(is_read(call.op), request.result);
  return request.result;
}

void Service::count_end_at_once(const Call& call, int64_t result) noexcept {
  count(tasks_.counters.at_once);
  if (is_transfer(call.op)) {
    blocking_bytes_.add(is_read(call.op), result);
  }
}

/// A transfer past the page cache goes by the queue of tasks, or to the workers where it extends
/// its file. True where it is one.
bool Service::choose_way(Journey& journey) noexcept {
  const engine::Operation& operation = journey.operation;
  if (!passes_cache(operation)) {
    return false;
  }
  if (extends_file(operation)) {
    journey.way = Way::workers;
  } else if (ensure_task_queue()) {
    journey.way = Way::task_queue;
  }
  return true;
}

/// Not to be inlined: what the compiler knows of this thread must not outlive the pause.
__attribute__((noinline)) void Service::pause_task(iow_request& request) noexcept {
  PausedTransfer pause(*this, request);
  tasks_.host->pause(pause);
  IOW_ASSERT(pause.done());
}

/// A worker that sleeps in place of its task: the task that reaps may need it. As
/// TaskPause::help().
int64_t Service::help_reaper() noexcept {
  if (!poller_.started()) {
    return -1;
  }
  reaper_.drive();
  return static_cast<int64_t>(tasks_.poll_max_ns);
}

// ---- Reports

const char* Service::task_host_name() const noexcept {
  return tasks_.host != nullptr ? tasks_.host->name() : "none";
}

const char* Service::task_host_reason() const noexcept {
  if (tasks_.host == nullptr) {
    return tasks_.why.c_str();
  }
  const char* const missing = tasks_.host->missing();
  const bool too_many = tasks_.counters.no_room.load(std::memory_order_relaxed) != 0;
  return *missing == '\0' && too_many ? tasks_.too_many_text.c_str() : missing;
}

void Service::task_statistics(iow_task_stats& stats) const noexcept {
  const TaskCounters& counters = tasks_.counters;
  const auto read = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
  stats.paused = read(counters.paused);
  stats.most_paused = read(counters.most_paused);
  stats.pauses = read(counters.pauses);
  stats.at_once = read(counters.at_once);
  stats.made_plain = read(counters.made_plain);
  stats.alone = read(counters.alone);
  stats.no_room = read(counters.no_room);
  stats.bound = read(counters.bound);
  stats.bound_pending = read(counters.bound_pending);
}

}  // namespace ioweave::service
