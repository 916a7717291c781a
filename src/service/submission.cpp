// A request on its way out: to the lane of its thread, to the policy and the pumps, or, where there
// is neither, carried out on the spot.

#include <algorithm>
#include <cerrno>
#include <new>

#include "base/assert.hpp"
#include "service/driving_here.hpp"
#include "service/inline_io.hpp"
#include "service/service.hpp"

namespace ioweave::service {

/// Keeps close() away until a submission has left the service. A callback may wake somebody who
/// closes it (a coroutine that goes on on another thread, say) before iow_submit() has returned.
class Service::Submitting {
 public:
  Submitting(Service& service, std::span<iow_request* const> requests) noexcept
      : service_(std::all_of(requests.begin(), requests.end(),
                             [](const iow_request* request) { return ends_with_owner(*request); })
                     ? nullptr
                     : &service) {
    if (service_ != nullptr) {
      service_->unfinished_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  ~Submitting() {
    if (service_ != nullptr) {
      service_->drop_unfinished();
    }
  }
  Submitting(const Submitting&) = delete;
  Submitting& operator=(const Submitting&) = delete;

 private:
  Service* const service_;
};

int Service::submit(std::span<iow_request* const> requests) noexcept {
  if (is_inherited()) {
    return submit_inline(requests);
  }
  Lane* lane = local_lane(id_);
  const Submitting scope(*this, requests);
  int taken = 0;
  int error = 0;
  bool more = false;
  for (iow_request* const request : requests) {
    if (lane == nullptr && ends_with_owner(*request)) {
      lane = make_lane();
    }
    // Before it is taken: one with a callback may be gone afterwards.
    const bool says_more = (request->flags & IOW_MORE) != 0;
    error = submit_one(*request, lane);
    if (error != 0) {
      break;
    }
    more = says_more;
    ++taken;
  }
  if (lane != nullptr && lane->unflushed && !more) {
    flush(*lane);
  }
  return taken > 0 ? taken : error;
}

int Service::submit_one(iow_request& request, Lane* lane) noexcept {
  if (!gate_.knows(request.flow)) {
    return -EINVAL;
  }
  if (const int error = begin_journey(request); error != 0) {
    return error;
  }
  if (may_take_lane(request, lane)) {
    return submit_to_lane(request, *lane);
  }
  submit_pumped(request, lane);
  return 0;
}

bool Service::may_take_lane(const iow_request& request, Lane* lane) const noexcept {
  return lane != nullptr && lane->backend() != nullptr && ends_with_owner(request) &&
         request.op != IOW_OP_PREFETCH && !is_iopoll_refused() &&
         gate_.may_skip_policy(request.flow);
}

int Service::submit_to_lane(iow_request& request, Lane& lane) noexcept {
  Journey& journey = journey_of(request);
  journey.home = &lane;
  journey.counted = gate_.begin_activity(gate_.device_of(request.flow));
  journey.station.store(Station::in_flight, std::memory_order_relaxed);
  // Release: pairs with the acquire of whoever waits for the request and then leads the lane.
  journey.lane.store(&lane, std::memory_order_release);
  while (true) {
    switch (lane.backend()->submit(journey.operation)) {
      case engine::Submitted::queued:
        lane.count_submission();
        lane.unflushed = true;
        return 0;
      case engine::Submitted::completed:
        lane.count_submission();
        end_at_submission(journey.operation, lane);
        return 0;
      case engine::Submitted::unsupported:
        leave_engine(journey);
        journey.lane.store(nullptr, std::memory_order_release);
        submit_pumped(request, &lane);
        return 0;
      case engine::Submitted::busy:
        if ((request.flags & IOW_NOWAIT) != 0) {
          end_activity(request);
          journey.lane.store(nullptr, std::memory_order_relaxed);
          journey.event.retract();
          return -EAGAIN;
        }
        make_room(lane);
        break;
    }
  }
}

/// Back-pressure: sleeps until something in the full lane has ended. Callbacks are collected, not
/// run: a submitter does not expect them here.
void Service::make_room(Lane& lane) noexcept {
  flush(lane);
  if (lane.try_lead(true)) {
    lead_once(lane, 1, -1);
    lane.stop_leading();
  } else {
    lane.follow(-1);
  }
}

void Service::flush(Lane& lane) noexcept {
  lane.unflushed = false;
  const int error = lane.backend()->flush();
  IOW_ASSERT(error == 0);  // a lane that opened and does not take submissions is broken memory
}

/// Requests of tasks go to their queue or to the reaper, whatever thread the task is on.
void Service::submit_for_task(iow_request& request) noexcept {
  iow_request* const one = &request;
  const Submitting scope(*this, std::span(&one, 1));
  const bool passes_cache = choose_way(journey_of(request));
  submit_pumped(request, nullptr);  // the request may be gone now
  if (passes_cache && ensure_task_queue()) {
    task_queue_.collect();
  }
}

/// To the policy where the flow is managed, to a pump otherwise. `home` is told of the end where
/// the request is one that its thread polls for.
void Service::submit_pumped(iow_request& request, Lane* home) noexcept {
  Journey& journey = journey_of(request);
  journey.home = ends_with_owner(request) ? home : nullptr;
  if (journey.home != nullptr) {
    home->count_submission();
    home->note_sent_elsewhere();
  } else {
    submitted_without_lane_.fetch_add(1, std::memory_order_relaxed);
  }
  unfinished_.fetch_add(1, std::memory_order_relaxed);
  if (gate_.may_skip_policy(request.flow)) {
    if (!journey.counted) {
      journey.counted = gate_.begin_activity(gate_.device_of(request.flow));
    }
    post(request);
    return;
  }
  journey.managed = true;
  journey.station.store(Station::held, std::memory_order_relaxed);
  try {
    if (gate_.admit({*this, &request, request.flow, journey.total_bytes}, journey.admission)) {
      start(&request);
    }
  } catch (const std::bad_alloc&) {
    journey.managed = false;
    request.result = -ENOMEM;
    finish_request(request, inline_counters_);
  }
}

/// The gate lets it go.
void Service::start(void* operation) noexcept {
  if (is_inherited()) {
    return;  // a child that a callback forked
  }
  const DrivingHere here;  // where no thread can be had, its callback runs here, in whatever task
  auto& request = *static_cast<iow_request*>(operation);
  journey_of(request).station.store(Station::posted, std::memory_order_relaxed);
  post(request);
}

/// Gives the request to whoever carries it out, by its way.
void Service::post(iow_request& request) noexcept {
  Journey& journey = journey_of(request);
  if (journey.way == Way::task_queue) {
    if (task_queue_.is_worth_it()) {
      task_queue_.post(request);
      return;
    }
    journey.way = Way::engine;
  }
  if (Pump* const pump = find_pump(journey); pump != nullptr) {
    pump->post(request);
    if (pump == &reaper_) {
      poller_.wake();
    }
  } else {
    carry_out_inline(request);
  }
}

/// The pump that can do the request, started if need be; null where no thread can be had.
Pump* Service::find_pump(Journey& journey) noexcept {
  if (journey.operation.op == engine::Op::prefetch && !engine_is_threads()) {
    journey.way = Way::no_engine;  // of threads alone: no fallback
  }
  if (journey.way == Way::workers && !ensure_started(workers_, kWorkersBit)) {
    journey.way = Way::engine;
  }
  if (journey.way == Way::engine) {
    if (!is_iopoll_refused() && ensure_started(reaper_, kReaperBit)) {
      return &reaper_;
    }
    leave_engine(journey);
  }
  return ensure_started(workers_, kWorkersBit) ? &workers_ : nullptr;
}

void Service::leave_engine(Journey& journey) noexcept {
  journey.way = Way::no_engine;
  fallbacks_.fetch_add(1, std::memory_order_relaxed);
}

bool Service::ensure_started(Pump& pump, uint32_t bit) noexcept {
  return ensure_started(bit, [&](std::string& why) {
    const int error = start_pump(pump, why);
    if (error != 0) {
      explain("the service's thread could not be started", why);
    }
    return error;
  });
}

/// Whether tasks share a queue for direct transfers. Where the user has chosen who moves the bytes
/// or who reaps, and where it cannot be had, they do not.
bool Service::ensure_task_queue() noexcept {
  const bool is_wanted = lane_options_.kind != engine::Kind::threads &&
                         lane_options_.mode == engine::UringMode::plain && !tasks_.reap_in_task &&
                         opens_task_queue_;
  return is_wanted &&
         ensure_started(kTaskQueueBit, [&](std::string& why) { return task_queue_.start(why); });
}

/// Whether the thread that the bit stands for runs; it is started if need be.
template <typename Start>
bool Service::ensure_started(uint32_t bit, const Start& start) noexcept {
  if ((pumps_started_.load(std::memory_order_acquire) & bit) != 0) {
    return true;
  }
  if (!own_threads_ || (pumps_failed_.load(std::memory_order_relaxed) & bit) != 0) {
    return false;
  }
  const std::lock_guard guard(lanes_lock_);
  if ((pumps_started_.load(std::memory_order_relaxed) & bit) != 0) {
    return true;  // meanwhile, by another thread: a second polling task would never be stopped
  }
  std::string why;
  if (start(why) != 0) {
    pumps_failed_.fetch_or(bit, std::memory_order_relaxed);
    return false;
  }
  pumps_started_.fetch_or(bit, std::memory_order_release);  // pairs with the look above
  return true;
}

/// Under lanes_lock_.
int Service::start_pump(Pump& pump, std::string& why) noexcept {
  return &pump == &reaper_ && start_poller() ? 0 : pump.start(why);
}

/// Under lanes_lock_. Whether a task of the runtime reaps.
bool Service::start_poller() noexcept {
  if (!tasks_.reap_in_task) {
    return false;
  }
  const std::string refused = "the task runtime cannot run a task that polls";
  std::string why;
  if (tasks_.host == nullptr || !tasks_.host->can_poll()) {
    why = refused;
  } else if (reaper_.start_driven(why) == 0) {
    if (poller_.start(*tasks_.host, tasks_.poll_min_ns, tasks_.poll_max_ns)) {
      return true;
    }
    why = refused;
    reaper_.stop();
  }
  explain("a thread reaps instead of a task", why);
  return false;
}

/// Nobody else can do it: neither a ring for the reaper nor a thread is to be had. Slow, but
/// nothing is lost.
void Service::carry_out_inline(iow_request& request) noexcept {
  Journey& journey = journey_of(request);
  const auto once = [&]() -> int64_t {
    return journey.cancel_wanted.load(std::memory_order_relaxed)
               ? -ECANCELED
               : perform_inline_as_engine(journey.operation);
  };
  while (advance(request, once()) != Step::complete) {
  }
  finish_request(request, inline_counters_);
}

/// In a forked child.
int Service::submit_inline(std::span<iow_request* const> requests) noexcept {
  int taken = 0;
  for (iow_request* const request : requests) {
    if (const int error = begin_journey(*request); error != 0) {
      return taken > 0 ? taken : error;
    }
    perform_rest(*request, &perform_inline_as_engine);
    tell_owner(*request);
    ++taken;
  }
  return taken;
}

// ---- Blocking calls

int64_t Service::transfer(const Call& call) noexcept {
  return is_in_pausable_task() ? transfer_in_task(call) : transfer_on_thread(call);
}

int64_t Service::transfer_on_thread(const Call& call) noexcept {
  if (call.offset < 0) {
    return -EINVAL;  // iow_request's "current position" is not part of these calls
  }
  // Not in a forked child: at the end a lock may be needed that a thread of the parent held.
  const bool counted = !is_inherited() && gate_.begin_activity(0);
  const bool plain = call.op == engine::Op::read || call.op == engine::Op::write;
  int64_t result = 0;
  // One system call does it as a rule; only what is left is worth a request.
  if (plain && call.bytes <= engine::kMaxTransferBytes) {
    engine::Operation once;
    once.op = call.op;
    once.fd = call.fd;
    once.buffer = call.buffer;
    once.length = call.bytes;
    once.offset = call.offset;
    result = perform_inline(once);
  }
  if (!plain || (result != static_cast<int64_t>(call.bytes) && !call.exact)) {
    result = transfer_request(call, result);
  }
  if (counted) {
    gate_.end_activity(0);
  }
  if (call.op != engine::Op::fsync && call.op != engine::Op::fdatasync) {
    blocking_bytes_.add(call.op == engine::Op::read || call.op == engine::Op::readv, result);
  }
  return result;
}

/// The general form: vectors, what a first system call left (`first`, its result, or 0), errors.
int64_t Service::transfer_request(const Call& call, int64_t first) noexcept {
  iow_request request = request_for(call);
  if (const int error = begin_journey(request); error != 0) {
    return error;
  }
  if (first == 0 || advance(request, first) != Step::complete) {
    perform_rest(request);
  }
  return request.result;
}

}  // namespace ioweave::service
