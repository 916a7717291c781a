#pragma once

// The policy core: who may use a storage device next. Pure logic: no I/O, clock, thread or lock.
// Time is an argument, events go in, decisions come out.
//
// Vocabulary: a *device* is a storage target with a bandwidth budget, per node or shared by all
// nodes. A *flow* is a named series of similar operations on one device. It has a priority class
// and a *constraint*: the bandwidth that one of its operations holds while it runs, given or found
// under way. The sum held on a device never exceeds its budget. A device schedules its classes by
// `none`, `strict` or `weighted`.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "policy/event.hpp"
#include "policy/explanation.hpp"

namespace ioweave::policy {

/// How a device divides itself between priority classes.
enum class Scheduling : uint8_t {
  none,    ///< classes do not count: all flows take turns ("PP" in the PPIS paper)
  strict,  ///< a lower class starts only while no higher class runs or waits in the scope ("PPIS")
  weighted,  ///< classes share the bytes started by weight while they have work; nobody starves
};

/// Where a device's budget counts.
enum class Scope : uint8_t { node, shared };

struct DeviceConfig {
  std::string name;
  Scope scope = Scope::node;
  double budget_mb_per_s = 0;  ///< 0: unlimited; counted in whole bytes per second
  uint32_t max_in_flight = 0;  ///< operations at once within the scope; 0: unlimited
  Scheduling scheduling = Scheduling::none;
  std::array<uint32_t, kClasses> weights{16, 4, 1};  ///< for weighted; each from 1 to 10000
  bool everywhere = true;  ///< on every node that comes up; else on those that DeviceUp names
  uint32_t begins_at = 0;  ///< operations at once with which `climb` begins; 0: one
  bool operator==(const DeviceConfig&) const = default;
};

/// The bandwidth that one operation of a flow holds while it runs, or how it is found.
struct Constraint {
  enum class Kind : uint8_t {
    none,
    fixed,
    auto_unbounded,  ///< `auto` of the I/O-aware tasks paper (auto_constraint.hpp)
    auto_bounded,    ///< its `auto(min,max,delta)`
    climb,           ///< follows the measured throughput (climb.hpp)
  } kind = Kind::none;
  double mb_per_s = 0;      ///< fixed: > 0 and at most the device's budget
  uint32_t executors = 0;   ///< auto_unbounded: I/O executors of a node; it begins at budget / this
  double min_mb_per_s = 0;  ///< auto_bounded: where it begins, at most the budget
  double max_mb_per_s = 0;  ///< auto_bounded: the last it may try
  double delta = 0;         ///< auto_bounded: the factor from one to the next, > 1
  bool operator==(const Constraint&) const = default;
};

/// Operations that are ready and not started, and those that were started and have not ended.
struct Counts {
  uint64_t waiting = 0;
  uint64_t running = 0;
  bool operator==(const Counts&) const = default;
};

struct FlowConfig {
  std::string name;
  DeviceId device = 0;
  Class priority = Class::foreground;
  Constraint constraint;
  uint32_t max_in_flight = 0;  ///< operations of this flow at once on a node; 0: unlimited
  /// What learned() said of such a flow in an earlier run, to begin there; empty: nothing known.
  /// What was learned under another kind of constraint, or above the budget of today, is not used.
  std::string learned = {};
  bool operator==(const FlowConfig&) const = default;
};

/// One thread at a time (the driver's lock). The rules:
///
/// *Room.* On each scope of a device at most `max_in_flight` operations run, and the sum they hold
/// is at most the budget. On each node at most the flow's `max_in_flight` operations of a flow run.
/// All of it counts from the decision to the end.
///
/// *Order.* Operations of a flow for a node start in the order in which they became ready, and so
/// do its operations for kAnyNode among themselves. Flows of a class take turns, an operation each.
/// On a shared device the nodes of a flow take turns within it.
///
/// *Large constraints.* Where the operation whose turn it is does not fit, others that fit pass it,
/// but no more than 16. Then nobody who holds bandwidth starts any more until it has started.
///
/// *strict.* A lower class starts only while no higher class runs, is reported active (Activity) or
/// waits within the scope; an operation for kAnyNode waits on every node. To wait means to wait for
/// room: whoever took that away would invert the priorities. An operation that is held back by its
/// own flow's `max_in_flight` needs no rule: its flow is running. Lower classes starve for as long
/// as higher ones keep the scope busy, which is the purpose.
///
/// *weighted.* The class furthest behind its share of the bytes started goes first, and another
/// where it does not fit. While two classes have work that fits, their bytes / weight differ by at
/// most one largest operation of each. A class that was away comes back without credit. A class
/// that went because others did not fit owes them 16 of its operations at most. An operation counts
/// as at least 4 KiB and at most 64 GiB.
///
/// *kAnyNode.* The operation goes to the first node, in order of NodeUp, that has the device and
/// where it may start now; node 0 is up from the beginning. While it waits it takes turns with the
/// node's own operations wherever room appears. Where smaller ones have passed it 16 times, on
/// whichever nodes, the last of these nodes keeps its room for it. It waits while no node has the
/// device (nodes_with()).
///
/// *Constraints found under way.* An operation holds what its flow's constraint was when it
/// started, whatever it is later. The limit of `climb` is the exception. Where it rises, operations
/// that run give back what they hold above the new part. Where it falls on a device without a
/// budget, they hold as much as new ones. SetLimit precedes what the new limit lets start.
///
/// *auto* (auto_constraint.hpp) learns on one node of its own, where others can go elsewhere
/// (learning_nodes.hpp). On a device of scope node a flow that learns has a *learning node*: the
/// first where no other flow learns, or the one its first operation is bound to. Its operations for
/// any node wait for that node. Once all operations of an epoch have started there, more of them
/// wait until all have ended. Operations bound elsewhere run there under the constraint of the
/// epoch and do not count. Where nothing of the flow is on the learning node, it moves to where the
/// next operation is bound.
///
/// While the flow has operations on its learning node, no other operation starts on this device
/// there, but for flows that are unconstrained() and higher classes under `strict`. This
/// exclusiveness ends with the learning, or when an epoch has lost as many operations as it needs
/// (failed or cancelled). It is never given where two flows learn on one node, or where no node
/// that has the device would be left without a learner. So on a single node flows learn together,
/// disturb each other, and nobody starves. Where the node goes down, the epoch begins again on
/// another. On a shared device there is no learning node: operations on all nodes count, and wait
/// for the next epoch.
///
/// *climb* (climb.hpp) limits the operations of all its flows of a device together, on each node
/// or, on a shared device, over all. Its Samples are of one node's part of the device; on a shared
/// device they are of the whole device, told for any one node. A sample is of the mean number of
/// these operations that ran in its seconds, decided ones included. It reached the limit if
/// operations of the device, of whichever flow, waited there or for any node in all of its time.
///
/// *Activity* counts in strict only: what did not pass through the policy holds nothing.
class Policy {
 public:
  Policy();
  ~Policy();
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  /// Returns the id of the new device or flow (0, 1, 2, ...), or -EINVAL. Then `why` names the
  /// setting and its bounds. Devices and flows live as long as the policy.
  [[nodiscard]] int64_t add_device(const DeviceConfig& config, std::string& why);
  [[nodiscard]] int64_t add_flow(const FlowConfig& config, std::string& why);

  [[nodiscard]] size_t devices() const;
  [[nodiscard]] size_t flows() const;
  [[nodiscard]] const DeviceConfig& device(DeviceId id) const;
  [[nodiscard]] const FlowConfig& flow(FlowId id) const;

  /// Tells the policy what happened at `now_ns` (never decreasing) and appends what follows from
  /// it to `out`. Each event of an operation and each operation started costs amortised
  /// O(log flows + log nodes), without allocation once the peak was reached. NodeUp, NodeDown and
  /// DeviceUp cost O(devices + flows) and what the node held; a limit that changes costs O(nodes).
  /// Programmer errors (an unknown id, an operation told twice, an end before its start was
  /// decided, a node that lacks the device) are assertions.
  void on(const Event& event, uint64_t now_ns, std::vector<Decision>& out);

  /// Makes room for one more operation, for whoever must hear of memory that is out before Ready.
  /// May throw std::bad_alloc; nothing has changed then.
  void reserve_operation();

  /// Says whether on() may be told this event now, and if not, why. For drivers whose events come
  /// from outside: a log, another process, another language.
  [[nodiscard]] bool accepts(const Event& event, uint64_t now_ns, std::string& why) const;

  /// True where an operation of this flow never has to wait on a node that has the device. It holds
  /// none of a budget and does not climb, neither flow nor device has a max_in_flight, and no class
  /// above it could hold it back (it is foreground, or scheduling is not strict). The answer does
  /// not change as flows are added. The driver may then skip the policy, and owes a strict device
  /// Activity events instead.
  [[nodiscard]] bool unconstrained(FlowId id) const;

  [[nodiscard]] bool is_up(NodeId node) const;
  /// Whether this node is up and has the device, and how many such nodes there are. Where there is
  /// none, what is ready for any node waits for one.
  [[nodiscard]] bool has(NodeId node, DeviceId device) const;
  [[nodiscard]] uint64_t nodes_with(DeviceId device) const;

  /// Says why the flow's constraint is what it is. Costs a copy of what it remembers.
  [[nodiscard]] Explanation explain(FlowId id) const;

  /// What `auto` or `climb` has learned, for FlowConfig::learned of a later run; empty where
  /// nothing is known yet. Flows with `climb` share what their device has learned, and the first of
  /// them brings it.
  [[nodiscard]] std::string learned(FlowId id) const;

  /// Operations of all flows, and of one flow.
  [[nodiscard]] uint64_t waiting() const;
  [[nodiscard]] uint64_t running() const;
  [[nodiscard]] Counts flow_counts(FlowId id) const;
  /// Those of one class of a device that wait; those of all flows that run on a node, which is up.
  [[nodiscard]] uint64_t waiting(DeviceId device, Class priority) const;
  [[nodiscard]] uint64_t running_on(NodeId node) const;
  /// Whether Samples of the device matter now: operations with `climb` wait or run.
  [[nodiscard]] bool needs_samples(DeviceId id) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ioweave::policy
