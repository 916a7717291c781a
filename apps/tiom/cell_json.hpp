#pragma once

// Cells and calibrations as JSON, the same in reports and state files. docs/tiom.md has the schema.

#include <nlohmann/json.hpp>

#include "cell.hpp"
#include "compute.hpp"

namespace tiom {

using Json = nlohmann::ordered_json;

/// What was measured, nothing derived.
Json to_json(const CellResult& cell);
Json to_json(const Calibration& calibration);

/// Throw nlohmann::json::exception or std::runtime_error for what was not made by to_json().
CellResult cell_from_json(const Json& json);
Calibration calibration_from_json(const Json& json);

}  // namespace tiom
