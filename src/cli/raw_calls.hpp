#pragma once

// System calls on files that a program makes by its own instructions, past the C library: static
// and Go programs make all of theirs so, and some libraries do. They are found in the machine code,
// where the number of the call is a constant just before it. Code for x86-64 and aarch64 is known.

#include <string>
#include <string_view>
#include <vector>

namespace ioweave::cli {

/// Returns the names, in order, of the calls in machine code that transfer or sync bytes of files,
/// or hand such work to io_uring or native AIO; none for other processors. What is computed, or
/// comes from a variable, is not found.
[[nodiscard]] std::vector<std::string> find_raw_calls(std::string_view code);

/// The same of a program or library.
[[nodiscard]] std::vector<std::string> raw_calls_of(const std::string& path);

}  // namespace ioweave::cli
