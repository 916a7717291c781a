#pragma once

#include <string>

#include "cli/command_line.hpp"
#include "cli/summary.hpp"
#include "stats/run_report.hpp"

namespace ioweave::cli {

/// How `run` and `stat` differ.
struct RunKind {
  bool observe_only = false;  ///< policy off and no rules, whatever the settings say
  std::string (*text)(const stats::RunReport&, const Detail&) = &summary_text;
  Detail brief;    ///< without -v
  Detail verbose;  ///< with -v; -vv shows everything
};

/// Runs the program under the interposer, reports, and returns the exit code for the shell.
[[nodiscard]] int run_program(const RunOptions& options, const RunKind& kind);

}  // namespace ioweave::cli
