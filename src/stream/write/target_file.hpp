#pragma once

// A file that a stream writes: its descriptors, with and without the page cache, and its size.

#include <cstdint>
#include <string>

#include "base/descriptor.hpp"
#include "ioweave/streams.h"

namespace ioweave::stream {

/// Opens the open file `fd` of that path once more, past the page cache, with the access O_RDONLY
/// or O_WRONLY. -1 with errno where that cannot be.
[[nodiscard]] int open_direct(int fd, const std::string& path, int access) noexcept;

class TargetFile {
 public:
  TargetFile() = default;

  /// Opens it as iow_write_stream_create() says. 0, or -errno with a sentence in `why`. Once.
  [[nodiscard]] int open(const std::string& path, const iow_write_file_options& options,
                         iow_write_path way, std::string& why);
  /// Nothing uses the descriptors any more.
  void close() noexcept;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Goes through the page cache.
  [[nodiscard]] int cached_fd() const noexcept { return cached_.get(); }
  /// Goes past it; -1: the file system has no such way.
  [[nodiscard]] int direct_fd() const noexcept { return direct_.get(); }
  [[nodiscard]] bool is_on_fuse() const noexcept { return is_on_fuse_; }
  /// Bytes that it had when it was opened.
  [[nodiscard]] int64_t kept_bytes() const noexcept { return kept_bytes_; }

  /// Cuts off what was allocated behind `end`, where what was written ends. 0 or -errno.
  [[nodiscard]] int trim(int64_t end) noexcept;

 private:
  [[nodiscard]] int allocate(uint64_t bytes) noexcept;

  std::string path_;
  Descriptor cached_;
  Descriptor direct_;
  bool is_on_fuse_ = false;
  int64_t kept_bytes_ = 0;
  int64_t allocated_bytes_ = 0;
};

}  // namespace ioweave::stream
