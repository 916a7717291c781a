#include "statistics.hpp"

#include <algorithm>
#include <cmath>

namespace tiom {
namespace {

double quantile(const std::vector<double>& sorted, double fraction) {
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

}  // namespace

Quartiles quartiles(std::vector<double> values) {
  std::ranges::sort(values);
  return {quantile(values, 0.25), quantile(values, 0.5), quantile(values, 0.75)};
}

double median(std::vector<double> values) {
  return quartiles(std::move(values)).median;
}

}  // namespace tiom
