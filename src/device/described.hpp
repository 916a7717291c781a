#pragma once

// Finds the device of ioweave.toml on which a file of this machine lies.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "config/description.hpp"

namespace ioweave::device {

/// A described device as this node has it. Immutable.
struct Described {
  config::Device settings;
  std::string path;  ///< absolute, without links
  dev_t number = 0;  ///< st_dev of the path
};

/// Returns the devices that `node` has and whose paths exist.
[[nodiscard]] std::vector<Described> described_devices(std::span<const config::Device> devices,
                                                       std::string_view node);

/// Returns the name of this node.
[[nodiscard]] std::string this_node();

/// Returns the device of a file with this st_dev and absolute path, or null. Among the devices on
/// the same file system it is the one with the longest path that holds the file, else the first.
[[nodiscard]] const Described* described_of(std::span<const Described> devices, dev_t number,
                                            std::string_view path) noexcept;

}  // namespace ioweave::device
