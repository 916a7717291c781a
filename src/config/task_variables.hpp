#pragma once

// The settings of libioweave_tasks.so. The library reads them from the environment of its program,
// since no command resolves them before.

#include <array>
#include <string_view>

namespace ioweave::config {

inline constexpr const char* kTasksVariable = "IOWEAVE_TASKS";
inline constexpr const char* kTaskReaperVariable = "IOWEAVE_TASK_REAPER";
inline constexpr const char* kTaskEngineVariable = "IOWEAVE_TASK_ENGINE";
inline constexpr const char* kMaxPausedVariable = "IOWEAVE_MAX_PAUSED";
inline constexpr const char* kTaskReportVariable = "IOWEAVE_TASK_REPORT";
inline constexpr std::array<std::string_view, 5> kTaskVariables{
    kTasksVariable, kTaskReaperVariable, kTaskEngineVariable, kMaxPausedVariable,
    kTaskReportVariable};

}  // namespace ioweave::config
