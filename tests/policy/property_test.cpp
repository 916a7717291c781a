// Random devices, flows and events in virtual time against the rules (model.hpp). Every failure
// prints the seed of its run.

#include <array>
#include <iterator>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model.hpp"
#include "policy/event_log.hpp"
#include "policy/turn_ring.hpp"
#include "virtual_time.hpp"

namespace ioweave::policy {
namespace {

using namespace testing_support;

/// What a run may contain.
struct Shape {
  const char* name;
  unsigned runs;
  bool placed;   ///< operations for any node
  bool chaos;    ///< nodes come and go
  bool uniform;  ///< one constraint per device: nobody ever has to be passed
  bool tuned;    ///< constraints that are found under way
  unsigned events;
  uint64_t first_seed;
  bool partial = false;  ///< devices that some nodes do not have

  /// Room is never kept for a large one: there is none, or not time enough to pass it that often.
  [[nodiscard]] bool work_conserving() const {
    return uniform || events < 2 * TurnRing::kMostPassed;
  }
};

void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.name;
}

class RandomRun {
 public:
  RandomRun(const Shape& shape, uint64_t seed)
      : shape_(shape),
        random_(seed),
        recorder_(policy_, [this](std::string_view line) { log_.append(line) += '\n'; }) {
    add_devices();
    add_flows();
  }

  void tell_some(unsigned events) {
    for (unsigned i = 0; i < events && !::testing::Test::HasFatalFailure(); ++i) {
      one_event();
    }
  }

  /// Ends activity and whatever runs until nothing does. Every operation must get its start.
  void drain() {
    if (model_.up.empty()) {
      tell(NodeUp{0});
    }
    for (DeviceId device = 0; device < model_.devices.size(); ++device) {
      if (model_.nodes_with(device).empty()) {
        tell(DeviceUp{device, some_of(model_.up)});
      }
      for (const NodeId node : model_.nodes_with(device)) {
        for (const Class priority : {Class::foreground, Class::write_behind, Class::prefetch}) {
          tell(Activity{device, node, priority, 0});
        }
      }
    }
    while (policy_.running() > 0 && !::testing::Test::HasFatalFailure()) {
      end_one();
    }
    EXPECT_EQ(policy_.waiting(), 0u) << "operations were lost";
    check_all_is_free();
  }

  [[nodiscard]] const std::string& log() const { return log_; }

 private:
  uint64_t below(uint64_t bound) { return random_() % bound; }
  bool one_in(uint64_t n) { return below(n) == 0; }

  void add_devices() {
    for (uint64_t i = 1 + below(2); i > 0; --i) {
      DeviceConfig config;
      config.name = "device";
      config.scope = one_in(2) ? Scope::shared : Scope::node;
      config.budget_mb_per_s = one_in(4) ? 0 : static_cast<double>(1 + below(100));
      config.max_in_flight = one_in(2) ? 0 : static_cast<uint32_t>(1 + below(6));
      config.scheduling = static_cast<Scheduling>(below(3));
      config.weights = {static_cast<uint32_t>(1 + below(20)), static_cast<uint32_t>(1 + below(20)),
                        1};
      config.everywhere = !shape_.partial || one_in(4);
      std::string why;
      ASSERT_GE(recorder_.add_device(config, why), 0) << why;
      model_.devices.push_back(config);
    }
  }

  void add_flows() {
    std::vector<Constraint> of_device;
    for (const DeviceConfig& device : model_.devices) {
      of_device.push_back(some_constraint(device));
    }
    for (uint64_t i = 1 + below(7); i > 0; --i) {
      FlowConfig config;
      config.name = "flow";
      config.device = static_cast<DeviceId>(below(model_.devices.size()));
      config.priority = static_cast<Class>(below(kClasses));
      config.constraint = shape_.uniform ? of_device[config.device]
                                         : some_constraint(model_.devices[config.device]);
      const bool climbs = config.constraint.kind == Constraint::Kind::climb;
      config.max_in_flight = one_in(3) && !climbs ? static_cast<uint32_t>(1 + below(3)) : 0;
      add(config);
    }
  }

  FlowId add(const FlowConfig& config) {
    std::string why;
    const int64_t id = recorder_.add_flow(config, why);
    EXPECT_GE(id, 0) << why;
    model_.add(config, policy_.explain(static_cast<FlowId>(id)));
    return static_cast<FlowId>(id);
  }

  Constraint some_tuned_constraint(const DeviceConfig& device) {
    Constraint constraint;
    const double most = device.budget_mb_per_s;
    if (most == 0 || one_in(3)) {
      constraint.kind = Constraint::Kind::climb;
    } else if (one_in(2)) {
      constraint.kind = Constraint::Kind::auto_unbounded;
      constraint.executors = static_cast<uint32_t>(1 + below(6));
    } else {
      constraint.kind = Constraint::Kind::auto_bounded;
      constraint.min_mb_per_s = most / static_cast<double>(1 + below(6));
      constraint.max_mb_per_s = most * static_cast<double>(1 + below(2));
      constraint.delta = 1.5 + static_cast<double>(below(3));
    }
    return constraint;
  }

  Constraint some_constraint(const DeviceConfig& device) {
    if (shape_.tuned && !one_in(3)) {
      return some_tuned_constraint(device);
    }
    const double most = device.budget_mb_per_s == 0 ? 50 : device.budget_mb_per_s;
    return one_in(4) ? Constraint{} : fixed(most / static_cast<double>(1 + below(9)));
  }

  void one_event() {
    const uint64_t kind = below(20);
    if (kind < 9) {
      ready();
    } else if (kind < 15) {
      end_one();
    } else if (kind < 16) {
      cancel_one();
    } else if (kind < 17) {
      activity();
    } else if (kind < 18) {
      shape_.tuned ? sample() : ready();
    } else {
      node();
    }
  }

  void ready() {
    if (model_.up.empty()) {
      return;
    }
    const auto flow = static_cast<FlowId>(below(model_.flows.size()));
    const std::set<NodeId> nodes = model_.nodes_with(model_.flows[flow].device);
    if (shape_.placed && one_in(2)) {
      tell(Ready{next_id_++, flow, kAnyNode, below(1 << 20)});
    } else if (!nodes.empty()) {
      const NodeId node = some_of(nodes);
      tell(Ready{next_id_++, flow, node, below(1 << 20)});
    }
  }

  void end_one() {
    const OperationId id = some_operation(true);
    if (id == kNoOperation) {
      return;
    }
    if (one_in(3)) {
      tell(Started{id});
    }
    switch (below(4)) {
      case 0:
        return tell(Failed{id});
      case 1:
        return tell(Cancelled{id});
      default:
        return tell(Finished{id, 1e-3 * static_cast<double>(below(1000)), 4096});
    }
  }

  void cancel_one() {
    const OperationId id = some_operation(false);
    if (id != kNoOperation) {
      tell(Cancelled{id});
    }
  }

  void activity() {
    if (model_.up.empty()) {
      return;
    }
    const auto device = static_cast<DeviceId>(below(model_.devices.size()));
    const std::set<NodeId> nodes = model_.nodes_with(device);
    if (!nodes.empty()) {
      const NodeId node = some_of(nodes);
      tell(Activity{device, node, static_cast<Class>(below(kClasses)),
                    static_cast<uint32_t>(below(3))});
    }
  }

  void sample() {
    if (model_.up.empty()) {
      return;
    }
    const auto device = static_cast<DeviceId>(below(model_.devices.size()));
    const std::set<NodeId> nodes = model_.nodes_with(device);
    if (nodes.empty()) {
      return;
    }
    const NodeId node = some_of(nodes);
    now_ns_ += 1'000'000'000;  // What waits has waited all the time: many samples count.
    tell(Sample{device, node, static_cast<double>(below(1000)) * 1e6});
  }

  void node() {
    const auto id = static_cast<NodeId>(below(5));
    if (model_.up.count(id) == 0) {
      tell(NodeUp{id});
    } else if (shape_.partial && !one_in(4)) {
      const auto device = static_cast<DeviceId>(below(model_.devices.size()));
      if (!model_.has(id, device)) {
        tell(DeviceUp{device, id});
      }
    } else if (shape_.chaos) {
      tell(NodeDown{id});
    }
  }

  NodeId some_of(const std::set<NodeId>& nodes) {
    return *std::next(nodes.begin(), static_cast<ptrdiff_t>(below(nodes.size())));
  }

  OperationId some_operation(bool running) {
    const uint64_t candidates = model_.count(running);
    if (candidates == 0) {
      return kNoOperation;
    }
    uint64_t skip = below(candidates);
    for (const auto& [id, operation] : model_.operations) {
      if (operation.running == running && skip-- == 0) {
        return id;
      }
    }
    return kNoOperation;
  }

  void tell(const Event& event) {
    if (::testing::Test::HasFatalFailure()) {
      return;  // The first failure is the one to read; the log ends with it.
    }
    std::string why;
    ASSERT_TRUE(policy_.accepts(event, now_ns_ + 1000, why)) << why;
    model_.hear(event);
    decisions_.clear();
    recorder_.on(event, now_ns_ += 1000, decisions_);
    model_.tune(policy_);
    for (const Decision& decision : decisions_) {
      if (const auto* const limit = std::get_if<SetLimit>(&decision)) {
        ASSERT_EQ(policy_.explain(limit->flow).limit, limit->limit);
      } else {
        model_.start(std::get<Start>(decision));
      }
      if (::testing::Test::HasFatalFailure()) {
        return;
      }
    }
    check_counts();
    check_nobody_waits_for_nothing();
  }

  /// No bandwidth or slot was lost on the way: an operation that takes it all starts everywhere.
  void check_all_is_free() {
    for (DeviceId device = 0; device < model_.devices.size(); ++device) {
      const double budget = model_.devices[device].budget_mb_per_s;
      const FlowId all = add(FlowConfig{"all", device, Class::prefetch,
                                        budget == 0 ? Constraint{} : fixed(budget), 0});
      for (const NodeId node : model_.nodes_with(device)) {
        tell(Ready{next_id_, all, node, 1});
        ASSERT_EQ(policy_.running(), 1u) << "device " << device << ", node " << node;
        tell(Finished{next_id_++, 1, 1});
      }
    }
  }

  void check_counts() {
    ASSERT_EQ(policy_.waiting(), model_.count(false));
    ASSERT_EQ(policy_.running(), model_.count(true));
    std::vector<Counts> of_flows(model_.flows.size());
    for (const auto& [id, operation] : model_.operations) {
      Counts& counts = of_flows[operation.flow];
      ++(operation.running ? counts.running : counts.waiting);
    }
    for (FlowId flow = 0; flow < of_flows.size(); ++flow) {
      ASSERT_EQ(policy_.flow_counts(flow), of_flows[flow]) << "flow " << flow;
    }
    for (const NodeId node : model_.up) {
      ASSERT_EQ(policy_.running_on(node),
                static_cast<uint64_t>(std::count_if(
                    model_.operations.begin(), model_.operations.end(), [&](const auto& entry) {
                      return entry.second.running && entry.second.node == node;
                    })));
    }
    for (DeviceId device = 0; device < model_.devices.size(); ++device) {
      ASSERT_EQ(policy_.nodes_with(device), model_.nodes_with(device).size());
      for (const Class priority : {Class::foreground, Class::write_behind, Class::prefetch}) {
        ASSERT_EQ(policy_.waiting(device, priority), model_.waiting(device, priority));
      }
    }
  }

  /// The policy is work-conserving: whatever waits has a reason on every node where it might run.
  /// Where room may be kept for a large one, still nobody waits for a scope in which nothing is.
  void check_nobody_waits_for_nothing() {
    for (const auto& [id, operation] : model_.operations) {
      for (const NodeId node : model_.up) {
        if (operation.running || (operation.node != kAnyNode && operation.node != node) ||
            !model_.has(node, model_.flows[operation.flow].device)) {
          continue;
        }
        ASSERT_FALSE(policy_.unconstrained(operation.flow))
            << "operation " << id << " of an unconstrained flow waits";
        if (!model_.held_back(operation, node) &&
            (shape_.work_conserving() || model_.nothing_in_the_way(id, node))) {
          ASSERT_NE(model_.reason_to_wait(id, node), "")
              << "operation " << id << " could start on node " << node;
        }
      }
    }
  }

  static constexpr OperationId kNoOperation = ~OperationId{0};

  const Shape shape_;
  std::mt19937_64 random_;
  std::string log_;
  Policy policy_;
  Recorder recorder_;
  Model model_;
  std::vector<Decision> decisions_;
  uint64_t now_ns_ = 0;
  OperationId next_id_ = 0;
};

class PolicyProperty : public ::testing::TestWithParam<Shape> {};

/// Budget, limits, classes and order hold at every start; nobody waits without a reason; no
/// operation is lost; the log of it all gives the same decisions again.
TEST_P(PolicyProperty, TheRulesHoldOverRandomEvents) {
  for (unsigned i = 0; i < GetParam().runs; ++i) {
    const uint64_t seed = GetParam().first_seed + i;
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomRun run(GetParam(), seed);
    run.tell_some(GetParam().events);
    run.drain();
    ASSERT_FALSE(HasFailure()) << "the log of seed " << seed << ":\n" << run.log();
    std::istringstream log(run.log());
    const Replayed replayed = replay(log);
    ASSERT_TRUE(replayed.same) << "line " << replayed.line << ": " << replayed.reason;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Policy, PolicyProperty,
    ::testing::Values(Shape{"Bound", 400, false, false, false, false, 80, 1'000},
                      Shape{"BoundUniform", 400, false, true, true, false, 80, 2'000},
                      Shape{"BoundShort", 800, false, true, false, false, 30, 3'000},
                      Shape{"Placed", 400, true, false, false, false, 80, 4'000},
                      Shape{"PlacedUniform", 400, true, true, true, false, 80, 5'000},
                      Shape{"PlacedShort", 1500, true, true, false, false, 30, 6'000},
                      Shape{"PlacedWithChaos", 400, true, true, false, false, 200, 8'000},
                      Shape{"Tuned", 200, false, false, false, true, 200, 10'000},
                      Shape{"TunedShort", 800, true, true, false, true, 30, 11'000},
                      Shape{"TunedPlaced", 200, true, false, false, true, 200, 13'000},
                      Shape{"TunedWithChaos", 200, true, true, false, true, 300, 14'000},
                      Shape{"Partial", 400, true, false, true, false, 80, 15'000, true},
                      Shape{"PartialShort", 1500, true, true, false, false, 30, 16'000, true},
                      Shape{"PartialWithChaos", 400, true, true, false, false, 200, 18'000, true},
                      Shape{"PartialTunedShort", 800, true, true, false, true, 30, 19'000, true},
                      Shape{"PartialTunedWithChaos", 200, true, true, false, true, 300, 20'000,
                            true}),
    [](const auto& instance) { return instance.param.name; });

TEST(PolicyProperty, TheSameSeedGivesTheSameLog) {
  const Shape shape{"", 1, true, true, false, true, 100, 0};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    RandomRun first(shape, seed);
    RandomRun second(shape, seed);
    first.tell_some(100);
    second.tell_some(100);
    ASSERT_EQ(first.log(), second.log()) << "seed " << seed;
  }
}

/// No starvation: an operation that is the first of its flow on a node is passed only so often,
/// whatever the constraints, as long as classes share.
TEST(PolicyProperty, TheFirstOfAFlowWaitsForABoundedNumberOfStarts) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    VirtualTime time;
    time.add(device_with_budget(100));
    const uint64_t flows = 2 + random() % 5;
    for (uint64_t i = 0; i < flows; ++i) {
      time.flow(static_cast<Class>(random() % kClasses),
                fixed(100 / static_cast<double>(1 + random() % 20)));
    }
    // Every flow keeps its operations, waiting or running; ids lead back to the flow.
    std::vector<uint64_t> passed(flows, 0);
    Ids running;
    OperationId next = 0;
    const auto add = [&](const Starts& starts) {
      for (const OperationId id : ids(starts)) {
        running.push_back(id);
        for (uint64_t& count : passed) {
          ++count;
        }
        passed[id % flows] = 0;
      }
    };
    for (uint64_t i = 0; i < 30 * flows; ++i) {
      add(time.ready(next, static_cast<FlowId>(next % flows)));
      ++next;
    }
    for (int step = 0; step < 400; ++step) {
      std::swap(running[random() % running.size()], running.back());
      const OperationId ended = running.back();
      running.pop_back();
      const uint64_t flow = ended % flows;
      add(time.ready(next * flows + flow, static_cast<FlowId>(flow)));
      ++next;
      add(time.finished(ended));
      for (uint64_t i = 0; i < flows; ++i) {
        ASSERT_LE(passed[i], flows * (TurnRing::kMostPassed + 1)) << "flow " << i;
      }
    }
  }
}

}  // namespace
}  // namespace ioweave::policy
