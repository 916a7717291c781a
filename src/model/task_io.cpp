#include "model/task_io.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "base/assert.hpp"
#include "model/overlap.hpp"

namespace ioweave::model {
namespace {

TaskTime longest(std::initializer_list<TaskTime> times) {
  return std::ranges::max(times, {}, &TaskTime::seconds);
}

double compute_per_io_s(const TaskIo& io) {
  return io.compute_s * io.computes / io.ios;
}

double device_s(uint64_t bytes, double bytes_per_second) {
  return bytes_per_second > 0 ? static_cast<double>(bytes) / bytes_per_second : 0;
}

/// The longest of a time on the cores for each transfer, and of what holds with any kind of I/O.
TaskTime time_of(const TaskIo& io, double on_core_s, TaskLimit on_core) {
  IOW_ASSERT(io.ios > 0 && io.series > 0 && io.cores > 0);
  // A turn of a series takes its computation and a transfer, one after the other: tasks side by
  // side count once.
  const double series_s =
      (io.compute_s + io.latency_alone_s) / (static_cast<double>(io.ios) * io.series);
  return longest({{on_core_s / io.cores, on_core},
                  {device_s(io.bytes, io.bytes_per_second), TaskLimit::device},
                  {series_s, TaskLimit::series}});
}

}  // namespace

TaskBound task_bound(uint64_t computes, double compute_s, uint32_t cores, uint64_t bytes,
                     double bytes_per_second) {
  return {processor_bound_s({.count = computes, .compute_s = compute_s}, 0, cores),
          device_s(bytes, bytes_per_second)};
}

TaskTime standalone(const TaskIo& io) {
  return time_of(io, compute_per_io_s(io) + waiting_s(io), TaskLimit::workers);
}

TaskTime task_aware(const TaskIo& io) {
  return time_of(io, compute_per_io_s(io) + io.overhead_s, TaskLimit::compute);
}

double waiting_s(double latency_alone_s, double latency_workers_s, double compute_s) {
  double waiting_s = latency_workers_s;
  for (int i = 0; i < 30; ++i) {
    const double busy = waiting_s + compute_s > 0 ? waiting_s / (waiting_s + compute_s) : 1;
    waiting_s = std::lerp(latency_alone_s, latency_workers_s, busy);
  }
  return waiting_s;
}

double waiting_s(const TaskIo& io) {
  return waiting_s(io.latency_alone_s, io.latency_workers_s, compute_per_io_s(io));
}

}  // namespace ioweave::model
