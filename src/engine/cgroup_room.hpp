#pragma once

// What the control groups of a process leave it, whatever the controller, and the small texts of
// /proc and the like that say so. Each text is opened, read and closed on the lowest free
// descriptor. Allocates, and may throw std::bad_alloc: the caller's stack may be a small one.

#include <cstdint>
#include <string>
#include <string_view>

namespace ioweave::engine {

inline constexpr uint64_t kUnlimited = UINT64_MAX;

/// The first 8 KiB of a file; empty where it cannot be read.
[[nodiscard]] std::string text_of_file(const std::string& path);

/// The number behind a label; kUnlimited where there is none, or a word such as "max", or a number
/// that no machine reaches, which is how version 1 says "no limit".
[[nodiscard]] uint64_t number_after(std::string_view text, std::string_view label) noexcept;

/// What one group, a folder, leaves of its controller; kUnlimited without a limit.
using RoomInGroup = uint64_t (*)(const std::string& group);

/// The least room in each group of `controller` from the process's own up to the root.
/// `membership` is a text like that of /proc/self/cgroup, `root` the folder where cgroups are
/// mounted. A container often sees its own group as that root: paths that do not exist below it are
/// passed over.
[[nodiscard]] uint64_t room_in_cgroups(std::string_view membership, const std::string& root,
                                       std::string_view controller, RoomInGroup in_version1,
                                       RoomInGroup in_version2);

}  // namespace ioweave::engine
