#pragma once

// The settings of libioweave_tasks.so, which reads them from the environment of its program itself:
// there is no command that could resolve them before.

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

/// The index of the variable's value in `names`; 0 where it is not set, or is none of them, with a
/// sentence in `warnings` that names the nearest, but never `off`: who follows such a suggestion
/// loses the feature.
[[nodiscard]] size_t chosen_in_environment(const char* variable,
                                           std::span<const std::string_view> names,
                                           std::string_view off, std::string& warnings);

/// The variable's number; nothing where it is not set, or is none from 1 to `most`, with a sentence
/// in `warnings`.
[[nodiscard]] std::optional<uint32_t> number_in_environment(const char* variable, uint32_t most,
                                                            std::string& warnings);

}  // namespace ioweave::config
