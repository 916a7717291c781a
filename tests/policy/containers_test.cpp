#include <cstdint>
#include <random>
#include <unordered_map>
#include <vector>

#include <gtest/gtest.h>

#include "policy/id_map.hpp"
#include "policy/min_tree.hpp"
#include "policy/pool.hpp"
#include "policy/turn_ring.hpp"

namespace ioweave::policy {
namespace {

constexpr unsigned kSeed = 20240607;

TEST(IdMap, AgreesWithUnorderedMapOverRandomInsertsAndErases) {
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  std::vector<int> values(512);
  IdMap<int> map;
  std::unordered_map<uint64_t, int*> reference;
  for (int step = 0; step < 200'000; ++step) {
    // Addresses of cache lines: only a few bits differ, and none of the lowest six.
    const uint64_t key = 0x7f00'0000'0000u + random() % values.size() * 64;
    int* const value = &values[random() % values.size()];
    if (random() % 2 == 0) {
      EXPECT_EQ(map.insert(key, value), reference.emplace(key, value).second);
    } else {
      const auto found = reference.find(key);
      EXPECT_EQ(map.erase(key), found == reference.end() ? nullptr : found->second);
      reference.erase(key);
    }
    ASSERT_EQ(map.size(), reference.size());
  }
  for (const auto& [key, value] : reference) {
    EXPECT_EQ(map.find(key), value);
  }
}

TEST(IdMap, FindsNothingWhileEmpty) {
  IdMap<int> map;
  EXPECT_EQ(map.find(0), nullptr);
  EXPECT_EQ(map.erase(0), nullptr);
}

TEST(IdMap, TakesAnyKeyIncludingZeroAndAllOnes) {
  IdMap<int> map;
  int zero = 0;
  int ones = 1;
  EXPECT_TRUE(map.insert(0, &zero));
  EXPECT_TRUE(map.insert(~uint64_t{0}, &ones));
  EXPECT_EQ(map.find(0), &zero);
  EXPECT_EQ(map.find(~uint64_t{0}), &ones);
}

TEST(Pool, ReusesTheLastReleasedObjectInItsFirstState) {
  Pool<int> pool;
  int* const first = pool.acquire();
  *first = 7;
  pool.release(first);
  EXPECT_EQ(pool.acquire(), first);
  EXPECT_EQ(*first, 0);
}

TEST(MinTree, AgreesWithALinearSearch) {
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  for (const uint32_t slots : {1u, 2u, 3u, 64u, 100u}) {
    MinTree tree;
    std::vector<int64_t> values(slots, MinTree::kNothing);
    for (int step = 0; step < 4000; ++step) {
      const auto slot = static_cast<uint32_t>(random() % slots);
      values[slot] = random() % 3 == 0 ? MinTree::kNothing : static_cast<int64_t>(random() % 50);
      tree.set(slot, values[slot]);
      const auto from = static_cast<uint32_t>(random() % (slots + 2));
      const auto bound = static_cast<int64_t>(random() % 52) - 1;
      uint32_t expected = from;
      while (expected < slots && values[expected] > bound) {
        ++expected;
      }
      ASSERT_EQ(tree.find(from, bound), expected < slots ? expected : MinTree::kNone);
    }
  }
}

TEST(TurnRing, TurnsGoAroundAmongThoseWhoWait) {
  TurnRing ring;
  for (const uint32_t slot : {0u, 1u, 3u}) {
    ring.set_waiting(slot, 1);
  }
  std::vector<uint32_t> order;
  for (int i = 0; i < 6; ++i) {
    order.push_back(ring.pick(1, 1));
    ring.serve(order.back());
  }
  EXPECT_EQ(order, (std::vector<uint32_t>{0, 1, 3, 0, 1, 3}));
}

TEST(TurnRing, WhoFillsInTakesTurnsWhileTheHolderKeepsItsTurn) {
  TurnRing ring;
  ring.set_waiting(0, 100);
  ring.set_waiting(1, 1);
  ring.set_waiting(2, 1);
  std::vector<uint32_t> order;
  for (int i = 0; i < 4; ++i) {
    order.push_back(ring.pick(10, 10));
    EXPECT_FALSE(ring.serve(order.back()));
  }
  EXPECT_EQ(order, (std::vector<uint32_t>{1, 2, 1, 2}));
  EXPECT_EQ(ring.pick(100, 100), 0u);
  EXPECT_TRUE(ring.serve(0));
}

TEST(TurnRing, OpensAgainWhenTheHolderLeavesWithoutBeingServed) {
  TurnRing ring;
  ring.set_waiting(5, 100);
  for (uint32_t i = 0; i < TurnRing::kMostPassed; ++i) {
    EXPECT_FALSE(ring.is_closed());
    ring.pass_holder();
  }
  EXPECT_TRUE(ring.is_closed());
  ring.set_idle(5);
  EXPECT_FALSE(ring.is_closed());
}

TEST(TurnRing, WhoBeginsToWaitLaterDoesNotGetInFrontOfTheHolder) {
  TurnRing ring;
  ring.set_waiting(5, 100);
  EXPECT_EQ(ring.find_holder(), 5u);
  ring.set_waiting(2, 1);
  EXPECT_EQ(ring.find_holder(), 5u);
}

}  // namespace
}  // namespace ioweave::policy
