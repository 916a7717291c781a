#pragma once

// Shell patterns of paths. The interposer and `ioweave config explain` use the same matcher, so
// that the explanation is true. It has no allocation, recursion or locale, so the interposer may
// call it wherever a program may call open(2).
//
//   ?      one character, not '/'
//   *      any characters, not '/'
//   **     any characters; between slashes ("a/**/b") any number of whole components, even none
//   [a-c]  one of a set, [!a-c] one outside it, never '/'
//   \x     x itself
//
// Backtracking keeps one point for '*' and one for '**'. That is enough: a later '**' absorbs
// whatever an earlier wildcard could have taken, and '*' never leaves its component.

#include <cstddef>
#include <string_view>

#include "config/run_config.hpp"

namespace ioweave::config {
namespace glob_detail {

/// Matches `c` against the set that opens at pattern[at] == '['. Moves `at` behind the set. If the
/// set never closes, '[' is an ordinary character.
constexpr bool match_set(std::string_view pattern, size_t& at, char c) noexcept {
  const size_t open = at;
  size_t next = at + 1;
  const bool negated = next < pattern.size() && (pattern[next] == '!' || pattern[next] == '^');
  next += negated ? 1 : 0;
  bool inside = false;
  for (size_t first = next; next < pattern.size(); ++next) {
    if (pattern[next] == ']' && next != first) {
      at = next + 1;
      return inside != negated && c != '/';
    }
    char low = pattern[next];
    if (low == '\\' && next + 1 < pattern.size()) low = pattern[++next];
    char high = low;
    if (next + 2 < pattern.size() && pattern[next + 1] == '-' && pattern[next + 2] != ']') {
      high = pattern[next + 2];
      next += 2;
    }
    inside = inside || (low <= c && c <= high);
  }
  at = open + 1;
  return c == '[';
}

/// Matches one character of the path against one element of the pattern that is not a star.
constexpr bool match_one(std::string_view pattern, size_t& at, char c) noexcept {
  switch (pattern[at]) {
    case '?':
      ++at;
      return c != '/';
    case '[':
      return match_set(pattern, at, c);
    case '\\':
      if (at + 1 < pattern.size()) ++at;
      [[fallthrough]];
    default:
      return pattern[at++] == c;
  }
}

/// Where to continue after a mismatch: the pattern behind a star, and the place in the path.
struct Retry {
  static constexpr size_t kNone = static_cast<size_t>(-1);
  size_t pattern = kNone;
  size_t path = 0;
  bool components = false;  ///< "**/": only whole components are skipped
};

}  // namespace glob_detail

/// Returns true if the whole of `path` matches. Takes at most pattern times path steps.
constexpr bool glob_matches(std::string_view pattern, std::string_view path) noexcept {
  using glob_detail::Retry;
  Retry star;
  Retry globstar;
  size_t p = 0;
  size_t s = 0;
  while (true) {
    if (pattern.substr(p, 2) == "**") {
      const bool starts_component = p == 0 || pattern[p - 1] == '/';
      p += 2;
      const bool components = starts_component && p < pattern.size() && pattern[p] == '/';
      p += components ? 1 : 0;
      globstar = {p, s, components};
      star = {};
      continue;
    }
    if (p < pattern.size() && pattern[p] == '*') {
      star = {++p, s, false};
      continue;
    }
    if (s == path.size() && p == pattern.size()) return true;
    if (s < path.size() && p < pattern.size() && glob_detail::match_one(pattern, p, path[s])) {
      ++s;
      continue;
    }
    if (star.pattern != Retry::kNone && star.path < path.size() && path[star.path] != '/') {
      p = star.pattern;
      s = ++star.path;
      continue;
    }
    star = {};
    if (globstar.pattern == Retry::kNone || globstar.path >= path.size()) return false;
    if (globstar.components) {
      const size_t slash = path.find('/', globstar.path);
      if (slash == std::string_view::npos) return false;
      globstar.path = slash + 1;
    } else {
      ++globstar.path;
    }
    p = globstar.pattern;
    s = globstar.path;
  }
}

inline constexpr uint32_t kNoRule = UINT32_MAX;

/// Returns the first rule whose glob matches the absolute path, or kNoRule.
inline uint32_t matching_rule(const RunConfig& config, std::string_view path) noexcept {
  const uint32_t rules = config.rules < RunConfig::kMaxRules ? config.rules : RunConfig::kMaxRules;
  for (uint32_t i = 0; i < rules; ++i) {
    const std::string_view stored(config.rule[i].glob, sizeof config.rule[i].glob);
    if (glob_matches(stored.substr(0, stored.find('\0')), path)) return i;
  }
  return kNoRule;
}

/// Returns the policy of a file: that of its rule, else that of the run.
inline RunPolicy policy_of(const RunConfig& config, std::string_view path) noexcept {
  const uint32_t rule = matching_rule(config, path);
  return rule == kNoRule ? config.policy : config.rule[rule].policy;
}

}  // namespace ioweave::config
