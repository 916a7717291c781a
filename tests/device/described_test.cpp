#include "device/described.hpp"

#include <filesystem>

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "support/temp_dir.hpp"

namespace ioweave::device {
namespace {

using test::TempDir;

config::Device device_at(std::string name, std::string path) {
  config::Device device;
  device.name = std::move(name);
  device.path = std::move(path);
  return device;
}

std::string name_of(const Described* device) {
  return device == nullptr ? "" : device->settings.name;
}

TEST(DescribedDevices, AreThoseOfThisNodeWhosePathsExist) {
  const TempDir folder;
  std::filesystem::create_symlink(folder.path(), folder.file("link"));
  std::vector<config::Device> devices{
      device_at("here", folder.file("link")), device_at("absent", folder.file("absent")),
      device_at("unplaced", ""), device_at("elsewhere", folder.path())};
  devices[0].nodes = {"node*"};
  devices[3].nodes = {"bb*"};
  const std::vector<Described> found = described_devices(devices, "node7.site.org");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].settings.name, "here");
  EXPECT_EQ(found[0].path, std::filesystem::canonical(folder.path()));
  struct stat status {};
  ASSERT_EQ(stat(folder.path().c_str(), &status), 0);
  EXPECT_EQ(found[0].number, status.st_dev);
}

TEST(DescribedDevices, HoldTheFilesOfTheirFileSystemAndOfTheLongestPath) {
  const std::vector<Described> devices{{device_at("disk", ""), "/data/sample", 1},
                                       {device_at("runs", ""), "/data/runs", 1},
                                       {device_at("deep", ""), "/data/runs/deep", 1},
                                       {device_at("other", ""), "/data", 2}};
  EXPECT_EQ(name_of(described_of(devices, 1, "/data/x")), "disk");
  EXPECT_EQ(name_of(described_of(devices, 1, "/data/runs/x")), "runs");
  EXPECT_EQ(name_of(described_of(devices, 1, "/data/runs2/x")), "disk");
  EXPECT_EQ(name_of(described_of(devices, 1, "/data/runs/deep/x")), "deep");
  EXPECT_EQ(name_of(described_of(devices, 2, "/data/runs/x")), "other");
  EXPECT_EQ(name_of(described_of(devices, 3, "/data/runs/x")), "");
}

}  // namespace
}  // namespace ioweave::device
