#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

namespace ioweave::test {

/// A system call that is about to be made.
struct WatchedCall {
  long number;
  std::array<uint64_t, 6> arguments;
};

/// Runs `body` in a thread of its own. Each of its system calls of `numbers` waits until `look`,
/// here, has returned, and is made then: so a test can act between two calls of a function. False,
/// with nothing done, where the kernel has no notifications of seccomp (Linux 5.5) or the process
/// may not have them.
[[nodiscard]] bool run_watched(const std::vector<long>& numbers,
                               const std::function<void(const WatchedCall&)>& look,
                               const std::function<void()>& body);

}  // namespace ioweave::test
