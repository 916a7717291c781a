#include "engine/available_memory.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <fcntl.h>

#include "engine/raw_syscall.hpp"

namespace ioweave::engine {
namespace {

/// Version 1 has no word for "no limit", only a number that no machine reaches.
constexpr uint64_t kLeastUnlimited = uint64_t{1} << 60;

/// What a version of memory cgroups calls the same three figures.
struct Names {
  std::string_view limit;
  std::string_view used;
  std::string_view reclaimable;  ///< a line of memory.stat: page cache that nobody used lately
};
constexpr Names kVersion1{"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                          "\ntotal_inactive_file "};
constexpr Names kVersion2{"/memory.max", "/memory.current", "\ninactive_file "};

/// The first 8 KiB of a file; empty where it cannot be read. On the heap: the caller's stack may be
/// a small one of the program's.
std::string text_of(const std::string& path) {
  std::string text(8192, '\0');
  const long fd = raw_syscall(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return {};
  const long length = raw_syscall(SYS_read, fd, text.data(), text.size());
  raw_syscall(SYS_close, fd);
  text.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return text;
}

/// The number behind a label; kUnlimitedMemory where there is none, or a word such as "max".
uint64_t number_after(std::string_view text, std::string_view label) noexcept {
  const size_t at = text.find(label);
  if (at == std::string_view::npos) return kUnlimitedMemory;
  text.remove_prefix(at + label.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && number < kLeastUnlimited ? number : kUnlimitedMemory;
}

uint64_t room_in(const std::string& group, const Names& names) {
  const uint64_t limit = number_after(text_of(group + std::string(names.limit)), "");
  if (limit == kUnlimitedMemory) return kUnlimitedMemory;
  const uint64_t used = number_after(text_of(group + std::string(names.used)), "");
  if (used == kUnlimitedMemory) return limit;
  const uint64_t reclaimable = number_after(text_of(group + "/memory.stat"), names.reclaimable);
  const uint64_t in_use =
      reclaimable != kUnlimitedMemory ? used - std::min(used, reclaimable) : used;
  return limit - std::min(limit, in_use);
}

/// In the group and in all above it, each of which may have a limit.
uint64_t room_up_from(std::string_view path, const std::string& mount, const Names& names) {
  uint64_t room = kUnlimitedMemory;
  while (true) {
    while (!path.empty() && path.back() == '/') path.remove_suffix(1);
    room = std::min(room, room_in(mount + std::string(path), names));
    if (path.empty()) return room;
    path = path.substr(0, path.rfind('/') + 1);
  }
}

/// Whether a list like "cpu,memory" has the memory controller.
bool lists_memory(std::string_view controllers) noexcept {
  while (!controllers.empty()) {
    const size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == "memory") return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

}  // namespace

uint64_t available_in_cgroups(const std::string& membership, const std::string& root) {
  uint64_t room = kUnlimitedMemory;
  // Lines like "4:memory:/a/b" of version 1 and "0::/a/b" of version 2.
  for (std::string_view rest = membership; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    if (controllers.empty()) {
      room = std::min(room, room_up_from(path, root, kVersion2));
    } else if (lists_memory(controllers)) {
      room = std::min(room, room_up_from(path, root + "/memory", kVersion1));
    }
  }
  return room;
}

uint64_t available_memory_bytes() {
  const uint64_t kib = number_after(text_of("/proc/meminfo"), "MemAvailable:");
  const uint64_t machine = kib != kUnlimitedMemory ? kib << 10 : kUnlimitedMemory;
  return std::min(machine, available_in_cgroups(text_of("/proc/self/cgroup"), "/sys/fs/cgroup"));
}

}  // namespace ioweave::engine
