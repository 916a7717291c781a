// The writing half of description.hpp: what device_of() reads.

#include <array>
#include <cstdio>

#include "config/description.hpp"

namespace ioweave::config {
namespace {

std::string number_text(double mb_per_s) {
  std::array<char, 400> digits{};  // the largest double has 309 before its point
  const char* const format = mb_per_s < 1 ? "%.6f" : mb_per_s < 100 ? "%.3f" : "%.1f";
  std::snprintf(digits.data(), digits.size(), format, mb_per_s);
  // Always with a point: TOML tells integers and floats apart, and its readers may.
  std::string text = digits.data();
  while (text.ends_with('0') && !text.ends_with(".0")) text.pop_back();
  return text;
}

std::string quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += std::string("\\") + c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      std::array<char, 8> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\u%04X", static_cast<unsigned char>(c));
      quoted += escaped.data();
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace

std::string curve_toml(std::span<const std::pair<double, double>> curve) {
  std::string text = "[";
  for (const auto& [streams, mb_per_s] : curve) {
    std::array<char, 32> count{};
    std::snprintf(count.data(), count.size(), "%.15g", streams);
    text += (text.size() > 1 ? ", [" : "[") + std::string(count.data()) + ", " +
            number_text(mb_per_s) + "]";
  }
  return text + "]";
}

std::string device_toml(const Device& device) {
  const std::string place =
      "[[device]]\nname = " + quoted(device.name) + "\npath = " + quoted(device.path) + "\n";
  if (device.curve.empty()) return place + "profile = " + quoted(device.profile) + "\n";
  return place + "bandwidth = " + number_text(device.mb_per_s) + "\nscope = \"" +
         (device.is_shared ? "shared" : "node") + "\"\ncurve = " + curve_toml(device.curve) + "\n";
}

}  // namespace ioweave::config
