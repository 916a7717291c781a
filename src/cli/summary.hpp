#pragma once

#include <cstddef>
#include <string>

#include "stats/run_report.hpp"

namespace ioweave::cli {

/// How much of a summary is shown.
struct Detail {
  size_t files = 3;
  size_t remarks = 3;
  bool small_files = false;  ///< show files below 1 MiB and half a millisecond, too
};

/// The summary that `ioweave run` prints at the end: at most 15 lines with the usual detail, and
/// two of MPI-IO.
[[nodiscard]] std::string summary_text(const stats::RunReport& report, const Detail& detail);

/// The summary of a Python runtime that `ioweave report` prints: a row for each task.
[[nodiscard]] std::string tasks_text(const stats::RunReport& report);

/// The table that `ioweave stat` prints: a row for each file and call class.
[[nodiscard]] std::string stat_text(const stats::RunReport& report, const Detail& detail);

}  // namespace ioweave::cli
