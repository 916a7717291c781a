#pragma once

// Figures and tables for people to read.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ioweave::cli {

/// Returns a number by a format of printf(3), of less than 64 characters.
[[nodiscard]] std::string printed(const char* format, double value);

/// Returns a number that is not negative without its fraction; at most 2^63.
[[nodiscard]] uint64_t whole(double number) noexcept;

[[nodiscard]] std::string bytes_text(uint64_t bytes);    ///< "1.5 GiB", "-" for none
[[nodiscard]] std::string seconds_text(double seconds);  ///< "12.310 s"
[[nodiscard]] std::string percent_text(double share);    ///< 0.774 -> "77 %", 0.004 -> "0.4 %"
[[nodiscard]] std::string mb_text(double mb_per_s);      ///< three digits: "1.25", "12.5", "125"
[[nodiscard]] std::string rate_text(uint64_t bytes, double seconds);  ///< MB/s, "-" where unknown

/// Appends a part to a sentence, behind a semicolon where it is not the first.
void add_sentence(std::string& text, std::string_view sentence);

/// Makes a foreign text safe for a terminal: each control character becomes '?'.
[[nodiscard]] std::string without_controls(std::string_view text);

/// Makes a name safe for a terminal: control characters become '?', and a long name is shortened to
/// "..." and its end.
[[nodiscard]] std::string shown_name(std::string_view name, size_t most);

/// A path in quotes, as messages name it, shortened to 80 characters.
[[nodiscard]] std::string quoted_name(std::string_view path);

/// Writes words as a shell would read them, cut at `most` characters.
[[nodiscard]] std::string shown_command(const std::vector<std::string>& words, size_t most);

/// Columns with two blanks between them. The first and the last are aligned left, those between
/// right. Lines are indented by two blanks.
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
