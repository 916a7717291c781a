#pragma once

// Storage devices and the nodes that have them, as a program or the [[device]] and [[node]] tables
// of ioweave.toml describe them.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/settings.hpp"
#include "config/value.hpp"

namespace ioweave::config {

/// A storage target.
struct Device {
  std::string name;
  std::string path;           ///< a file or folder on it; empty: not given
  double mb_per_s = 0;        ///< the budget, in 10^6 bytes; 0: none
  bool is_shared = false;     ///< all nodes share one budget; else each has its own
  int64_t max_in_flight = 0;  ///< 0: no limit
  /// Names or globs (`*`, `?`, `[ab]`) of the nodes that have it; nothing: all nodes.
  std::optional<std::vector<std::string>> nodes;
  /// (streams, MB/s of all together), by ascending streams.
  std::vector<std::pair<double, double>> curve;
  std::string profile;  ///< what `ioweave bench --json` wrote of it; empty: not given
};

/// Equal nodes of a cluster.
struct Node {
  std::string name;
  std::optional<int64_t> count;  ///< nothing: one node, which is called `name`
  int64_t cores = 1;
};

/// Returns what the fields describe. If they are wrong, returns nothing; `why` is a sentence that
/// names device and setting.
[[nodiscard]] std::optional<Device> device_of(const Fields& fields, std::string& why);
[[nodiscard]] std::optional<Node> node_of(const Fields& fields, std::string& why);

/// Returns the [[device]] table of a measured device, which has a path, and a curve or a profile;
/// and the text of a curve alone.
[[nodiscard]] std::string device_toml(const Device& device);
[[nodiscard]] std::string curve_toml(std::span<const std::pair<double, double>> curve);

/// Returns true if one of the globs matches the node, with or without its domain.
[[nodiscard]] bool is_one_of(std::string_view node, std::span<const std::string> globs);

/// What all layers describe.
struct Description {
  std::vector<Device> devices;      ///< of each name the one of the highest layer
  std::vector<Node> nodes;          ///< those of the highest layer that has any
  std::vector<std::string> errors;  ///< for wrong tables, with their places
  /// For ignored files and tables that nobody reads; resolve() warns of these, too.
  std::vector<std::string> warnings;
};
/// `layers`: highest first.
[[nodiscard]] Description describe(std::span<const Layer> layers);

}  // namespace ioweave::config
