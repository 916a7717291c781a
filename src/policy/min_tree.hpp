#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace ioweave::policy {

/// A tournament tree over slots 0, 1, 2, ... that finds the first slot, from a given one on, whose
/// value is at most a bound, in O(log slots). Slots that were never set hold kNothing and are never
/// found. One thread at a time.
class MinTree {
 public:
  static constexpr int64_t kNothing = std::numeric_limits<int64_t>::max();
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  [[nodiscard]] int64_t smallest() const noexcept { return nodes_[1]; }
  [[nodiscard]] int64_t get(uint32_t slot) const noexcept {
    return slot < leaves() ? nodes_[leaves() + slot] : kNothing;
  }

  void set(uint32_t slot, int64_t value) {
    if (slot >= leaves()) {
      grow(slot + 1);
    }
    size_t node = leaves() + slot;
    nodes_[node] = value;
    while (node > 1) {
      node /= 2;
      const int64_t least = std::min(nodes_[2 * node], nodes_[2 * node + 1]);
      if (nodes_[node] == least) {
        return;
      }
      nodes_[node] = least;
    }
  }

  /// The first slot >= `from` whose value is <= `bound` (which is less than kNothing), or kNone.
  [[nodiscard]] uint32_t find(uint32_t from, int64_t bound) const noexcept {
    if (from >= leaves()) {
      return kNone;
    }
    size_t node = leaves() + from;
    while (nodes_[node] > bound) {
      // Everything under a right child has been passed: climb to the next subtree on the right.
      while ((node & 1) != 0) {
        node /= 2;
      }
      if (node == 0) {
        return kNone;
      }
      ++node;
    }
    while (node < leaves()) {
      node *= 2;
      node += nodes_[node] > bound ? 1 : 0;
    }
    return static_cast<uint32_t>(node - leaves());
  }

  void clear() { nodes_.assign(2, kNothing); }

 private:
  [[nodiscard]] size_t leaves() const noexcept { return nodes_.size() / 2; }

  void grow(size_t slots) {
    const size_t before = leaves();
    const size_t after = std::bit_ceil(slots);
    std::vector<int64_t> grown(2 * after, kNothing);
    std::copy_n(nodes_.begin() + static_cast<ptrdiff_t>(before), before,
                grown.begin() + static_cast<ptrdiff_t>(after));
    for (size_t node = after - 1; node > 0; --node) {
      grown[node] = std::min(grown[2 * node], grown[2 * node + 1]);
    }
    nodes_.swap(grown);
  }

  /// Node 1 is the root, node n has children 2n and 2n + 1, the leaves are the second half.
  std::vector<int64_t> nodes_ = {kNothing, kNothing};
};

}  // namespace ioweave::policy
