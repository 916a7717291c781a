// Opening and closing, lanes of threads, and what a fork leaves.

#include "service/service.hpp"

#include <cerrno>
#include <new>
#include <utility>

#include "engine/probe.hpp"

namespace ioweave::service {

// ---- Life

namespace {

engine::BackendOptions options_with(const engine::FixedTable& fixed,
                                    engine::BackendOptions options) {
  options.fixed = &fixed;
  return options;
}

engine::BackendOptions reaper_options(engine::BackendOptions options,
                                      const Processors& processors) {
  options.single_owner = true;
  options.processors = processors.empty() ? nullptr : &processors.raw();
  return options;
}

engine::BackendOptions worker_options(engine::BackendOptions options,
                                      const Processors& processors) {
  options.kind = engine::Kind::threads;
  options.processors = processors.empty() ? nullptr : &processors.raw();
  options.mode = engine::UringMode::plain;
  return options;
}

}  // namespace

Service::Service(const engine::BackendOptions& backend_options, const Options& options,
                 std::string why)
    : gate_(options.policy_log),
      lane_options_(options_with(fixed_, backend_options)),
      open_backend_(options.open_backend),
      own_threads_(options.own_threads),
      io_processors_(options.io_processors),
      // A test's own lanes are to see all transfers.
      opens_task_queue_(options.open_task_queue != nullptr &&
                        (options.open_backend == &engine::open_backend ||
                         options.open_task_queue != &engine::open_shared_queue)),
      engine_name_(engine::backend_name(backend_options.kind, backend_options.mode)),
      why_(std::move(why)),
      reaper_(reaper_options(lane_options_, io_processors_), open_backend_, *this),
      workers_(worker_options(lane_options_, io_processors_), open_backend_, *this),
      task_queue_(options.open_task_queue, backend_options.entries, io_processors_, *this),
      poller_(reaper_, unfinished_) {
  tasks_.host = tasking::open_task_host(options.tasks, tasks_.why);
  if (tasks_.host != nullptr) {
    tasks_.limit_paused(options.max_paused);
  }
  tasks_.reap_in_task = options.reap_in_task;
  tasks_.poll_min_ns = options.poll_min_us * uint64_t{1000};
  tasks_.poll_max_ns = options.poll_max_us * uint64_t{1000};
}

Service::~Service() {
  for (Lane* lane = all_lanes_.load(std::memory_order_relaxed); lane != nullptr;) {
    delete std::exchange(lane, lane->next);
  }
}

void Service::Closer::operator()(Service* service) const noexcept {
  service->close();
  if (!service->is_inherited()) {
    delete service;
  }
}

Service::Owner Service::open(const Options& options, int& error, std::string& why) {
  engine::BackendOptions wanted;
  wanted.kind = options.engine;
  wanted.mode = options.mode;
  wanted.entries = options.queue_depth;
  wanted.threads = options.threads;
  const engine::BackendOptions best = engine::best_backend(wanted, why);
  if (options.required && (best.kind != wanted.kind || best.mode != wanted.mode)) {
    std::string reason;
    if (engine::open_backend(wanted, error, reason) == nullptr) {
      why = reason;
    } else {
      error = -EOPNOTSUPP;  // it opens, but best_backend() knows better: it has said why
    }
    return nullptr;
  }
  Owner service(new Service(best, options, why));
  if (options.required && service->tasks_.host == nullptr &&
      (options.tasks == tasking::HostKind::alpi || options.tasks == tasking::HostKind::tbb)) {
    error = -EOPNOTSUPP;
    why = service->tasks_.why;
    return nullptr;
  }
  service->id_ = register_host(*service);
  if (service->id_ == 0) {
    error = -EMFILE;
    why = "too many services are open in this process";
    return nullptr;
  }
  return service;
}

void Service::close() noexcept {
  unregister_host(*this);
  if (is_inherited()) {
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
  while (const uint32_t unfinished = unfinished_.load(std::memory_order_acquire)) {
    futex_wait(unfinished_, unfinished);
  }
  reaper_.stop();  // both before either is destroyed: each may be about to wake the other
  workers_.stop();
  task_queue_.stop();
}

void Service::abandon() noexcept {
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

// ---- What is in use, and why

const char* Service::engine_name() const noexcept {
  return is_iopoll_refused() ? engine::backend_name(engine::Kind::threads, {}).data()
                             : engine_name_.c_str();
}

const char* Service::fallback_reason() const noexcept {
  if (is_iopoll_refused()) {
    return "io_uring+iopoll: the queues of a device are not polled, so transfers go to threads; on "
           "NVMe the administrator can boot with nvme.poll_queues=N";
  }
  // Acquire pairs with explain().
  return late_.load(std::memory_order_acquire) ? late_why_.c_str() : why_.c_str();
}

/// Under lanes_lock_: a reason that came up after opening. The first one stays.
void Service::explain(const char* what, std::string_view why) noexcept {
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

// ---- Lanes

/// Null where the thread is past its end or memory is out: its requests then go through the pumps.
Lane* Service::make_lane() noexcept {
  const std::lock_guard guard(lanes_lock_);
  try {
    if (free_lanes_.empty()) {
      std::unique_ptr<engine::Backend> backend;
      if (!engine_is_threads()) {  // workers are shared, not a set per thread
        int error = 0;
        std::string why;
        backend = open_backend_(lane_options_, error, why);
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
void Service::drain(Lane& lane) noexcept {
  while (lane.count_outstanding() != 0) {
    collect(lane, 1, Deadline(-1));
  }
  collect_elsewhere(lane);
}

void Service::end_thread(Lane& lane) noexcept {
  drain(lane);
  const std::lock_guard guard(lanes_lock_);
  free_lanes_.push_back(&lane);  // never allocates: make_lane() reserved a place for each lane
}

void Service::statistics(iow_stats& sum) const noexcept {
  uint64_t submitted = 0;
  for (const Lane* lane = all_lanes_.load(std::memory_order_acquire); lane != nullptr;
       lane = lane->next) {
    submitted += lane->count_all_submissions();
    lane->counters.add_to(sum);
    ++sum.lanes;
  }
  sum.submitted = submitted + submitted_without_lane_.load(std::memory_order_relaxed);
  sum.fallbacks = fallbacks_.load(std::memory_order_relaxed);
  const uint32_t pumps = pumps_started_.load() & (kReaperBit | kWorkersBit);
  sum.lanes += static_cast<uint32_t>(__builtin_popcount(pumps));
  reaper_.counters.add_to(sum);
  workers_.counters.add_to(sum);
  task_queue_.counters.add_to(sum);
  inline_counters_.add_to(sum);
  blocking_bytes_.add_to(sum);
  sum.held = gate_.held();
}

}  // namespace ioweave::service
