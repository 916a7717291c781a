// The picture of `ioweave advise --svg`: time over the number of buffers, with the time as it is
// and the bound.

#include <algorithm>
#include <array>
#include <cstdio>

#include "cli/advice.hpp"
#include "cli/format.hpp"
#include "cli/svg.hpp"

namespace ioweave::cli {
namespace {

constexpr double kWide = 640;
constexpr double kHigh = 400;
constexpr double kLeft = 70;
constexpr double kRight = 20;
constexpr double kTop = 50;
constexpr double kBottom = 60;
constexpr double kMostBuffers = 9;

class Plot {
 public:
  explicit Plot(double most_s) : most_s_(std::max(most_s, 1e-9) * 1.1) {}

  [[nodiscard]] double x(double buffers) const {
    return kLeft + (buffers - 1) / (kMostBuffers - 1) * (kWide - kLeft - kRight);
  }
  [[nodiscard]] double y(double seconds) const {
    return kHigh - kBottom - seconds / most_s_ * (kHigh - kTop - kBottom);
  }

  void level(double seconds, const std::string& name, const char* colour, const char* dashes) {
    svg.line(Svg::point(x(1), y(seconds)) + " " + Svg::point(x(kMostBuffers), y(seconds)), colour,
             dashes);
    svg.text(x(kMostBuffers), y(seconds) - 5, name, "end", colour);
  }
  void axes() {
    svg.line(Svg::point(kLeft, kTop) + " " + Svg::point(kLeft, kHigh - kBottom) + " " +
                 Svg::point(kWide - kRight, kHigh - kBottom),
             "#333");
    for (int count = 1; count <= static_cast<int>(kMostBuffers); ++count) {
      const double buffers = count;
      svg.text(x(buffers), kHigh - kBottom + 18, Svg::number(buffers).substr(0, 1), "middle");
    }
    svg.text((kLeft + kWide) / 2, kHigh - 18, "buffers", "middle");
    for (int i = 0; i <= 4; ++i) {
      const double seconds = most_s_ / 1.1 * i / 4;
      std::array<char, 32> label{};
      std::snprintf(label.data(), label.size(), "%.3g s", seconds);
      svg.text(kLeft - 6, y(seconds) + 4, label.data(), "end");
    }
  }

  Svg svg{kWide, kHigh};

 private:
  double most_s_;
};

void draw_level(Plot& plot, const Advice& advice, Way way, const char* name, const char* colour) {
  const Prediction* const best = best_of_way(advice, way);
  if (best != nullptr) plot.level(best->seconds, name, colour, "2 3");
}

/// A curve over the number of buffers for each number of devices.
void draw_curves(Plot& plot, const Advice& advice, Way way, const std::string& name,
                 const char* colour) {
  for (const uint32_t devices : {1u, 2u, 4u}) {
    std::string points;
    double last_s = 0;
    for (const Prediction& each : advice.predictions) {
      if (each.way != way || each.devices != devices) continue;
      if (points.empty()) points = Svg::point(plot.x(1), plot.y(advice.plain_s));
      last_s = each.seconds;
      points += " " + Svg::point(plot.x(each.buffers), plot.y(each.seconds));
    }
    if (points.empty()) continue;
    plot.svg.line(points, colour, devices == 1 ? "none" : devices == 2 ? "8 3" : "3 3");
    const std::string title =
        devices == 1 ? name : name + ", " + std::to_string(devices) + " devices";
    plot.svg.text(plot.x(1.0 + devices), plot.y(last_s) - 5, title, "start", colour);
  }
}

}  // namespace

std::string advice_svg(const stats::RunReport& report, const Advice& advice) {
  double most_s = advice.plain_s;
  for (const Prediction& each : advice.predictions) most_s = std::max(most_s, each.seconds);
  Plot plot(most_s);
  plot.svg.text(kLeft, 24, "Predicted time of " + shown_command(report.command, 60));
  plot.axes();
  plot.level(advice.plain_s, "as it is", "#555", "none");
  plot.level(advice.bound.seconds, "bound", "#c00", "6 4");
  draw_level(plot, advice, Way::prefetch, "prefetch", "#06c");
  draw_level(plot, advice, Way::tasks, "I/O tasks, at least", "#a60");
  draw_curves(plot, advice, Way::write_behind, "write-behind", "#080");
  draw_curves(plot, advice, Way::both, "both", "#a0a");
  return plot.svg.document();
}

}  // namespace ioweave::cli
