#pragma once

// What must hold of any policy, kept the slow and obvious way: every question is answered by a
// look at all operations. It hears the same events and checks each decision against the rules in
// policy/policy.hpp. It does not know who *should* go next among those who may.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "policy/climb.hpp"
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
    int64_t held = 0;  ///< while it runs
  };

  std::vector<DeviceConfig> devices;
  std::vector<FlowConfig> flows;
  std::set<NodeId> up{0};
  std::set<std::pair<DeviceId, NodeId>> told;  ///< by DeviceUp
  std::map<OperationId, Known> operations;

  void add(const FlowConfig& flow, const Explanation& explanation) {
    flows.push_back(flow);
    tuning_.push_back(explanation);
  }

  /// What the policy says of its flows after an event, before what it started: constraints that are
  /// found under way are its own affair, but it has to keep to them.
  void tune(const Policy& policy) {
    for (FlowId flow = 0; flow < flows.size(); ++flow) {
      if (adapts(flow)) {
        tuning_[flow] = policy.explain(flow);
      }
    }
    for (auto& [id, operation] : operations) {
      if (operation.running && flows[operation.flow].constraint.kind == Constraint::Kind::climb) {
        operation.held = std::min(operation.held, need(operation.flow));
      }
    }
  }

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
    ASSERT_TRUE(has(decision.node, flows[operation.flow].device))
        << "started on a node without the device";
    ASSERT_TRUE(operation.node == kAnyNode || operation.node == decision.node)
        << "started elsewhere";
    ASSERT_EQ(reason_to_wait(decision.operation, decision.node), "")
        << "operation " << decision.operation << " was started on node " << decision.node;
    operation.running = true;
    operation.node = decision.node;
    operation.held = need(operation.flow);
  }

  /// The node, which is up, has the device.
  [[nodiscard]] bool has(NodeId node, DeviceId device) const {
    return devices[device].everywhere || told.count({device, node}) != 0;
  }

  [[nodiscard]] std::set<NodeId> nodes_with(DeviceId device) const {
    std::set<NodeId> nodes = up;
    std::erase_if(nodes, [&](NodeId node) { return !has(node, device); });
    return nodes;
  }

  /// Why this waiting operation may not start on this node; empty where it may.
  [[nodiscard]] std::string reason_to_wait(OperationId id, NodeId node) const {
    const Known& operation = operations.at(id);
    const FlowConfig& flow = flows[operation.flow];
    const DeviceConfig& device = devices[flow.device];
    uint64_t in_scope = 0;
    uint64_t of_flow = 0;
    int64_t held = need(operation.flow);
    if (!has(node, flow.device)) {
      return "the node does not have the device";
    }
    if (kept_out(operation.flow, node)) {
      return "the node is a learning flow's own";
    }
    if (operation.node == kAnyNode &&
        tuning_[operation.flow].learning_node.value_or(node) != node) {
      return "it waits for its learning node";
    }
    for (const auto& [other_id, other] : operations) {
      const FlowConfig& other_flow = flows[other.flow];
      const bool same_scope =
          other_flow.device == flow.device &&
          (device.scope == Scope::shared || other.node == kAnyNode || other.node == node);
      const bool higher = same_scope && device.scheduling == Scheduling::strict &&
                          other_flow.priority < flow.priority &&
                          (other.running || !held_back(other, node));
      if (other.running && same_scope) {
        ++in_scope;
        held += other.held;
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
    if (of_flow >= most_at_once(operation.flow)) {
      return "the flow is at its limit";
    }
    if (need(operation.flow) > 0 && held > budget(device)) {
      return "the budget is held";
    }
    return higher_active(flow, node) ? "a higher class is active" : "";
  }

  /// This waiting operation may not start on this node before what its flow, or another one, learns
  /// in an epoch has ended.
  [[nodiscard]] bool held_back(const Known& operation, NodeId node) const {
    const Explanation& tuning = tuning_[operation.flow];
    const bool shared_device = devices[flows[operation.flow].device].scope == Scope::shared;
    const bool home = tuning.learning_node.value_or(node) == node;
    return (tuning.epoch_full && (home || shared_device)) ||
           (operation.node == kAnyNode && !home) || kept_out(operation.flow, node);
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

  [[nodiscard]] bool adapts(FlowId flow) const {
    return flows[flow].constraint.kind > Constraint::Kind::fixed;
  }

  /// What one more operation of the flow would hold, in bytes per second.
  [[nodiscard]] int64_t need(FlowId flow) const {
    const Constraint& constraint = flows[flow].constraint;
    const DeviceConfig& device = devices[flows[flow].device];
    switch (constraint.kind) {
      case Constraint::Kind::none:
        return 0;
      case Constraint::Kind::fixed:
        return device.budget_mb_per_s == 0 ? 0 : constraint_bytes_per_s(constraint.mb_per_s);
      case Constraint::Kind::climb:
        return device.budget_mb_per_s == 0
                   ? ClimbConstraint::kNominalBudget / tuning_[flow].limit
                   : std::llround(tuning_[flow].constraint_mb_per_s * kBytesPerMb);
      default:
        return constraint_bytes_per_s(tuning_[flow].constraint_mb_per_s);
    }
  }

  [[nodiscard]] static int64_t budget(const DeviceConfig& device) {
    return device.budget_mb_per_s == 0 ? ClimbConstraint::kNominalBudget
                                       : budget_bytes_per_s(device.budget_mb_per_s);
  }

  [[nodiscard]] uint64_t most_at_once(FlowId flow) const {
    const uint64_t configured = policy::most_at_once(flows[flow].max_in_flight);
    return flows[flow].constraint.kind == Constraint::Kind::climb ? tuning_[flow].limit
                                                                  : configured;
  }

  /// Another flow has this node of the device to itself.
  [[nodiscard]] bool kept_out(FlowId flow, NodeId node) const {
    const FlowConfig& config = flows[flow];
    const DeviceConfig& device = devices[config.device];
    const bool free =
        need(flow) == 0 && device.max_in_flight == 0 && config.max_in_flight == 0 &&
        (device.scheduling != Scheduling::strict || config.priority == Class::foreground);
    for (FlowId other = 0; other < flows.size(); ++other) {
      if (other != flow && flows[other].device == config.device &&
          tuning_[other].keeps_others_out && tuning_[other].learning_node == node && !free &&
          !(device.scheduling == Scheduling::strict && config.priority < flows[other].priority)) {
        return true;
      }
    }
    return false;
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
    std::erase_if(told, [&](const auto& entry) { return entry.second == event.node; });
  }
  void apply(const DeviceUp& event) { told.emplace(event.device, event.node); }

  std::map<Active, uint32_t> active_;
  std::vector<Explanation> tuning_;  ///< by flow
  uint64_t arrivals_ = 0;
};

}  // namespace ioweave::policy::testing_support
