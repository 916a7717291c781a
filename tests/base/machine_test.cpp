#include "base/machine.hpp"

#include <gtest/gtest.h>

namespace ioweave {
namespace {

TEST(Machine, KnowsItself) {
  const Machine machine = this_machine();
  EXPECT_FALSE(machine.kernel.empty());
  EXPECT_GE(machine.cpus, machine.cpus_allowed);
  EXPECT_GE(machine.cpus_allowed, 1u);
  EXPECT_GT(machine.memory_bytes, 1u << 20);
}

}  // namespace
}  // namespace ioweave
