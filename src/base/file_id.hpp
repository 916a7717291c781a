#pragma once

// Which file it is: names and descriptors with equal ids lead to the same file, as long as it is
// there.

#include <compare>

#include <sys/stat.h>

namespace ioweave {

struct FileId {
  dev_t device = 0;
  ino_t inode = 0;

  [[nodiscard]] static FileId of(const struct stat& status) noexcept {
    return {status.st_dev, status.st_ino};
  }
  friend auto operator<=>(const FileId&, const FileId&) = default;
};

}  // namespace ioweave
