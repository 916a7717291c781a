#pragma once

// Which file a descriptor is of, and what tells of changes to it.

#include <cstdint>

#include "base/file_id.hpp"

namespace ioweave::stream {

/// What changes where a file does.
struct FileStamp {
  int64_t bytes = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

struct FileState {
  FileId id;
  FileStamp stamp;
  bool is_regular = false;
};

/// Fills in `state`. Returns 0, or -errno of statx(2). The time of the last access is not asked
/// for: file systems over a network or FUSE would ask their server for it after each read.
[[nodiscard]] int find_state(int fd, FileState& state) noexcept;

/// Whether it reads past the page cache.
[[nodiscard]] bool is_direct(int fd) noexcept;

}  // namespace ioweave::stream
