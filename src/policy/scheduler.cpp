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
  return !cell.queues.rings[ring].empty() || !cell.device->placed.rings[ring].empty();
}

bool nobody_waits(const Cell& cell) {
  return cell.queues.empty() && cell.device->placed.empty();
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
  flow.home = flow.limiter->learning() ? flow.device->shared.get() : nullptr;
  const Device& device = *flow.device;
  flow.free = flow.limit.hold_bytes_per_s == 0 && device.slots == 0 && config.max_in_flight == 0 &&
              !flow.climbs && (!device.strict() || flow.priority == 0);
  return flow.id;
}

void Scheduler::add_climber(Flow& flow) {
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

// ---- Events of operations ----------------------------------------------------------------------

void Scheduler::ready(const Ready& event, Decisions& out) {
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
  const bool retuned = flow.adapts && heard_ready(flow, event.node, out);

  Lane* waits_in = nullptr;
  Lane* runs_in = nullptr;
  if (event.node == kAnyNode) {
    waits_in = &any_lane(flow);
    const bool is_next = waits_in->waiting.empty() && !retuned;
    Node* const node = is_next ? first_node(flow) : nullptr;
    runs_in = node == nullptr ? nullptr : &lane_at(flow, *node);
  } else {
    waits_in = find_lane(flow, event.node);
    if (waits_in == nullptr) {
      waits_in = &lane_at(flow, node_with(*flow.device, event.node));
    }
    const bool starts = waits_in->waiting.empty() && !retuned && waits_in->below_limit() &&
                        admits(*waits_in->stream->cell, *waits_in);
    runs_in = starts ? waits_in : nullptr;
  }
  if (runs_in == nullptr) {
    enqueue(operation, *waits_in);
    if (retuned) {
      schedule_flow(flow, out);
    }
    return;
  }
  Stream& stream = *waits_in->stream;
  stream.queues->rings[stream.ring].served(stream.slot);
  run(operation, *runs_in, out);
  settle(*runs_in->stream->cell, operation, nullptr);
}

void Scheduler::ended(Operation& operation, const Finished* finished, Decisions& out) {
  Flow& flow = *operation.lane->flow;
  Cell& cell = *operation.lane->stream->cell;
  const EpochId epoch = operation.epoch;
  const bool climbed =
      flow.climbs && finished != nullptr && heard_climbing_end(flow, cell, *finished);
  leave(operation);
  forget(operation);
  touch(cell);
  if (flow.adapts) {
    const auto seconds = finished != nullptr ? std::optional(finished->seconds) : std::nullopt;
    heard_end(flow, epoch, seconds, out);
  }
  if (climbed) {
    take_limits(*flow.device, out);
  }
  schedule(cell, out);
}

void Scheduler::cancelled(Operation& operation, Decisions& out) {
  if (operation.state != Operation::State::waiting) {
    ended(operation, nullptr, out);
    return;
  }
  // Whoever waited behind it, or because of it, may be able to start now.
  Lane& lane = *operation.lane;
  forget(dequeue(lane, operation));
  relist(lane);
  if (lane.flow->home != nullptr) {
    review_home(*lane.flow);
  }
  if (lane.stream->cell != nullptr) {
    schedule(*lane.stream->cell, out);
  } else {
    release(*lane.flow->device, out);
  }
}

// ---- What may start ----------------------------------------------------------------------------

Scheduler::Room Scheduler::room(const Cell& cell, unsigned ring) noexcept {
  constexpr Room kNothingMayStart = {-1, -1, -1};
  const Device& device = *cell.device;
  if (device.slots != 0 && cell.in_flight >= device.slots) {
    return kNothingMayStart;
  }
  if (device.strict()) {
    for (unsigned higher = 0; higher < ring; ++higher) {
      if (cell.running[higher] != 0 || cell.active[higher] != 0 ||
          !cell.queues.rings[higher].empty()) {
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
    return cell.queues.rings[r].closed() || device.promised[r] == &cell;
  };
  const bool some_reserved =
      device.weighted() ? reserved(0) || reserved(1) || reserved(2) : reserved(ring);
  if (!some_reserved) {
    return {left, left, left};
  }
  return {cell.queues.rings[ring].closed() ? left : 0, device.promised[ring] == &cell ? left : 0,
          0};
}

bool Scheduler::admits(Cell& cell, const Lane& lane) {
  const unsigned ring = lane.flow->ring;
  if (lane.stream->held_back || room(cell, ring).others < lane.flow->limit.hold_bytes_per_s) {
    return false;
  }
  if (waits_above(*cell.device, ring)) {
    stall(cell, ring);
    return false;
  }
  return true;
}

/// Starts what can be started after something in the cell has changed.
void Scheduler::schedule(Cell& cell, Decisions& out) {
  start_all(cell, out);
  release(*cell.device, out);
}

void Scheduler::start_all(Cell& cell, Decisions& out) {
  while (!nobody_waits(cell) && start_one(cell, out)) {
  }
}

/// Which class is asked first. Weighted: who is furthest behind its share, but before all others
/// one that has closed the cell until it has been served.
std::array<unsigned, kClasses> Scheduler::ring_order(const Cell& cell) {
  std::array<unsigned, kClasses> order{0, 1, 2};
  if (cell.device->weighted()) {
    const auto rank = [&](unsigned ring) {
      return std::tuple(!cell.queues.rings[ring].closed(), cell.lag[ring], ring);
    };
    std::sort(order.begin(), order.end(),
              [&](unsigned a, unsigned b) { return rank(a) < rank(b); });
  }
  return order;
}

bool Scheduler::start_one(Cell& cell, Decisions& out) {
  const auto order = ring_order(cell);
  return std::any_of(order.begin(), order.end(),
                     [&](unsigned ring) { return start_one(cell, ring, out); });
}

bool Scheduler::start_one(Cell& cell, unsigned ring, Decisions& out) {
  if (!waits(cell, ring)) {
    return false;
  }
  const Room free = room(cell, ring);
  if (free.others < 0) {
    return false;
  }
  Queues& placed = cell.device->placed;
  const uint32_t bound_slot = cell.queues.rings[ring].pick(free.bound_holder, free.others);
  const uint32_t placed_slot = pick_placed(cell, ring, free);
  if (bound_slot == TurnRing::kNone && placed_slot == TurnRing::kNone) {
    return false;
  }
  if (waits_above(*cell.device, ring)) {
    stall(cell, ring);
    return false;
  }
  // Operations for this node and operations for any node take turns.
  const bool from_placed =
      placed_slot != TurnRing::kNone && (bound_slot == TurnRing::kNone || cell.placed_turn);
  cell.placed_turn = !from_placed;
  Queues& queues = from_placed ? placed : cell.queues;
  const uint32_t slot = from_placed ? placed_slot : bound_slot;
  Lane& lane = *queues.streams[ring][slot]->first;
  run_next(queues, ring, slot, lane.node != nullptr ? lane : target_in(cell, *lane.flow), out);
  return true;
}

/// The lane in this cell for an operation that may run on any node.
Lane& Scheduler::target_in(const Cell& cell, Flow& flow) {
  return lane_at(flow, *node_for_any(flow, cell));
}

/// Who of those for any node starts here: flows that are at their limit on this node are stepped
/// over, one by one.
uint32_t Scheduler::pick_placed(const Cell& cell, unsigned ring, const Room& free) {
  Queues& placed = cell.device->placed;
  if (keeps_out(cell, ring)) {
    return TurnRing::kNone;
  }
  TurnRing& waiting_there = placed.rings[ring];
  const uint32_t first = waiting_there.pick(free.placed_holder, free.others);
  uint32_t slot = first;
  while (slot != TurnRing::kNone &&
         !below_limit(*placed.streams[ring][slot]->first->flow, *cell.node)) {
    slot = waiting_there.next(slot + 1, free.others);
    slot = slot == first ? TurnRing::kNone : slot;
  }
  return slot;
}

// ---- What a start changes ----------------------------------------------------------------------

/// Starts the next operation of the stream in `slot`, in lane `target`.
void Scheduler::run_next(Queues& queues, unsigned ring, uint32_t slot, Lane& target,
                         Decisions& out) {
  Stream& stream = *queues.streams[ring][slot];
  Lane& lane = *stream.first;
  Operation& operation = dequeue(lane, *lane.waiting.first());
  stream.first = lane.next;  // The nodes of a flow take turns, too.
  const bool by_right = queues.rings[ring].served(slot);
  run(operation, target, out);
  relist(lane);
  settle(*target.stream->cell, operation, by_right ? &queues.rings[ring] : nullptr);
}

void Scheduler::run(Operation& operation, Lane& lane, Decisions& out) {
  Cell& cell = *lane.stream->cell;
  operation.state = Operation::State::decided;
  operation.lane = &lane;
  operation.hold_bytes_per_s = lane.flow->limit.hold_bytes_per_s;
  lane.running.push_back(operation);
  ++lane.running_count;
  cell.held_bytes_per_s += operation.hold_bytes_per_s;
  ++cell.in_flight;
  ++cell.running[lane.flow->priority];
  if (lane.flow->climbs) {
    cell.climbing.started(now_ns, lane.flow->device->climbing_since_ns);
  }
  ++lane.flow->running;
  ++running;
  out.emplace_back(Start{operation.id, lane.node->id});
  if (lane.flow->home == &cell) {
    count_start(operation);
  }
  if (!lane.below_limit()) {
    limit_changed(lane);
  }
}

/// The reverse of run().
void Scheduler::leave(Operation& operation) {
  Lane& lane = *operation.lane;
  Cell& cell = *lane.stream->cell;
  const bool was_at_limit = !lane.below_limit();
  lane.running.remove(operation);
  --lane.running_count;
  cell.held_bytes_per_s -= operation.hold_bytes_per_s;
  --cell.in_flight;
  --cell.running[lane.flow->priority];
  if (lane.flow->climbs) {
    cell.climbing.left(now_ns);
  }
  --lane.flow->running;
  --running;
  if (was_at_limit) {
    limit_changed(lane);
  }
}

/// Books a start with those who wait on. `by_right` is the ring whose turn it was, if any.
void Scheduler::settle(Cell& cell, const Operation& operation, const TurnRing* by_right) {
  const unsigned ring = operation.lane->flow->ring;
  if (nobody_waits(cell)) {
    cell.lag.fill(0);  // Nobody was kept waiting: nobody owes anything.
  } else {
    if (operation.hold_bytes_per_s > 0) {
      pass_over(cell, ring, by_right);
    }
    if (cell.device->weighted()) {
      charge(cell, ring, operation.bytes);
    }
  }
  touch(cell);
}

/// Everybody who was to go before this start, and still waits, waits for bandwidth.
void Scheduler::pass_over(Cell& cell, unsigned ring, const TurnRing* by_right) {
  Queues& placed = cell.device->placed;
  for (unsigned r = 0; r < kClasses; ++r) {
    if (r != ring && (!cell.device->weighted() || cell.lag[r] > cell.lag[ring])) {
      continue;
    }
    TurnRing& bound_ring = cell.queues.rings[r];
    if (&bound_ring != by_right && !bound_ring.empty()) {
      bound_ring.passed_over();
    }
    TurnRing& placed_ring = placed.rings[r];
    if (&placed_ring == by_right || placed_ring.empty() || keeps_out(cell, r)) {
      continue;
    }
    const Flow& flow = *placed.streams[r][placed_ring.holder()]->first->flow;
    if (below_limit(flow, *cell.node)) {
      placed_ring.passed_over();
      if (placed_ring.closed() && cell.device->promised[r] == nullptr) {
        cell.device->promised[r] = &cell;
      }
    }
  }
}

/// Start-time fair queueing: lag is kept relative to the class that is furthest behind among those
/// that wait, so a class that was away comes back without credit.
void Scheduler::charge(Cell& cell, unsigned ring, uint64_t bytes) {
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

// ---- Queues ------------------------------------------------------------------------------------

void Scheduler::enqueue(Operation& operation, Lane& lane) {
  operation.lane = &lane;
  lane.waiting.push_back(operation);
  ++waiting;
  ++lane.flow->waiting;
  lane.flow->waiting_bound += lane.node != nullptr ? 1 : 0;
  ++lane.flow->device->waiting[lane.flow->priority];
  backlog_of(lane).add(now_ns);
  relist(lane);
}

/// The caller relists the lane.
Operation& Scheduler::dequeue(Lane& lane, Operation& operation) {
  lane.waiting.remove(operation);
  --waiting;
  --lane.flow->waiting;
  lane.flow->waiting_bound -= lane.node != nullptr ? 1 : 0;
  --lane.flow->device->waiting[lane.flow->priority];
  backlog_of(lane).remove(now_ns);
  return operation;
}

/// Where an operation of the lane counts while it waits, wherever its flow learns.
Backlog& Scheduler::backlog_of(const Lane& lane) noexcept {
  Device& device = *lane.flow->device;
  const bool is_anywhere = lane.node == nullptr && device.shared == nullptr;
  return is_anywhere ? device.waiting_anywhere : lane.stream->cell->waiting;
}

void Scheduler::forget(Operation& operation) {
  operation.flow->device->climbing_known -= operation.flow->climbs ? 1 : 0;
  operations_.erase(operation.id);
  operation_pool_.release(&operation);
}

/// Brings the lane's place in its stream, and the stream's in its ring, in line with whether its
/// next operation could start as far as its own limit goes.
void Scheduler::relist(Lane& lane) {
  Cell* const cell = lane.stream->cell;
  const bool may_run = lane.node != nullptr
                           ? lane.below_limit()
                           : cell == nullptr || node_for_any(*lane.flow, *cell) != nullptr;
  const bool listed = may_run && !lane.waiting.empty();
  if (listed == lane.listed) {
    return;
  }
  lane.listed = listed;
  listed ? link(lane) : unlink(lane);
  offer(*lane.stream);
}

/// Brings the stream's place in its ring in line with its first lane and what its flow needs now.
void Scheduler::offer(Stream& stream) {
  TurnRing& ring = stream.queues->rings[stream.ring];
  const bool offered = stream.first != nullptr && !stream.held_back;
  if (offered) {
    ring.wait(stream.slot, stream.flow->limit.hold_bytes_per_s);
  } else {
    ring.idle(stream.slot);
  }
  stream.queues->listed += offered ? 1 : 0;
  stream.queues->listed -= stream.offered ? 1 : 0;
  stream.offered = offered;
  if (stream.cell != nullptr) {
    touch(*stream.cell);
  }
}

void Scheduler::link(Lane& lane) {
  Lane*& first = lane.stream->first;
  if (first == nullptr) {
    first = lane.next = lane.previous = &lane;
    return;
  }
  lane.next = first;
  lane.previous = first->previous;
  lane.previous->next = first->previous = &lane;
}

void Scheduler::unlink(Lane& lane) {
  Lane*& first = lane.stream->first;
  if (lane.next == &lane) {
    first = nullptr;
  } else {
    lane.previous->next = lane.next;
    lane.next->previous = lane.previous;
    first = first == &lane ? lane.next : first;
  }
  lane.next = lane.previous = nullptr;
}

}  // namespace ioweave::policy
