#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/config_text.hpp"
#include "cli/output.hpp"
#include "config/layers.hpp"

namespace ioweave::cli {
namespace {

using Json = nlohmann::ordered_json;

Json rules_json(const std::vector<config::ResolvedRule>& rules) {
  Json list = Json::array();
  for (const config::ResolvedRule& rule : rules) {
    list.push_back({{"glob", rule.glob},
                    {"policy", config::kRunPolicyNames[static_cast<size_t>(rule.policy)]},
                    {"origin", rule.origin.place}});
  }
  return list;
}

std::string text_of(const Json& object) {
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string show_json(const config::Resolved& resolved) {
  Json values = Json::object();
  for (const config::Setting& each : config::settings()) {
    const config::Resolved::Value& value = resolved[each.key];
    values[std::string(each.name)] = {
        {"value", value.text},
        {"layer", config::kLayerNames[static_cast<size_t>(value.origin.layer)]},
        {"origin", value.origin.place},
        {"locked", value.locked}};
  }
  return text_of({{"type", "config"},
                  {"schema", "ioweave.config/1"},
                  {"settings", std::move(values)},
                  {"rules", rules_json(resolved.rules)},
                  {"warnings", resolved.warnings}});
}

/// Lists the rules that match, the one that decides first. If the list is empty, `default` decides.
std::string explain_json(const config::Resolved& resolved, const std::string& path) {
  const Explanation explanation = explain(resolved, path);
  const config::Resolved::Value& otherwise = resolved[config::Key::policy];
  return text_of({{"type", "explanation"},
                  {"schema", "ioweave.config/1"},
                  {"path", explanation.path},
                  {"policy", config::kRunPolicyNames[static_cast<size_t>(explanation.policy)]},
                  {"rules", rules_json(explanation.matches)},
                  {"default", {{"policy", otherwise.text}, {"origin", otherwise.origin.place}}},
                  {"warnings", resolved.warnings}});
}

}  // namespace

int config_command(Arguments arguments) {
  ConfigOptions options;
  if (const auto code = parse_config(arguments, options)) return *code;
  if (options.action == ConfigOptions::Action::list) {
    print(settings_list());
    return 0;
  }
  const config::ConfigPlaces places = config::config_places();
  const config::Resolved resolved = config::resolve(config::all_layers({}, environ, places));
  if (!options.json) {
    for (const std::string& warning : resolved.warnings) complain("warning: " + warning);
  }
  if (options.action == ConfigOptions::Action::explain) {
    const std::string path = absolute_path(options.path, places.working_directory);
    print(options.json ? explain_json(resolved, path) : explain_text(resolved, path));
  } else {
    print(options.json ? show_json(resolved) : show_text(resolved));
  }
  return 0;
}

}  // namespace ioweave::cli
