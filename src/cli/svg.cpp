#include "cli/svg.hpp"

#include <array>
#include <cstdio>

namespace ioweave::cli {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string Svg::number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

void Svg::text(double x, double y, std::string_view words, const char* anchor, const char* colour) {
  body_ += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor +
           "\" fill=\"" + colour + "\">" + escaped(words) + "</text>\n";
}

void Svg::line(const std::string& points, const char* colour, const char* dashes) {
  body_ += "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"" + std::string(colour) +
           "\" stroke-dasharray=\"" + dashes + "\" points=\"" + points + "\"/>\n";
}

void Svg::bar(double x, double y, double width, double height, const char* colour) {
  body_ += "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(width) +
           "\" height=\"" + number(height) + "\" fill=\"" + colour + "\"/>\n";
}

std::string Svg::document() const {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width_) + " " +
         number(height_) +
         "\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" "
         "fill=\"#fff\"/>\n" +
         body_ + "</svg>\n";
}

}  // namespace ioweave::cli
