#pragma once

// The heat maps of a report as rectangles and texts on a plane, which the PNG and the SVG of the
// page both draw. Units are CSS pixels, y downwards.

#include <cstdint>
#include <string>
#include <vector>

#include "report.hpp"

namespace tiom {

struct Color {
  uint8_t red = 0;
  uint8_t green = 0;
  uint8_t blue = 0;

  bool operator==(const Color&) const = default;
};

/// White at no difference, green for a gain, red for a slow-down; full at twice and half the speed.
Color speed_up_color(double speed_up);
/// White at 0 and dark blue at `part` 1.
Color rate_color(double part);
/// Black or white, whichever is easier to read on it.
Color ink_on(const Color& paper);

struct Picture {
  struct Box {
    double x, y, width, height;
    Color fill;
    std::string tip;  ///< shown where a pointer rests on it, may have lines
  };
  enum class Anchor : uint8_t { start, middle, end };
  struct Text {
    double x, y;  ///< of the base line
    double size;
    Anchor anchor;
    bool bold;
    Color color;
    std::string text;
  };
  double width = 0;
  double height = 0;
  std::vector<Box> boxes;
  std::vector<Text> texts;
};

/// The maps of one mode side by side: bandwidth of standalone, speed-up of each other variant.
Picture mode_picture(const Report& report, Mode mode);

/// All modes below each other, under a heading that says what was measured where.
Picture whole_picture(const Report& report);

/// "oneTBB 2021.8, 2 workers on 2 cores; read, random, ..." in a few lines.
std::vector<std::string> heading_lines(const Report& report);

}  // namespace tiom
