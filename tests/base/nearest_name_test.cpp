#include "base/nearest_name.hpp"

#include <array>

#include <gtest/gtest.h>

namespace ioweave {
namespace {

constexpr std::array<std::string_view, 4> kPolicies{"off", "sync", "writes", "overlap"};

TEST(NearestName, SuggestsASlipOfTheFinger) {
  EXPECT_EQ(nearest_name("overlop", kPolicies), "overlap");
  EXPECT_EQ(nearest_name("write", kPolicies), "writes");
  EXPECT_EQ(nearest_name("snyc", kPolicies), "sync");
}

TEST(NearestName, IsSilentWhereNothingIsClose) {
  EXPECT_EQ(nearest_name("turbo-mode", kPolicies), "");
  EXPECT_EQ(nearest_name("anything", {}), "");
  EXPECT_EQ(nearest_name("a", std::array<std::string_view, 2>{"b", "ssd"}), "");
}

}  // namespace
}  // namespace ioweave
