#pragma once

// The settings of libioweave_tasks.so. The library reads them from the environment of its program,
// since no command resolves them before.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
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

/// Returns the index of the variable's value in `names`; 0 if it is not set. For a value that is
/// not in `names` returns 0, too, and adds a sentence to `warnings` that suggests the nearest name.
/// It never suggests `off`, since following that would lose the feature.
[[nodiscard]] size_t chosen_in_environment(const char* variable,
                                           std::span<const std::string_view> names,
                                           std::string_view off, std::string& warnings);

/// Returns the variable's number; nothing if it is not set. For a value that is not a number from 1
/// to `most` returns nothing, too, and adds a sentence to `warnings`.
[[nodiscard]] std::optional<uint32_t> number_in_environment(const char* variable, uint32_t most,
                                                            std::string& warnings);

}  // namespace ioweave::config
