// The rules of a cell: what may start in it, in which order, and what a start or an end changes.
// Nodes and operations for any node are in placement.cpp.

#include "policy/scheduler.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/assert.hpp"

namespace ioweave::policy {
namespace {

constexpr int64_t kUnlimitedRoom = MinTree::kNothing - 1;

/// Lag is counted in bytes x kLagOfWeightOne / weight. An operation without bytes (an fsync) still
/// costs its share; one of more than 64 GiB counts as 64 GiB, which keeps 16 of them in 62 bits.
constexpr uint64_t kLagOfWeightOne = uint64_t{1} << 22;
constexpr uint64_t kLeastChargedBytes = 4096;
constexpr uint64_t kMostChargedBytes = uint64_t{1} << 36;

/// Who starts because others, though their turn, do not fit owes them at most this many of its own
/// operations: it kept the device busy and took nothing that they could have used.
constexpr uint64_t kMostOwed = 16;

bool waits(const Cell& cell, unsigned ring) {
  return !cell.turns.rings[ring].empty() || !cell.device->placed.rings[ring].empty();
}

bool nobody_waits(const Cell& cell) {
  return cell.turns.empty() && cell.device->placed.empty();
}

void add_climber(Flow& flow) {
  Device& device = *flow.device;
  device.climbing.push_back(&flow);
  if (device.climber != nullptr) {
    return;
  }
  device.climber = std::make_unique<Climber>(device.config);
  device.climber->begin_with(flow.config.learned);
  if (device.budget_bytes_per_s == 0) {
    device.budget_bytes_per_s = ClimbConstraint::kNominalBudget;  // Others hold nothing of it.
    device.rooms_built = false;
  }
}

/// The order in which classes are asked. Weighted: first one that has closed the cell until it has
/// been served, then who is furthest behind its share.
std::array<unsigned, kClasses> order_rings(const Cell& cell) {
  std::array<unsigned, kClasses> order{0, 1, 2};
  if (cell.device->is_weighted()) {
    const auto rank = [&](unsigned ring) {
      return std::tuple(!cell.turns.rings[ring].is_closed(), cell.lag[ring], ring);
    };
    std::sort(order.begin(), order.end(),
              [&](unsigned a, unsigned b) { return rank(a) < rank(b); });
  }
  return order;
}

/// Start-time fair queueing: lag is kept relative to the class that is furthest behind among those
/// that wait, so a class that was away comes back without credit.
void charge_class(Cell& cell, unsigned ring, uint64_t bytes) {
  const uint64_t cost =
      std::clamp(bytes, kLeastChargedBytes, kMostChargedBytes) * cell.device->stride[ring];
  uint64_t& mine = cell.lag[ring];
  mine = std::max(mine, std::min(mine + cost, kMostOwed * cost));
  uint64_t behind = std::numeric_limits<uint64_t>::max();
  for (unsigned r = 0; r < kClasses; ++r) {
    behind = waits(cell, r) ? std::min(behind, cell.lag[r]) : behind;
  }
  for (uint64_t& lag : cell.lag) {
    lag -= std::min(lag, behind);
  }
}

/// Finds where an operation of the queue counts while it waits, wherever its flow learns.
Backlog& find_backlog(const FlowQueue& queue) noexcept {
  Device& device = *queue.flow->device;
  const bool is_anywhere = queue.node == nullptr && device.shared == nullptr;
  return is_anywhere ? device.waiting_anywhere : queue.taker->cell->waiting;
}

void link_queue(FlowQueue& queue) {
  FlowQueue*& first = queue.taker->first;
  if (first == nullptr) {
    first = queue.next = queue.previous = &queue;
    return;
  }
  queue.next = first;
  queue.previous = first->previous;
  queue.previous->next = first->previous = &queue;
}

}  // namespace

void OperationList::push_back(Operation& operation) noexcept {
  operation.previous = last_;
  operation.next = nullptr;
  (last_ == nullptr ? first_ : last_->next) = &operation;
  last_ = &operation;
}

void OperationList::remove(Operation& operation) noexcept {
  (operation.previous == nullptr ? first_ : operation.previous->next) = operation.next;
  (operation.next == nullptr ? last_ : operation.next->previous) = operation.previous;
}

// ---- Configuration -----------------------------------------------------------------------------

DeviceId Scheduler::add_device(const DeviceConfig& config) {
  Device& device = devices.emplace_back();
  device.config = config;
  device.id = static_cast<DeviceId>(devices.size() - 1);
  device.budget_bytes_per_s = budget_bytes_per_s(config.budget_mb_per_s);
  device.slots = config.max_in_flight;
  device.nodes = config.everywhere ? static_cast<uint32_t>(up_) : 0;
  for (unsigned i = 0; i < kClasses; ++i) {
    device.stride[i] = kLagOfWeightOne / config.weights[i];
  }
  if (config.scope == Scope::shared) {
    device.shared = std::make_unique<Cell>();
    device.shared->device = &device;
  }
  return device.id;
}

FlowId Scheduler::add_flow(const FlowConfig& config) {
  Flow& flow = flows.emplace_back();
  flow.config = config;
  flow.id = static_cast<FlowId>(flows.size() - 1);
  flow.device = &devices[config.device];
  flow.device->flows.push_back(&flow);
  flow.priority = static_cast<unsigned>(config.priority);
  flow.ring = flow.device->config.scheduling == Scheduling::none ? 0 : flow.priority;
  flow.climbs = config.constraint.kind == Constraint::Kind::climb;
  if (flow.climbs) {
    add_climber(flow);
  }
  flow.limiter = make_limiter(config, flow.device->config, flow.device->climber.get());
  flow.limit = flow.limiter->limit();
  flow.told_limit = flow.limiter->told_limit();
  flow.adapts = flow.limiter->adapts();
  flow.home = flow.limiter->is_learning() ? flow.device->shared.get() : nullptr;
  const Device& device = *flow.device;
  flow.unconstrained = flow.limit.hold_bytes_per_s == 0 && device.slots == 0 &&
                       config.max_in_flight == 0 && !flow.climbs &&
                       (!device.is_strict() || flow.priority == 0);
  return flow.id;
}

// ---- Events of operations ----------------------------------------------------------------------

void Scheduler::hear_ready(const Ready& event, Decisions& out) {
  Flow& flow = flows[event.flow];
  Operation& operation = *operation_pool_.acquire();
  const bool is_new = operations_.insert(event.operation, &operation);
  IOW_ASSERT(is_new);
  operation.id = event.operation;
  operation.flow = &flow;
  operation.bytes = event.bytes;
  if (flow.climbs && flow.device->climbing_known++ == 0) {
    flow.device->climbing_since_ns = now_ns;
  }
  const bool retuned = flow.adapts && adapt_to_ready(flow, event.node, out);

  FlowQueue* waits_in = nullptr;
  FlowQueue* runs_in = nullptr;
  if (event.node == kAnyNode) {
    waits_in = &open_any_queue(flow);
    const bool is_next = waits_in->waiting.empty() && !retuned;
    Node* const node = is_next ? find_first_node(flow) : nullptr;
    runs_in = node == nullptr ? nullptr : &open_queue_on(flow, *node);
  } else {
    waits_in = find_queue(flow, event.node);
    if (waits_in == nullptr) {
      waits_in = &open_queue_on(flow, find_node_with(*flow.device, event.node));
    }
    const bool starts = waits_in->waiting.empty() && !retuned && waits_in->is_below_limit() &&
                        admits(*waits_in->taker->cell, *waits_in);
    runs_in = starts ? waits_in : nullptr;
  }
  if (runs_in == nullptr) {
    enqueue(operation, *waits_in);
    if (retuned) {
      schedule_flow(flow, out);
    }
    return;
  }
  TurnTaker& taker = *waits_in->taker;
  taker.turns->rings[taker.ring].serve(taker.slot);
  begin_run(operation, *runs_in, out);
  charge_start(*runs_in->taker->cell, operation, nullptr);
}

void Scheduler::hear_end(Operation& operation, const Finished* finished, Decisions& out) {
  Flow& flow = *operation.queue->flow;
  Cell& cell = *operation.queue->taker->cell;
  const EpochId epoch = operation.epoch;
  const bool climbed = flow.climbs && finished != nullptr && tell_climber(flow, cell, *finished);
  end_run(operation);
  forget_operation(operation);
  update_rooms(cell);
  if (flow.adapts) {
    const auto seconds = finished != nullptr ? std::optional(finished->seconds) : std::nullopt;
    adapt_to_end(flow, epoch, seconds, out);
  }
  if (climbed) {
    take_limits(*flow.device, out);
  }
  schedule_cell(cell, out);
}

void Scheduler::hear_cancellation(Operation& operation, Decisions& out) {
  if (operation.state != Operation::State::waiting) {
    hear_end(operation, nullptr, out);
    return;
  }
  // Whoever waited behind it, or because of it, may be able to start now.
  FlowQueue& queue = *operation.queue;
  forget_operation(dequeue(queue, operation));
  relist_queue(queue);
  learning_nodes_.hear_end(*queue.flow, kNoEpoch, std::nullopt);
  if (queue.taker->cell != nullptr) {
    schedule_cell(*queue.taker->cell, out);
  } else {
    release_held_back(*queue.flow->device, out);
  }
}

// ---- What may start ----------------------------------------------------------------------------

Scheduler::Room Scheduler::find_room(const Cell& cell, unsigned ring) noexcept {
  constexpr Room kNothingMayStart = {-1, -1, -1};
  const Device& device = *cell.device;
  if (device.slots != 0 && cell.in_flight >= device.slots) {
    return kNothingMayStart;
  }
  if (device.is_strict()) {
    for (unsigned higher = 0; higher < ring; ++higher) {
      if (cell.running[higher] != 0 || cell.active[higher] != 0 ||
          !cell.turns.rings[higher].empty()) {
        return kNothingMayStart;
      }
    }
  }
  if (device.budget_bytes_per_s == 0) {
    return {kUnlimitedRoom, kUnlimitedRoom, kUnlimitedRoom};
  }
  // Operations of `climb` may hold more than there is once its limit has fallen.
  const int64_t left = std::max<int64_t>(0, device.budget_bytes_per_s - cell.held_bytes_per_s);
  const auto reserved = [&](unsigned r) {
    return cell.turns.rings[r].is_closed() || device.promised[r] == &cell;
  };
  const bool some_reserved =
      device.is_weighted() ? reserved(0) || reserved(1) || reserved(2) : reserved(ring);
  if (!some_reserved) {
    return {left, left, left};
  }
  return {cell.turns.rings[ring].is_closed() ? left : 0, device.promised[ring] == &cell ? left : 0,
          0};
}

bool Scheduler::admits(Cell& cell, const FlowQueue& queue) {
  const unsigned ring = queue.flow->ring;
  if (queue.taker->held_back || find_room(cell, ring).others < queue.flow->limit.hold_bytes_per_s) {
    return false;
  }
  if (waits_above(*cell.device, ring)) {
    stall_cell(cell, ring);
    return false;
  }
  return true;
}

/// Starts what can be started after something in the cell has changed.
void Scheduler::schedule_cell(Cell& cell, Decisions& out) {
  start_all_in(cell, out);
  release_held_back(*cell.device, out);
}

void Scheduler::start_all_in(Cell& cell, Decisions& out) {
  while (!nobody_waits(cell) && start_one_in(cell, out)) {
  }
}

bool Scheduler::start_one_in(Cell& cell, Decisions& out) {
  const auto order = order_rings(cell);
  return std::any_of(order.begin(), order.end(),
                     [&](unsigned ring) { return start_one_of(cell, ring, out); });
}

bool Scheduler::start_one_of(Cell& cell, unsigned ring, Decisions& out) {
  if (!waits(cell, ring)) {
    return false;
  }
  const Room free = find_room(cell, ring);
  if (free.others < 0) {
    return false;
  }
  Turns& placed = cell.device->placed;
  const uint32_t bound_slot = cell.turns.rings[ring].pick(free.bound_holder, free.others);
  const uint32_t placed_slot = pick_placed(cell, ring, free);
  if (bound_slot == TurnRing::kNone && placed_slot == TurnRing::kNone) {
    return false;
  }
  if (waits_above(*cell.device, ring)) {
    stall_cell(cell, ring);
    return false;
  }
  // Operations for this node and operations for any node take turns.
  const bool from_placed =
      placed_slot != TurnRing::kNone && (bound_slot == TurnRing::kNone || cell.placed_turn);
  cell.placed_turn = !from_placed;
  Turns& turns = from_placed ? placed : cell.turns;
  const uint32_t slot = from_placed ? placed_slot : bound_slot;
  FlowQueue& queue = *turns.takers[ring][slot]->first;
  // An operation for any node gets its node here.
  FlowQueue& target =
      queue.node != nullptr ? queue : open_queue_on(*queue.flow, *find_node_in(*queue.flow, cell));
  start_next(turns, ring, slot, target, out);
  return true;
}

/// Picks the taker whose operation for any node starts here. Flows that are at their limit on this
/// node are skipped, one by one.
uint32_t Scheduler::pick_placed(const Cell& cell, unsigned ring, const Room& free) {
  Turns& placed = cell.device->placed;
  if (cell.keeps_out(ring)) {
    return TurnRing::kNone;
  }
  TurnRing& waiting_there = placed.rings[ring];
  const uint32_t first = waiting_there.pick(free.placed_holder, free.others);
  uint32_t slot = first;
  while (slot != TurnRing::kNone &&
         !is_below_limit(*placed.takers[ring][slot]->first->flow, *cell.node)) {
    slot = waiting_there.find_next(slot + 1, free.others);
    slot = slot == first ? TurnRing::kNone : slot;
  }
  return slot;
}

// ---- What a start changes ----------------------------------------------------------------------

/// Starts the next operation of the turn taker in `slot`; it runs in the queue `target`.
void Scheduler::start_next(Turns& turns, unsigned ring, uint32_t slot, FlowQueue& target,
                           Decisions& out) {
  TurnTaker& taker = *turns.takers[ring][slot];
  FlowQueue& queue = *taker.first;
  Operation& operation = dequeue(queue, *queue.waiting.first());
  taker.first = queue.next;  // The nodes of a flow take turns, too.
  const bool by_right = turns.rings[ring].serve(slot);
  begin_run(operation, target, out);
  relist_queue(queue);
  charge_start(*target.taker->cell, operation, by_right ? &turns.rings[ring] : nullptr);
}

void Scheduler::begin_run(Operation& operation, FlowQueue& queue, Decisions& out) {
  Cell& cell = *queue.taker->cell;
  operation.state = Operation::State::decided;
  operation.queue = &queue;
  operation.hold_bytes_per_s = queue.flow->limit.hold_bytes_per_s;
  queue.running.push_back(operation);
  ++queue.running_count;
  cell.held_bytes_per_s += operation.hold_bytes_per_s;
  ++cell.in_flight;
  ++cell.running[queue.flow->priority];
  if (queue.flow->climbs) {
    cell.climbing.started(now_ns, queue.flow->device->climbing_since_ns);
  }
  ++queue.flow->running;
  ++running;
  out.emplace_back(Start{operation.id, queue.node->id});
  if (queue.flow->home == &cell) {
    learning_nodes_.hear_start(operation);
  }
  if (!queue.is_below_limit()) {
    update_below_limit(queue);
  }
}

/// The reverse of begin_run().
void Scheduler::end_run(Operation& operation) {
  FlowQueue& queue = *operation.queue;
  Cell& cell = *queue.taker->cell;
  const bool was_at_limit = !queue.is_below_limit();
  queue.running.remove(operation);
  --queue.running_count;
  cell.held_bytes_per_s -= operation.hold_bytes_per_s;
  --cell.in_flight;
  --cell.running[queue.flow->priority];
  if (queue.flow->climbs) {
    cell.climbing.left(now_ns);
  }
  --queue.flow->running;
  --running;
  if (was_at_limit) {
    update_below_limit(queue);
  }
}

/// Charges a start to the class and the turn takers that wait on. `by_right` is the ring whose turn
/// it was, if any.
void Scheduler::charge_start(Cell& cell, const Operation& operation, const TurnRing* by_right) {
  const unsigned ring = operation.queue->flow->ring;
  if (nobody_waits(cell)) {
    cell.lag.fill(0);  // Nobody was kept waiting: nobody owes anything.
  } else {
    if (operation.hold_bytes_per_s > 0) {
      count_passed_over(cell, ring, by_right);
    }
    if (cell.device->is_weighted()) {
      charge_class(cell, ring, operation.bytes);
    }
  }
  update_rooms(cell);
}

/// Counts a start for whoever was to go before it and still waits, which is for bandwidth.
void Scheduler::count_passed_over(Cell& cell, unsigned ring, const TurnRing* by_right) {
  Turns& placed = cell.device->placed;
  for (unsigned r = 0; r < kClasses; ++r) {
    if (r != ring && (!cell.device->is_weighted() || cell.lag[r] > cell.lag[ring])) {
      continue;
    }
    TurnRing& bound_ring = cell.turns.rings[r];
    if (&bound_ring != by_right && !bound_ring.empty()) {
      bound_ring.pass_holder();
    }
    TurnRing& placed_ring = placed.rings[r];
    if (&placed_ring == by_right || placed_ring.empty() || cell.keeps_out(r)) {
      continue;
    }
    const Flow& flow = *placed.takers[r][placed_ring.find_holder()]->first->flow;
    if (is_below_limit(flow, *cell.node)) {
      placed_ring.pass_holder();
      if (placed_ring.is_closed() && cell.device->promised[r] == nullptr) {
        cell.device->promised[r] = &cell;
      }
    }
  }
}

// ---- Queues ------------------------------------------------------------------------------------

void Scheduler::enqueue(Operation& operation, FlowQueue& queue) {
  operation.queue = &queue;
  queue.waiting.push_back(operation);
  ++waiting;
  ++queue.flow->waiting;
  queue.flow->waiting_bound += queue.node != nullptr ? 1 : 0;
  ++queue.flow->device->waiting[queue.flow->priority];
  find_backlog(queue).add(now_ns);
  relist_queue(queue);
}

/// The caller relists the queue.
Operation& Scheduler::dequeue(FlowQueue& queue, Operation& operation) {
  queue.waiting.remove(operation);
  --waiting;
  --queue.flow->waiting;
  queue.flow->waiting_bound -= queue.node != nullptr ? 1 : 0;
  --queue.flow->device->waiting[queue.flow->priority];
  find_backlog(queue).remove(now_ns);
  return operation;
}

void Scheduler::forget_operation(Operation& operation) {
  operation.flow->device->climbing_known -= operation.flow->climbs ? 1 : 0;
  operations_.erase(operation.id);
  operation_pool_.release(&operation);
}

/// Lists the queue at its turn taker where its next operation could start as far as its own limit
/// goes, and else takes it off. The taker's place in its ring follows.
void Scheduler::relist_queue(FlowQueue& queue) {
  Cell* const cell = queue.taker->cell;
  const bool may_run = queue.node != nullptr
                           ? queue.is_below_limit()
                           : cell == nullptr || find_node_in(*queue.flow, *cell) != nullptr;
  const bool listed = may_run && !queue.waiting.empty();
  if (listed == queue.listed) {
    return;
  }
  queue.listed = listed;
  listed ? link_queue(queue) : unlink_queue(queue);
  offer_taker(*queue.taker);
}

/// Offers the turn taker to its ring with what its flow needs now, or takes it off.
void Scheduler::offer_taker(TurnTaker& taker) {
  TurnRing& ring = taker.turns->rings[taker.ring];
  const bool offered = taker.first != nullptr && !taker.held_back;
  if (offered) {
    ring.set_waiting(taker.slot, taker.flow->limit.hold_bytes_per_s);
  } else {
    ring.set_idle(taker.slot);
  }
  taker.turns->listed += offered ? 1 : 0;
  taker.turns->listed -= taker.offered ? 1 : 0;
  taker.offered = offered;
  if (taker.cell != nullptr) {
    update_rooms(*taker.cell);
  }
}

void Scheduler::unlink_queue(FlowQueue& queue) {
  FlowQueue*& first = queue.taker->first;
  if (queue.next == &queue) {
    first = nullptr;
  } else {
    queue.previous->next = queue.next;
    queue.next->previous = queue.previous;
    first = first == &queue ? queue.next : first;
  }
  queue.next = queue.previous = nullptr;
}

}  // namespace ioweave::policy
