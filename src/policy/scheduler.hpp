#pragma once

// Who starts next, where. Policy validates and translates; everything that is decided is decided
// here.
//
// The parts, from the outside in:
//   Device     its budget; waiting operations that may run on any node (`placed`)
//   Cell       where a budget counts: one per node and device, or one per shared device
//   Stream     what takes turns in a cell: a flow
//   Lane       the operations of a flow on one node (or on any), first in first out
//   Operation  waiting in a lane, or running in one
//
// The invariant: between two events nothing that waits could start. So an operation that becomes
// ready is tried alone, without a look at any queue, and an end looks only at the cell it left.
// That makes the uncontended path short (about 50 ns of CPU for Ready, Started and Finished
// together) and the contended one O(log flows).
//
// Operations for any node wait at the device and go to the first node, in order of NodeUp, with
// room; a tournament tree per class holds each node's room. Two things they may hold back without
// being in any cell, and whom they held back is remembered, so that it goes on when they do not
// wait any more (release()):
//   - where smaller ones have passed one of them too often, the node where that happened is
//     *promised* to it;
//   - under `strict`, cells in which a lower class could have started are *stalled*.
//
// A flow whose limiter learns in epochs has a *home*: on a device of scope node the cell of one
// node, else the shared cell. Its epochs count there and its operations for any node wait there, in
// its stream of that cell, as if they were bound to it. Streams are *held back*, not offered to
// their ring, where the epoch of their flow is full, or where the cell is the home of a learner
// that has it to itself (Cell::learner). tuning.cpp holds this and what follows from a limit that
// changes.

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "policy/backlog.hpp"
#include "policy/climb.hpp"
#include "policy/id_map.hpp"
#include "policy/limiter.hpp"
#include "policy/min_tree.hpp"
#include "policy/policy.hpp"
#include "policy/pool.hpp"
#include "policy/turn_ring.hpp"

namespace ioweave::policy {

struct Flow;
struct Lane;
struct Stream;

struct Operation {
  OperationId id = 0;
  Flow* flow = nullptr;
  Lane* lane = nullptr;
  Operation* next = nullptr;  ///< in the lane's `waiting` or `running`
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

/// What takes turns: one per class, or a single one where classes do not count.
struct Queues {
  std::array<TurnRing, kClasses> rings;
  std::array<std::vector<Stream*>, kClasses> streams;  ///< by slot of the ring
  uint32_t listed = 0;                                 ///< streams that wait

  [[nodiscard]] bool empty() const noexcept { return listed == 0; }
};

struct Device;
struct Node;

struct Cell {
  Device* device = nullptr;
  Node* node = nullptr;           ///< null: shared by all
  const Flow* learner = nullptr;  ///< who has it to itself, if any
  uint32_t homes = 0;             ///< flows that learn here
  ClimbingCount climbing;         ///< operations of flows with `climb`
  Backlog waiting;                ///< operations of all flows that may start here only
  int64_t held_bytes_per_s = 0;
  uint32_t in_flight = 0;
  std::array<uint32_t, kClasses> running{};
  std::array<uint64_t, kClasses> active{};  ///< on the fast path, past the policy
  std::array<uint64_t, kClasses> lag{};     ///< weighted: how far ahead of its share a class is
  Queues queues;
  std::array<bool, kClasses> stalled{};  ///< is in Device::stalled
  bool placed_turn = false;              ///< the next start in a tie is one from Device::placed
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
  uint32_t learners = 0;             ///< cells that a learner has to itself

  // Scope node only, once an operation for any node has come (`places`).
  bool places = false;
  Queues placed;
  std::array<Cell*, kClasses> promised{};  ///< to the holder of the placed ring; null: none
  /// Strict: cells where this ring would have started something, but for a higher one in `placed`.
  std::array<std::vector<Cell*>, kClasses> stalled;
  /// Likewise operations of this ring for any node.
  std::array<bool, kClasses> held_back{};
  /// By ring: minus the room on the node at each position.
  std::array<MinTree, kClasses> rooms;
  bool rooms_built = false;

  [[nodiscard]] bool strict() const noexcept { return config.scheduling == Scheduling::strict; }
  [[nodiscard]] bool weighted() const noexcept { return config.scheduling == Scheduling::weighted; }
};

struct Flow {
  FlowConfig config;
  FlowId id = 0;
  Device* device = nullptr;
  unsigned priority = 0;
  unsigned ring = 0;
  std::unique_ptr<Limiter> limiter;
  Limit limit;              ///< the limiter's
  bool adapts = false;      ///< the limiter's
  bool climbs = false;      ///< it is in Device::climbing
  bool free = false;        ///< Policy::unconstrained()
  uint32_t told_limit = 0;  ///< by the last SetLimit
  Cell* home = nullptr;     ///< while it learns: where; null until it is known, or if no node is up
  uint64_t waiting = 0;
  uint64_t waiting_bound = 0;  ///< of these, not for any node
  uint64_t running = 0;
  Lane* any = nullptr;       ///< operations for any node
  Stream* shared = nullptr;  ///< its stream where the device is shared
  Stream* placed = nullptr;  ///< its stream in Device::placed
  /// For operations for any node, where it has a limit, or its device is shared by some nodes only:
  /// 0 at each position where the limit leaves room and the device is, nothing elsewhere.
  MinTree below_limit;
  bool below_limit_built = false;
};

struct Node {
  NodeId id = 0;
  uint32_t position = 0;  ///< in order of NodeUp
  std::vector<Lane*> lanes;
  /// By device, as far as used.
  struct Use {
    Cell* cell = nullptr;                     ///< scope node
    std::array<uint32_t, kClasses> active{};  ///< as last told
    bool told = false;                        ///< by DeviceUp
  };
  std::vector<Use> uses;
};

struct Lane {
  Flow* flow = nullptr;
  Node* node = nullptr;  ///< null: any
  Stream* stream = nullptr;
  uint32_t running_count = 0;
  bool listed = false;  ///< in its stream: it has a waiting operation and its limit lets it start
  OperationList waiting;
  OperationList running;
  Lane* next = nullptr;  ///< circular, among the listed lanes of its stream
  Lane* previous = nullptr;

  [[nodiscard]] bool below_limit() const noexcept { return running_count < flow->limit.at_once; }
};

struct Stream {
  const Flow* flow = nullptr;
  Queues* queues = nullptr;
  Cell* cell = nullptr;  ///< null: of Device::placed
  unsigned ring = 0;
  uint32_t slot = 0;
  Lane* first = nullptr;   ///< whose operation is next; null: idle
  bool held_back = false;  ///< by learning, its own or that of another flow
  bool offered = false;    ///< to its ring
};

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
  void ready(const Ready& event, Decisions& out);
  /// It ran; `finished` is null where it failed or was cancelled.
  void ended(Operation& operation, const Finished* finished, Decisions& out);
  void cancelled(Operation& operation, Decisions& out);
  void sample(const Sample& event, Decisions& out);
  void activity(const Activity& event, Decisions& out);
  void node_up(NodeId id, Decisions& out);
  void node_down(NodeId id, Decisions& out);
  void device_up(const DeviceUp& event, Decisions& out);

  [[nodiscard]] Operation* find(OperationId id) const noexcept { return operations_.find(id); }
  [[nodiscard]] bool is_up(NodeId id) const noexcept { return nodes_.find(id) != nullptr; }
  /// It is up and has the device.
  [[nodiscard]] bool has(NodeId id, const Device& device) const noexcept;

  /// Operations that run on the node, which is up, of all flows.
  [[nodiscard]] uint64_t running_on(NodeId id) const;

  std::deque<Device> devices;  ///< a deque: addresses stay
  std::deque<Flow> flows;
  uint64_t waiting = 0;
  uint64_t running = 0;
  uint64_t now_ns = 0;  ///< of the event

  void explain(const Flow& flow, Explanation& out) const;

 private:
  // scheduler.cpp: the rules of a cell.
  /// Bandwidth that one more operation may hold; -1: it may not start, whatever it holds.
  struct Room {
    int64_t bound_holder;   ///< whose turn it is in the cell's own ring
    int64_t placed_holder;  ///< whose turn it is in the ring of Device::placed
    int64_t others;
  };
  [[nodiscard]] static Room room(const Cell& cell, unsigned ring) noexcept;
  [[nodiscard]] static bool admits(Cell& cell, const Lane& lane);
  void run(Operation& operation, Lane& lane, Decisions& out);
  void run_next(Queues& queues, unsigned ring, uint32_t slot, Lane& target, Decisions& out);
  void settle(Cell& cell, const Operation& operation, const TurnRing* by_right);
  static void charge(Cell& cell, unsigned ring, uint64_t bytes);
  void pass_over(Cell& cell, unsigned ring, const TurnRing* by_right);
  void schedule(Cell& cell, Decisions& out);
  void start_all(Cell& cell, Decisions& out);
  [[nodiscard]] bool start_one(Cell& cell, Decisions& out);
  [[nodiscard]] bool start_one(Cell& cell, unsigned ring, Decisions& out);
  [[nodiscard]] static std::array<unsigned, kClasses> ring_order(const Cell& cell);
  [[nodiscard]] Lane& target_in(const Cell& cell, Flow& flow);
  [[nodiscard]] uint32_t pick_placed(const Cell& cell, unsigned ring, const Room& free);

  static void add_climber(Flow& flow);
  void enqueue(Operation& operation, Lane& lane);
  Operation& dequeue(Lane& lane, Operation& operation);
  void leave(Operation& operation);
  void forget(Operation& operation);
  [[nodiscard]] static Backlog& backlog_of(const Lane& lane) noexcept;
  void relist(Lane& lane);
  static void offer(Stream& stream);
  static void link(Lane& lane);
  static void unlink(Lane& lane);

  // tuning.cpp: limits that change under way, and where flows learn.
  [[nodiscard]] uint64_t of_each_node(const Flow& flow, uint64_t operations) const;
  [[nodiscard]] bool heard_ready(Flow& flow, NodeId node, Decisions& out);
  void heard_end(Flow& flow, EpochId epoch, std::optional<double> seconds, Decisions& out);
  [[nodiscard]] bool heard_climbing_end(const Flow& flow, Cell& cell, const Finished& finished);
  void take_limits(const Device& device, Decisions& out);
  static void count_start(Operation& operation);
  bool take_limit(Flow& flow, Decisions& out);
  static void hold_anew(Lane& lane);
  void schedule_flow(Flow& flow, Decisions& out);
  [[nodiscard]] Node* pick_home(Device& device, NodeId wanted);
  [[nodiscard]] bool busy_at_home(const Flow& flow) const;
  void settle_home(Flow& flow, NodeId wanted);
  void enter_home(Flow& flow, Node& node);
  void leave_home(Flow& flow);
  void leave_homes_at(const Node& node);
  void review_homes(Decisions& out);
  void move_any_lane(Flow& flow, Stream& to);
  void claim(Flow& flow);
  void give_up_claim(Flow& flow);
  void review_home(Flow& flow);
  [[nodiscard]] static bool keeps_out(const Cell& cell, unsigned ring) noexcept;
  [[nodiscard]] static bool is_held_back(const Stream& stream) noexcept;
  static void hold_back_or_offer(Stream& stream);
  static void review_streams(Cell& cell);

  // placement.cpp: nodes, lanes and operations for any node.
  [[nodiscard]] Lane* find_lane(const Flow& flow, NodeId node) const noexcept;
  [[nodiscard]] bool below_limit(const Flow& flow, const Node& node) const noexcept;
  [[nodiscard]] Lane& lane_at(Flow& flow, Node& node);
  [[nodiscard]] Lane& any_lane(Flow& flow);
  [[nodiscard]] Lane& open_lane(Flow& flow, Cell* cell);
  [[nodiscard]] Stream& stream_of(Flow& flow, Cell* cell);
  [[nodiscard]] Stream& open_stream(Flow& flow, Cell* cell);
  [[nodiscard]] Node* node_for_any(Flow& flow, const Cell& cell);
  [[nodiscard]] static Node::Use& use_of(const Device& device, Node& node);
  [[nodiscard]] Cell& cell_of(Device& device, Node& node);
  [[nodiscard]] Node* first_node(Flow& flow);
  [[nodiscard]] Node* first_below_limit(Flow& flow);
  void place(Device& device, unsigned ring, Decisions& out);
  [[nodiscard]] static bool waits_above(const Device& device, unsigned ring) noexcept;
  static void stall(Cell& cell, unsigned ring);
  void release(Device& device, Decisions& out);
  [[nodiscard]] static Cell* next_released(Device& device);
  static void touch(const Cell& cell);
  void limit_changed(Lane& lane);
  void build_rooms(Device& device);
  static void add_to_rooms(Device& device, Node& node);
  void build_below_limit(Flow& flow);
  [[nodiscard]] static bool has(const Node& node, const Device& device) noexcept;
  [[nodiscard]] Node& node_with(const Device& device, NodeId id);
  void enter(Device& device, Node& node, Decisions& out);
  void close_lane(Lane& lane);
  void close_cells(Node& node);
  void close_cell(Cell& cell);
  void remove_from_order(const Node& node);
  void renumber();

  IdMap<Operation> operations_;
  IdMap<Node> nodes_;
  IdMap<Lane> lanes_;  ///< key: flow and node id side by side
  Pool<Operation> operation_pool_;
  Pool<Node> node_pool_;
  Pool<Lane> lane_pool_;
  Pool<Stream> stream_pool_;
  Pool<Cell> cell_pool_;
  std::vector<Node*> order_;  ///< by position; null where a node went down
  size_t first_up_ = 0;       ///< position of the first node that is up
  size_t up_ = 0;
};

}  // namespace ioweave::policy
