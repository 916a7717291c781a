#include "device/disk.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <string_view>

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/proc_text.hpp"

namespace ioweave::device {
namespace {

constexpr int64_t kSectorBytes = 512;  // of diskstats, whatever the disk's own sectors are
constexpr size_t kMostBytes = 8u << 20;

// Of a line of diskstats; see Documentation/admin-guide/iostats.rst of the kernel.
constexpr size_t kMajor = 0;
constexpr size_t kMinor = 1;
constexpr size_t kSectorsRead = 5;
constexpr size_t kSectorsWritten = 9;
using Numbers = std::array<int64_t, kSectorsWritten + 1>;

/// The numbers at the beginning of a line, 0 for the disk's name.
Numbers numbers_of(std::string_view line) {
  Numbers numbers{};
  for (int64_t& number : numbers) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const std::string_view word = line.substr(0, line.find(' '));
    std::from_chars(word.data(), word.data() + word.size(), number);
    line.remove_prefix(word.size());
  }
  return numbers;
}

}  // namespace

std::optional<dev_t> disk_below(dev_t number, const char* mountinfo) {
  if (major(number) != 0) return number;
  // Btrfs has numbers of its own: its mount names a disk it is on.
  const std::vector<Mount> mounts = this_mounts(mountinfo);
  const Mount* const mount = mount_with(mounts, number);
  struct stat status {};
  if (mount == nullptr || stat(mount->source.c_str(), &status) != 0) return std::nullopt;
  if (!S_ISBLK(status.st_mode)) return std::nullopt;
  return status.st_rdev;
}

bool is_rotational(dev_t disk, const std::string& sys) {
  namespace fs = std::filesystem;
  const std::string number = std::to_string(major(disk)) + ":" + std::to_string(minor(disk));
  std::error_code error;
  const fs::path real = fs::canonical(sys + "/" + number, error);
  if (error) return false;
  const bool is_paravirtual = std::ranges::any_of(real, [](const fs::path& part) {
    return part.native().starts_with("virtio") || part.native().starts_with("vbd-");
  });
  if (is_paravirtual) return false;
  std::string text;
  for (const fs::path& folder : {real, real.parent_path()}) {
    const fs::path file = folder / "queue" / "rotational";
    if (read_proc_text(file.c_str(), 1, text) == 0) return text.starts_with('1');
  }
  return false;
}

int64_t DiskCounter::read() const {
  std::string text;
  const int error = read_proc_text(diskstats_.c_str(), kMostBytes, text);
  if (error != 0) return error;
  std::string_view left = text;
  while (!left.empty()) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(line.size() + 1, left.size()));
    const Numbers numbers = numbers_of(line);
    if (numbers[kMajor] == major(disk_) && numbers[kMinor] == minor(disk_)) {
      return (numbers[kSectorsRead] + numbers[kSectorsWritten]) * kSectorBytes;
    }
  }
  return -ENODEV;
}

}  // namespace ioweave::device
