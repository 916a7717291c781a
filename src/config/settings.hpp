#pragma once

// The settings of a run: one table says for each its name, type, bounds, default, variable and
// meaning, and drives everything that deals with settings: parsing, `ioweave config show|list`,
// warnings and docs/configuration.md.
//
// A value comes from the first layer that gives a good one:
//
//   command line > IOWEAVE_* > ./ioweave.toml > user's ioweave.toml > site's > default
//
// A site may lock settings: then its value wins. Rules for files are not settings but a list;
// those of a higher layer are tried first. Nothing in a file or variable can stop a program from
// being run: what is bad there becomes a warning that names the place and the nearest good name.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/run_config.hpp"
#include "config/value.hpp"

namespace ioweave::config {

enum class Key : uint8_t {
  policy,
  engine,
  mode,
  lookahead,
  max_lookahead,
  early_writeback,
  hold_direct_writes,
  output,
  quiet,
};
inline constexpr size_t kKeys = 9;

struct Setting {
  enum class Type : uint8_t { choice, size, text, flag };

  Key key;
  Type type;
  std::string_view name;      ///< in ioweave.toml
  std::string_view variable;  ///< in the environment
  std::string_view option;    ///< on the command line
  std::string_view otherwise;
  std::string_view meaning;
  std::span<const std::string_view> choices;  ///< of Type::choice
  uint64_t least = 0;                         ///< of Type::size, in bytes
  uint64_t most = 0;
};

/// The table, in the order of Key.
[[nodiscard]] std::span<const Setting, kKeys> settings() noexcept;
[[nodiscard]] const Setting& setting(Key key) noexcept;
[[nodiscard]] const Setting* setting_named(std::string_view name) noexcept;

/// A setting of an earlier version, which is ignored wherever it is still given.
struct FormerSetting {
  std::string_view name;
  std::string_view variable;
  std::string_view option;
  std::string_view reason;  ///< why it went, as a clause
};
[[nodiscard]] std::span<const FormerSetting> former_settings() noexcept;
/// "'NAME' is no longer a setting: REASON".
[[nodiscard]] std::string farewell(const FormerSetting& setting);

/// The nearest of the settings' names (and `device`, `node`, `rule`, `lock` of files), or empty.
[[nodiscard]] std::string_view nearest_setting(std::string_view name);

/// Variable that holds rules, as in --rule, separated by ';'.
inline constexpr std::string_view kRulesVariable = "IOWEAVE_RULES";

/// A number of bytes: digits and an optional k, m, g or t (1024-fold; "64m", "64M", "64MiB").
[[nodiscard]] std::optional<uint64_t> parse_size(std::string_view text) noexcept;

/// The shortest text that parse_size reads back: "64m", "1536k", "1000".
[[nodiscard]] std::string size_text(uint64_t bytes);

/// The canonical form of a value, or nothing with, in `why`, a clause that says what is wrong
/// ("'overlp' is not a policy; did you mean 'overlap'?").
[[nodiscard]] std::optional<std::string> canonical(const Setting& setting, std::string_view value,
                                                   std::string& why);

// ---- Layers -------------------------------------------------------------------------------------

enum class LayerKind : uint8_t { command_line, environment, directory, user, site, builtin };
inline constexpr std::array<std::string_view, 6> kLayerNames{
    "command line", "environment", "directory", "user", "site", "default"};

/// Where something was said, for people: "--policy", "IOWEAVE_POLICY", "./ioweave.toml:3".
struct Origin {
  LayerKind layer = LayerKind::builtin;
  std::string place;
};

struct Entry {
  std::string name;
  std::string value;
  Origin origin;
  bool is_table = false;  ///< or a list: no setting's value
};

struct RuleEntry {
  std::string glob;    ///< as written
  std::string policy;  ///< as written
  Origin origin;
  std::string directory;  ///< relative globs start here; empty: they match in any directory
};

/// A [[device]] or [[node]] as written; description.hpp says what it means.
struct Table {
  Origin origin;
  Fields fields;
};

/// What one source of settings says, before anything is checked.
struct Layer {
  LayerKind kind = LayerKind::builtin;
  std::vector<Entry> entries;
  std::vector<RuleEntry> rules;
  std::vector<Entry> locks;           ///< site only: `name` is locked
  std::vector<std::string> warnings;  ///< met while reading it

  // Of a file.
  std::string folder;  ///< where relative paths of its devices start
  std::vector<Table> devices;
  std::vector<Table> nodes;
  std::vector<std::string> errors;  ///< met while reading devices and nodes
  std::string malformed;            ///< why it is no TOML, which `warnings` says, too
  int error = 0;  ///< why it could not be read, as errno: of an absent one no warning says so
};

/// What to say of an entry whose name is no setting's, with its place.
[[nodiscard]] std::string unknown_name(const Entry& entry);

/// "GLOB=policy": split at the last '='. Nothing where there is none.
[[nodiscard]] std::optional<RuleEntry> split_rule(std::string_view text);

// ---- Resolution ---------------------------------------------------------------------------------

struct ResolvedRule {
  std::string glob;  ///< absolute
  RunPolicy policy = RunPolicy::automatic;
  Origin origin;
};

struct Resolved {
  struct Value {
    std::string text;
    Origin origin;
    bool locked = false;
  };

  std::array<Value, kKeys> values;
  std::vector<ResolvedRule> rules;  ///< the first that matches wins
  std::vector<std::string> warnings;

  [[nodiscard]] const Value& operator[](Key key) const noexcept {
    return values[static_cast<size_t>(key)];
  }
  [[nodiscard]] uint64_t size(Key key) const noexcept;
  [[nodiscard]] bool flag(Key key) const noexcept;
  [[nodiscard]] RunPolicy policy() const noexcept;
};

/// Resolves layers, highest first. Never fails: see above.
[[nodiscard]] Resolved resolve(std::span<const Layer> layers);

/// The configuration that the interposer maps.
[[nodiscard]] RunConfig run_config(const Resolved& resolved);

}  // namespace ioweave::config
