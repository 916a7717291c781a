#pragma once

// How much memory this process may still use: what the machine has, and what its cgroups allow.
// Page cache counts against the cgroup of whoever brings it in.

#include <cstdint>
#include <string>

namespace ioweave::engine {

inline constexpr uint64_t kUnlimitedMemory = UINT64_MAX;

/// Bytes that can be used without swapping or evicting what is in use: the least of the machine's
/// MemAvailable and the room in each memory cgroup from this process's own up to the root
/// (versions 1 and 2). kUnlimitedMemory where nothing can be read. About a dozen small files are
/// opened and closed, on the lowest free descriptor; allocates, and may throw std::bad_alloc.
[[nodiscard]] uint64_t available_memory_bytes();

/// The cgroups' part of it. `membership` is a text like that of /proc/self/cgroup, `root` the
/// folder where cgroups are mounted. A container often sees its own group as that root: paths that
/// do not exist below it are passed over.
[[nodiscard]] uint64_t available_in_cgroups(const std::string& membership, const std::string& root);

}  // namespace ioweave::engine
