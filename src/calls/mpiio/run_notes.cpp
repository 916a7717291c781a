#include "calls/mpiio/run_notes.hpp"

#include <cstdlib>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/mpiio_variables.hpp"
#include "config/run_config.hpp"

namespace ioweave::calls {

RunNotes::RunNotes() {
  const char* const directory = std::getenv(config::kRunDirVariable);
  if (directory != nullptr && directory[0] == '/') {
    files_ = std::string(directory) + "/" + config::kMpiioFilesName;
    report_ = std::string(directory) + "/" + config::kMpiioReportName;
  }
}

void RunNotes::add_file(const FileId& file) const noexcept {
  const config::MpiioFile note{file.device, file.inode};
  append(files_, &note, sizeof note);
}

void RunNotes::add_report(std::string_view line) const noexcept {
  append(report_, line.data(), line.size());
}

/// Past the C library's calls, which the interposer counts as the program's. Where the directory is
/// gone, the command has ended and nobody wants to know.
void RunNotes::append(const std::string& path, const void* note, size_t bytes) noexcept {
  if (path.empty()) {
    return;
  }
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const auto fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path.c_str(), kFlags, 0600));
  if (fd >= 0) {
    static_cast<void>(::syscall(SYS_write, fd, note, bytes));
    ::syscall(SYS_close, fd);
  }
}

}  // namespace ioweave::calls
