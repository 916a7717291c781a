#pragma once

// A cluster in virtual time, under the same policy object as everything else: nodes with cores,
// devices whose throughput depends on how many streams use them, and a graph of tasks. It answers
// what a program would take on a machine that is not at hand, and lets a policy be tried on 10,000
// nodes in minutes.
//
// The model. A compute task takes `cpus` cores of one node for its seconds. A transfer moves its
// bytes over a device; streams that use the same device (of the same node, or the shared one) get
// equal parts of what its curve gives for their number. Nothing else takes time: no scheduler, no
// network, no cache. Compute tasks start in the order in which they became ready, on the first node
// with enough free cores; one that fits passes those that do not. A blocking transfer needs a node
// that has its device.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/curve.hpp"
#include "policy/min_tree.hpp"
#include "policy/policy.hpp"

namespace ioweave::simulator {

using TaskId = uint32_t;
inline constexpr TaskId kNoTask = 0xFFFFFFFFU;
/// Of a task, and of virtual time when a curve changes: 30 years, which 64 bits of ns hold.
inline constexpr double kMostSeconds = 1e9;

struct Task {
  enum class Kind : uint8_t {
    compute,      ///< cores for `seconds`
    io,           ///< no cores: `bytes` over the device of `flow`, when the policy says
    blocking_io,  ///< cores for `seconds` and then while `bytes` go over `device`, past the policy
  } kind = Kind::compute;
  uint32_t cpus = 1;
  double seconds = 0;
  uint64_t bytes = 0;
  policy::FlowId flow = 0;
  policy::DeviceId device = 0;
  /// Runs on the node where this dependency ran, if that has the device and the cores for it, else
  /// on any, as without one.
  TaskId beside = kNoTask;
};

struct Record {
  enum class State : uint8_t { waiting, running, ended } state = State::waiting;
  policy::NodeId node = 0;
  double ready_s = 0;
  double start_s = 0;
  double end_s = 0;
};

struct Cluster {
  uint32_t nodes = 1;
  uint32_t cores = 1;                   ///< of each node
  double sample_period_s = 1;           ///< how often the policy is told what devices move
  std::vector<uint32_t> cores_of = {};  ///< by node, instead of `cores`, where nodes differ
};

/// The transfers of a flow.
struct FlowCounts {
  uint64_t waiting = 0;  ///< for the policy
  uint64_t running = 0;
  uint64_t ended = 0;
  uint64_t bytes = 0;  ///< of those that ended
};

/// One thread at a time.
class Simulation {
 public:
  /// What the policy hears goes through `tell`, so that it can be recorded.
  using Tell = std::function<void(const policy::Event& event, uint64_t now_ns,
                                  std::vector<policy::Decision>& out)>;

  /// The policy has heard nothing yet; its devices and flows may be added later. Node 0 is up in
  /// it from the beginning, the others are told.
  Simulation(const policy::Policy& policy, Tell tell, const Cluster& cluster);

  /// From now on device `id` of the policy moves what the curve says.
  void set_curve(policy::DeviceId id, model::Curve curve);
  /// The same at `seconds` of virtual time, which have not passed.
  void set_curve_at(double seconds, policy::DeviceId id, model::Curve curve);

  /// From now on the node, one of the cluster's, has this device, which is not everywhere.
  void device_up(policy::DeviceId id, policy::NodeId node);

  /// Adds a task that is ready once `after` have ended, and says kNoTask with the reason in `why`
  /// where it could never run: more cpus than any node has, no such flow, device or task, a device
  /// without a curve, or `beside` one that is not among `after`.
  [[nodiscard]] TaskId submit(const Task& task, std::span<const TaskId> after, std::string& why);

  enum class Progress : uint8_t {
    ended,     ///< the task has, or all have
    going_on,  ///< there is more to do
    watched,   ///< a watched task has ended just now
    stuck,     ///< nothing can happen any more: the policy holds something back for ever
  };
  /// Lets at most `steps` things happen, fewer where the task `until` or one that is watched has
  /// ended before; kNoTask stands for all tasks.
  [[nodiscard]] Progress go_on(uint64_t steps, TaskId until = kNoTask);

  /// go_on() is to stop when this task, which has not ended, does.
  void watch(TaskId id);

  [[nodiscard]] double now_s() const noexcept;
  [[nodiscard]] size_t tasks() const noexcept { return tasks_.size(); }
  [[nodiscard]] uint64_t unfinished() const noexcept { return unfinished_; }
  [[nodiscard]] uint32_t nodes() const noexcept { return cluster_.nodes; }
  [[nodiscard]] uint64_t free_cores() const noexcept;
  [[nodiscard]] FlowCounts counts_of(policy::FlowId flow) const;
  [[nodiscard]] const Record& record(TaskId id) const { return tasks_[id].record; }
  /// Bytes that the device has moved, on all nodes.
  [[nodiscard]] double moved_bytes(policy::DeviceId id) const;

 private:
  struct Entry {
    Task task;
    Record record;
    bool watched = false;
    uint32_t missing = 0;  ///< dependencies that have not ended
    std::vector<TaskId> successors;
  };

  /// Streams of one device: of one node, or the shared one.
  struct Cell {
    policy::DeviceId device = 0;
    policy::NodeId node = 0;
    uint32_t streams = 0;
    double served = 0;   ///< bytes that each stream has got since the cell was last idle
    double moved = 0;    ///< bytes of all streams, ever
    double sampled = 0;  ///< `moved` at the last sample
    uint64_t at_ns = 0;
    uint64_t version = 0;  ///< of the event for its next end
    struct End {
      double served;
      TaskId task;
      bool operator>(const End& other) const noexcept {
        return served != other.served ? served > other.served : task > other.task;
      }
    };
    std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  };

  struct Device {
    bool has_curve = false;
    bool shared = false;
    model::Curve curve;
    std::vector<uint32_t> cells;  ///< by node, kNoCell where unused; one where shared
  };

  struct Node {
    uint32_t cores = 0;
    uint32_t free = 0;           ///< of these
    std::deque<TaskId> waiting;  ///< compute tasks for this node only
  };

  struct Happening {
    uint64_t at_ns;
    uint64_t order;
    enum class Kind : uint8_t { computed, moved, sample, curve } kind;
    uint32_t id;  ///< task, cell, or curve
    uint64_t version;
    bool operator>(const Happening& other) const noexcept {
      return at_ns != other.at_ns ? at_ns > other.at_ns : order > other.order;
    }
  };

  struct LaterCurve {
    policy::DeviceId device;
    model::Curve curve;
  };

  /// What a compute task needs of a node: a device that is not everywhere, or kNoDevice; and cpus.
  using Need = std::pair<policy::DeviceId, uint32_t>;

  [[nodiscard]] Need need_of(const Task& task) const;
  [[nodiscard]] bool has(policy::NodeId node, policy::DeviceId device) const;
  [[nodiscard]] bool can_ever_run(const Task& task, policy::NodeId node) const;
  [[nodiscard]] policy::NodeId sampled_node(const Cell& cell) const;
  [[nodiscard]] std::string problem_of(const Task& task, std::span<const TaskId> after) const;
  [[nodiscard]] bool has_ended(TaskId until) const;
  void happen(const Happening& what);
  void at(uint64_t at_ns, Happening::Kind kind, uint32_t id, uint64_t version = 0);
  void begin(TaskId id);  ///< its dependencies have ended
  void compute(TaskId id, policy::NodeId node);
  void fill(policy::NodeId node);
  void transfer(TaskId id, policy::DeviceId device, policy::NodeId node);
  void end(TaskId id);
  void tell(const policy::Event& event);
  void start(const policy::Start& decision);
  void sample();
  void sample_next();
  void take_cores(policy::NodeId node, uint32_t cpus);
  void give_cores(policy::NodeId node, uint32_t cpus);
  [[nodiscard]] Device& device_at(policy::DeviceId id);
  [[nodiscard]] FlowCounts& counts_at(policy::FlowId id);
  [[nodiscard]] Cell& cell_at(policy::DeviceId device, policy::NodeId node);
  void advance(Cell& cell) const;
  void expect_end(Cell& cell);
  [[nodiscard]] static bool is_io(const Task& task) { return task.kind == Task::Kind::io; }
  [[nodiscard]] policy::DeviceId device_of(const Task& task) const;

  const policy::Policy& policy_;
  Tell tell_;
  Cluster cluster_;
  uint64_t now_ns_ = 0;
  uint64_t order_ = 0;
  uint64_t unfinished_ = 0;
  uint64_t io_pending_ = 0;  ///< operations that the policy knows
  bool sampling_ = false;
  uint64_t sampled_ns_ = 0;
  unsigned samples_ = 0;
  bool watched_ended_ = false;  ///< since go_on() last looked
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> happenings_;
  std::deque<Entry> tasks_;
  std::vector<Node> nodes_;
  std::vector<Device> devices_;
  std::vector<FlowCounts> flows_;
  std::deque<Cell> cells_;
  std::vector<LaterCurve> later_curves_;
  std::map<Need, std::deque<TaskId>> waiting_;  ///< compute tasks for any node
  policy::MinTree free_;                        ///< minus the free cores of each node
  std::vector<policy::Decision> decisions_;
};

}  // namespace ioweave::simulator
