#pragma once

#include <string>
#include <string_view>

namespace ioweave {

/// Writes all of `text` to `fd`, in spite of short writes and EINTR. Returns 0 or -errno.
[[nodiscard]] int write_all(int fd, std::string_view text) noexcept;

/// Writes `text` to `path` so that `path` always holds a whole file, the old one or the new one: it
/// writes a temporary file beside it, calls fsync and renames the file. It keeps the permissions of
/// an existing file and follows a symbolic link. It writes directly to anything but a regular file
/// (/dev/stdout, a pipe). Returns 0 or -errno; on failure nothing is left behind.
[[nodiscard]] int write_atomically(const std::string& path, std::string_view text);

}  // namespace ioweave
