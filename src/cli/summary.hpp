#pragma once

#include <cstddef>
#include <string>

#include "stats/run_report.hpp"

namespace ioweave::cli {

/// How much of a summary is shown.
struct Detail {
  size_t files = 3;
  size_t remarks = 3;
  bool small_files = false;  ///< also those below 1 MiB and half a millisecond
};

/// What `ioweave run` prints at the end: at most 15 lines with the usual detail.
[[nodiscard]] std::string summary_text(const stats::RunReport& report, const Detail& detail);

/// What `ioweave report` prints of a Python runtime: a row per task.
[[nodiscard]] std::string tasks_text(const stats::RunReport& report);

/// What `ioweave stat` prints: one row per file and call class.
[[nodiscard]] std::string stat_text(const stats::RunReport& report, const Detail& detail);

}  // namespace ioweave::cli
