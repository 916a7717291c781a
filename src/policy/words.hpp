#pragma once

// Settings with a few values, as the event log and every interface write them.

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "policy/policy.hpp"

namespace ioweave::policy {

/// What the setting is called, and its words by the values of the enumeration.
template <class Enum>
struct Words;
template <>
struct Words<Scope> {
  static constexpr std::string_view kKey = "scope";
  static constexpr std::array<std::string_view, 2> kAll{"node", "shared"};
};
template <>
struct Words<Scheduling> {
  static constexpr std::string_view kKey = "scheduling";
  static constexpr std::array<std::string_view, 3> kAll{"none", "strict", "weighted"};
};
template <>
struct Words<Class> {
  static constexpr std::string_view kKey = "class";
  static constexpr std::array<std::string_view, kClasses> kAll{"foreground", "write_behind",
                                                               "prefetch"};
};

/// False, and in `why` the words that were expected, if `word` is none of them.
template <class Enum>
[[nodiscard]] bool parse_word(std::string_view word, Enum& value, std::string& why) {
  constexpr auto& kAll = Words<Enum>::kAll;
  const auto found = std::find(kAll.begin(), kAll.end(), word);
  if (found != kAll.end()) {
    value = static_cast<Enum>(found - kAll.begin());
    return true;
  }
  why = "expected " + std::string(Words<Enum>::kKey);
  for (size_t i = 0; i < kAll.size(); ++i) {
    why.append(i == 0 ? "=" : "|").append(kAll[i]);
  }
  why.append(", found '").append(word).append("'");
  return false;
}

}  // namespace ioweave::policy
