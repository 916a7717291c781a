#pragma once

// Facts of this machine and process that decide what an engine may do, for the sentences that
// explain a refusal. Everything is read afresh: limits change while a process runs.

#include <cstdint>
#include <string>

#include <sys/types.h>

namespace ioweave::engine {

/// uname -r, and whether it is at least `major`.`minor`.
[[nodiscard]] std::string kernel_release();
[[nodiscard]] bool kernel_at_least(int major, int minor);

/// The sysctl kernel.io_uring_disabled (6.6 and newer): 0, 1 or 2; -1 where it does not exist.
[[nodiscard]] int io_uring_disabled();

/// True where a seccomp filter is active in this process.
[[nodiscard]] bool seccomp_filtered();

/// The soft limit of locked memory in words, "8 MiB" or "unlimited".
[[nodiscard]] std::string memlock_limit();

/// "8 MiB", "512 KiB" or "100 B": exact where it is a multiple.
[[nodiscard]] std::string in_bytes(unsigned long long bytes);

/// The first bytes of a small file, such as one of /proc or /sys, without the final line break;
/// empty where it cannot be read.
[[nodiscard]] std::string read_small_file(const char* path);

/// A setting of a block device's request queue, from /sys. Empty: no such device.
[[nodiscard]] std::string queue_setting(dev_t device, const char* name);

/// The bytes of a large page that the kernel may lay ordinary memory in (transparent huge pages).
/// 0: there are none, or they are switched off.
[[nodiscard]] uint64_t large_page_bytes();

/// Cores this process may run on.
[[nodiscard]] unsigned online_cores();

}  // namespace ioweave::engine
