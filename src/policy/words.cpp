#include "policy/words.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace ioweave::policy {
namespace {

// By the values of the enumerations.
constexpr std::array<std::string_view, 2> kScopes{"node", "shared"};
constexpr std::array<std::string_view, 3> kSchedulings{"none", "strict", "weighted"};
constexpr std::array<std::string_view, kClasses> kClassNames{"foreground", "write_behind",
                                                             "prefetch"};

template <class Enum>
bool parse_one_of(std::string_view key, std::span<const std::string_view> words,
                  std::string_view word, Enum& value, std::string& why) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found != words.end()) {
    value = static_cast<Enum>(found - words.begin());
    return true;
  }
  why = "expected " + std::string(key);
  for (size_t i = 0; i < words.size(); ++i) {
    why.append(i == 0 ? "=" : "|").append(words[i]);
  }
  why.append(", found '").append(word).append("'");
  return false;
}

}  // namespace

std::string_view word_of(Scope scope) {
  return kScopes[static_cast<unsigned>(scope)];
}
std::string_view word_of(Scheduling scheduling) {
  return kSchedulings[static_cast<unsigned>(scheduling)];
}
std::string_view word_of(Class priority) {
  return kClassNames[static_cast<unsigned>(priority)];
}

bool parse_word(std::string_view word, Scope& scope, std::string& why) {
  return parse_one_of("scope", kScopes, word, scope, why);
}
bool parse_word(std::string_view word, Scheduling& scheduling, std::string& why) {
  return parse_one_of("scheduling", kSchedulings, word, scheduling, why);
}
bool parse_word(std::string_view word, Class& priority, std::string& why) {
  return parse_one_of("class", kClassNames, word, priority, why);
}

}  // namespace ioweave::policy
