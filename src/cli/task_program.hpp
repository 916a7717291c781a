#pragma once

// What `ioweave doctor` says about the tasks of a program: the task runtime that it is linked to,
// what this runtime needs of the program, and what libioweave_tasks.so would do for it.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "cli/lookup_scope.hpp"
#include "engine/probe.hpp"

namespace ioweave::cli {

/// The calls that libioweave_tasks.so takes over: its exports.
inline constexpr std::array<std::string_view, 12> kTaskCalls{
    "pread",  "pread64",  "__pread_chk", "__pread64_chk", "preadv", "preadv64",
    "pwrite", "pwrite64", "pwritev",     "pwritev64",     "fsync",  "fdatasync"};

/// The beginning of the subject of such a finding. Usable::no: the program has no task runtime.
inline constexpr std::string_view kTasksOf = "tasks of ";

/// Judges the tasks of a program. `scope` is that of lookup_scope(), the program first.
[[nodiscard]] engine::Finding judge_tasks(const std::string& path,
                                          const std::vector<LoadedFile>& scope);

}  // namespace ioweave::cli
