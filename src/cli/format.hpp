#pragma once

// Figures and tables for people.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ioweave::cli {

[[nodiscard]] std::string bytes_text(uint64_t bytes);    ///< "1.5 GiB", "-" for none
[[nodiscard]] std::string seconds_text(double seconds);  ///< "12.310 s"
[[nodiscard]] std::string percent_text(double share);    ///< 0.774 -> "77 %", 0.004 -> "0.4 %"
[[nodiscard]] std::string rate_text(uint64_t bytes, double seconds);  ///< MB/s, "-" where unknown

/// Text that somebody else wrote as a terminal may get it: each control character becomes '?'.
[[nodiscard]] std::string without_controls(std::string_view text);

/// A name as it may be shown on a terminal: control characters become '?', and of a long one the
/// end is kept behind "...".
[[nodiscard]] std::string shown_name(std::string_view name, size_t most);

/// Words as a shell would take them, cut at `most` characters.
[[nodiscard]] std::string shown_command(const std::vector<std::string>& words, size_t most);

/// Columns with two blanks between them: the first to the left, the last to the left, those between
/// to the right. Lines are indented by two blanks.
class Table {
 public:
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// Breaks text between words at `width` columns; every line but the first is indented.
[[nodiscard]] std::string wrapped(std::string_view text, size_t width, size_t indent);

}  // namespace ioweave::cli
