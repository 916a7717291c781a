#pragma once

// What our pictures are drawn with.

#include <string>
#include <string_view>

namespace ioweave::cli {

/// A drawing in SVG, white below. Lengths in its own units, from the upper left corner.
class Svg {
 public:
  Svg(double width, double height) : width_(width), height_(height) {}

  /// `anchor`: "start", "middle" or "end" of the words lies at `x`.
  void text(double x, double y, std::string_view words, const char* anchor = "start",
            const char* colour = "#333");
  /// `points`: "x,y x,y ..." of point().
  void line(const std::string& points, const char* colour, const char* dashes = "none");
  void bar(double x, double y, double width, double height, const char* colour);

  [[nodiscard]] static std::string number(double value);
  [[nodiscard]] static std::string point(double x, double y) { return number(x) + "," + number(y); }

  /// The whole file.
  [[nodiscard]] std::string document() const;

 private:
  const double width_;
  const double height_;
  std::string body_;
};

}  // namespace ioweave::cli
