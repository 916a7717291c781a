#include "model/curve.hpp"

#include <algorithm>
#include <cmath>

namespace ioweave::model {
namespace {

constexpr double kBytesPerMb = 1e6;
constexpr double kMostStreams = 1e6;  // of a table in memory

}  // namespace

bool Curve::make(std::span<const Point> points, Curve& curve, std::string& why) {
  if (points.empty()) {
    why = "a curve needs at least one point: streams and MB/s";
    return false;
  }
  double last = 0;
  for (const Point& point : points) {
    if (!(point.streams > last) || !(point.streams <= kMostStreams) || !(point.mb_per_s > 0) ||
        !std::isfinite(point.mb_per_s)) {
      why = "point " + std::to_string(point.streams) + " streams, " +
            std::to_string(point.mb_per_s) +
            " MB/s: streams must ascend from above 0 to at most 1e6, and MB/s be above 0";
      return false;
    }
    last = point.streams;
  }
  curve.points_.assign(points.begin(), points.end());
  curve.bytes_per_s_.assign(1, 0);
  Point from{0, 0};
  size_t next = 0;
  for (double streams = 1; next < points.size(); ++streams) {
    while (next + 1 < points.size() && points[next].streams < streams) {
      from = points[next++];
    }
    const Point& to = points[next];
    const double part = std::min(1.0, (streams - from.streams) / (to.streams - from.streams));
    curve.bytes_per_s_.push_back((from.mb_per_s + part * (to.mb_per_s - from.mb_per_s)) *
                                 kBytesPerMb);
    if (streams >= points.back().streams) {
      break;
    }
  }
  return true;
}

double Curve::bytes_per_s(uint32_t streams) const noexcept {
  return bytes_per_s_[std::min<size_t>(streams, bytes_per_s_.size() - 1)];
}

double Curve::most_bytes_per_s() const noexcept {
  return std::ranges::max(bytes_per_s_);
}

}  // namespace ioweave::model
