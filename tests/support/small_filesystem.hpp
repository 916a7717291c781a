#pragma once

#include <cstdint>
#include <string>

#include "support/temp_dir.hpp"

namespace ioweave::test {

/// An ext4 file system of its own on a loop device: real where it matters that space ends.
///
/// It is mounted in a mount namespace that the process enters for good, so that mount and loop
/// device are gone with the process however that ends.
class SmallFilesystem {
 public:
  /// Ask problem() whether it could be had: root and a loop device are needed.
  explicit SmallFilesystem(uint64_t bytes);
  ~SmallFilesystem();
  SmallFilesystem(const SmallFilesystem&) = delete;
  SmallFilesystem& operator=(const SmallFilesystem&) = delete;

  /// Empty, or why there is none.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] std::string file(const std::string& name) const {
    return mount_point() + "/" + name;
  }

 private:
  [[nodiscard]] std::string mount_point() const { return dir_.file("mounted"); }

  TempDir dir_;
  std::string problem_;
};

}  // namespace ioweave::test
