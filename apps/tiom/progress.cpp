#include "progress.hpp"

#include <algorithm>
#include <cstdio>

#include <unistd.h>

namespace tiom {

Progress::Progress(size_t cells, double expected_s)
    : cells_(cells), expected_s_(expected_s), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

void Progress::start_cell(const Cell& cell, double expected_s, size_t runs) {
  ++cell_;
  cell_text_ = cell_text(cell);
  cell_expected_s_ = expected_s;
  runs_ = std::max<size_t>(runs, 1);
  run_ = 0;
  if (terminal_) show("");
}

void Progress::ran(const RunFigures& run) {
  ++run_;
  done_s_ += run.seconds;
  expected_done_s_ += cell_expected_s_ / static_cast<double>(runs_);
  if (terminal_) show(", run " + std::to_string(run_) + " of " + std::to_string(runs_));
}

void Progress::end_cell(const CellResult& cell) {
  if (terminal_) return;
  std::string text;
  for (const VariantResult& variant : cell.variants) {
    std::vector<double> ratios = paired_speed_ups(cell, variant.variant);
    text += "; " + std::string(variant_name(variant.variant)) + " ";
    if (variant.variant == Variant::standalone || ratios.empty()) {
      std::vector<double> rates;
      rates.reserve(variant.runs.size());
      for (const RunFigures& run : variant.runs) rates.push_back(run.mb_per_s());
      char rate[32];
      std::snprintf(rate, sizeof rate, "%.4g MB/s", median(rates));
      text += rate;
    } else {
      text += speed_up_text(median(ratios));
    }
  }
  show(text);
}

double Progress::seconds_left() const {
  const double factor =
      expected_done_s_ > 0 ? std::clamp(done_s_ / expected_done_s_, 0.1, 10.0) : 1;
  return std::max(0.0, expected_s_ - expected_done_s_) * factor;
}

void Progress::show(const std::string& text) const {
  std::fprintf(stderr, "%sioweave tiom: cell %zu of %zu (%s)%s; %s left%s", terminal_ ? "\r" : "",
               cell_, cells_, cell_text_.c_str(), text.c_str(),
               waiting_text(seconds_left()).c_str(), terminal_ ? "\033[K" : "\n");
  std::fflush(stderr);
}

}  // namespace tiom
