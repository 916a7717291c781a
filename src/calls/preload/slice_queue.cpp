#include "calls/preload/slice_queue.hpp"

#include <algorithm>
#include <cerrno>
#include <variant>

#include "base/clock.hpp"
#include "calls/preload/process.hpp"

namespace ioweave::calls {
namespace {

constexpr policy::NodeId kThisNode = 0;

}  // namespace

Slice* SliceQueue::free_slice() noexcept {
  const auto found = std::find_if(slices_.begin(), slices_.end(), [](const Slice& slice) {
    return slice.stage == Slice::Stage::free;
  });
  return found != slices_.end() ? &*found : nullptr;
}

bool SliceQueue::idle() const noexcept {
  return std::all_of(slices_.begin(), slices_.end(),
                     [](const Slice& slice) { return slice.stage == Slice::Stage::free; });
}

SliceQueue::KnownDevice* SliceQueue::known(Device& device, std::string& why) {
  for (KnownDevice& each : devices_) {
    if (each.device == &device) {
      return &each;
    }
  }
  policy::DeviceConfig config;
  config.name = "device" + std::to_string(devices_.size());
  config.scheduling = scheduling_;
  const int64_t id = policy_.add_device(config, why);
  if (id < 0) {
    return nullptr;
  }
  policy::FlowConfig prefetch;
  prefetch.name = "prefetch";
  prefetch.device = static_cast<policy::DeviceId>(id);
  prefetch.priority = policy::Class::prefetch;
  prefetch.max_in_flight = kInFlight;
  const int64_t flow = policy_.add_flow(prefetch, why);
  if (flow < 0) {
    return nullptr;
  }
  devices_.push_back(
      {&device, static_cast<policy::DeviceId>(id), static_cast<policy::FlowId>(flow)});
  return &devices_.back();
}

bool SliceQueue::submit(Slice& slice, std::string& why) {
  KnownDevice* const device = known(*slice.device, why);
  if (device == nullptr || !slice.stream->begin_slice()) {
    return false;
  }
  slice.stage = Slice::Stage::held;
  // From here on the program counts its calls; those it is in now end uncounted.
  uint32_t unwatched = 0;
  slice.device->prefetching.compare_exchange_strong(unwatched, Device::kWatch,
                                                    std::memory_order_relaxed);
  tell_activity(*device);
  tell(policy::Ready{id_of(slice), device->flow, kThisNode, slice.range.bytes});
  return true;
}

void SliceQueue::withdraw(Slice& slice) {
  if (slice.stage == Slice::Stage::held) {
    end(slice, -ECANCELED);
    tell(policy::Cancelled{id_of(slice)});
  }
}

/// What the policy is told before an event that could start something.
void SliceQueue::tell_activity(KnownDevice& device) {
  const uint32_t calls = device.device->foreground.load(std::memory_order_seq_cst);
  if (calls != device.told) {
    device.told = calls;
    tell(policy::Activity{device.id, kThisNode, policy::Class::foreground, calls});
  }
}

/// And carries out what follows.
void SliceQueue::tell(const policy::Event& event) {
  policy_.on(event, now_ns(), decisions_);
  for (const policy::Decision& decision : decisions_) {
    if (const auto* const go = std::get_if<policy::Start>(&decision); go != nullptr) {
      start(slices_[go->operation]);
    }
  }
  decisions_.clear();
}

void SliceQueue::start(Slice& slice) {
  slice.disturbed = slice.device->foreground.load(std::memory_order_relaxed) != 0;
  slice.begin_ticks = now_ticks();
  slice.stage = Slice::Stage::flying;
  clock_.begin(slice.begin_ticks);
  slice.result = engine::begin_prefetch(
      slice.fd, static_cast<int64_t>(slice.range.offset), slice.range.bytes,
      slice.device->read_ahead_bytes.load(std::memory_order_relaxed), cancelled_, slice.way);
  slice.missing = slice.way.missing;
  flying_.push_back(&slice);
}

bool SliceQueue::await_oldest() {
  if (flying_.empty()) {
    return false;
  }
  Slice& slice = *flying_.front();
  int64_t result = slice.result;
  if (result == 0) {
    // What was there already needs no look at its pages.
    result = slice.missing ? engine::await_prefetch(slice.way, cancelled_)
                           : slice.way.end - slice.way.begin;
  }
  const auto concurrency =
      static_cast<uint32_t>(std::count_if(flying_.begin(), flying_.end(), [&](const Slice* other) {
        return other->device == slice.device;
      }));
  flying_.erase(flying_.begin());
  end(slice, result);
  clock_.end(slice.end_ticks);
  for (KnownDevice& device : devices_) {
    if (device.device == slice.device) {
      tell_activity(device);
    }
  }
  if (result >= 0) {
    const double ticks_per_second = static_cast<double>(process.ticks_per_us()) * 1e6;
    tell(policy::Finished{
        id_of(slice), static_cast<double>(slice.end_ticks - slice.begin_ticks) / ticks_per_second,
        static_cast<uint64_t>(result), concurrency});
  } else {
    tell(policy::Failed{id_of(slice)});
  }
  return true;
}

void SliceQueue::end(Slice& slice, int64_t result) {
  slice.result = result;
  slice.end_ticks = now_ticks();
  slice.stage = Slice::Stage::ended;
  slice.stream->end_slice();
}

bool SliceQueue::watch_for_quiet() {
  bool gone = false;
  for (KnownDevice& device : devices_) {
    if (policy_.waiting(device.id, policy::Class::prefetch) == 0) {
      uint32_t wake_at_end = Device::kWakeAtEnd;
      device.device->prefetching.compare_exchange_strong(wake_at_end, Device::kWatch,
                                                         std::memory_order_relaxed);
      continue;
    }
    device.device->prefetching.store(Device::kWakeAtEnd, std::memory_order_seq_cst);
    // Looked at after asking for the wake: the call has ended by now, or its end will wake us.
    if (device.device->foreground.load(std::memory_order_seq_cst) == 0) {
      device.device->prefetching.store(Device::kWatch, std::memory_order_relaxed);
      tell_activity(device);
      gone = gone || !flying_.empty();
    }
  }
  return gone;
}

void SliceQueue::rest() noexcept {
  for (KnownDevice& device : devices_) {
    device.device->prefetching.store(0, std::memory_order_relaxed);
  }
}

// ---- PrefetchClock ------------------------------------------------------------------------------

void PrefetchClock::set(uint64_t before, uint64_t since) noexcept {
  version_.fetch_add(1, std::memory_order_acq_rel);
  before_.store(before, std::memory_order_release);
  since_.store(since, std::memory_order_release);
  version_.fetch_add(1, std::memory_order_release);  // pairs with busy()
}

void PrefetchClock::begin(uint64_t now) noexcept {
  if (in_flight_++ == 0) {
    set(before_.load(std::memory_order_relaxed), now);
  }
}

void PrefetchClock::end(uint64_t now) noexcept {
  if (--in_flight_ == 0) {
    const uint64_t since = since_.load(std::memory_order_relaxed);
    set(before_.load(std::memory_order_relaxed) + (now > since ? now - since : 0), 0);
  }
}

uint64_t PrefetchClock::busy(uint64_t now) const noexcept {
  // A writer that is interrupted half-way costs the reader a slightly wrong figure, not a wait.
  constexpr int kTries = 4;
  uint64_t before = 0;
  uint64_t since = 0;
  for (int i = 0; i < kTries; ++i) {
    const uint32_t version = version_.load(std::memory_order_acquire);
    // Acquire keeps the second look at the version behind these; they pair with set().
    before = before_.load(std::memory_order_acquire);
    since = since_.load(std::memory_order_acquire);
    if (version % 2 == 0 && version_.load(std::memory_order_relaxed) == version) {
      break;
    }
  }
  return before + (since != 0 && now > since ? now - since : 0);
}

}  // namespace ioweave::calls
