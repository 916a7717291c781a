#include "stream/read/source_file.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file_system_kind.hpp"
#include "stream/write/target_file.hpp"

namespace ioweave::stream {
namespace {

constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // a FIFO must not wait

/// Opens what lies in the folder and nowhere else: EXDEV otherwise. Linux 5.6.
int open_within(const std::string& folder, const std::string& path) {
  const Descriptor opened(
      ::open(folder.empty() ? "." : folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!opened.is_open()) {
    return -1;
  }
  open_how how{};
  how.flags = kFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const std::string name = std::filesystem::path(path).lexically_relative(folder);
  return static_cast<int>(::syscall(SYS_openat2, opened.get(), name.c_str(), &how, sizeof how));
}

}  // namespace

int SourceFile::open(const std::string& path, iow_write_path way, std::string& why,
                     const std::string* folder) {
  cached_ =
      Descriptor(folder != nullptr ? open_within(*folder, path) : ::open(path.c_str(), kFlags));
  struct stat found {};
  if (!cached_.is_open() || ::fstat(cached_.get(), &found) != 0) {
    const int error = errno;
    const bool leads_out = error == EXDEV && folder != nullptr;
    why = "cannot open '" + path + "': " +
          (leads_out ? "a link leads out of the folder of the manifest, which relative_only forbids"
                     : std::strerror(error));
    return -error;
  }
  if (!S_ISREG(found.st_mode)) {
    why = "'" + path + "' is not a regular file: a read stream reads at offsets";
    return -EINVAL;
  }
  ::fcntl(cached_.get(), F_SETFL, O_RDONLY);  // with O_NONBLOCK io_uring would say EAGAIN
  is_on_fuse_ = is_fuse(cached_.get());
  bytes_ = static_cast<uint64_t>(found.st_size);
  if (way == IOW_PATH_BUFFERED) {
    return 0;
  }
  direct_ = Descriptor(open_direct(cached_.get(), path, O_RDONLY));
  if (!direct_.is_open() && way == IOW_PATH_DIRECT) {
    why = "'" + path + "' cannot be read past the page cache (O_DIRECT): " + std::strerror(errno) +
          "; use IOW_PATH_AUTO";
    return -EINVAL;
  }
  return 0;
}

}  // namespace ioweave::stream
