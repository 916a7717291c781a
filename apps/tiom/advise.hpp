#pragma once

// Whether task-aware I/O would pay, from a few short measurements and a model. It answers what the
// TASIO paper asks its readers to find out beforehand: is there I/O enough to hide, is the device
// not saturated already, is there computation to hide it behind.

#include <string>
#include <vector>

#include "cell.hpp"
#include "model/task_io.hpp"
#include "options.hpp"

namespace tiom {

/// What is known of a workload and of the machine it shall run on.
struct AdviceInput {
  Cell cell;
  unsigned series = 1;
  unsigned cores = 1;             ///< kept busy by the workers
  double latency_alone_us = 0;    ///< of a transfer, at depth 1
  double latency_workers_us = 0;  ///< at one for each core
  double mb_per_s_deep = 0;       ///< with as many in flight as the series can have
  double overhead_us = 0;         ///< processor time that task-aware I/O adds to a transfer
};

using Limit = ioweave::model::TaskLimit;

struct Advice {
  AdviceInput input;
  double standalone_us = 0;  ///< per transfer, over all cores
  Limit standalone_limit = Limit::workers;
  double task_aware_us = 0;
  Limit task_aware_limit = Limit::compute;
  double speed_up = 1;
  double waiting_us = 0;  ///< in a plain call, beside workers that compute
  bool worth_it = false;  ///< 5 % and more
};

/// What the model (src/model) says of it, without a measurement.
Advice advise(const AdviceInput& input);

/// How long a plain call takes beside workers that compute `compute_us` for each of theirs.
double waiting_time_us(const AdviceInput& input, double compute_us);

std::string_view limit_name(Limit limit);

/// The reason in a sentence or two.
std::string reason_of(const Advice& advice);

/// Which interface to use with that runtime.
std::string interface_for(RuntimeKind kind);

/// Measures, and returns the text for a terminal. Writes options.json, too.
std::string run_advise(const Options& options);

}  // namespace tiom
