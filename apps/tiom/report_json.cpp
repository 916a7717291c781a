#include "report_json.hpp"

#include "cell_json.hpp"
#include "report.hpp"

namespace tiom {
namespace {

Json to_json(const Quartiles& values) {
  return {{"first_quartile", values.first},
          {"median", values.median},
          {"third_quartile", values.third}};
}

/// The variant's entry, with what is derived from its runs.
void add_summary(Json& json, const CellResult& cell, const VariantResult& variant, unsigned cores) {
  const VariantSummary summary = summary_of(cell, variant, cores);
  json["mb_per_s"] = to_json(summary.mb_per_s);
  json["seconds"] = to_json(summary.seconds);
  json["bound_seconds"] = {{"compute", summary.bound.compute_s},
                           {"device", summary.bound.device_s}};
  json["bound_by"] = summary.bound.by_device() ? "device" : "compute";
  json["near_bound"] = summary.near_bound;
  json["limited"] = summary.limited;
  if (variant.variant == Variant::standalone) return;
  const std::vector<double> pairs = paired_speed_ups(cell, variant.variant);
  if (pairs.empty()) return;
  json["speed_up"] = to_json(quartiles(pairs));
  json["speed_up"]["pairs"] = pairs;
}

Json cell_json(const CellResult& cell, unsigned cores) {
  Json json = to_json(cell);
  json["bound_mb_per_s"] = bound_bandwidth(cell);
  for (size_t i = 0; i < cell.variants.size(); ++i) {
    add_summary(json["variants"][i], cell, cell.variants[i], cores);
  }
  return json;
}

}  // namespace

Json options_json(const Options& options) {
  Json modes = Json::array();
  for (const Mode mode : options.modes) modes.push_back(mode_name(mode));
  return {{"modes", modes},
          {"block_bytes", options.blocks},
          {"compute_ns", options.computes},
          {"series", options.series},
          {"op", options.write ? "write" : "read"},
          {"pattern", pattern_name(options.pattern)},
          {"direct", options.direct},
          {"bytes", options.bytes},
          {"time_limit_ns", options.time_limit_ns},
          {"repetitions", options.repetitions},
          {"runtime", runtime_name(options.runtime)},
          {"file", options.file}};
}

Json machine_json(const Machine& machine) {
  return {{"host", machine.host},
          {"kernel", machine.kernel},
          {"processor", machine.processor},
          {"cores", machine.cores},
          {"file_system", machine.file_system},
          {"device", machine.device},
          {"load", machine.load}};
}

std::string json_text(const Report& report) {
  Json json = {{"schema", "ioweave-tiom/1"},
               {"date", report.machine.date},
               {"version", iow_version_string()},
               {"command", report.options.command},
               {"machine", machine_json(report.machine)},
               {"options", options_json(report.options)},
               {"runtime", report.runtime},
               {"engine", report.engine},
               {"tasks", report.tasks},
               {"workers", report.workers},
               {"cores", report.cores},
               {"calibration", to_json(report.calibration)},
               {"cells", Json::array()}};
  for (const CellResult& cell : report.cells) {
    json["cells"].push_back(cell_json(cell, report.cores));
  }
  return json.dump(1) + "\n";
}

}  // namespace tiom
