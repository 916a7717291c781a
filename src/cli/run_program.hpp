#pragma once

#include <functional>
#include <string>

#include "cli/command_line.hpp"
#include "cli/summary.hpp"
#include "stats/run_report.hpp"

namespace ioweave::cli {

/// The differences between `run` and `stat`.
struct RunKind {
  bool observe_only = false;       ///< policy off and no rules, whatever the settings are
  bool records_positions = false;  ///< record what the interposer does not see of reads
  std::string (*text)(const stats::RunReport&, const Detail&) = &summary_text;
  std::function<void(const stats::RunReport&)> on_report;  ///< takes the complete report, too
  Detail brief;                                            ///< without -v
  Detail verbose;                                          ///< with -v; -vv shows everything
};

/// Runs the program under the interposer and prints the report. Returns the exit code.
[[nodiscard]] int run_program(const RunOptions& options, const RunKind& kind);

}  // namespace ioweave::cli
