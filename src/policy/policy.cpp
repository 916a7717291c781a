// Validation of configurations and events; what follows from an event is decided in scheduler.cpp.

#include "policy/policy.hpp"

#include <cerrno>
#include <charconv>
#include <cmath>

#include "base/assert.hpp"
#include "policy/scheduler.hpp"

namespace ioweave::policy {
namespace {

constexpr uint32_t kMostWeight = 10'000;

std::string text(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

int64_t refuse(std::string& why, std::string_view kind, const std::string& name,
               const std::string& reason) {
  why = std::string(kind) + " '" + name + "': " + reason;
  return -EINVAL;
}

std::string between(std::string_view setting, const std::string& bounds, const std::string& got) {
  return std::string(setting) + " must be " + bounds + ", not " + got;
}

/// Empty where it is fine. Enumerations are checked because other languages cast integers to them.
std::string problem_of(const DeviceConfig& config) {
  const double budget = config.budget_mb_per_s;
  if (budget != 0 && !(budget >= kLeastMbPerS && budget <= kMostMbPerS)) {
    return between("budget_mb_per_s",
                   "0 (unlimited) or between " + text(kLeastMbPerS) + " and " + text(kMostMbPerS),
                   text(budget));
  }
  if (config.scope != Scope::node && config.scope != Scope::shared) {
    return between("scope", "node or shared", std::to_string(static_cast<unsigned>(config.scope)));
  }
  if (config.scheduling > Scheduling::weighted) {
    return between("scheduling", "none, strict or weighted",
                   std::to_string(static_cast<unsigned>(config.scheduling)));
  }
  for (const uint32_t weight : config.weights) {
    if (weight < 1 || weight > kMostWeight) {
      return between("each of weights", "between 1 and " + std::to_string(kMostWeight),
                     std::to_string(weight));
    }
  }
  return {};
}

std::string problem_of(const FlowConfig& config, const DeviceConfig& device) {
  if (static_cast<unsigned>(config.priority) >= kClasses) {
    return between("priority", "foreground, write_behind or prefetch",
                   std::to_string(static_cast<unsigned>(config.priority)));
  }
  if (config.constraint.kind > Constraint::Kind::fixed) {
    return between("constraint", "none or fixed",
                   std::to_string(static_cast<unsigned>(config.constraint.kind)));
  }
  const double held = config.constraint.mb_per_s;
  const bool unlimited = device.budget_mb_per_s == 0;
  const double most = unlimited ? kMostMbPerS : device.budget_mb_per_s;
  if (config.constraint.kind == Constraint::Kind::fixed &&
      !(held >= kLeastMbPerS && held <= most)) {
    const std::string what =
        unlimited ? std::string() : " (the budget of device '" + device.name + "')";
    return between("the fixed constraint",
                   "between " + text(kLeastMbPerS) + " and " + text(most) + " MB/s" + what,
                   text(held));
  }
  return {};
}

}  // namespace

struct Policy::State {
  Scheduler scheduler;
  uint64_t now_ns = 0;
};

Policy::Policy() : state_(std::make_unique<State>()) {
  std::vector<Decision> none;
  state_->scheduler.node_up(0, none);
}

Policy::~Policy() = default;

int64_t Policy::add_device(const DeviceConfig& config, std::string& why) {
  if (const std::string problem = problem_of(config); !problem.empty()) {
    return refuse(why, "device", config.name, problem);
  }
  return state_->scheduler.add_device(config);
}

int64_t Policy::add_flow(const FlowConfig& config, std::string& why) {
  const size_t known = devices();
  if (config.device >= known) {
    return refuse(why, "flow", config.name,
                  "device " + std::to_string(config.device) + " does not exist; " +
                      (known == 0 ? "there is none, add one first"
                                  : "the last one is " + std::to_string(known - 1)));
  }
  if (const std::string problem = problem_of(config, device(config.device)); !problem.empty()) {
    return refuse(why, "flow", config.name, problem);
  }
  return state_->scheduler.add_flow(config);
}

size_t Policy::devices() const {
  return state_->scheduler.devices.size();
}
size_t Policy::flows() const {
  return state_->scheduler.flows.size();
}

const DeviceConfig& Policy::device(DeviceId id) const {
  IOW_ASSERT(id < devices());
  return state_->scheduler.devices[id].config;
}

const FlowConfig& Policy::flow(FlowId id) const {
  IOW_ASSERT(id < flows());
  return state_->scheduler.flows[id].config;
}

bool Policy::unconstrained(FlowId id) const {
  const FlowConfig& of = flow(id);
  const DeviceConfig& on = device(of.device);
  const bool holds_nothing =
      on.budget_mb_per_s == 0 || of.constraint.kind == Constraint::Kind::none;
  const bool no_limit = on.max_in_flight == 0 && of.max_in_flight == 0;
  const bool no_class_above =
      on.scheduling != Scheduling::strict || of.priority == Class::foreground;
  return holds_nothing && no_limit && no_class_above;
}

uint64_t Policy::waiting() const {
  return state_->scheduler.waiting;
}

uint64_t Policy::waiting(DeviceId id, Class priority) const {
  IOW_ASSERT(id < devices() && static_cast<unsigned>(priority) < kClasses);
  return state_->scheduler.devices[id].waiting[static_cast<unsigned>(priority)];
}

uint64_t Policy::running() const {
  return state_->scheduler.running;
}

// ---- Events ------------------------------------------------------------------------------------

namespace {

/// Acts on events whose ids and states it checks by assertion.
struct Hear {
  Scheduler& scheduler;
  std::vector<Decision>& out;

  void operator()(const Ready& event) const {
    IOW_ASSERT(event.flow < scheduler.flows.size());
    scheduler.ready(event, out);
  }
  void operator()(const Started& event) const {
    Operation* const operation = scheduler.find(event.operation);
    IOW_ASSERT(operation != nullptr && operation->state == Operation::State::decided);
    operation->state = Operation::State::started;
  }
  void operator()(const Finished& event) const { ended(event.operation); }
  void operator()(const Failed& event) const { ended(event.operation); }
  void operator()(const Cancelled& event) const {
    Operation* const operation = scheduler.find(event.operation);
    IOW_ASSERT(operation != nullptr);
    scheduler.cancelled(*operation, out);
  }
  void operator()(const Sample& event) const {
    IOW_ASSERT(event.device < scheduler.devices.size());
    IOW_ASSERT(scheduler.is_up(event.node));
  }
  void operator()(const Activity& event) const {
    IOW_ASSERT(event.device < scheduler.devices.size());
    IOW_ASSERT(static_cast<unsigned>(event.priority) < kClasses);
    IOW_ASSERT(scheduler.is_up(event.node));
    scheduler.activity(event, out);
  }
  void operator()(const NodeUp& event) const {
    IOW_ASSERT(event.node != kAnyNode && !scheduler.is_up(event.node));
    scheduler.node_up(event.node, out);
  }
  void operator()(const NodeDown& event) const {
    IOW_ASSERT(scheduler.is_up(event.node));
    scheduler.node_down(event.node, out);
  }
  void operator()(const Tick&) const {}

  void ended(OperationId id) const {
    Operation* const operation = scheduler.find(id);
    IOW_ASSERT(operation != nullptr && operation->state != Operation::State::waiting);
    scheduler.ended(*operation, out);
  }
};

std::string operation_text(OperationId id) {
  return "operation " + std::to_string(id);
}

/// The same conditions as sentences; empty where the event is acceptable.
struct Check {
  const Scheduler& scheduler;

  std::string operator()(const Ready& event) const {
    if (event.flow >= scheduler.flows.size()) {
      return "flow " + std::to_string(event.flow) + " does not exist";
    }
    if (scheduler.find(event.operation) != nullptr) {
      return operation_text(event.operation) + " is already known";
    }
    return event.node == kAnyNode ? std::string() : up(event.node);
  }
  std::string operator()(const Started& event) const {
    const std::string problem = decided(event.operation);
    const bool again =
        problem.empty() && scheduler.find(event.operation)->state == Operation::State::started;
    return again ? operation_text(event.operation) + " has already started" : problem;
  }
  std::string operator()(const Finished& event) const { return decided(event.operation); }
  std::string operator()(const Failed& event) const { return decided(event.operation); }
  std::string operator()(const Cancelled& event) const { return known(event.operation); }
  std::string operator()(const Sample& event) const { return place(event.device, event.node); }
  std::string operator()(const Activity& event) const {
    if (static_cast<unsigned>(event.priority) >= kClasses) {
      return "there is no class " + std::to_string(static_cast<unsigned>(event.priority));
    }
    return place(event.device, event.node);
  }
  std::string operator()(const NodeUp& event) const {
    if (event.node == kAnyNode) {
      return "a node needs an id of its own";
    }
    return scheduler.is_up(event.node) ? "node " + std::to_string(event.node) + " is already up"
                                       : std::string();
  }
  std::string operator()(const NodeDown& event) const { return up(event.node); }
  std::string operator()(const Tick&) const { return {}; }

  [[nodiscard]] std::string known(OperationId id) const {
    return scheduler.find(id) == nullptr ? operation_text(id) + " is not known" : std::string();
  }
  [[nodiscard]] std::string decided(OperationId id) const {
    const Operation* const operation = scheduler.find(id);
    const bool waits = operation != nullptr && operation->state == Operation::State::waiting;
    return waits ? operation_text(id) + " has not been started by the policy" : known(id);
  }
  [[nodiscard]] std::string up(NodeId id) const {
    return scheduler.is_up(id) ? std::string() : "node " + std::to_string(id) + " is not up";
  }
  [[nodiscard]] std::string place(DeviceId device, NodeId node) const {
    return device < scheduler.devices.size()
               ? up(node)
               : "device " + std::to_string(device) + " does not exist";
  }
};

}  // namespace

void Policy::on(const Event& event, uint64_t now_ns, std::vector<Decision>& out) {
  IOW_ASSERT(now_ns >= state_->now_ns);
  state_->now_ns = now_ns;
  std::visit(Hear{state_->scheduler, out}, event);
}

bool Policy::accepts(const Event& event, uint64_t now_ns, std::string& why) const {
  std::string problem = std::visit(Check{state_->scheduler}, event);
  if (now_ns < state_->now_ns) {
    problem = "time goes back from " + std::to_string(state_->now_ns) + " to " +
              std::to_string(now_ns) + " ns";
  }
  if (problem.empty()) {
    return true;
  }
  why = std::move(problem);
  return false;
}

}  // namespace ioweave::policy
