#include "cli/config_text.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "cli/format.hpp"
#include "config/glob.hpp"

namespace ioweave::cli {
namespace {

std::string policy_name(config::RunPolicy policy) {
  return std::string(config::kRunPolicyNames[static_cast<size_t>(policy)]);
}

std::string quoted(const std::string& text) {
  return "'" + text + "'";
}

std::string values_of(const config::Setting& setting) {
  switch (setting.type) {
    case config::Setting::Type::choice: {
      std::string text;
      for (const std::string_view choice : setting.choices) {
        text += (text.empty() ? "" : ", ") + std::string(choice);
      }
      return text;
    }
    case config::Setting::Type::size:
      return config::size_text(setting.least) + " to " + config::size_text(setting.most);
    case config::Setting::Type::flag:
      return "true, false";
    case config::Setting::Type::text:
      break;
  }
  return "a path";
}

}  // namespace

std::string show_text(const config::Resolved& resolved) {
  Table table;
  table.row({"setting", "value", "from"});
  for (const config::Setting& each : config::settings()) {
    const config::Resolved::Value& value = resolved[each.key];
    table.row({std::string(each.name), value.text.empty() ? "''" : value.text,
               value.origin.place + (value.locked ? " (locked)" : "")});
  }
  std::string text = table.text();
  if (resolved.rules.empty()) return text;
  Table rules;
  rules.row({"rule", "policy", "from"});
  for (const config::ResolvedRule& rule : resolved.rules) {
    rules.row({rule.glob, policy_name(rule.policy), rule.origin.place});
  }
  return text + "\n" + rules.text();
}

Explanation explain(const config::Resolved& resolved, const std::string& path) {
  Explanation explanation{path, resolved.policy(), {}};
  std::ranges::copy_if(
      resolved.rules, std::back_inserter(explanation.matches),
      [&](const config::ResolvedRule& rule) { return config::glob_matches(rule.glob, path); });
  if (!explanation.matches.empty()) explanation.policy = explanation.matches.front().policy;
  return explanation;
}

std::string explain_text(const config::Resolved& resolved, const std::string& path) {
  const Explanation explanation = explain(resolved, path);
  std::string text = path + ": " + policy_name(explanation.policy) + "\n";
  bool has_winner = false;
  for (const config::ResolvedRule& rule : explanation.matches) {
    const std::string told = "by rule " + quoted(rule.glob) + ", " + rule.origin.place;
    text += has_winner
                ? "  not " + told + " (" + policy_name(rule.policy) + "): an earlier one matches\n"
                : "  " + told + "\n";
    has_winner = true;
  }
  const config::Resolved::Value& policy = resolved[config::Key::policy];
  const std::string told = "by the policy of files without a rule, " + policy.origin.place;
  return text + (has_winner ? "  not " + told + " (" + policy.text + ")\n" : "  " + told + "\n");
}

std::string settings_list() {
  std::string text =
      "| setting | values | default | option | variable | meaning |\n|---|---|---|---|---|---|\n";
  for (const config::Setting& each : config::settings()) {
    const std::string otherwise =
        each.otherwise.empty() ? "" : "`" + std::string(each.otherwise) + "`";
    text += "| `" + std::string(each.name) + "` | " + values_of(each) + " | " + otherwise + " | `" +
            std::string(each.option) + "` | `" + std::string(each.variable) + "` | " +
            std::string(each.meaning) + " |\n";
  }
  return text;
}

std::string absolute_path(const std::string& path, const std::string& directory) {
  const std::filesystem::path whole = std::filesystem::path(directory) / path;
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::weakly_canonical(whole, error);
  return (error ? whole.lexically_normal() : resolved).string();
}

}  // namespace ioweave::cli
