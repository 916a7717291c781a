// Limits that change under way, and what moves with the home of a flow that learns.

#include <algorithm>

#include "base/assert.hpp"
#include "policy/scheduler.hpp"

namespace ioweave::policy {
namespace {

/// Rounded up; of a shared device all are one node's.
uint64_t divide_by_nodes(const Flow& flow, uint64_t operations) {
  const uint64_t nodes = flow.device->shared != nullptr ? 1 : std::max(1u, flow.device->nodes);
  return (operations + nodes - 1) / nodes;
}

}  // namespace

// ---- What limiters are told --------------------------------------------------------------------

/// Before the operation that became ready is tried. True where the limit changed: others of the
/// flow may go first then.
bool Scheduler::adapt_to_ready(Flow& flow, NodeId node, Decisions& out) {
  flow.limiter->hear_waiting(divide_by_nodes(flow, flow.waiting + 1), now_ns);
  if (flow.limiter->is_learning()) {
    learning_nodes_.hear_ready(flow, node == kAnyNode ? nullptr : nodes_.find(node));
  }
  return take_limit(flow, out);
}

/// After the operation has left its cell, which the caller schedules.
void Scheduler::adapt_to_end(Flow& flow, EpochId epoch, std::optional<double> seconds,
                             Decisions& out) {
  Cell* const home = flow.home;
  learning_nodes_.hear_end(flow, epoch, seconds);
  if (home == nullptr) {
    return;
  }
  const bool learns_on = flow.home != nullptr;
  if (!learns_on && flow.waiting > 0) {
    // What it has learned is for those that wait already: nobody else may ever come.
    flow.limiter->hear_waiting(divide_by_nodes(flow, flow.waiting), now_ns);
  }
  const bool changed = take_limit(flow, out);
  schedule_cell(*home, out);
  if (changed || !learns_on) {
    schedule_flow(flow, out);
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
/// keep no more than the ones that join them. Where it falls they keep what they have. On a device
/// without a budget it is nobody else's, and there they take as much as the new ones: else more
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

// ---- For LearningNodes -------------------------------------------------------------------------

/// The flow learns on the node `to` from now on; null: no more. What it has for any node waits
/// there, or at the device again.
void Scheduler::move_home(Flow& flow, Node* to) {
  TurnTaker* taker = find_home_taker(flow);
  flow.home_queue = to == nullptr ? nullptr : &open_queue_on(flow, *to);
  if (to != nullptr) {
    taker = flow.home_queue->taker;
  }
  flow.home = to == nullptr ? nullptr : taker->cell;
  if (taker != nullptr) {
    review_taker(*taker);
  }
  if (flow.any_queue != nullptr && flow.device->shared == nullptr) {
    move_any_queue(flow, to == nullptr ? open_taker(flow, nullptr) : *taker);
  }
}

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

void Scheduler::review_home_taker(Flow& flow) {
  review_taker(*find_home_taker(flow));
}

void Scheduler::review_takers(Cell& cell) {
  for (const auto& takers : cell.turns.takers) {
    for (TurnTaker* const taker : takers) {
      review_taker(*taker);
    }
  }
  update_rooms(cell);
}

void Scheduler::review_taker(TurnTaker& taker) {
  taker.held_back = LearningNodes::holds_back(taker);
  offer_taker(taker);
}

void Scheduler::explain(const Flow& flow, Explanation& out) const {
  flow.limiter->explain(out);
  out.flow = flow.config.name;
  out.device = flow.device->config.name;
  out.limit = flow.told_limit;
  out.nodes = flow.device->nodes;
  if (flow.home != nullptr && flow.home->node != nullptr) {
    out.learning_node = flow.home->node->id;
    out.keeps_others_out = flow.home->claimed_by == &flow;
  }
}

}  // namespace ioweave::policy
