#pragma once

#include <sys/resource.h>

namespace ioweave::calls {

/// Returns true if files of this process are limited in size (ulimit -f). The kernel sends SIGXFSZ
/// to the thread that writes beyond the limit, which must be a thread of the program.
[[nodiscard]] inline bool file_size_is_limited() noexcept {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

}  // namespace ioweave::calls
