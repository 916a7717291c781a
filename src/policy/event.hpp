#pragma once

// What the policy hears (events) and says (decisions). Plain values: a log of events replayed on
// any driver gives the same decisions, whether an operation is a 4 KiB request of this process,
// a checkpoint task on a cluster or a task of the simulator.

#include <cstdint>
#include <variant>

namespace ioweave::policy {

using DeviceId = uint32_t;
using FlowId = uint32_t;
using NodeId = uint32_t;
inline constexpr NodeId kAnyNode = 0xFFFFFFFFu;
/// Chosen by the driver, opaque to the policy; unique among the operations it knows.
using OperationId = uint64_t;

/// Priority classes, highest first.
enum class Class : uint8_t { foreground, write_behind, prefetch };
inline constexpr unsigned kClasses = 3;

// ---- Events ------------------------------------------------------------------------------------

/// An operation exists and may start when the policy says so.
struct Ready {
  OperationId operation;
  FlowId flow;
  NodeId node;  ///< where it is to run, which has the device; kAnyNode: the policy chooses
  uint64_t bytes;
  bool operator==(const Ready&) const = default;
};

/// The driver did start it (it may be told later than it was decided: a cluster has latency). May
/// be left out where an operation starts as soon as it is decided.
struct Started {
  OperationId operation;
  bool operator==(const Started&) const = default;
};

/// It ended well and has left the device.
struct Finished {
  OperationId operation;
  double seconds;  ///< from start to end
  uint64_t bytes;  ///< moved
  bool operator==(const Finished&) const = default;
};

/// It ended with an error and has left the device.
struct Failed {
  OperationId operation;
  bool operator==(const Failed&) const = default;
};

/// It will not run, or what it ran is void: forget it, waiting or running.
struct Cancelled {
  OperationId operation;
  bool operator==(const Cancelled&) const = default;
};

/// Throughput of a device as measured from outside, about once a second; at first more often
/// (`sample_part`). The policy itself counts how many operations ran meanwhile, and whether others
/// waited.
struct Sample {
  DeviceId device;
  NodeId node;
  double bytes_per_second;  ///< mean since the last sample of the node
  double seconds = 1;       ///< since the last sample of the node
  bool operator==(const Sample&) const = default;
};

/// Returns the part of the sampling period that passes until the next sample, after so many. The
/// first ones are short: they show `climb` a steep beginning.
constexpr double sample_part(unsigned samples) {
  return samples < 20 ? 0.25 : 1;
}

/// How many operations of a class run on a device without having passed through the policy
/// (the fast path of the foreground). Told whenever it matters: before a Ready of a lower class
/// and when the count falls to zero while lower classes wait.
struct Activity {
  DeviceId device;
  NodeId node;
  Class priority;
  uint32_t in_flight;
  bool operator==(const Activity&) const = default;
};

struct NodeUp {
  NodeId node;
  bool operator==(const NodeUp&) const = default;
};

/// Its operations, waiting for it or running on it, are gone; the driver resubmits what it wants.
/// Those that wait for any node are not affected.
struct NodeDown {
  NodeId node;
  bool operator==(const NodeDown&) const = default;
};

/// The node, which is up, has this device from now on until it goes down. Only for devices that are
/// not on every node (DeviceConfig::everywhere).
struct DeviceUp {
  DeviceId device;
  NodeId node;
  bool operator==(const DeviceUp&) const = default;
};

using Event = std::variant<Ready, Started, Finished, Failed, Cancelled, Sample, Activity, NodeUp,
                           NodeDown, DeviceUp>;

// ---- Decisions ---------------------------------------------------------------------------------

/// Start this operation now, there.
struct Start {
  OperationId operation;
  NodeId node;
  bool operator==(const Start&) const = default;
};

/// From now on at most this many operations of the flow run at once on a node. For information
/// (reports, drivers with queues of their own); Start already respects it. The constraints `none`
/// and `fixed` never change and never say it.
struct SetLimit {
  FlowId flow;
  uint32_t limit;
  bool operator==(const SetLimit&) const = default;
};

using Decision = std::variant<Start, SetLimit>;

}  // namespace ioweave::policy
