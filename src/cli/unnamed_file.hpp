#pragma once

// Files to measure a device with: they leave nothing behind, however the command ends.

#include <cstdint>
#include <string>

#include "base/descriptor.hpp"

namespace ioweave::cli {

/// Makes a file in the folder, opened for reading and writing, and unlinks it at once. Where that
/// cannot be, no descriptor is open, and `error` is the errno.
[[nodiscard]] Descriptor make_unnamed_file(const std::string& folder, int& error);

/// Returns the bytes that a user may still write in the folder; UINT64_MAX where its file system
/// does not count them.
[[nodiscard]] uint64_t free_bytes_in(const std::string& folder);

}  // namespace ioweave::cli
