#include "top_items.hpp"

#include <algorithm>
#include <limits>

namespace matrix_search {
namespace {

/// Few items are great enough, so a block is first looked at as a whole.
constexpr size_t kBlock = 1024;

int32_t greatest(std::span<const int32_t> values) {
  int32_t most = std::numeric_limits<int32_t>::min();
  for (const int32_t value : values) {
    most = std::max(most, value);
  }
  return most;
}

}  // namespace

void TopItems::add(std::span<const int32_t> values, uint64_t first_index) {
  if (count_ == 0) {
    return;
  }
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const auto block = values.subspan(begin, std::min(kBlock, values.size() - begin));
    if (heap_.size() == count_ && greatest(block) < heap_.front().value) {
      continue;
    }
    for (size_t i = 0; i < block.size(); ++i) {
      add({block[i], first_index + begin + i});
    }
  }
}

void TopItems::add(const Item& item) {
  if (heap_.size() == count_) {
    if (heap_.empty() || !is_greater(item, heap_.front())) {
      return;
    }
    std::pop_heap(heap_.begin(), heap_.end(), is_greater);
    heap_.pop_back();
  }
  heap_.push_back(item);
  std::push_heap(heap_.begin(), heap_.end(), is_greater);
}

std::vector<Item> TopItems::sorted() const {
  std::vector<Item> items = heap_;
  std::sort(items.begin(), items.end(), is_greater);
  return items;
}

int32_t item_at(uint64_t seed, uint64_t index) noexcept {
  // splitmix64
  uint64_t mixed = index + (seed + 1) * 0x9e3779b97f4a7c15ULL;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<int32_t>(static_cast<uint32_t>(mixed >> 32));
}

}  // namespace matrix_search
