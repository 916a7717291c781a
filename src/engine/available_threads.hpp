#pragma once

// How many more threads this process may start, as far as limits say.

#include <cstdint>
#include <string>

namespace ioweave::engine {

/// The least of: a quarter of what the kernel allows for all processes (kernel.threads-max,
/// kernel.pid_max), of the memory maps of a process (vm.max_map_count; a thread's stack takes two),
/// and of its address space (RLIMIT_AS, for stacks of RLIMIT_STACK); half of the user's processes
/// (RLIMIT_NPROC) and of the room in the pids cgroups. UINT64_MAX where nothing can be read. Opens
/// and closes some small files; allocates, and may throw std::bad_alloc.
[[nodiscard]] uint64_t available_threads();

/// The cgroups' part of it, all of the room. Arguments as those of room_in_cgroups().
[[nodiscard]] uint64_t available_pids_in_cgroups(const std::string& membership,
                                                 const std::string& root);

}  // namespace ioweave::engine
