#pragma once

// The command of a run has files of the program open while it prefetches. A call that meets such a
// descriptor asks for it to be closed, and is made again.
//
// How it works. Whoever asks raises a counter in memory that the run shares (stats::RunState). The
// command looks at it before it opens a file, and every few milliseconds while one is open. It
// closes everything, answers, and opens nothing for some milliseconds. While nothing is open nobody
// needs to wait. No descriptor, and no system call but the sleep.

#include <cerrno>
#include <cstdint>

namespace ioweave::calls {

enum class Asks : uint8_t {
  once,     ///< that everything be closed
  forever,  ///< the same, and this process hears of opens from now on
};

/// True where the command had a file open, now or a moment ago, and has none any more; false where
/// it had none, or did not answer within a tenth of a second. Async-signal-safe. errno stays.
bool ask_for_release(Asks asks) noexcept;

/// Whether the command had a file open of late on a file system that keeps it when it is removed.
[[nodiscard]] bool had_kept_files() noexcept;

/// Makes a call, and once more where it failed with `error` because of the command.
template <class Call>
int call_past_release(int error, Call call) {
  const int saved = errno;
  int result = call();
  if (result != -1 || errno != error || !ask_for_release(Asks::once)) {
    return result;
  }
  result = call();
  if (result != -1) errno = saved;
  return result;
}

}  // namespace ioweave::calls
