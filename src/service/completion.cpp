// A request on its way back: reaping, what a result means, who is told, and how threads wait.
//
// Whatever carried an operation out hands it to end_operations(): the leader of a lane, the driver
// of a pump, whoever collects from the queue of tasks. Who reaps is no matter there: where a
// request goes next, and who is told of its end, is in its journey.

#include <algorithm>
#include <array>
#include <cerrno>

#include <sched.h>

#include "base/assert.hpp"
#include "service/service.hpp"

namespace ioweave::service {
namespace {

/// Tries to catch a request on its way into a back end: some milliseconds, of sleep once its pump
/// seems to have lost its processor.
constexpr unsigned kMostCancelTries = 500;
constexpr unsigned kCancelTriesAwake = 400;

/// How long an owner who waits for something elsewhere leaves the ends in its lane lying. With
/// `strict` what it waits for may be held back until they are counted.
constexpr int64_t kLongestUnreapedNs = 1'000'000;

/// Of two times to sleep; -1: without end.
int64_t shorter_of(int64_t a, int64_t b) noexcept {
  return a < 0 ? b : b < 0 ? a : std::min(a, b);
}

/// How many there were.
unsigned run_callbacks(RequestList& ready) noexcept {
  unsigned run = 0;
  for (; !ready.empty(); ++run) {
    tell_owner(ready.pop());
  }
  return run;
}

}  // namespace

// ---- The end of operations

void Service::end_operations(std::span<engine::Operation* const> ended,
                             Counters& counters) noexcept {
  for (engine::Operation* const operation : ended) {
    if (is_inherited()) {
      return;  // a callback has forked, and this is the child: the rest is the parent's
    }
    iow_request& request = request_of(*operation);
    const Step step = judge_end(request);
    if (step == Step::complete) {
      finish_request(request, counters);
    } else {
      counters.count_step(step);
      resubmit(request);
    }
  }
}

/// What follows for a request from the result of its operation.
Step Service::judge_end(iow_request& request) noexcept {
  Journey& journey = journey_of(request);
  if (refuses_polling(journey) || refuses_to_wait(request, journey)) {
    return Step::refused;
  }
  return advance(request, journey.operation.result);
}

/// Whether a ring that polls said that the device does not. From then on nothing is polled: files
/// on devices that poll and on others do not belong in one such service.
bool Service::refuses_polling(const Journey& journey) noexcept {
  if (journey.operation.result != -EOPNOTSUPP || journey.way != Way::engine ||
      lane_options_.mode != engine::UringMode::iopoll) {
    return false;
  }
  iopoll_refused_.store(true, std::memory_order_relaxed);  // a hint: each ring would find out
  return true;
}

/// Whether the queue of tasks said that the operation would wait in the kernel. Nothing, an error,
/// or for an exact call a part of it may be of RWF_NOWAIT's making: file systems that finish a
/// direct read as a buffered one end where they would wait, some kernels say 0 there and others
/// -EIO. The reaper, which may wait, finds out. Appends never come here.
bool Service::refuses_to_wait(const iow_request& request, Journey& journey) noexcept {
  if (journey.way != Way::task_queue) {
    return false;
  }
  const int64_t result = journey.operation.result;
  const bool is_cut =
      (request.flags & IOW_EXACT) != 0 && static_cast<uint64_t>(result) < journey.total_bytes;
  if (result > 0 && !is_cut) {
    return false;
  }
  if (result == -EAGAIN || result == -EOPNOTSUPP) {
    task_queue_.stay_away();
  }
  journey.way = Way::engine;
  return true;
}

/// What is left of a transfer, or the same operation once more: in the same lane by its owner; by
/// anybody else, and where the lane is full, another way.
void Service::resubmit(iow_request& request) noexcept {
  Journey& journey = journey_of(request);
  Lane* const lane = journey.lane.load(std::memory_order_relaxed);  // which the caller leads
  if (lane != nullptr) {
    if (lane->is_led_by_owner() && !is_iopoll_refused() &&
        lane->backend()->submit(journey.operation) == engine::Submitted::queued) {
      lane->unflushed = true;
      return;
    }
    unfinished_.fetch_add(1, std::memory_order_relaxed);
    lane->note_sent_elsewhere();
    journey.lane.store(nullptr, std::memory_order_release);
  }
  post(request);
}

/// The request has completed: the gate hears it first, as the device should not wait for a
/// callback, and who waits for the request is told last, as it may be gone then.
void Service::finish_request(iow_request& request, Counters& counters) noexcept {
  Journey& journey = journey_of(request);
  counters.count_end(request);
  journey.station.store(Station::none, std::memory_order_relaxed);
  if (journey.managed) {
    gate_.ended(journey.admission, request.result);
  }
  end_activity(request);
  if (Lane* const lane = journey.lane.load(std::memory_order_relaxed); lane != nullptr) {
    lane->end_here(request);
    return;
  }
  if (Lane* const home = journey.home; home != nullptr) {
    home->end_elsewhere(request);
  } else {
    tell_owner(request);
  }
  drop_unfinished();
}

/// The back end that the request was given to does not carry it: the next one must.
void Service::reroute(iow_request& request) noexcept {
  Journey& journey = journey_of(request);
  if (journey.way == Way::task_queue) {
    journey.way = Way::engine;
  } else if (journey.way == Way::engine && !engine_is_threads()) {
    leave_engine(journey);
  } else {
    journey.operation.result = -EOPNOTSUPP;  // no back end is left that could
    engine::Operation* const one[] = {&journey.operation};
    end_operations(one, inline_counters_);
    return;
  }
  post(request);
}

void Service::end_activity(iow_request& request) noexcept {
  Journey& journey = journey_of(request);
  if (journey.counted) {
    journey.counted = false;
    gate_.end_activity(gate_.device_of(request.flow));
  }
}

/// Last of all: where it was the last, close() may free the service.
void Service::drop_unfinished() noexcept {
  const std::atomic<uint32_t>& word = unfinished_;
  if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    futex_wake(word);  // pairs with close(); a wake needs the address only
  }
}

// ---- Reaping lanes

/// Leader only. One reap of the lane and what follows from it; how many requests without a callback
/// ended. The lane keeps the others, for the owner to run their callbacks and to count them.
unsigned Service::lead_once(Lane& lane, unsigned min, int64_t timeout_ns) noexcept {
  const bool is_owner = lane.is_led_by_owner();
  if (is_owner) {
    lane.unflushed = false;
  }
  std::array<engine::Operation*, kReapBatch> ended;
  const int reaped =
      lane.reap(ended, {.min_completions = min, .timeout_ns = timeout_ns, .flush = is_owner});
  IOW_ASSERT(reaped >= 0);
  const uint32_t before = lane.count_ended_here();
  end_operations(std::span(ended).first(static_cast<size_t>(reaped)), lane.counters);
  if (is_owner && lane.unflushed) {
    flush(lane);
  }
  return lane.count_ended_here() - before;
}

/// Owner: an operation ended within its submission.
void Service::end_at_submission(engine::Operation& operation, Lane& lane) noexcept {
  while (!lane.try_lead(true)) {
    lane.follow(-1);
  }
  engine::Operation* const one[] = {&operation};
  end_operations(one, lane.counters);
  lane.stop_leading();
}

/// Owner: what ended elsewhere, and the callbacks of that. How many requests.
unsigned Service::collect_elsewhere(Lane& lane) noexcept {
  RequestList returned;
  const unsigned plain = lane.collect_ended_elsewhere(returned);
  return plain + run_callbacks(returned);
}

/// Owner: collects what has ended, and sleeps for `want` ends if nothing has; runs the callbacks,
/// which may submit, wait and poll themselves. How many requests.
unsigned Service::collect(Lane& lane, unsigned want, const Deadline& deadline) noexcept {
  unsigned ended = 0;
  RequestList ready;
  const int64_t patience_ns = want == 0 ? 0 : shorter_of(deadline.left_ns(), help_reaper());
  if (lane.backend() == nullptr) {
    const Lane::OwnerSleep sleep(lane, false);
    lane.sleep_until_end_elsewhere(patience_ns);
  } else if (lane.try_lead(true)) {
    // Another leader may have collected a callback of ours: do not sleep on it.
    const Lane::OwnerSleep sleep(lane, true);
    if (lane.has_callbacks() || lane.has_ended_elsewhere()) {
      want = 0;
    }
    ended = lead_once(lane, want, want == 0 ? 0 : patience_ns);
    lane.hand_over_callbacks(ready);
    lane.stop_leading();
  } else if (want > 0) {
    const Lane::OwnerSleep sleep(lane, false);
    if (!lane.has_ended_elsewhere()) {
      lane.follow(patience_ns);
    }
  }
  ended += run_callbacks(ready);
  return ended + collect_elsewhere(lane);
}

// ---- Waiting

/// Before the caller sleeps for something that ends elsewhere: submits and reaps what is in its
/// lane. Returns true if more is under way there.
bool Service::look_after_own_lane() noexcept {
  Lane* const own = local_lane(id_);
  if (own == nullptr) {
    return false;
  }
  if (own->unflushed) {
    flush(*own);
  }
  if (own->backend() == nullptr || own->count_outstanding() == 0) {
    return false;
  }
  if (!own->try_lead(true)) {
    return true;
  }
  lead_once(*own, 0, 0);
  const bool has_more = own->count_in_back_end() != 0;
  own->stop_leading();
  return has_more;
}

/// How long the caller may sleep for what ends elsewhere, until it looks again: at most `left_ns`.
int64_t Service::patience_elsewhere(int64_t left_ns) noexcept {
  const int64_t patience_ns = shorter_of(left_ns, help_reaper());
  return look_after_own_lane() ? shorter_of(patience_ns, kLongestUnreapedNs) : patience_ns;
}

/// Owner, who has waited for something elsewhere: the callbacks of what has ended meanwhile.
void Service::run_own_callbacks(Lane& own) noexcept {
  RequestList ready;
  if (own.backend() != nullptr && own.try_lead(true)) {
    own.hand_over_callbacks(ready);
    own.stop_leading();
  }
  run_callbacks(ready);
  collect_elsewhere(own);
}

int Service::test(iow_request& request) noexcept {
  Journey& journey = journey_of(request);
  if (journey.event.done() || is_inherited()) {
    return journey.event.done() ? 1 : 0;
  }
  Lane* const own = local_lane(id_);
  if (own != nullptr && own->unflushed) {
    flush(*own);
  }
  Lane* const lane = journey.lane.load(std::memory_order_acquire);
  if (lane != nullptr && lane->try_lead(lane == own)) {
    lead_once(*lane, 0, 0);
    lane->stop_leading();
  }
  return journey.event.done() ? 1 : 0;
}

int Service::wait(iow_request& request, int64_t timeout_ns) noexcept {
  Journey& journey = journey_of(request);
  if (journey.event.done()) {
    return 0;
  }
  if (journey.event.idle()) {
    return -EINVAL;
  }
  if (is_inherited()) {
    return -ECANCELED;
  }
  const Deadline deadline(timeout_ns);
  Lane* const own = local_lane(id_);
  do {  // looks once in any case: a timeout of 0 asks for just that
    Lane* const lane = journey.lane.load(std::memory_order_acquire);
    if (own != nullptr && own->unflushed && lane != own) {
      flush(*own);
    }
    if (lane == nullptr) {
      journey.event.sleep(patience_elsewhere(deadline.left_ns()));
    } else if (!lane->try_lead(lane == own)) {
      lane->follow(deadline.left_ns());
    } else {
      // Only a leader ends a request or sends it elsewhere, so as leader this holds still.
      if (!journey.event.done() && journey.lane.load(std::memory_order_acquire) == lane) {
        lead_once(*lane, 1, deadline.left_ns());
      }
      RequestList ready;
      if (lane == own) {
        lane->hand_over_callbacks(ready);
      }
      lane->stop_leading();
      if (lane == own) {
        run_callbacks(ready);
        collect_elsewhere(*lane);
      }
    }
    if (own != nullptr && lane != own) {
      run_own_callbacks(*own);
    }
  } while (!journey.event.done() && !deadline.passed());
  return journey.event.done() ? 0 : -ETIME;
}

int Service::poll(unsigned min, int64_t timeout_ns) noexcept {
  const Deadline deadline(timeout_ns);
  Lane* const lane = is_inherited() ? nullptr : local_lane(id_);
  if (lane == nullptr) {
    return 0;  // this thread never submitted anything
  }
  unsigned ended = 0;
  while (true) {
    ended += collect(*lane, ended >= min ? 0 : std::min(min - ended, lane->count_outstanding()),
                     deadline);
    if (lane->count_outstanding() == 0) {
      return static_cast<int>(ended +
                              collect_elsewhere(*lane));  // it may have come since we looked
    }
    if (ended >= min || deadline.passed()) {
      return static_cast<int>(ended);
    }
  }
}

int Service::cancel(iow_request& request) noexcept {
  Journey& journey = journey_of(request);
  if (is_inherited() || journey.event.done() || journey.event.idle()) {
    return -EALREADY;
  }
  journey.cancel_wanted.store(true, std::memory_order_seq_cst);  // against Pump::give_to_backend()
  if (withdraw_held(request)) {
    return 0;
  }
  if (Lane* const lane = journey.lane.load(std::memory_order_acquire); lane != nullptr) {
    return lane->backend()->cancel(journey.operation) == 0 ? 0 : -EALREADY;
  }
  const Station station = journey.station.load(std::memory_order_seq_cst);
  if (station == Station::posted || station == Station::held) {
    return 0;  // the pump will see it; what is still held here is on its way there
  }
  for (unsigned tries = 0; tries < kMostCancelTries && !journey.event.done(); ++tries) {
    const int status = cancel_in_pumps(journey.operation);
    if (status != -ENOENT) {
      return status == 0 ? 0 : -EALREADY;
    }
    // A pump has taken it and not handed it over yet, or is about to tell that it has ended.
    if (tries < kCancelTriesAwake) {
      sched_yield();
    } else {
      tasking::sleep_thread_for(100'000);
    }
  }
  return -EALREADY;
}

bool Service::cancel_if_held(iow_request& request) noexcept {
  Journey& journey = journey_of(request);
  return !is_inherited() && !journey.event.done() && !journey.event.idle() &&
         withdraw_held(request);
}

/// Ends the request with -ECANCELED if the gate still holds it back.
bool Service::withdraw_held(iow_request& request) noexcept {
  Journey& journey = journey_of(request);
  if (journey.station.load(std::memory_order_relaxed) != Station::held ||
      !gate_.withdraw(journey.admission)) {
    return false;
  }
  journey.cancel_wanted.store(true, std::memory_order_relaxed);  // for the pump
  journey.station.store(Station::none, std::memory_order_relaxed);
  journey.managed = false;
  if (!ends_with_owner(request)) {
    post(request);  // the pump ends it: its callback runs there
  } else {
    request.result = -ECANCELED;
    finish_request(request, inline_counters_);
  }
  return true;
}

/// As Backend::cancel.
int Service::cancel_in_pumps(engine::Operation& operation) noexcept {
  const uint32_t started = pumps_started_.load(std::memory_order_acquire);
  int status = -ENOENT;
  if ((started & kReaperBit) != 0) {
    status = reaper_.cancel(operation);
  }
  if (status == -ENOENT && (started & kWorkersBit) != 0) {
    status = workers_.cancel(operation);
  }
  return status;
}

}  // namespace ioweave::service
