#pragma once

// A file of known content in a directory of its own, removed with the object.

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/temp_dir.hpp"

namespace ioweave::test {

/// The byte every test file has at an offset: any mix-up of offsets shows.
inline std::byte pattern_at(uint64_t offset) {
  return static_cast<std::byte>((offset * 2654435761u + (offset >> 12)) >> 7);
}

inline std::vector<std::byte> pattern(uint64_t offset, size_t bytes) {
  std::vector<std::byte> result(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    result[i] = pattern_at(offset + i);
  }
  return result;
}

class TempFile {
 public:
  /// Filled with pattern(0, bytes).
  explicit TempFile(size_t bytes = 0, int flags = O_RDWR) {
    path_ = dir_.file("data");
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const std::vector<std::byte> content = pattern(0, bytes);
    if (fd_ < 0 || ::pwrite(fd_, content.data(), bytes, 0) != static_cast<ssize_t>(bytes)) {
      throw std::runtime_error("cannot fill " + path_);
    }
    if (flags != O_RDWR) {
      ::close(fd_);
      fd_ = ::open(path_.c_str(), flags | O_CLOEXEC);
    }
  }
  ~TempFile() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  /// -1 where the flags were refused (O_DIRECT on tmpfs).
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string dir() const { return dir_.path(); }

 private:
  TempDir dir_;
  std::string path_;
  int fd_ = -1;
};

/// Makes its times tell of every later change.
inline void make_old(int fd) {
  const std::array<timespec, 2> times{timespec{1'000'000'000, 0}, timespec{1'000'000'000, 0}};
  if (::futimens(fd, times.data()) != 0) {
    throw std::runtime_error("cannot set the times of a file");
  }
  ::usleep(25'000);  // the change of the times is a change, too
}

}  // namespace ioweave::test
