#pragma once

#include <string_view>

namespace ioweave::cli {

// Exit codes of the command itself, the same as those of env(1), nohup(1) and timeout(1).
inline constexpr int kFailed = 125;         ///< Ioweave failed or was called wrongly
inline constexpr int kNotExecutable = 126;  ///< the program was found but cannot be started
inline constexpr int kNotFound = 127;       ///< there is no such program

/// Opens those of descriptors 0 to 2 that are closed, so that no other file becomes a standard
/// stream. They are close-on-exec, so that a program finds them closed as before.
void guard_standard_streams() noexcept;

/// Writes to standard output. A reader that has gone away is not an error. Returns 0 or -errno, for
/// callers whose output took hours; main() reports the error for all others.
int print(std::string_view text) noexcept;
/// Returns the first error of print(), or 0.
[[nodiscard]] int print_failure() noexcept;
/// Writes to standard error.
void print_error(std::string_view text) noexcept;

/// Writes "ioweave: TEXT\n" to standard error.
void complain(std::string_view text);

}  // namespace ioweave::cli
