#include "policy/learned_curve.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "policy/number_text.hpp"

namespace ioweave::policy {
namespace {

constexpr std::string_view kLearned = "climb";
constexpr double kMost = 1e9;  ///< operations at once

bool read_point(std::string_view text, LearnedCurve::Point& point) {
  const size_t colon = text.find(':');
  return colon != std::string_view::npos && parse_number(text.substr(0, colon), point.at_once) &&
         parse_number(text.substr(colon + 1), point.mb_per_s) && point.at_once >= 1 &&
         point.mb_per_s > 0 && std::isfinite(point.mb_per_s);
}

}  // namespace

LearnedCurve::LearnedCurve(Point best, std::span<const Point> others)
    : points_(others.begin(), others.end()) {
  const auto at = std::ranges::lower_bound(points_, best.at_once, {}, &Point::at_once);
  best_ = static_cast<size_t>(at - points_.begin());
  if (at == points_.end() || at->at_once != best.at_once) {
    points_.insert(at, best);
  }
}

std::optional<LearnedCurve> LearnedCurve::read(std::string_view text) {
  if (text.substr(0, kLearned.size()) != kLearned) {
    return {};
  }
  text.remove_prefix(kLearned.size());
  std::vector<Point> points;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' ', 1), text.size());
    if (text.front() != ' ' || !read_point(text.substr(1, end - 1), points.emplace_back())) {
      return {};
    }
    text.remove_prefix(end);
  }
  const auto rises = [](const Point& a, const Point& b) { return a.at_once < b.at_once; };
  const auto others = std::span(points).subspan(points.empty() ? 0 : 1);
  if (points.empty() || std::ranges::adjacent_find(others, std::not_fn(rises)) != others.end()) {
    return {};
  }
  return LearnedCurve(points.front(), others);
}

std::optional<LearnedCurve> LearnedCurve::from(std::span<const std::pair<double, double>> curve,
                                               double fewer) {
  std::vector<Point> points;
  for (const auto& [at_once, mb_per_s] : curve) {
    const bool is_number = at_once >= 1 && at_once <= kMost && mb_per_s > 0;
    const auto whole = is_number ? static_cast<uint32_t>(at_once) : 0;
    if (is_number && (points.empty() || points.back().at_once < whole)) {
      points.push_back({whole, mb_per_s});
    }
  }
  if (points.empty()) {
    return {};
  }
  const double peak = std::ranges::max_element(points, {}, &Point::mb_per_s)->mb_per_s;
  const auto best = std::ranges::find_if(
      points, [&](const Point& point) { return point.mb_per_s >= std::exp(-fewer) * peak; });
  return LearnedCurve(*best, points);
}

std::string LearnedCurve::text() const {
  std::string text(kLearned);
  const auto add = [&](const Point& point) {
    text += " " + std::to_string(point.at_once) + ":" + number_text(point.mb_per_s);
  };
  add(best());
  for (size_t i = 0; i < points_.size(); ++i) {
    if (i != best_) {
      add(points_[i]);
    }
  }
  return text;
}

double LearnedCurve::mb_per_s(double at_once) const {
  const auto after =
      std::ranges::find_if(points_, [&](const Point& point) { return point.at_once >= at_once; });
  if (after == points_.end()) {
    return points_.back().mb_per_s;
  }
  const Point before = after == points_.begin() ? Point() : *std::prev(after);
  const double part = (at_once - before.at_once) / (after->at_once - before.at_once);
  return before.mb_per_s + part * (after->mb_per_s - before.mb_per_s);
}

}  // namespace ioweave::policy
