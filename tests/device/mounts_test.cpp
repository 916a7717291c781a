#include "device/mounts.hpp"

#include <sys/sysmacros.h>

#include <gtest/gtest.h>

namespace ioweave::device {
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
  EXPECT_EQ(mounts[0].number, makedev(254, 0));
  EXPECT_EQ(mount_with(mounts, makedev(0, 40)), &mounts[2]);
  EXPECT_EQ(mount_with(mounts, makedev(9, 9)), nullptr);
}

TEST(Mounts, TheLongestThatHoldsThePathIsItsOwn) {
  const std::vector<Mount> mounts{
      {"/", "ext4", "a", 1}, {"/data", "xfs", "b", 2}, {"/data", "nfs", "c", 3}};
  EXPECT_EQ(mount_of(mounts, "/data/x")->type, "nfs");
  EXPECT_EQ(mount_of(mounts, "/data")->type, "nfs");
  EXPECT_EQ(mount_of(mounts, "/database")->type, "ext4");
  EXPECT_EQ(mount_of(mounts, "pipe:[1]"), nullptr);
}

TEST(FileSystems, ThatNodesShareAreKnown) {
  for (const char* const type : {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs",
                                 "fuse.sshfs", "fuse.ceph-fuse", "fuse.glusterfs"}) {
    EXPECT_TRUE(is_shared_file_system(type)) << type;
  }
  for (const char* const type :
       {"ext4", "xfs", "btrfs", "tmpfs", "overlay", "fuse", "fuse.x", ""}) {
    EXPECT_FALSE(is_shared_file_system(type)) << type;
  }
}

}  // namespace
}  // namespace ioweave::device
