#pragma once

#include <functional>

namespace ioweave::test {

/// Forks, runs `body` in the child and ends it there by _exit with what `body` returns. Gives that
/// value back, or 128 plus the number of the signal that killed the child. For what changes the
/// whole process: limits, capabilities, seccomp filters, fork itself.
[[nodiscard]] int run_in_child(const std::function<int()>& body);

/// In a child: gives up CAP_IPC_LOCK, which exempts root from RLIMIT_MEMLOCK, and sets that limit.
/// False where that is not possible.
[[nodiscard]] bool limit_locked_memory(unsigned long bytes);

}  // namespace ioweave::test
