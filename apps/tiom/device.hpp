#pragma once

#include <cstdint>

#include "ioweave/ioweave.h"
#include "run.hpp"

namespace tiom {

struct ProbeSettings {
  int fd;
  bool write;
  uint64_t block_bytes;
  unsigned depth;  ///< transfers in flight
  double seconds;  ///< behind the warm-up
};

struct ProbeFigures {
  unsigned depth = 0;
  double mb_per_s = 0;
  double latency_us = 0;  ///< from submission to completion, median
};

/// What the device does for one thread that keeps `depth` transfers in flight and computes nothing.
/// In steady state: a warm-up of 0.2 s is not counted. Every place in the queue has its turn in
/// either, which takes longer on a slow device. Throws std::runtime_error.
ProbeFigures probe_device(iow_service* service, const ProbeSettings& settings,
                          const BlockOrder& order);

/// Depth of the probe behind the bound: 32, fewer where their buffers would take over 256 MiB.
unsigned bound_probe_depth(uint64_t block_bytes);

/// Processor time that one transfer costs when it is submitted with a callback, in microseconds:
/// of no-ops, so that no device has a part in it.
double probe_overhead_us(iow_service* service);

}  // namespace tiom
