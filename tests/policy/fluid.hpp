#pragma once

// A fluid simulation of nodes that compute and write, driving a policy in virtual time: `cores`
// computations run at once on a node, each of a fixed time, and each leaves one operation of a
// fixed size. The operations that run on a device, a node's own or the shared one, share its
// throughput, a curve over how many they are. Deterministic: the same arguments give the same run.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "policy/policy.hpp"

namespace ioweave::policy::testing_support {

/// MB/s of a device that serves so many operations at once.
using Curve = std::function<double(unsigned at_once)>;

/// What a device moved in a sample, and `carried_mb`, its own and 0 at first, for what one sample
/// takes from the next.
struct Moved {
  double mb;
  double seconds;
  double& carried_mb;
};

/// How samples differ from what the device moved: as it is measured.
using Noise = std::function<double(const Moved& moved, std::mt19937_64& random)>;

/// Each second's sample is off by up to `part`, shorter ones by more.
inline Noise uniform_noise(double part) {
  return [part](const Moved& moved, std::mt19937_64& random) {
    const double most = std::min(1.0, part / std::sqrt(moved.seconds));
    return moved.mb * (1 + most * std::uniform_real_distribution<>(-1, 1)(random));
  };
}

struct Load {
  unsigned nodes = 1;
  unsigned cores = 48;
  unsigned waves = 4;
  double compute_s = 10;
  double operation_mb = 290;
  double sizes_vary = 0;  ///< operations are up to this part smaller or larger
  Noise noise = {};
  /// The device's own speed varies by this deviation (lognormal), over about ten seconds.
  double wavers = 0;
  uint64_t seed = 0;
  /// Operations after which the device has `then` as its curve, and after as many again the first.
  uint64_t changes_every = 0;
  Curve then = {};
  DeviceConfig device = {};
  FlowConfig flow = {};
};

class Fluid {
 public:
  Fluid(const Load& load, Curve curve)
      : load_(load),
        random_(load.seed),
        waver_(load.seed + 1),
        nodes_(load.nodes),
        cells_(load.device.scope == Scope::shared ? 1 : load.nodes) {
    for (const Curve& of : {curve, load.then ? load.then : curve}) {
      auto& [now, best] = tables_[tables_[0].now.empty() ? 0 : 1];
      now = best = {0};
      for (unsigned n = 1; n <= operations(); ++n) {
        now.push_back(of(n));
        best.push_back(std::max(best.back(), now.back()));
      }
    }
    std::string why;
    EXPECT_EQ(policy_.add_device(load.device, why), 0) << why;
    EXPECT_EQ(policy_.add_flow(load.flow, why), 0) << why;
    for (NodeId id = 0; id < load.nodes; ++id) {
      if (id != 0) {
        tell(NodeUp{id});
      }
      Node& node = nodes_[id];
      node.to_compute = load.cores * (load.waves - 1);
      for (unsigned i = 0; i < load.cores; ++i) {
        node.computing.emplace(load.compute_s, 0);
      }
    }
    for (NodeId id = 0; id < cells_.size(); ++id) {
      const double part = static_cast<double>(id) / static_cast<double>(cells_.size());
      cells_[id].sample_s = sample_part(0) * (1 + part);
    }
  }

  /// The makespan in seconds. `at_sample`, where given, sees the run after each sample.
  double run(const std::function<void(const Fluid&)>& at_sample = {}) {
    while (ended_ < operations()) {
      step(at_sample);
    }
    return now_s_;
  }

  [[nodiscard]] const Policy& policy() const { return policy_; }
  [[nodiscard]] uint64_t operations() const {
    return uint64_t{load_.nodes} * load_.cores * load_.waves;
  }
  [[nodiscard]] uint64_t ended() const { return ended_; }
  [[nodiscard]] uint64_t started() const { return started_; }
  [[nodiscard]] double now_s() const { return now_s_; }
  /// On the device of the node, or on the shared one.
  [[nodiscard]] unsigned running(NodeId node) const {
    return static_cast<unsigned>(cell_of(node).ends_at.size());
  }

  /// Operations beyond those with which the device does 95 % of what it can.
  [[nodiscard]] unsigned too_many(NodeId node) const {
    const Cell& cell = cell_of(node);
    unsigned most = running(node);
    while (most > 0 && table().now[most] * cell.factor < 0.95 * best(cell)) {
      --most;
    }
    return most == 0 ? 0 : running(node) - most;
  }

  /// Of what the devices could have moved, what they do move. They could move as much as the best
  /// number of operations does, if there are so many.
  [[nodiscard]] double efficiency() const {
    double does = 0;
    double could = 0;
    for (const Cell& cell : cells_) {
      does += throughput(cell);
      could += best(cell);
    }
    return could == 0 ? 1 : does / could;
  }

  /// Of all operations that ended, those that ran, on average over their time, below 90 % of that.
  [[nodiscard]] double slow_part() const {
    return static_cast<double>(slow_) / static_cast<double>(ended_);
  }

 private:
  struct Node {
    unsigned to_compute = 0;
    std::multimap<double, int> computing;  ///< by when it ends
  };

  /// MB/s by operations at once, and the most that as many or fewer get.
  struct Table {
    std::vector<double> now;
    std::vector<double> best;
  };

  struct Running {
    OperationId id = 0;
    double start_s = 0;
    double start_efficient_s = 0;
  };

  /// Streams that share a device.
  struct Cell {
    double each_mb = 0;                      ///< that an operation has moved which ran all along
    std::multimap<double, Running> ends_at;  ///< by each_mb
    double efficient_s = 0;                  ///< efficiency integrated over time
    double factor = 1;                       ///< of the device's speed just now
    double sample_s = 0;                     ///< when the next one is due
    double sampled_s = 0;                    ///< when the last one was
    double sampled_mb = 0;
    unsigned samples = 0;
    double carried_mb = 0;
    bool ran = false;  ///< an operation, since the last sample
    uint64_t waiting = 0;
  };

  [[nodiscard]] size_t cell_index(NodeId node) const { return cells_.size() == 1 ? 0 : node; }
  [[nodiscard]] Cell& cell_of(NodeId node) { return cells_[cell_index(node)]; }
  [[nodiscard]] const Cell& cell_of(NodeId node) const { return cells_[cell_index(node)]; }

  [[nodiscard]] const Table& table() const {
    return tables_[load_.changes_every == 0 ? 0 : ended_ / load_.changes_every % 2];
  }

  [[nodiscard]] double throughput(const Cell& cell) const {
    return table().now[cell.ends_at.size()] * cell.factor;
  }

  [[nodiscard]] double best(const Cell& cell) const {
    return table().best[cell.ends_at.size() + cell.waiting] * cell.factor;
  }

  /// The same for an operation in every run.
  [[nodiscard]] double size_mb(OperationId id) const {
    const double golden = std::fmod(static_cast<double>(id) * 0.6180339887498949, 1.0);
    return load_.operation_mb * (1 + load_.sizes_vary * (2 * golden - 1));
  }

  [[nodiscard]] double next_end_s(const Cell& cell) const {
    if (cell.ends_at.empty()) {
      return std::numeric_limits<double>::infinity();
    }
    const double left_mb = cell.ends_at.begin()->first - cell.each_mb;
    return now_s_ + left_mb * static_cast<double>(cell.ends_at.size()) / throughput(cell);
  }

  void step(const std::function<void(const Fluid&)>& at_sample) {
    double next_s = std::numeric_limits<double>::infinity();
    for (const Node& node : nodes_) {
      next_s = node.computing.empty() ? next_s : std::min(next_s, node.computing.begin()->first);
    }
    for (const Cell& cell : cells_) {
      next_s = std::min({next_s, cell.sample_s, next_end_s(cell)});
    }
    pass(next_s);
    for (NodeId id = 0; id < load_.nodes; ++id) {
      if (!nodes_[id].computing.empty() && nodes_[id].computing.begin()->first <= now_s_) {
        computed(nodes_[id], id);
        return;
      }
    }
    for (NodeId id = 0; id < cells_.size(); ++id) {
      if (cells_[id].sample_s <= now_s_) {
        sample(cells_[id], id);
        if (at_sample) {
          at_sample(*this);
        }
        return;
      }
    }
    end(*std::min_element(cells_.begin(), cells_.end(), [&](const Cell& a, const Cell& b) {
      return next_end_s(a) < next_end_s(b);
    }));
  }

  void pass(double until_s) {
    const double seconds = std::max(0.0, until_s - now_s_);
    for (Cell& cell : cells_) {
      const auto at_once = static_cast<double>(cell.ends_at.size());
      if (at_once > 0) {
        const double mb_per_s = throughput(cell);
        cell.sampled_mb += mb_per_s * seconds;
        cell.ran = cell.ran || seconds > 0;
        cell.each_mb += mb_per_s * seconds / at_once;
        cell.efficient_s += mb_per_s / best(cell) * seconds;
      }
    }
    now_s_ = std::max(now_s_, until_s);
  }

  void computed(Node& node, NodeId id) {
    node.computing.erase(node.computing.begin());
    if (node.to_compute > 0) {
      --node.to_compute;
      node.computing.emplace(now_s_ + load_.compute_s, 0);
    }
    ++cell_of(id).waiting;
    const OperationId operation = next_++ * load_.nodes + id;
    tell(Ready{operation, 0, id, static_cast<uint64_t>(size_mb(operation) * 1e6)});
  }

  void end(Cell& cell) {
    constexpr double kSlow = 0.9;
    const Running ended = cell.ends_at.begin()->second;
    cell.ends_at.erase(cell.ends_at.begin());
    ++ended_;
    const double seconds = now_s_ - ended.start_s;
    slow_ += cell.efficient_s - ended.start_efficient_s < kSlow * seconds ? 1 : 0;
    tell(Finished{ended.id, seconds, static_cast<uint64_t>(size_mb(ended.id) * 1e6)});
  }

  /// Every second; more often at first, while operations run.
  void sample(Cell& cell, NodeId id) {
    cell.samples += std::exchange(cell.ran, false) ? 1 : 0;
    const double seconds = now_s_ - std::exchange(cell.sampled_s, now_s_);
    const Moved moved{cell.sampled_mb, seconds, cell.carried_mb};
    const double mb = load_.noise ? load_.noise(moved, random_) : cell.sampled_mb;
    const Sample event{0, id, mb * 1e6 / seconds, seconds};
    cell.sample_s += sample_part(cell.samples);
    cell.sampled_mb = 0;
    if (load_.wavers > 0) {
      const double stays = std::pow(0.9, seconds);
      const double step = load_.wavers * std::sqrt(1 - stays * stays);
      cell.factor =
          std::exp(stays * std::log(cell.factor) + step * std::normal_distribution<>()(waver_));
    }
    tell(event);
  }

  void tell(const Event& event) {
    decisions_.clear();
    policy_.on(event, static_cast<uint64_t>(now_s_ * 1e9), decisions_);
    for (const Decision& decision : decisions_) {
      if (const auto* const start = std::get_if<Start>(&decision)) {
        Cell& cell = cell_of(start->node);
        --cell.waiting;
        ++started_;
        cell.ends_at.emplace(cell.each_mb + size_mb(start->operation),
                             Running{start->operation, now_s_, cell.efficient_s});
      }
    }
  }

  const Load load_;
  std::array<Table, 2> tables_;
  std::mt19937_64 random_;
  std::mt19937_64 waver_;  ///< of its own, so that contenders see the same device
  Policy policy_;
  std::vector<Node> nodes_;
  std::vector<Cell> cells_;
  std::vector<Decision> decisions_;
  double now_s_ = 0;
  uint64_t started_ = 0;
  uint64_t ended_ = 0;
  uint64_t slow_ = 0;
  OperationId next_ = 0;
};

}  // namespace ioweave::policy::testing_support
