#include "stream/plan/file_state.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/file_time.hpp"

namespace ioweave::stream {

int find_state(int fd, FileState& state) noexcept {
  struct statx found {};
  constexpr unsigned kWanted = STATX_TYPE | STATX_INO | STATX_SIZE | STATX_MTIME | STATX_CTIME;
  if (::statx(fd, "", AT_EMPTY_PATH, kWanted, &found) != 0) {
    return -errno;
  }
  state.id = {makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino};
  state.stamp = {static_cast<int64_t>(found.stx_size), in_ns(found.stx_mtime),
                 in_ns(found.stx_ctime)};
  state.is_regular = S_ISREG(found.stx_mode);
  return 0;
}

bool is_direct(int fd) noexcept {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_DIRECT) != 0;
}

}  // namespace ioweave::stream
