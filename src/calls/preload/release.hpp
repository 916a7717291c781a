#pragma once

// The command of a run has files of the program open while it prefetches. A call that meets such a
// descriptor asks for it to be closed, and is made again.
//
// How it works. Two FIFOs in the run's directory (stats/segment.hpp): whoever asks writes a byte to
// `release`, and the command, when it has closed everything, one to `released`. It opens nothing
// for some milliseconds then. Where the command follows nothing nobody reads the first FIFO.

#include <cerrno>
#include <cstdint>

namespace ioweave::calls {

enum class Released : uint8_t {
  nobody,   ///< there to ask, or no answer within a tenth of a second
  nothing,  ///< was open there
  closed,   ///< all that was, just now or a moment ago
};

/// Async-signal-safe; the program's signals are held for a tenth of a second at most. errno stays.
[[nodiscard]] Released ask_for_release() noexcept;

/// Makes a call, and once more where it failed with `error` because of the command.
template <class Call>
int past_release(int error, Call call) {
  const int result = call();
  if (result != -1 || errno != error || ask_for_release() == Released::nobody) {
    return result;
  }
  return call();
}

}  // namespace ioweave::calls
