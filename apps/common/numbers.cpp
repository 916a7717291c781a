#include "numbers.hpp"

#include <charconv>
#include <string_view>

namespace apps {
namespace {

/// The number at the beginning of `text`, which is cut off; empty if there is none, or too large a
/// one.
std::optional<uint64_t> take_number(std::string_view& text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.begin()));
  return number;
}

}  // namespace

std::optional<uint64_t> parse_size(const std::string& text) {
  std::string_view unit = text;
  const std::optional<uint64_t> number = take_number(unit);
  if (!number) return std::nullopt;
  const unsigned shift = unit.empty()                 ? 0
                         : unit == "K" || unit == "k" ? 10
                         : unit == "M" || unit == "m" ? 20
                         : unit == "G" || unit == "g" ? 30
                                                      : 64;
  if (shift == 64 || *number > (UINT64_MAX >> 1 >> shift)) return std::nullopt;
  return *number << shift;
}

uint64_t parse_count(const char* name, const char* text, uint64_t low, uint64_t high) {
  std::string_view rest = text;
  const std::optional<uint64_t> value = take_number(rest);
  if (!value || !rest.empty() || *value < low || *value > high) {
    throw UsageError("--" + std::string(name) + " takes a whole number from " +
                     std::to_string(low) + " to " + std::to_string(high) + ", not '" + text + "'");
  }
  return *value;
}

}  // namespace apps
