// Nodes, lanes, and the operations that may run on any node.

#include <algorithm>

#include "base/assert.hpp"
#include "policy/scheduler.hpp"

namespace ioweave::policy {
namespace {

constexpr int64_t kBelowLimit = 0;  ///< the value of Flow::below_limit where there is room

/// Positions are never reused; they are renumbered when most belong to nodes that are gone.
constexpr size_t kPositionsToSpare = 64;

uint64_t lane_key(FlowId flow, NodeId node) {
  return (uint64_t{flow} << 32) | node;
}

/// Of a flow with operations for any node.
bool is_limited(const Flow& flow) {
  return flow.any->limit.at_once != Limit{}.at_once;
}

}  // namespace

// ---- Lanes, streams and cells, opened when first used ------------------------------------------

Lane* Scheduler::find_lane(const Flow& flow, NodeId node) const noexcept {
  return lanes_.find(lane_key(flow.id, node));
}

bool Scheduler::below_limit(const Flow& flow, const Node& node) const noexcept {
  const Lane* const lane = find_lane(flow, node.id);
  return lane == nullptr || lane->below_limit();
}

Lane& Scheduler::lane_at(Flow& flow, Node& node) {
  if (Lane* const lane = find_lane(flow, node.id)) {
    return *lane;
  }
  Lane& lane = open_lane(flow, &cell_of(*flow.device, node));
  lane.node = &node;
  node.lanes.push_back(&lane);
  const bool is_new = lanes_.insert(lane_key(flow.id, node.id), &lane);
  IOW_ASSERT(is_new);
  return lane;
}

Lane& Scheduler::any_lane(Flow& flow) {
  if (flow.any == nullptr) {
    flow.any = &open_lane(flow, flow.device->shared.get());
  }
  return *flow.any;
}

/// `cell` is null for operations that wait at the device.
Lane& Scheduler::open_lane(Flow& flow, Cell* cell) {
  Lane& lane = *lane_pool_.acquire();
  lane.flow = &flow;
  lane.limit = flow.limiter->limit();
  if (flow.device->budget_bytes_per_s == 0) {
    lane.limit.hold_bytes_per_s = 0;  // Nothing to hold a part of.
  }
  const bool shared = flow.device->shared != nullptr;
  lane.stream = shared && flow.shared != nullptr ? flow.shared : &open_stream(flow, cell);
  flow.shared = shared ? lane.stream : nullptr;
  return lane;
}

Stream& Scheduler::open_stream(Flow& flow, Cell* cell) {
  Stream& stream = *stream_pool_.acquire();
  stream.queues = cell != nullptr ? &cell->queues : &flow.device->placed;
  stream.cell = cell;
  stream.ring = flow.ring;
  auto& streams = stream.queues->streams[flow.ring];
  stream.slot = static_cast<uint32_t>(streams.size());
  streams.push_back(&stream);
  return stream;
}

Node::Use& Scheduler::use_of(const Device& device, Node& node) {
  if (node.uses.size() <= device.id) {
    node.uses.resize(device.id + 1);
  }
  return node.uses[device.id];
}

Cell& Scheduler::cell_of(Device& device, Node& node) {
  if (device.shared != nullptr) {
    return *device.shared;
  }
  Cell*& cell = use_of(device, node).cell;
  if (cell == nullptr) {
    cell = cell_pool_.acquire();
    cell->device = &device;
    cell->node = &node;
  }
  return *cell;
}

// ---- Where an operation for any node goes ------------------------------------------------------

/// The first node, in order of NodeUp, where the flow's next operation for any node may start now.
Node* Scheduler::first_node(Flow& flow) {
  Device& device = *flow.device;
  if (device.shared != nullptr) {
    Node* const node = first_below_limit(flow);
    return node != nullptr && admits(*device.shared, *flow.any) ? node : nullptr;
  }
  build_rooms(device);
  build_below_limit(flow);
  const MinTree& rooms = device.rooms[flow.ring];
  uint32_t position = 0;
  for (;;) {
    position = rooms.find(position, -flow.any->limit.hold_bytes_per_s);
    if (position == MinTree::kNone) {
      return nullptr;
    }
    // Both trees have to agree on a position: each in turn moves on to its next one.
    const uint32_t agreed =
        is_limited(flow) ? flow.below_limit.find(position, kBelowLimit) : position;
    if (agreed == position && !pin_higher(cell_of(device, *order_[position]), flow.ring)) {
      return order_[position];
    }
    if (agreed == MinTree::kNone) {
      return nullptr;
    }
    position = agreed;  // After a pin the room here is gone, so the search goes on from here.
  }
}

Node* Scheduler::first_below_limit(Flow& flow) {
  if (!is_limited(flow)) {
    return up_ == 0 ? nullptr : order_[first_up_];
  }
  build_below_limit(flow);
  const uint32_t position = flow.below_limit.find(0, kBelowLimit);
  return position == MinTree::kNone ? nullptr : order_[position];
}

/// Starts what can be started of a flow's operations for any node.
void Scheduler::place(Flow& flow, Decisions& out) {
  Lane& lane = *flow.any;
  while (!lane.waiting.empty()) {
    Node* const node = first_node(flow);
    if (node == nullptr) {
      return;
    }
    run_next(*lane.stream->queues, flow.ring, lane.stream->slot, lane_at(flow, *node), out);
  }
}

/// Strict: an operation of a lower class is about to start in the cell. True where one of a higher
/// class waits for any node: that one is pinned to the cell, which keeps the lower one waiting.
bool Scheduler::pin_higher(Cell& cell, unsigned ring) {
  if (!cell.device->strict() || cell.device->placed.empty()) {
    return false;
  }
  for (unsigned higher = 0; higher < ring; ++higher) {
    if (!cell.device->placed.rings[higher].empty()) {
      pin_holder(cell, higher);
      return true;
    }
  }
  return false;
}

void Scheduler::pin_holder(Cell& cell, unsigned ring) {
  Queues& placed = cell.device->placed;
  const uint32_t slot = placed.rings[ring].holder();
  Lane& lane = *placed.streams[ring][slot]->first;
  Operation& operation = dequeue(lane, *lane.waiting.first());
  placed.rings[ring].served(slot);
  relist(lane);
  enqueue(operation, lane_at(*lane.flow, *cell.node));
}

// ---- Trees over the nodes ----------------------------------------------------------------------

/// The room in a cell has changed.
void Scheduler::touch(const Cell& cell) {
  Device& device = *cell.device;
  if (!device.rooms_built) {
    return;
  }
  for (unsigned ring = 0; ring < kClasses; ++ring) {
    device.rooms[ring].set(cell.node->position, -room(cell, ring).to_pass);
  }
}

/// A lane has reached its limit, or is below it again.
void Scheduler::limit_changed(Lane& lane) {
  Flow& flow = *lane.flow;
  if (flow.below_limit_built) {
    flow.below_limit.set(lane.node->position, lane.below_limit() ? kBelowLimit : MinTree::kNothing);
  }
  relist(lane);
  if (flow.any != nullptr) {
    relist(*flow.any);
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
    if (node != nullptr) {
      add_to_rooms(device, *node);
    }
  }
}

void Scheduler::add_to_rooms(Device& device, Node& node) {
  Cell unused;
  unused.device = &device;
  unused.node = &node;
  Cell* const cell = use_of(device, node).cell;
  touch(cell != nullptr ? *cell : unused);
}

void Scheduler::build_below_limit(Flow& flow) {
  if (flow.below_limit_built || !is_limited(flow)) {
    return;
  }
  flow.below_limit_built = true;
  flow.below_limit.clear();
  for (const Node* const node : order_) {
    if (node != nullptr && below_limit(flow, *node)) {
      flow.below_limit.set(node->position, kBelowLimit);
    }
  }
}

// ---- Events of nodes ---------------------------------------------------------------------------

void Scheduler::activity(const Activity& event, Decisions& out) {
  Device& device = devices[event.device];
  Node& node = *nodes_.find(event.node);
  Cell& cell = cell_of(device, node);
  const auto priority = static_cast<unsigned>(event.priority);
  uint32_t& told = use_of(device, node).active[priority];
  cell.active[priority] += event.in_flight;
  cell.active[priority] -= told;
  told = event.in_flight;
  touch(cell);
  schedule(cell, out);
}

void Scheduler::node_up(NodeId id, Decisions& out) {
  Node& node = *node_pool_.acquire();
  const bool is_new = nodes_.insert(id, &node);
  IOW_ASSERT(is_new);
  node.id = id;
  node.position = static_cast<uint32_t>(order_.size());
  order_.push_back(&node);
  ++up_;
  for (Flow& flow : flows) {
    if (flow.below_limit_built) {
      flow.below_limit.set(node.position, kBelowLimit);
    }
    if (flow.any != nullptr) {
      relist(*flow.any);
    }
  }
  for (Device& device : devices) {
    if (device.rooms_built) {
      add_to_rooms(device, node);
    }
    if (device.shared != nullptr || !device.placed.empty()) {
      schedule(cell_of(device, node), out);
    }
  }
}

void Scheduler::node_down(NodeId id, Decisions& out) {
  Node& node = *nodes_.erase(id);
  std::vector<Flow*> displaced;
  for (Lane* const lane : node.lanes) {
    close_lane(*lane, displaced);
  }
  remove_from_order(node);
  close_cells(node);
  node_pool_.release(&node);

  for (Flow& flow : flows) {
    if (flow.any != nullptr) {
      relist(*flow.any);
    }
  }
  for (Device& device : devices) {
    if (device.shared != nullptr) {
      schedule(*device.shared, out);
    }
  }
  for (Flow* const flow : displaced) {
    place(*flow, out);
  }
}

/// Forgets the lane's operations, except those that were ready for any node and still wait: to
/// their driver they are not on this node.
void Scheduler::close_lane(Lane& lane, std::vector<Flow*>& displaced) {
  Flow& flow = *lane.flow;
  bool some_displaced = false;
  while (Operation* const operation = lane.waiting.last()) {
    if (operation->any_node) {
      lane.waiting.remove(*operation);
      operation->lane = flow.any;
      flow.any->waiting.push_front(*operation);  // It came before those that wait there.
      some_displaced = true;
    } else {
      forget(dequeue(lane, *operation));
    }
  }
  relist(lane);
  while (Operation* const operation = lane.running.first()) {
    leave(*operation);
    forget(*operation);
  }
  if (some_displaced) {
    displaced.push_back(&flow);
  }
  lanes_.erase(lane_key(flow.id, lane.node->id));
  lane_pool_.release(&lane);
}

void Scheduler::remove_from_order(const Node& node) {
  order_[node.position] = nullptr;
  --up_;
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
    renumber();
  }
}

void Scheduler::renumber() {
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
      for (const auto& streams : use.cell->queues.streams) {
        for (Stream* const stream : streams) {
          stream_pool_.release(stream);
        }
      }
      cell_pool_.release(use.cell);
    }
  }
}

}  // namespace ioweave::policy
