#include "device/disk.hpp"

#include <cerrno>
#include <filesystem>

#include <sys/sysmacros.h>

#include <gtest/gtest.h>

#include "stats/text_file.hpp"

namespace ioweave::device {
namespace {

using test::TempDir;
using test::write_text;

constexpr const char* kStatistics =
    "   8       0 sda 100 0 2000 5 200 0 4000 7 0 9 12 0 0 0 0 0 0\n"
    "   8       1 sda1 10 0 20 5 20 0 40 7 0 9 12 0 0 0 0 0 0\n"
    " 253       3 dm-3 1 0 6 5 2 0 8 7 0 9 12\n";

class Disks : public ::testing::Test {
 protected:
  [[nodiscard]] int64_t read(unsigned major_number, unsigned minor_number) const {
    return DiskCounter(makedev(major_number, minor_number), diskstats_).read();
  }

  const TempDir folder_;
  const std::string diskstats_ = write_text(folder_, "diskstats", kStatistics);
};

TEST_F(Disks, CountSectorsReadAndWrittenOfDiskPartitionAndVolume) {
  EXPECT_EQ(read(8, 0), 512 * 6000);
  EXPECT_EQ(read(8, 1), 512 * 60);
  EXPECT_EQ(read(253, 3), 512 * 14);
}

TEST_F(Disks, ThatAreNotCountedAreAnError) {
  EXPECT_EQ(read(9, 9), -ENODEV);
  EXPECT_EQ(DiskCounter(makedev(8, 0), folder_.file("absent")).read(), -ENOENT);
}

TEST_F(Disks, LieBelowFilesOfTheirNumber) {
  EXPECT_EQ(disk_below(makedev(8, 1)), makedev(8, 1));
}

TEST_F(Disks, DoNotLieBelowEveryFileSystem) {
  const std::string mounts =
      write_text(folder_, "mountinfo", "36 25 0:32 / /data rw - tmpfs tmpfs rw\n");
  EXPECT_EQ(disk_below(makedev(0, 32), mounts.c_str()), std::nullopt);
  EXPECT_EQ(disk_below(makedev(0, 33), mounts.c_str()), std::nullopt);
}

TEST_F(Disks, TurnWhereTheySaySoButForParavirtualOnes) {
  namespace fs = std::filesystem;
  const dev_t disk = makedev(8, 0);
  EXPECT_FALSE(is_rotational(disk, folder_.path()));
  fs::create_directories(folder_.file("ata1/block/sda/queue"));
  fs::create_directories(folder_.file("ata1/block/sda/sda1"));
  fs::create_directories(folder_.file("virtio1/block/queue"));
  write_text(folder_, "ata1/block/sda/queue/rotational", "1\n");
  write_text(folder_, "virtio1/block/queue/rotational", "1\n");
  fs::create_symlink("ata1/block/sda", folder_.file("8:0"));
  fs::create_symlink("ata1/block/sda/sda1", folder_.file("8:1"));
  fs::create_symlink("virtio1/block", folder_.file("254:0"));
  EXPECT_TRUE(is_rotational(disk, folder_.path()));
  EXPECT_TRUE(is_rotational(makedev(8, 1), folder_.path())) << "a partition turns as its disk";
  EXPECT_FALSE(is_rotational(makedev(254, 0), folder_.path()));
}

}  // namespace
}  // namespace ioweave::device
