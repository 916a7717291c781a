#include "config/settings.hpp"

#include <algorithm>
#include <charconv>

#include "base/nearest_name.hpp"
#include "config/names.hpp"

namespace ioweave::config {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kGiB = 1024 * kMiB;
constexpr uint64_t kTiB = 1024 * kGiB;

constexpr std::array<std::string_view, 4> kFlagNames{"true", "false", "1", "0"};

constexpr Setting choice_setting(Key key, std::string_view name, std::string_view variable,
                                 std::string_view option, std::span<const std::string_view> choices,
                                 std::string_view otherwise, std::string_view meaning) {
  return {key, Setting::Type::choice, name, variable, option, otherwise, meaning, choices, 0, 0};
}

struct Bounds {
  uint64_t least;
  uint64_t most;
};

constexpr Setting size_setting(Key key, std::string_view name, std::string_view variable,
                               std::string_view option, Bounds bounds, std::string_view otherwise,
                               std::string_view meaning) {
  return {key, Setting::Type::size, name,       variable, option, otherwise, meaning,
          {},  bounds.least,        bounds.most};
}

constexpr Setting other_setting(Key key, Setting::Type type, std::string_view name,
                                std::string_view variable, std::string_view option,
                                std::string_view otherwise, std::string_view meaning) {
  return {key, type, name, variable, option, otherwise, meaning, {}, 0, 0};
}

constexpr std::array<Setting, kKeys> kSettings{
    choice_setting(
        Key::policy, "policy", "IOWEAVE_POLICY", "--policy", kRunPolicyNames, "auto",
        "What to do with a program's calls on files: 'auto' brings what is read next into the page "
        "cache meanwhile, and finds out the fastest way for calls with O_DIRECT; 'overlap' leaves "
        "these alone, too; 'off' only observes; 'sync' sends reads and writes with O_DIRECT at an "
        "offset through the engine and waits, 'writes' only writes; 'behind' holds writes back and "
        "joins them."),
    choice_setting(Key::engine, "engine", "IOWEAVE_ENGINE", "--engine", kEngineNames, "uring",
                   "What moves the bytes in policies 'sync' and 'writes', and in 'auto' where that "
                   "is faster. Where it is not available, the next that is: uring, threads."),
    choice_setting(
        Key::mode, "mode", "IOWEAVE_MODE", "--mode", kEngineModeNames, "plain",
        "Mode of the engine 'uring', which alone has modes: 'iopoll' polls the device and "
        "needs a driver with poll queues; 'sqpoll' is 'plain' in programs, whose "
        "descriptors its thread would hold on to."),
    size_setting(Key::lookahead, "lookahead", "IOWEAVE_LOOKAHEAD", "--lookahead", {4 * kKiB, kTiB},
                 "128m", "Most bytes to be ahead of a reader, unless one read is larger."),
    size_setting(Key::max_lookahead, "max_lookahead", "IOWEAVE_MAX_LOOKAHEAD", "--max-lookahead",
                 {4 * kKiB, 16 * kTiB}, "1g",
                 "Most bytes to be ahead, over all files of the run; never more than a quarter "
                 "of the memory that is available on the machine and in the memory cgroups of the "
                 "command."),
    choice_setting(
        Key::early_writeback, "early_writeback", "IOWEAVE_EARLY_WRITEBACK", "--early-writeback",
        kEarlyWritebackNames, "auto",
        "Under policies 'auto' and 'overlap', whether the kernel is to write files before the "
        "program syncs them: 'auto' where the program has synced files of the same folder before "
        "and it pays, 'always' each file from its beginning, 'never'."),
    other_setting(Key::hold_direct_writes, Setting::Type::flag, "hold_direct_writes",
                  "IOWEAVE_HOLD_DIRECT_WRITES", "--hold-direct-writes", "false",
                  "Under policy 'auto', hold small writes with O_DIRECT back, too, where that is "
                  "faster. Other processes may then see them late, and in another order."),
    other_setting(Key::output, Setting::Type::text, "output", "IOWEAVE_OUTPUT", "--output", "",
                  "Run file to write; empty: none."),
    other_setting(Key::quiet, Setting::Type::flag, "quiet", "IOWEAVE_QUIET", "--quiet", "false",
                  "Print neither summary nor warnings."),
};

constexpr std::array<FormerSetting, 2> kFormerSettings{{
    {"slice", "IOWEAVE_SLICE", "--slice",
     "requests have the size of the device's read-ahead window"},
    {"schedule", "IOWEAVE_SCHEDULE", "--schedule",
     "the kernel orders what is read ahead and the program's own requests"},
}};

constexpr bool table_is_in_order() {
  for (size_t i = 0; i < kKeys; ++i) {
    if (static_cast<size_t>(kSettings[i].key) != i) return false;
  }
  return true;
}
static_assert(table_is_in_order());

std::string quoted(std::string_view text) {
  return "'" + std::string(text) + "'";
}

std::string joined(std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) {
    text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

std::optional<std::string> canonical_choice(const Setting& setting, std::string_view value,
                                            std::string& why) {
  if (std::ranges::find(setting.choices, value) != setting.choices.end()) return std::string(value);
  const std::string_view nearest = nearest_name(value, setting.choices);
  why = setting.name;
  why += " " + quoted(value) + " is not known";
  why += nearest.empty() ? "; it is one of " + joined(setting.choices)
                         : "; did you mean " + quoted(nearest) + "?";
  return std::nullopt;
}

std::optional<std::string> canonical_size(const Setting& setting, std::string_view value,
                                          std::string& why) {
  const std::optional<uint64_t> bytes = parse_size(value);
  if (bytes && *bytes >= setting.least && *bytes <= setting.most) return size_text(*bytes);
  why = setting.name;
  why += " " + quoted(value);
  why += bytes ? " is out of bounds" : " is not a size such as 64k, 1m or 2g";
  why += "; it is " + size_text(setting.least) + " to " + size_text(setting.most);
  return std::nullopt;
}

std::optional<std::string> canonical_flag(const Setting& setting, std::string_view value,
                                          std::string& why) {
  if (value == "true" || value == "1") return "true";
  if (value == "false" || value == "0") return "false";
  why = setting.name;
  why += " " + quoted(value) + " is not one of " + joined(kFlagNames);
  return std::nullopt;
}

std::optional<std::string> canonical_path(const Setting& setting, std::string_view value,
                                          std::string& why) {
  if (value != "-") return std::string(value);
  why = setting.name;
  why += " '-' is no file; --json prints the report on standard error, and ./- is a file";
  return std::nullopt;
}

}  // namespace

std::span<const Setting, kKeys> settings() noexcept {
  return kSettings;
}

const Setting& setting(Key key) noexcept {
  return kSettings[static_cast<size_t>(key)];
}

const Setting* setting_named(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(kSettings, name, &Setting::name);
  return found == kSettings.end() ? nullptr : found;
}

std::span<const FormerSetting> former_settings() noexcept {
  return kFormerSettings;
}

std::string farewell(const FormerSetting& setting) {
  return quoted(setting.name) + " is no longer a setting: " + std::string(setting.reason);
}

std::string_view nearest_setting(std::string_view name) {
  std::vector<std::string_view> names{"device", "node", "rule", "lock"};
  for (const Setting& each : kSettings) names.push_back(each.name);
  return nearest_name(name, names);
}

std::optional<uint64_t> parse_size(std::string_view text) noexcept {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{}) return std::nullopt;
  std::string_view unit(rest, static_cast<size_t>(end - rest));
  if (unit.empty() || unit == "B") return value;

  constexpr std::string_view kUnits = "kmgt";
  const size_t power = kUnits.find(static_cast<char>(unit[0] | 0x20));
  if (power == std::string_view::npos) return std::nullopt;
  unit.remove_prefix(1);
  if (!unit.empty() && unit != "i" && unit != "iB") return std::nullopt;
  const auto shift = static_cast<unsigned>(10 * (power + 1));
  if (value > (UINT64_MAX >> shift)) return std::nullopt;
  return value << shift;
}

std::string size_text(uint64_t bytes) {
  constexpr std::string_view kUnits = "tgmk";
  unsigned shift = 40;
  for (const char unit : kUnits) {
    if (bytes != 0 && bytes % (uint64_t{1} << shift) == 0) {
      return std::to_string(bytes >> shift) + unit;
    }
    shift -= 10;
  }
  return std::to_string(bytes);
}

std::optional<std::string> canonical(const Setting& setting, std::string_view value,
                                     std::string& why) {
  switch (setting.type) {
    case Setting::Type::choice:
      return canonical_choice(setting, value, why);
    case Setting::Type::size:
      return canonical_size(setting, value, why);
    case Setting::Type::flag:
      return canonical_flag(setting, value, why);
    case Setting::Type::text:
      return canonical_path(setting, value, why);
  }
  return std::nullopt;
}

std::optional<RuleEntry> split_rule(std::string_view text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0) return std::nullopt;
  RuleEntry rule;
  rule.glob = text.substr(0, equals);
  rule.policy = text.substr(equals + 1);
  return rule;
}

}  // namespace ioweave::config
