#include "cli/format.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace ioweave::cli {
namespace {

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

/// The second byte of U+0080 to U+009F in UTF-8, which terminals obey too: U+009B is "ESC [".
bool is_second_of_control(char c) {
  return static_cast<unsigned char>(c) >= 0x80 && static_cast<unsigned char>(c) < 0xa0;
}

std::string quoted_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@%^";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// Columns on a terminal, near enough: UTF-8's continuation bytes take none.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

std::string printed(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

uint64_t whole(double number) noexcept {
  constexpr double kMost = 9223372036854775808.0;
  return number < kMost ? static_cast<uint64_t>(number) : uint64_t{1} << 63;
}

std::string bytes_text(uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes == 0) return "-";
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return printed("%.1f ", value) + kUnits[unit];
}

std::string seconds_text(double seconds) {
  return printed("%.3f s", seconds);
}

std::string percent_text(double share) {
  const double percent = share * 100;
  if (percent > 0 && percent < 0.05) return "< 0.1 %";
  return printed(percent >= 9.95 || percent == 0 ? "%.0f %%" : "%.1f %%", percent);
}

std::string mb_text(double mb_per_s) {
  return printed(mb_per_s < 10 ? "%.2f" : mb_per_s < 100 ? "%.1f" : "%.0f", mb_per_s);
}

std::string rate_text(uint64_t bytes, double seconds) {
  if (bytes == 0 || seconds <= 0) return "-";
  return printed("%.0f", static_cast<double>(bytes) / seconds / 1e6);
}

void add_sentence(std::string& text, std::string_view sentence) {
  text.append(text.empty() ? "" : "; ").append(sentence);
}

std::string without_controls(std::string_view text) {
  std::string shown(text);
  for (size_t i = 0; i < shown.size(); ++i) {
    if (is_control(shown[i])) {
      shown[i] = '?';
    } else if (shown[i] == '\xc2' && i + 1 < shown.size() && is_second_of_control(shown[i + 1])) {
      shown.replace(i, 2, "?");
    }
  }
  return shown;
}

std::string shown_name(std::string_view name, size_t most) {
  std::string shown = without_controls(name);
  if (shown.size() <= most) return shown;
  size_t start = shown.size() - most + 3;
  // Not within a character.
  while (start < shown.size() && (static_cast<unsigned char>(shown[start]) & 0xc0) == 0x80) ++start;
  return "..." + shown.substr(start);
}

std::string quoted_name(std::string_view path) {
  return "'" + shown_name(path, 80) + "'";
}

std::string shown_command(const std::vector<std::string>& words, size_t most) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    text += quoted_word(word);
    if (text.size() > most) break;
  }
  text = without_controls(text);
  if (text.size() <= most) return text;
  size_t end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::string Table::text() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - width_of(row[i]), ' ');
      const bool to_the_left = i == 0 || i + 1 == widths.size();
      line += "  " + (to_the_left ? row[i] + blanks : blanks + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string wrapped(std::string_view text, size_t width, size_t indent) {
  std::string lines;
  size_t column = indent;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (column > indent && column + 1 + word.size() > width) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += word.size();
  }
  return lines;
}

}  // namespace ioweave::cli
