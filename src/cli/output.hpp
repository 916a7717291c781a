#pragma once

#include <string_view>

namespace ioweave::cli {

// Exit codes of the command itself, as env(1), nohup(1) and timeout(1) have them.
inline constexpr int kFailed = 125;         ///< Ioweave failed or was called wrongly
inline constexpr int kNotExecutable = 126;  ///< the program was found and cannot be started
inline constexpr int kNotFound = 127;       ///< there is no such program

/// Makes sure that descriptors 0 to 2 are open, so that no file of ours is taken for a standard
/// stream. Those opened here are close-on-exec: a program finds them closed as before.
void guard_standard_streams() noexcept;

/// Writes to standard output or error. A reader that has gone away is not an error worth a word.
/// 0 or -errno, for those whose output took hours; main() tells of it for all others.
int print(std::string_view text) noexcept;
/// The first error of print(), or 0.
[[nodiscard]] int print_failure() noexcept;
void print_error(std::string_view text) noexcept;

/// "ioweave: TEXT\n" on standard error.
void complain(std::string_view text);

}  // namespace ioweave::cli
