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

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "policy/id_map.hpp"
#include "policy/limiter.hpp"
#include "policy/min_tree.hpp"
#include "policy/policy.hpp"
#include "policy/pool.hpp"
#include "policy/turn_ring.hpp"

namespace ioweave::policy {

struct Lane;
struct Stream;

struct Operation {
  OperationId id = 0;
  Lane* lane = nullptr;
  Operation* next = nullptr;  ///< in the lane's `waiting` or `running`
  Operation* previous = nullptr;
  uint64_t bytes = 0;
  int64_t hold_bytes_per_s = 0;  ///< taken from the cell while it runs
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
  Node* node = nullptr;  ///< null: shared by all
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
  std::array<uint64_t, kClasses> stride{};  ///< weighted: lag of one byte
  std::array<uint64_t, kClasses> waiting{};
  std::unique_ptr<Cell> shared;  ///< scope shared only

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
  Lane* any = nullptr;       ///< operations for any node
  Stream* shared = nullptr;  ///< its stream where the device is shared
  /// Where it has a limit and operations for any node: 0 at each position where the limit leaves
  /// room, nothing elsewhere.
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
  };
  std::vector<Use> uses;
};

struct Lane {
  Flow* flow = nullptr;
  Node* node = nullptr;  ///< null: any
  Stream* stream = nullptr;
  Limit limit;
  uint32_t running_count = 0;
  bool listed = false;  ///< in its stream: it has a waiting operation and its limit lets it start
  OperationList waiting;
  OperationList running;
  Lane* next = nullptr;  ///< circular, among the listed lanes of its stream
  Lane* previous = nullptr;

  [[nodiscard]] bool below_limit() const noexcept { return running_count < limit.at_once; }
};

struct Stream {
  Queues* queues = nullptr;
  Cell* cell = nullptr;  ///< null: of Device::placed
  unsigned ring = 0;
  uint32_t slot = 0;
  Lane* first = nullptr;  ///< whose operation is next; null: idle
};

/// One thread at a time. The caller has checked ids and states.
class Scheduler {
 public:
  using Decisions = std::vector<Decision>;

  DeviceId add_device(const DeviceConfig& config);
  FlowId add_flow(const FlowConfig& config);

  void ready(const Ready& event, Decisions& out);
  void ended(Operation& operation, Decisions& out);  ///< it ran
  void cancelled(Operation& operation, Decisions& out);
  void activity(const Activity& event, Decisions& out);
  void node_up(NodeId id, Decisions& out);
  void node_down(NodeId id, Decisions& out);

  [[nodiscard]] Operation* find(OperationId id) const noexcept { return operations_.find(id); }
  [[nodiscard]] bool is_up(NodeId id) const noexcept { return nodes_.find(id) != nullptr; }

  std::deque<Device> devices;  ///< a deque: addresses stay
  std::deque<Flow> flows;
  uint64_t waiting = 0;
  uint64_t running = 0;

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

  void enqueue(Operation& operation, Lane& lane);
  Operation& dequeue(Lane& lane, Operation& operation);
  void leave(Operation& operation);
  void forget(Operation& operation);
  void relist(Lane& lane);
  static void link(Lane& lane);
  static void unlink(Lane& lane);

  // placement.cpp: nodes, lanes and operations for any node.
  [[nodiscard]] Lane* find_lane(const Flow& flow, NodeId node) const noexcept;
  [[nodiscard]] bool below_limit(const Flow& flow, const Node& node) const noexcept;
  [[nodiscard]] Lane& lane_at(Flow& flow, Node& node);
  [[nodiscard]] Lane& any_lane(Flow& flow);
  [[nodiscard]] Lane& open_lane(Flow& flow, Cell* cell);
  [[nodiscard]] Stream& open_stream(Flow& flow, Cell* cell);
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
