#include "calls/preload/glob.hpp"

namespace ioweave::calls {
namespace {

/// The ']' that ends the set opened at `set`, or null.
const char* set_end(const char* set) {
  const char* at = set + 1;
  if (*at == '!' || *at == '^') {
    ++at;
  }
  if (*at == ']') {
    ++at;  // first in a set it stands for itself
  }
  while (*at != '\0' && *at != ']') {
    ++at;
  }
  return *at == ']' ? at : nullptr;
}

bool set_contains(const char* set, const char* end, char c) {
  const char* at = set + 1;
  const bool negated = *at == '!' || *at == '^';
  if (negated) {
    ++at;
  }
  bool found = false;
  for (; at < end; ++at) {
    if (at + 2 < end && at[1] == '-') {
      found |= at[0] <= c && c <= at[2];
      at += 2;
    } else {
      found |= *at == c;
    }
  }
  return found != negated;
}

/// Matches one character of `path` against the unit of `glob` that is not a star; null where it
/// does not, else what follows in the pattern.
const char* match_one(const char* glob, char c) {
  switch (*glob) {
    case '?':
      return c != '/' ? glob + 1 : nullptr;
    case '[':
      if (const char* end = set_end(glob); end != nullptr) {
        return c != '/' && set_contains(glob, end, c) ? end + 1 : nullptr;
      }
      break;
    case '\\':
      if (glob[1] != '\0') {
        return glob[1] == c ? glob + 2 : nullptr;
      }
      break;
    default:
      break;
  }
  return *glob == c && c != '\0' ? glob + 1 : nullptr;
}

/// Where to go on when what follows a star did not match: the star takes one character more.
struct Retry {
  const char* glob = nullptr;
  const char* path = nullptr;
};

}  // namespace

bool glob_matches(const char* glob, const char* path) noexcept {
  // The last star of each kind suffices: an earlier one of the same kind could only take more, and
  // a '**' may extend over anything a later '*' could not.
  Retry single;
  Retry twofold;
  while (true) {
    if (*glob == '*') {
      const bool deep = glob[1] == '*';
      while (*glob == '*') {
        ++glob;
      }
      if (deep) {
        twofold = {glob, path};
        single = {};
      } else {
        single = {glob, path};
      }
      continue;
    }
    if (*path == '\0' && *glob == '\0') {
      return true;
    }
    const char* const next = *path != '\0' ? match_one(glob, *path) : nullptr;
    if (next != nullptr) {
      glob = next;
      ++path;
    } else if (single.glob != nullptr && *single.path != '\0' && *single.path != '/') {
      path = ++single.path;
      glob = single.glob;
    } else if (twofold.glob != nullptr && *twofold.path != '\0') {
      path = ++twofold.path;
      glob = twofold.glob;
      single = {};
    } else {
      return false;
    }
  }
}

}  // namespace ioweave::calls
