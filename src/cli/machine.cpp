#include "cli/machine.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>

#include <fcntl.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace ioweave::cli {
namespace {

/// Reads a file of /proc, which has no size: until its end, but at most `most` bytes.
std::string read_proc(const char* path, size_t most) {
  std::string text;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char block[4096];
  while (text.size() < most) {
    const ssize_t got = read(fd, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(block, static_cast<size_t>(got));
  }
  close(fd);
  return text;
}

std::string processor_name() {
  // The lines of the first processor are enough; with hundreds of processors the file is long.
  const std::string text = read_proc("/proc/cpuinfo", 4096);
  const size_t key = text.find("model name");
  if (key == std::string::npos) return {};
  const size_t start = text.find(": ", key);
  if (start == std::string::npos) return {};
  return text.substr(start + 2, text.find('\n', start) - start - 2);
}

uint32_t allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // This fails beyond 1024 processors; "all that are online" is a good answer then.
  if (sched_getaffinity(0, sizeof set, &set) != 0) {
    return static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  }
  return static_cast<uint32_t>(CPU_COUNT(&set));
}

/// mountinfo writes blanks and backslashes as \ooo.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      const int code = (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0');
      plain += static_cast<char>(code);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::string_view take_word(std::string_view& line) {
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(std::min(word.size() + 1, line.size()));
  return word;
}

}  // namespace

stats::Machine this_machine() {
  stats::Machine machine;
  utsname names{};
  if (uname(&names) == 0) {
    machine.host = names.nodename;
    machine.kernel = names.release;
    machine.architecture = names.machine;
  }
  machine.processor = processor_name();
  machine.cpus = static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  machine.cpus_allowed = allowed_cpus();
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  machine.memory_bytes =
      static_cast<uint64_t>(std::max(0L, pages)) * static_cast<uint64_t>(std::max(0L, page_bytes));
  return machine;
}

std::string utc_now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  char date[32];
  const size_t length = strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  std::string milliseconds = std::to_string(1000 + now.tv_nsec / 1'000'000);
  milliseconds[0] = '.';
  return std::string(date, length) + milliseconds + "Z";
}

std::vector<stats::MountPoint> parse_mountinfo(std::string_view text) {
  std::vector<stats::MountPoint> mounts;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    // id parent major:minor root MOUNT options [tags] - TYPE SOURCE options
    for (int skipped = 0; skipped < 4; ++skipped) take_word(line);
    const std::string_view path = take_word(line);
    while (!line.empty() && take_word(line) != "-") {
    }
    const std::string_view type = take_word(line);
    const std::string_view source = take_word(line);
    if (!path.empty() && !type.empty()) {
      mounts.push_back({unescaped(path), std::string(type), unescaped(source)});
    }
  }
  return mounts;
}

const stats::MountPoint* mount_of(const std::vector<stats::MountPoint>& mounts,
                                  std::string_view path) {
  const stats::MountPoint* best = nullptr;
  for (const stats::MountPoint& mount : mounts) {
    const bool is_root = mount.path == "/";
    const bool holds =
        is_root ? path.starts_with('/')
                : path.starts_with(mount.path) &&
                      (path.size() == mount.path.size() || path[mount.path.size()] == '/');
    // A later mount on the same place hides the earlier one.
    if (holds && (best == nullptr || mount.path.size() >= best->path.size())) best = &mount;
  }
  return best;
}

std::vector<stats::MountPoint> this_mounts() {
  constexpr size_t kMostBytes = 8u << 20;
  return parse_mountinfo(read_proc("/proc/self/mountinfo", kMostBytes));
}

void add_file_systems(stats::RunReport& report) {
  const std::vector<stats::MountPoint> mounts = this_mounts();
  for (stats::FileReport& file : report.files) {
    const stats::MountPoint* const mount = mount_of(mounts, file.path);
    if (mount == nullptr) continue;
    file.file_system = mount->type;
    const bool known = std::ranges::find(report.mounts, mount->path, &stats::MountPoint::path) !=
                       report.mounts.end();
    if (!known) report.mounts.push_back(*mount);
  }
}

}  // namespace ioweave::cli
