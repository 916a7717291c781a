#include "device.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <vector>

#include "base/clock.hpp"
#include "runtime.hpp"
#include "statistics.hpp"

namespace tiom {
namespace {

constexpr uint64_t kMostProbeBytes = uint64_t{256} << 20;
constexpr size_t kMostLatencies = 100'000;
constexpr double kWarmUpSeconds = 0.2;

void check(int64_t result, const char* what) {
  if (result < 0) {
    throw std::runtime_error(std::string("measuring the device: ") + what + ": " +
                             std::strerror(static_cast<int>(-result)));
  }
}

/// Keeps requests in flight for a time, then lets them end. One thread.
class Probe {
 public:
  Probe(iow_service* service, const ProbeSettings& settings, const BlockOrder& order)
      : service_(service),
        settings_(settings),
        order_(order),
        buffers_(settings.depth, settings.block_bytes),
        slots_(settings.depth) {}

  ~Probe() {
    // The kernel must not write into buffers that are gone.
    stopping_ = true;
    while (in_flight_ > 0 && iow_poll(service_, 1, -1) >= 0) continue;
  }

  ProbeFigures run() {
    for (size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].probe = this;
      slots_[i].buffer = buffers_.at(i);
      submit(slots_[i]);
    }
    // What a device banked while it was idle (throttled ones do, and write caches) is spent first.
    static_cast<void>(run_for(kWarmUpSeconds));
    latencies_us_.clear();
    const auto [completed, seconds] = run_for(settings_.seconds);
    stopping_ = true;
    while (in_flight_ > 0) step();
    check(error_, "a transfer failed");
    const double bytes =
        static_cast<double>(completed) * static_cast<double>(settings_.block_bytes);
    return {settings_.depth, bytes / 1e6 / seconds, median(latencies_us_)};
  }

 private:
  struct Slot {
    iow_request request{};
    Probe* probe = nullptr;
    std::byte* buffer = nullptr;
    uint64_t submitted_ns = 0;
  };

  struct Window {
    uint64_t completed;
    double seconds;
  };

  /// For so long, and until every place in the queue had its turn on a slow device.
  Window run_for(double seconds) {
    const uint64_t start_ns = ioweave::now_ns();
    const uint64_t end_ns = start_ns + static_cast<uint64_t>(seconds * 1e9);
    const uint64_t before = completed_;
    while (ioweave::now_ns() < end_ns || completed_ - before < slots_.size()) step();
    return {completed_ - before, static_cast<double>(ioweave::now_ns() - start_ns) / 1e9};
  }

  void step() {
    check(iow_poll(service_, 1, -1), "iow_poll");
    check(error_, "a transfer failed");
  }

  void submit(Slot& slot) {
    const uint64_t block = order_.block(next_++);
    slot.request = request_of({settings_.fd, settings_.write, slot.buffer, settings_.block_bytes,
                               static_cast<off_t>(block * settings_.block_bytes)});
    slot.request.flags = IOW_CALLBACK_ON_POLL;
    slot.request.user = &slot;
    slot.request.callback = [](iow_request*, void* user) {
      Slot& done = *static_cast<Slot*>(user);
      done.probe->completed(done);
    };
    slot.submitted_ns = ioweave::now_ns();
    iow_request* request = &slot.request;
    const int taken = iow_submit(service_, &request, 1);
    if (taken == 1) {
      ++in_flight_;
    } else {
      error_ = taken < 0 ? taken : -EAGAIN;
    }
  }

  void completed(Slot& slot) {
    --in_flight_;
    if (slot.request.result < 0) error_ = slot.request.result;
    ++completed_;
    if (latencies_us_.size() < kMostLatencies) {
      latencies_us_.push_back(static_cast<double>(ioweave::now_ns() - slot.submitted_ns) / 1e3);
    }
    if (!stopping_ && error_ == 0) submit(slot);
  }

  iow_service* service_;
  const ProbeSettings settings_;
  const BlockOrder& order_;
  Buffers buffers_;
  std::vector<Slot> slots_;
  std::vector<double> latencies_us_;
  uint64_t next_ = 0;
  uint64_t completed_ = 0;
  size_t in_flight_ = 0;
  int64_t error_ = 0;
  bool stopping_ = false;
};

double processor_seconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

}  // namespace

ProbeFigures probe_device(iow_service* service, const ProbeSettings& settings,
                          const BlockOrder& order) {
  return Probe(service, settings, order).run();
}

unsigned bound_probe_depth(uint64_t block_bytes) {
  return static_cast<unsigned>(std::clamp<uint64_t>(kMostProbeBytes / block_bytes, 1, 32));
}

double probe_overhead_us(iow_service* service) {
  constexpr unsigned kRounds = 500;
  constexpr unsigned kBatch = 32;
  // Static: the last callback may still be notifying when the waiter has seen the zero.
  static std::atomic<unsigned> left{0};
  std::vector<iow_request> requests(kBatch);
  const double before = processor_seconds();
  for (unsigned round = 0; round < kRounds; ++round) {
    left = kBatch;
    for (iow_request& request : requests) {
      request = {};
      request.callback = [](iow_request*, void*) {
        if (left.fetch_sub(1) == 1) left.notify_one();
      };
      iow_request* one = &request;
      const int taken = iow_submit(service, &one, 1);
      if (taken != 1) {
        check(taken < 0 ? taken : -EAGAIN, "iow_submit");
      }
    }
    for (unsigned now = left; now != 0; now = left) left.wait(now);
  }
  return (processor_seconds() - before) * 1e6 / (kRounds * kBatch);
}

}  // namespace tiom
