#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace matrix_search {

/// An item of the matrix and where it stands: the number of items before it.
struct Item {
  int32_t value = 0;
  uint64_t index = 0;
  bool operator==(const Item&) const = default;
};

/// Whether `a` comes first: by its value, of equal ones by its index.
[[nodiscard]] inline bool is_greater(const Item& a, const Item& b) noexcept {
  return a.value != b.value ? a.value > b.value : a.index < b.index;
}

/// The greatest items that it was shown.
class TopItems {
 public:
  explicit TopItems(size_t count) : count_(count) {}

  /// Items from `first_index` on, in any order of calls.
  void add(std::span<const int32_t> values, uint64_t first_index);
  void add(const Item& item);

  /// The greatest first.
  [[nodiscard]] std::vector<Item> sorted() const;

 private:
  size_t count_;
  std::vector<Item> heap_;  // the least of them on top
};

/// Item `index` of the matrix that a seed makes.
[[nodiscard]] int32_t item_at(uint64_t seed, uint64_t index) noexcept;

}  // namespace matrix_search
