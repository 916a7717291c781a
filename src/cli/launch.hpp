#pragma once

#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "stats/run_report.hpp"

namespace ioweave::cli {

struct LaunchRequest {
  std::vector<std::string> command;  ///< looked up as execvp(3) does
  std::vector<std::string> added;    ///< NAME=value, each replaces the variable of its name
  int tick_ms = 2000;                ///< how often `on_tick` is called meanwhile
  std::function<void()> on_tick;
  std::function<void(pid_t)> on_start;  ///< once, when the program runs
};

struct LaunchResult {
  stats::Outcome outcome;
  int error = 0;               ///< errno of fork (then started is false) or exec
  bool started = false;        ///< exec succeeded
  bool without_added = false;  ///< the variables did not fit beside the arguments
};

/// Runs a program and waits for it. It inherits everything (standard streams, descriptors, signal
/// mask and dispositions, process group, terminal, limits), except that `added` is in its
/// environment. Where these few bytes make the arguments too long, it runs without them.
///
/// Signals: what the terminal sends reaches the whole process group, so the program has it already
/// and this process only waits for what it does. HUP, INT, QUIT, TERM, USR1, USR2 and CONT that
/// somebody sends to this process are passed on. Stops need no help: the group stops together.
///
/// Returns with these signals blocked; release_signals() delivers what came too late to pass on.
[[nodiscard]] LaunchResult launch(const LaunchRequest& request);

/// Restores the signal mask and dispositions that launch() found. Called when all is cleaned up.
void release_signals() noexcept;

}  // namespace ioweave::cli
