#pragma once

// Storage devices, and the nodes that have them, as [[device]] and [[node]] tables of ioweave.toml
// or a program describe them.

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
  std::string path;           ///< a file or folder on it; empty: not told
  double mb_per_s = 0;        ///< a budget, in 10^6 bytes; 0: none
  bool is_shared = false;     ///< the budget is of all nodes together, else each has one
  int64_t max_in_flight = 0;  ///< 0: no bound
  /// Names or globs (`*`, `?`, `[ab]`) of the nodes that have it; nothing: all have.
  std::optional<std::vector<std::string>> nodes;
  /// MB/s of so many streams at once together, by ascending streams.
  std::vector<std::pair<double, double>> curve;
};

/// Nodes of a cluster that are alike.
struct Node {
  std::string name;
  std::optional<int64_t> count;  ///< nothing: one, which has the name as it is
  int64_t cores = 1;
};

/// What the fields describe; nothing with, in `why`, a sentence that names device and setting.
[[nodiscard]] std::optional<Device> device_of(const Fields& fields, std::string& why);
[[nodiscard]] std::optional<Node> node_of(const Fields& fields, std::string& why);

/// The [[device]] table of a measured device, which has a path and a curve; and a curve alone.
[[nodiscard]] std::string device_toml(const Device& device);
[[nodiscard]] std::string curve_toml(std::span<const std::pair<double, double>> curve);

/// Whether a node is meant by one of the globs, with its domain or without.
[[nodiscard]] bool is_one_of(std::string_view node, std::span<const std::string> globs);

/// What all layers, highest first, describe.
struct Description {
  std::vector<Device> devices;      ///< of one name the highest layer's
  std::vector<Node> nodes;          ///< of the highest layer that has any
  std::vector<std::string> errors;  ///< of tables that describe nothing, with their places
  /// Of files that are ignored and tables that nobody reads; resolve() warns of these, too.
  std::vector<std::string> warnings;
};
[[nodiscard]] Description describe(std::span<const Layer> layers);

}  // namespace ioweave::config
