#include "calls/preload/prefetcher.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "base/signals_masked.hpp"
#include "calls/preload/process.hpp"
#include "calls/preload/real.hpp"
#include "calls/preload/residency.hpp"
#include "calls/preload/signal_context.hpp"
#include "calls/stream/slice_sizer.hpp"
#include "service/service.hpp"

namespace ioweave::calls {

constinit Prefetcher prefetcher;

namespace {

/// Without work for so long the thread ends: see the header. It starts again in 0.1 ms.
constexpr int64_t kLingerNs = 100'000'000;
constexpr int64_t kMostStopWaitNs = 1'000'000'000;
constexpr size_t kStackBytes = 256 << 10;
constexpr size_t kSlices = 8;
constexpr uint32_t kSlicesPerStream = 4;
/// Enough to keep a device busy between two looks of the policy, and no more: what is in flight
/// when the program enters a call of its own delays that call.
constexpr uint32_t kSlicesInFlight = 2;
constexpr uint32_t kFirstSleepCalls = 64;
constexpr uint32_t kMostSleepCalls = 1u << 16;
constexpr uint64_t kLeastNotifyBytes = 256u << 10;
constexpr uint64_t kMostNotifyBytes = 8u << 20;
constexpr uint64_t kBudgetRefreshNs = 1'000'000'000;
constexpr uint64_t kMemoryShare = 4;  // at most a quarter of what is available

// Device::prefetching
constexpr uint32_t kWatch = 1;
constexpr uint32_t kWakeAtEnd = 2;

uint64_t available_memory_bytes() {
  char text[512];
  const int fd = real::open("/proc/meminfo", O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) {
    return 0;
  }
  const ssize_t length = real::read(fd, text, sizeof text - 1);
  real::close(fd);
  text[length > 0 ? length : 0] = '\0';
  const char* const line = strstr(text, "MemAvailable:");
  return line != nullptr ? std::strtoull(line + strlen("MemAvailable:"), nullptr, 10) << 10 : 0;
}

void add(std::atomic<uint64_t>& counter, uint64_t amount) noexcept {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

}  // namespace

/// One slice on its way through the service.
struct Prefetcher::Slice {
  iow_request request{};
  Prefetcher* owner = nullptr;
  Stream* stream = nullptr;
  stats::FileRecord* record = nullptr;
  const Device* device = nullptr;
  uint32_t generation = 0;
  Range range;
  uint64_t begin_ticks = 0;
  bool disturbed = false;  ///< the program was at work on the device when it was submitted
  std::atomic<uint64_t> end_ticks{0};  ///< set by the service's thread: the request has ended
  bool taken = false;
};

/// A stream that has shown reads worth a plan.
struct Prefetcher::Followed {
  Followed(Stream& which, const PlannerLimits& limits, LookaheadBudget& budget)
      : stream(&which), generation(which.generation()), planner(limits, budget) {}

  Stream* stream;
  uint32_t generation;
  PrefetchPlanner planner;
  uint32_t slices = 0;
  uint32_t sleep_calls = kFirstSleepCalls;
  uint64_t used_bytes_told = 0;

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

/// A device as the service knows it.
struct Prefetcher::DeviceFlow {
  Device* device;
  policy::DeviceId id;
  uint32_t flow;
};

/// What was learnt of a device; outlives services.
struct Prefetcher::DeviceSizer {
  const Device* device;
  SliceSizer sizer;
};

struct Prefetcher::State {
  LookaheadBudget budget{0};
  PlannerLimits limits;
  std::vector<std::unique_ptr<Followed>> followed;  // by stream number
  std::array<Slice, kSlices> slices;
  std::unique_ptr<service::Service> service;
  std::vector<DeviceFlow> flows;  // of the present service
  std::vector<DeviceSizer> sizers;
  uint64_t budget_refreshed_ns = 0;
  size_t turn = 0;

  [[nodiscard]] SliceSizer& sizer_of(const Device& device) {
    for (DeviceSizer& known : sizers) {
      if (known.device == &device) {
        return known.sizer;
      }
    }
    return sizers.emplace_back(&device, SliceSizer(limits.slice_bytes)).sizer;
  }
  [[nodiscard]] Slice* free_slice() {
    for (Slice& slice : slices) {
      if (!slice.taken) {
        return &slice;
      }
    }
    return nullptr;
  }
  [[nodiscard]] bool idle() const {
    for (const Slice& slice : slices) {
      if (slice.taken) {
        return false;
      }
    }
    return true;
  }
};

// ---- The program's threads ----------------------------------------------------------------------

void Prefetcher::wake() noexcept {
  notify();
  if (phase_.load(std::memory_order_acquire) == kIdle) {
    start();
  }
}

/// Also from the service's threads. The word changes before we look whether anybody sleeps on it:
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
  uint32_t idle = kIdle;
  if (stopping_.load(std::memory_order_relaxed) != 0 || may_be_in_signal_handler() ||
      !phase_.compare_exchange_strong(idle, kRunning, std::memory_order_acq_rel)) {
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

void Prefetcher::foreground_begin(Device& device) noexcept {
  if (device.foreground.fetch_add(1, std::memory_order_seq_cst) == 0) {
    device.busy_before.store(clock_.busy(now_ticks()), std::memory_order_relaxed);
  }
}

void Prefetcher::foreground_end(Device& device) noexcept {
  const uint64_t busy_before = device.busy_before.load(std::memory_order_relaxed);
  // seq_cst against relay_foreground(): either it sees zero, or we see that it wants to be woken.
  if (device.foreground.fetch_sub(1, std::memory_order_seq_cst) != 1) {
    return;
  }
  const uint64_t busy = clock_.busy(now_ticks());
  if (stats::Segment* const segment = process.segment(); segment != nullptr && busy > busy_before) {
    add(segment->prefetch_exposed_ticks, busy - busy_before);
  }
  if (device.prefetching.load(std::memory_order_seq_cst) == kWakeAtEnd) {
    notify();
  }
}

void Prefetcher::stop() noexcept {
  stopping_.store(1, std::memory_order_seq_cst);
  notify();
  const Deadline deadline(kMostStopWaitNs);
  while (running() && !deadline.passed()) {
    futex_wait(phase_, kRunning, deadline.left_ns());
  }
}

void Prefetcher::became_child() noexcept {
  ring_.reset();
  state_ = nullptr;  // the parent's: its service is not ours to end, its memory stays
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
    state_ = new State;
    const stats::RunConfig& config = process.config();
    state_->limits = {std::max<uint64_t>(config.slice_bytes, 4096), config.lookahead_bytes};
    state_->followed.resize(StreamPool::kStreams);
  }
  if (!open_service()) {
    phase_.store(kFailed, std::memory_order_release);
    return;
  }
  while (true) {
    const uint32_t seen = wakes_.load(std::memory_order_seq_cst);
    drain_ring();
    collect_slices();
    fill_windows();
    for (const DeviceFlow& flow : state_->flows) {
      relay_foreground(flow);  // last: it must see what the policy holds back when we sleep
    }
    sleeping_.store(1, std::memory_order_seq_cst);
    futex_wait(wakes_, seen, kLingerNs);
    sleeping_.store(0, std::memory_order_relaxed);
    const bool nothing_new = wakes_.load(std::memory_order_seq_cst) == seen;
    const bool stop = stopping_.load(std::memory_order_seq_cst) != 0;
    if ((nothing_new || stop) && state_->idle() && retire(seen)) {
      return;
    }
  }
}

/// Ends the service and hands the state to whoever starts next. False where somebody has woken us
/// meanwhile and nobody else has started.
bool Prefetcher::retire(uint32_t seen) {
  close_service();
  phase_.store(kIdle, std::memory_order_seq_cst);  // pairs with running() and start()
  if (stopping_.load(std::memory_order_seq_cst) != 0) {
    futex_wake(phase_);
    return true;
  }
  uint32_t idle = kIdle;
  if (wakes_.load(std::memory_order_seq_cst) == seen ||
      !phase_.compare_exchange_strong(idle, kRunning, std::memory_order_acq_rel)) {
    return true;
  }
  if (open_service()) {
    return false;
  }
  phase_.store(kFailed, std::memory_order_release);
  return true;
}

bool Prefetcher::open_service() {
  int error = 0;
  std::string why;
  state_->service = service::Service::open(
      {.engine = engine::Kind::threads, .queue_depth = 2 * kSlices, .threads = kSlicesInFlight},
      error, why);
  if (state_->service == nullptr) {
    process.explain(why.c_str());
    return false;
  }
  process.name_engine("threads");
  return true;
}

void Prefetcher::close_service() {
  for (DeviceFlow& flow : state_->flows) {
    flow.device->prefetching.store(0, std::memory_order_relaxed);
  }
  state_->flows.clear();
  state_->service.reset();
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
    cancel_slices_of(streams.at(observation.stream));
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
  if (planner.verdict() != PrefetchPlanner::Verdict::watching) {
    undo_degrade(*followed->stream->record, stats::Degrade::no_gain);
    undo_degrade(*followed->stream->record, stats::Degrade::random_access);
    planner.rearm();
  }
  const Range read{observation.offset, observation.bytes};
  planner.observe(read, observation.slow);
  for (Slice& slice : state_->slices) {
    const bool covered = slice.range.offset < read.end() && read.offset < slice.range.end();
    if (slice.taken && slice.stream == followed->stream && covered) {
      (void)state_->service->cancel(slice.request);  // the program has just done it itself
    }
  }
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
  if (verdict == PrefetchPlanner::Verdict::watching) {
    stream.notify_every(
        std::clamp(followed.planner.window_bytes() / 8, kLeastNotifyBytes, kMostNotifyBytes));
    return;
  }
  const bool cached = verdict == PrefetchPlanner::Verdict::no_gain;
  degrade(*stream.record, cached ? stats::Degrade::no_gain : stats::Degrade::random_access);
  if (cached) {
    stream.unfollow();
  }
  stream.sleep(cached ? Stream::Gate::asleep_until_slow : Stream::Gate::asleep,
               followed.sleep_calls);
  followed.sleep_calls = std::min(followed.sleep_calls * 2, kMostSleepCalls);
}

// ---- Slices -------------------------------------------------------------------------------------

void Prefetcher::fill_windows() {
  if (stopping_.load(std::memory_order_relaxed) != 0) {
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
  Slice* const slice = state_->free_slice();
  if (slice == nullptr) {
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
  if (is_resident(followed.stream->fd, range->offset, range->bytes)) {
    followed.planner.completed(*range, PrefetchPlanner::Outcome::cached);
    judge(followed);
    return true;
  }
  return submit(followed, *range, *slice);
}

bool Prefetcher::submit(Followed& followed, Range range, Slice& slice) {
  DeviceFlow* const flow = flow_of(*followed.stream->device);
  if (flow == nullptr || !followed.stream->begin_slice()) {
    followed.planner.completed(range, PrefetchPlanner::Outcome::failed);
    followed.planner.forget();
    return false;
  }
  slice.request = {};
  slice.request.op = IOW_OP_PREFETCH;
  slice.request.fd = followed.stream->fd;
  slice.request.flow = flow->flow;
  slice.request.bytes = range.bytes;
  slice.request.offset = static_cast<int64_t>(range.offset);
  slice.request.callback = &Prefetcher::slice_ended;
  slice.request.user = &slice;
  slice.owner = this;
  slice.stream = followed.stream;
  slice.record = followed.stream->record;
  slice.device = followed.stream->device;
  slice.generation = followed.generation;
  slice.range = range;
  slice.begin_ticks = now_ticks();
  slice.disturbed = flow->device->foreground.load(std::memory_order_relaxed) != 0;
  slice.end_ticks.store(0, std::memory_order_relaxed);
  slice.taken = true;
  ++followed.slices;
  clock_.begin(slice.begin_ticks);
  iow_request* const request = &slice.request;
  if (state_->service->submit({&request, 1}) != 1) {
    slice.request.result = -EIO;
    slice_ended(&slice.request, &slice);
  }
  return true;
}

/// On the service's thread.
void Prefetcher::slice_ended(iow_request* /*request*/, void* user) {
  Slice& slice = *static_cast<Slice*>(user);
  Prefetcher& owner = *slice.owner;
  slice.stream->end_slice();
  // Release pairs with collect_slices(), which may reuse the slice from here on.
  slice.end_ticks.store(now_ticks(), std::memory_order_release);
  owner.notify();
}

void Prefetcher::collect_slices() {
  stats::Segment* const segment = process.segment();
  for (Slice& slice : state_->slices) {
    const uint64_t end_ticks = slice.end_ticks.load(std::memory_order_acquire);
    if (!slice.taken || end_ticks == 0) {
      continue;
    }
    slice.taken = false;
    clock_.end(end_ticks);
    const int64_t result = slice.request.result;
    if (result > 0) {
      add(slice.record->prefetched_bytes, static_cast<uint64_t>(result));
      add(slice.record->prefetch_ticks, end_ticks - slice.begin_ticks);
      add(segment->prefetch_operations, 1);
      segment->prefetch_busy_ticks.store(clock_.busy(now_ticks()), std::memory_order_relaxed);
      if (!slice.disturbed && slice.device->foreground.load(std::memory_order_relaxed) == 0) {
        state_->sizer_of(*slice.device)
            .completed(static_cast<uint64_t>(result),
                       static_cast<double>(end_ticks - slice.begin_ticks) /
                           (static_cast<double>(process.ticks_per_us()) * 1e6));
      }
    }
    for (std::unique_ptr<Followed>& followed : state_->followed) {
      if (followed != nullptr && followed->stream == slice.stream &&
          followed->generation == slice.generation) {
        --followed->slices;
        followed->planner.completed(slice.range, result > 0 ? PrefetchPlanner::Outcome::fetched
                                                            : PrefetchPlanner::Outcome::failed);
      }
    }
  }
}

void Prefetcher::cancel_slices_of(const Stream& stream) {
  for (Slice& slice : state_->slices) {
    if (slice.taken && slice.stream == &stream) {
      (void)state_->service->cancel(slice.request);  // it ends in any case
    }
  }
}

// ---- Devices and memory -------------------------------------------------------------------------

Prefetcher::DeviceFlow* Prefetcher::flow_of(Device& device) {
  for (DeviceFlow& known : state_->flows) {
    if (known.device == &device) {
      return &known;
    }
  }
  std::string why;
  const int64_t id = state_->service->add_device(
      {.name = "device" + std::to_string(state_->flows.size()),
       .scheduling = static_cast<policy::Scheduling>(process.config().scheduling)},
      why);
  if (id < 0) {
    process.explain(why.c_str());
    return nullptr;
  }
  const int64_t flow = state_->service->add_flow({.name = "prefetch",
                                                  .device = static_cast<policy::DeviceId>(id),
                                                  .priority = policy::Class::prefetch,
                                                  .constraint = {},
                                                  .max_in_flight = kSlicesInFlight},
                                                 why);
  if (flow < 0) {
    process.explain(why.c_str());
    return nullptr;
  }
  state_->service->watch_foreground(static_cast<policy::DeviceId>(id), device.foreground);
  device.prefetching.store(kWatch, std::memory_order_relaxed);
  state_->flows.push_back(
      {&device, static_cast<policy::DeviceId>(id), static_cast<uint32_t>(flow)});
  return &state_->flows.back();
}

/// The policy looks at the program's count itself before it lets a slice go; what it held back
/// goes on from here, as foreground_end() is not allowed the lock that this takes.
void Prefetcher::relay_foreground(const DeviceFlow& flow) {
  Device& device = *flow.device;
  device.prefetching.store(kWakeAtEnd, std::memory_order_seq_cst);
  // Looked at after asking for the wake: it has ended by now, or its end will wake us.
  if (device.foreground.load(std::memory_order_seq_cst) == 0) {
    device.prefetching.store(kWatch, std::memory_order_relaxed);
    state_->service->foreground_may_have_ceased(flow.id);
  }
}

void Prefetcher::refresh_budget() {
  const uint64_t now = now_ns();
  if (state_->budget_refreshed_ns != 0 && now - state_->budget_refreshed_ns < kBudgetRefreshNs) {
    return;
  }
  state_->budget_refreshed_ns = now;
  state_->budget.set_limit(std::min<uint64_t>(process.config().max_lookahead_bytes,
                                              available_memory_bytes() / kMemoryShare));
}

}  // namespace ioweave::calls
