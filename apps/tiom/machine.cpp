#include "machine.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string_view>
#include <vector>

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/machine.hpp"
#include "device/mounts.hpp"

namespace tiom {
namespace {

/// The text behind "key : " in a file of /proc, or "".
std::string field_of(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    if (colon != std::string::npos && start != std::string::npos) return line.substr(start);
  }
  return "";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  const size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text.data(), length};
}

}  // namespace

unsigned usable_cores() {
  return ioweave::this_machine().cpus_allowed;
}

uint64_t available_memory() {
  const std::string text = field_of("/proc/meminfo", "MemAvailable");
  uint64_t kib = 0;
  std::from_chars(text.data(), text.data() + text.size(), kib);
  return kib * 1024;
}

std::string machine_name() {
  const ioweave::Machine machine = ioweave::this_machine();
  return machine.host + ", " + machine.processor;
}

Machine this_machine(int fd) {
  const ioweave::Machine known = ioweave::this_machine();
  Machine machine;
  machine.host = known.host;
  machine.kernel = known.kernel;
  machine.processor = known.processor;
  machine.cores = known.cpus_allowed;
  struct stat status {};
  if (fstat(fd, &status) == 0) {
    const bool is_device = S_ISBLK(status.st_mode);
    if (is_device) {
      machine.file_system = "none";
      machine.device = "block device " + std::to_string(major(status.st_rdev)) + ":" +
                       std::to_string(minor(status.st_rdev));
    } else {
      const std::vector<ioweave::device::Mount> mounts = ioweave::device::this_mounts();
      if (const auto* const mount = ioweave::device::mount_with(mounts, status.st_dev)) {
        machine.file_system = mount->type;
        machine.device = mount->source;
      }
    }
  }
  machine.date = utc_now();
  static_cast<void>(getloadavg(&machine.load, 1));
  return machine;
}

std::string load_remark(const Machine& machine) {
  if (machine.load < 0.3 * machine.cores) return {};
  char text[160];
  std::snprintf(text, sizeof text,
                "The machine was busy before the sweep began (load %.1f on %u cores): repeat it on "
                "a quiet one.",
                machine.load, machine.cores);
  return text;
}

}  // namespace tiom
