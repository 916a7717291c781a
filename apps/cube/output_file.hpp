#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace cube {

/// The output of the modes that write by themselves. Any thread may write.
class OutputFile {
 public:
  /// Creates or empties a regular file and makes room for `bytes`. Throws CubeError.
  OutputFile(std::string path, uint64_t bytes);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  void write(std::span<const std::byte> bytes, uint64_t offset) const;
  /// Waits until the device has all of it.
  void sync() const;
  [[noreturn]] void fail(int error, uint64_t offset) const;

 private:
  std::string path_;
  int fd_;
};

}  // namespace cube
