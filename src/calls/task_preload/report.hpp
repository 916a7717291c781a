#pragma once

#include <string>
#include <string_view>

#include "ioweave/tasks.h"

namespace ioweave::calls {

/// What libioweave_tasks.so says at exit, and libioweave.so where a service is closed. `why` is
/// what Service::task_host_reason() says, or what kept the service from being opened.
struct TaskReport {
  std::string_view tasks;  ///< the runtime, or "none"
  std::string_view why;
  iow_task_stats stats;

  /// Calls were made plain because as many tasks were paused as may be.
  [[nodiscard]] bool lacked_room() const noexcept { return stats.no_room > 0; }

  /// Some call was one of a task.
  [[nodiscard]] bool has_calls() const noexcept {
    return stats.pauses + stats.at_once + stats.made_plain + stats.alone + stats.bound > 0;
  }
};

/// The line of IOWEAVE_TASK_REPORT, an object of JSON with the end of the line.
[[nodiscard]] std::string format_report(const TaskReport& report);

/// What to say on standard error where calls lacked room, a line; else empty.
[[nodiscard]] std::string describe_lack_of_room(const TaskReport& report);

}  // namespace ioweave::calls
