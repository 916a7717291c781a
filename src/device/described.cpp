#include "device/described.hpp"

#include <cstdlib>
#include <memory>

#include <sys/stat.h>
#include <sys/utsname.h>

#include "device/mounts.hpp"

namespace ioweave::device {

std::vector<Described> described_devices(std::span<const config::Device> devices,
                                         std::string_view node) {
  std::vector<Described> found;
  for (const config::Device& device : devices) {
    if (device.path.empty() || (device.nodes && !config::is_one_of(node, *device.nodes))) continue;
    const std::unique_ptr<char, void (*)(void*)> real(realpath(device.path.c_str(), nullptr),
                                                      &std::free);
    struct stat status {};
    if (!real || stat(real.get(), &status) != 0) continue;
    found.push_back({device, real.get(), status.st_dev});
  }
  return found;
}

std::string this_node() {
  utsname names{};
  return uname(&names) == 0 ? names.nodename : "";
}

const Described* described_of(std::span<const Described> devices, dev_t number,
                              std::string_view path) noexcept {
  const Described* best = nullptr;
  size_t most = 0;
  for (const Described& device : devices) {
    if (device.number != number) continue;
    const size_t held = holds(device.path, path) ? device.path.size() : 0;
    if (best != nullptr && held <= most) continue;
    best = &device;
    most = held;
  }
  return best;
}

}  // namespace ioweave::device
