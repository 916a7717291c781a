// Limits that change under way, and where flows learn.

#include <algorithm>

#include "base/assert.hpp"
#include "policy/scheduler.hpp"

namespace ioweave::policy {

// ---- What limiters are told --------------------------------------------------------------------

/// Rounded up; of a shared device all are one node's.
uint64_t Scheduler::divide_by_nodes(const Flow& flow, uint64_t operations) const {
  const uint64_t nodes = flow.device->shared != nullptr ? 1 : std::max(1u, flow.device->nodes);
  return (operations + nodes - 1) / nodes;
}

/// Before the operation that became ready is tried. True where the limit changed: others of the
/// flow may go first then.
bool Scheduler::adapt_to_ready(Flow& flow, NodeId node, Decisions& out) {
  flow.limiter->waiting(divide_by_nodes(flow, flow.waiting + 1), now_ns);
  if (flow.limiter->learning()) {
    settle_home(flow, node);
  }
  return take_limit(flow, out);
}

/// After the operation has left its cell, which the caller schedules.
void Scheduler::adapt_to_end(Flow& flow, EpochId epoch, std::optional<double> seconds,
                             Decisions& out) {
  if (epoch != kNoEpoch) {
    flow.limiter->ended(epoch, seconds);
  }
  if (Cell* const home = flow.home) {
    const bool learns_on = flow.limiter->learning();
    learns_on ? review_home(flow) : leave_home(flow);
    if (!learns_on && flow.waiting > 0) {
      // What it has learned is for those that wait already: nobody else may ever come.
      flow.limiter->waiting(divide_by_nodes(flow, flow.waiting), now_ns);
    }
    const bool changed = take_limit(flow, out);
    schedule_cell(*home, out);
    if (changed || !learns_on) {
      schedule_flow(flow, out);
    }
  }
}

/// An operation starts in its flow's home.
void Scheduler::count_start(Operation& operation) {
  Limiter& limiter = *operation.queue->flow->limiter;
  operation.epoch = limiter.started();
  if (limiter.epoch_full()) {
    review_taker(*operation.queue->taker);
  }
}

void Scheduler::hear_sample(const Sample& event, Decisions& out) {
  Device& device = devices[event.device];
  Node& node = find_node_with(device, event.node);
  if (device.climber == nullptr) {
    return;
  }
  Cell& cell = open_cell(device, node);
  const Climbing seen = cell.climbing.end_sample(event, cell.waiting, device.waiting_anywhere,
                                                 device.climbing_since_ns, now_ns);
  device.climber->sample(event, seen, now_ns);
  take_limits(device, out);
}

/// Before the operation leaves its cell. True where the limit of the device's climber changed.
bool Scheduler::tell_climber(const Flow& flow, Cell& cell, const Finished& finished) {
  cell.climbing.ended(finished.bytes);
  return flow.device->climber->ended({.seconds = finished.seconds,
                                      .bytes = finished.bytes,
                                      .running = cell.climbing.running(),
                                      .node = cell.node == nullptr ? 0 : cell.node->id,
                                      .others_wait = flow.waiting > 0,
                                      .now_ns = now_ns});
}

void Scheduler::take_limits(const Device& device, Decisions& out) {
  bool changed = false;
  for (Flow* const flow : device.climbing) {
    changed |= take_limit(*flow, out);
  }
  for (Flow* const flow : device.climbing) {
    if (changed) {
      schedule_flow(*flow, out);
    }
  }
}

// ---- A limit that changed ----------------------------------------------------------------------

/// Makes the limiter's limit the flow's; true where it changed. The caller then schedules.
bool Scheduler::take_limit(Flow& flow, Decisions& out) {
  const Limit before = flow.limit;
  flow.limit = flow.limiter->limit();
  if (flow.limit == before) {
    return false;
  }
  if (const uint32_t told = flow.limiter->told_limit(); told != flow.told_limit) {
    flow.told_limit = told;
    out.emplace_back(SetLimit{flow.id, told});
  }
  flow.below_limit_built = flow.below_limit_built && flow.limit.at_once == before.at_once;
  if (flow.climbs || flow.waiting_bound > 0) {
    for (const Node* const node : order_) {
      FlowQueue* const queue = node == nullptr ? nullptr : find_queue(flow, node->id);
      if (queue != nullptr) {
        adjust_held(*queue);
        relist_queue(*queue);
        offer_taker(*queue->taker);
      }
    }
  }
  if (flow.any_queue != nullptr) {
    relist_queue(*flow.any_queue);
    offer_taker(*flow.any_queue->taker);
  }
  return true;
}

/// `climb` may change its limit long before the operations that run have ended. Where it rises they
/// keep no more than the ones that join them. Where it falls they keep what they have, but on a
/// device without a budget, where it is nobody else's, take as much as the new ones: else more
/// would run than the limit says until the last of them has ended.
void Scheduler::adjust_held(FlowQueue& queue) {
  if (!queue.flow->climbs) {
    return;
  }
  const bool may_take = queue.flow->device->config.budget_mb_per_s == 0;
  const int64_t hold = queue.flow->limit.hold_bytes_per_s;
  for (Operation* operation = queue.running.first(); operation != nullptr;
       operation = operation->next) {
    if (operation->hold_bytes_per_s > hold || may_take) {
      queue.taker->cell->held_bytes_per_s += hold - operation->hold_bytes_per_s;
      operation->hold_bytes_per_s = hold;
    }
  }
  update_rooms(*queue.taker->cell);
}

/// Starts what can be started after the flow's limit, or where it waits, has changed.
void Scheduler::schedule_flow(Flow& flow, Decisions& out) {
  Device& device = *flow.device;
  if (device.shared != nullptr) {
    schedule_cell(*device.shared, out);
    return;
  }
  if (flow.home != nullptr) {
    schedule_cell(*flow.home, out);
  }
  if (Cell* const promised = device.promised[flow.ring]) {
    schedule_cell(*promised, out);
  }
  if (flow.climbs || flow.waiting_bound > 0) {
    for (Node* const node : order_) {
      if (node != nullptr && find_queue(flow, node->id) != nullptr) {
        schedule_cell(open_cell(device, *node), out);
      }
    }
  }
  if (!device.placed.empty()) {
    place_waiting(device, flow.ring, out);
    release_held_back(device, out);
  }
}

// ---- Where a flow learns -----------------------------------------------------------------------

/// A node where nobody learns yet, the wanted one or else the first in order of NodeUp; failing
/// that, one that no learner has to itself, which there always is where any node has the device.
Node* Scheduler::pick_home(Device& device, NodeId wanted) {
  Node* second_best = nullptr;
  const auto consider = [&](Node* node) {
    if (node == nullptr || !has_device(*node, device)) {
      return false;
    }
    const Cell* const cell = open_use(device, *node).cell;
    if (cell == nullptr || cell->learner == nullptr) {
      second_best = second_best == nullptr ? node : second_best;
    }
    return cell == nullptr || cell->homes == 0;
  };
  if (Node* const node = wanted == kAnyNode ? nullptr : nodes_.find(wanted); consider(node)) {
    return node;
  }
  const auto found = std::find_if(order_.begin(), order_.end(), consider);
  return found != order_.end() ? *found : second_best;
}

bool Scheduler::busy_at_home(const Flow& flow) const {
  const FlowQueue* const queue = find_queue(flow, flow.home->node->id);
  return queue->running_count > 0 || !queue->waiting.empty() ||
         (flow.any_queue != nullptr && !flow.any_queue->waiting.empty());
}

/// An operation of a flow that learns is about to wait or start on `wanted`, or on any node. The
/// home follows operations that are bound elsewhere when it has none itself, or it would learn
/// nothing.
void Scheduler::settle_home(Flow& flow, NodeId wanted) {
  if (flow.device->shared != nullptr) {
    return;
  }
  const bool elsewhere =
      flow.home != nullptr && wanted != kAnyNode && flow.home->node->id != wanted;
  if (flow.home == nullptr || (elsewhere && !busy_at_home(flow))) {
    Node* const node = pick_home(*flow.device, wanted);
    if (node == nullptr) {
      return;
    }
    if (flow.home != nullptr) {
      leave_home(flow);
    }
    enter_home(flow, *node);
  }
  if (wanted == kAnyNode || wanted == flow.home->node->id) {
    claim(flow);
  }
}

void Scheduler::enter_home(Flow& flow, Node& node) {
  FlowQueue& queue = open_queue_on(flow, node);
  flow.home = queue.taker->cell;
  ++flow.home->homes;
  review_taker(*queue.taker);
  if (flow.any_queue != nullptr) {
    move_any_queue(flow, *queue.taker);
  }
}

void Scheduler::leave_home(Flow& flow) {
  Cell& home = *flow.home;
  give_up_claim(flow);
  flow.home = nullptr;
  if (home.node == nullptr) {
    if (flow.shared_taker != nullptr) {
      review_taker(*flow.shared_taker);
    }
    return;
  }
  --home.homes;
  review_taker(*find_queue(flow, home.node->id)->taker);
  if (flow.any_queue != nullptr) {
    move_any_queue(flow, open_taker(flow, nullptr));
  }
}

/// The node goes down.
void Scheduler::leave_homes_at(const Node& node) {
  for (Flow& flow : flows) {
    if (flow.home != nullptr && flow.home->node == &node) {
      leave_home(flow);
      flow.limiter->begin_epoch_again();
    }
  }
}

/// A node is gone: flows that learned there go on elsewhere, and of flows that have the nodes that
/// are left to themselves, one gives its own up.
void Scheduler::review_homes(Decisions& out) {
  for (Flow& flow : flows) {
    if (!flow.limiter->learning() || flow.device->shared != nullptr) {
      continue;
    }
    if (flow.home == nullptr && flow.any_queue != nullptr && !flow.any_queue->waiting.empty()) {
      settle_home(flow, kAnyNode);
    }
    if (flow.home != nullptr && flow.device->learners == flow.device->nodes) {
      give_up_claim(flow);
    }
  }
  for (Flow& flow : flows) {
    if (flow.home != nullptr) {
      schedule_cell(*flow.home, out);
    }
  }
}

/// Where operations for any node wait: in the home, or at the device.
void Scheduler::move_any_queue(Flow& flow, TurnTaker& to) {
  FlowQueue& any = *flow.any_queue;
  if (any.listed) {
    any.listed = false;
    unlink_queue(any);
    offer_taker(*any.taker);
  }
  any.taker = &to;
  relist_queue(any);
}

/// After an end or a cancellation.
void Scheduler::review_home(Flow& flow) {
  Cell& home = *flow.home;
  if (home.node == nullptr) {
    review_taker(*flow.shared_taker);
    return;
  }
  review_taker(*find_queue(flow, home.node->id)->taker);
  if (!busy_at_home(flow) || !flow.limiter->wants_own_node()) {
    give_up_claim(flow);
  }
}

/// Has the home to itself from now on, where somebody else's operations can go elsewhere.
void Scheduler::claim(Flow& flow) {
  Cell& home = *flow.home;
  Device& device = *flow.device;
  if (home.learner != nullptr || home.homes > 1 || !flow.limiter->wants_own_node() ||
      device.nodes < device.learners + 2) {
    return;
  }
  home.learner = &flow;
  ++device.learners;
  for (Cell*& promised : device.promised) {
    promised = promised == &home ? nullptr : promised;  // The next that passes gives its own.
  }
  review_takers(home);
}

void Scheduler::give_up_claim(Flow& flow) {
  if (flow.home->learner == &flow) {
    flow.home->learner = nullptr;
    --flow.device->learners;
    review_takers(*flow.home);
  }
}

/// Operations for any node of this class stay away.
bool Scheduler::keeps_out(const Cell& cell, unsigned ring) noexcept {
  return cell.learner != nullptr && !(cell.device->strict() && ring < cell.learner->ring);
}

bool Scheduler::is_held_back(const TurnTaker& taker) noexcept {
  const Flow& flow = *taker.flow;
  const Cell* const cell = taker.cell;
  if (cell == nullptr) {
    return false;
  }
  if (flow.home == cell && flow.limiter->epoch_full()) {
    return true;
  }
  return keeps_out(*cell, flow.ring) && cell->learner != &flow && !flow.unconstrained;
}

void Scheduler::review_taker(TurnTaker& taker) {
  taker.held_back = is_held_back(taker);
  offer_taker(taker);
}

void Scheduler::review_takers(Cell& cell) {
  for (const auto& takers : cell.turns.takers) {
    for (TurnTaker* const taker : takers) {
      review_taker(*taker);
    }
  }
  update_rooms(cell);
}

void Scheduler::explain(const Flow& flow, Explanation& out) const {
  flow.limiter->explain(out);
  out.flow = flow.config.name;
  out.device = flow.device->config.name;
  out.limit = flow.told_limit;
  out.nodes = flow.device->nodes;
  if (flow.home != nullptr && flow.home->node != nullptr) {
    out.learning_node = flow.home->node->id;
    out.keeps_others_out = flow.home->learner == &flow;
  }
}

}  // namespace ioweave::policy
