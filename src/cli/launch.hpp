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
  std::function<void(pid_t)> on_start;  ///< called once, when the program runs
};

struct LaunchResult {
  stats::Outcome outcome;
  int error = 0;               ///< errno of fork (then started is false) or of exec
  bool started = false;        ///< exec succeeded
  bool without_added = false;  ///< the variables did not fit beside the arguments
};

/// Runs a program and waits for it. The program inherits everything (standard streams, descriptors,
/// signal mask and dispositions, process group, terminal, limits), and `added` in its environment.
/// If these few bytes make the arguments too long, it runs without them.
///
/// Signals: a signal from the terminal reaches the whole process group, so this process does not
/// pass it on, and waits for what the program does. It passes on HUP, INT, QUIT, TERM, USR1, USR2
/// and CONT that somebody sends to it. Stop signals need no help: the group stops together.
///
/// Returns with these signals blocked; release_signals() drops those that came too late.
[[nodiscard]] LaunchResult launch(const LaunchRequest& request);

/// Restores the signal mask and dispositions that launch() found. Call it after the clean-up.
void release_signals() noexcept;

}  // namespace ioweave::cli
