#include "engine/available_threads.hpp"

#include <filesystem>
#include <fstream>

#include <sys/resource.h>

#include <gtest/gtest.h>

#include "support/child.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::engine {
namespace {

constexpr uint64_t kNoLimit = UINT64_MAX;

class PidsCgroups : public ::testing::Test {
 protected:
  void group(const std::string& folder, const std::string& limit, uint64_t used) {
    std::filesystem::create_directories(root_.file(folder));
    std::ofstream(root_.file(folder + "/pids.max")) << limit << '\n';
    std::ofstream(root_.file(folder + "/pids.current")) << used << '\n';
  }
  [[nodiscard]] uint64_t room(const std::string& membership) const {
    return available_pids_in_cgroups(membership, root_.path());
  }
  test::TempDir root_;
};

TEST_F(PidsCgroups, WithoutALimitThereIsNone) {
  group("a", "max", 7);
  EXPECT_EQ(room("0::/a"), kNoLimit);
  EXPECT_EQ(room("8:pids:/a"), kNoLimit);
  EXPECT_EQ(room("0::/not/there"), kNoLimit);
}

TEST_F(PidsCgroups, TheLeastRoomOnTheWayUpCounts) {
  group("a", "100", 40);
  group("a/b", "1000", 10);
  EXPECT_EQ(room("0::/a/b"), 60u);
  group("a/b", "20", 15);
  EXPECT_EQ(room("0::/a/b"), 5u);
  group("a/b", "20", 25);
  EXPECT_EQ(room("0::/a/b"), 0u);
}

TEST_F(PidsCgroups, Version1HasAFolderOfItsOwn) {
  group("pids/a", "100", 40);
  EXPECT_EQ(room("8:pids:/a\n4:memory:/b"), 60u);
  EXPECT_EQ(room("4:memory:/a"), kNoLimit);
}

TEST(AvailableThreads, AreFewerUnderALimit) {
  const uint64_t here = available_threads();
  EXPECT_GT(here, 0u);
  EXPECT_LT(here, kNoLimit);  // the kernel has one for all
  const int code = test::run_in_child([here] {
    const rlimit processes{40, 40};
    if (setrlimit(RLIMIT_NPROC, &processes) != 0) return 77;
    if (available_threads() != std::min<uint64_t>(here, 20)) return 1;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 0;  // these have terabytes of address space mapped
#endif
    const rlimit memory{uint64_t{1} << 29, uint64_t{1} << 29};  // 16 stacks of 8 MiB in a quarter
    const rlimit stack{8u << 20, 8u << 20};
    if (setrlimit(RLIMIT_STACK, &stack) != 0 || setrlimit(RLIMIT_AS, &memory) != 0) return 77;
    return available_threads() == std::min<uint64_t>(here, 16) ? 0 : 2;
  });
  if (code == 77) GTEST_SKIP() << "limits may not be lowered here";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace ioweave::engine
