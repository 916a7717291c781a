#pragma once

// A policy in virtual time: each call is one event, one microsecond after the last, and returns
// what was started. Operations are numbered by the test.

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string>
#include <unordered_set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/policy.hpp"

namespace ioweave::policy {

inline void PrintTo(const Start& start, std::ostream* out) {
  *out << "start " << start.operation << " on " << start.node;
}

namespace testing_support {

inline DeviceConfig device(Scheduling scheduling = Scheduling::none) {
  DeviceConfig config;
  config.name = "disk";
  config.scheduling = scheduling;
  return config;
}

inline DeviceConfig device_with_budget(double mb_per_s, Scheduling scheduling = Scheduling::none) {
  DeviceConfig config = device(scheduling);
  config.budget_mb_per_s = mb_per_s;
  return config;
}

inline DeviceConfig device_with_slots(uint32_t slots, Scheduling scheduling = Scheduling::none) {
  DeviceConfig config = device(scheduling);
  config.max_in_flight = slots;
  return config;
}

inline DeviceConfig shared(DeviceConfig config) {
  config.scope = Scope::shared;
  return config;
}

inline DeviceConfig on_some_nodes(DeviceConfig config) {
  config.everywhere = false;
  return config;
}

inline Constraint fixed(double mb_per_s) {
  return {Constraint::Kind::fixed, mb_per_s};
}

using Starts = std::vector<Start>;
using Ids = std::vector<OperationId>;

inline Ids ids(const Starts& starts) {
  Ids result;
  std::transform(starts.begin(), starts.end(), std::back_inserter(result),
                 [](const Start& start) { return start.operation; });
  return result;
}

class VirtualTime {
 public:
  DeviceId add(const DeviceConfig& config) {
    std::string why;
    const int64_t id = policy.add_device(config, why);
    EXPECT_GE(id, 0) << why;
    return static_cast<DeviceId>(id);
  }

  FlowId add(const FlowConfig& config) {
    std::string why;
    const int64_t id = policy.add_flow(config, why);
    EXPECT_GE(id, 0) << why;
    return static_cast<FlowId>(id);
  }

  /// A flow of the last device.
  FlowId flow(Class priority = Class::foreground, Constraint constraint = {},
              uint32_t max_in_flight = 0) {
    return add(FlowConfig{"flow", static_cast<DeviceId>(policy.devices() - 1), priority, constraint,
                          max_in_flight});
  }

  Starts ready(OperationId id, FlowId of, NodeId node = 0, uint64_t bytes = 4096) {
    return tell(Ready{id, of, node, bytes});
  }
  Starts ready_anywhere(OperationId id, FlowId of) { return ready(id, of, kAnyNode); }
  Starts finished(OperationId id) { return tell(Finished{id, 1e-3, 4096}); }
  Starts cancelled(OperationId id) { return tell(Cancelled{id}); }
  Starts active(uint32_t in_flight, Class priority = Class::foreground, NodeId node = 0,
                DeviceId device = 0) {
    return tell(Activity{device, node, priority, in_flight});
  }
  Starts up(NodeId node) { return tell(NodeUp{node}); }
  Starts down(NodeId node) { return tell(NodeDown{node}); }
  Starts device_up(NodeId node, DeviceId device = 0) { return tell(DeviceUp{device, node}); }

  void pass(uint64_t seconds) { pass_ms(seconds * 1000); }
  void pass_ms(uint64_t ms) { now_ns_ += ms * 1'000'000; }

  Starts tell(const Event& event) {
    std::string why;
    EXPECT_TRUE(policy.accepts(event, now_ns_ + 1000, why)) << why;
    decisions_.clear();
    policy.on(event, now_ns_ += 1000, decisions_);
    Starts starts;
    limits.clear();
    for (const Decision& decision : decisions_) {
      if (const auto* const limit = std::get_if<SetLimit>(&decision)) {
        limits.push_back(*limit);
      } else {
        starts.push_back(std::get<Start>(decision));
        started_.insert(starts.back().operation);
      }
    }
    return starts;
  }

  /// Whether it ever was.
  [[nodiscard]] bool started(OperationId id) const { return started_.count(id) != 0; }

  Policy policy;
  std::vector<SetLimit> limits;  ///< by the last event

 private:
  std::unordered_set<OperationId> started_;
  uint64_t now_ns_ = 0;
  std::vector<Decision> decisions_;
};

}  // namespace testing_support
}  // namespace ioweave::policy
