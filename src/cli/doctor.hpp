#pragma once

// What `ioweave doctor` examines besides the engine's own probe, and how it judges findings.

#include <string>
#include <vector>

#include "engine/probe.hpp"

namespace ioweave::cli {

/// Runs this command itself under the interposer and looks for the segment that it must leave.
[[nodiscard]] std::vector<engine::Finding> examine_interposer();

/// Says which library `ioweave run` preloads for programs of which MPI.
[[nodiscard]] engine::Finding examine_mpiio();

/// Finds out whether the program can be observed.
[[nodiscard]] engine::Finding examine_program(const std::string& path);

/// Examines `path`: a program, a place for I/O, or neither.
[[nodiscard]] std::vector<engine::Finding> examine_path(const std::string& path);

/// Returns true if `path` is to be examined as a program, not as a place for I/O.
[[nodiscard]] bool is_program(const std::string& path);

/// Returns 0 if all is well, 1 if something is degraded, 2 if something is unusable. Features that
/// only some machines have (polling modes, native AIO) and that nothing needs by default do not
/// count.
[[nodiscard]] int verdict(const std::vector<engine::Finding>& findings);

/// Writes the findings for people. A finding with a substitute is shown as degraded even if it
/// cannot be used.
[[nodiscard]] std::string findings_text(const std::vector<engine::Finding>& findings);
[[nodiscard]] std::string findings_json(const std::vector<engine::Finding>& findings);

}  // namespace ioweave::cli
