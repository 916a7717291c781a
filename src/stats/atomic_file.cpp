#include "stats/atomic_file.hpp"

#include <cerrno>
#include <cstdlib>
#include <memory>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ioweave::stats {
namespace {

int write_directly(const std::string& path, std::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -errno;
  const int error = write_all(fd, text);
  return close(fd) != 0 && error == 0 ? -errno : error;
}

/// Returns the permissions that open(2) with 0666 gives a new file. umask(2) can only be read by
/// setting it, which is safe because the command has one thread.
mode_t new_file_mode() noexcept {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

int fill(int fd, std::string_view text, mode_t mode) noexcept {
  int error = write_all(fd, text);
  if (error == 0 && fchmod(fd, mode) != 0) error = -errno;
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
  std::string temporary = target + ".XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return -errno;
  int error = fill(fd, text, exists ? (status.st_mode & 07777) : new_file_mode());
  if (error == 0 && rename(temporary.c_str(), target.c_str()) != 0) error = -errno;
  if (error != 0) unlink(temporary.c_str());
  return error;
}

}  // namespace ioweave::stats
