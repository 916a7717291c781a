#include "base/atomic_file.hpp"

#include <cerrno>
#include <cstdlib>
#include <memory>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ioweave {
namespace {

int write_directly(const std::string& path, std::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -errno;
  const int error = write_all(fd, text);
  return close(fd) != 0 && error == 0 ? -errno : error;
}

/// Opens a new file beside `target`, whose name goes to `path`. Returns its descriptor or -errno.
/// mkostemp(3) would ignore the umask, which cannot be read without changing it for all threads.
int open_beside(const std::string& target, mode_t mode, std::string& path) {
  constexpr unsigned kMostTries = 1000;
  const std::string start = target + "." + std::to_string(getpid()) + "-";
  for (unsigned number = 0; number < kMostTries; ++number) {
    path = start + std::to_string(number);
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0) return fd;
    if (errno != EEXIST) return -errno;
  }
  return -EEXIST;
}

/// `mode`: to be given to it; 0: as it is.
int fill(int fd, std::string_view text, mode_t mode) noexcept {
  int error = write_all(fd, text);
  if (error == 0 && mode != 0 && fchmod(fd, mode) != 0) error = -errno;
  // Without fsync a crash after the rename may leave an empty file under the final name.
  if (error == 0 && fsync(fd) != 0) error = -errno;
  if (close(fd) != 0 && error == 0) error = -errno;
  return error;
}

}  // namespace

int write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return -errno;
    if (written == 0) return -EIO;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

int write_atomically(const std::string& path, std::string_view text) {
  struct stat status {};
  const bool exists = stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) return -EISDIR;
  if (exists && !S_ISREG(status.st_mode)) return write_directly(path, text);

  const std::unique_ptr<char, void (*)(void*)> real(
      exists ? realpath(path.c_str(), nullptr) : nullptr, &free);
  const std::string target = real ? real.get() : path;
  std::string temporary;
  const int fd = open_beside(target, exists ? 0600 : 0666, temporary);
  if (fd < 0) return fd;
  int error = fill(fd, text, exists ? (status.st_mode & 07777) : 0);
  if (error == 0 && rename(temporary.c_str(), target.c_str()) != 0) error = -errno;
  if (error != 0) unlink(temporary.c_str());
  return error;
}

}  // namespace ioweave
