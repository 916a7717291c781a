#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace ioweave::test {

/// A file in memory which says that it is O_DIRECT: every transfer goes to the back end, of any
/// size and alignment.
class DirectMemory {
 public:
  explicit DirectMemory(std::span<const std::byte> content) {
    const int memory = ::memfd_create("ioweave-test", MFD_CLOEXEC);
    EXPECT_EQ(::pwrite(memory, content.data(), content.size(), 0),
              static_cast<ssize_t>(content.size()));
    const std::string path = "/proc/self/fd/" + std::to_string(memory);
    fd_ = ::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);  // F_SETFL does not give it
    ::close(memory);
  }
  explicit DirectMemory(std::string_view content)
      : DirectMemory(std::as_bytes(std::span(content))) {}
  ~DirectMemory() { ::close(fd_); }
  DirectMemory(const DirectMemory&) = delete;
  DirectMemory& operator=(const DirectMemory&) = delete;
  [[nodiscard]] int fd() const { return fd_; }
  /// False where files in memory have no O_DIRECT, before Linux 6.6.
  [[nodiscard]] bool direct() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace ioweave::test
