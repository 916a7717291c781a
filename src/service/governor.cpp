#include "service/governor.hpp"

#include <cerrno>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"

namespace ioweave::service {
namespace {

constexpr policy::NodeId kThisNode = 0;

policy::OperationId id_of(iow_request& request) noexcept {
  return reinterpret_cast<uintptr_t>(&request);
}

iow_request& request_with(policy::OperationId id) noexcept {
  return *reinterpret_cast<iow_request*>(static_cast<uintptr_t>(id));
}

}  // namespace

Governor::Governor(policy::Recorder::Sink log) {
  if (log) {
    recorder_.emplace(policy_, std::move(log));
  }
  std::string why;
  policy::DeviceConfig default_device;
  default_device.name = "default";
  default_device.scheduling = policy::Scheduling::strict;
  policy::FlowConfig foreground;
  foreground.name = "foreground";
  const int64_t device = add_device(default_device, why);
  const int64_t flow = add_flow(foreground, why);
  IOW_ASSERT(device == 0 && flow == 0 && direct(0));
}

int64_t Governor::add_device(const policy::DeviceConfig& config, std::string& why) {
  const std::lock_guard guard(lock_);
  if (devices_known_ == kMaxDevices) {
    why = "a service has at most " + std::to_string(kMaxDevices) + " devices";
    return -EINVAL;
  }
  const int64_t id =
      recorder_ ? recorder_->add_device(config, why) : policy_.add_device(config, why);
  if (id >= 0) {
    ++devices_known_;
  }
  return id;
}

int64_t Governor::add_flow(const policy::FlowConfig& config, std::string& why) {
  const std::lock_guard guard(lock_);
  const uint32_t known = flows_known_.load(std::memory_order_relaxed);
  if (known == kMaxFlows) {
    why = "a service has at most " + std::to_string(kMaxFlows) + " flows";
    return -EINVAL;
  }
  const int64_t id = recorder_ ? recorder_->add_flow(config, why) : policy_.add_flow(config, why);
  if (id < 0) {
    return id;
  }
  flows_[known].device = config.device;
  refresh_direct_flows();
  flows_known_.store(known + 1, std::memory_order_release);  // pairs with knows()
  if (config.priority != policy::Class::foreground &&
      policy_.device(config.device).scheduling != policy::Scheduling::none) {
    devices_[config.device].tracked.store(true, std::memory_order_relaxed);
  }
  return id;
}

/// A new flow may stand above older ones, which then have to ask.
void Governor::refresh_direct_flows() {
  const uint32_t known = flows_known_.load(std::memory_order_relaxed) + 1;
  for (uint32_t id = 0; id < known; ++id) {
    flows_[id].direct.store(policy_.unconstrained(id), std::memory_order_relaxed);
  }
}

void Governor::ready(iow_request& request, RequestList& start) {
  Journey& journey = journey_of(request);
  journey.managed = true;
  const std::lock_guard guard(lock_);
  journey.station.store(Station::held, std::memory_order_relaxed);
  tell(policy::Ready{id_of(request), request.flow, kThisNode, journey.total_bytes},
       device_of(request.flow), now_ns(), start);
  if (journey.station.load(std::memory_order_relaxed) == Station::held) {
    held_.fetch_add(1, std::memory_order_relaxed);
  }
}

void Governor::ended(iow_request& request, RequestList& start) {
  const Journey& journey = journey_of(request);
  const std::lock_guard guard(lock_);
  const uint64_t now = now_ns();
  policy::Event event = policy::Failed{id_of(request)};
  if (request.result >= 0) {
    event = policy::Finished{id_of(request), static_cast<double>(now - journey.start_ns) * 1e-9,
                             static_cast<uint64_t>(request.result)};
  }
  tell(event, device_of(request.flow), now, start);
}

bool Governor::withdraw(iow_request& request, RequestList& start) {
  const std::lock_guard guard(lock_);
  const uint64_t now = now_ns();
  Journey& journey = journey_of(request);
  // What has ceased meanwhile comes first: it may start this very request.
  tell_activity(device_of(request.flow), now);
  carry_out(now, start);
  if (journey.station.load(std::memory_order_relaxed) != Station::held) {
    return false;
  }
  journey.station.store(Station::none, std::memory_order_relaxed);
  journey.managed = false;
  // Not by tell(): activity that ceases just now would start the request that is given up here.
  hear(policy::Cancelled{id_of(request)}, now);
  settle(device_of(request.flow), now, start);
  return true;
}

void Governor::activity_ceased(policy::DeviceId device, RequestList& start) noexcept {
  const std::lock_guard guard(lock_);
  const uint64_t now = now_ns();
  tell_activity(device, now);
  settle(device, now, start);
}

void Governor::tell(const policy::Event& event, policy::DeviceId device, uint64_t now,
                    RequestList& start) {
  tell_activity(device, now);
  carry_out(now, start);
  hear(event, now);
  settle(device, now, start);
}

/// Carries out what was decided and publishes whether lower classes wait, until the fast path and
/// the policy agree.
void Governor::settle(policy::DeviceId device, uint64_t now, RequestList& start) {
  Device& known = devices_[device];
  while (true) {
    carry_out(now, start);
    const bool waiting = policy_.waiting(device, policy::Class::write_behind) +
                             policy_.waiting(device, policy::Class::prefetch) >
                         0;
    known.lower_waiting.store(waiting, std::memory_order_seq_cst);
    if (!waiting || known.told == 0 || known.in_flight.load(std::memory_order_seq_cst) != 0) {
      return;
    }
    tell_activity(device, now);  // it ceased meanwhile, and saw nobody waiting
  }
}

void Governor::tell_activity(policy::DeviceId device, uint64_t now) {
  Device& known = devices_[device];
  const uint32_t now_in_flight = known.in_flight.load(std::memory_order_seq_cst);
  if (now_in_flight != known.told) {
    known.told = now_in_flight;
    hear(policy::Activity{device, kThisNode, policy::Class::foreground, now_in_flight}, now);
  }
}

void Governor::carry_out(uint64_t now, RequestList& start) {
  // Started is an event too and may add decisions: index, not iterator.
  for (size_t i = 0; i < decisions_.size(); ++i) {
    if (const auto* decision = std::get_if<policy::Start>(&decisions_[i]); decision != nullptr) {
      const policy::OperationId id = decision->operation;
      iow_request& request = request_with(id);
      Journey& journey = journey_of(request);
      journey.start_ns = now;
      journey.station.store(Station::posted, std::memory_order_relaxed);
      start.push(request);
      hear(policy::Started{id}, now);
    }
  }
  decisions_.clear();
}

}  // namespace ioweave::service
