// Storage I/O inside tasks.
//
// A blocking call in a task: what can be done at once is (ended_at_once); the rest becomes a
// request on the task's stack whose callback completes a TaskPause, and the host puts the task to
// sleep. A bound call: the request lies in memory of the service's, its callback stores the result,
// returns the memory, and drops the task's count. Both go to the queue that tasks share, or to the
// reaper, through submit_for_task(), past the lane of the thread: on nOS-V every paused task has a
// thread of its own, and a queue for each would be thousands of them.
//
// After a pause the task may be on another thread. So nothing thread-local, errno included, may be
// held across one, not even by the compiler: what pauses is noinline.

#include "service/task_io.hpp"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "engine/available_memory.hpp"
#include "engine/available_threads.hpp"
#include "engine/raw_syscall.hpp"
#include "service/driving_here.hpp"
#include "service/impl.hpp"
#include "service/inline_io.hpp"

namespace ioweave::service {
namespace {

/// No result: the operation would wait for a device.
constexpr int64_t kWouldWait = INT64_MIN;

bool is_read(engine::Op op) noexcept {
  return op == engine::Op::read || op == engine::Op::readv;
}

bool is_transfer(engine::Op op) noexcept {
  return is_read(op) || op == engine::Op::write || op == engine::Op::writev;
}

/// What is there without waiting, or kWouldWait.
int64_t read_cached(const engine::Operation& operation) noexcept {
  const iovec one{operation.buffer, operation.length};
  const bool vectored = operation.op == engine::Op::readv;
  const long result =
      engine::raw_syscall(SYS_preadv2, operation.fd, vectored ? operation.vectors : &one,
                          vectored ? operation.vector_count : 1u, operation.offset, 0, RWF_NOWAIT);
  switch (result) {
    case 0:  // the end of the file; Linux 5.9 and 5.10 say so in its midst, too
      return perform_inline(operation);
    case -EAGAIN:
    case -EOPNOTSUPP:  // a file system that cannot say so
    case -EINTR:       // may be told for what it never tried
      return kWouldWait;
    default:
      return result;
  }
}

uint64_t bytes_of(const engine::Operation& operation) noexcept {
  if (operation.op == engine::Op::read || operation.op == engine::Op::write) {
    return operation.length;
  }
  uint64_t sum = 0;
  for (uint32_t i = 0; i < operation.vector_count; ++i) {
    sum += operation.vectors[i].iov_len;
  }
  return sum;
}

int64_t write_cached(const engine::Operation& operation, OnTheSpot& writes) noexcept {
  if (!writes.is_worth_it()) {
    return kWouldWait;
  }
  const uint64_t begin = now_ns();
  const int64_t result = perform_inline(operation);
  writes.took(bytes_of(operation), now_ns() - begin);
  return result;
}

/// The operation's result where it can be had without waiting for a device, else kWouldWait.
int64_t without_waiting(const engine::Operation& operation, OnTheSpot& writes) noexcept {
  if (!is_transfer(operation.op)) {
    return operation.op == engine::Op::nop ? 0 : kWouldWait;
  }
  if (bytes_of(operation) == 0) {
    return perform_inline(operation);  // waits for nothing; preadv2(2) leaves out some checks
  }
  const long flags = engine::raw_syscall(SYS_fcntl, operation.fd, F_GETFL, 0);
  if (flags < 0) {
    return flags;
  }
  const int waits = is_read(operation.op) ? O_DIRECT : O_DIRECT | O_SYNC | O_DSYNC;
  if ((flags & waits) == 0) {
    return is_read(operation.op) ? read_cached(operation) : write_cached(operation, writes);
  }
  return kWouldWait;
}

/// Whether a write past the page cache makes its file longer. The kernel does one of these at a
/// time for a file, from begin to end, with a lock in hand that io_uring's threads hand to each
/// other: 10,000 of 4 KiB took 12 to 17 s beside nOS-V's workers, and 1 to 2 s by our own
/// (ext4, 6.18). `flags`: the descriptor's.
bool extends(const engine::Operation& operation, long flags) noexcept {
  struct stat status {};
  return (operation.op == engine::Op::write || operation.op == engine::Op::writev) &&
         engine::raw_syscall(SYS_fstat, operation.fd, &status) == 0 && S_ISREG(status.st_mode) &&
         ((flags & O_APPEND) != 0 || operation.offset > status.st_size ||
          bytes_of(operation) > static_cast<uint64_t>(status.st_size - operation.offset));
}

/// Pipes, sockets and the like, where a positional call is an error and io_uring would use the
/// stream. The kernel tells by a call that moves nothing; that lseek(2) works is another matter.
bool is_stream(const engine::Operation& operation) noexcept {
  const long number = is_read(operation.op) ? SYS_preadv : SYS_pwritev;
  return engine::raw_syscall(number, operation.fd, nullptr, 0, 0, 0) == -ESPIPE;
}

/// On this thread.
void perform_rest(iow_request& request) noexcept {
  while (advance(request, perform_inline(journey_of(request).operation)).step == Step::again) {
  }
}

void raise(std::atomic<uint32_t>& most, uint32_t value) noexcept {
  uint32_t seen = most.load(std::memory_order_relaxed);
  while (seen < value && !most.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

void count(std::atomic<uint64_t>& counter) noexcept {
  counter.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// ---- Memory of bound transfers

BoundTransfer* BoundPool::take() noexcept {
  const std::lock_guard guard(lock_);
  if (free_ == nullptr) {
    try {
      auto slab = std::make_unique<std::array<BoundTransfer, kSlab>>();
      slabs_.reserve(slabs_.size() + 1);
      for (BoundTransfer& transfer : *slab) {
        transfer.next_free = std::exchange(free_, &transfer);
      }
      slabs_.push_back(std::move(slab));
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  return std::exchange(free_, free_->next_free);
}

void BoundPool::give_back(BoundTransfer& transfer) noexcept {
  transfer.vectors.reset();
  const std::lock_guard guard(lock_);
  transfer.next_free = std::exchange(free_, &transfer);
}

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
bool Service::Impl::ended_at_once(iow_request& request) noexcept {
  const engine::Operation& operation = journey_of(request).operation;
  while (true) {
    const int64_t result = without_waiting(operation, tasks_.cached_writes);
    const bool cut = result > 0 && static_cast<uint64_t>(result) < journey_of(request).total_bytes;
    if (result == kWouldWait ||
        (cut && is_read(operation.op) && (request.flags & IOW_EXACT) != 0)) {
      return false;  // a system call would have gone on where the cache ends
    }
    if (advance(request, result).step == Step::complete) {
      return true;
    }
  }
}

int Service::Impl::try_at_once(iow_request& request) noexcept {
  const auto op = static_cast<engine::Op>(request.op);
  if (request.flow != 0 || !is_transfer(op) || request.offset < 0 || !ours()) {
    return gate_.knows(request.flow) ? 0 : -EINVAL;
  }
  if (const int error = begin_journey(request); error != 0) {
    return error;
  }
  Journey& journey = journey_of(request);
  if (!ended_at_once(request)) {
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
tasking::Task Service::Impl::current_task() const noexcept {
  const bool may_ask = tasks_.host != nullptr && ours() && !DrivingHere::any();
  return may_ask ? tasks_.host->current() : nullptr;
}

/// Whether transfer() would pause the caller.
bool Service::Impl::in_pausable_task() const noexcept {
  const tasking::Task task = current_task();
  return task != nullptr && tasks_.host->can_pause(task);
}

// ---- Blocking calls

namespace {

/// A blocking call of a task that is paused.
class PausedTransfer final : public tasking::TaskPause {
 public:
  struct Ways {
    void (*start)(void* service, iow_request& request) noexcept;
    void (*ended)(void* service) noexcept;
    int64_t (*help)(void* service) noexcept;
  };

  PausedTransfer(tasking::TaskHost& host, iow_request& request, void* service,
                 const Ways& ways) noexcept
      : TaskPause(host), request_(request), service_(service), ways_(ways) {
    request_.callback = [](iow_request*, void* user) {
      auto& pause = *static_cast<PausedTransfer*>(user);
      pause.ways_.ended(pause.service_);
      pause.complete();
    };
    request_.user = this;
  }
  void start() noexcept override { ways_.start(service_, request_); }
  int64_t help() noexcept override { return ways_.help(service_); }

 private:
  iow_request& request_;
  void* const service_;
  const Ways& ways_;
};

}  // namespace

int64_t Service::Impl::transfer_in_task(const Call& call) noexcept {
  if (call.offset < 0) {
    return -EINVAL;
  }
  iow_request request = request_for(call);
  if (const int error = begin_journey(request); error != 0) {
    return error;
  }
  if (ended_at_once(request)) {
    note_end_at_once(call, request.result);
    return request.result;
  }
  if (is_transfer(call.op) && is_stream(journey_of(request).operation)) {
    return -ESPIPE;
  }
  if (is_alone()) {
    count(tasks_.counters.alone);
    const uint64_t begin = now_ns();
    const int64_t result = finish_on_thread(call, request);
    tasks_.lone_calls.took(0, now_ns() - begin);
    return result;
  }
  if (!may_pause()) {
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
bool Service::Impl::is_alone() noexcept {
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
bool Service::Impl::may_pause() noexcept {
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
int64_t Service::Impl::finish_on_thread(const Call& call, iow_request& request) noexcept {
  if (journey_of(request).done_bytes == 0) {
    return transfer_on_thread(call);
  }
  perform_rest(request);
  blocking_bytes_.add(is_read(call.op), request.result);
  return request.result;
}

void Service::Impl::note_end_at_once(const Call& call, int64_t result) noexcept {
  count(tasks_.counters.at_once);
  if (is_transfer(call.op)) {
    blocking_bytes_.add(is_read(call.op), result);
  }
}

/// A direct transfer goes by the queue of tasks, or to the workers where it extends its file. True
/// where it is one.
bool Service::Impl::choose_way(Journey& journey) noexcept {
  const engine::Operation& operation = journey.operation;
  const long flags =
      is_transfer(operation.op) ? engine::raw_syscall(SYS_fcntl, operation.fd, F_GETFL, 0) : 0;
  const bool is_direct = flags > 0 && (flags & O_DIRECT) != 0;
  journey.for_workers = is_direct && extends(operation, flags);
  journey.for_task_queue = is_direct && !journey.for_workers && has_task_queue();
  return is_direct;
}

/// Not to be inlined: what the compiler knows of this thread must not outlive the pause.
__attribute__((noinline)) void Service::Impl::pause_task(iow_request& request) noexcept {
  static constexpr PausedTransfer::Ways kWays{
      [](void* service, iow_request& started) noexcept {
        static_cast<Impl*>(service)->submit_for_task(started);
      },
      [](void* service) noexcept {
        static_cast<Impl*>(service)->tasks_.counters.paused.fetch_sub(1, std::memory_order_relaxed);
      },
      [](void* service) noexcept { return static_cast<Impl*>(service)->help_reaper(); }};
  PausedTransfer pause(*tasks_.host, request, this, kWays);
  tasks_.host->pause(pause);
  IOW_ASSERT(pause.done());
}

/// A worker that sleeps in place of its task: the task that reaps may need it. As
/// TaskPause::help().
int64_t Service::Impl::help_reaper() noexcept {
  if (!poller_.started()) {
    return -1;
  }
  reaper_.drive();
  return static_cast<int64_t>(tasks_.poll_max_ns);
}

// ---- Admission

namespace {

/// A task that is paused until the gate admits its operation.
class PausedAdmission final : public tasking::TaskPause {
 public:
  struct Service {
    Admissions& admissions;
    TaskCounters& counters;
    void* self;
    int64_t (*help)(void* self) noexcept;
  };

  PausedAdmission(tasking::TaskHost& host, const Service& service, uint32_t flow,
                  uint64_t bytes) noexcept
      : TaskPause(host), service_(service), flow_(flow), bytes_(bytes) {}

  void start() noexcept override {
    bool may_start = false;
    const auto admitted = [](int64_t number, void* user) {
      static_cast<PausedAdmission*>(user)->end(number);
    };
    const int64_t number = service_.admissions.ask(flow_, bytes_, admitted, this, may_start);
    if (may_start || number < 0) {
      end(number);  // else the pause may be gone
    }
  }
  int64_t help() noexcept override { return service_.help(service_.self); }
  [[nodiscard]] int64_t number() const noexcept { return number_; }

 private:
  void end(int64_t number) noexcept {
    number_ = number;
    service_.counters.paused.fetch_sub(1, std::memory_order_relaxed);
    complete();
  }

  const Service service_;
  const uint32_t flow_;
  const uint64_t bytes_;
  int64_t number_ = 0;
};

}  // namespace

int64_t Service::Impl::admit(uint32_t flow, uint64_t bytes) noexcept {
  if (!ours()) {
    return -ECANCELED;
  }
  if (!gate_.knows(flow)) {
    return -EINVAL;
  }
  const tasking::Task task = current_task();
  if (task != nullptr && tasks_.host->can_pause(task) && may_pause()) {
    const int64_t number = pause_until_admitted(flow, bytes);
    tasks_.counters.held.fetch_sub(1, std::memory_order_relaxed);
    return number;
  }
  tasking::ThreadEvent event{};
  static_cast<void>(event.prepare());
  bool may_start = false;
  const int64_t number = admissions_.ask(
      flow, bytes,
      [](int64_t, void* user) { static_cast<tasking::ThreadEvent*>(user)->complete(); }, &event,
      may_start);
  if (number < 0 || may_start) {
    return number;
  }
  // Whom a task waits for may need this very worker.
  const bool lets_others_run = task == nullptr || tasks_.host->can_poll();
  if (!lets_others_run && admissions_.withdraw(number) == 0) {
    return -EAGAIN;
  }
  while (!event.done()) {
    if (task != nullptr && lets_others_run) {
      tasking::sleep_briefly(*tasks_.host);
    } else {
      event.sleep(-1);
    }
  }
  return number;
}

/// Not to be inlined, as pause_task().
__attribute__((noinline)) int64_t Service::Impl::pause_until_admitted(uint32_t flow,
                                                                      uint64_t bytes) noexcept {
  const auto help = [](void* service) noexcept {
    return static_cast<Impl*>(service)->help_reaper();
  };
  PausedAdmission pause(*tasks_.host, {admissions_, tasks_.counters, this, help}, flow, bytes);
  tasks_.host->pause(pause);
  IOW_ASSERT(pause.done());
  return pause.number();
}

// ---- Bound calls

/// The task whose end a call of this thread is to hold up, with its count raised; false where there
/// is none.
bool Service::Impl::hold_current_task(BoundTask& bound) noexcept {
  bound.event = tasking::CountingEvent::current(this);
  if (bound.event != nullptr) {
    bound.event->hold();
    return true;
  }
  bound.task = current_task();
  return bound.task != nullptr && tasks_.host->has_events() && tasks_.host->hold(bound.task);
}

bool Service::Impl::in_bindable_task() noexcept {
  return tasking::CountingEvent::current(this) != nullptr ||
         (current_task() != nullptr && tasks_.host->has_events());
}

int Service::Impl::bind(const Call& call, ssize_t* result) noexcept {
  if (result == nullptr) {
    return -EINVAL;
  }
  const int error = start_bound(call, result);
  if (error != 0) {
    *result = error;
  }
  return error;
}

int Service::Impl::start_bound(const Call& call, ssize_t* result) noexcept {
  if (call.offset < 0) {
    return -EINVAL;
  }
  // A forked child has no reaper, and nobody there says whether it runs a task: the end of the
  // transfer is before that of any.
  if (ours() && !in_bindable_task()) {
    return -ESRCH;
  }
  // Most transfers of the page cache end here, without any memory of ours.
  iow_request request = request_for(call);
  if (const int error = begin_journey(request); error != 0) {
    return error;
  }
  if (!ours()) {
    *result = static_cast<ssize_t>(transfer_on_thread(call));
    return 0;
  }
  if (ended_at_once(request)) {
    note_end_at_once(call, request.result);
    *result = static_cast<ssize_t>(request.result);
    return 0;
  }
  if (is_transfer(call.op) && is_stream(journey_of(request).operation)) {
    *result = -ESPIPE;
    return 0;
  }
  const uint64_t done = journey_of(request).done_bytes;
  const int error = bind_rest(call, done, result);
  if (error == 0 || done == 0 || is_read(call.op)) {
    return error;
  }
  *result = static_cast<ssize_t>(finish_on_thread(call, request));  // a part is written already
  return 0;
}

/// Submits what is left of a call after `done` bytes, bound to the current task.
int Service::Impl::bind_rest(const Call& call, uint64_t done, ssize_t* result) noexcept {
  BoundTransfer* const transfer = tasks_.pool.take();
  if (transfer == nullptr) {
    return -ENOMEM;
  }
  const auto give_up = [&](int error) {
    tasks_.pool.give_back(*transfer);
    return error;
  };
  transfer->request = request_for(call);
  if (call.op == engine::Op::readv || call.op == engine::Op::writev) {
    const auto* const given = static_cast<const iovec*>(call.buffer);
    transfer->vectors.reset(new (std::nothrow) iovec[call.bytes]);
    if (transfer->vectors == nullptr) {
      return give_up(-ENOMEM);
    }
    std::copy_n(given, call.bytes, transfer->vectors.get());
    transfer->request.buffer = transfer->vectors.get();
  }
  transfer->result = result;
  transfer->service = this;
  transfer->task = {};
  if (!hold_current_task(transfer->task)) {
    return give_up(-ESRCH);
  }
  iow_request& request = transfer->request;
  request.callback = [](iow_request*, void* user) {
    auto& ended = *static_cast<BoundTransfer*>(user);
    static_cast<Impl*>(ended.service)->bound_ended(ended);
  };
  request.user = transfer;
  IOW_ASSERT(begin_journey(request) == 0);  // the same call has passed it before
  journey_of(request).done_bytes = done;
  load_operation(request);
  *result = -EINPROGRESS;
  count(tasks_.counters.bound);
  count(tasks_.counters.bound_pending);
  submit_for_task(request);
  return 0;
}

/// On the reaper. The task is told last: it and all that it owns may be gone then.
void Service::Impl::bound_ended(BoundTransfer& transfer) noexcept {
  const BoundTask task = transfer.task;
  *transfer.result = static_cast<ssize_t>(transfer.request.result);
  tasks_.pool.give_back(transfer);
  tasks_.counters.bound_pending.fetch_sub(1, std::memory_order_relaxed);
  if (task.event != nullptr) {
    task.event->drop();
  } else {
    tasks_.host->release(task.task);
  }
}

void Service::Impl::task_statistics(iow_task_stats& stats) const noexcept {
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
