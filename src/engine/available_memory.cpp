#include "engine/available_memory.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include <fcntl.h>

#include "base/private_descriptors.hpp"
#include "engine/raw_syscall.hpp"
#include "engine/system_facts.hpp"

namespace ioweave::engine {

/// What a version of memory cgroups calls the same three figures.
struct AvailableMemory::Names {
  std::string_view limit;
  std::string_view used;
  std::string_view reclaimable;  ///< a line of memory.stat: page cache that nobody used lately
};
constexpr AvailableMemory::Names AvailableMemory::kVersion1{
    "/memory.limit_in_bytes", "/memory.usage_in_bytes", "\ntotal_inactive_file "};
constexpr AvailableMemory::Names AvailableMemory::kVersion2{"/memory.max", "/memory.current",
                                                            "\ninactive_file "};

namespace {

constexpr uint64_t kUnlimited = AvailableMemory::kUnlimited;
/// Version 1 has no word for "no limit", only a number that no machine reaches.
constexpr uint64_t kLeastUnlimited = uint64_t{1} << 60;

int open_private(const std::string& path) noexcept {
  const long fd = raw_syscall(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC, 0);
  return fd < 0 ? -1 : make_descriptor_private(static_cast<int>(fd), [](auto... arguments) {
    return raw_syscall(arguments...);
  });
}

void close_private(int fd) noexcept {
  if (fd >= 0) {
    forget_private_descriptor(fd);
    raw_syscall(SYS_close, fd);
  }
}

/// As it is now; such files are made anew for each read from their beginning.
class Text {
 public:
  explicit Text(int fd) noexcept {
    const long length = raw_syscall(SYS_pread64, fd, text_.data(), text_.size(), 0L);
    length_ = length > 0 ? static_cast<size_t>(length) : 0;
  }
  /// The number behind a label; kUnlimited where there is none.
  [[nodiscard]] uint64_t number_after(std::string_view label) const noexcept {
    std::string_view rest(text_.data(), length_);
    const size_t at = rest.find(label);
    if (at == std::string_view::npos) {
      return kUnlimited;
    }
    rest.remove_prefix(at + label.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    return error == std::errc() && number < kLeastUnlimited ? number : kUnlimited;
  }
  /// The number it starts with; kUnlimited for anything else, such as "max".
  [[nodiscard]] uint64_t number() const noexcept { return number_after(""); }

 private:
  std::array<char, 8192> text_;
  size_t length_ = 0;
};

/// Whether a list like "cpu,memory" has the memory controller.
bool lists_memory(std::string_view controllers) noexcept {
  while (!controllers.empty()) {
    const size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == "memory") {
      return true;
    }
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

}  // namespace

AvailableMemory::AvailableMemory()
    : AvailableMemory(read_small_file("/proc/self/cgroup"), "/sys/fs/cgroup", "/proc/meminfo") {}

AvailableMemory::AvailableMemory(const std::string& membership, const std::string& root,
                                 const char* meminfo)
    : meminfo_(meminfo != nullptr ? open_private(meminfo) : -1) {
  // Lines like "4:memory:/a/b" of version 1 and "0::/a/b" of version 2.
  for (std::string_view rest = membership; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) {
      continue;
    }
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty()) {
      add_up_from(line.substr(second + 1), root, kVersion2);
    } else if (lists_memory(controllers)) {
      add_up_from(line.substr(second + 1), root + "/memory", kVersion1);
    }
  }
}

AvailableMemory::~AvailableMemory() {
  close_private(meminfo_);
  for (const Group& group : groups_) {
    close_private(group.limit);
    close_private(group.used);
    close_private(group.statistics);
  }
}

/// The group and all above it, each of which may have a limit.
void AvailableMemory::add_up_from(std::string_view path, const std::string& mount,
                                  const Names& names) {
  while (true) {
    while (!path.empty() && path.back() == '/') {
      path.remove_suffix(1);
    }
    add(mount + std::string(path), names);
    if (path.empty()) {
      return;
    }
    path = path.substr(0, path.rfind('/') + 1);
  }
}

void AvailableMemory::add(const std::string& folder, const Names& names) {
  const std::string limit = folder + std::string(names.limit);
  const std::string used = folder + std::string(names.used);
  const std::string statistics = folder + "/memory.stat";
  groups_.reserve(groups_.size() + 1);  // so that nothing opened is lost
  Group group;
  group.names = &names;
  group.limit = open_private(limit);
  if (group.limit < 0 || Text(group.limit).number() == kUnlimited) {
    close_private(group.limit);
    return;
  }
  group.used = open_private(used);
  group.statistics = open_private(statistics);
  groups_.push_back(group);
}

uint64_t AvailableMemory::room_in(const Group& group) noexcept {
  const uint64_t limit = Text(group.limit).number();
  const uint64_t used = Text(group.used).number();
  if (limit == kUnlimited || used == kUnlimited) {
    return kUnlimited;
  }
  const uint64_t reclaimable = Text(group.statistics).number_after(group.names->reclaimable);
  const uint64_t in_use = reclaimable != kUnlimited ? used - std::min(used, reclaimable) : used;
  return limit - std::min(limit, in_use);
}

uint64_t AvailableMemory::bytes() const noexcept {
  const uint64_t kib = Text(meminfo_).number_after("MemAvailable:");
  uint64_t room = kib != kUnlimited ? kib << 10 : kUnlimited;
  for (const Group& group : groups_) {
    room = std::min(room, room_in(group));
  }
  return room;
}

}  // namespace ioweave::engine
