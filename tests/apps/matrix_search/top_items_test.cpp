// The greatest items, against sorting all of them.
#include "top_items.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace matrix_search {
namespace {

std::vector<Item> sorted_top(const std::vector<int32_t>& values, size_t count) {
  std::vector<Item> items;
  for (size_t i = 0; i < values.size(); ++i) {
    items.push_back({values[i], i});
  }
  std::sort(items.begin(), items.end(), is_greater);
  items.resize(std::min(count, items.size()));
  return items;
}

TEST(TopItems, AreThoseThatSortingFinds) {
  std::mt19937_64 random(1);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{29}, size_t{30}, size_t{5000}}) {
    // Few values, so that many are equal.
    for (const int32_t most : {3, 1000, std::numeric_limits<int32_t>::max()}) {
      std::vector<int32_t> values(size);
      for (int32_t& value : values) {
        value = std::uniform_int_distribution<int32_t>(-most, most)(random);
      }
      TopItems top(30);
      const size_t middle = size / 3;
      // The parts come in another order.
      top.add(std::span(values).subspan(middle), middle);
      top.add(std::span(values).first(middle), 0);
      EXPECT_EQ(top.sorted(), sorted_top(values, 30)) << size << " values up to " << most;
    }
  }
}

TEST(TopItems, OfNoneThereAreNone) {
  TopItems top(0);
  const std::vector<int32_t> values{1, 2, 3};
  top.add(values, 0);
  EXPECT_TRUE(top.sorted().empty());
}

TEST(TopItems, TheLeastValueCounts) {
  TopItems top(3);
  const std::vector<int32_t> values(2, std::numeric_limits<int32_t>::min());
  top.add(values, 7);
  ASSERT_EQ(top.sorted().size(), 2u);
  EXPECT_EQ(top.sorted().front().index, 7u);
}

}  // namespace
}  // namespace matrix_search
