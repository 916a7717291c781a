#include "policy/learning_nodes.hpp"

#include <algorithm>

#include "policy/scheduler.hpp"

namespace ioweave::policy {
namespace {

bool is_busy_at_home(const Flow& flow) {
  const FlowQueue& queue = *flow.home_queue;
  return queue.running_count > 0 || !queue.waiting.empty() || flow.waits_for_any_node();
}

}  // namespace

// ---- Events ------------------------------------------------------------------------------------

void LearningNodes::hear_ready(Flow& flow, Node* wanted) {
  if (flow.device->shared != nullptr) {
    return;
  }
  const bool is_elsewhere = flow.home != nullptr && wanted != nullptr && flow.home->node != wanted;
  if (flow.home == nullptr || (is_elsewhere && !is_busy_at_home(flow))) {
    Node* const node = pick_node(*flow.device, wanted);
    if (node == nullptr) {
      return;
    }
    if (flow.home != nullptr) {
      leave_home(flow);
    }
    scheduler_.move_home(flow, node);
    ++flow.home->homes;
  }
  if (wanted == nullptr || wanted == flow.home->node) {
    claim_home(flow);
  }
}

void LearningNodes::hear_start(Operation& operation) {
  Flow& flow = *operation.flow;
  operation.epoch = flow.limiter->count_start();
  if (flow.limiter->is_epoch_full()) {
    scheduler_.review_home_taker(flow);
  }
}

void LearningNodes::hear_end(Flow& flow, EpochId epoch, std::optional<double> seconds) {
  if (epoch != kNoEpoch) {
    flow.limiter->count_end(epoch, seconds);
  }
  if (flow.home == nullptr) {
    return;
  }
  if (!flow.limiter->is_learning()) {
    leave_home(flow);
    return;
  }
  scheduler_.review_home_taker(flow);
  if (flow.home->claimed_by == &flow &&
      !(is_busy_at_home(flow) && flow.limiter->wants_own_node())) {
    give_up_claim(flow);
  }
}

void LearningNodes::leave_node(const Node& node) {
  for (Flow& flow : scheduler_.flows) {
    if (flow.home != nullptr && flow.home->node == &node) {
      leave_home(flow);
      flow.limiter->begin_epoch_again();
    }
  }
}

void LearningNodes::find_new_homes() {
  for (Flow& flow : scheduler_.flows) {
    if (!flow.limiter->is_learning() || flow.device->shared != nullptr) {
      continue;
    }
    if (flow.home == nullptr && flow.waits_for_any_node()) {
      hear_ready(flow, nullptr);
    }
    if (flow.home != nullptr && flow.device->claims == flow.device->nodes) {
      give_up_claim(flow);
    }
  }
}

// ---- Homes and claims --------------------------------------------------------------------------

/// A node where nobody learns yet, the wanted one or else the first in order of NodeUp; failing
/// that, one that nobody has claimed, which there always is where any node has the device.
Node* LearningNodes::pick_node(const Device& device, Node* wanted) const {
  Node* second_best = nullptr;
  const auto consider = [&](Node* node) {
    if (node == nullptr || !node->has(device)) {
      return false;
    }
    const Cell* const cell = node->find_cell(device);
    if (cell == nullptr || cell->claimed_by == nullptr) {
      second_best = second_best == nullptr ? node : second_best;
    }
    return cell == nullptr || cell->homes == 0;
  };
  if (consider(wanted)) {
    return wanted;
  }
  const std::vector<Node*>& nodes = scheduler_.nodes_in_order();
  const auto found = std::find_if(nodes.begin(), nodes.end(), consider);
  return found != nodes.end() ? *found : second_best;
}

void LearningNodes::leave_home(Flow& flow) {
  give_up_claim(flow);
  flow.home->homes -= flow.home->node != nullptr ? 1 : 0;
  scheduler_.move_home(flow, nullptr);
}

/// Claims the home where operations of others can go elsewhere.
void LearningNodes::claim_home(Flow& flow) {
  Cell& home = *flow.home;
  Device& device = *flow.device;
  if (home.claimed_by != nullptr || home.homes > 1 || !flow.limiter->wants_own_node() ||
      device.nodes < device.claims + 2) {
    return;
  }
  home.claimed_by = &flow;
  ++device.claims;
  for (Cell*& promised : device.promised) {
    promised = promised == &home ? nullptr : promised;  // The next that passes gives its own.
  }
  scheduler_.review_takers(home);
}

void LearningNodes::give_up_claim(Flow& flow) {
  if (flow.home->claimed_by == &flow) {
    flow.home->claimed_by = nullptr;
    --flow.device->claims;
    scheduler_.review_takers(*flow.home);
  }
}

bool LearningNodes::holds_back(const TurnTaker& taker) noexcept {
  const Flow& flow = *taker.flow;
  const Cell* const cell = taker.cell;
  if (cell == nullptr) {
    return false;
  }
  if (flow.home == cell && flow.limiter->is_epoch_full()) {
    return true;
  }
  return cell->keeps_out(flow.ring) && cell->claimed_by != &flow && !flow.unconstrained;
}

}  // namespace ioweave::policy
