#include "base/nearest_name.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace ioweave {
namespace {

/// Levenshtein distance by the usual one-row recurrence.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known) {
  std::string_view best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string_view candidate : known) {
    const size_t distance = edit_distance(name, candidate);
    const bool keeps_some = distance < std::max(name.size(), candidate.size());
    if (distance < best_distance && keeps_some) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace ioweave
