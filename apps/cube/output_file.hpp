#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "result_writer.hpp"

namespace cube {

/// The output of the modes that write by themselves. Any thread may write.
class OutputFile {
 public:
  /// Creates or empties a regular file and makes room for `bytes`. Throws CubeError, with kDirect
  /// also where the file system has only writes through the page cache.
  OutputFile(std::string path, uint64_t bytes, WritePath write_path = WritePath::kAuto);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  /// The descriptor for a write: with kDirect that of O_DIRECT if memory and place are whole pages.
  /// Parts of pages go through the page cache, and no page is written in both ways as long as
  /// writes end where a multiple of a page does, or the file.
  [[nodiscard]] int fd_for(std::span<const std::byte> bytes, uint64_t offset) const noexcept;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  void write(std::span<const std::byte> bytes, uint64_t offset) const;
  /// Waits until the device has all of it.
  void sync() const;
  [[noreturn]] void fail(int error, uint64_t offset) const;

 private:
  std::string path_;
  int fd_;
  int direct_fd_ = -1;  // only with kDirect
};

}  // namespace cube
