#pragma once

// Files in the run's directory that the process maps and the command reads.

#include <cstddef>

namespace ioweave::calls {

/// Creates a file of `bytes` and maps it, shared; its memory comes as it is used. No descriptor
/// stays open. Returns null where that is not possible: the file exists (errno is EEXIST), there is
/// no room, or the limit on file sizes is lower, which SIGXFSZ would tell. Async-signal-safe.
[[nodiscard]] void* map_new_file(const char* path, size_t bytes) noexcept;

/// Makes sure that the memory of a part of such a file is there: touching a page of a full tmpfs is
/// SIGBUS. Returns false where it is not. May change errno. Async-signal-safe.
[[nodiscard]] bool make_sure_of_memory(void* begin, size_t bytes) noexcept;

}  // namespace ioweave::calls
