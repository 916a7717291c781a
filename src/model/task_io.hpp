#pragma once

// What a transfer costs a program of task series, with plain calls and with task-aware I/O, and
// what no run of it can beat. Pure, all times in seconds. docs/tiom.md ("The bound", "--advise") is
// for users; the workload is that of the benchmark TIOM of the TASIO paper ("Introducing the
// Task-Aware Storage I/O (TASIO) Library", section 5.1), the formulas are our own.

#include <cstdint>

namespace ioweave::model {

/// What a run takes at least: its computation on all cores, its bytes at the device's bandwidth. A
/// lower bound.
struct TaskBound {
  double compute_s = 0;
  double device_s = 0;

  [[nodiscard]] double seconds() const { return compute_s > device_s ? compute_s : device_s; }
  [[nodiscard]] bool by_device() const { return device_s >= compute_s; }
};

/// Of `computes` units of `compute_s` each. `bytes_per_second` 0: unknown, and no limit.
[[nodiscard]] TaskBound task_bound(uint64_t computes, double compute_s, uint32_t cores,
                                   uint64_t bytes, double bytes_per_second);

/// A workload of series, and the machine. In a turn of a series tasks compute, side by side, then
/// tasks do I/O, side by side.
struct TaskIo {
  double compute_s = 0;          ///< of one unit of computation, c
  uint32_t computes = 1;         ///< units of a turn
  uint32_t ios = 1;              ///< transfers of a turn
  uint32_t series = 1;           ///< independent of each other
  uint32_t cores = 1;            ///< kept busy by the workers
  double latency_alone_s = 0;    ///< of a transfer at depth 1, L1
  double latency_workers_s = 0;  ///< with one in flight for each core, LW
  uint64_t bytes = 0;            ///< of a transfer
  double bytes_per_second = 0;   ///< with as many in flight as the series can have; 0: no limit
  double overhead_s = 0;         ///< processor time that task-aware I/O adds to a transfer
};

enum class TaskLimit : uint8_t {
  compute,  ///< the cores compute all the time
  device,   ///< the device moves all it can
  workers,  ///< all workers compute or wait for a transfer of theirs
  series    ///< each series waits for its own last transfer: there are too few of them
};

/// Time for each transfer, over all cores.
struct TaskTime {
  double seconds = 0;
  TaskLimit limit = TaskLimit::compute;
};

/// With plain calls: the longest of (k c + L) / cores, bytes / bandwidth and
/// (c + L1) / (ios x series), where k = computes / ios and L is `waiting_s` beside k c. An
/// estimate; a lower bound where calls take L or more.
[[nodiscard]] TaskTime standalone(const TaskIo& io);

/// With task-aware I/O: the longest of (k c + overhead) / cores, bytes / bandwidth and
/// (c + L1) / (ios x series). A lower bound.
[[nodiscard]] TaskTime task_aware(const TaskIo& io);

/// How long a plain call takes beside workers that compute for `compute_s` between theirs: between
/// L1 and LW, by how likely it is to find the others in one. That is L = L1 + (LW - L1) L /
/// (L + `compute_s`). An estimate; 30 steps of iteration, which begins with LW.
[[nodiscard]] double waiting_s(double latency_alone_s, double latency_workers_s, double compute_s);
[[nodiscard]] double waiting_s(const TaskIo& io);

}  // namespace ioweave::model
