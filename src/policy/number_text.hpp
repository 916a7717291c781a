#pragma once

#include <array>
#include <charconv>
#include <string>
#include <string_view>

namespace ioweave::policy {

/// Doubles are written as the shortest decimal that reads back to the same bits.
template <class Number>
void append_number(std::string& out, Number number) {
  std::array<char, 32> digits{};  // The longest double takes 24.
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

template <class Number>
[[nodiscard]] std::string number_text(Number number) {
  std::string text;
  append_number(text, number);
  return text;
}

/// False where `text` is not one number and nothing else, or is out of range.
template <class Number>
[[nodiscard]] bool parse_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace ioweave::policy
