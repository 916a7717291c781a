#pragma once

// What `ioweave doctor` examines beyond the engine's own probe, and how findings are judged.

#include <string>
#include <vector>

#include "engine/probe.hpp"

namespace ioweave::cli {

/// Runs this very command under the interposer and looks for the segment it must leave.
[[nodiscard]] std::vector<engine::Finding> examine_interposer();

/// Whether the program can be followed.
[[nodiscard]] engine::Finding examine_program(const std::string& path);

/// What is to be said of `path`, a program, a place for I/O, or neither.
[[nodiscard]] std::vector<engine::Finding> examine_path(const std::string& path);

/// True where `path` is to be examined as a program rather than as a place for I/O.
[[nodiscard]] bool is_program(const std::string& path);

/// 0 all is well, 1 degraded, 2 unusable. What only some can have (polling modes, native AIO) and
/// what nothing needs by default does not make a machine degraded.
[[nodiscard]] int verdict(const std::vector<engine::Finding>& findings);

/// What something else stands in for is shown as degraded even where it cannot be used.
[[nodiscard]] std::string findings_text(const std::vector<engine::Finding>& findings);
[[nodiscard]] std::string findings_json(const std::vector<engine::Finding>& findings);

}  // namespace ioweave::cli
