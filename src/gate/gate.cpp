#include "gate/gate.hpp"

#include <cerrno>
#include <utility>

#include "base/assert.hpp"

namespace ioweave::gate {
namespace {

constexpr policy::NodeId kThisNode = 0;
constexpr uint64_t kSamplePeriodNs = 1'000'000'000;

}  // namespace

Gate::Gate(policy::Recorder::Sink log) {
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
  IOW_ASSERT(device == 0 && flow == 0 && may_skip_policy(0));
}

// ---- Configuration

int64_t Gate::add_device(const policy::DeviceConfig& config, std::string& why, bool is_measured) {
  const std::lock_guard guard(lock_);
  if (devices_known_ == kMaxDevices) {
    why = "a service has at most " + std::to_string(kMaxDevices) + " devices";
    return -EINVAL;
  }
  const int64_t id =
      recorder_ ? recorder_->add_device(config, why) : policy_.add_device(config, why);
  if (id >= 0) {
    devices_[devices_known_++].is_measured = is_measured;
  }
  return id;
}

int64_t Gate::add_flow(const policy::FlowConfig& config, std::string& why) {
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
  flows_[known].limit = policy_.explain(known).limit;  // the policy reports only changes
  refresh_skipping_flows();
  flows_known_.store(known + 1, std::memory_order_release);  // pairs with knows()
  if (config.priority != policy::Class::foreground &&
      policy_.device(config.device).scheduling != policy::Scheduling::none) {
    devices_[config.device].tracked.store(true, std::memory_order_relaxed);
  }
  return id;
}

int64_t Gate::device_like(const policy::DeviceConfig& config, std::string& why) {
  {
    const std::lock_guard guard(lock_);
    for (uint32_t id = 0; id < devices_known_; ++id) {
      if (policy_.device(id) == config) {
        return id;
      }
    }
  }
  return add_device(config, why);
}

int64_t Gate::flow_like(const policy::FlowConfig& config, std::string& why) {
  {
    const std::lock_guard guard(lock_);
    for (uint32_t id = 0; id < flows_known_.load(std::memory_order_relaxed); ++id) {
      if (policy_.flow(id) == config) {
        return id;
      }
    }
  }
  return add_flow(config, why);
}

/// A new flow may stand above older ones, which then have to ask.
void Gate::refresh_skipping_flows() {
  const uint32_t known = flows_known_.load(std::memory_order_relaxed) + 1;
  for (uint32_t id = 0; id < known; ++id) {
    flows_[id].skips_policy.store(policy_.unconstrained(id), std::memory_order_relaxed);
  }
}

policy::Explanation Gate::explain(policy::FlowId flow) {
  const std::lock_guard guard(lock_);
  return policy_.explain(flow);
}

std::string Gate::learned(policy::FlowId flow) {
  const std::lock_guard guard(lock_);
  return policy_.learned(flow);
}

FlowState Gate::state_of(policy::FlowId flow) {
  const std::lock_guard guard(lock_);
  return {policy_.flow_counts(flow), flows_[flow].moved_bytes, flows_[flow].limit};
}

// ---- Operations

bool Gate::admit(const Asking& asking, OperationId& id) {
  Starting starting;
  bool may_start = false;
  {
    const std::lock_guard guard(lock_);
    const uint64_t now = this->now();
    Entry& entry = add_entry(asking);
    id = entry.id;
    begin_samples(entry.device, now);
    asking_ = &entry;
    tell(policy::Ready{entry.id, asking.flow, kThisNode, asking.bytes}, entry.device, now,
         starting);
    asking_ = nullptr;
    may_start = entry.started;
    if (!may_start) {
      held_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  start_all(starting);
  return may_start;
}

/// Everything that grows with the number of operations grows here, before anybody else knows of the
/// new one.
Gate::Entry& Gate::add_entry(const Asking& asking) {
  entries_.reserve_one();
  operations_.reserve_one();
  policy_.reserve_operation();
  Entry& entry = *entries_.acquire();
  entry.id = next_id_++;
  entry.executor = &asking.executor;
  entry.operation = asking.operation;
  entry.flow = asking.flow;
  entry.device = device_of(asking.flow);
  const bool is_new = operations_.insert(entry.id, &entry);
  IOW_ASSERT(is_new);
  return entry;
}

void Gate::ended(OperationId id, int64_t result) {
  Starting starting;
  {
    const std::lock_guard guard(lock_);
    const uint64_t now = this->now();
    Entry* const entry = operations_.find(id);
    IOW_ASSERT(entry != nullptr && entry->started);
    const policy::DeviceId device = entry->device;
    policy::Event event = policy::Failed{id};
    if (result >= 0) {
      const auto bytes = static_cast<uint64_t>(result);
      devices_[device].moved_bytes += bytes;
      flows_[entry->flow].moved_bytes += bytes;
      event = policy::Finished{id, static_cast<double>(now - entry->start_ns) * 1e-9, bytes};
    }
    forget(*entry);
    tell(event, device, now, starting);
    if (!devices_[device].is_measured) {
      sample_ends(device, now, starting);
    }
  }
  start_all(starting);
}

bool Gate::withdraw(const OperationId& id) {
  Starting starting;
  bool withdrawn = false;
  {
    const std::lock_guard guard(lock_);
    const uint64_t now = this->now();
    if (Entry* const entry = operations_.find(id)) {
      // What has ceased meanwhile comes first: it may start this very operation.
      const policy::DeviceId device = entry->device;
      tell_activity(device, now);
      carry_out(now, starting);
      withdrawn = !entry->started;
      if (withdrawn) {
        forget(*entry);
        // Not by tell(): activity that ceases just now would start what is given up here.
        hear(policy::Cancelled{id}, now);
        settle(device, now, starting);
      }
    }
  }
  start_all(starting);
  return withdrawn;
}

/// Forgets an entry. The caller tells the policy.
void Gate::forget(Entry& entry) {
  operations_.erase(entry.id);
  entries_.release(&entry);
}

/// What an executor sets off may let others start: those wait until it has returned, or a chain of
/// operations that end in their start would be a chain of calls as long.
void Gate::start_all(Starting& starting) noexcept {
  static thread_local constinit Starting* outermost = nullptr;
  if (starting.first == nullptr) {
    return;
  }
  if (outermost != nullptr) {
    outermost->append(starting);
    return;
  }
  outermost = &starting;
  while (Entry* const entry = starting.first) {
    starting.first = entry->next;
    entry->executor->start(entry->operation);  // Once told, it may end and be forgotten.
  }
  outermost = nullptr;
}

// ---- The policy

void Gate::activity_ceased(policy::DeviceId device) noexcept {
  Starting starting;
  {
    const std::lock_guard guard(lock_);
    const uint64_t now = this->now();
    tell_activity(device, now);
    settle(device, now, starting);
  }
  start_all(starting);
}

void Gate::tell(const policy::Event& event, policy::DeviceId device, uint64_t now,
                Starting& starting) {
  tell_activity(device, now);
  carry_out(now, starting);
  hear(event, now);
  settle(device, now, starting);
}

/// Carries out what was decided and publishes whether lower classes wait, until the fast path and
/// the policy agree.
void Gate::settle(policy::DeviceId device, uint64_t now, Starting& starting) {
  Device& known = devices_[device];
  while (true) {
    carry_out(now, starting);
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

void Gate::tell_activity(policy::DeviceId device, uint64_t now) {
  Device& known = devices_[device];
  const uint32_t now_in_flight = known.in_flight.load(std::memory_order_seq_cst);
  if (now_in_flight != known.told) {
    known.told = now_in_flight;
    hear(policy::Activity{device, kThisNode, policy::Class::foreground, now_in_flight}, now);
  }
}

void Gate::carry_out(uint64_t now, Starting& starting) {
  // Started is an event too and may add decisions: index, not iterator.
  for (size_t i = 0; i < decisions_.size(); ++i) {
    if (const auto* decision = std::get_if<policy::Start>(&decisions_[i]); decision != nullptr) {
      Entry& entry = *operations_.find(decision->operation);
      entry.start_ns = now;
      entry.started = true;
      if (&entry != asking_) {
        starting.push(entry);
      }
      hear(policy::Started{entry.id}, now);
    } else if (const auto* change = std::get_if<policy::SetLimit>(&decisions_[i])) {
      flows_[change->flow].limit = change->limit;
    }
  }
  decisions_.clear();
}

// ---- Samples

/// Before an operation becomes ready: where nothing waits or runs that needs samples, the time
/// until now is not sampled.
void Gate::begin_samples(policy::DeviceId device, uint64_t now) {
  if (!policy_.needs_samples(device)) {
    devices_[device].sampled_ns = now;
    devices_[device].moved_bytes = 0;
  }
}

bool Gate::needs_samples(policy::DeviceId device) {
  const std::lock_guard guard(lock_);
  return policy_.needs_samples(device);
}

bool Gate::sample(policy::DeviceId device, double bytes_per_second, double seconds) {
  Starting starting;
  {
    const std::lock_guard guard(lock_);
    if (device >= devices_known_ || !devices_[device].is_measured) {
      return false;
    }
    tell(policy::Sample{device, kThisNode, bytes_per_second, seconds}, device, now(), starting);
  }
  start_all(starting);
  return true;
}

/// After an operation has ended: takes the throughput from what operations moved.
void Gate::sample_ends(policy::DeviceId device, uint64_t now, Starting& starting) {
  Device& known = devices_[device];
  const uint64_t passed_ns = now - known.sampled_ns;
  const double period_ns = policy::sample_part(known.samples) * kSamplePeriodNs;
  if (static_cast<double>(passed_ns) < period_ns || !policy_.needs_samples(device)) {
    return;
  }
  const double seconds = static_cast<double>(passed_ns) * 1e-9;
  const double bytes = static_cast<double>(std::exchange(known.moved_bytes, 0));
  known.sampled_ns = now;
  ++known.samples;
  tell(policy::Sample{device, kThisNode, bytes / seconds, seconds}, device, now, starting);
}

}  // namespace ioweave::gate
