#include "output_file.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.hpp"

namespace cube {
namespace {

[[noreturn]] void fail_to_open(const std::string& path, int error) {
  throw CubeError("cannot write '" + path + "': " + std::strerror(error));
}

/// Returns an errno. Where the file system cannot make room the file just gets its length.
int make_room(int fd, uint64_t bytes) {
  if (ftruncate(fd, 0) == -1) return errno;
  if (bytes == 0 || fallocate(fd, 0, 0, static_cast<off_t>(bytes)) == 0) return 0;
  if (errno != EOPNOTSUPP && errno != ENOSYS) return errno;
  return ftruncate(fd, static_cast<off_t>(bytes)) == -1 ? errno : 0;
}

}  // namespace

OutputFile::OutputFile(std::string path, uint64_t bytes, WritePath write_path)
    : path_(std::move(path)), fd_(open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666)) {
  if (fd_ == -1) fail_to_open(path_, errno);
  struct stat status {};
  const bool known = fstat(fd_, &status) == 0;
  int error = !known ? errno : !S_ISREG(status.st_mode) ? EINVAL : make_room(fd_, bytes);
  const bool has_room = error == 0;
  if (has_room && write_path == WritePath::kDirect) {
    direct_fd_ = open(path_.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC);
    if (direct_fd_ == -1) error = errno;
  }
  if (error == 0) return;
  close(fd_);
  if (known && !S_ISREG(status.st_mode)) {
    throw CubeError("cannot write '" + path_ + "': it is not a regular file");
  }
  unlink(path_.c_str());  // it was emptied: nothing is lost
  if (has_room && error == EINVAL) {
    throw CubeError("cannot write '" + path_ +
                    "' past the page cache: its file system has no O_DIRECT (leave out --path)");
  }
  fail_to_open(path_, error);
}

OutputFile::~OutputFile() {
  close(fd_);
  if (direct_fd_ != -1) close(direct_fd_);
}

int OutputFile::fd_for(std::span<const std::byte> bytes, uint64_t offset) const noexcept {
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const bool is_whole = (address | bytes.size() | offset) % kPageBytes == 0 && !bytes.empty();
  return is_whole && direct_fd_ != -1 ? direct_fd_ : fd_;
}

void OutputFile::fail(int error, uint64_t offset) const {
  throw CubeError("cannot write '" + path_ + "', offset " + std::to_string(offset) + ": " +
                  std::strerror(error));
}

void OutputFile::write(std::span<const std::byte> bytes, uint64_t offset) const {
  while (!bytes.empty()) {
    const int fd = fd_for(bytes, offset);
    const ssize_t put = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put > 0) {
      bytes = bytes.subspan(static_cast<size_t>(put));
      offset += static_cast<uint64_t>(put);
    } else if (put == 0 || errno != EINTR) {
      fail(put == 0 ? EIO : errno, offset);
    }
  }
}

void OutputFile::sync() const {
  if (fdatasync(fd_) == -1) fail(errno, 0);
}

}  // namespace cube
