#include "cell.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "sweep.hpp"

namespace tiom {

std::string_view variant_name(Variant variant) {
  constexpr std::array<std::string_view, 3> kNames{"standalone", "blocking", "nonblocking"};
  return kNames[static_cast<size_t>(variant)];
}

std::string cell_text(const Cell& cell) {
  return std::string(mode_name(cell.mode)) + ", " + size_text(cell.block_bytes) + ", " +
         duration_text(cell.compute_ns);
}

double RunFigures::mb_per_s() const {
  return seconds > 0 ? static_cast<double>(bytes) / 1e6 / seconds : 0;
}

const VariantResult* CellResult::find(Variant variant) const {
  const auto found = std::ranges::find(variants, variant, &VariantResult::variant);
  return found == variants.end() ? nullptr : &*found;
}

Bound bound_of(const RunFigures& run, uint64_t compute_ns, unsigned cores, double mb_per_s) {
  return ioweave::model::task_bound(run.computes, static_cast<double>(compute_ns) / 1e9, cores,
                                    run.bytes, mb_per_s * 1e6);
}

double bound_bandwidth(const CellResult& cell) {
  double best = cell.probed_mb_per_s;
  for (const VariantResult& variant : cell.variants) {
    for (const RunFigures& run : variant.runs) best = std::max(best, run.mb_per_s());
  }
  return best;
}

VariantSummary summary_of(const CellResult& cell, const VariantResult& variant, unsigned cores) {
  const double bandwidth = bound_bandwidth(cell);
  std::vector<double> rates;
  std::vector<double> times;
  std::vector<double> near;
  VariantSummary summary;
  for (const RunFigures& run : variant.runs) {
    rates.push_back(run.mb_per_s());
    times.push_back(run.seconds);
    const double bound = bound_of(run, cell.cell.compute_ns, cores, bandwidth).seconds();
    near.push_back(run.seconds > 0 ? bound / run.seconds : 0);
    summary.limited |= run.limited;
  }
  summary.mb_per_s = quartiles(rates);
  summary.seconds = quartiles(times);
  summary.near_bound = median(near);
  const auto middle = std::ranges::min_element(variant.runs, {}, [&](const RunFigures& run) {
    return std::abs(run.mb_per_s() - summary.mb_per_s.median);
  });
  summary.bound = bound_of(*middle, cell.cell.compute_ns, cores, bandwidth);
  return summary;
}

std::vector<double> paired_speed_ups(const CellResult& cell, Variant variant) {
  std::vector<double> ratios;
  const VariantResult* const standalone = cell.find(Variant::standalone);
  const VariantResult* const other = cell.find(variant);
  if (standalone == nullptr || other == nullptr) return ratios;
  for (size_t i = 0; i < std::min(standalone->runs.size(), other->runs.size()); ++i) {
    const double base = standalone->runs[i].mb_per_s();
    const double rate = other->runs[i].mb_per_s();
    if (base > 0 && rate > 0) ratios.push_back(rate / base);
  }
  return ratios;
}

std::string speed_up_text(double speed_up) {
  char text[32];
  if (speed_up >= 10) {  // +900 % and more reads worse than "x10"
    std::snprintf(text, sizeof text, "x%.0f", speed_up);
    return text;
  }
  const auto percent = std::lround((speed_up - 1) * 100);
  std::snprintf(text, sizeof text, percent == 0 ? "%ld %%" : "%+ld %%", percent);
  return text;
}

}  // namespace tiom
