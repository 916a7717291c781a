#pragma once

// Who starts next, and where. Policy checks and translates; every decision is made here.
//
// The parts, from the outside in:
//   Device     its budget; waiting operations that may run on any node (`placed`)
//   Cell       where a budget counts: one per node and device, or one per shared device
//   TurnTaker  what takes turns in a cell: a flow
//   FlowQueue  the operations of a flow on one node (or on any), first in first out
//   Operation  waiting in a queue, or running in one
//
// The invariant: between two events nothing that waits could start. So an operation that becomes
// ready is tried alone, without a look at any queue, and an end looks only at the cell it left.
// That makes the uncontended path short (about 50 ns of CPU for Ready, Started and Finished
// together) and the contended one O(log flows).
//
// Operations for any node wait at the device and go to the first node, in order of NodeUp, with
// room; a tournament tree per class holds each node's room. They may hold back two others without
// being in any cell. Whom they held back is remembered, so that it goes on when they no longer wait
// (release_held_back()):
//   - where smaller ones have passed one of them too often, the node where that happened is
//     *promised* to it;
//   - under `strict`, cells in which a lower class could have started are *stalled*.
//
// A flow whose limiter learns in epochs has a *home*, a cell where LearningNodes lets it learn. Its
// operations for any node wait there, in its turn taker of that cell. Turn takers are *held back*,
// not offered to their ring, where the epoch of their flow is full, or where another flow has the
// cell to itself. tuning.cpp holds what follows from a limit that changes.

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "policy/backlog.hpp"
#include "policy/climb.hpp"
#include "policy/id_map.hpp"
#include "policy/learning_nodes.hpp"
#include "policy/limiter.hpp"
#include "policy/min_tree.hpp"
#include "policy/policy.hpp"
#include "policy/pool.hpp"
#include "policy/turn_ring.hpp"

namespace ioweave::policy {

struct Flow;
struct FlowQueue;
struct TurnTaker;

struct Operation {
  OperationId id = 0;
  Flow* flow = nullptr;
  FlowQueue* queue = nullptr;
  Operation* next = nullptr;  ///< in the queue's `waiting` or `running`
  Operation* previous = nullptr;
  uint64_t bytes = 0;
  int64_t hold_bytes_per_s = 0;  ///< taken from the cell while it runs
  EpochId epoch = kNoEpoch;      ///< of learning, in which it counts
  enum class State : uint8_t { waiting, decided, started } state = State::waiting;
};

/// Intrusive, first in first out; removal from anywhere in O(1).
class OperationList {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] Operation* first() const noexcept { return first_; }
  void push_back(Operation& operation) noexcept;
  void remove(Operation& operation) noexcept;

 private:
  Operation* first_ = nullptr;
  Operation* last_ = nullptr;
};

/// Who takes turns: a ring per class, or a single one where classes do not count.
struct Turns {
  std::array<TurnRing, kClasses> rings;
  std::array<std::vector<TurnTaker*>, kClasses> takers;  ///< by slot of the ring
  uint32_t listed = 0;                                   ///< takers that wait

  [[nodiscard]] bool empty() const noexcept { return listed == 0; }
};

struct Device;
struct Node;

struct Cell {
  Device* device = nullptr;
  Node* node = nullptr;              ///< null: shared by all
  const Flow* claimed_by = nullptr;  ///< who learns here and has it to itself, if any
  uint32_t homes = 0;                ///< flows that learn here
  ClimbingCount climbing;            ///< operations of flows with `climb`
  Backlog waiting;                   ///< operations of all flows that may start here only
  int64_t held_bytes_per_s = 0;
  uint32_t in_flight = 0;
  std::array<uint32_t, kClasses> running{};
  std::array<uint64_t, kClasses> active{};  ///< on the fast path, past the policy
  std::array<uint64_t, kClasses> lag{};     ///< weighted: how far ahead of its share a class is
  Turns turns;
  std::array<bool, kClasses> stalled{};  ///< is in Device::stalled
  bool placed_turn = false;              ///< the next start in a tie is one from Device::placed

  /// Operations for any node of this ring stay away.
  [[nodiscard]] bool keeps_out(unsigned ring) const noexcept;
};

struct Device {
  DeviceConfig config;
  DeviceId id = 0;
  int64_t budget_bytes_per_s = 0;
  uint32_t slots = 0;
  uint32_t nodes = 0;  ///< that are up and have it
  std::vector<Flow*> flows;
  std::array<uint64_t, kClasses> stride{};  ///< weighted: lag of one byte
  std::array<uint64_t, kClasses> waiting{};
  Backlog waiting_anywhere;          ///< scope node: operations for any node
  std::unique_ptr<Cell> shared;      ///< scope shared only
  std::unique_ptr<Climber> climber;  ///< once it has a flow with `climb`
  std::vector<Flow*> climbing;       ///< these flows
  uint64_t climbing_known = 0;       ///< their operations, waiting or running
  uint64_t climbing_since_ns = 0;    ///< when there was one again
  uint32_t claims = 0;               ///< cells that are claimed

  // Scope node only, once an operation for any node has come (`places`).
  bool places = false;
  Turns placed;
  std::array<Cell*, kClasses> promised{};  ///< to the holder of the placed ring; null: none
  /// Strict: cells where this ring would have started something, but for a higher one in `placed`.
  std::array<std::vector<Cell*>, kClasses> stalled;
  /// Likewise operations of this ring for any node.
  std::array<bool, kClasses> held_back{};
  /// By ring: minus the room on the node at each position.
  std::array<MinTree, kClasses> rooms;
  bool rooms_built = false;

  [[nodiscard]] bool is_strict() const noexcept { return config.scheduling == Scheduling::strict; }
  [[nodiscard]] bool is_weighted() const noexcept {
    return config.scheduling == Scheduling::weighted;
  }
};

struct Flow {
  FlowConfig config;
  FlowId id = 0;
  Device* device = nullptr;
  unsigned priority = 0;
  unsigned ring = 0;
  std::unique_ptr<Limiter> limiter;
  Limit limit;                 ///< the limiter's
  bool adapts = false;         ///< the limiter's
  bool climbs = false;         ///< it is in Device::climbing
  bool unconstrained = false;  ///< Policy::unconstrained()
  uint32_t told_limit = 0;     ///< by the last SetLimit
  Cell* home = nullptr;  ///< while it learns: where; null until it is known, or if no node is up
  FlowQueue* home_queue = nullptr;  ///< the flow's queue there, on a device of scope node
  uint64_t waiting = 0;
  uint64_t waiting_bound = 0;  ///< of these, not for any node
  uint64_t running = 0;
  FlowQueue* any_queue = nullptr;     ///< operations for any node
  TurnTaker* shared_taker = nullptr;  ///< where the device is shared
  TurnTaker* placed_taker = nullptr;  ///< in Device::placed
  /// For operations for any node, where it has a limit, or its device is shared by some nodes only:
  /// 0 at each position where the limit leaves room and the device is, nothing elsewhere.
  MinTree below_limit;
  bool below_limit_built = false;

  [[nodiscard]] bool waits_for_any_node() const noexcept;
};

struct Node {
  NodeId id = 0;
  uint32_t position = 0;  ///< in order of NodeUp
  std::vector<FlowQueue*> queues;
  /// By device, as far as used.
  struct Use {
    Cell* cell = nullptr;                     ///< scope node
    std::array<uint32_t, kClasses> active{};  ///< as last told
    bool told = false;                        ///< by DeviceUp
  };
  std::vector<Use> uses;

  [[nodiscard]] bool has(const Device& device) const noexcept {
    return device.config.everywhere || (device.id < uses.size() && uses[device.id].told);
  }
  /// Null where the device is shared, or its cell here was never used.
  [[nodiscard]] Cell* find_cell(const Device& device) const noexcept {
    return device.id < uses.size() ? uses[device.id].cell : nullptr;
  }
};

struct FlowQueue {
  Flow* flow = nullptr;
  Node* node = nullptr;  ///< null: any
  TurnTaker* taker = nullptr;
  uint32_t running_count = 0;
  bool listed = false;  ///< in its taker: it has a waiting operation and its limit lets it start
  OperationList waiting;
  OperationList running;
  FlowQueue* next = nullptr;  ///< circular, among the listed queues of its taker
  FlowQueue* previous = nullptr;

  [[nodiscard]] bool is_below_limit() const noexcept { return running_count < flow->limit.at_once; }
};

struct TurnTaker {
  const Flow* flow = nullptr;
  Turns* turns = nullptr;
  Cell* cell = nullptr;  ///< null: of Device::placed
  unsigned ring = 0;
  uint32_t slot = 0;
  FlowQueue* first = nullptr;  ///< whose operation is next; null: idle
  bool held_back = false;      ///< by learning, its own or that of another flow
  bool offered = false;        ///< to its ring
};

inline bool Cell::keeps_out(unsigned ring) const noexcept {
  return claimed_by != nullptr && !(device->is_strict() && ring < claimed_by->ring);
}

inline bool Flow::waits_for_any_node() const noexcept {
  return any_queue != nullptr && !any_queue->waiting.empty();
}

/// One thread at a time. The caller has checked ids and states.
class Scheduler {
 public:
  using Decisions = std::vector<Decision>;

  DeviceId add_device(const DeviceConfig& config);
  FlowId add_flow(const FlowConfig& config);

  void reserve_operation() {
    operation_pool_.reserve_one();
    operations_.reserve_one();
  }
  void hear_ready(const Ready& event, Decisions& out);
  /// It ran; `finished` is null where it failed or was cancelled.
  void hear_end(Operation& operation, const Finished* finished, Decisions& out);
  void hear_cancellation(Operation& operation, Decisions& out);
  void hear_sample(const Sample& event, Decisions& out);
  void hear_activity(const Activity& event, Decisions& out);
  void add_node(NodeId id, Decisions& out);
  void remove_node(NodeId id, Decisions& out);
  void hear_device_up(const DeviceUp& event, Decisions& out);

  [[nodiscard]] Operation* find_operation(OperationId id) const noexcept {
    return operations_.find(id);
  }
  [[nodiscard]] bool is_up(NodeId id) const noexcept { return nodes_.find(id) != nullptr; }
  /// It is up and has the device.
  [[nodiscard]] bool has_device(NodeId id, const Device& device) const noexcept;

  /// Operations that run on the node, which is up, of all flows.
  [[nodiscard]] uint64_t count_running_on(NodeId id) const;

  std::deque<Device> devices;  ///< a deque: addresses stay
  std::deque<Flow> flows;
  uint64_t waiting = 0;
  uint64_t running = 0;
  uint64_t now_ns = 0;  ///< of the event

  void explain(const Flow& flow, Explanation& out) const;

  // For LearningNodes.
  /// By position; null where a node went down.
  [[nodiscard]] const std::vector<Node*>& nodes_in_order() const noexcept { return order_; }
  void move_home(Flow& flow, Node* to);
  /// What holds back the flow in its home, or all flows in a cell, has changed.
  static void review_home_taker(Flow& flow);
  static void review_takers(Cell& cell);

 private:
  // scheduler.cpp: the rules of a cell.
  /// Bandwidth that one more operation may hold; -1: it may not start, whatever it holds.
  struct Room {
    int64_t bound_holder;   ///< whose turn it is in the cell's own ring
    int64_t placed_holder;  ///< whose turn it is in the ring of Device::placed
    int64_t others;
  };
  [[nodiscard]] static Room find_room(const Cell& cell, unsigned ring) noexcept;
  [[nodiscard]] static bool admits(Cell& cell, const FlowQueue& queue);
  void begin_run(Operation& operation, FlowQueue& queue, Decisions& out);
  void start_next(Turns& turns, unsigned ring, uint32_t slot, FlowQueue& target, Decisions& out);
  void charge_start(Cell& cell, const Operation& operation, const TurnRing* by_right);
  void count_passed_over(Cell& cell, unsigned ring, const TurnRing* by_right);
  void schedule_cell(Cell& cell, Decisions& out);
  void start_all_in(Cell& cell, Decisions& out);
  [[nodiscard]] bool start_one_in(Cell& cell, Decisions& out);
  [[nodiscard]] bool start_one_of(Cell& cell, unsigned ring, Decisions& out);
  [[nodiscard]] uint32_t pick_placed(const Cell& cell, unsigned ring, const Room& free);

  void enqueue(Operation& operation, FlowQueue& queue);
  Operation& dequeue(FlowQueue& queue, Operation& operation);
  void end_run(Operation& operation);
  void forget_operation(Operation& operation);
  void relist_queue(FlowQueue& queue);
  static void offer_taker(TurnTaker& taker);
  static void unlink_queue(FlowQueue& queue);

  // tuning.cpp: limits that change under way, and homes that move.
  [[nodiscard]] bool adapt_to_ready(Flow& flow, NodeId node, Decisions& out);
  void adapt_to_end(Flow& flow, EpochId epoch, std::optional<double> seconds, Decisions& out);
  [[nodiscard]] bool tell_climber(const Flow& flow, Cell& cell, const Finished& finished);
  void take_limits(const Device& device, Decisions& out);
  bool take_limit(Flow& flow, Decisions& out);
  static void adjust_held(FlowQueue& queue);
  void schedule_flow(Flow& flow, Decisions& out);
  void move_any_queue(Flow& flow, TurnTaker& to);
  static void review_taker(TurnTaker& taker);

  // placement.cpp: nodes, queues and operations for any node.
  [[nodiscard]] FlowQueue* find_queue(const Flow& flow, NodeId node) const noexcept;
  [[nodiscard]] bool is_below_limit(const Flow& flow, const Node& node) const noexcept;
  [[nodiscard]] FlowQueue& open_queue_on(Flow& flow, Node& node);
  [[nodiscard]] FlowQueue& open_any_queue(Flow& flow);
  [[nodiscard]] FlowQueue& make_queue(Flow& flow, Cell* cell);
  [[nodiscard]] static TurnTaker* find_home_taker(const Flow& flow) noexcept;
  [[nodiscard]] TurnTaker& open_taker(Flow& flow, Cell* cell);
  [[nodiscard]] TurnTaker& make_taker(Flow& flow, Cell* cell);
  [[nodiscard]] Node* find_node_in(Flow& flow, const Cell& cell);
  [[nodiscard]] static Node::Use& open_use(const Device& device, Node& node);
  [[nodiscard]] Cell& open_cell(Device& device, Node& node);
  [[nodiscard]] Node* find_first_node(Flow& flow);
  [[nodiscard]] Node* find_first_below_limit(Flow& flow);
  void place_waiting(Device& device, unsigned ring, Decisions& out);
  [[nodiscard]] static bool waits_above(const Device& device, unsigned ring) noexcept;
  static void stall_cell(Cell& cell, unsigned ring);
  void release_held_back(Device& device, Decisions& out);
  [[nodiscard]] static Cell* take_next_released(Device& device);
  static void update_rooms(const Cell& cell);
  void update_below_limit(FlowQueue& queue);
  void build_rooms(Device& device);
  static void add_to_rooms(Device& device, Node& node);
  void build_below_limit(Flow& flow);
  [[nodiscard]] Node& find_node_with(const Device& device, NodeId id);
  void give_device(Device& device, Node& node, Decisions& out);
  void close_queue(FlowQueue& queue);
  void close_cells(Node& node);
  void close_cell(Cell& cell);
  void remove_from_order(const Node& node);
  void renumber_nodes();

  IdMap<Operation> operations_;
  IdMap<Node> nodes_;
  IdMap<FlowQueue> queues_;  ///< key: flow and node id side by side
  Pool<Operation> operation_pool_;
  Pool<Node> node_pool_;
  Pool<FlowQueue> queue_pool_;
  Pool<TurnTaker> taker_pool_;
  Pool<Cell> cell_pool_;
  std::vector<Node*> order_;  ///< see nodes_in_order()
  size_t first_up_ = 0;       ///< position of the first node that is up
  size_t up_ = 0;
  LearningNodes learning_nodes_{*this};
};

}  // namespace ioweave::policy
