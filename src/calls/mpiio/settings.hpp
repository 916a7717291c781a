#pragma once

#include <cstdint>
#include <string>

#include "ioweave/plans.h"

namespace ioweave::calls {

/// Of libioweave_mpiio_*.so, from the environment.
struct MpiioSettings {
  iow_plan_schedule schedule = IOW_PLAN_AUTO;
  uint64_t budget_bytes = 256 << 20;  ///< of a process, read ahead and not yet read
  uint32_t depth = 0;                 ///< reads ahead at once; 0: found while reading
  bool is_eager = false;              ///< foretells quick reads, too
  uint64_t write_behind_bytes = 0;    ///< of memory for writes behind the program; 0: none
  std::string report;                 ///< the file that gets a line of JSON for each process
};

/// Adds a sentence to `warnings` for each value that is ignored. May throw std::bad_alloc.
[[nodiscard]] MpiioSettings mpiio_settings(std::string& warnings);

}  // namespace ioweave::calls
