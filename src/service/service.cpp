// Opening and closing, lanes of threads, what a fork leaves, and the public class.

#include "service/service.hpp"

#include <cerrno>
#include <new>

#include "base/assert.hpp"
#include "engine/probe.hpp"
#include "service/impl.hpp"

namespace ioweave::service {

// ---- What is in use, and why

const char* Service::Impl::engine_name() const noexcept {
  return polling_refused() ? engine::lane_name(engine::Kind::threads, {}).data()
                           : engine_name_.c_str();
}

const char* Service::Impl::fallback_reason() const noexcept {
  if (polling_refused()) {
    return "io_uring+iopoll: the queues of a device are not polled, so transfers go to threads; on "
           "NVMe the administrator can boot with nvme.poll_queues=N";
  }
  // Acquire pairs with explain().
  return late_.load(std::memory_order_acquire) ? late_why_.c_str() : why_.c_str();
}

/// Under lanes_lock_: a reason that came up after opening. The first one stays.
void Service::Impl::explain(const char* what, std::string_view why) noexcept {
  if (late_.load(std::memory_order_relaxed)) {
    return;
  }
  try {
    late_why_ = why_;
    late_why_.append(why_.empty() ? "" : "; ").append(what).append(": ").append(why);
  } catch (const std::bad_alloc&) {
    return;  // another occasion may find memory
  }
  late_.store(true, std::memory_order_release);
}

/// Whether the end of an operation in a ring that polls says that the device does not. From then on
/// nothing is polled: files on devices that poll and on others do not belong in one such service.
bool Service::Impl::refuses_polling(int64_t result) noexcept {
  if (result != -EOPNOTSUPP || lane_options_.mode != engine::UringMode::iopoll) {
    return false;
  }
  polling_refused_.store(true, std::memory_order_relaxed);  // a hint: each ring would find out
  return true;
}

// ---- Lanes

/// Null where the thread is past its end or memory is out: its requests then go through the pumps.
Lane* Service::Impl::make_lane() noexcept {
  const std::lock_guard guard(lanes_lock_);
  try {
    if (free_lanes_.empty()) {
      std::unique_ptr<engine::Backend> backend;
      if (!engine_is_threads()) {  // workers are shared, not a set per thread
        int error = 0;
        std::string why;
        backend = open_lane_(lane_options_, error, why);
        if (backend == nullptr) {
          explain("a thread got no queue of its own", why);
        }
      }
      auto lane = std::make_unique<Lane>(std::move(backend));
      free_lanes_.reserve(lane_count_.load(std::memory_order_relaxed) + 1);
      free_lanes_.push_back(lane.get());
      lane->next = all_lanes_.load(std::memory_order_relaxed);
      all_lanes_.store(lane.release(), std::memory_order_release);  // pairs with abandon()
      lane_count_.fetch_add(1, std::memory_order_relaxed);
    }
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  Lane* const lane = free_lanes_.back();
  if (!bind_local_lane(id_, *lane)) {
    return nullptr;
  }
  free_lanes_.pop_back();
  return lane;
}

/// Completes what was submitted through the lane; the caller acts as its owner.
void Service::Impl::drain(Lane& lane) noexcept {
  while (lane.outstanding() != 0) {
    collect(lane, 1, Deadline(-1));
  }
  collect_elsewhere(lane);
}

void Service::Impl::thread_ends(Lane& lane) noexcept {
  drain(lane);
  const std::lock_guard guard(lanes_lock_);
  free_lanes_.push_back(&lane);  // never allocates: make_lane() reserved a place for each lane
}

void Service::Impl::close() noexcept {
  unregister_host(*this);
  if (!ours()) {
    return;
  }
  admissions_.close();  // first: requests may wait for what nobody finishes any more
  for (Lane* lane = all_lanes_.load(std::memory_order_acquire); lane != nullptr;
       lane = lane->next) {
    drain(*lane);
  }
  if (poller_.started()) {
    poller_.stop();
  }
  while (const uint32_t unfinished = pumped_unfinished_.load(std::memory_order_acquire)) {
    futex_wait(pumped_unfinished_, unfinished);
  }
  reaper_.stop();  // both before either is destroyed: each may be about to wake the other
  workers_.stop();
  task_queue_.stop();
}

void Service::Impl::abandon() noexcept {
  for (Lane* lane = all_lanes_.load(std::memory_order_acquire); lane != nullptr;
       lane = lane->next) {
    if (lane->backend() != nullptr) {
      lane->backend()->abandon();
    }
  }
  reaper_.abandon();
  workers_.abandon();
  task_queue_.abandon();
}

void Service::Impl::statistics(iow_stats& sum) const noexcept {
  uint64_t submitted = 0;
  for (const Lane* lane = all_lanes_.load(std::memory_order_acquire); lane != nullptr;
       lane = lane->next) {
    submitted += lane->submitted.load(std::memory_order_relaxed);
    lane->counters.add_to(sum);
    ++sum.lanes;
  }
  sum.submitted = submitted + submitted_without_lane_.load(std::memory_order_relaxed);
  sum.fallbacks = fallbacks_.load(std::memory_order_relaxed);
  const uint32_t pumps = pumps_started_.load() & (kReaperBit | kWorkersBit);
  sum.lanes += static_cast<uint32_t>(__builtin_popcount(pumps));
  reaper_.counters.add_to(sum);
  workers_.counters.add_to(sum);
  task_queue_.add_to(sum);
  inline_counters_.add_to(sum);
  blocking_bytes_.add_to(sum);
  sum.held = gate_.held();
}

// ---- Service

Service::Service(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Service::~Service() {
  impl_->close();
  if (!impl_->ours()) {
    // A forked child: threads and locks of the parent cannot be taken down here. The memory stays
    // with the process image, as that of any library state across fork(2).
    static_cast<void>(impl_.release());
  }
}

std::unique_ptr<Service> Service::open(const Options& options, int& error, std::string& why) {
  engine::LaneOptions wanted;
  wanted.kind = options.engine;
  wanted.mode = options.mode;
  wanted.entries = options.queue_depth;
  wanted.threads = options.threads;
  const engine::LaneOptions best = engine::best_lane(wanted, why);
  if (options.required && (best.kind != wanted.kind || best.mode != wanted.mode)) {
    std::string reason;
    if (engine::open_lane(wanted, error, reason) == nullptr) {
      why = reason;
    } else {
      error = -EOPNOTSUPP;  // it opens, but best_lane() knows better: it has said why
    }
    return nullptr;
  }
  auto impl = std::make_unique<Impl>(best, options,
                                     std::string(engine::lane_name(best.kind, best.mode)), why);
  if (options.required && impl->tasks_.host == nullptr &&
      (options.tasks == tasking::HostKind::alpi || options.tasks == tasking::HostKind::tbb)) {
    error = -EOPNOTSUPP;
    why = impl->tasks_.why;
    return nullptr;
  }
  error = impl->enlist();
  if (error != 0) {
    why = "too many services are open in this process";
    return nullptr;
  }
  return std::unique_ptr<Service>(new Service(std::move(impl)));
}

const char* Service::engine_name() const noexcept {
  return impl_->engine_name();
}
const char* Service::fallback_reason() const noexcept {
  return impl_->fallback_reason();
}

int Service::submit(std::span<iow_request* const> requests) noexcept {
  return impl_->submit(requests);
}
int Service::try_at_once(iow_request& request) noexcept {
  return impl_->try_at_once(request);
}
int Service::test(iow_request& request) noexcept {
  return impl_->test(request);
}
int Service::wait(iow_request& request, int64_t timeout_ns) noexcept {
  return impl_->wait(request, Deadline(timeout_ns));
}
int Service::poll(unsigned min, int64_t timeout_ns) noexcept {
  return impl_->poll(min, Deadline(timeout_ns));
}
int Service::cancel(iow_request& request) noexcept {
  return impl_->cancel(request);
}

int64_t Service::transfer(const Call& call) noexcept {
  return impl_->transfer(call);
}

int Service::bind(const Call& call, ssize_t* result) noexcept {
  return impl_->bind(call, result);
}
int Service::task_begin(void (*done)(void*), void* user) noexcept {
  return tasking::CountingEvent::begin(impl_.get(), done, user) ? 0 : -ENOMEM;
}
int Service::task_end() noexcept {
  return tasking::CountingEvent::end(impl_.get()) ? 0 : -ESRCH;
}
const char* Service::task_host_name() const noexcept {
  return impl_->tasks_.host != nullptr ? impl_->tasks_.host->name() : "none";
}
const char* Service::task_host_reason() const noexcept {
  const TaskIo& tasks = impl_->tasks_;
  if (tasks.host == nullptr) {
    return tasks.why.c_str();
  }
  const char* const missing = tasks.host->missing();
  const bool too_many = tasks.counters.no_room.load(std::memory_order_relaxed) != 0;
  return *missing == '\0' && too_many ? tasks.too_many_text.c_str() : missing;
}
void Service::task_statistics(iow_task_stats& stats) const noexcept {
  impl_->task_statistics(stats);
}
bool Service::in_pausable_task() const noexcept {
  return impl_->in_pausable_task();
}

bool Service::is_inherited() const noexcept {
  return !impl_->ours();
}

engine::FixedTable& Service::fixed() noexcept {
  return impl_->fixed_;
}

gate::Gate& Service::gate() noexcept {
  return impl_->gate_;
}

int64_t Service::admit(uint32_t flow, uint64_t bytes) noexcept {
  return impl_->admit(flow, bytes);
}
int64_t Service::admit(uint32_t flow, uint64_t bytes, void (*admitted)(int64_t, void*),
                       void* user) noexcept {
  if (!impl_->ours()) {
    return -ECANCELED;
  }
  if (admitted == nullptr || !impl_->gate_.knows(flow)) {
    return -EINVAL;
  }
  bool may_start = false;
  const int64_t operation = impl_->admissions_.ask(flow, bytes, admitted, user, may_start);
  if (may_start) {
    admitted(operation, user);
  }
  return operation;
}
int Service::finish(int64_t operation, int64_t result) noexcept {
  return impl_->ours() ? impl_->admissions_.finish(operation, result) : -ECANCELED;
}
int Service::withdraw(int64_t operation) noexcept {
  return impl_->ours() ? impl_->admissions_.withdraw(operation) : -ECANCELED;
}

bool Service::foreground_begin(policy::DeviceId device) noexcept {
  return impl_->ours() && impl_->gate_.begin_activity(device);
}
void Service::foreground_end(policy::DeviceId device) noexcept {
  impl_->gate_.end_activity(device);
}

void Service::statistics(iow_stats& stats) const noexcept {
  impl_->statistics(stats);
}

}  // namespace ioweave::service