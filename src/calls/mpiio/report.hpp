#pragma once

#include <string>
#include <string_view>

#include "calls/mpiio/session.hpp"
#include "ioweave/plans.h"

namespace ioweave::calls {

/// The line of IOWEAVE_MPIIO_REPORT for a rank, an object of JSON with the end of the line. `why`:
/// what kept the library from reading ahead, or empty.
[[nodiscard]] std::string format_mpiio_report(int rank, const MpiioCounts& counts,
                                              const iow_plan_stats& stats, std::string_view why);

}  // namespace ioweave::calls
