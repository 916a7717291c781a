#pragma once

#include <optional>

#include "policy/limiter.hpp"

namespace ioweave::policy {

class Scheduler;
struct Cell;
struct Device;
struct Flow;
struct Node;
struct Operation;
struct TurnTaker;

/// Where flows learn whose limiter learns in epochs, and whom that keeps away: the rules of *auto*
/// in policy.hpp.
///
/// Such a flow has a *home* while it learns: on a device of scope node the cell of one node, else
/// the shared cell. Its epochs count there, and its operations for any node wait there as if they
/// were bound to it. It *claims* its home, and has it to itself, where it can.
///
/// The scheduler says what becomes ready, starts and ends. It is told to move a home, and which
/// turn takers to look at again since what holds them back has changed. One thread at a time.
class LearningNodes {
 public:
  explicit LearningNodes(Scheduler& scheduler) noexcept : scheduler_(scheduler) {}

  /// An operation of a flow that learns is about to wait or to start on `wanted`, or on any node
  /// (null). The home follows operations that are bound elsewhere when it has none itself, or the
  /// flow would learn nothing.
  void hear_ready(Flow& flow, Node* wanted);
  /// An operation starts in the home of its flow.
  void hear_start(Operation& operation);
  /// An operation that started in `epoch` has ended (`seconds` is empty where it failed), or one of
  /// no epoch has gone. A flow that has learned enough has no home after that.
  void hear_end(Flow& flow, EpochId epoch, std::optional<double> seconds);

  /// The node is about to go: epochs that are under way there begin again.
  void leave_node(const Node& node);
  /// A node is gone: flows that learned there go on elsewhere. Of flows that have all the nodes
  /// that are left to themselves, one gives its own up.
  void find_new_homes();

  /// Whether the epoch of its flow or another flow's claim keeps this taker from its turns.
  [[nodiscard]] static bool holds_back(const TurnTaker& taker) noexcept;

 private:
  [[nodiscard]] Node* pick_node(const Device& device, Node* wanted) const;
  void leave_home(Flow& flow);
  void claim_home(Flow& flow);
  void give_up_claim(Flow& flow);

  Scheduler& scheduler_;
};

}  // namespace ioweave::policy
