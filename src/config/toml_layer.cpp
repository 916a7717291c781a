// The only part that sees toml++. Everything that is wrong in a file becomes a warning with its
// line; the rest of the file still counts, except after a syntax error.

#include <array>
#include <cstdio>
#include <string>

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "config/layers.hpp"

namespace ioweave::config {
namespace {

Value value_of(const toml::node& node);

Value list_of(const toml::array& array) {
  std::vector<Value> list;
  std::string shown;
  for (const toml::node& node : array) {
    list.push_back(value_of(node));
    shown += (shown.empty() ? "" : ", ") + list.back().shown;
  }
  return {std::move(list), "[" + shown + "]"};
}

std::string number_text(double number) {
  std::array<char, 32> text{};  // std::to_chars() would add 250 KB to the command
  std::snprintf(text.data(), text.size(), "%.15g", number);
  return text.data();
}

Value value_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return {text->get(), "'" + text->get() + "'"};
  if (const auto* whole = node.as_integer()) return {whole->get(), std::to_string(whole->get())};
  if (const auto* real = node.as_floating_point()) return {real->get(), number_text(real->get())};
  if (const auto* flag = node.as_boolean()) return {{}, flag->get() ? "true" : "false"};
  if (const auto* array = node.as_array()) return list_of(*array);
  return {{}, node.is_table() ? "a table" : "a date or time"};
}

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
      } else if (key.str() == "device") {
        read_tables("device", node, layer_.devices);
      } else if (key.str() == "node") {
        read_tables("node", node, layer_.nodes);
      } else {
        read_setting(std::string(key.str()), node);
      }
    }
  }

 private:
  void warn(const toml::source_region& where, const std::string& text) {
    layer_.warnings.push_back(origin(where).place + ": " + text);
  }

  [[nodiscard]] Origin origin(const toml::source_region& where) const {
    return {layer_.kind, shown_ + ":" + std::to_string(where.begin.line)};
  }

  void read_setting(std::string name, const toml::node& node) {
    // An unknown name is complained of by resolve(), whatever its type.
    if (node.is_table() || node.is_array()) {
      if (setting_named(name) != nullptr) return warn(node.source(), name + " takes one value");
      layer_.entries.push_back({std::move(name), "", origin(node.source()), true});
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

  void read_tables(const std::string& kind, const toml::node& node, std::vector<Table>& tables) {
    const toml::array* const list = node.as_array();
    if (list == nullptr || !(list->empty() || list->is_homogeneous(toml::node_type::table))) {
      layer_.errors.push_back(origin(node.source()).place + ": " + kind + "s are written as [[" +
                              kind + "]] tables");
      return;
    }
    for (const toml::node& table : *list) {
      Table& read = tables.emplace_back(Table{origin(table.source()), {}});
      for (const auto& [key, value] : *table.as_table()) {
        read.fields.emplace_back(std::string(key.str()), value_of(value));
      }
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
  layer.folder = directory;
  TomlReader reader(layer, shown, directory);
  const toml::parse_result result = toml::parse(text, shown);
  if (result) {
    reader.read(result.table());
  } else {
    layer.malformed = shown + ":" + std::to_string(result.error().source().begin.line) +
                      ": not TOML: " + std::string(result.error().description());
    layer.warnings.push_back(layer.malformed + "; the whole file is ignored");
  }
  return layer;
}

}  // namespace ioweave::config
