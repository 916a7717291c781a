#include "cli/machine.hpp"

#include <gtest/gtest.h>

namespace ioweave::cli {
namespace {

TEST(Machine, KnowsItself) {
  const stats::Machine machine = this_machine();
  EXPECT_FALSE(machine.kernel.empty());
  EXPECT_GE(machine.cpus, machine.cpus_allowed);
  EXPECT_GE(machine.cpus_allowed, 1u);
  EXPECT_GT(machine.memory_bytes, 1u << 20);
}

TEST(Time, IsIso8601InUtc) {
  const std::string now = utc_now();
  ASSERT_EQ(now.size(), 24u);
  EXPECT_EQ(now[10], 'T');
  EXPECT_EQ(now[19], '.');
  EXPECT_EQ(now[23], 'Z');
}

}  // namespace
}  // namespace ioweave::cli
