// What a policy accepts as devices and flows, what it says where it does not, and which flows need
// not ask it at all.

#include <cerrno>
#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "virtual_time.hpp"

namespace ioweave::policy {
namespace {

using namespace testing_support;
using ::testing::HasSubstr;

struct BadDevice {
  const char* name;
  void (*change)(DeviceConfig&);
  const char* setting;
  const char* bounds;
};

void PrintTo(const BadDevice& bad, std::ostream* out) {
  *out << bad.name;
}

class RefusesDevice : public ::testing::TestWithParam<BadDevice> {};

TEST_P(RefusesDevice, AndNamesDeviceSettingAndBounds) {
  DeviceConfig config = device();
  GetParam().change(config);
  Policy policy;
  std::string why;
  EXPECT_EQ(policy.add_device(config, why), -EINVAL);
  EXPECT_THAT(why, HasSubstr("device 'disk'"));
  EXPECT_THAT(why, HasSubstr(GetParam().setting));
  EXPECT_THAT(why, HasSubstr(GetParam().bounds));
  EXPECT_EQ(policy.devices(), 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Policy, RefusesDevice,
    ::testing::Values(
        BadDevice{"NegativeBudget", [](DeviceConfig& c) { c.budget_mb_per_s = -1; },
                  "budget_mb_per_s", "0 (unlimited) or between 1e-06 and 1e+12, not -1"},
        BadDevice{"BudgetNotANumber", [](DeviceConfig& c) { c.budget_mb_per_s = std::nan(""); },
                  "budget_mb_per_s", "not nan"},
        BadDevice{"InfiniteBudget", [](DeviceConfig& c) { c.budget_mb_per_s = HUGE_VAL; },
                  "budget_mb_per_s", "not inf"},
        BadDevice{"BudgetBelowOneByte", [](DeviceConfig& c) { c.budget_mb_per_s = 1e-7; },
                  "budget_mb_per_s", "not 1e-07"},
        BadDevice{"WeightZero",
                  [](DeviceConfig& c) {
                    c.weights = {1, 0, 1};
                  },
                  "weights", "between 1 and 10000, not 0"},
        BadDevice{"WeightTooLarge",
                  [](DeviceConfig& c) {
                    c.weights = {1, 1, 10001};
                  },
                  "weights", "between 1 and 10000, not 10001"},
        BadDevice{"NoSuchScope", [](DeviceConfig& c) { c.scope = static_cast<Scope>(2); }, "scope",
                  "node or shared, not 2"},
        BadDevice{"NoSuchScheduling",
                  [](DeviceConfig& c) { c.scheduling = static_cast<Scheduling>(9); }, "scheduling",
                  "none, strict or weighted, not 9"}),
    [](const auto& instance) { return instance.param.name; });

Constraint bounded(double min, double max, double delta) {
  return {Constraint::Kind::auto_bounded, 0, 0, min, max, delta};
}

struct BadFlow {
  const char* name;
  void (*change)(FlowConfig&);
  const char* reason;
};

void PrintTo(const BadFlow& bad, std::ostream* out) {
  *out << bad.name;
}

class RefusesFlow : public ::testing::TestWithParam<BadFlow> {};

TEST_P(RefusesFlow, AndNamesFlowSettingAndBounds) {
  VirtualTime time;
  time.add(device_with_budget(450));
  time.add(device());
  FlowConfig config;
  config.name = "checkpoint";
  GetParam().change(config);
  std::string why;
  EXPECT_EQ(time.policy.add_flow(config, why), -EINVAL);
  EXPECT_THAT(why, HasSubstr("flow 'checkpoint'"));
  EXPECT_THAT(why, HasSubstr(GetParam().reason));
  EXPECT_EQ(time.policy.flows(), 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Policy, RefusesFlow,
    ::testing::Values(
        BadFlow{"NoSuchDevice", [](FlowConfig& c) { c.device = 2; },
                "device 2 does not exist; the last one is 1"},
        BadFlow{"ConstraintAboveBudget", [](FlowConfig& c) { c.constraint = fixed(451); },
                "the fixed constraint must be between 1e-06 and 450 MB/s (the budget of device "
                "'disk'), not 451"},
        BadFlow{"ConstraintZero", [](FlowConfig& c) { c.constraint = fixed(0); }, "not 0"},
        BadFlow{"ConstraintNegative", [](FlowConfig& c) { c.constraint = fixed(-3); }, "not -3"},
        BadFlow{"ConstraintNotANumber", [](FlowConfig& c) { c.constraint = fixed(std::nan("")); },
                "not nan"},
        BadFlow{"ConstraintInfiniteWithoutBudget",
                [](FlowConfig& c) {
                  c.device = 1;
                  c.constraint = fixed(HUGE_VAL);
                },
                "between 1e-06 and 1e+12 MB/s, not inf"},
        BadFlow{
            "AutoWithoutABudget",
            [](FlowConfig& c) {
              c.device = 1;
              c.constraint.kind = Constraint::Kind::auto_unbounded;
              c.constraint.executors = 225;
            },
            "auto divides a budget, and device 'disk' has none: give it a bandwidth in MB/s, or "
            "use climb"},
        BadFlow{"AutoWithoutExecutors",
                [](FlowConfig& c) { c.constraint.kind = Constraint::Kind::auto_unbounded; },
                "the I/O executors of auto must be between 1 and 1e+06, not 0"},
        BadFlow{"AutoWithMinAboveTheBudget",
                [](FlowConfig& c) { c.constraint = bounded(451, 500, 2); },
                "min of auto must be between 1e-06 and 450 MB/s (the budget of device 'disk'), "
                "not 451"},
        BadFlow{"AutoWithMinZero", [](FlowConfig& c) { c.constraint = bounded(0, 256, 2); },
                "min of auto must be between 1e-06 and 450 MB/s"},
        BadFlow{"AutoWithMinAboveMax", [](FlowConfig& c) { c.constraint = bounded(20, 10, 2); },
                "max of auto must be between min (20) and 1e+12 MB/s, not 10"},
        BadFlow{"AutoWithMaxNotANumber",
                [](FlowConfig& c) { c.constraint = bounded(2, std::nan(""), 2); }, "not nan"},
        BadFlow{"AutoThatDoesNotAdvance", [](FlowConfig& c) { c.constraint = bounded(2, 256, 1); },
                "delta of auto must be a factor greater than 1, not 1"},
        BadFlow{"AutoThatAdvancesTooSlowly",
                [](FlowConfig& c) { c.constraint = bounded(2, 256, 1.001); },
                "delta of auto is too small: from min to max it takes more than 64 epochs; use a "
                "larger one than 1.001"},
        BadFlow{"LearnedTextOfSomebodyElse",
                [](FlowConfig& c) {
                  c.constraint.kind = Constraint::Kind::climb;
                  c.learned = "climb 12";
                },
                "learned must be what learned() said in an earlier run, or empty, not 'climb 12'"},
        BadFlow{"LearnedTextThatIsBroken", [](FlowConfig& c) { c.learned = "auto 4:10 2:20"; },
                "learned must be"},
        BadFlow{"NoSuchConstraint",
                [](FlowConfig& c) { c.constraint.kind = static_cast<Constraint::Kind>(7); },
                "constraint must be none, fixed, auto or climb, not 7"},
        BadFlow{"NoSuchClass", [](FlowConfig& c) { c.priority = static_cast<Class>(3); },
                "priority must be foreground, write_behind or prefetch, not 3"}),
    [](const auto& instance) { return instance.param.name; });

TEST(PolicyConfig, AFlowBeforeAnyDeviceIsToldToAddOne) {
  Policy policy;
  std::string why;
  EXPECT_EQ(policy.add_flow(FlowConfig{}, why), -EINVAL);
  EXPECT_THAT(why, HasSubstr("there is none, add one first"));
}

TEST(PolicyConfig, AConstraintOfTheWholeBudgetIsAccepted) {
  VirtualTime time;
  time.add(device_with_budget(0.3));
  EXPECT_EQ(time.flow(Class::foreground, fixed(0.3)), 0u);
}

TEST(PolicyConfig, IdsCountFromZeroAndLeadBackToTheConfiguration) {
  VirtualTime time;
  EXPECT_EQ(time.add(device()), 0u);
  EXPECT_EQ(time.add(device_with_slots(3)), 1u);
  EXPECT_EQ(time.flow(Class::prefetch), 0u);
  EXPECT_EQ(time.flow(Class::write_behind), 1u);
  EXPECT_EQ(time.policy.device(1).max_in_flight, 3u);
  EXPECT_EQ(time.policy.flow(1).priority, Class::write_behind);
}

// ---- unconstrained() ---------------------------------------------------------------------------

struct Freedom {
  const char* name;
  DeviceConfig device;
  FlowConfig flow;
  bool unconstrained;
};

void PrintTo(const Freedom& freedom, std::ostream* out) {
  *out << freedom.name;
}

class Unconstrained : public ::testing::TestWithParam<Freedom> {};

TEST_P(Unconstrained, IsTrueOnlyWhereNothingCanEverHoldTheFlowBack) {
  VirtualTime time;
  time.add(GetParam().device);
  EXPECT_EQ(time.policy.unconstrained(time.add(GetParam().flow)), GetParam().unconstrained);
}

FlowConfig flow_of(Class priority, Constraint constraint = {}, uint32_t max_in_flight = 0) {
  return {"flow", 0, priority, constraint, max_in_flight};
}

INSTANTIATE_TEST_SUITE_P(
    Policy, Unconstrained,
    ::testing::Values(
        Freedom{"Plain", device(), flow_of(Class::foreground), true},
        Freedom{"LowClassWhereClassesDoNotCount", device(), flow_of(Class::prefetch), true},
        Freedom{"ForegroundUnderStrict", device(Scheduling::strict), flow_of(Class::foreground),
                true},
        Freedom{"LowerUnderStrict", device(Scheduling::strict), flow_of(Class::write_behind),
                false},
        Freedom{"LowClassUnderWeighted", device(Scheduling::weighted), flow_of(Class::prefetch),
                true},
        Freedom{"NoConstraintOnABudget", device_with_budget(450), flow_of(Class::foreground), true},
        Freedom{"ConstraintOnABudget", device_with_budget(450),
                flow_of(Class::foreground, fixed(10)), false},
        Freedom{"ConstraintWithoutBudget", device(), flow_of(Class::foreground, fixed(10)), true},
        Freedom{"Climb", device(), flow_of(Class::foreground, {Constraint::Kind::climb}), false},
        Freedom{"Auto", device_with_budget(450),
                flow_of(Class::foreground, {Constraint::Kind::auto_unbounded, 0, 225}), false},
        Freedom{"DeviceLimit", device_with_slots(64), flow_of(Class::foreground), false},
        Freedom{"FlowLimit", device(), flow_of(Class::foreground, {}, 64), false}),
    [](const auto& instance) { return instance.param.name; });

// ---- accepts() ---------------------------------------------------------------------------------

struct BadEvent {
  const char* name;
  Event event;
  uint64_t now_ns;
  const char* reason;
};

void PrintTo(const BadEvent& bad, std::ostream* out) {
  *out << bad.name;
}

class DoesNotAccept : public ::testing::TestWithParam<BadEvent> {};

TEST_P(DoesNotAccept, AndSaysWhy) {
  VirtualTime time;
  time.add(device_with_slots(1));
  const FlowId flow = time.flow();
  time.ready(1, flow);
  time.tell(Started{1});
  time.ready(2, flow);
  std::string why;
  EXPECT_FALSE(time.policy.accepts(GetParam().event, GetParam().now_ns, why));
  EXPECT_EQ(why, GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(
    Policy, DoesNotAccept,
    ::testing::Values(
        BadEvent{"UnknownFlow", Ready{3, 1, 0, 1}, 9000, "flow 1 does not exist"},
        BadEvent{"OperationTwice", Ready{1, 0, 0, 1}, 9000, "operation 1 is already known"},
        BadEvent{"ReadyOnANodeThatIsDown", Ready{3, 0, 5, 1}, 9000, "node 5 is not up"},
        BadEvent{"StartedTwice", Started{1}, 9000, "operation 1 has already started"},
        BadEvent{"StartedBeforeItsDecision", Started{2}, 9000,
                 "operation 2 has not been started by the policy"},
        BadEvent{"FinishedBeforeItsDecision", Finished{2, 1, 1}, 9000,
                 "operation 2 has not been started by the policy"},
        BadEvent{"FinishedInNegativeTime", Finished{1, -1, 1}, 9000,
                 "seconds must be 0 or more, and finite, not -1"},
        BadEvent{"SampleNotANumber", Sample{0, 0, std::nan("")}, 9000,
                 "bytes_per_second must be 0 or more, and finite, not nan"},
        BadEvent{"SampleOfNoTime", Sample{0, 0, 1, 0}, 9000,
                 "seconds must be above 0, and finite, not 0"},
        BadEvent{"FailedUnknown", Failed{3}, 9000, "operation 3 is not known"},
        BadEvent{"CancelledUnknown", Cancelled{3}, 9000, "operation 3 is not known"},
        BadEvent{"SampleOfUnknownDevice", Sample{1, 0, 1}, 9000, "device 1 does not exist"},
        BadEvent{"ActivityOnANodeThatIsDown", Activity{0, 7, Class::foreground, 1}, 9000,
                 "node 7 is not up"},
        BadEvent{"ActivityOfUnknownClass", Activity{0, 0, static_cast<Class>(3), 1}, 9000,
                 "there is no class 3"},
        BadEvent{"NodeUpTwice", NodeUp{0}, 9000, "node 0 is already up"},
        BadEvent{"NodeUpOfAny", NodeUp{kAnyNode}, 9000, "a node needs an id of its own"},
        BadEvent{"NodeDownUnknown", NodeDown{1}, 9000, "node 1 is not up"},
        BadEvent{"TimeGoesBack", NodeUp{1}, 2999, "time goes back from 3000 to 2999 ns"}),
    [](const auto& instance) { return instance.param.name; });

TEST(PolicyDeathTest, AnEventThatIsNotAcceptedIsAnAssertion) {
  VirtualTime time;
  time.add(device());
  std::vector<Decision> out;
  EXPECT_DEATH(time.policy.on(Finished{1, 1, 1}, 1, out), "assertion failed");
  EXPECT_DEATH(time.policy.on(Ready{1, 0, 0, 1}, 1, out), "assertion failed");
}

}  // namespace
}  // namespace ioweave::policy
