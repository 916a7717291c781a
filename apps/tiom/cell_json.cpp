#include "cell_json.hpp"

#include <initializer_list>
#include <stdexcept>

namespace tiom {
namespace {

Json to_json(const RunFigures& run) {
  return {{"seconds", run.seconds}, {"bytes", run.bytes},       {"mb_per_s", run.mb_per_s()},
          {"tasks", run.tasks},     {"computes", run.computes}, {"limited", run.limited}};
}

RunFigures run_from_json(const Json& json) {
  RunFigures run;
  run.seconds = json.at("seconds").get<double>();
  run.bytes = json.at("bytes").get<uint64_t>();
  run.tasks = json.at("tasks").get<uint64_t>();
  run.computes = json.at("computes").get<uint64_t>();
  run.limited = json.at("limited").get<bool>();
  return run;
}

template <typename Value>
Value named(const Json& json, std::string_view (*name_of)(Value),
            std::initializer_list<Value> values) {
  const std::string name = json.get<std::string>();
  for (const Value value : values) {
    if (name_of(value) == name) return value;
  }
  throw std::runtime_error("unknown word '" + name + "'");
}

}  // namespace

Json to_json(const CellResult& cell) {
  Json json = {{"mode", mode_name(cell.cell.mode)},
               {"block_bytes", cell.cell.block_bytes},
               {"compute_ns", cell.cell.compute_ns},
               {"device_mb_per_s", cell.probed_mb_per_s},
               {"variants", Json::array()}};
  for (const VariantResult& variant : cell.variants) {
    Json runs = Json::array();
    for (const RunFigures& run : variant.runs) runs.push_back(to_json(run));
    json["variants"].push_back({{"variant", variant_name(variant.variant)}, {"runs", runs}});
  }
  return json;
}

CellResult cell_from_json(const Json& json) {
  CellResult result;
  result.cell.mode =
      named(json.at("mode"), &mode_name, {Mode::mix, Mode::one_to_one, Mode::fjio, Mode::fjc});
  result.cell.block_bytes = json.at("block_bytes").get<uint64_t>();
  result.cell.compute_ns = json.at("compute_ns").get<uint64_t>();
  result.probed_mb_per_s = json.at("device_mb_per_s").get<double>();
  for (const Json& entry : json.at("variants")) {
    VariantResult variant;
    variant.variant = named(entry.at("variant"), &variant_name,
                            {Variant::standalone, Variant::blocking, Variant::nonblocking});
    for (const Json& run : entry.at("runs")) variant.runs.push_back(run_from_json(run));
    if (variant.runs.empty()) throw std::runtime_error("a variant without runs");
    result.variants.push_back(std::move(variant));
  }
  if (result.variants.empty()) throw std::runtime_error("a cell without variants");
  return result;
}

Json to_json(const Calibration& calibration) {
  return {{"threads", calibration.threads},
          {"turns_per_ms", calibration.turns_per_ms},
          {"spread", calibration.spread},
          {"checked_ms", calibration.checked_ms}};
}

Calibration calibration_from_json(const Json& json) {
  Calibration calibration;
  calibration.threads = json.at("threads").get<unsigned>();
  calibration.turns_per_ms = json.at("turns_per_ms").get<double>();
  calibration.spread = json.at("spread").get<double>();
  calibration.checked_ms = json.at("checked_ms").get<double>();
  return calibration;
}

}  // namespace tiom
