#include "calls/preload/prefetcher.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "base/signals_masked.hpp"
#include "calls/preload/engine_calls.hpp"
#include "calls/preload/process.hpp"
#include "calls/preload/signal_context.hpp"
#include "calls/stream/read_ahead_judge.hpp"
#include "calls/stream/slice_sizer.hpp"
#include "engine/available_memory.hpp"

namespace ioweave::calls {

constinit Prefetcher prefetcher;

namespace {

/// Without work for so long the thread ends: see the header. It starts again in 0.1 ms.
constexpr int64_t kLingerNs = 100'000'000;
constexpr int64_t kMostStopWaitNs = 1'000'000'000;
constexpr size_t kStackBytes = 256 << 10;
constexpr uint32_t kSlicesPerStream = 4;
constexpr uint32_t kFirstSleepCalls = 64;
constexpr uint32_t kMostSleepCalls = 1u << 16;
constexpr uint32_t kMostSleepCallsBesideKernel = 256;
constexpr uint64_t kLeastNotifyBytes = 256u << 10;
constexpr uint64_t kMostNotifyBytes = 8u << 20;
constexpr uint64_t kJudgeUs = 50'000;  // time in which a program shows how much it waits
constexpr uint64_t kMemoryMeasuredNs = 1'000'000'000;  // ago: measured again
constexpr uint64_t kMemoryShare = 4;                   // at most a quarter of what is available

void add(std::atomic<uint64_t>& counter, uint64_t amount) noexcept {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

}  // namespace

/// A stream that has shown reads worth a plan.
struct Prefetcher::Followed {
  Followed(Stream& which, const PlannerLimits& limits, LookaheadBudget& budget)
      : stream(&which), generation(which.generation()), planner(limits, budget) {}

  Stream* stream;
  uint32_t generation;
  PrefetchPlanner planner;
  ReadAheadJudge read_ahead;
  uint32_t slices = 0;
  uint32_t sleep_calls = kFirstSleepCalls;
  uint64_t used_bytes_told = 0;

  void look_at_read_ahead() {
    const stats::CallCounters& reads =
        stream->record->call[static_cast<unsigned>(stats::CallClass::read)];
    read_ahead.look({reads.calls.value(), reads.bytes.value(), reads.ticks.value()}, now_ticks(),
                    stream->device->read_ahead_bytes.load(std::memory_order_relaxed),
                    kJudgeUs * process.ticks_per_us());
  }

  /// In no hurry one slice at a time will do: less is in the way when the program's own call comes.
  [[nodiscard]] uint32_t most_slices() const {
    return planner.comfortable() ? 1 : kSlicesPerStream;
  }

  /// Whether the descriptor is still what it was when opened: it may have been closed and given
  /// out again without a wrapped call. Also learns the file's size.
  [[nodiscard]] bool valid() {
    struct stat status {};
    if (stream->generation() != generation || fstat(stream->fd, &status) != 0 ||
        !S_ISREG(status.st_mode) || status.st_dev != stream->device_id ||
        status.st_ino != stream->inode) {
      return false;
    }
    planner.resized(static_cast<uint64_t>(status.st_size));
    return true;
  }
};

/// What was learnt of a device.
struct Prefetcher::DeviceSizer {
  const Device* device;
  SliceSizer sizer;
};

struct Prefetcher::State {
  State(const stats::RunConfig& config, PrefetchClock& clock, const std::atomic<bool>& stopping)
      : limits{std::max<uint64_t>(config.slice_bytes, 4096), config.lookahead_bytes},
        followed(StreamPool::kStreams),
        slices(static_cast<policy::Scheduling>(config.scheduling), clock, stopping) {}

  LookaheadBudget budget{0};
  PlannerLimits limits;
  std::vector<std::unique_ptr<Followed>> followed;  // by stream number
  SliceQueue slices;
  std::vector<DeviceSizer> sizers;
  size_t turn = 0;

  [[nodiscard]] SliceSizer& sizer_of(const Device& device) {
    for (DeviceSizer& known : sizers) {
      if (known.device == &device) {
        return known.sizer;
      }
    }
    return sizers.emplace_back(&device, SliceSizer(limits.slice_bytes)).sizer;
  }
};

// ---- The program's threads ----------------------------------------------------------------------

void Prefetcher::wake() noexcept {
  notify();
  if (phase_.load(std::memory_order_acquire) == kIdle) {
    start();
  } else if (now_ns() - memory_measured_ns_.load(std::memory_order_relaxed) > kMemoryMeasuredNs &&
             !may_be_in_signal_handler()) {
    measure_memory();
  }
}

/// The word changes before we look whether anybody sleeps on it:
/// a sleeper we do not see has seen the change, or the kernel sees it for him.
void Prefetcher::notify() noexcept {
  wakes_.fetch_add(1, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst) != 0) {
    const int saved = errno;
    futex_wake(wakes_, 1);
    errno = saved;
  }
}

void Prefetcher::start() noexcept {
  if (stopping_.load(std::memory_order_relaxed) || may_be_in_signal_handler()) {
    return;
  }
  measure_memory();
  const SignalsHeld held;  // a handler that jumps away would leave a phase without its thread
  uint32_t idle = kIdle;
  if (!phase_.compare_exchange_strong(idle, kRunning, std::memory_order_acq_rel)) {
    return;
  }
  const int saved = errno;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread;
  int error = 0;
  {
    const SignalsMasked masked;
    error = pthread_create(&thread, &attributes, &Prefetcher::thread_main, this);
  }
  pthread_attr_destroy(&attributes);
  if (error != 0) {
    process.explain("reads are not overlapped: no thread could be started");
    phase_.store(kFailed, std::memory_order_release);
  }
  errno = saved;
}

/// On a thread of the program, in no signal handler, which opens files for it: were it the prefetch
/// thread, it would take the lowest free descriptor from a program that counts on it.
void Prefetcher::measure_memory() noexcept {
  uint64_t before = memory_measured_ns_.load(std::memory_order_relaxed);
  const uint64_t now = now_ns();
  if (before != 0 && now - before <= kMemoryMeasuredNs) {
    return;
  }
  const SignalsHeld held;
  if (!memory_measured_ns_.compare_exchange_strong(before, now, std::memory_order_relaxed)) {
    return;  // another thread does it
  }
  try {
    available_bytes_.store(engine::available_memory_bytes(), std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {
    available_bytes_.store(0, std::memory_order_relaxed);
  }
}

void Prefetcher::foreground_begin(Device& device) noexcept {
  if (device.foreground.fetch_add(1, std::memory_order_seq_cst) == 0) {
    device.busy_before.store(clock_.busy(now_ticks()), std::memory_order_relaxed);
  }
}

void Prefetcher::foreground_end(Device& device) noexcept {
  const uint64_t busy_before = device.busy_before.load(std::memory_order_relaxed);
  // seq_cst against SliceQueue::watch_for_quiet(): either it sees zero, or we see that it wants to
  // be woken.
  if (device.foreground.fetch_sub(1, std::memory_order_seq_cst) != 1) {
    return;
  }
  const uint64_t busy = clock_.busy(now_ticks());
  if (stats::Segment* const segment = process.segment(); segment != nullptr && busy > busy_before) {
    add(segment->prefetch_exposed_ticks, busy - busy_before);
  }
  if (device.prefetching.load(std::memory_order_seq_cst) == Device::kWakeAtEnd) {
    notify();
  }
}

void Prefetcher::stop() noexcept {
  stopping_.store(true, std::memory_order_seq_cst);
  notify();
  const Deadline deadline(kMostStopWaitNs);
  while (running() && !deadline.passed()) {
    futex_wait(phase_, kRunning, deadline.left_ns());
  }
}

void Prefetcher::became_child() noexcept {
  ring_.reset();
  state_ = nullptr;  // the parent's; its memory stays
  clock_.reset();
  sleeping_.store(0, std::memory_order_relaxed);
  if (phase_.load(std::memory_order_relaxed) == kRunning) {
    phase_.store(kIdle, std::memory_order_relaxed);
  }
}

// ---- The thread ---------------------------------------------------------------------------------

void* Prefetcher::thread_main(void* self) {
  pthread_setname_np(pthread_self(), "ioweave-ahead");
  try {
    static_cast<Prefetcher*>(self)->run();
  } catch (const std::bad_alloc&) {
    // The plan is lost, the program is not: nobody waits for a prefetch.
    process.explain("reads are not overlapped: out of memory");
    static_cast<Prefetcher*>(self)->phase_.store(kFailed, std::memory_order_release);
  }
  return nullptr;
}

void Prefetcher::run() {
  if (state_ == nullptr) {
    state_ = new State(process.config(), clock_, stopping_);
  }
  if (!engine_is_open()) {
    process.name_engine("page-cache prefetch");
  }
  while (true) {
    const uint32_t seen = wakes_.load(std::memory_order_seq_cst);
    drain_ring();
    collect_slices();
    fill_windows();
    if (state_->slices.await_oldest() || state_->slices.watch_for_quiet()) {
      continue;
    }
    sleeping_.store(1, std::memory_order_seq_cst);
    futex_wait(wakes_, seen, kLingerNs);
    sleeping_.store(0, std::memory_order_relaxed);
    const bool nothing_new = wakes_.load(std::memory_order_seq_cst) == seen;
    const bool stop = stopping_.load(std::memory_order_seq_cst);
    if ((nothing_new || stop) && state_->slices.idle() && retire(seen)) {
      return;
    }
  }
}

/// Hands the state to whoever starts next. False where somebody has woken us meanwhile and nobody
/// else has started.
bool Prefetcher::retire(uint32_t seen) {
  state_->slices.rest();
  phase_.store(kIdle, std::memory_order_seq_cst);  // pairs with running() and start()
  if (stopping_.load(std::memory_order_seq_cst)) {
    futex_wake(phase_);
    return true;
  }
  uint32_t idle = kIdle;
  return wakes_.load(std::memory_order_seq_cst) == seen ||
         !phase_.compare_exchange_strong(idle, kRunning, std::memory_order_acq_rel);
}

// ---- Observations -------------------------------------------------------------------------------

void Prefetcher::drain_ring() {
  Observation observation{};
  while (ring_.pop(observation)) {
    hear_one(observation);
  }
}

Prefetcher::Followed* Prefetcher::followed_of(const Observation& observation) {
  std::unique_ptr<Followed>& followed = state_->followed[observation.stream];
  Stream& stream = streams.at(observation.stream);
  if (stream.generation() != observation.generation) {
    return nullptr;  // closed since
  }
  if (followed == nullptr || followed->generation != observation.generation) {
    followed = std::make_unique<Followed>(stream, state_->limits, state_->budget);
  }
  return followed.get();
}

void Prefetcher::hear_one(const Observation& observation) {
  if (observation.kind == Observation::Kind::closed) {
    withdraw_slices(observation.stream, {0, UINT64_MAX});
    std::unique_ptr<Followed>& followed = state_->followed[observation.stream];
    if (followed != nullptr && followed->generation == observation.generation) {
      followed.reset();
    }
    return;
  }
  Followed* const followed = followed_of(observation);
  if (followed == nullptr || !followed->valid()) {
    state_->followed[observation.stream].reset();
    return;
  }
  if (observation.kind == Observation::Kind::resized) {
    return;  // valid() has seen the new size
  }
  PrefetchPlanner& planner = followed->planner;
  undo_degrade(*followed->stream->record);
  if (planner.verdict() != PrefetchPlanner::Verdict::watching) {
    planner.rearm();
  }
  followed->look_at_read_ahead();
  const Range read{observation.offset, observation.bytes};
  planner.observe(read, observation.slow);
  withdraw_slices(observation.stream, read);  // the program has just done it itself
  const uint64_t used = planner.used_bytes();
  if (used != followed->used_bytes_told) {
    add(followed->stream->record->prefetched_used_bytes, used - followed->used_bytes_told);
    followed->used_bytes_told = used;
    followed->sleep_calls = kFirstSleepCalls;
  }
  judge(*followed);
}

/// Lets the gate rest where following does not pay, longer each time.
void Prefetcher::judge(Followed& followed) {
  Stream& stream = *followed.stream;
  const PrefetchPlanner::Verdict verdict = followed.planner.verdict();
  if (verdict == PrefetchPlanner::Verdict::watching && followed.read_ahead.suffices()) {
    degrade(*stream.record, stats::Degrade::read_ahead);
    stream.notify_every(kMostNotifyBytes);
    stream.sleep(Stream::Gate::asleep, followed.sleep_calls);
    followed.sleep_calls = std::min(followed.sleep_calls * 2, kMostSleepCallsBesideKernel);
    return;
  }
  if (verdict == PrefetchPlanner::Verdict::watching) {
    stream.notify_every(
        std::clamp(followed.planner.window_bytes() / 8, kLeastNotifyBytes, kMostNotifyBytes));
    return;
  }
  const bool cached = verdict == PrefetchPlanner::Verdict::no_gain;
  if (!cached) {
    degrade(*stream.record, stats::Degrade::random_access);
  } else if (stream.record->prefetched_used_bytes.load(std::memory_order_relaxed) == 0) {
    degrade(*stream.record, stats::Degrade::no_gain);
  }
  if (cached) {
    stream.unfollow();
  }
  stream.sleep(cached ? Stream::Gate::asleep_until_slow : Stream::Gate::asleep,
               followed.sleep_calls);
  followed.sleep_calls = std::min(followed.sleep_calls * 2, kMostSleepCalls);
}

// ---- Slices -------------------------------------------------------------------------------------

void Prefetcher::fill_windows() {
  if (stopping_.load(std::memory_order_relaxed)) {
    for (Slice& slice : state_->slices.all()) {
      state_->slices.withdraw(slice);
    }
    collect_slices();
    return;
  }
  refresh_budget();
  // In turns, a slice each, so that one file does not starve the others.
  bool progress = true;
  while (progress) {
    progress = false;
    for (size_t i = 0; i < StreamPool::kStreams; ++i) {
      const size_t number = (state_->turn + i) % StreamPool::kStreams;
      std::unique_ptr<Followed>& followed = state_->followed[number];
      if (followed != nullptr && followed->slices < followed->most_slices() && advance(*followed)) {
        progress = true;
      }
    }
    ++state_->turn;
  }
}

/// Gets one slice of a file going. False where there is nothing to do or no room.
bool Prefetcher::advance(Followed& followed) {
  Slice* const slice = state_->slices.free_slice();
  if (slice == nullptr) {
    return false;
  }
  if (followed.read_ahead.suffices()) {
    return false;
  }
  const uint64_t slice_bytes = state_->sizer_of(*followed.stream->device).bytes();
  followed.planner.slices_of(followed.planner.comfortable()
                                 ? std::min(slice_bytes, SliceSizer::kLeastBytes)
                                 : slice_bytes);
  const std::optional<Range> range = followed.planner.next();
  if (!range) {
    return false;
  }
  if (!followed.valid()) {
    followed.planner.completed(*range, PrefetchPlanner::Outcome::failed);
    followed.planner.forget();
    return false;
  }
  if (engine::is_resident(followed.stream->fd, range->offset, range->bytes)) {
    followed.planner.completed(*range, PrefetchPlanner::Outcome::cached);
    judge(followed);
    return true;
  }
  return submit(followed, *range, *slice);
}

bool Prefetcher::submit(Followed& followed, Range range, Slice& slice) {
  slice.stream = followed.stream;
  slice.generation = followed.generation;
  slice.fd = followed.stream->fd;
  slice.record = followed.stream->record;
  slice.device = followed.stream->device;
  slice.range = range;
  std::string why;
  if (!state_->slices.submit(slice, why)) {
    if (!why.empty()) {
      process.explain(why.c_str());
    }
    followed.planner.completed(range, PrefetchPlanner::Outcome::failed);
    followed.planner.forget();
    return false;
  }
  ++followed.slices;
  return true;
}

void Prefetcher::collect_slices() {
  for (Slice& slice : state_->slices.all()) {
    if (slice.stage == Slice::Stage::ended) {
      slice.stage = Slice::Stage::free;
      collect(slice);
    }
  }
}

void Prefetcher::collect(Slice& slice) {
  auto outcome = PrefetchPlanner::Outcome::failed;
  if (slice.result > 0 && !slice.missing) {
    outcome = PrefetchPlanner::Outcome::cached;
  } else if (slice.result > 0) {
    outcome = PrefetchPlanner::Outcome::fetched;
    const auto bytes = static_cast<uint64_t>(slice.result);
    const uint64_t ticks = slice.end_ticks - slice.begin_ticks;
    add(slice.record->prefetched_bytes, bytes);
    add(slice.record->prefetch_ticks, ticks);
    stats::Segment* const segment = process.segment();
    add(segment->prefetch_operations, 1);
    segment->prefetch_busy_ticks.store(clock_.busy(now_ticks()), std::memory_order_relaxed);
    if (!slice.disturbed && slice.device->foreground.load(std::memory_order_relaxed) == 0) {
      state_->sizer_of(*slice.device)
          .completed(bytes, static_cast<double>(ticks) /
                                (static_cast<double>(process.ticks_per_us()) * 1e6));
    }
  }
  for (std::unique_ptr<Followed>& followed : state_->followed) {
    if (followed != nullptr && followed->stream == slice.stream &&
        followed->generation == slice.generation) {
      --followed->slices;
      followed->planner.completed(slice.range, outcome);
    }
  }
}

/// Those of a stream that the policy still holds and that touch the range.
void Prefetcher::withdraw_slices(uint16_t stream, Range range) {
  for (Slice& slice : state_->slices.all()) {
    const bool touched = slice.range.offset < range.end() && range.offset < slice.range.end();
    if (slice.stream == &streams.at(stream) && touched) {
      state_->slices.withdraw(slice);
    }
  }
}

// ---- Memory -------------------------------------------------------------------------------------

void Prefetcher::refresh_budget() {
  state_->budget.set_limit(
      std::min<uint64_t>(process.config().max_lookahead_bytes,
                         available_bytes_.load(std::memory_order_relaxed) / kMemoryShare));
}

}  // namespace ioweave::calls
