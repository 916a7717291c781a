#pragma once

// The policy core: who may use a storage device next. Pure logic: no I/O, clock, thread or lock.
// Time is an argument, events go in, decisions come out.
//
// Vocabulary: a *device* is a storage target with a bandwidth budget, per node or shared by all
// nodes. A *flow* is a named stream of similar operations on one device; it has a priority class
// and a constraint, the bandwidth one of its operations holds while it runs. The sum held on a
// device never exceeds its budget. Between classes a device schedules by `none`, `strict` or
// `weighted`.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "policy/event.hpp"

namespace ioweave::policy {

/// How a device divides itself between priority classes.
enum class Scheduling : uint8_t {
  none,      ///< all classes at once, in order of arrival ("PP" in the PPIS paper)
  strict,    ///< a lower class starts only while no higher class runs or waits ("PPIS")
  weighted,  ///< classes share by weight while all have work; nobody starves
};

/// Where a device's budget counts.
enum class Scope : uint8_t { node, shared };

struct DeviceConfig {
  std::string name;
  Scope scope = Scope::node;
  double budget_mb_per_s = 0;  ///< 0: unlimited
  uint32_t max_in_flight = 0;  ///< operations at once within the scope; 0: unlimited
  Scheduling scheduling = Scheduling::none;
  std::array<uint32_t, kClasses> weights{16, 4, 1};  ///< used by Scheduling::weighted, each >= 1
};

/// The bandwidth one operation of a flow holds while it runs.
struct Constraint {
  enum class Kind : uint8_t { none, fixed } kind = Kind::none;
  double mb_per_s = 0;  ///< fixed: > 0 and at most the device's budget
};

struct FlowConfig {
  std::string name;
  DeviceId device = 0;
  Class priority = Class::foreground;
  Constraint constraint;
  uint32_t max_in_flight = 0;  ///< operations of this flow at once on a node; 0: unlimited
};

/// One thread at a time (the driver's lock).
class Policy {
 public:
  Policy();
  ~Policy();
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  /// The id of the new device or flow (0, 1, 2, ...), or -EINVAL with the reason, in words that
  /// name the setting and its bounds, in `why`. Devices and flows live as long as the policy.
  [[nodiscard]] int64_t add_device(const DeviceConfig& config, std::string& why);
  [[nodiscard]] int64_t add_flow(const FlowConfig& config, std::string& why);

  [[nodiscard]] const DeviceConfig& device(DeviceId id) const;
  [[nodiscard]] const FlowConfig& flow(FlowId id) const;

  /// Tells the policy what happened at `now_ns` (never decreasing) and appends what follows from
  /// it to `out`. Amortised O(log flows) an event. Programmer errors (an unknown id, an operation
  /// told twice) are assertions.
  void on(const Event& event, uint64_t now_ns, std::vector<Decision>& out);

  /// True where an operation of this flow never has to wait in any state of the policy: no budget,
  /// no limit, and no class above it that could hold it back. The driver may then skip the policy
  /// (and owes it Activity events instead).
  [[nodiscard]] bool unconstrained(FlowId id) const;

  /// Operations that are ready and not started, of all flows, and those of one class of a device.
  [[nodiscard]] uint64_t waiting() const;
  [[nodiscard]] uint64_t waiting(DeviceId device, Class priority) const;
  [[nodiscard]] uint64_t running() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ioweave::policy
