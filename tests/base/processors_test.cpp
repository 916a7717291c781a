#include "base/processors.hpp"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ioweave {
namespace {

std::string again(std::string_view list) {
  Processors processors;
  std::string why;
  return Processors::parse(list, processors, why) ? processors.to_text() : "refused: " + why;
}

TEST(Processors, ListsAreThoseOfTheKernel) {
  EXPECT_EQ(again("0"), "0");
  EXPECT_EQ(again("3,0,1"), "0-1,3");
  EXPECT_EQ(again("2-5,9-9,4"), "2-5,9");
  EXPECT_EQ(again("0-1023"), "0-1023");
}

TEST(Processors, WhatIsNoListIsNamed) {
  for (const char* const list : {"", "x", "1,", ",1", "1-", "-1", "5-2", "1024", "0-1024", "1 2",
                                 "99999999999999999999", "1-2-3", "0x1"}) {
    EXPECT_THAT(again(list), ::testing::StartsWith("refused: '" + std::string(list) + "'"));
  }
}

TEST(Processors, AllowedAreThoseOfTheThread) {
  const Processors all = Processors::allowed();
  ASSERT_FALSE(all.empty());
  std::thread([&] {
    unsigned first = 0;
    while (!all.has(first)) {
      ++first;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(Processors::allowed().to_text(), std::to_string(first));
  }).join();
}

}  // namespace
}  // namespace ioweave
