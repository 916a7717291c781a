#pragma once

#include <string>
#include <string_view>

namespace ioweave {

/// Writes all of `text` to `fd`, through short writes and EINTR. 0 or -errno.
[[nodiscard]] int write_all(int fd, std::string_view text) noexcept;

/// Writes `text` to `path` so that `path` always holds a whole file, the old one or the new: a
/// temporary file beside it, fsync, rename; an existing file's permissions are kept and a symbolic
/// link is followed. Anything but a regular file (/dev/stdout, a pipe) is written to directly.
/// 0 or -errno; on failure nothing is left behind.
[[nodiscard]] int write_atomically(const std::string& path, std::string_view text);

}  // namespace ioweave
