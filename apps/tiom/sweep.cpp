#include "sweep.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace tiom {
namespace {

constexpr uint64_t kMaxSize = uint64_t{1} << 62;
constexpr double kMaxDurationNs = 86400e9;

using Parser = std::optional<uint64_t> (*)(std::string_view);

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
}

/// What a sweep of one kind of value is made of, for the parser and its complaints.
struct Kind {
  Parser parse;
  std::string (*text)(uint64_t);
  const char* examples;
};

constexpr Kind kSizes{&parse_size, &size_text, "64k, 4k..8m or 4k,64k,1m"};
constexpr Kind kDurations{&parse_duration, &duration_text, "1ms, 1ms..128ms or 0.1ms,1ms,10ms"};

[[noreturn]] void refuse(std::string_view option, std::string_view text, const Kind& kind) {
  throw UsageError(std::string(option) + ": '" + std::string(text) + "' is not understood; give " +
                   kind.examples);
}

uint64_t parse_value(std::string_view option, std::string_view text, const Kind& kind) {
  const std::optional<uint64_t> value = kind.parse(text);
  if (!value) refuse(option, text, kind);
  return *value;
}

void add_range(std::string_view option, std::string_view text, const Kind& kind, size_t dots,
               std::vector<uint64_t>& values) {
  const uint64_t first = parse_value(option, text.substr(0, dots), kind);
  const uint64_t last = parse_value(option, text.substr(dots + 2), kind);
  const std::string name = std::string(option) + ": '" + std::string(text) + "'";
  if (first == 0) throw UsageError(name + " cannot double from 0; list 0 apart: 0,1ms..8ms");
  if (first > last) throw UsageError(name + " runs downwards; write the smaller value first");
  uint64_t value = first;
  for (; value < last; value *= 2) values.push_back(value);
  if (value != last) {
    throw UsageError(name + " doubles from " + kind.text(first) +
                     " and misses its end; end it at " + kind.text(value / 2) + " or " +
                     kind.text(value));
  }
  values.push_back(last);
}

std::vector<uint64_t> parse_sweep(std::string_view option, std::string_view text,
                                  const Kind& kind) {
  std::vector<uint64_t> values;
  for (const std::string_view word : split_list(text)) {
    const size_t dots = word.find("..");
    if (dots == std::string_view::npos) {
      values.push_back(parse_value(option, word, kind));
    } else {
      add_range(option, word, kind, dots, values);
    }
  }
  std::ranges::sort(values);
  values.erase(std::ranges::unique(values).begin(), values.end());
  return values;
}

}  // namespace

std::optional<uint64_t> parse_size(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  unsigned shift = 0;
  if (unit.size() > 1) return std::nullopt;
  if (unit.size() == 1) {
    const size_t place = std::string_view("kmgt").find(lower(unit[0]));
    if (place == std::string_view::npos) return std::nullopt;
    shift = 10 * (static_cast<unsigned>(place) + 1);
  }
  if (number > kMaxSize >> shift) return std::nullopt;
  return number << shift;
}

std::optional<uint64_t> parse_duration(std::string_view text) {
  double number = 0;
  // from_chars would take "inf" and "nan" too.
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (unit.empty() && number == 0) return 0;
  for (const auto& [name, factor] : std::to_array<std::pair<std::string_view, double>>(
           {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}})) {
    if (unit != name) continue;
    if (number * factor > kMaxDurationNs) return std::nullopt;
    return static_cast<uint64_t>(std::llround(number * factor));
  }
  return std::nullopt;
}

std::vector<uint64_t> parse_sizes(std::string_view option, std::string_view text) {
  return parse_sweep(option, text, kSizes);
}

std::vector<uint64_t> parse_durations(std::string_view option, std::string_view text) {
  return parse_sweep(option, text, kDurations);
}

std::string size_text(uint64_t bytes) {
  size_t unit = 0;
  while (unit < 4 && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  std::string text = std::to_string(bytes);
  if (unit > 0) text += "kmgt"[unit - 1];
  return text;
}

std::string duration_text(uint64_t ns) {
  if (ns == 0) return "0";
  const bool seconds = ns >= 1'000'000'000;
  const bool milliseconds = ns >= 100'000;
  const uint64_t unit = seconds ? 1'000'000'000 : milliseconds ? 1'000'000 : 1000;
  std::string text = std::to_string(ns / unit);
  if (const uint64_t rest = ns % unit; rest != 0) {
    std::string digits = std::to_string(unit + rest).substr(1);
    digits.erase(digits.find_last_not_of('0') + 1);
    text += "." + digits;
  }
  return text + (seconds ? "s" : milliseconds ? "ms" : "us");
}

std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t start = 0;;) {
    const size_t comma = text.find(',', start);
    words.push_back(text.substr(start, comma - start));
    if (comma == std::string_view::npos) return words;
    start = comma + 1;
  }
}

}  // namespace tiom
