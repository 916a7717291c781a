#include "simulator/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/assert.hpp"

namespace ioweave::simulator {
namespace {

constexpr uint32_t kNoCell = 0xFFFFFFFFU;
constexpr policy::DeviceId kNoDevice = 0xFFFFFFFFU;
constexpr double kNsPerSecond = 1e9;

uint64_t to_ns(double seconds) {
  return static_cast<uint64_t>(std::ceil(seconds * kNsPerSecond));
}

double to_s(uint64_t ns) {
  return static_cast<double>(ns) / kNsPerSecond;
}

}  // namespace

Simulation::Simulation(const policy::Policy& policy, Tell tell, const Cluster& cluster)
    : policy_(policy), tell_(std::move(tell)), cluster_(cluster) {
  IOW_ASSERT(cluster.nodes > 0 && cluster.cores > 0 && cluster.sample_period_s > 0);
  IOW_ASSERT(cluster.cores_of.empty() || cluster.cores_of.size() == cluster.nodes);
  nodes_.resize(cluster.nodes);
  for (policy::NodeId node = 0; node < cluster.nodes; ++node) {
    const uint32_t cores = cluster.cores_of.empty() ? cluster.cores : cluster.cores_of[node];
    cluster_.cores = node == 0 ? cores : std::max(cluster_.cores, cores);  // The most of any.
    nodes_[node].cores = nodes_[node].free = cores;
    free_.set(node, -static_cast<int64_t>(cores));
    if (node > 0) {
      tell_(policy::NodeUp{node}, 0, decisions_);
    }
  }
}

double Simulation::now_s() const noexcept {
  return to_s(now_ns_);
}

double Simulation::moved_bytes(policy::DeviceId id) const {
  double sum = 0;
  for (const Cell& cell : cells_) {
    sum += cell.device == id ? cell.moved : 0;
  }
  return sum;
}

uint64_t Simulation::free_cores() const noexcept {
  uint64_t sum = 0;
  for (const Node& node : nodes_) {
    sum += node.free;
  }
  return sum;
}

FlowCounts Simulation::counts_of(policy::FlowId flow) const {
  FlowCounts counts = flow < flows_.size() ? flows_[flow] : FlowCounts{};
  if (flow < policy_.flows()) {
    const policy::Counts known = policy_.flow_counts(flow);
    counts.waiting = known.waiting;
    counts.running = known.running;
  }
  return counts;
}

FlowCounts& Simulation::counts_at(policy::FlowId id) {
  if (flows_.size() <= id) {
    flows_.resize(id + 1);
  }
  return flows_[id];
}

// ---- Devices -----------------------------------------------------------------------------------

Simulation::Device& Simulation::device_at(policy::DeviceId id) {
  IOW_ASSERT(id < policy_.devices());
  if (devices_.size() <= id) {
    devices_.resize(id + 1);
  }
  Device& device = devices_[id];
  device.shared = policy_.device(id).scope == policy::Scope::shared;
  return device;
}

void Simulation::set_curve(policy::DeviceId id, model::Curve curve) {
  Device& device = device_at(id);
  for (const uint32_t cell : device.cells) {
    if (cell != kNoCell) {
      advance(cells_[cell]);
    }
  }
  device.has_curve = true;
  device.curve = std::move(curve);
  for (const uint32_t cell : device.cells) {
    if (cell != kNoCell) {
      expect_end(cells_[cell]);
    }
  }
}

void Simulation::set_curve_at(double seconds, policy::DeviceId id, model::Curve curve) {
  IOW_ASSERT(id < policy_.devices() && seconds >= now_s() && seconds <= kMostSeconds);
  later_curves_.push_back({id, std::move(curve)});
  at(to_ns(seconds), Happening::Kind::curve, static_cast<uint32_t>(later_curves_.size() - 1));
}

Simulation::Cell& Simulation::cell_at(policy::DeviceId id, policy::NodeId node) {
  Device& device = device_at(id);
  const policy::NodeId place = device.shared ? 0 : node;
  if (device.cells.size() <= place) {
    device.cells.resize(device.shared ? 1 : cluster_.nodes, kNoCell);
  }
  if (device.cells[place] == kNoCell) {
    device.cells[place] = static_cast<uint32_t>(cells_.size());
    Cell& cell = cells_.emplace_back();
    cell.device = id;
    cell.node = place;
    cell.at_ns = now_ns_;
  }
  return cells_[device.cells[place]];
}

/// Each stream gets its part of what was moved since the last look.
void Simulation::advance(Cell& cell) const {
  if (cell.streams > 0) {
    const double moved =
        devices_[cell.device].curve.bytes_per_s(cell.streams) * to_s(now_ns_ - cell.at_ns);
    cell.served += moved / cell.streams;
    cell.moved += moved;
  }
  cell.at_ns = now_ns_;
}

/// The number of streams or the curve has changed: when will the next one end?
void Simulation::expect_end(Cell& cell) {
  ++cell.version;
  if (cell.streams == 0) {
    cell.served = 0;
    return;
  }
  const double of_each = devices_[cell.device].curve.bytes_per_s(cell.streams) / cell.streams;
  const double left = std::max(0.0, cell.ends.top().served - cell.served);
  const uint32_t index = devices_[cell.device].cells[cell.node];
  at(now_ns_ + to_ns(left / of_each), Happening::Kind::moved, index, cell.version);
}

void Simulation::device_up(policy::DeviceId id, policy::NodeId node) {
  IOW_ASSERT(node < cluster_.nodes);
  tell(policy::DeviceUp{id, node});
  fill(node);
}

/// The one whose sample tells of this cell.
policy::NodeId Simulation::sampled_node(const Cell& cell) const {
  policy::NodeId node = cell.node;
  while (!policy_.has(node, cell.device) && node + 1 < cluster_.nodes) {
    ++node;
  }
  return node;
}

void Simulation::transfer(TaskId id, policy::DeviceId device, policy::NodeId node) {
  Cell& cell = cell_at(device, node);
  advance(cell);
  ++cell.streams;
  cell.ends.push({cell.served + static_cast<double>(tasks_[id].task.bytes), id});
  expect_end(cell);
}

// ---- Tasks -------------------------------------------------------------------------------------

policy::DeviceId Simulation::device_of(const Task& task) const {
  return is_io(task) ? policy_.flow(task.flow).device : task.device;
}

Simulation::Need Simulation::need_of(const Task& task) const {
  const bool anywhere =
      task.kind == Task::Kind::compute || policy_.device(device_of(task)).everywhere;
  return {anywhere ? kNoDevice : device_of(task), is_io(task) ? 0 : task.cpus};
}

bool Simulation::has(policy::NodeId node, policy::DeviceId device) const {
  return device == kNoDevice || policy_.has(node, device);
}

bool Simulation::can_ever_run(const Task& task, policy::NodeId node) const {
  const auto& [device, cpus] = need_of(task);
  return nodes_[node].cores >= cpus && has(node, device);
}

std::string Simulation::problem_of(const Task& task, std::span<const TaskId> after) const {
  if (is_io(task) && task.flow >= policy_.flows()) {
    return "flow " + std::to_string(task.flow) + " does not exist";
  }
  if (!is_io(task) && (task.cpus == 0 || task.cpus > cluster_.cores)) {
    return std::to_string(task.cpus) + " cpus: a node has " + std::to_string(cluster_.cores);
  }
  if (!(task.seconds >= 0 && task.seconds <= kMostSeconds)) {
    return std::to_string(task.seconds) + " s: must be from 0 to 1e9";
  }
  if (task.kind != Task::Kind::compute) {
    const policy::DeviceId device = device_of(task);
    if (device >= devices_.size() || !devices_[device].has_curve) {
      return "device " + std::to_string(device) + " has no curve: call set_curve() first";
    }
  }
  if (task.kind == Task::Kind::blocking_io && need_of(task).first != kNoDevice) {
    policy::NodeId node = 0;
    while (node < cluster_.nodes && !can_ever_run(task, node)) {
      ++node;
    }
    if (node == cluster_.nodes) {
      return "no node with device '" + policy_.device(task.device).name + "' has " +
             std::to_string(task.cpus) + " cpus";
    }
  }
  for (const TaskId id : after) {
    if (id >= tasks_.size()) {
      return "task " + std::to_string(id) + " does not exist";
    }
  }
  if (task.beside != kNoTask && std::find(after.begin(), after.end(), task.beside) == after.end()) {
    return "it is to run beside a task that it does not wait for";
  }
  return {};
}

TaskId Simulation::submit(const Task& task, std::span<const TaskId> after, std::string& why) {
  if (std::string problem = problem_of(task, after); !problem.empty()) {
    why = std::move(problem);
    return kNoTask;
  }
  const auto id = static_cast<TaskId>(tasks_.size());
  Entry& entry = tasks_.emplace_back();
  entry.task = task;
  ++unfinished_;
  for (const TaskId before : after) {
    if (tasks_[before].record.state != Record::State::ended) {
      tasks_[before].successors.push_back(id);
      ++entry.missing;
    }
  }
  if (entry.missing == 0) {
    begin(id);
  }
  return id;
}

void Simulation::begin(TaskId id) {
  Entry& entry = tasks_[id];
  entry.record.ready_s = now_s();
  Task& task = entry.task;
  if (task.beside != kNoTask && !can_ever_run(task, tasks_[task.beside].record.node)) {
    task.beside = kNoTask;
  }
  const bool bound = task.beside != kNoTask;
  const policy::NodeId node = bound ? tasks_[task.beside].record.node : policy::kAnyNode;
  if (is_io(task)) {
    ++io_pending_;
    if (!sampling_) {
      sampling_ = true;
      sample_next();
    }
    tell(policy::Ready{id, task.flow, node, task.bytes});
    return;
  }
  if (bound) {
    if (nodes_[node].waiting.empty() && nodes_[node].free >= task.cpus) {
      compute(id, node);
    } else {
      nodes_[node].waiting.push_back(id);
    }
    return;
  }
  const Need need = need_of(task);
  const auto next_free = [&](uint32_t from) {
    return free_.find(from, -static_cast<int64_t>(task.cpus));
  };
  uint32_t first = next_free(0);
  while (first != policy::MinTree::kNone && !has(first, need.first)) {
    first = next_free(first + 1);
  }
  if (first != policy::MinTree::kNone) {
    compute(id, first);
  } else {
    waiting_[need].push_back(id);
  }
}

void Simulation::take_cores(policy::NodeId node, uint32_t cpus) {
  nodes_[node].free -= cpus;
  free_.set(node, -static_cast<int64_t>(nodes_[node].free));
}

void Simulation::give_cores(policy::NodeId node, uint32_t cpus) {
  nodes_[node].free += cpus;
  free_.set(node, -static_cast<int64_t>(nodes_[node].free));
  fill(node);
}

void Simulation::compute(TaskId id, policy::NodeId node) {
  Entry& entry = tasks_[id];
  take_cores(node, entry.task.cpus);
  entry.record.state = Record::State::running;
  entry.record.node = node;
  entry.record.start_s = now_s();
  at(now_ns_ + to_ns(entry.task.seconds), Happening::Kind::computed, id);
}

/// Starts on a node what fits, those first that have waited longest.
void Simulation::fill(policy::NodeId node) {
  for (;;) {
    Node& place = nodes_[node];
    std::deque<TaskId>* best = nullptr;
    const auto consider = [&](std::deque<TaskId>& queue) {
      if (queue.empty() || tasks_[queue.front()].task.cpus > place.free) {
        return;
      }
      const auto ready = [&](const std::deque<TaskId>& of) {
        return std::pair(tasks_[of.front()].record.ready_s, of.front());
      };
      if (best == nullptr || ready(queue) < ready(*best)) {
        best = &queue;
      }
    };
    consider(place.waiting);
    for (auto& [need, queue] : waiting_) {
      if (has(node, need.first)) {
        consider(queue);
      }
    }
    if (best == nullptr) {
      return;
    }
    const TaskId id = best->front();
    best->pop_front();
    compute(id, node);
  }
}

void Simulation::end(TaskId id) {
  Entry& entry = tasks_[id];
  entry.record.state = Record::State::ended;
  entry.record.end_s = now_s();
  --unfinished_;
  watched_ended_ = watched_ended_ || entry.watched;
  if (!is_io(entry.task)) {
    give_cores(entry.record.node, entry.task.cpus);
  }
  for (const TaskId successor : std::exchange(entry.successors, {})) {
    if (--tasks_[successor].missing == 0) {
      begin(successor);
    }
  }
}

// ---- The policy --------------------------------------------------------------------------------

void Simulation::tell(const policy::Event& event) {
  // Starting is no event for the policy, so decisions do not nest.
  decisions_.clear();
  tell_(event, now_ns_, decisions_);
  for (const policy::Decision& decision : decisions_) {
    if (const auto* const found = std::get_if<policy::Start>(&decision)) {
      start(*found);
    }
  }
}

void Simulation::start(const policy::Start& decision) {
  const auto id = static_cast<TaskId>(decision.operation);
  Entry& entry = tasks_[id];
  entry.record.state = Record::State::running;
  entry.record.node = decision.node;
  entry.record.start_s = now_s();
  transfer(id, device_of(entry.task), decision.node);
}

/// Tells the policy what each device has moved since the last time, while there is anything to say.
void Simulation::sample() {
  bool any_moved = false;
  const double seconds = to_s(now_ns_ - sampled_ns_);
  for (size_t i = 0; i < cells_.size(); ++i) {
    Cell& cell = cells_[i];
    advance(cell);
    const double moved = cell.moved - std::exchange(cell.sampled, cell.moved);
    if (moved > 0) {
      any_moved = true;
      tell(policy::Sample{cell.device, sampled_node(cell), moved / seconds, seconds});
    }
  }
  // Where nothing moves and nothing else is to come, samples would be all that ever happens.
  sampling_ = io_pending_ > 0 && (any_moved || !happenings_.empty());
  if (sampling_) {
    sample_next();
  }
}

void Simulation::sample_next() {
  sampled_ns_ = now_ns_;
  const double seconds = cluster_.sample_period_s * policy::sample_part(samples_++);
  at(now_ns_ + to_ns(seconds), Happening::Kind::sample, 0);
}

// ---- Time --------------------------------------------------------------------------------------

void Simulation::at(uint64_t at_ns, Happening::Kind kind, uint32_t id, uint64_t version) {
  happenings_.push({at_ns, order_++, kind, id, version});
}

void Simulation::happen(const Happening& what) {
  switch (what.kind) {
    case Happening::Kind::computed: {
      const Entry& entry = tasks_[what.id];
      if (entry.task.kind == Task::Kind::blocking_io) {
        transfer(what.id, entry.task.device, entry.record.node);
      } else {
        end(what.id);
      }
      break;
    }
    case Happening::Kind::moved: {
      Cell& cell = cells_[what.id];
      if (cell.version != what.version) {
        return;  // Streams came or went since: another one was put in.
      }
      advance(cell);
      const TaskId id = cell.ends.top().task;
      cell.ends.pop();
      --cell.streams;
      expect_end(cell);
      const Entry& entry = tasks_[id];
      if (is_io(entry.task)) {
        --io_pending_;
        FlowCounts& counts = counts_at(entry.task.flow);
        ++counts.ended;
        counts.bytes += entry.task.bytes;
        tell(policy::Finished{id, now_s() - entry.record.start_s, entry.task.bytes});
      }
      end(id);
      break;
    }
    case Happening::Kind::sample:
      sample();
      break;
    case Happening::Kind::curve:
      set_curve(later_curves_[what.id].device, later_curves_[what.id].curve);
      break;
  }
}

bool Simulation::has_ended(TaskId until) const {
  return until == kNoTask ? unfinished_ == 0 : tasks_[until].record.state == Record::State::ended;
}

void Simulation::watch(TaskId id) {
  IOW_ASSERT(id < tasks_.size() && tasks_[id].record.state != Record::State::ended);
  tasks_[id].watched = true;
}

Simulation::Progress Simulation::go_on(uint64_t steps, TaskId until) {
  IOW_ASSERT(until == kNoTask || until < tasks_.size());
  for (; !has_ended(until); --steps) {
    if (std::exchange(watched_ended_, false)) {
      return Progress::watched;
    }
    if (happenings_.empty()) {
      return Progress::stuck;
    }
    if (steps == 0) {
      return Progress::going_on;
    }
    const Happening next = happenings_.top();
    happenings_.pop();
    now_ns_ = next.at_ns;
    happen(next);
  }
  watched_ended_ = false;
  return Progress::ended;
}

}  // namespace ioweave::simulator
