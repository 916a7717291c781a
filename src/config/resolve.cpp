// The resolving half of settings.hpp: from layers, as read, to the values of a run.

#include <algorithm>
#include <cstring>

#include "config/description.hpp"
#include "config/names.hpp"

namespace ioweave::config {
namespace {

std::string at(const Origin& origin) {
  return origin.place + ": ";
}

/// The site's lock on a name, or null.
const Entry* lock_on(std::span<const Layer> layers, std::string_view name) {
  for (const Layer& layer : layers) {
    const auto found = std::ranges::find(layer.locks, name, &Entry::name);
    if (found != layer.locks.end()) return &*found;
  }
  return nullptr;
}

void warn_of_unknown_names(const Layer& layer, std::vector<std::string>& warnings) {
  const auto check = [&](const Entry& entry, bool may_be_rule) {
    if (setting_named(entry.name) != nullptr || (may_be_rule && entry.name == "rule")) return;
    warnings.push_back(unknown_name(entry));
  };
  for (const Entry& entry : layer.entries) check(entry, false);
  for (const Entry& lock : layer.locks) check(lock, true);
}

/// Offers what a layer says about one setting to `value`, which keeps the first good offer. A
/// later layer is still checked: its mistakes would otherwise surface one by one.
void offer(const Setting& setting, const Layer& layer, bool taken_away, const Entry* lock,
           Resolved::Value& value, std::vector<std::string>& warnings) {
  for (const Entry& entry : layer.entries) {
    if (entry.name != setting.name) continue;
    std::string why;
    std::optional<std::string> good = canonical(setting, entry.value, why);
    if (!good) {
      warnings.push_back(at(entry.origin) + why);
    } else if (taken_away) {
      warnings.push_back(at(entry.origin) + entry.name + " is ignored: the site locks it (" +
                         lock->origin.place + ")");
    } else if (value.origin.layer == LayerKind::builtin) {
      value.text = std::move(*good);
      value.origin = entry.origin;
    }
  }
}

/// Quotes what a glob would take for a wildcard.
std::string escaped(std::string_view directory) {
  std::string glob;
  for (const char c : directory) {
    if (std::strchr("*?[\\", c) != nullptr) glob += '\\';
    glob += c;
  }
  return glob;
}

/// "*.h5" is meant in any directory, "data/*.h5" in the rule's own.
std::string absolute_glob(const RuleEntry& rule) {
  if (rule.glob.starts_with('/')) return rule.glob;
  const bool anywhere = rule.glob.find('/') == std::string::npos || rule.directory.empty();
  if (anywhere) return rule.glob.starts_with("**") ? "/" + rule.glob : "/**/" + rule.glob;
  const std::string_view relative = std::string_view(rule.glob).starts_with("./")
                                        ? std::string_view(rule.glob).substr(2)
                                        : std::string_view(rule.glob);
  const std::string directory = rule.directory == "/" ? "" : escaped(rule.directory);
  return directory + "/" + std::string(relative);
}

void add_rule(const RuleEntry& rule, Resolved& resolved) {
  std::string why;
  const std::optional<std::string> policy = canonical(setting(Key::policy), rule.policy, why);
  if (!policy) {
    resolved.warnings.push_back(at(rule.origin) + "rule '" + rule.glob + "' is ignored: " + why);
    return;
  }
  std::string glob = absolute_glob(rule);
  if (rule.glob.empty() || glob.size() >= sizeof(FileRule::glob)) {
    const std::string limit = std::to_string(sizeof(FileRule::glob) - 1);
    resolved.warnings.push_back(at(rule.origin) + "rule '" + rule.glob +
                                "' is ignored: a glob has 1 to " + limit +
                                " characters with its directory");
    return;
  }
  const auto index = index_of(kRunPolicyNames, *policy);
  resolved.rules.push_back({std::move(glob), static_cast<RunPolicy>(index), rule.origin});
}

void resolve_rules(std::span<const Layer> layers, Resolved& resolved) {
  const Entry* const lock = lock_on(layers, "rule");
  for (const Layer& layer : layers) {
    for (const RuleEntry& rule : layer.rules) {
      if (lock != nullptr && layer.kind != LayerKind::site) {
        resolved.warnings.push_back(at(rule.origin) + "rule '" + rule.glob +
                                    "' is ignored: the site locks rules (" + lock->origin.place +
                                    ")");
      } else {
        add_rule(rule, resolved);
      }
    }
  }
  constexpr size_t kMost = RunConfig::kMaxRules;
  if (resolved.rules.size() > kMost) {
    resolved.warnings.push_back(at(resolved.rules[kMost].origin) + "only the first " +
                                std::to_string(kMost) + " rules are used; this one and " +
                                std::to_string(resolved.rules.size() - kMost - 1) +
                                " more are ignored");
    resolved.rules.resize(kMost);
  }
}

/// Raises `key` to at least `floor`, which another setting gives.
void raise_to(Key key, Key floor, Resolved& resolved) {
  if (resolved.size(key) >= resolved.size(floor)) return;
  Resolved::Value& value = resolved.values[static_cast<size_t>(key)];
  const Resolved::Value& least = resolved[floor];
  // Of two defaults and a value the value is meant: no warning where the user said only one.
  if (value.origin.layer != LayerKind::builtin) {
    resolved.warnings.push_back(at(value.origin) + std::string(setting(key).name) + " " +
                                value.text + " is below " + std::string(setting(floor).name) + " " +
                                least.text + "; " + least.text + " is used");
  }
  value.text = least.text;
  value.origin = least.origin;
}

/// A mode from a variable or file, and another engine than the one that has modes.
void drop_mode_of_another_engine(Resolved& resolved) {
  const Resolved::Value& engine = resolved[Key::engine];
  Resolved::Value& mode = resolved.values[static_cast<size_t>(Key::mode)];
  if (engine.text == "uring" || mode.text == "plain") return;
  resolved.warnings.push_back(at(mode.origin) + "mode '" + mode.text +
                              "' is ignored: it belongs to engine 'uring', and engine is '" +
                              engine.text + "' (" + engine.origin.place + ")");
  mode.text = "plain";
  mode.origin = engine.origin;
}

bool uses_engine(RunPolicy policy) {
  return policy == RunPolicy::sync || policy == RunPolicy::writes || policy == RunPolicy::automatic;
}

/// An option that changes nothing is worth a word; a file may say it for other runs.
void warn_of_unused_engine(Resolved& resolved) {
  const bool is_used = uses_engine(resolved.policy()) ||
                       std::ranges::any_of(resolved.rules, &uses_engine, &ResolvedRule::policy);
  if (is_used) return;
  const auto is_option = [&](Key key) {
    return resolved[key].origin.layer == LayerKind::command_line;
  };
  const bool engine = is_option(Key::engine);
  const bool mode = is_option(Key::mode);
  if (!engine && !mode) return;
  const std::string subject = engine && mode ? "--engine and --mode have"
                              : engine       ? "--engine has"
                                             : "--mode has";
  resolved.warnings.push_back(subject + " no effect: policy '" + resolved[Key::policy].text +
                              "' uses no engine, only 'auto', 'sync' and 'writes' do");
}

}  // namespace

std::string unknown_name(const Entry& entry) {
  const auto former = std::ranges::find(former_settings(), entry.name, &FormerSetting::name);
  if (former != former_settings().end()) return at(entry.origin) + farewell(*former);
  const std::string_view nearest = nearest_setting(entry.name);
  std::string text = at(entry.origin) + "unknown setting '" + entry.name + "' is ignored";
  if (!nearest.empty()) text += "; did you mean '" + std::string(nearest) + "'?";
  return text;
}

uint64_t Resolved::size(Key key) const noexcept {
  return parse_size((*this)[key].text).value_or(0);
}

bool Resolved::flag(Key key) const noexcept {
  return (*this)[key].text == "true";
}

RunPolicy Resolved::policy() const noexcept {
  return static_cast<RunPolicy>(index_of(kRunPolicyNames, (*this)[Key::policy].text));
}

Resolved resolve(std::span<const Layer> layers) {
  Resolved resolved;
  for (const Layer& layer : layers) {
    resolved.warnings.insert(resolved.warnings.end(), layer.warnings.begin(), layer.warnings.end());
    warn_of_unknown_names(layer, resolved.warnings);
  }
  for (const Setting& each : settings()) {
    Resolved::Value& value = resolved.values[static_cast<size_t>(each.key)];
    const Entry* const lock = lock_on(layers, each.name);
    value = {std::string(each.otherwise), {LayerKind::builtin, "default"}, lock != nullptr};
    for (const Layer& layer : layers) {
      const bool taken_away = lock != nullptr && layer.kind != LayerKind::site;
      offer(each, layer, taken_away, lock, value, resolved.warnings);
    }
  }
  raise_to(Key::max_lookahead, Key::lookahead, resolved);
  drop_mode_of_another_engine(resolved);
  resolve_rules(layers, resolved);
  warn_of_unused_engine(resolved);
  const std::vector<std::string> errors = describe(layers).errors;
  resolved.warnings.insert(resolved.warnings.end(), errors.begin(), errors.end());
  return resolved;
}

RunConfig run_config(const Resolved& resolved) {
  const auto chosen = [&](Key key, const auto& names) {
    return static_cast<uint32_t>(index_of(names, resolved[key].text));
  };
  RunConfig config;
  config.policy = resolved.policy();
  config.engine = chosen(Key::engine, kEngineNames);
  config.engine_mode = chosen(Key::mode, kEngineModeNames);
  config.lookahead_bytes = resolved.size(Key::lookahead);
  config.max_lookahead_bytes = resolved.size(Key::max_lookahead);
  config.holds_direct_writes = resolved.flag(Key::hold_direct_writes) ? 1 : 0;
  config.early_writeback =
      static_cast<EarlyWriteback>(chosen(Key::early_writeback, kEarlyWritebackNames));
  for (const ResolvedRule& rule : resolved.rules) {
    FileRule& slot = config.rule[config.rules++];
    std::memcpy(slot.glob, rule.glob.c_str(), rule.glob.size() + 1);
    slot.policy = rule.policy;
  }
  return config;
}

}  // namespace ioweave::config
