#pragma once

#include <string>

#include "service/service.hpp"

namespace ioweave::calls {

/// What the environment asks of libioweave_tasks.so.
struct TaskSettings {
  service::Options service;
  std::string report;  ///< where to write what was done, at exit; empty: nowhere
};

/// IOWEAVE_TASKS (auto, none, tbb, and alpi, of which nosv, nodes, nanos6 and ompss2 are other
/// names), IOWEAVE_TASK_REAPER (thread, task), IOWEAVE_TASK_ENGINE (uring, aio, threads),
/// IOWEAVE_MAX_PAUSED and IOWEAVE_TASK_REPORT. What cannot be read keeps its default, with a
/// sentence in `warnings` that names the value and the nearest one that is right, but never `none`.
[[nodiscard]] TaskSettings task_settings(std::string& warnings);

}  // namespace ioweave::calls
