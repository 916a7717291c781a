// Validation of configurations and events; what follows from an event is decided in scheduler.cpp.

#include "policy/policy.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "base/assert.hpp"
#include "policy/auto_constraint.hpp"
#include "policy/climb.hpp"
#include "policy/number_text.hpp"
#include "policy/scheduler.hpp"

namespace ioweave::policy {
namespace {

constexpr uint32_t kMostWeight = 10'000;
constexpr uint32_t kMostExecutors = 1'000'000;

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
                   "0 (unlimited) or between " + number_text(kLeastMbPerS) + " and " +
                       number_text(kMostMbPerS),
                   number_text(budget));
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

std::string mb_per_s_between(std::string_view setting, double least, double got,
                             const DeviceConfig& device) {
  const bool unlimited = device.budget_mb_per_s == 0;
  const double most = unlimited ? kMostMbPerS : device.budget_mb_per_s;
  if (got >= least && got <= most) {
    return {};
  }
  const std::string what =
      unlimited ? std::string() : " (the budget of device '" + device.name + "')";
  return between(setting,
                 "between " + number_text(least) + " and " + number_text(most) + " MB/s" + what,
                 number_text(got));
}

std::string problem_of_bounded(const Constraint& c, const DeviceConfig& device) {
  if (std::string problem = mb_per_s_between("min of auto", kLeastMbPerS, c.min_mb_per_s, device);
      !problem.empty()) {
    return problem;
  }
  if (!(c.max_mb_per_s >= c.min_mb_per_s && c.max_mb_per_s <= kMostMbPerS)) {
    return between("max of auto",
                   "between min (" + number_text(c.min_mb_per_s) + ") and " +
                       number_text(kMostMbPerS) + " MB/s",
                   number_text(c.max_mb_per_s));
  }
  if (!(c.delta > 1 && std::isfinite(c.delta))) {
    return between("delta of auto", "a factor greater than 1", number_text(c.delta));
  }
  if (AutoConstraint::epochs_of(c, device.budget_mb_per_s) > AutoConstraint::kMostEpochs) {
    return "delta of auto is too small: from min to max it takes more than " +
           std::to_string(AutoConstraint::kMostEpochs) + " epochs; use a larger one than " +
           number_text(c.delta);
  }
  return {};
}

std::string problem_of(const Constraint& constraint, const DeviceConfig& device) {
  using Kind = Constraint::Kind;
  const bool is_auto =
      constraint.kind == Kind::auto_unbounded || constraint.kind == Kind::auto_bounded;
  if (is_auto && device.budget_mb_per_s == 0) {
    return "auto divides a budget, and device '" + device.name +
           "' has none: give it a bandwidth in MB/s, or use climb";
  }
  switch (constraint.kind) {
    case Kind::none:
    case Kind::climb:
      return {};
    case Kind::fixed:
      return mb_per_s_between("the fixed constraint", kLeastMbPerS, constraint.mb_per_s, device);
    case Kind::auto_bounded:
      return problem_of_bounded(constraint, device);
    case Kind::auto_unbounded:
      break;
    default:
      return between("constraint", "none, fixed, auto or climb",
                     std::to_string(static_cast<unsigned>(constraint.kind)));
  }
  const double most = std::min(device.budget_mb_per_s / kLeastMbPerS, double{kMostExecutors});
  if (constraint.executors < 1 || constraint.executors > most) {
    return between("the I/O executors of auto", "between 1 and " + number_text(most),
                   std::to_string(constraint.executors));
  }
  return {};
}

std::string problem_of(const FlowConfig& config, const DeviceConfig& device) {
  if (static_cast<unsigned>(config.priority) >= kClasses) {
    return between("priority", "foreground, write_behind or prefetch",
                   std::to_string(static_cast<unsigned>(config.priority)));
  }
  if (!config.learned.empty() && !AutoConstraint::can_read(config.learned) &&
      !Climber::can_read(config.learned)) {
    return between("learned", "what learned() said in an earlier run, or empty",
                   "'" + config.learned + "'");
  }
  return problem_of(config.constraint, device);
}

}  // namespace

struct Policy::State {
  Scheduler scheduler;
};

Policy::Policy() : state_(std::make_unique<State>()) {
  std::vector<Decision> none;
  state_->scheduler.add_node(0, none);
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
  IOW_ASSERT(id < flows());
  return state_->scheduler.flows[id].unconstrained;
}

bool Policy::is_up(NodeId node) const {
  return state_->scheduler.is_up(node);
}

bool Policy::has(NodeId node, DeviceId device) const {
  IOW_ASSERT(device < devices());
  return state_->scheduler.has_device(node, state_->scheduler.devices[device]);
}

uint64_t Policy::nodes_with(DeviceId device) const {
  IOW_ASSERT(device < devices());
  return state_->scheduler.devices[device].nodes;
}

Explanation Policy::explain(FlowId id) const {
  IOW_ASSERT(id < flows());
  Explanation explanation;
  state_->scheduler.explain(state_->scheduler.flows[id], explanation);
  return explanation;
}

std::string Policy::learned(FlowId id) const {
  IOW_ASSERT(id < flows());
  return state_->scheduler.flows[id].limiter->learned();
}

uint64_t Policy::waiting() const {
  return state_->scheduler.waiting;
}

uint64_t Policy::running() const {
  return state_->scheduler.running;
}

Counts Policy::flow_counts(FlowId id) const {
  IOW_ASSERT(id < flows());
  const Flow& flow = state_->scheduler.flows[id];
  return {flow.waiting, flow.running};
}

bool Policy::needs_samples(DeviceId id) const {
  IOW_ASSERT(id < devices());
  return state_->scheduler.devices[id].climbing_known > 0;
}

uint64_t Policy::waiting(DeviceId id, Class priority) const {
  IOW_ASSERT(id < devices() && static_cast<unsigned>(priority) < kClasses);
  return state_->scheduler.devices[id].waiting[static_cast<unsigned>(priority)];
}

uint64_t Policy::running_on(NodeId node) const {
  IOW_ASSERT(state_->scheduler.is_up(node));
  return state_->scheduler.count_running_on(node);
}

// ---- Events ------------------------------------------------------------------------------------

namespace {

/// What can be averaged.
bool is_measure(double value) {
  return value >= 0 && std::isfinite(value);
}

/// Acts on events whose ids and states it checks by assertion.
struct Hear {
  Scheduler& scheduler;
  std::vector<Decision>& out;

  void operator()(const Ready& event) const {
    IOW_ASSERT(event.flow < scheduler.flows.size());
    scheduler.hear_ready(event, out);
  }
  void operator()(const Started& event) const {
    Operation* const operation = scheduler.find_operation(event.operation);
    IOW_ASSERT(operation != nullptr && operation->state == Operation::State::decided);
    operation->state = Operation::State::started;
  }
  void operator()(const Finished& event) const { ended(event.operation, &event); }
  void operator()(const Failed& event) const { ended(event.operation, nullptr); }
  void operator()(const Cancelled& event) const {
    Operation* const operation = scheduler.find_operation(event.operation);
    IOW_ASSERT(operation != nullptr);
    scheduler.hear_cancellation(*operation, out);
  }
  void operator()(const Sample& event) const {
    IOW_ASSERT(event.device < scheduler.devices.size());
    IOW_ASSERT(is_measure(event.bytes_per_second));
    IOW_ASSERT(is_measure(event.seconds) && event.seconds > 0);
    scheduler.hear_sample(event, out);
  }
  void operator()(const Activity& event) const {
    IOW_ASSERT(event.device < scheduler.devices.size());
    IOW_ASSERT(static_cast<unsigned>(event.priority) < kClasses);
    scheduler.hear_activity(event, out);
  }
  void operator()(const NodeUp& event) const {
    IOW_ASSERT(event.node != kAnyNode && !scheduler.is_up(event.node));
    scheduler.add_node(event.node, out);
  }
  void operator()(const NodeDown& event) const {
    IOW_ASSERT(scheduler.is_up(event.node));
    scheduler.remove_node(event.node, out);
  }
  void operator()(const DeviceUp& event) const {
    IOW_ASSERT(event.device < scheduler.devices.size());
    scheduler.hear_device_up(event, out);
  }

  void ended(OperationId id, const Finished* finished) const {
    Operation* const operation = scheduler.find_operation(id);
    IOW_ASSERT(operation != nullptr && operation->state != Operation::State::waiting);
    IOW_ASSERT(finished == nullptr || is_measure(finished->seconds));
    scheduler.hear_end(*operation, finished, out);
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
    if (scheduler.find_operation(event.operation) != nullptr) {
      return operation_text(event.operation) + " is already known";
    }
    return event.node == kAnyNode ? std::string()
                                  : place(scheduler.flows[event.flow].device->id, event.node);
  }
  std::string operator()(const Started& event) const {
    const std::string problem = decided(event.operation);
    const bool again = problem.empty() && scheduler.find_operation(event.operation)->state ==
                                              Operation::State::started;
    return again ? operation_text(event.operation) + " has already started" : problem;
  }
  std::string operator()(const Finished& event) const {
    const std::string problem = decided(event.operation);
    return problem.empty() ? measure("seconds", event.seconds) : problem;
  }
  std::string operator()(const Failed& event) const { return decided(event.operation); }
  std::string operator()(const Cancelled& event) const { return known(event.operation); }
  std::string operator()(const Sample& event) const {
    const std::string problem = place(event.device, event.node);
    if (problem.empty() && !(is_measure(event.seconds) && event.seconds > 0)) {
      return between("seconds", "above 0, and finite", number_text(event.seconds));
    }
    return problem.empty() ? measure("bytes_per_second", event.bytes_per_second) : problem;
  }
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
  std::string operator()(const DeviceUp& event) const {
    if (event.device >= scheduler.devices.size()) {
      return no_device(event.device);
    }
    const Device& device = scheduler.devices[event.device];
    if (device.config.everywhere) {
      return "device '" + device.config.name + "' is on every node";
    }
    return scheduler.has_device(event.node, device)
               ? "node " + std::to_string(event.node) + " already has device '" +
                     device.config.name + "'"
               : up(event.node);
  }

  [[nodiscard]] static std::string measure(std::string_view what, double value) {
    return is_measure(value) ? std::string()
                             : between(what, "0 or more, and finite", number_text(value));
  }
  [[nodiscard]] std::string known(OperationId id) const {
    return scheduler.find_operation(id) == nullptr ? operation_text(id) + " is not known"
                                                   : std::string();
  }
  [[nodiscard]] std::string decided(OperationId id) const {
    const Operation* const operation = scheduler.find_operation(id);
    const bool waits = operation != nullptr && operation->state == Operation::State::waiting;
    return waits ? operation_text(id) + " has not been started by the policy" : known(id);
  }
  [[nodiscard]] std::string up(NodeId id) const {
    return scheduler.is_up(id) ? std::string() : "node " + std::to_string(id) + " is not up";
  }
  [[nodiscard]] static std::string no_device(DeviceId id) {
    return "device " + std::to_string(id) + " does not exist";
  }
  [[nodiscard]] std::string place(DeviceId id, NodeId node) const {
    if (id >= scheduler.devices.size()) {
      return no_device(id);
    }
    const Device& device = scheduler.devices[id];
    return !scheduler.is_up(node) || scheduler.has_device(node, device)
               ? up(node)
               : "node " + std::to_string(node) + " does not have device '" + device.config.name +
                     "'";
  }
};

}  // namespace

void Policy::reserve_operation() {
  state_->scheduler.reserve_operation();
}

void Policy::on(const Event& event, uint64_t now_ns, std::vector<Decision>& out) {
  IOW_ASSERT(now_ns >= state_->scheduler.now_ns);
  state_->scheduler.now_ns = now_ns;
  std::visit(Hear{state_->scheduler, out}, event);
}

bool Policy::accepts(const Event& event, uint64_t now_ns, std::string& why) const {
  std::string problem = std::visit(Check{state_->scheduler}, event);
  if (now_ns < state_->scheduler.now_ns) {
    problem = "time goes back from " + std::to_string(state_->scheduler.now_ns) + " to " +
              std::to_string(now_ns) + " ns";
  }
  if (problem.empty()) {
    return true;
  }
  why = std::move(problem);
  return false;
}

}  // namespace ioweave::policy
