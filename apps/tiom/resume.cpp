#include "resume.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "cell_json.hpp"
#include "runtime.hpp"
#include "sweep.hpp"

namespace tiom {
namespace {

constexpr const char* kSchema = "ioweave-tiom-state/1";

template <typename Values, typename Text>
std::string joined(const Values& values, Text text) {
  std::string all;
  for (const auto& value : values) all += (all.empty() ? "" : ",") + std::string(text(value));
  return all;
}

}  // namespace

Identity identity_of(const Options& options) {
  const unsigned workers = options.threads > 0 ? options.threads : usable_cores();
  return {{"--mode", joined(options.modes, mode_name)},
          {"--block", joined(options.blocks, size_text)},
          {"--compute", joined(options.computes, duration_text)},
          {"--series", std::to_string(options.series)},
          {"--op", options.write ? "write" : "read"},
          {"--pattern", std::string(pattern_name(options.pattern))},
          {"--direct", options.direct ? "on" : "off"},
          {"--bytes", size_text(options.bytes)},
          {"--time-limit", duration_text(options.time_limit_ns)},
          {"--repetitions", std::to_string(options.repetitions)},
          {"--threads", std::to_string(workers)},
          {"--runtime", std::string(runtime_name(options.runtime))},
          {"--variant", joined(chosen_variants(options), variant_name)},
          {"--alpi-library", options.alpi_library},
          {"--reaper", options.reap_in_task ? "task" : "thread"},
          {"--file", options.file},
          {"the machine", machine_name()}};
}

std::string difference(const Identity& before, const Identity& now) {
  for (const auto& [name, value] : now) {
    const auto old = std::ranges::find(before, name, &Identity::value_type::first);
    const std::string was = old == before.end() ? "" : old->second;
    if (was == value) continue;
    std::string text = name;
    text.append(" was '").append(was).append("' and is '").append(value).append("'");
    return text;
  }
  return {};
}

StateFile::StateFile(std::string path, Identity identity)
    : path_(std::move(path)), identity_(std::move(identity)) {
  std::ifstream file(path_);
  if (!file) {
    if (errno == ENOENT) return;
    throw std::runtime_error("cannot read '" + path_ + "' (--resume): " + std::strerror(errno));
  }
  try {
    read({std::istreambuf_iterator<char>(file), {}});
  } catch (const UsageError&) {
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error("'" + path_ + "' (--resume) is no state file of this ioweave tiom: " +
                             error.what() + "; name another, or remove it");
  }
}

void StateFile::read(const std::string& text) {
  const Json json = Json::parse(text);
  if (json.at("schema") != kSchema) throw std::runtime_error("its schema is another");
  Identity before;
  for (const auto& [name, value] : json.at("identity").items()) {
    before.emplace_back(name, value.get<std::string>());
  }
  if (const std::string changed = difference(before, identity_); !changed.empty()) {
    throw UsageError("'" + path_ + "' (--resume) holds another sweep: " + changed +
                     "; repeat it as it was, or name another file");
  }
  calibration_ = calibration_from_json(json.at("calibration"));
  for (const Json& cell : json.at("cells")) cells_.push_back(cell_from_json(cell));
}

const CellResult* StateFile::find(const Cell& cell) const {
  const auto found = std::ranges::find(cells_, cell, &CellResult::cell);
  return found == cells_.end() ? nullptr : &*found;
}

void StateFile::add(const CellResult& cell) {
  cells_.push_back(cell);
  Json json = {{"schema", kSchema}, {"identity", Json::object()}};
  for (const auto& [name, value] : identity_) json["identity"][name] = value;
  json["calibration"] = to_json(calibration_.value_or(Calibration{}));
  json["cells"] = Json::array();
  for (const CellResult& one : cells_) json["cells"].push_back(to_json(one));
  write_text(path_, json.dump(1) + "\n");
}

}  // namespace tiom
