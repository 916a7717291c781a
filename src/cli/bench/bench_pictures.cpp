// A picture is a grid of panels, two beside each other. What differs within a panel stands on its
// horizontal axis at equal distances, as the blocks of 4 KiB to 64 MiB do on a logarithmic one.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "cli/bench/bench_report.hpp"
#include "cli/bench/studies.hpp"
#include "cli/svg.hpp"

namespace ioweave::cli {
namespace {

using device::IoWay;
using device::LoadResult;
using device::Profile;

constexpr double kPanelWide = 640;
constexpr double kPanelHigh = 320;
constexpr double kLeft = 70;
constexpr double kRight = 20;
constexpr double kTop = 56;
constexpr double kBottom = 40;
constexpr size_t kColumns = 2;

const char* colour_of(IoWay way) {
  switch (way) {
    case IoWay::psync:
      return "#555";
    case IoWay::uring:
      return "#06c";
    case IoWay::sqpoll:
      return "#080";
    case IoWay::iopoll:
      return "#c00";
  }
  return "";
}

/// The figure of a way in a row of the view; negative: none.
double figure_of(const Profile& profile, const View& view, size_t row, IoWay way) {
  const LoadResult* const result = device::measured_of(profile, view.rows[row], way);
  return result == nullptr ? -1 : (result->*view.value)();
}

/// The least of 1, 2 or 5 times a power of ten that is not below `least`.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

class Panel {
 public:
  Panel(Svg& svg, const Profile& profile, const View& view, double x, double y)
      : svg_(svg), profile_(profile), view_(view), x_(x), y_(y) {
    for (const IoWay way : device::kIoWays) {
      for (size_t row = 0; row < view.rows.size(); ++row) {
        most_ = std::max(most_, figure_of(profile, view, row, way) * 1.1);
      }
    }
  }

  void draw() {
    svg_.text(x_ + kLeft, y_ + 20, view_.title);
    draw_axes();
    double legend_x = x_ + kLeft;
    size_t number = 0;
    for (const IoWay way : device::kIoWays) {
      if (!has(way)) continue;
      svg_.text(legend_x, y_ + 40, device::way_name(way), "start", colour_of(way));
      legend_x += 10 + 8 * static_cast<double>(device::way_name(way).size());
      view_.study == Study::pattern ? draw_bars(way, number) : draw_curve(way);
      ++number;
    }
  }

 private:
  [[nodiscard]] double place_of(double row) const {
    const double step = (kPanelWide - kLeft - kRight) / static_cast<double>(view_.rows.size());
    return x_ + kLeft + (row + 0.5) * step;
  }
  [[nodiscard]] double height_of(double figure) const {
    return y_ + kPanelHigh - kBottom - figure / most_ * (kPanelHigh - kTop - kBottom);
  }
  [[nodiscard]] bool has(IoWay way) const {
    for (size_t row = 0; row < view_.rows.size(); ++row) {
      if (figure_of(profile_, view_, row, way) >= 0) return true;
    }
    return false;
  }

  void draw_axes() {
    svg_.line(Svg::point(x_ + kLeft, y_ + kTop) + " " + Svg::point(x_ + kLeft, height_of(0)) + " " +
                  Svg::point(x_ + kPanelWide - kRight, height_of(0)),
              "#333");
    for (size_t row = 0; row < view_.rows.size(); ++row) {
      draw_name(place_of(static_cast<double>(row)), view_.names[row]);
    }
    const double step = round_step(most_ / 4);
    for (int i = 0; i * step <= most_; ++i) {
      const double figure = i * step;
      std::array<char, 32> label{};
      std::snprintf(label.data(), label.size(), "%g", figure);
      svg_.text(x_ + kLeft - 6, height_of(figure) + 4, label.data(), "end");
    }
  }

  /// The names of patterns are too wide for one line.
  void draw_name(double x, const std::string& name) {
    const size_t blank = view_.study == Study::pattern ? name.find(' ') : std::string::npos;
    svg_.text(x, height_of(0) + 18, name.substr(0, blank), "middle");
    if (blank != std::string::npos) {
      svg_.text(x, height_of(0) + 33, name.substr(blank + 1), "middle");
    }
  }

  void draw_curve(IoWay way) {
    std::string points;
    for (size_t row = 0; row < view_.rows.size(); ++row) {
      const double figure = figure_of(profile_, view_, row, way);
      if (figure < 0) continue;
      points += (points.empty() ? "" : " ") +
                Svg::point(place_of(static_cast<double>(row)), height_of(figure));
    }
    svg_.line(points, colour_of(way));
  }

  void draw_bars(IoWay way, size_t number) {
    constexpr double kWide = 0.2;  // of the distance of two rows
    const double step = place_of(1) - place_of(0);
    for (size_t row = 0; row < view_.rows.size(); ++row) {
      const double figure = figure_of(profile_, view_, row, way);
      if (figure < 0) continue;
      const double left =
          place_of(static_cast<double>(row)) + (static_cast<double>(number) - 2) * kWide * step;
      svg_.bar(left, height_of(figure), kWide * step, height_of(0) - height_of(figure),
               colour_of(way));
    }
  }

  Svg& svg_;
  const Profile& profile_;
  const View& view_;
  const double x_;
  const double y_;
  double most_ = 1e-9;
};

std::string draw(const Profile& profile, const std::vector<View>& views) {
  const size_t lines = (views.size() + kColumns - 1) / kColumns;
  Svg svg(kPanelWide * kColumns, kPanelHigh * static_cast<double>(lines));
  for (size_t i = 0; i < views.size(); ++i) {
    const auto column = static_cast<double>(i % kColumns);
    const size_t line = i / kColumns;
    Panel(svg, profile, views[i], kPanelWide * column, kPanelHigh * static_cast<double>(line))
        .draw();
  }
  return svg.document();
}

}  // namespace

std::vector<Picture> bench_pictures(const Profile& profile) {
  const std::vector<View> all = views_of(profile);
  std::vector<Picture> pictures;
  for (const Study study : {Study::share, Study::block, Study::pattern, Study::depth}) {
    std::vector<View> views;
    std::ranges::copy_if(all, std::back_inserter(views),
                         [&](const View& view) { return view.study == study; });
    if (views.empty()) continue;
    pictures.push_back({std::string(study_name(study)) + ".svg", draw(profile, views)});
  }
  return pictures;
}

}  // namespace ioweave::cli
