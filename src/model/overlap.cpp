#include "model/overlap.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace ioweave::model {
namespace {

/// One item from its read to its write, and the others a period apart.
double pipeline_s(const Items& items, double period_s) {
  if (items.count == 0) {
    return 0;
  }
  const double first_s = items.read_s + items.compute_s + items.write_s;
  return first_s + static_cast<double>(items.count - 1) * period_s;
}

}  // namespace

double synchronous_s(const Items& items) {
  return static_cast<double>(items.count) * (items.read_s + items.compute_s + items.write_s);
}

double prefetch_s(const Items& items) {
  return pipeline_s(items, std::max(items.read_s, items.compute_s) + items.write_s);
}

double prefetch_apart_s(const Items& items) {
  return pipeline_s(items, std::max(items.read_s, items.compute_s + items.write_s));
}

double hideable_read_s(const Items& items) {
  return items.count == 0 ? 0 : static_cast<double>(items.count - 1) * items.read_s;
}

double write_behind_period_s(const Items& items, uint32_t buffers, uint32_t devices) {
  IOW_ASSERT(buffers > 0 && devices > 0);
  const double fill_s = items.read_s + items.compute_s;
  return std::max({fill_s, items.write_s / devices, (fill_s + items.write_s) / buffers});
}

double write_behind_s(const Items& items, uint32_t buffers, uint32_t devices) {
  const double period_s = write_behind_period_s(items, buffers, devices);
  if (items.count == 0) {
    return 0;
  }
  // Whole rounds of buffers (or devices, if there are fewer) take a period for each item. Those of
  // the last, incomplete round find a free one each.
  const uint64_t round = buffers > devices ? devices : buffers;
  const auto left = static_cast<double>((items.count - 1) % round);
  return pipeline_s(items, period_s) - left * (period_s - (items.read_s + items.compute_s));
}

double one_device_bound_s(const Items& items) {
  return pipeline_s(items, std::max(items.compute_s, items.read_s + items.write_s));
}

double separate_channels_s(const Items& items) {
  return pipeline_s(items, std::max({items.read_s, items.compute_s, items.write_s}));
}

double processor_bound_s(const Items& items, double io_cpu_s, uint32_t cores) {
  IOW_ASSERT(cores > 0);
  return static_cast<double>(items.count) * (items.compute_s + io_cpu_s) / cores;
}

}  // namespace ioweave::model
