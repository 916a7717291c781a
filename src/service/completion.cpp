// A request on its way back: reaping, what a result means, who is told, and how threads wait.

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>

#include <sched.h>

#include "base/assert.hpp"
#include "service/impl.hpp"
#include "service/inline_io.hpp"

namespace ioweave::service {
namespace {

/// Tries to catch a request on its way into a back end: some milliseconds, of sleep once its pump
/// seems to have lost its processor.
constexpr unsigned kMostCancelTries = 500;
constexpr unsigned kCancelTriesAwake = 400;

/// Of two times to sleep; -1: without end.
int64_t sooner(int64_t a, int64_t b) noexcept {
  return a < 0 ? b : b < 0 ? a : std::min(a, b);
}

}  // namespace

/// Leader only. One reap of the lane and what follows from it; how many requests without a callback
/// ended. The lane keeps the others, for the owner to run their callbacks and to count them.
unsigned Service::Impl::lead_once(Lane& lane, unsigned min, int64_t timeout_ns,
                                  bool is_owner) noexcept {
  std::array<engine::Operation*, kReapBatch> ended;
  if (is_owner) {
    lane.unflushed = false;
  }
  const int reaped =
      lane.reap(ended, {.min_completions = min, .timeout_ns = timeout_ns, .flush = is_owner});
  IOW_ASSERT(reaped >= 0);
  return settle(std::span(ended).first(static_cast<size_t>(reaped)), lane, is_owner);
}

/// Leader only. Returns as lead_once().
unsigned Service::Impl::settle(std::span<engine::Operation*> ended, Lane& lane,
                               bool is_owner) noexcept {
  unsigned finished = 0;
  unsigned with_callback = 0;
  for (engine::Operation* const operation : ended) {
    iow_request& request = request_of(*operation);
    const Advance step = refuses_polling(operation->result) ? Advance{Step::again, false, true}
                                                            : advance(request, operation->result);
    if (step.step == Step::again) {
      Counters::add(step.continued ? lane.counters.continued : lane.counters.reissued, 1);
      resubmit(request, lane, is_owner);
      continue;
    }
    ++finished;
    with_callback += request.callback != nullptr ? 1 : 0;
    finish_direct(request, lane);
  }
  // A request with a callback is outstanding until the owner takes it: see collect().
  lane.ended_here(finished - with_callback);
  if (is_owner && lane.unflushed) {
    flush(lane);
  }
  return finished - with_callback;
}

/// The rest of a transfer, or the same once more: in the same lane by its owner; by anybody else,
/// and where the lane is full, through the reaper.
void Service::Impl::resubmit(iow_request& request, Lane& lane, bool is_owner) noexcept {
  Journey& journey = journey_of(request);
  if (is_owner && !polling_refused() &&
      lane.backend()->submit(journey.operation) == engine::Submitted::queued) {
    lane.unflushed = true;
    return;
  }
  pumped_unfinished_.fetch_add(1, std::memory_order_relaxed);
  lane.sent_elsewhere();
  journey.lane.store(nullptr, std::memory_order_release);
  post(request);
}

void Service::Impl::finish_direct(iow_request& request, Lane& lane) noexcept {
  Journey& journey = journey_of(request);
  journey.station.store(Station::none, std::memory_order_relaxed);
  if (journey.counted) {
    end_activity(request);
  }
  lane.counters.completion(request);
  if (request.callback != nullptr) {
    lane.keep_callback(request);
  } else {
    journey.event.complete();  // last: the request may be gone now
  }
}

void Service::Impl::end_activity(iow_request& request) noexcept {
  Journey& journey = journey_of(request);
  if (journey.counted) {
    journey.counted = false;
    gate_.end_activity(gate_.device_of(request.flow));
  }
}

void Service::Impl::ended(iow_request& request, Pump& pump) noexcept {
  const int64_t result = journey_of(request).operation.result;
  if (&pump == &reaper_ && refuses_polling(result)) {
    refused(request, pump);
    return;
  }
  const Advance step = advance(request, result);
  if (step.step == Step::again) {
    Counters::add(step.continued ? pump.counters.continued : pump.counters.reissued, 1);
    pump.post(request);
    return;
  }
  pump.counters.completion(request);
  finish_pumped(request);
}

void Service::Impl::refused(iow_request& request, Pump& pump) noexcept {
  if (&pump == &workers_ || engine_is_threads()) {
    journey_of(request).operation.result = -EOPNOTSUPP;  // no back end left that could
    ended(request, pump);
    return;
  }
  fallbacks_.fetch_add(1, std::memory_order_relaxed);
  if (is_started(workers_, kWorkersBit)) {
    workers_.post(request);
  } else {
    carry_out_inline(request);
  }
}

void Service::Impl::ended_in_task_queue(iow_request& request) noexcept {
  const int64_t result = journey_of(request).operation.result;
  // Nothing, an error, or for an exact call a part of it may be of RWF_NOWAIT's making: file
  // systems that finish a direct read as a buffered one end where they would wait, some kernels say
  // 0 there and others -EIO. The reaper, which may wait, finds out. Appends never come here.
  const bool is_cut = (request.flags & IOW_EXACT) != 0 && result > 0 &&
                      static_cast<uint64_t>(result) < journey_of(request).total_bytes;
  if (result <= 0 || is_cut) {
    if (result == -EAGAIN || result == -EOPNOTSUPP) {
      task_queue_.stay_away();
    }
    refused_by_task_queue(request);
    return;
  }
  const Advance step = advance(request, result);
  if (step.step == Step::again) {
    task_queue_.count(step.continued);
    post(request);
    return;
  }
  task_queue_.count(request);
  finish_pumped(request);
}

void Service::Impl::refused_by_task_queue(iow_request& request) noexcept {
  journey_of(request).for_task_queue = false;
  post(request);
}

void Service::Impl::finish_pumped(iow_request& request) noexcept {
  Journey& journey = journey_of(request);
  journey.station.store(Station::none, std::memory_order_relaxed);
  if (journey.managed) {
    gate_.ended(journey.admission,
                request.result);  // first: the device should not wait for a callback
  } else {
    end_activity(request);
  }
  Lane* const home = journey.home;
  if (home != nullptr && request.callback != nullptr) {
    home->hand_back(request);
  } else if (request.callback != nullptr) {
    run_callback(request);
  } else {
    journey.event.complete();  // the request may be gone now
    if (home != nullptr) {
      home->note_end_elsewhere();
    }
  }
  one_less_unfinished();
}

/// Last of all: where it was the last, close() may free the service.
void Service::Impl::one_less_unfinished() noexcept {
  const std::atomic<uint32_t>& word = pumped_unfinished_;
  if (pumped_unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    futex_wake(word);  // pairs with close(); a wake needs the address only
  }
}

/// How many there were.
unsigned Service::Impl::run_callbacks(RequestList& ready) noexcept {
  unsigned run = 0;
  for (; !ready.empty(); ++run) {
    run_callback(ready.pop());
  }
  return run;
}

/// Owner: what ended elsewhere, and the callbacks of that. How many requests.
unsigned Service::Impl::collect_elsewhere(Lane& lane) noexcept {
  RequestList returned;
  const unsigned plain = lane.take_ended_elsewhere(returned);
  return plain + run_callbacks(returned);
}

/// Owner: collects what has ended, and sleeps for `want` ends if nothing has; runs the callbacks,
/// which may submit, wait and poll themselves. How many requests.
unsigned Service::Impl::collect(Lane& lane, unsigned want, const Deadline& deadline) noexcept {
  unsigned ended = 0;
  RequestList ready;
  const int64_t patience_ns = want == 0 ? 0 : sooner(deadline.left_ns(), help_reaper());
  if (lane.backend() == nullptr) {
    const Lane::OwnerSleep sleep(lane, false);
    lane.sleep_until_end_elsewhere(patience_ns);
  } else if (lane.try_lead()) {
    // Another leader may have collected a callback of ours: do not sleep on it.
    const Lane::OwnerSleep sleep(lane, true);
    if (lane.has_callbacks() || lane.news_from_elsewhere()) {
      want = 0;
    }
    ended = lead_once(lane, want, want == 0 ? 0 : patience_ns, true);
    lane.take_callbacks(ready);
    lane.stop_leading();
  } else if (want > 0) {
    const Lane::OwnerSleep sleep(lane, false);
    if (!lane.news_from_elsewhere()) {
      lane.follow(patience_ns);
    }
  }
  ended += run_callbacks(ready);
  return ended + collect_elsewhere(lane);
}

// ---- Waiting

int Service::Impl::test(iow_request& request) noexcept {
  Journey& journey = journey_of(request);
  if (journey.event.done() || !ours()) {
    return journey.event.done() ? 1 : 0;
  }
  Lane* const own = local_lane(id_);
  if (own != nullptr && own->unflushed) {
    flush(*own);
  }
  Lane* const lane = journey.lane.load(std::memory_order_acquire);
  if (lane != nullptr && lane->try_lead()) {
    lead_once(*lane, 0, 0, lane == own);
    lane->stop_leading();
  }
  return journey.event.done() ? 1 : 0;
}

int Service::Impl::wait(iow_request& request, const Deadline& deadline) noexcept {
  Journey& journey = journey_of(request);
  if (journey.event.done()) {
    return 0;
  }
  if (journey.event.idle()) {
    return -EINVAL;
  }
  if (!ours()) {
    return -ECANCELED;
  }
  Lane* const own = local_lane(id_);
  do {  // looks once in any case: a timeout of 0 asks for just that
    Lane* const lane = journey.lane.load(std::memory_order_acquire);
    if (own != nullptr && own->unflushed && lane != own) {
      flush(*own);
    }
    if (lane == nullptr) {
      journey.event.sleep(sooner(deadline.left_ns(), help_reaper()));
    } else if (!lane->try_lead()) {
      lane->follow(deadline.left_ns());
    } else {
      // Only a leader ends a request or sends it elsewhere, so as leader this holds still.
      if (!journey.event.done() && journey.lane.load(std::memory_order_acquire) == lane) {
        lead_once(*lane, 1, deadline.left_ns(), lane == own);
      }
      RequestList ready;
      if (lane == own) {
        lane->take_callbacks(ready);
      }
      lane->stop_leading();
      if (lane == own) {
        run_callbacks(ready);
        collect_elsewhere(*lane);
      }
    }
  } while (!journey.event.done() && !deadline.passed());
  return journey.event.done() ? 0 : -ETIME;
}

int Service::Impl::poll(unsigned min, const Deadline& deadline) noexcept {
  Lane* const lane = ours() ? local_lane(id_) : nullptr;
  if (lane == nullptr) {
    return 0;  // this thread never submitted anything
  }
  unsigned ended = 0;
  while (true) {
    ended +=
        collect(*lane, ended >= min ? 0 : std::min(min - ended, lane->outstanding()), deadline);
    if (lane->outstanding() == 0) {
      return static_cast<int>(ended +
                              collect_elsewhere(*lane));  // it may have come since we looked
    }
    if (ended >= min || deadline.passed()) {
      return static_cast<int>(ended);
    }
  }
}

int Service::Impl::cancel(iow_request& request) noexcept {
  Journey& journey = journey_of(request);
  if (!ours() || journey.event.done() || journey.event.idle()) {
    return -EALREADY;
  }
  journey.cancel_wanted.store(true, std::memory_order_seq_cst);  // against Pump::submit_one()
  const bool withdrawn = journey.station.load(std::memory_order_relaxed) == Station::held &&
                         gate_.withdraw(journey.admission);
  if (withdrawn) {
    journey.station.store(Station::none, std::memory_order_relaxed);
    journey.managed = false;
  }
  if (withdrawn && !runs_on_poll(request)) {
    post(request);  // the pump ends it: its callback runs there
    return 0;
  }
  if (withdrawn) {
    request.result = -ECANCELED;
    {
      const std::lock_guard guard(lanes_lock_);
      inline_counters_.completion(request);
    }
    finish_pumped(request);
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

/// As Backend::cancel.
int Service::Impl::cancel_in_pumps(engine::Operation& operation) noexcept {
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
