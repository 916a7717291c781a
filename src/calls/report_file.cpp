#include "calls/report_file.hpp"

#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ioweave::calls {
namespace {

// Past the C library's calls, which libraries of ours may take over.
ssize_t write_now(int fd, const std::string& text) noexcept {
  return ::syscall(SYS_write, fd, text.data(), text.size());
}

}  // namespace

ReportFile::ReportFile(std::string path) : path_(std::move(path)) {
  ::fstat(STDERR_FILENO, &standard_error_);
  char folder[PATH_MAX];
  if (is_wanted() && path_[0] != '/' && ::getcwd(folder, sizeof folder) != nullptr) {
    path_.insert(0, std::string(folder) + "/");
  }
}

void ReportFile::add(const std::string& line) const noexcept {
  const int fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path_.c_str(),
                                            O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (fd < 0 || write_now(fd, line) != static_cast<ssize_t>(line.size())) {
    print("ioweave: " + path_ + " could not be written: " + std::strerror(errno) + "\n");
  }
  if (fd >= 0) {
    ::syscall(SYS_close, fd);
  }
}

void ReportFile::print(const std::string& text) const noexcept {
  struct stat now {};
  if (::fstat(STDERR_FILENO, &now) == 0 && now.st_dev == standard_error_.st_dev &&
      now.st_ino == standard_error_.st_ino) {
    static_cast<void>(write_now(STDERR_FILENO, text));
  }
}

}  // namespace ioweave::calls
