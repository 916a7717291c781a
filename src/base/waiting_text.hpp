#pragma once

#include <algorithm>
#include <cmath>
#include <string>

namespace ioweave {

/// Writes a waiting time: "40s", "3m20s", "5h10m".
inline std::string waiting_text(double seconds) {
  const auto whole = static_cast<long>(std::lround(std::max(0.0, seconds)));
  if (whole < 60) return std::to_string(whole) + "s";
  if (whole < 3600) return std::to_string(whole / 60) + "m" + std::to_string(whole % 60) + "s";
  return std::to_string(whole / 3600) + "h" + std::to_string(whole % 3600 / 60) + "m";
}

}  // namespace ioweave
