#include <array>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/doctor.hpp"
#include "cli/output.hpp"

namespace ioweave::cli {

std::string findings_json(const std::vector<engine::Finding>& findings) {
  using Json = nlohmann::ordered_json;
  constexpr std::array<const char*, 3> kUsableNames{"yes", "degraded", "no"};
  Json list = Json::array();
  for (const engine::Finding& finding : findings) {
    list.push_back({{"subject", finding.subject},
                    {"usable", kUsableNames[static_cast<size_t>(finding.usable)]},
                    {"errno", finding.error},
                    {"detail", finding.detail},
                    {"cause", finding.cause},
                    {"remedy", finding.remedy}});
  }
  const Json object{{"type", "doctor"},
                    {"schema", "ioweave.doctor/1"},
                    {"exit_code", verdict(findings)},
                    {"findings", std::move(list)}};
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

int doctor_command(Arguments arguments) {
  DoctorOptions options;
  if (const auto code = parse_doctor(arguments, options)) return *code;
  std::vector<engine::Finding> findings =
      options.path.empty() ? engine::probe("") : examine_path(options.path);
  for (engine::Finding& finding : examine_interposer()) findings.push_back(std::move(finding));
  findings.push_back(examine_mpiio());
  print(options.json ? findings_json(findings) : findings_text(findings));
  return verdict(findings);
}

}  // namespace ioweave::cli
