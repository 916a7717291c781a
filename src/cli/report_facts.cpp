#include "cli/report_facts.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <memory>

namespace ioweave::cli {

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

std::optional<Place> find_place(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), &std::free);
  if (!real) return std::nullopt;
  Place place{real.get(), {}};
  const std::vector<device::Mount> mounts = device::this_mounts();
  if (const device::Mount* const mount = device::mount_of(mounts, place.path)) place.mount = *mount;
  return place;
}

void add_file_systems(stats::RunReport& report) {
  const std::vector<device::Mount> mounts = device::this_mounts();
  for (stats::FileReport& file : report.files) {
    const device::Mount* const mount = device::mount_of(mounts, file.path);
    if (mount == nullptr) continue;
    file.file_system = mount->type;
    const bool known =
        std::ranges::find(report.mounts, mount->path, &device::Mount::path) != report.mounts.end();
    if (!known) report.mounts.push_back(*mount);
  }
}

}  // namespace ioweave::cli
