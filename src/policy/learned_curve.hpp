#pragma once

// What an earlier run with `climb`, or a measurement, found out about a device. It goes from run to
// run as text: "climb 45:361.5 1:20 8:112 64:350", operations at once and MB/s, of the best number
// and then of the others that are known, ascending.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ioweave::policy {

class LearnedCurve {
 public:
  struct Point {
    uint32_t at_once = 0;
    double mb_per_s = 0;
  };

  /// `others` are ascending; the best may be among them.
  LearnedCurve(Point best, std::span<const Point> others);

  /// Nothing where the text is of another kind.
  [[nodiscard]] static std::optional<LearnedCurve> read(std::string_view text);
  /// Of what was measured, ascending in operations at once. The best number is the fewest that are
  /// within `fewer`, a logarithm, of the fastest. Nothing where no number of it can be a limit.
  [[nodiscard]] static std::optional<LearnedCurve> from(
      std::span<const std::pair<double, double>> curve, double fewer);

  [[nodiscard]] std::string text() const;
  [[nodiscard]] Point best() const noexcept { return points_[best_]; }
  [[nodiscard]] std::span<const Point> all() const noexcept { return points_; }
  [[nodiscard]] size_t points() const noexcept { return points_.size(); }
  [[nodiscard]] uint32_t most() const noexcept { return points_.back().at_once; }
  /// In between as on a line, from nothing with none, and on the level beyond the last.
  [[nodiscard]] double mb_per_s(double at_once) const;

 private:
  std::vector<Point> points_;  // ascending
  size_t best_ = 0;
};

}  // namespace ioweave::policy
