#include "engine/available_memory.hpp"

#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temp_dir.hpp"

namespace ioweave::engine {
namespace {

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kUnlimited = kUnlimitedMemory;

class Cgroups : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_.file(name)).parent_path());
    std::ofstream(root_.file(name)) << text << '\n';
  }
  void version1(const std::string& group, const std::string& limit, uint64_t used,
                uint64_t inactive_file) {
    write("memory" + group + "/memory.limit_in_bytes", limit);
    write("memory" + group + "/memory.usage_in_bytes", std::to_string(used));
    write("memory" + group + "/memory.stat",
          "cache 1\ninactive_file 7\ntotal_inactive_file " + std::to_string(inactive_file));
  }
  void version2(const std::string& group, const std::string& limit, uint64_t used,
                uint64_t inactive_file) {
    write(group + "/memory.max", limit);
    write(group + "/memory.current", std::to_string(used));
    write(group + "/memory.stat",
          "anon 5\ninactive_file " + std::to_string(inactive_file) + "\nworkingset_refault_file 3");
  }
  [[nodiscard]] uint64_t room(const std::string& membership) const {
    return available_in_cgroups(membership, root_.path());
  }

  test::TempDir root_;
};

TEST_F(Cgroups, WithoutALimitThereIsNone) {
  version2("/a", "max", kMiB, 0);
  version1("/a", "9223372036854771712", kMiB, 0);
  EXPECT_EQ(room("0::/a"), kUnlimited);
  EXPECT_EQ(room("4:memory:/a"), kUnlimited);
  EXPECT_EQ(room("0::/not/there"), kUnlimited);
  EXPECT_EQ(room(""), kUnlimited);
  EXPECT_EQ(room("nonsense\n\n:"), kUnlimited);
}

TEST_F(Cgroups, CacheThatNobodyUsesIsRoom) {
  version2("/a", std::to_string(100 * kMiB), 90 * kMiB, 30 * kMiB);
  EXPECT_EQ(room("0::/a"), 40 * kMiB);
  version1("/b", std::to_string(100 * kMiB), 90 * kMiB, 20 * kMiB);
  EXPECT_EQ(room("3:cpu:/x\n4:hugetlb,memory:/b\n0::/"), 30 * kMiB);
}

TEST_F(Cgroups, TheTightestAboveCounts) {
  version2("/a", std::to_string(50 * kMiB), 45 * kMiB, 0);
  version2("/a/b", "max", kMiB, 0);
  version2("/a/b/c", std::to_string(20 * kMiB), 0, 0);
  EXPECT_EQ(room("0::/a/b/c"), 5 * kMiB);
}

TEST_F(Cgroups, AGroupOverItsLimitHasNoRoom) {
  version2("/a", std::to_string(10 * kMiB), 11 * kMiB, 0);
  EXPECT_EQ(room("0::/a"), 0u);
}

// Without a cgroup namespace a container reads the host's path, and sees its own group at the root.
TEST_F(Cgroups, TheRootOfAContainerIsItsGroup) {
  version1("", std::to_string(10 * kMiB), 4 * kMiB, 0);
  EXPECT_EQ(room("4:memory:/docker/0123"), 6 * kMiB);
}

TEST_F(Cgroups, ALimitIsKnownWithoutTheUse) {
  write("/a/memory.max", std::to_string(10 * kMiB));
  EXPECT_EQ(room("0::/a"), 10 * kMiB);
}

TEST(AvailableMemory, IsReadFromThisMachineAndLeavesNoDescriptorOpen) {
  const int before = dup(0);
  close(before);
  EXPECT_GT(available_memory_bytes(), kMiB);
  EXPECT_NE(available_memory_bytes(), kUnlimited);
  const int after = dup(0);
  close(after);
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace ioweave::engine
