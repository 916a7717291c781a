#pragma once

#include <cstddef>
#include <string>

namespace ioweave {

/// Reads a file of /proc or /sys, which tells no size: until its end, at most about `most` bytes. 0
/// or -errno.
[[nodiscard]] int read_proc_text(const char* path, size_t most, std::string& text);

}  // namespace ioweave
