#pragma once

// The parts of probe(): what concerns the machine and what concerns a path.

#include <string>
#include <vector>

#include "engine/backends.hpp"
#include "engine/probe.hpp"

namespace ioweave::engine {

using Findings = std::vector<Finding>;

/// Appends what was found about a path, real reads with the usable engines included.
void probe_path(const std::string& path, Findings& findings);

/// Submits one operation and waits for its result; -ENOTSUP where the backend cannot carry it.
[[nodiscard]] int64_t run_one(Backend& backend, Operation& operation) noexcept;

/// A backend for a single operation.
[[nodiscard]] BackendOptions small_backend(Kind kind, UringMode mode = UringMode::plain);

/// "Permission denied (EACCES)": what users read beside what they search for.
[[nodiscard]] std::string error_words(int64_t error);

}  // namespace ioweave::engine
