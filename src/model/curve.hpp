#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ioweave::model {

/// What a device moves with a given number of streams at once: measured points, joined by straight
/// lines. It begins at nothing for no stream, and stays at the last point's value beyond it.
/// Immutable.
class Curve {
 public:
  struct Point {
    double streams;
    double mb_per_s;
  };

  /// Points by ascending number of streams. False, and in `why` which one is wrong, where there is
  /// none, one is not above 0, or they do not ascend.
  [[nodiscard]] static bool make(std::span<const Point> points, Curve& curve, std::string& why);

  /// All streams together, in bytes per second.
  [[nodiscard]] double bytes_per_s(uint32_t streams) const noexcept;

  /// With the number of streams that serves best. 0 without points.
  [[nodiscard]] double most_bytes_per_s() const noexcept;

  /// Those of make(). None if the curve was made without.
  [[nodiscard]] std::span<const Point> points() const noexcept { return points_; }

 private:
  std::vector<Point> points_;
  std::vector<double> bytes_per_s_{0, 0};  ///< by whole streams, up to the last point
};

}  // namespace ioweave::model
