#include <algorithm>
#include <string>

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/config_text.hpp"
#include "cli/layers.hpp"
#include "cli/output.hpp"

namespace ioweave::cli {
namespace {

std::string show_json(const Resolved& resolved) {
  using Json = nlohmann::ordered_json;
  Json values = Json::object();
  for (const Setting& each : settings()) {
    const Resolved::Value& value = resolved[each.key];
    values[std::string(each.name)] = {
        {"value", value.text},
        {"layer", kLayerNames[static_cast<size_t>(value.origin.layer)]},
        {"origin", value.origin.place},
        {"locked", value.locked}};
  }
  Json rules = Json::array();
  for (const ResolvedRule& rule : resolved.rules) {
    rules.push_back({{"glob", rule.glob},
                     {"policy", stats::kRunPolicyNames[static_cast<size_t>(rule.policy)]},
                     {"origin", rule.origin.place}});
  }
  const Json object{{"type", "config"},
                    {"schema", "ioweave.config/1"},
                    {"settings", std::move(values)},
                    {"rules", std::move(rules)},
                    {"warnings", resolved.warnings}};
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

int config_command(Arguments arguments) {
  ConfigOptions options;
  if (const auto code = parse_config(arguments, options)) return *code;
  if (options.action == ConfigOptions::Action::list) {
    print(settings_list());
    return 0;
  }
  const ConfigPlaces places = config_places();
  const Resolved resolved =
      resolve(all_layers(Layer{LayerKind::command_line, {}, {}, {}, {}}, environ, places));
  if (!options.json) {
    for (const std::string& warning : resolved.warnings) complain("warning: " + warning);
  }
  if (options.action == ConfigOptions::Action::explain) {
    print(explain_text(resolved, absolute_path(options.path, places.working_directory)));
  } else {
    print(options.json ? show_json(resolved) : show_text(resolved));
  }
  return 0;
}

}  // namespace ioweave::cli
