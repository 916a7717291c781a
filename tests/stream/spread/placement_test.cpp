// Which target takes the next item, in virtual time.
#include "stream/spread/placement.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace ioweave::stream {
namespace {

constexpr uint64_t kItem = 1 << 20;

/// Devices of given speeds that write items one after the other, from a program that has so many
/// buffers and computes so long for each.
class Devices {
 public:
  Devices(std::vector<double> mb_per_s, bool by_load)
      : placement(mb_per_s.size(), by_load),
        speed_(std::move(mb_per_s)),
        free_at_(speed_.size()),
        placed(speed_.size()) {}

  void run(uint64_t items, size_t buffers, uint64_t compute_ns) {
    for (uint64_t i = 0; i < items; ++i) {
      now_ += compute_ns;
      end_until(now_);
      while (under_way_.size() == buffers) {
        now_ = under_way_.begin()->first;
        end_until(now_);
      }
      const size_t target = placement.choose(kItem, now_);
      placement.start(target, kItem, now_);
      ++placed[target];
      const auto takes = static_cast<uint64_t>(kItem / speed_[target] * 1e3);
      free_at_[target] = std::max(free_at_[target], now_) + takes;
      under_way_.emplace(free_at_[target], target);
    }
    end_until(UINT64_MAX);
  }
  [[nodiscard]] uint64_t end_ns() const {
    return *std::max_element(free_at_.begin(), free_at_.end());
  }

  Placement placement;

 private:
  void end_until(uint64_t until) {
    while (!under_way_.empty() && under_way_.begin()->first <= until) {
      placement.end(under_way_.begin()->second, kItem, true, under_way_.begin()->first);
      under_way_.erase(under_way_.begin());
    }
  }

  const std::vector<double> speed_;
  std::vector<uint64_t> free_at_;
  std::multimap<uint64_t, size_t> under_way_;
  uint64_t now_ = 1'000'000;

 public:
  std::vector<uint64_t> placed;
};

TEST(Placement, TakesTurnsWithoutThoseThatFailed) {
  Placement placement(3, false);
  std::vector<size_t> chosen;
  for (int i = 0; i < 8; ++i) {
    if (i == 4) {
      placement.fail(1);
    }
    chosen.push_back(placement.choose(kItem, 0));
    placement.start(chosen.back(), kItem, 0);
  }
  EXPECT_EQ(chosen, (std::vector<size_t>{0, 1, 2, 0, 2, 0, 2, 0}));
  placement.fail(0);
  placement.fail(2);
  EXPECT_EQ(placement.choose(kItem, 0), Placement::kNone);
}

TEST(Placement, ByLoadGivesEqualDevicesEqualParts) {
  for (const uint64_t compute_ns : {0u, 1'000'000u, 100'000'000u}) {
    Devices devices({100, 100, 100, 100}, true);
    devices.run(400, 8, compute_ns);
    for (const uint64_t placed : devices.placed) {
      EXPECT_NEAR(static_cast<double>(placed), 100, 5) << compute_ns;
    }
  }
}

TEST(Placement, ByLoadGivesEachDeviceWhatItCanWrite) {
  Devices devices({200, 100, 50}, true);
  devices.run(700, 9, 0);
  EXPECT_NEAR(static_cast<double>(devices.placed[0]), 400, 40);
  EXPECT_NEAR(static_cast<double>(devices.placed[1]), 200, 20);
  EXPECT_NEAR(static_cast<double>(devices.placed[2]), 100, 20);
  Devices turns({200, 100, 50}, false);
  turns.run(700, 9, 0);
  EXPECT_LT(devices.end_ns() * 3, turns.end_ns() * 2);
}

TEST(Placement, ByLoadKeepsAwayFromADeviceThatHangs) {
  Placement placement(2, true);
  uint64_t now = 0;
  placement.start(1, kItem, now);  // and it never ends
  uint64_t to_hanging = 0;
  for (int i = 0; i < 1000; ++i) {
    now += 10'000'000;
    const size_t target = placement.choose(kItem, now);
    if (target == 1) {
      ++to_hanging;
      placement.start(target, kItem, now);
      continue;
    }
    placement.start(target, kItem, now);
    placement.end(target, kItem, true, now + 9'000'000);
  }
  EXPECT_LE(to_hanging, 10u);
}

/// A device that becomes slow gets less soon.
TEST(Placement, ByLoadForgetsHowFastADeviceOnceWas) {
  Placement placement(2, true);
  uint64_t now = 0;
  const auto write = [&](uint64_t first_ns, uint64_t second_ns, int items) {
    std::vector<uint64_t> placed(2);
    for (int i = 0; i < items; ++i) {
      const size_t target = placement.choose(kItem, now);
      placement.start(target, kItem, now);
      ++placed[target];
      now += target == 0 ? first_ns : second_ns;
      placement.end(target, kItem, true, now);
    }
    return placed;
  };
  static_cast<void>(write(10'000'000, 10'000'000, 1000));
  static_cast<void>(write(100'000'000, 10'000'000, 1000));
  EXPECT_LE(write(100'000'000, 10'000'000, 100)[0], 10u);
}

}  // namespace
}  // namespace ioweave::stream
