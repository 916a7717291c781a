#include "engine/cgroup_room.hpp"

#include <algorithm>
#include <charconv>

#include <fcntl.h>

#include "engine/raw_syscall.hpp"

namespace ioweave::engine {
namespace {

constexpr uint64_t kLeastUnlimited = uint64_t{1} << 60;

/// In the group and in all above it, each of which may have a limit.
uint64_t room_up_from(std::string_view path, const std::string& mount, RoomInGroup room_in) {
  uint64_t room = kUnlimited;
  while (true) {
    while (!path.empty() && path.back() == '/') path.remove_suffix(1);
    room = std::min(room, room_in(mount + std::string(path)));
    if (path.empty()) return room;
    path = path.substr(0, path.rfind('/') + 1);
  }
}

/// Whether a list like "cpu,memory" has a controller.
bool lists(std::string_view controllers, std::string_view controller) noexcept {
  while (!controllers.empty()) {
    const size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == controller) return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

}  // namespace

std::string text_of_file(const std::string& path) {
  std::string text(8192, '\0');
  const long fd = raw_syscall(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return {};
  const long length = raw_syscall(SYS_read, fd, text.data(), text.size());
  raw_syscall(SYS_close, fd);
  text.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return text;
}

uint64_t number_after(std::string_view text, std::string_view label) noexcept {
  const size_t at = text.find(label);
  if (at == std::string_view::npos) return kUnlimited;
  text.remove_prefix(at + label.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && number < kLeastUnlimited ? number : kUnlimited;
}

uint64_t room_in_cgroups(std::string_view membership, const std::string& root,
                         std::string_view controller, RoomInGroup in_version1,
                         RoomInGroup in_version2) {
  uint64_t room = kUnlimited;
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
      room = std::min(room, room_up_from(path, root, in_version2));
    } else if (lists(controllers, controller)) {
      const std::string mount = root + "/" + std::string(controller);
      room = std::min(room, room_up_from(path, mount, in_version1));
    }
  }
  return room;
}

}  // namespace ioweave::engine
