#pragma once

// What `ioweave doctor` tells of the tasks of a program: the runtime it is linked to, what that
// needs of the program, and what libioweave_tasks.so would do for it.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/lookup_scope.hpp"
#include "engine/probe.hpp"

namespace ioweave::cli {

/// What libioweave_tasks.so takes over: its exports.
inline constexpr std::array<std::string_view, 12> kTaskCalls{
    "pread",  "pread64",  "__pread_chk", "__pread64_chk", "preadv", "preadv64",
    "pwrite", "pwrite64", "pwritev",     "pwritev64",     "fsync",  "fdatasync"};

/// How the subject of such a finding begins. Usable::no: the program has no task runtime.
inline constexpr std::string_view kTasksOf = "tasks of ";

/// `scope` as of lookup_scope(), the program first.
[[nodiscard]] engine::Finding judge_tasks(const std::string& path,
                                          const std::vector<LoadedFile>& scope);

/// Nothing of a program into which no library can be brought: a static one, Go, setuid.
[[nodiscard]] std::optional<engine::Finding> examine_tasks(const std::string& path);

}  // namespace ioweave::cli
