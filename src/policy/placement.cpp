// Nodes, queues, and the operations that may run on any node.

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "policy/scheduler.hpp"

namespace ioweave::policy {
namespace {

constexpr int64_t kBelowLimit = 0;  ///< the value of Flow::below_limit where there is room

/// Positions are never reused; they are renumbered when most belong to nodes that are gone.
constexpr size_t kPositionsToSpare = 64;

uint64_t queue_key(FlowId flow, NodeId node) {
  return (uint64_t{flow} << 32) | node;
}

/// Whether some nodes may not take the flow's next operation whatever room there is. The rooms of a
/// device of scope node leave out nodes without it.
bool is_limited(const Flow& flow) {
  const Device& device = *flow.device;
  return flow.limit.at_once != Limit{}.at_once ||
         (device.shared != nullptr && !device.config.everywhere);
}

}  // namespace

// ---- Queues, turn takers and cells, opened when first used -------------------------------------

FlowQueue* Scheduler::find_queue(const Flow& flow, NodeId node) const noexcept {
  return queues_.find(queue_key(flow.id, node));
}

bool Scheduler::is_below_limit(const Flow& flow, const Node& node) const noexcept {
  const FlowQueue* const queue = find_queue(flow, node.id);
  return queue == nullptr || queue->is_below_limit();
}

FlowQueue& Scheduler::open_queue_on(Flow& flow, Node& node) {
  if (FlowQueue* const queue = find_queue(flow, node.id)) {
    return *queue;
  }
  FlowQueue& queue = make_queue(flow, &open_cell(*flow.device, node));
  queue.node = &node;
  node.queues.push_back(&queue);
  const bool is_new = queues_.insert(queue_key(flow.id, node.id), &queue);
  IOW_ASSERT(is_new);
  return queue;
}

FlowQueue& Scheduler::open_any_queue(Flow& flow) {
  if (flow.any_queue == nullptr) {
    flow.any_queue =
        &make_queue(flow, flow.home != nullptr ? flow.home : flow.device->shared.get());
    flow.device->places = flow.device->shared == nullptr;
  }
  return *flow.any_queue;
}

/// `cell` is null for operations that wait at the device.
FlowQueue& Scheduler::make_queue(Flow& flow, Cell* cell) {
  FlowQueue& queue = *queue_pool_.acquire();
  queue.flow = &flow;
  queue.taker = &open_taker(flow, cell);
  return queue;
}

TurnTaker* Scheduler::find_home_taker(const Flow& flow) noexcept {
  return flow.home_queue != nullptr ? flow.home_queue->taker : flow.shared_taker;
}

/// The flow's turn taker in this cell, or at the device.
TurnTaker& Scheduler::open_taker(Flow& flow, Cell* cell) {
  if (cell != nullptr && cell->node != nullptr) {
    const FlowQueue* const queue = find_queue(flow, cell->node->id);
    return queue != nullptr ? *queue->taker : make_taker(flow, cell);
  }
  TurnTaker*& taker = cell != nullptr ? flow.shared_taker : flow.placed_taker;
  if (taker == nullptr) {
    taker = &make_taker(flow, cell);
  }
  return *taker;
}

TurnTaker& Scheduler::make_taker(Flow& flow, Cell* cell) {
  TurnTaker& taker = *taker_pool_.acquire();
  taker.flow = &flow;
  taker.turns = cell != nullptr ? &cell->turns : &flow.device->placed;
  taker.cell = cell;
  taker.ring = flow.ring;
  auto& takers = taker.turns->takers[flow.ring];
  taker.slot = static_cast<uint32_t>(takers.size());
  takers.push_back(&taker);
  taker.held_back = LearningNodes::holds_back(taker);
  return taker;
}

Node::Use& Scheduler::open_use(const Device& device, Node& node) {
  if (node.uses.size() <= device.id) {
    node.uses.resize(device.id + 1);
  }
  return node.uses[device.id];
}

Cell& Scheduler::open_cell(Device& device, Node& node) {
  if (device.shared != nullptr) {
    return *device.shared;
  }
  Cell*& cell = open_use(device, node).cell;
  if (cell == nullptr) {
    cell = cell_pool_.acquire();
    cell->device = &device;
    cell->node = &node;
  }
  return *cell;
}

// ---- Where an operation for any node goes ------------------------------------------------------

/// Finds the first node, in order of NodeUp, where the flow's next operation for any node may start
/// now.
Node* Scheduler::find_first_node(Flow& flow) {
  Device& device = *flow.device;
  if (Cell* const cell = flow.any_queue->taker->cell) {
    Node* const node = find_node_in(flow, *cell);
    return node != nullptr && admits(*cell, *flow.any_queue) ? node : nullptr;
  }
  if (waits_above(device, flow.ring)) {
    device.held_back[flow.ring] = true;
    return nullptr;
  }
  build_rooms(device);
  build_below_limit(flow);
  const MinTree& rooms = device.rooms[flow.ring];
  uint32_t position = 0;
  for (;;) {
    position = rooms.find(position, -flow.limit.hold_bytes_per_s);
    if (position == MinTree::kNone) {
      return nullptr;
    }
    // Both trees have to agree on a position: each in turn moves on to its next one.
    const uint32_t agreed =
        is_limited(flow) ? flow.below_limit.find(position, kBelowLimit) : position;
    if (agreed == position) {
      return order_[position];
    }
    if (agreed == MinTree::kNone) {
      return nullptr;
    }
    position = agreed;
  }
}

/// Finds the node of this cell where the flow's next operation for any node goes, if its limit lets
/// it.
Node* Scheduler::find_node_in(Flow& flow, const Cell& cell) {
  if (cell.node == nullptr) {
    return find_first_below_limit(flow);
  }
  return is_below_limit(flow, *cell.node) ? cell.node : nullptr;
}

Node* Scheduler::find_first_below_limit(Flow& flow) {
  if (!is_limited(flow)) {
    return up_ == 0 ? nullptr : order_[first_up_];
  }
  build_below_limit(flow);
  const uint32_t position = flow.below_limit.find(0, kBelowLimit);
  return position == MinTree::kNone ? nullptr : order_[position];
}

/// Starts operations for any node wherever there is room.
void Scheduler::place_waiting(Device& device, unsigned ring, Decisions& out) {
  build_rooms(device);
  TurnRing& waiting_here = device.placed.rings[ring];
  for (;;) {
    const int64_t most_room = -device.rooms[ring].smallest();
    const uint32_t first = waiting_here.pick(most_room, most_room);
    uint32_t slot = first;
    Node* node = nullptr;
    while (slot != TurnRing::kNone) {
      node = find_first_node(*device.placed.takers[ring][slot]->first->flow);
      if (node != nullptr) {
        break;
      }
      slot = waiting_here.find_next(slot + 1, most_room);
      slot = slot == first ? TurnRing::kNone : slot;
    }
    if (node == nullptr) {
      return;
    }
    Flow& flow = *device.placed.takers[ring][slot]->first->flow;
    start_next(device.placed, ring, slot, open_queue_on(flow, *node), out);
  }
}

/// Strict: an operation of a higher class waits for any node, so no lower one may start on any.
bool Scheduler::waits_above(const Device& device, unsigned ring) noexcept {
  if (!device.is_strict() || device.placed.empty()) {
    return false;
  }
  const auto& rings = device.placed.rings;
  return std::any_of(rings.begin(), rings.begin() + ring,
                     [](const TurnRing& higher) { return !higher.empty(); });
}

void Scheduler::stall_cell(Cell& cell, unsigned ring) {
  if (!cell.stalled[ring]) {
    cell.stalled[ring] = true;
    cell.device->stalled[ring].push_back(&cell);
  }
}

/// Lets those go on whom operations for any node held back until now. Each was noted by an event of
/// its own, which pays for looking at it again.
void Scheduler::release_held_back(Device& device, Decisions& out) {
  while (device.places) {
    if (Cell* const cell = take_next_released(device)) {
      start_all_in(*cell, out);
      continue;
    }
    unsigned ring = 0;
    while (ring < kClasses && (!device.held_back[ring] || waits_above(device, ring))) {
      ++ring;
    }
    if (ring == kClasses) {
      return;
    }
    device.held_back[ring] = false;
    place_waiting(device, ring, out);
  }
}

Cell* Scheduler::take_next_released(Device& device) {
  for (unsigned ring = 0; ring < kClasses; ++ring) {
    Cell*& promised = device.promised[ring];
    if (promised != nullptr && !device.placed.rings[ring].is_closed()) {
      Cell* const cell = std::exchange(promised, nullptr);
      update_rooms(*cell);
      return cell;
    }
    std::vector<Cell*>& stalled = device.stalled[ring];
    if (!stalled.empty() && !waits_above(device, ring)) {
      Cell* const cell = stalled.back();
      stalled.pop_back();
      cell->stalled[ring] = false;
      return cell;
    }
  }
  return nullptr;
}

// ---- Trees over the nodes ----------------------------------------------------------------------

/// The room in a cell has changed.
void Scheduler::update_rooms(const Cell& cell) {
  Device& device = *cell.device;
  if (!device.rooms_built) {
    return;
  }
  for (unsigned ring = 0; ring < kClasses; ++ring) {
    const int64_t most = cell.keeps_out(ring) ? -1 : find_room(cell, ring).others;
    device.rooms[ring].set(cell.node->position, -most);
  }
}

/// A queue has reached its limit, or is below it again.
void Scheduler::update_below_limit(FlowQueue& queue) {
  Flow& flow = *queue.flow;
  if (flow.below_limit_built) {
    flow.below_limit.set(queue.node->position,
                         queue.is_below_limit() ? kBelowLimit : MinTree::kNothing);
  }
  relist_queue(queue);
  if (flow.any_queue != nullptr) {
    relist_queue(*flow.any_queue);
  }
}

void Scheduler::build_rooms(Device& device) {
  if (device.rooms_built) {
    return;
  }
  device.rooms_built = true;
  for (MinTree& tree : device.rooms) {
    tree.clear();
  }
  for (Node* const node : order_) {
    if (node != nullptr && node->has(device)) {
      add_to_rooms(device, *node);
    }
  }
}

void Scheduler::add_to_rooms(Device& device, Node& node) {
  Cell unused;
  unused.device = &device;
  unused.node = &node;
  Cell* const cell = open_use(device, node).cell;
  update_rooms(cell != nullptr ? *cell : unused);
}

void Scheduler::build_below_limit(Flow& flow) {
  if (flow.below_limit_built || !is_limited(flow)) {
    return;
  }
  flow.below_limit_built = true;
  flow.below_limit.clear();
  for (const Node* const node : order_) {
    if (node != nullptr && node->has(*flow.device) && is_below_limit(flow, *node)) {
      flow.below_limit.set(node->position, kBelowLimit);
    }
  }
}

// ---- Events of nodes ---------------------------------------------------------------------------

void Scheduler::hear_activity(const Activity& event, Decisions& out) {
  Device& device = devices[event.device];
  Node& node = find_node_with(device, event.node);
  Cell& cell = open_cell(device, node);
  const auto priority = static_cast<unsigned>(event.priority);
  uint32_t& told = open_use(device, node).active[priority];
  cell.active[priority] += event.in_flight;
  cell.active[priority] -= told;
  told = event.in_flight;
  update_rooms(cell);
  schedule_cell(cell, out);
}

void Scheduler::add_node(NodeId id, Decisions& out) {
  Node& node = *node_pool_.acquire();
  const bool is_new = nodes_.insert(id, &node);
  IOW_ASSERT(is_new);
  node.id = id;
  node.position = static_cast<uint32_t>(order_.size());
  order_.push_back(&node);
  ++up_;
  for (Device& device : devices) {
    if (device.config.everywhere) {
      give_device(device, node, out);
    }
  }
}

void Scheduler::hear_device_up(const DeviceUp& event, Decisions& out) {
  Device& device = devices[event.device];
  Node* const node = nodes_.find(event.node);
  IOW_ASSERT(node != nullptr && !node->has(device));
  open_use(device, *node).told = true;
  give_device(device, *node, out);
}

Node& Scheduler::find_node_with(const Device& device, NodeId id) {
  Node* const node = nodes_.find(id);
  IOW_ASSERT(node != nullptr && node->has(device));
  return *node;
}

bool Scheduler::has_device(NodeId id, const Device& device) const noexcept {
  const Node* const node = nodes_.find(id);
  return node != nullptr && node->has(device);
}

uint64_t Scheduler::count_running_on(NodeId id) const {
  uint64_t running_there = 0;
  for (const FlowQueue* const queue : nodes_.find(id)->queues) {
    running_there += queue->running_count;
  }
  return running_there;
}

/// The node has the device from now on.
void Scheduler::give_device(Device& device, Node& node, Decisions& out) {
  ++device.nodes;
  for (Flow* const flow : device.flows) {
    if (flow->limiter->is_learning() && flow->waits_for_any_node()) {
      learning_nodes_.hear_ready(*flow, nullptr);
    }
    if (flow->below_limit_built) {
      flow->below_limit.set(node.position, kBelowLimit);
    }
    if (flow->any_queue != nullptr) {
      relist_queue(*flow->any_queue);
    }
  }
  if (device.rooms_built) {
    add_to_rooms(device, node);
  }
  const bool is_home = open_use(device, node).cell != nullptr;
  if (device.shared != nullptr || !device.placed.empty() || is_home) {
    schedule_cell(open_cell(device, node), out);
  }
}

void Scheduler::remove_node(NodeId id, Decisions& out) {
  Node& node = *nodes_.find(id);
  learning_nodes_.leave_node(node);
  nodes_.erase(id);
  for (FlowQueue* const queue : node.queues) {
    close_queue(*queue);
  }
  remove_from_order(node);
  close_cells(node);
  node_pool_.release(&node);

  for (Flow& flow : flows) {
    if (flow.any_queue != nullptr) {
      relist_queue(*flow.any_queue);
    }
  }
  for (Device& device : devices) {
    if (device.climber != nullptr) {
      device.climber->node_down(id);
    }
    if (device.shared != nullptr) {
      schedule_cell(*device.shared, out);
    }
  }
  learning_nodes_.find_new_homes();
  for (const Flow& flow : flows) {
    if (flow.home != nullptr) {
      schedule_cell(*flow.home, out);
    }
  }
}

void Scheduler::close_queue(FlowQueue& queue) {
  while (Operation* const operation = queue.waiting.first()) {
    forget_operation(dequeue(queue, *operation));
  }
  relist_queue(queue);
  while (Operation* const operation = queue.running.first()) {
    if (operation->epoch != kNoEpoch) {
      queue.flow->limiter->count_end(operation->epoch, std::nullopt);
    }
    end_run(*operation);
    forget_operation(*operation);
  }
  if (queue.taker == queue.flow->shared_taker) {
    review_taker(*queue.taker);
  }
  queues_.erase(queue_key(queue.flow->id, queue.node->id));
  queue_pool_.release(&queue);
}

void Scheduler::remove_from_order(const Node& node) {
  order_[node.position] = nullptr;
  --up_;
  for (Device& device : devices) {
    device.nodes -= node.has(device) ? 1 : 0;
  }
  while (first_up_ < order_.size() && order_[first_up_] == nullptr) {
    ++first_up_;
  }
  for (Device& device : devices) {
    for (MinTree& rooms : device.rooms) {
      if (device.rooms_built) {
        rooms.set(node.position, MinTree::kNothing);
      }
    }
  }
  for (Flow& flow : flows) {
    if (flow.below_limit_built) {
      flow.below_limit.set(node.position, MinTree::kNothing);
    }
  }
  if (order_.size() > 2 * up_ + kPositionsToSpare) {
    renumber_nodes();
  }
}

void Scheduler::renumber_nodes() {
  std::erase(order_, nullptr);
  for (size_t i = 0; i < order_.size(); ++i) {
    order_[i]->position = static_cast<uint32_t>(i);
  }
  first_up_ = 0;
  for (Device& device : devices) {
    device.rooms_built = false;
  }
  for (Flow& flow : flows) {
    flow.below_limit_built = false;
  }
}

void Scheduler::close_cells(Node& node) {
  for (DeviceId id = 0; id < node.uses.size(); ++id) {
    const Node::Use& use = node.uses[id];
    if (Cell* const shared = devices[id].shared.get()) {
      for (unsigned i = 0; i < kClasses; ++i) {
        shared->active[i] -= use.active[i];
      }
    } else if (use.cell != nullptr) {
      close_cell(*use.cell);
    }
  }
}

void Scheduler::close_cell(Cell& cell) {
  for (unsigned ring = 0; ring < kClasses; ++ring) {
    for (TurnTaker* const taker : cell.turns.takers[ring]) {
      taker_pool_.release(taker);
    }
    if (cell.stalled[ring]) {
      std::erase(cell.device->stalled[ring], &cell);
    }
    if (cell.device->promised[ring] == &cell) {
      cell.device->promised[ring] = nullptr;  // The next that passes the holder gives its own.
    }
  }
  cell_pool_.release(&cell);
}

}  // namespace ioweave::policy
