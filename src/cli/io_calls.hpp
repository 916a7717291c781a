#pragma once

// What `ioweave doctor` says about the I/O calls of a program: which of those that it and its
// libraries import, or make by their own instructions, `ioweave run` observes, and which it does
// not. A library that the program opens itself cannot be seen in its files.

#include <span>
#include <string>
#include <vector>

#include "cli/lookup_scope.hpp"
#include "engine/probe.hpp"

namespace ioweave::cli {

/// Judges the calls of a program. `scope` is that of lookup_scope() with raw calls, the program
/// first; `observed` are the names that the interposer exports.
[[nodiscard]] engine::Finding judge_calls(const std::string& path,
                                          const std::vector<LoadedFile>& scope,
                                          std::span<const std::string> observed);

}  // namespace ioweave::cli
