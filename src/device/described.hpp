#pragma once

// Which of the devices that ioweave.toml describes a file of this machine lies on.

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
  dev_t number = 0;  ///< st_dev of what lies there
};

/// Those that `node` has and whose paths exist.
[[nodiscard]] std::vector<Described> described_devices(std::span<const config::Device> devices,
                                                       std::string_view node);

/// The name of this node.
[[nodiscard]] std::string this_node();

/// The device of a file with this st_dev and absolute path, or null: of those on the same file
/// system the one whose path, the longest, holds the file's, else the first.
[[nodiscard]] const Described* described_of(std::span<const Described> devices, dev_t number,
                                            std::string_view path) noexcept;

}  // namespace ioweave::device
