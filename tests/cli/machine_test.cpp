#include "cli/machine.hpp"

#include <gtest/gtest.h>

namespace ioweave::cli {
namespace {

TEST(Mounts, AreParsedWithOptionalFieldsAndEscapes) {
  const auto mounts = parse_mountinfo(
      "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
      "30 22 0:25 / /dev/shm rw shared:2 master:1 - tmpfs tmpfs rw\n"
      "31 22 0:40 / /my\\040data rw - fuse.slowfs slow\\134fs rw\n"
      "\n"
      "nonsense\n");
  ASSERT_EQ(mounts.size(), 3u);
  EXPECT_EQ(mounts[0].type, "ext4");
  EXPECT_EQ(mounts[1].path, "/dev/shm");
  EXPECT_EQ(mounts[2].path, "/my data");
  EXPECT_EQ(mounts[2].source, "slow\\fs");
}

TEST(Mounts, TheLongestThatHoldsThePathIsItsOwn) {
  const std::vector<stats::MountPoint> mounts{
      {"/", "ext4", "a"}, {"/data", "xfs", "b"}, {"/data", "nfs", "c"}};
  EXPECT_EQ(mount_of(mounts, "/data/x")->type, "nfs");
  EXPECT_EQ(mount_of(mounts, "/data")->type, "nfs");
  EXPECT_EQ(mount_of(mounts, "/database")->type, "ext4");
  EXPECT_EQ(mount_of(mounts, "pipe:[1]"), nullptr);
}

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
