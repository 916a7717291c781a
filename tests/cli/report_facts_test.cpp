#include "cli/report_facts.hpp"

#include <gtest/gtest.h>

namespace ioweave::cli {
namespace {

TEST(Time, IsIso8601InUtc) {
  const std::string now = utc_now();
  ASSERT_EQ(now.size(), 24u);
  EXPECT_EQ(now[10], 'T');
  EXPECT_EQ(now[19], '.');
  EXPECT_EQ(now[23], 'Z');
}

}  // namespace
}  // namespace ioweave::cli
