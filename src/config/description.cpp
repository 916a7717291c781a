// One check for what files and programs describe. Both give Fields, and get the same sentences.

#include "config/description.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/nearest_name.hpp"
#include "config/glob.hpp"

namespace ioweave::config {
namespace {

constexpr double kMostStreams = 1e6;  // of a curve in the simulation
constexpr auto kDeviceSettings = std::to_array<std::string_view>(
    {"name", "path", "bandwidth", "scope", "max_in_flight", "nodes", "curve", "profile"});
constexpr auto kNodeSettings = std::to_array<std::string_view>({"name", "count", "cores"});

const Value* find(const Fields& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &Fields::value_type::first);
  return found == fields.end() ? nullptr : &found->second;
}

std::optional<double> number_of(const Value& value) {
  if (const auto* whole = std::get_if<int64_t>(&value.is)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value.is)) return *real;
  return std::nullopt;
}

/// Whether a name can be shown: no control characters, and none of those that change the direction
/// of a line, have no width or begin another line (U+200B to U+200F, U+2028 to U+202E).
bool is_printable(std::string_view name) {
  const auto byte = [&](size_t i) {
    return i < name.size() ? static_cast<unsigned char>(name[i]) : 0u;
  };
  for (size_t i = 0; i < name.size(); ++i) {
    const unsigned first = byte(i);
    const unsigned last = byte(i + 2);
    if (first < 0x20 || first == 0x7f || (first == 0xc2 && byte(i + 1) < 0xa0)) return false;
    if (first == 0xed && byte(i + 1) >= 0xa0) return false;  // a half of a UTF-16 pair
    if (first == 0xe2 && byte(i + 1) == 0x80 &&
        ((last >= 0x8b && last <= 0x8f) || (last >= 0xa8 && last <= 0xae))) {
      return false;
    }
  }
  return !name.empty();
}

/// Reads the fields of one table, until the first that is wrong.
class TableReader {
 public:
  TableReader(std::string_view kind, const Fields& fields, std::string& why)
      : kind_(kind), fields_(fields), why_(why) {}

  /// Whether there is a name, and nothing that is not one of `known`.
  bool take_name(std::span<const std::string_view> known, std::string& name) {
    const Value* const given = find(fields_, "name");
    shown_ = given != nullptr ? given->shown : "'?'";
    for (const auto& [setting, value] : fields_) {
      if (std::ranges::find(known, setting) != known.end()) continue;
      const std::string_view nearest = nearest_name(setting, known);
      why_ = std::string(kind_) + " " + shown_ + ": unknown setting '" + setting + "'";
      if (!nearest.empty()) why_ += "; did you mean '" + std::string(nearest) + "'?";
      return false;
    }
    if (given == nullptr) {
      why_ = "a [[" + std::string(kind_) + "]] has no name";
      return false;
    }
    const auto* const text = std::get_if<std::string>(&given->is);
    if (text == nullptr || !is_printable(*text)) {
      why_ = "a " + std::string(kind_) + " needs a name, a text that can be printed, not " + shown_;
      return false;
    }
    name = *text;
    return true;
  }

  /// Gives the setting's value to `take`, which says whether it is `wanted`. True without a value.
  template <typename Take>
  bool read(std::string_view setting, std::string_view wanted, const Take& take) {
    const Value* const value = find(fields_, setting);
    if (value == nullptr || take(*value)) return true;
    why_ = std::string(kind_) + " " + shown_ + ": " + std::string(setting) + " must be " +
           std::string(wanted) + ", not " + value->shown;
    return false;
  }

  bool read_whole(std::string_view setting, std::string_view wanted, int64_t least,
                  int64_t& number) {
    return read(setting, wanted, [&](const Value& value) {
      const auto* const whole = std::get_if<int64_t>(&value.is);
      if (whole != nullptr) number = *whole;
      return whole != nullptr && *whole >= least;
    });
  }

 private:
  std::string_view kind_;
  const Fields& fields_;
  std::string& why_;
  std::string shown_;  // the name
};

bool take_text(const Value& value, std::string& text) {
  const auto* const given = std::get_if<std::string>(&value.is);
  if (given != nullptr) text = *given;
  return given != nullptr;
}

bool take_nodes(const Value& value, std::vector<std::string>& nodes) {
  for (const Value& glob : std::get<std::vector<Value>>(value.is)) {
    const auto* const text = std::get_if<std::string>(&glob.is);
    if (text == nullptr || text->empty()) return false;
    nodes.push_back(*text);
  }
  return true;
}

bool is_filled_list(const Value& value) {
  const auto* const list = std::get_if<std::vector<Value>>(&value.is);
  return list != nullptr && !list->empty();
}

bool take_curve(const Value& value, std::vector<std::pair<double, double>>& curve) {
  const auto* const points = std::get_if<std::vector<Value>>(&value.is);
  if (points == nullptr) return false;
  for (const Value& point : *points) {
    const auto* const pair = std::get_if<std::vector<Value>>(&point.is);
    if (pair == nullptr || pair->size() != 2) return false;
    const double streams = number_of((*pair)[0]).value_or(0);
    const double mb_per_s = number_of((*pair)[1]).value_or(0);
    const double last = curve.empty() ? 0 : curve.back().first;
    // Written so that NaN is refused, too.
    if (!(last < streams && streams <= kMostStreams)) return false;
    if (!(mb_per_s > 0 && std::isfinite(mb_per_s))) return false;
    curve.emplace_back(streams, mb_per_s);
  }
  return true;
}

void add_warnings(const Layer& layer, Description& description) {
  if (layer.error != 0) {
    description.warnings.insert(description.warnings.end(), layer.warnings.begin(),
                                layer.warnings.end());
  }
  for (const Entry& entry : layer.entries) {
    if (entry.is_table) description.warnings.push_back(unknown_name(entry));
  }
}

void add_devices(const Layer& layer, Description& description) {
  const auto higher = static_cast<std::ptrdiff_t>(description.devices.size());
  for (const Table& table : layer.devices) {
    std::string why;
    std::optional<Device> device = device_of(table.fields, why);
    if (device) {
      const auto same = std::ranges::find(description.devices, device->name, &Device::name);
      if (same == description.devices.end()) {
        for (std::string* const path : {&device->path, &device->profile}) {
          if (!path->empty() && path->front() != '/') path->insert(0, layer.folder + "/");
        }
        description.devices.push_back(std::move(*device));
      } else if (same - description.devices.begin() >= higher) {
        why = "device '" + device->name + "' is described twice";
      }
    }
    if (!why.empty()) description.errors.push_back(table.origin.place + ": " + why);
  }
}

void add_nodes(const Layer& layer, Description& description) {
  const bool is_hidden = !description.nodes.empty();
  for (const Table& table : layer.nodes) {
    std::string why;
    std::optional<Node> node = node_of(table.fields, why);
    if (!node) description.errors.push_back(table.origin.place + ": " + why);
    if (node && !is_hidden) description.nodes.push_back(std::move(*node));
  }
}

}  // namespace

std::optional<Device> device_of(const Fields& fields, std::string& why) {
  Device device;
  TableReader table("device", fields, why);
  const bool good =
      table.take_name(kDeviceSettings, device.name) &&
      table.read("path", "a path",
                 [&](const Value& value) { return take_text(value, device.path); }) &&
      table.read("bandwidth", "a number of MB/s",
                 [&](const Value& value) {
                   device.mb_per_s = number_of(value).value_or(NAN);
                   return std::isfinite(device.mb_per_s);
                 }) &&
      table.read("bandwidth", "MB/s above 0, or 0 for no budget",
                 [&](const Value&) { return device.mb_per_s >= 0; }) &&
      table.read("scope", "'node' or 'shared'",
                 [&](const Value& value) {
                   std::string scope;
                   if (!take_text(value, scope)) return false;
                   device.is_shared = scope == "shared";
                   return device.is_shared || scope == "node";
                 }) &&
      table.read_whole("max_in_flight", "a whole number, 0 for no bound", 0,
                       device.max_in_flight) &&
      table.read("nodes", "a list of names or globs of nodes", &is_filled_list) &&
      table.read("nodes", "names or globs of nodes, which are not empty",
                 [&](const Value& value) { return take_nodes(value, device.nodes.emplace()); }) &&
      table.read("curve", "a list of [streams, MB/s], streams ascending and all numbers above 0",
                 [&](const Value& value) { return take_curve(value, device.curve); }) &&
      table.read("profile", "a path",
                 [&](const Value& value) { return take_text(value, device.profile); });
  return good ? std::optional(std::move(device)) : std::nullopt;
}

std::optional<Node> node_of(const Fields& fields, std::string& why) {
  constexpr std::string_view kWanted = "a whole number above 0";
  Node node;
  int64_t count = 0;
  TableReader table("node", fields, why);
  const bool good = table.take_name(kNodeSettings, node.name) &&
                    table.read_whole("count", kWanted, 1, count) &&
                    table.read_whole("cores", kWanted, 1, node.cores);
  if (count > 0) node.count = count;
  return good ? std::optional(std::move(node)) : std::nullopt;
}

bool is_one_of(std::string_view node, std::span<const std::string> globs) {
  const std::string_view without_domain = node.substr(0, node.find('.'));
  return std::ranges::any_of(globs, [&](const std::string& glob) {
    return glob_matches(glob, node) || glob_matches(glob, without_domain);
  });
}

Description describe(std::span<const Layer> layers) {
  Description description;
  for (const Layer& layer : layers) {
    description.errors.insert(description.errors.end(), layer.errors.begin(), layer.errors.end());
    add_warnings(layer, description);
    add_devices(layer, description);
    add_nodes(layer, description);
  }
  return description;
}

}  // namespace ioweave::config
