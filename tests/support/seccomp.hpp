#pragma once

#include <cstdint>

namespace ioweave::test {

/// From now on, in this process and its threads, a system call fails with `error`. With
/// `argument` >= 0 only where its second argument has that value (an io_uring_register opcode).
/// Cannot be undone: for children of run_in_child. False where filters are not available.
[[nodiscard]] bool refuse_syscall(long number, int error, int64_t argument = -1);

/// From now on a system call ends the process that makes it, as SIGKILL would just before it, but
/// by SIGSYS. Inherited and for good, as above.
[[nodiscard]] bool die_at_syscall(long number);

}  // namespace ioweave::test
