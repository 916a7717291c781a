// The only part that sees toml++. Everything that is wrong in a file becomes a warning with its
// line; the rest of the file still counts, except after a syntax error.

#include <string>

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "config/layers.hpp"

namespace ioweave::config {
namespace {

/// Reads one table into a layer.
class TomlReader {
 public:
  TomlReader(Layer& layer, const std::string& shown, const std::string& directory)
      : layer_(layer), shown_(shown), directory_(directory) {}

  void read(const toml::table& table) {
    for (const auto& [key, node] : table) {
      if (key.str() == "rule") {
        read_rules(node);
      } else if (key.str() == "lock") {
        read_locks(node);
      } else if (key.str() != "device" && key.str() != "node") {  // the Python package checks those
        read_setting(std::string(key.str()), node);
      }
    }
  }

  void warn(const toml::source_region& where, const std::string& text) {
    layer_.warnings.push_back(origin(where).place + ": " + text);
  }

 private:
  [[nodiscard]] Origin origin(const toml::source_region& where) const {
    return {layer_.kind, shown_ + ":" + std::to_string(where.begin.line)};
  }

  void read_setting(std::string name, const toml::node& node) {
    // An unknown name is complained of by resolve(), whatever its type.
    if (node.is_table() || node.is_array()) {
      if (setting_named(name) != nullptr) return warn(node.source(), name + " takes one value");
      layer_.entries.push_back({std::move(name), "", origin(node.source())});
    } else if (const auto* text = node.as_string()) {
      layer_.entries.push_back({std::move(name), text->get(), origin(node.source())});
    } else if (const auto* number = node.as_integer()) {
      layer_.entries.push_back(
          {std::move(name), std::to_string(number->get()), origin(node.source())});
    } else if (const auto* flag = node.as_boolean()) {
      layer_.entries.push_back(
          {std::move(name), flag->get() ? "true" : "false", origin(node.source())});
    } else {
      warn(node.source(), name + " is neither text, a whole number, true nor false");
    }
  }

  void read_rules(const toml::node& node) {
    const toml::array* const rules = node.as_array();
    if (rules == nullptr) return warn(node.source(), "rules are written as [[rule]]");
    for (const toml::node& rule : *rules) {
      if (const toml::table* const table = rule.as_table()) {
        read_rule(*table);
      } else {
        warn(rule.source(), "rules are written as [[rule]]");
      }
    }
  }

  void read_rule(const toml::table& table) {
    RuleEntry rule;
    rule.origin = origin(table.source());
    rule.directory = directory_;
    for (const auto& [key, node] : table) {
      const auto* const text = node.as_string();
      if (key.str() != "glob" && key.str() != "policy") {
        warn(node.source(), "a rule has 'glob' and 'policy', not '" + std::string(key.str()) + "'");
      } else if (text == nullptr) {
        warn(node.source(), "a rule's '" + std::string(key.str()) + "' is text");
      } else {
        (key.str() == "glob" ? rule.glob : rule.policy) = text->get();
      }
    }
    if (rule.glob.empty() || rule.policy.empty()) {
      return warn(table.source(), "a rule needs both 'glob' and 'policy'");
    }
    layer_.rules.push_back(std::move(rule));
  }

  void read_locks(const toml::node& node) {
    if (layer_.kind != LayerKind::site) {
      return warn(node.source(),
                  "'lock' only counts in the site's file, " + std::string(kSiteFile));
    }
    const toml::array* const names = node.as_array();
    if (names == nullptr) return warn(node.source(), "'lock' is a list of settings' names");
    for (const toml::node& name : *names) {
      if (const auto* const text = name.as_string()) {
        layer_.locks.push_back({text->get(), "", origin(name.source())});
      } else {
        warn(name.source(), "'lock' is a list of settings' names");
      }
    }
  }

  Layer& layer_;
  const std::string& shown_;
  const std::string& directory_;
};

}  // namespace

Layer toml_layer(LayerKind kind, std::string_view text, const std::string& shown,
                 const std::string& directory) {
  Layer layer;
  layer.kind = kind;
  TomlReader reader(layer, shown, directory);
  const toml::parse_result result = toml::parse(text, shown);
  if (result) {
    reader.read(result.table());
  } else {
    reader.warn(result.error().source(),
                std::string(result.error().description()) + "; the whole file is ignored");
  }
  return layer;
}

}  // namespace ioweave::config
