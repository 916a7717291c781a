#include "bytes.hpp"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.hpp"

namespace cube {
namespace {

[[noreturn]] void fail_to_read(const std::string& path, int error) {
  throw CubeError("cannot read '" + path + "': " + std::strerror(error));
}

void check_range(const ByteSource& source, uint64_t offset, uint64_t bytes) {
  if (offset > source.size() || bytes > source.size() - offset) {
    throw CubeError("'" + source.name() + "', offset " + std::to_string(offset) + ": " +
                    std::to_string(bytes) + " bytes are wanted, the file ends at " +
                    std::to_string(source.size()));
  }
}

}  // namespace

FileBytes::FileBytes(std::string path)
    : path_(std::move(path)), fd_(open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status {};
  if (fd_ == -1) fail_to_read(path_, errno);
  const int error = fstat(fd_, &status) == -1  ? errno
                    : S_ISDIR(status.st_mode)  ? EISDIR
                    : !S_ISREG(status.st_mode) ? ESPIPE
                                               : 0;
  if (error != 0) {
    close(fd_);
    fail_to_read(path_, error);
  }
  size_ = static_cast<uint64_t>(status.st_size);
}

FileBytes::~FileBytes() {
  close(fd_);
}

void FileBytes::read(uint64_t offset, std::span<std::byte> into) const {
  check_range(*this, offset, into.size());
  while (!into.empty()) {
    const ssize_t got = pread(fd_, into.data(), into.size(), static_cast<off_t>(offset));
    if (got > 0) {
      offset += static_cast<uint64_t>(got);
      into = into.subspan(static_cast<size_t>(got));
    } else if (got == 0) {
      throw CubeError("'" + path_ + "' became shorter while it was read");
    } else if (errno != EINTR) {
      fail_to_read(path_, errno);
    }
  }
}

void MemoryBytes::read(uint64_t offset, std::span<std::byte> into) const {
  check_range(*this, offset, into.size());
  const auto from = bytes_.subspan(static_cast<size_t>(offset), into.size());
  std::copy(from.begin(), from.end(), into.begin());
}

void swap_elements(std::span<std::byte> bytes, size_t element_bytes) {
  if (element_bytes < 2) return;
  for (size_t at = 0; at + element_bytes <= bytes.size(); at += element_bytes) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + element_bytes));
  }
}

}  // namespace cube
