#include "picture.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "sweep.hpp"

namespace tiom {
namespace {

constexpr double kCellWidth = 58;
constexpr double kCellHeight = 30;
constexpr double kLeft = 62;    // for the compute times
constexpr double kTop = 62;     // for title and block sizes
constexpr double kLegend = 50;  // below
constexpr double kGap = 36;     // between maps
constexpr double kMargin = 24;
constexpr double kLineHeight = 20;

constexpr Color kBlack{24, 24, 27};
constexpr Color kGrey{95, 99, 104};
constexpr Color kEmpty{238, 238, 238};

Color mix(const Color& from, const Color& to, double part) {
  const auto channel = [part](uint8_t a, uint8_t b) {
    return static_cast<uint8_t>(
        std::lround(std::lerp(static_cast<double>(a), static_cast<double>(b), part)));
  };
  return {channel(from.red, to.red), channel(from.green, to.green), channel(from.blue, to.blue)};
}

std::string printed(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string rate_text(double mb_per_s) {
  return printed(mb_per_s < 9.95 ? "%.1f" : "%.0f", mb_per_s);
}

/// "+25", without the sign of a percentage that the title has.
std::string percent_text(double speed_up) {
  const std::string text = speed_up_text(speed_up);
  return text.substr(0, text.find(' '));
}

/// All that is known of a variant in a cell, for a pointer that rests on it.
std::string tip_text(const Report& report, const CellResult& cell, const VariantResult& variant) {
  const VariantSummary summary = summary_of(cell, variant, report.cores);
  std::string text = cell_text(cell.cell) + ", " + std::string(variant_name(variant.variant));
  text += "\n" + rate_text(summary.mb_per_s.median) + " MB/s (quartiles " +
          rate_text(summary.mb_per_s.first) + " to " + rate_text(summary.mb_per_s.third) + ")";
  const std::vector<double> ratios = paired_speed_ups(cell, variant.variant);
  if (summary.mb_per_s.median == 0 || ratios.empty()) {
    text += "\nno I/O before the time limit: raise it, or lower the number of series";
  } else if (variant.variant != Variant::standalone) {
    const Quartiles ratio = quartiles(ratios);
    text += "\nspeed-up " + speed_up_text(ratio.median) + " (quartiles " +
            speed_up_text(ratio.first) + " to " + speed_up_text(ratio.third) + ")";
  }
  text += "\n" + printed("%.0f", summary.near_bound * 100) +
          " % of the bound, which is set by the " +
          (summary.bound.by_device() ? "device" : "computation");
  text += "\n" + std::to_string(variant.runs.size()) + " runs, " +
          printed("%.3g", summary.seconds.median) + " s each (median)";
  if (summary.limited) text += ", stopped at the time limit";
  return text;
}

double best_rate(const Report& report) {
  double best = 0;
  for (const CellResult& cell : report.cells) {
    best = std::max(best, summary_of(cell, cell.variants.front(), report.cores).mb_per_s.median);
  }
  return best;
}

/// Draws one map with its left upper corner at x, y.
class MapDrawer {
 public:
  MapDrawer(Picture& picture, const Report& report, Mode mode, Variant variant)
      : picture_(picture),
        report_(report),
        mode_(mode),
        variant_(variant),
        best_rate_(best_rate(report)) {}

  void draw(double x, double y) {
    x_ = x;
    y_ = y;
    draw_labels();
    const std::vector<uint64_t>& computes = report_.options.computes;
    const std::vector<uint64_t>& blocks = report_.options.blocks;
    for (size_t row = 0; row < computes.size(); ++row) {
      for (size_t column = 0; column < blocks.size(); ++column) {
        draw_cell({mode_, blocks[column], computes[row]}, left(column), top(row));
      }
    }
    draw_legend(top(computes.size()) + 16);
  }

 private:
  [[nodiscard]] double left(size_t column) const {
    return x_ + kLeft + kCellWidth * static_cast<double>(column);
  }
  [[nodiscard]] double top(size_t row) const {
    return y_ + kTop + kCellHeight * static_cast<double>(row);
  }

  void text(double x, double y, double size, Picture::Anchor anchor, bool bold, Color color,
            std::string words) {
    picture_.texts.push_back({x, y, size, anchor, bold, color, std::move(words)});
  }

  void draw_labels() {
    const std::string what = variant_ == Variant::standalone
                                 ? "standalone, MB/s"
                                 : std::string(variant_name(variant_)) + ", speed-up in %";
    text(x_, y_ + 18, 14, Picture::Anchor::start, true, kBlack,
         std::string(mode_name(mode_)) + ": " + what);
    text(x_ + kLeft, y_ + 37, 11, Picture::Anchor::start, false, kGrey, "block size, bytes");
    text(x_ + kLeft - 8, y_ + kTop - 9, 11, Picture::Anchor::end, false, kGrey, "compute");
    for (size_t i = 0; i < report_.options.blocks.size(); ++i) {
      text(left(i) + kCellWidth / 2, y_ + kTop - 9, 12, Picture::Anchor::middle, false, kBlack,
           size_text(report_.options.blocks[i]));
    }
    for (size_t i = 0; i < report_.options.computes.size(); ++i) {
      text(x_ + kLeft - 8, top(i) + kCellHeight / 2 + 4, 12, Picture::Anchor::end, false, kBlack,
           duration_text(report_.options.computes[i]));
    }
  }

  void draw_cell(const Cell& cell, double x, double y) {
    const auto found = std::ranges::find(report_.cells, cell, &CellResult::cell);
    const VariantResult* const variant =
        found == report_.cells.end() ? nullptr : found->find(variant_);
    Picture::Box box{x, y, kCellWidth - 1, kCellHeight - 1, kEmpty, "not run"};
    std::string words;
    if (variant != nullptr) {
      box.tip = tip_text(report_, *found, *variant);
      if (variant_ == Variant::standalone) {
        const double rate = summary_of(*found, *variant, report_.cores).mb_per_s.median;
        box.fill = rate_color(best_rate_ > 0 ? rate / best_rate_ : 0);
        words = rate_text(rate);
      } else if (std::vector<double> ratios = paired_speed_ups(*found, variant_); ratios.empty()) {
        words = "-";
      } else {
        const double speed_up = median(std::move(ratios));
        box.fill = speed_up_color(speed_up);
        words = percent_text(speed_up);
      }
    }
    text(x + (kCellWidth - 1) / 2, y + kCellHeight / 2 + 4, 12, Picture::Anchor::middle, false,
         ink_on(box.fill), words);
    picture_.boxes.push_back(std::move(box));
  }

  /// A strip from one end of the scale to the other, with what its ends mean.
  void draw_legend(double y) {
    constexpr int kSteps = 40;
    constexpr double kStep = 4;
    const bool rates = variant_ == Variant::standalone;
    const double x = x_ + kLeft;
    for (int i = 0; i < kSteps; ++i) {
      const double part = i / double{kSteps - 1};
      // A little wider than its step: no seams where pixels are not whole.
      picture_.boxes.push_back({x + i * kStep, y, kStep + (i + 1 < kSteps ? 0.5 : 0), 10,
                                rates ? rate_color(part) : speed_up_color(std::exp2(2 * part - 1)),
                                ""});
    }
    const auto mark = [&](double part, const std::string& words, Picture::Anchor anchor) {
      text(x + part * kSteps * kStep, y + 24, 11, anchor, false, kGrey, words);
    };
    mark(0, rates ? "0" : "-50 %", Picture::Anchor::start);
    if (!rates) mark(0.5, "0 %", Picture::Anchor::middle);
    mark(1, rates ? rate_text(best_rate_) + " MB/s" : "+100 %", Picture::Anchor::end);
  }

  Picture& picture_;
  const Report& report_;
  const Mode mode_;
  const Variant variant_;
  const double best_rate_;
  double x_ = 0;
  double y_ = 0;
};

double map_width(const Report& report) {
  // The title and the legend, too, need their room.
  return kLeft + std::max(240.0, kCellWidth * static_cast<double>(report.options.blocks.size()));
}

void append(Picture& whole, const Picture& part, double x, double y) {
  for (Picture::Box box : part.boxes) {
    box.x += x;
    box.y += y;
    whole.boxes.push_back(std::move(box));
  }
  for (Picture::Text text : part.texts) {
    text.x += x;
    text.y += y;
    whole.texts.push_back(std::move(text));
  }
}

}  // namespace

Color speed_up_color(double speed_up) {
  constexpr Color kWhite{255, 255, 255};
  constexpr Color kGreen{11, 122, 57};
  constexpr Color kRed{190, 30, 45};
  const double size = std::clamp(std::abs(std::log2(std::max(speed_up, 1e-9))), 0.0, 1.0);
  return mix(kWhite, speed_up >= 1 ? kGreen : kRed, size);
}

Color rate_color(double part) {
  return mix({255, 255, 255}, {17, 63, 130}, std::clamp(part, 0.0, 1.0));
}

Color ink_on(const Color& paper) {
  const double lightness = 0.299 * paper.red + 0.587 * paper.green + 0.114 * paper.blue;
  return lightness > 140 ? kBlack : Color{255, 255, 255};
}

Picture mode_picture(const Report& report, Mode mode) {
  Picture picture;
  const double step = map_width(report) + kGap;
  double x = 0;
  for (const Variant variant : report.variants) {
    MapDrawer(picture, report, mode, variant).draw(x, 0);
    x += step;
  }
  picture.width = x - kGap;
  picture.height =
      kTop + kCellHeight * static_cast<double>(report.options.computes.size()) + kLegend;
  return picture;
}

std::vector<std::string> heading_lines(const Report& report) {
  const Machine& machine = report.machine;
  const std::string cores =
      std::to_string(machine.cores) + " core" + (machine.cores == 1 ? "" : "s");
  return {
      report.runtime + ", " + std::to_string(report.workers) + " workers, engine " + report.engine,
      workload_text(report.options) + ", " + std::to_string(report.options.repetitions) +
          " repetitions",
      machine.processor + ", " + cores + ", Linux " + machine.kernel + ", " + machine.file_system +
          " on " + machine.device + ", " + machine.date};
}

Picture whole_picture(const Report& report) {
  Picture whole;
  double y = kMargin + 12;
  whole.texts.push_back({kMargin, y, 20, Picture::Anchor::start, true, kBlack, "Task I/O Meter"});
  y += 6;
  double widest = 0;
  for (const std::string& line : heading_lines(report)) {
    y += kLineHeight;
    whole.texts.push_back({kMargin, y, 13, Picture::Anchor::start, false, kGrey, line});
    // About the width of a letter of that size.
    widest = std::max(widest, 7.0 * static_cast<double>(line.size()));
  }
  y += kGap / 2;
  for (const Mode mode : report.options.modes) {
    const Picture picture = mode_picture(report, mode);
    append(whole, picture, kMargin, y);
    widest = std::max(widest, picture.width);
    y += picture.height + kGap / 2;
  }
  whole.width = widest + 2 * kMargin;
  whole.height = y;
  return whole;
}

}  // namespace tiom
