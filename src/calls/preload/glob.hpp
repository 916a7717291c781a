#pragma once

namespace ioweave::calls {

/// Whether the whole of `path` matches the shell pattern `glob`: `*` any run without '/', `**` any
/// run, `?` one character but '/', `[a-z]`, `[!a-z]` one of a set, `\` takes the next literally. A
/// '[' without its ']' stands for itself. Async-signal-safe; no allocation; O(path * glob).
[[nodiscard]] bool glob_matches(const char* glob, const char* path) noexcept;

}  // namespace ioweave::calls
