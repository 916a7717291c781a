#include "cli/config_text.hpp"

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "cli/format.hpp"
#include "stats/glob.hpp"

namespace ioweave::cli {
namespace {

std::string policy_name(stats::RunPolicy policy) {
  return std::string(stats::kRunPolicyNames[static_cast<size_t>(policy)]);
}

std::string quoted(const std::string& text) {
  return "'" + text + "'";
}

std::string values_of(const Setting& setting) {
  switch (setting.type) {
    case Setting::Type::choice: {
      std::string text;
      for (const std::string_view choice : setting.choices) {
        text += (text.empty() ? "" : ", ") + std::string(choice);
      }
      return text;
    }
    case Setting::Type::size:
      return size_text(setting.least) + " to " + size_text(setting.most);
    case Setting::Type::flag:
      return "true, false";
    case Setting::Type::text:
      break;
  }
  return "a path";
}

}  // namespace

std::string show_text(const Resolved& resolved) {
  Table table;
  table.row({"setting", "value", "from"});
  for (const Setting& each : settings()) {
    const Resolved::Value& value = resolved[each.key];
    table.row({std::string(each.name), value.text.empty() ? "''" : value.text,
               value.origin.place + (value.locked ? " (locked)" : "")});
  }
  std::string text = table.text();
  if (resolved.rules.empty()) return text;
  Table rules;
  rules.row({"rule", "policy", "from"});
  for (const ResolvedRule& rule : resolved.rules) {
    rules.row({rule.glob, policy_name(rule.policy), rule.origin.place});
  }
  return text + "\n" + rules.text();
}

std::string explain_text(const Resolved& resolved, const std::string& path) {
  std::string winner;
  std::string others;
  for (const ResolvedRule& rule : resolved.rules) {
    if (!stats::glob_matches(rule.glob, path)) continue;
    const std::string told = "rule " + quoted(rule.glob) + ", " + rule.origin.place;
    if (winner.empty()) {
      winner = policy_name(rule.policy) + "\n  by " + told + "\n";
    } else {
      others +=
          "  not by " + told + " (" + policy_name(rule.policy) + "): an earlier one matches\n";
    }
  }
  const Resolved::Value& policy = resolved[Key::policy];
  const std::string told = "the policy of files without a rule, " + policy.origin.place;
  if (winner.empty()) return path + ": " + policy.text + "\n  by " + told + "\n";
  others += "  not by " + told + " (" + policy.text + ")\n";
  return path + ": " + winner + others;
}

std::string settings_list() {
  std::string text =
      "| setting | values | default | option | variable | meaning |\n|---|---|---|---|---|---|\n";
  for (const Setting& each : settings()) {
    const std::string otherwise =
        each.otherwise.empty() ? "" : "`" + std::string(each.otherwise) + "`";
    text += "| `" + std::string(each.name) + "` | " + values_of(each) + " | " + otherwise + " | `" +
            std::string(each.option) + "` | `" + std::string(each.variable) + "` | " +
            std::string(each.meaning) + " |\n";
  }
  return text;
}

std::string absolute_path(const std::string& path, const std::string& directory) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), &free);
  if (real) return real.get();
  return (std::filesystem::path(directory) / path).lexically_normal().string();
}

}  // namespace ioweave::cli
