#pragma once

// What must hold of any policy, kept the slow and obvious way: every question is answered by a
// look at all operations. It hears the same events and checks each decision against the rules in
// policy/policy.hpp. It does not know who *should* go next among those who may.

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "policy/limiter.hpp"
#include "policy/policy.hpp"

namespace ioweave::policy::testing_support {

class Model {
 public:
  struct Known {
    FlowId flow;
    NodeId node;  ///< kAnyNode until placed
    bool running;
    uint64_t arrival;
  };

  std::vector<DeviceConfig> devices;
  std::vector<FlowConfig> flows;
  std::set<NodeId> up{0};
  std::map<OperationId, Known> operations;

  void hear(const Event& event) {
    std::visit([this](const auto& of) { apply(of); }, event);
  }

  /// Before the start is applied: may it happen?
  void start(const Start& decision) {
    const auto found = operations.find(decision.operation);
    ASSERT_NE(found, operations.end()) << "started an operation that is not there";
    Known& operation = found->second;
    ASSERT_FALSE(operation.running) << "started twice";
    ASSERT_EQ(up.count(decision.node), 1u) << "started on a node that is down";
    ASSERT_TRUE(operation.node == kAnyNode || operation.node == decision.node)
        << "started elsewhere";
    ASSERT_EQ(reason_to_wait(decision.operation, decision.node), "")
        << "operation " << decision.operation << " was started on node " << decision.node;
    operation.running = true;
    operation.node = decision.node;
  }

  /// Why this waiting operation may not start on this node; empty where it may.
  [[nodiscard]] std::string reason_to_wait(OperationId id, NodeId node) const {
    const Known& operation = operations.at(id);
    const FlowConfig& flow = flows[operation.flow];
    const DeviceConfig& device = devices[flow.device];
    uint64_t in_scope = 0;
    uint64_t of_flow = 0;
    int64_t held = hold(operation);
    for (const auto& [other_id, other] : operations) {
      const FlowConfig& other_flow = flows[other.flow];
      const bool same_scope =
          other_flow.device == flow.device &&
          (device.scope == Scope::shared || other.node == kAnyNode || other.node == node);
      const bool higher = same_scope && device.scheduling == Scheduling::strict &&
                          other_flow.priority < flow.priority;
      if (other.running && same_scope) {
        ++in_scope;
        held += hold(other);
        of_flow += other.flow == operation.flow && other.node == node ? 1 : 0;
      }
      if (higher) {
        return "a higher class runs or waits";
      }
      if (!other.running && other.flow == operation.flow && other.node == operation.node &&
          other.arrival < operation.arrival) {
        return "an earlier one of its flow waits";
      }
    }
    if (device.max_in_flight != 0 && in_scope >= device.max_in_flight) {
      return "the device is at its max_in_flight";
    }
    if (flow.max_in_flight != 0 && of_flow >= flow.max_in_flight) {
      return "the flow is at its max_in_flight";
    }
    if (device.budget_mb_per_s != 0 && hold(operation) > 0 &&
        held > budget_bytes_per_s(device.budget_mb_per_s)) {
      return "the budget is held";
    }
    return higher_active(flow, node) ? "a higher class is active" : "";
  }

  [[nodiscard]] uint64_t count(bool running) const {
    uint64_t count = 0;
    for (const auto& [id, operation] : operations) {
      count += operation.running == running ? 1 : 0;
    }
    return count;
  }

  [[nodiscard]] uint64_t waiting(DeviceId device, Class priority) const {
    uint64_t count = 0;
    for (const auto& [id, operation] : operations) {
      const FlowConfig& flow = flows[operation.flow];
      count += !operation.running && flow.device == device && flow.priority == priority ? 1 : 0;
    }
    return count;
  }

  /// Nothing of its device and class or above runs or is active where it could run.
  [[nodiscard]] bool nothing_in_the_way(OperationId id, NodeId node) const {
    const FlowConfig& flow = flows[operations.at(id).flow];
    const bool everywhere = devices[flow.device].scope == Scope::shared;
    for (const auto& [other_id, other] : operations) {
      if (other_id != id && flows[other.flow].device == flow.device &&
          (everywhere || other.node == node || other.node == kAnyNode)) {
        if (other.running || flows[other.flow].priority < flow.priority) {
          return false;
        }
      }
    }
    return !higher_active(flow, node);
  }

 private:
  using Active = std::tuple<DeviceId, NodeId, Class>;

  [[nodiscard]] int64_t hold(const Known& operation) const {
    const Constraint& constraint = flows[operation.flow].constraint;
    return constraint.kind == Constraint::Kind::fixed ? constraint_bytes_per_s(constraint.mb_per_s)
                                                      : 0;
  }

  [[nodiscard]] bool higher_active(const FlowConfig& flow, NodeId node) const {
    const DeviceConfig& device = devices[flow.device];
    if (device.scheduling != Scheduling::strict) {
      return false;
    }
    for (const auto& [where, in_flight] : active_) {
      const auto& [on, at, priority] = where;
      if (in_flight != 0 && on == flow.device && priority < flow.priority &&
          (device.scope == Scope::shared || at == node)) {
        return true;
      }
    }
    return false;
  }

  void apply(const Ready& event) {
    const bool is_new =
        operations.emplace(event.operation, Known{event.flow, event.node, false, arrivals_++})
            .second;
    ASSERT_TRUE(is_new);
  }
  void apply(const Started&) {}
  void apply(const Finished& event) { operations.erase(event.operation); }
  void apply(const Failed& event) { operations.erase(event.operation); }
  void apply(const Cancelled& event) { operations.erase(event.operation); }
  void apply(const Sample&) {}
  void apply(const Activity& event) {
    active_[{event.device, event.node, event.priority}] = event.in_flight;
  }
  void apply(const NodeUp& event) { up.insert(event.node); }
  void apply(const NodeDown& event) {
    up.erase(event.node);
    std::erase_if(operations, [&](const auto& entry) { return entry.second.node == event.node; });
    std::erase_if(active_,
                  [&](const auto& entry) { return std::get<1>(entry.first) == event.node; });
  }
  void apply(const Tick&) {}

  std::map<Active, uint32_t> active_;
  uint64_t arrivals_ = 0;
};

}  // namespace ioweave::policy::testing_support
