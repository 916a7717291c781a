// One request through this file: submit() -> take() -> submit_direct() into the lane of the calling
// thread, or submit_pumped() to the policy and a pump. Back ends end operations in settle() (lanes)
// and ended() (pumps); both continue short transfers through advance() and finish in one of the two
// finish_* functions, after which the request is its owner's again and is not touched.
//
// Locks: none on the fast path (a lane has one submitter and one leader); the governor's around the
// policy; `lanes_lock_` around creating lanes and starting pumps. None is held across a system
// call that does I/O, nor while a callback runs.

#include "service/service.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/futex.hpp"
#include "engine/probe.hpp"
#include "service/governor.hpp"
#include "service/inline_io.hpp"
#include "service/lane.hpp"
#include "service/local.hpp"
#include "service/pump.hpp"

namespace ioweave::service {
namespace {

constexpr size_t kReapBatch = 64;

bool runs_on_poll(const iow_request& request) noexcept {
  return request.callback == nullptr || (request.flags & IOW_CALLBACK_ON_POLL) != 0;
}

void run_callback(iow_request& request) noexcept {
  // Completed first: the callback may submit the request again.
  journey_of(request).event.complete();
  request.callback(&request, request.user);
}

/// Bytes moved by blocking calls, which have no lane: spread over cache lines, as every thread of
/// the program adds to it.
class BlockingBytes {
 public:
  void add(bool is_read, int64_t result) noexcept {
    if (result > 0) {
      Shard& shard = shards_[shard_of_thread()];
      (is_read ? shard.read : shard.written)
          .fetch_add(static_cast<uint64_t>(result), std::memory_order_relaxed);
    }
  }
  void add_to(iow_stats& sum) const noexcept {
    for (const Shard& shard : shards_) {
      sum.read_bytes += shard.read.load(std::memory_order_relaxed);
      sum.written_bytes += shard.written.load(std::memory_order_relaxed);
    }
  }

 private:
  static constexpr size_t kShards = 16;
  struct alignas(64) Shard {
    std::atomic<uint64_t> read{0};
    std::atomic<uint64_t> written{0};
  };
  static size_t shard_of_thread() noexcept {
    static std::atomic<uint32_t> next{0};
    thread_local constinit uint32_t mine = 0;
    if (mine == 0) {
      mine = next.fetch_add(1, std::memory_order_relaxed) % kShards + 1;
    }
    return mine - 1;
  }
  std::array<Shard, kShards> shards_;
};

}  // namespace

class Service::Impl final : public PumpClient, public LaneHost {
 public:
  Impl(const engine::LaneOptions& lane_options, OpenLane open_lane, std::string engine_name,
       std::string why)
      : lane_options_(lane_options),
        open_lane_(open_lane),
        engine_name_(std::move(engine_name)),
        why_(std::move(why)),
        reaper_(reaper_options(), open_lane, *this),
        workers_(worker_options(), open_lane, *this) {
    lane_options_.fixed = &fixed_;
  }

  ~Impl() {
    for (Lane* lane = all_lanes_.load(std::memory_order_relaxed); lane != nullptr;) {
      delete std::exchange(lane, lane->next);
    }
  }

  [[nodiscard]] int enlist() noexcept {
    id_ = register_host(*this);
    return id_ != 0 ? 0 : -EMFILE;
  }

  /// False in a forked child, where nothing but memory is ours.
  [[nodiscard]] bool ours() const noexcept { return born_ == fork_generation(); }

  int submit(std::span<iow_request* const> requests) noexcept;
  int test(iow_request& request) noexcept;
  int wait(iow_request& request, const Deadline& deadline) noexcept;
  int poll(unsigned min, const Deadline& deadline) noexcept;
  int cancel(iow_request& request) noexcept;
  int64_t transfer(engine::Op op, int fd, void* buffer, uint64_t bytes, int64_t offset) noexcept;
  void close() noexcept;
  void statistics(iow_stats& sum) const noexcept;
  void post_all(RequestList& start) noexcept;

  Governor governor_;
  engine::FixedTable fixed_;
  engine::LaneOptions lane_options_;
  const OpenLane open_lane_;
  const std::string engine_name_;
  const std::string why_;

 private:
  // Submission.
  int take(iow_request& request, Lane* lane) noexcept;
  int submit_direct(iow_request& request, Lane& lane) noexcept;
  void submit_pumped(iow_request& request, Lane* home) noexcept;
  void settle_one(engine::Operation& operation, Lane& lane) noexcept;
  void make_room(Lane& lane) noexcept;
  void flush(Lane& lane) noexcept;
  int submit_inline(std::span<iow_request* const> requests) noexcept;
  void post(iow_request& request) noexcept;
  void carry_out_inline(iow_request& request) noexcept;

  // Completion.
  unsigned settle(std::span<engine::Operation*> ended, Lane& lane, bool is_owner) noexcept;
  void resubmit(iow_request& request, Lane& lane, bool is_owner) noexcept;
  void finish_direct(iow_request& request, Lane& lane) noexcept;
  void finish_pumped(iow_request& request) noexcept;
  unsigned run_callbacks(Lane& lane) noexcept;
  unsigned lead_once(Lane& lane, unsigned min, int64_t timeout_ns, bool is_owner) noexcept;
  unsigned await(Lane& lane, unsigned want, const Deadline& deadline) noexcept;
  void end_activity(iow_request& request) noexcept;

  // PumpClient and LaneHost.
  void ended(iow_request& request, Pump& pump) noexcept override;
  void refused(iow_request& request, Pump& pump) noexcept override;
  void thread_ends(Lane& lane) noexcept override;
  void abandon() noexcept override;

  // Lanes and pumps.
  Lane* lane_of_this_thread() noexcept;
  Lane* make_lane() noexcept;
  void drain(Lane& lane) noexcept;
  bool is_direct(const iow_request& request, Lane* lane) noexcept;
  Pump* pump_for(const iow_request& request) noexcept;
  [[nodiscard]] bool engine_is_threads() const noexcept {
    return lane_options_.kind == engine::Kind::threads;
  }
  [[nodiscard]] engine::LaneOptions reaper_options() const noexcept {
    engine::LaneOptions options = lane_options_;
    options.single_owner = true;
    options.fixed = &fixed_;
    return options;
  }
  [[nodiscard]] engine::LaneOptions worker_options() const noexcept {
    engine::LaneOptions options = lane_options_;
    options.kind = engine::Kind::threads;
    options.mode = engine::UringMode::plain;
    return options;
  }

  uint64_t id_ = 0;
  const uint32_t born_ = fork_generation();
  std::mutex lanes_lock_;
  std::atomic<Lane*> all_lanes_{nullptr};  ///< push only: the fork handler walks it without a lock
  std::vector<Lane*> free_lanes_;
  std::atomic<uint32_t> lane_count_{0};
  std::atomic<uint32_t> pumps_started_{0};

  std::atomic<uint32_t> pumped_unfinished_{0};  ///< with policy or pumps; a futex word
  BlockingBytes blocking_bytes_;
  Counters inline_counters_;  ///< under lanes_lock_

  Pump reaper_;
  Pump workers_;
};

// ---- Submission
// ------------------------------------------------------------------------------------

int Service::Impl::submit(std::span<iow_request* const> requests) noexcept {
  if (!ours()) {
    return submit_inline(requests);
  }
  Lane* const lane = lane_of_this_thread();
  int taken = 0;
  int error = 0;
  for (iow_request* const request : requests) {
    error = take(*request, lane);
    if (error != 0) {
      break;
    }
    ++taken;
  }
  const bool more = taken > 0 && (requests[static_cast<size_t>(taken) - 1]->flags & IOW_MORE) != 0;
  if (lane != nullptr && lane->unflushed && !more) {
    flush(*lane);
  }
  return taken > 0 ? taken : error;
}

int Service::Impl::take(iow_request& request, Lane* lane) noexcept {
  if (!governor_.knows(request.flow)) {
    return -EINVAL;
  }
  if (const int error = begin_journey(request); error != 0) {
    return error;
  }
  if (lane != nullptr) {
    Counters::add(lane->submitted, 1);
  }
  if (is_direct(request, lane)) {
    return submit_direct(request, *lane);
  }
  submit_pumped(request, lane);
  return 0;
}

bool Service::Impl::is_direct(const iow_request& request, Lane* lane) noexcept {
  return lane != nullptr && lane->backend() != nullptr && runs_on_poll(request) &&
         request.op != IOW_OP_PREFETCH && governor_.direct(request.flow);
}

int Service::Impl::submit_direct(iow_request& request, Lane& lane) noexcept {
  Journey& journey = journey_of(request);
  journey.home = &lane;
  journey.counted = governor_.begin_activity(governor_.device_of(request.flow));
  journey.station.store(Station::in_flight, std::memory_order_relaxed);
  // Release: pairs with the acquire of whoever waits for the request and then leads the lane.
  journey.lane.store(&lane, std::memory_order_release);
  while (true) {
    switch (lane.backend()->submit(journey.operation)) {
      case engine::Submitted::queued:
        lane.outstanding.fetch_add(1, std::memory_order_relaxed);
        lane.unflushed = true;
        return 0;
      case engine::Submitted::completed:
        lane.outstanding.fetch_add(1, std::memory_order_relaxed);
        settle_one(journey.operation, lane);
        return 0;
      case engine::Submitted::unsupported:
        Counters::add(lane.fallbacks, 1);
        journey.lane.store(nullptr, std::memory_order_release);
        submit_pumped(request, &lane);
        return 0;
      case engine::Submitted::busy:
        if ((request.flags & IOW_NOWAIT) != 0) {
          end_activity(request);
          journey.lane.store(nullptr, std::memory_order_relaxed);
          journey.event.retract();
          lane.submitted.store(lane.submitted.load(std::memory_order_relaxed) - 1,
                               std::memory_order_relaxed);
          return -EAGAIN;
        }
        make_room(lane);
        break;
    }
  }
}

/// An operation that ended within its submission.
void Service::Impl::settle_one(engine::Operation& operation, Lane& lane) noexcept {
  while (!lane.try_lead()) {
    lane.follow(-1);
  }
  std::array<engine::Operation*, 1> ended{&operation};
  settle(ended, lane, true);
  lane.stop_leading();
}

/// Back-pressure: sleeps until something in the full lane has ended. Callbacks are collected, not
/// run: a submitter does not expect them here.
void Service::Impl::make_room(Lane& lane) noexcept {
  flush(lane);
  if (lane.try_lead()) {
    lead_once(lane, 1, -1, true);
    lane.stop_leading();
  } else {
    lane.follow(-1);
  }
}

void Service::Impl::flush(Lane& lane) noexcept {
  lane.unflushed = false;
  const int error = lane.backend()->flush();
  IOW_ASSERT(error == 0);  // a lane that opened and does not take submissions is broken memory
}

/// To the policy where the flow is managed, to a pump otherwise. `home` is told of the end where
/// the request is one that its thread polls for.
void Service::Impl::submit_pumped(iow_request& request, Lane* home) noexcept {
  Journey& journey = journey_of(request);
  journey.home = runs_on_poll(request) ? home : nullptr;
  if (journey.home != nullptr) {
    home->outstanding.fetch_add(1, std::memory_order_relaxed);
  }
  pumped_unfinished_.fetch_add(1, std::memory_order_relaxed);
  if (!governor_.direct(request.flow)) {
    RequestList start;
    governor_.ready(request, start);
    post_all(start);
    return;
  }
  if (!journey.counted) {
    journey.counted = governor_.begin_activity(governor_.device_of(request.flow));
  }
  post(request);
}

void Service::Impl::post_all(RequestList& start) noexcept {
  while (!start.empty()) {
    post(start.pop());
  }
}

void Service::Impl::post(iow_request& request) noexcept {
  if (Pump* const pump = pump_for(request); pump != nullptr) {
    pump->post(request);
  } else {
    carry_out_inline(request);
  }
}

/// The pump that can do the request, started if need be; null where no thread can be had.
Pump* Service::Impl::pump_for(const iow_request& request) noexcept {
  const bool needs_workers = request.op == IOW_OP_PREFETCH && !engine_is_threads();
  Pump& pump = needs_workers ? workers_ : reaper_;
  const uint32_t bit = needs_workers ? 2u : 1u;
  if ((pumps_started_.load(std::memory_order_acquire) & bit) == 0) {
    const std::lock_guard guard(lanes_lock_);
    std::string why;
    if (pump.start(why) != 0) {
      return nullptr;
    }
    pumps_started_.fetch_or(bit, std::memory_order_release);  // pairs with the look above
  }
  return &pump;
}

/// Nobody else can do it: neither a ring nor a thread is to be had. Slow, but nothing is lost.
void Service::Impl::carry_out_inline(iow_request& request) noexcept {
  Journey& journey = journey_of(request);
  while (advance(request, perform_inline(journey.operation)).step == Step::again) {
  }
  {
    const std::lock_guard guard(lanes_lock_);
    inline_counters_.completion(request);
  }
  finish_pumped(request);
}

int Service::Impl::submit_inline(std::span<iow_request* const> requests) noexcept {
  int taken = 0;
  for (iow_request* const request : requests) {
    if (const int error = begin_journey(*request); error != 0) {
      return taken > 0 ? taken : error;
    }
    while (advance(*request, perform_inline(journey_of(*request).operation)).step == Step::again) {
    }
    if (request->callback != nullptr) {
      run_callback(*request);
    } else {
      journey_of(*request).event.complete();
    }
    ++taken;
  }
  return taken;
}

// ---- Completion
// ------------------------------------------------------------------------------------

/// Leader only. One reap of the lane and what follows from it; how many requests without a callback
/// ended. The others are in lane.callbacks() now, for the owner to run and to count.
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
    const Advance step = advance(request, operation->result);
    if (step.step == Step::again) {
      Counters::add(step.continued ? lane.counters.continued : lane.counters.reissued, 1);
      resubmit(request, lane, is_owner);
      continue;
    }
    ++finished;
    with_callback += request.callback != nullptr ? 1 : 0;
    finish_direct(request, lane);
  }
  if (finished > 0) {
    lane.outstanding.fetch_sub(finished, std::memory_order_relaxed);
  }
  if (is_owner && lane.unflushed) {
    flush(lane);
  }
  return finished - with_callback;
}

/// The rest of a transfer, or the same once more: in the same lane by its owner; by anybody else,
/// and where the lane is full, through the reaper.
void Service::Impl::resubmit(iow_request& request, Lane& lane, bool is_owner) noexcept {
  Journey& journey = journey_of(request);
  if (is_owner && lane.backend()->submit(journey.operation) == engine::Submitted::queued) {
    lane.unflushed = true;
    return;
  }
  pumped_unfinished_.fetch_add(1, std::memory_order_relaxed);
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
    lane.callbacks().push(request);
  } else {
    journey.event.complete();  // last: the request may be gone now
  }
}

void Service::Impl::end_activity(iow_request& request) noexcept {
  Journey& journey = journey_of(request);
  if (journey.counted) {
    journey.counted = false;
    RequestList start;
    governor_.end_activity(governor_.device_of(request.flow), start);
    post_all(start);
  }
}

void Service::Impl::ended(iow_request& request, Pump& pump) noexcept {
  const Advance step = advance(request, journey_of(request).operation.result);
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
  bool have_workers = true;
  {
    const std::lock_guard guard(lanes_lock_);
    std::string why;
    have_workers = workers_.start(why) == 0;
    pumps_started_.fetch_or(have_workers ? 2u : 0u, std::memory_order_release);
  }
  if (have_workers) {
    workers_.post(request);
  } else {
    carry_out_inline(request);
  }
}

void Service::Impl::finish_pumped(iow_request& request) noexcept {
  Journey& journey = journey_of(request);
  journey.station.store(Station::none, std::memory_order_relaxed);
  if (journey.managed) {
    RequestList start;
    governor_.ended(request, start);
    post_all(start);  // first: the device should not wait for a callback
  } else {
    end_activity(request);
  }
  Lane* const home = journey.home;
  if (home != nullptr && request.callback != nullptr) {
    home->outstanding.fetch_sub(1, std::memory_order_relaxed);
    home->hand_back(request);
  } else if (request.callback != nullptr) {
    run_callback(request);
  } else {
    journey.event.complete();  // the request may be gone now
    if (home != nullptr) {
      home->outstanding.fetch_sub(1, std::memory_order_relaxed);
      home->note_end_elsewhere();
    }
  }
  if (pumped_unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    futex_wake(pumped_unfinished_);  // pairs with close()
  }
}

/// Owner: runs the callbacks collected so far, which may submit, wait and poll themselves. How many
/// were collected in the lane (those that came back from a pump are counted as ends elsewhere).
unsigned Service::Impl::run_callbacks(Lane& lane) noexcept {
  RequestList ready;
  if (lane.try_lead()) {
    std::swap(ready, lane.callbacks());
    lane.stop_leading();
  }
  unsigned run = 0;
  for (; !ready.empty(); ++run) {
    run_callback(ready.pop());
  }
  lane.take_returned(ready);
  while (!ready.empty()) {
    run_callback(ready.pop());
  }
  return run;
}

// ---- Waiting
// -----------------------------------------------------------------------------------------

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
  while (!journey.event.done()) {
    if (deadline.passed()) {
      return -ETIME;
    }
    Lane* const lane = journey.lane.load(std::memory_order_acquire);
    if (own != nullptr && own->unflushed && lane != own) {
      flush(*own);
    }
    if (lane == nullptr) {
      journey.event.sleep(deadline.left_ns());
    } else if (!lane->try_lead()) {
      lane->follow(deadline.left_ns());
    } else {
      // Only a leader ends a request or sends it elsewhere, so as leader this holds still.
      if (!journey.event.done() && journey.lane.load(std::memory_order_acquire) == lane) {
        lead_once(*lane, 1, deadline.left_ns(), lane == own);
      }
      lane->stop_leading();
      if (lane == own) {
        run_callbacks(*lane);
      }
    }
  }
  return 0;
}

int Service::Impl::poll(unsigned min, const Deadline& deadline) noexcept {
  Lane* const lane = ours() ? local_lane(id_) : nullptr;
  if (lane == nullptr) {
    return 0;  // this thread never submitted anything
  }
  unsigned ended = run_callbacks(*lane) + lane->take_ends_elsewhere();
  while (true) {
    const uint32_t outstanding = lane->outstanding.load(std::memory_order_relaxed);
    ended += await(*lane, ended >= min ? 0 : std::min(min - ended, outstanding), deadline);
    ended += run_callbacks(*lane) + lane->take_ends_elsewhere();
    if (ended >= min || lane->outstanding.load(std::memory_order_relaxed) == 0 ||
        deadline.passed()) {
      return static_cast<int>(ended);
    }
  }
}

/// Owner: collects what has ended, and sleeps for `want` ends if they are not there. How many
/// ended here without a callback.
unsigned Service::Impl::await(Lane& lane, unsigned want, const Deadline& deadline) noexcept {
  const Lane::OwnerSleep sleep(lane, want > 0);
  if (lane.news_from_elsewhere()) {
    want = 0;
  }
  const int64_t patience = want == 0 ? 0 : deadline.left_ns();
  if (lane.backend() == nullptr) {
    lane.sleep_until_end_elsewhere(patience);
    return 0;
  }
  if (lane.try_lead()) {
    const unsigned ended = lead_once(lane, want, patience, true);
    lane.stop_leading();
    return ended;
  }
  if (want > 0) {
    lane.follow(patience);
  }
  return 0;
}

int Service::Impl::cancel(iow_request& request) noexcept {
  Journey& journey = journey_of(request);
  if (!ours() || journey.event.done() || journey.event.idle()) {
    return -EALREADY;
  }
  journey.cancel_wanted.store(true, std::memory_order_relaxed);
  RequestList start;
  if (journey.station.load(std::memory_order_relaxed) == Station::held &&
      governor_.withdraw(request, start)) {
    post_all(start);
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
  const uint32_t started = pumps_started_.load(std::memory_order_acquire);
  const bool given_up = ((started & 1u) != 0 && reaper_.cancel(journey.operation) == 0) ||
                        ((started & 2u) != 0 && workers_.cancel(journey.operation) == 0);
  return given_up ? 0 : -EALREADY;
}

// ---- Blocking calls
// --------------------------------------------------------------------------------

int64_t Service::Impl::transfer(engine::Op op, int fd, void* buffer, uint64_t bytes,
                                int64_t offset) noexcept {
  if (offset < 0) {
    return -EINVAL;  // iow_request's "current position" is not part of these calls
  }
  iow_request request{};
  request.op = static_cast<uint8_t>(op);
  request.fd = fd;
  request.buffer = buffer;
  request.bytes = bytes;
  request.offset = offset;
  new (request.internal) Journey{};
  if (const int error = begin_journey(request); error != 0) {
    return error;
  }
  const bool counted = governor_.begin_activity(0);
  while (advance(request, perform_inline(journey_of(request).operation)).step == Step::again) {
  }
  if (counted) {
    RequestList start;
    governor_.end_activity(0, start);
    post_all(start);
  }
  if (op != engine::Op::fsync && op != engine::Op::fdatasync) {
    blocking_bytes_.add(op == engine::Op::read || op == engine::Op::readv, request.result);
  }
  return request.result;
}

// ---- Lanes
// -------------------------------------------------------------------------------------------

Lane* Service::Impl::lane_of_this_thread() noexcept {
  Lane* const lane = local_lane(id_);
  return lane != nullptr ? lane : make_lane();
}

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
  while (lane.outstanding.load(std::memory_order_relaxed) != 0) {
    await(lane, 1, Deadline(-1));
    run_callbacks(lane);
    static_cast<void>(lane.take_ends_elsewhere());
  }
  run_callbacks(lane);
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
  for (Lane* lane = all_lanes_.load(std::memory_order_acquire); lane != nullptr;
       lane = lane->next) {
    drain(*lane);
  }
  while (const uint32_t unfinished = pumped_unfinished_.load(std::memory_order_acquire)) {
    futex_wait(pumped_unfinished_, unfinished);
  }
  reaper_.stop();  // both before either is destroyed: each may be about to wake the other
  workers_.stop();
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
}

void Service::Impl::statistics(iow_stats& sum) const noexcept {
  uint64_t submitted = 0;
  for (const Lane* lane = all_lanes_.load(std::memory_order_acquire); lane != nullptr;
       lane = lane->next) {
    submitted += lane->submitted.load(std::memory_order_relaxed);
    sum.fallbacks += lane->fallbacks.load(std::memory_order_relaxed);
    lane->counters.add_to(sum);
    ++sum.lanes;
  }
  sum.submitted = submitted;
  sum.lanes += static_cast<uint32_t>(__builtin_popcount(pumps_started_.load()));
  reaper_.counters.add_to(sum);
  workers_.counters.add_to(sum);
  inline_counters_.add_to(sum);
  blocking_bytes_.add_to(sum);
  sum.held = governor_.held();
}

// ---- Service
// -----------------------------------------------------------------------------------------

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
    static_cast<void>(engine::open_lane(wanted, error, why));
    return nullptr;
  }
  auto impl = std::make_unique<Impl>(best, options.open_lane,
                                     std::string(engine::lane_name(best.kind, best.mode)), why);
  error = impl->enlist();
  if (error != 0) {
    why = "too many services are open in this process";
    return nullptr;
  }
  return std::unique_ptr<Service>(new Service(std::move(impl)));
}

std::string_view Service::engine_name() const noexcept {
  return impl_->engine_name_;
}
const std::string& Service::fallback_reason() const noexcept {
  return impl_->why_;
}

int Service::submit(std::span<iow_request* const> requests) noexcept {
  return impl_->submit(requests);
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

int64_t Service::transfer(engine::Op op, int fd, void* buffer, uint64_t bytes,
                          int64_t offset) noexcept {
  return impl_->transfer(op, fd, buffer, bytes, offset);
}

engine::FixedTable& Service::fixed() noexcept {
  return impl_->fixed_;
}

int64_t Service::add_device(const policy::DeviceConfig& config, std::string& why) {
  return impl_->governor_.add_device(config, why);
}
int64_t Service::add_flow(const policy::FlowConfig& config, std::string& why) {
  return impl_->governor_.add_flow(config, why);
}

bool Service::foreground_begin(policy::DeviceId device) noexcept {
  return impl_->governor_.begin_activity(device);
}
void Service::foreground_end(policy::DeviceId device) noexcept {
  RequestList start;
  impl_->governor_.end_activity(device, start);
  impl_->post_all(start);
}

void Service::statistics(iow_stats& stats) const noexcept {
  impl_->statistics(stats);
}

}  // namespace ioweave::service
