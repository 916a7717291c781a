// Finding a real ALPI runtime, and what Ioweave relies on in it.
#include "support/real_alpi.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "support/temp_dir.hpp"

namespace ioweave::test {
namespace {

TEST(RealAlpi, IsFoundUnderItsPrefix) {
  const TempDir prefix;
  std::filesystem::create_directory(prefix.file("lib64"));
  const std::string library = prefix.file("lib64/libnanos6.so");
  std::ofstream(library) << "not loaded here";
  ASSERT_EQ(setenv("NANOS6_PREFIX", prefix.path().c_str(), 1), 0);
  RealAlpi found;
  EXPECT_TRUE(decided_by_prefix("NANOS6_PREFIX", "libnanos6.so", found));
  EXPECT_EQ(found.path, library);
  EXPECT_EQ(found.reason, "");
  ASSERT_EQ(unsetenv("NANOS6_PREFIX"), 0);
}

TEST(RealAlpi, WrongPrefixIsNamed) {
  const TempDir empty;
  const char* const before = std::getenv("NOSV_PREFIX");
  const std::string restore = before == nullptr ? "" : before;
  ASSERT_EQ(setenv("NOSV_PREFIX", empty.path().c_str(), 1), 0);
  const RealAlpi found = find_real_alpi();
  EXPECT_EQ(found.path, "");
  EXPECT_EQ(found.reason, "NOSV_PREFIX is " + empty.path() +
                              ", but neither its lib/ nor its lib64/ holds libnosv.so; set it to "
                              "where the runtime was installed.");
  ASSERT_EQ(setenv("NOSV_PREFIX", restore.c_str(), 1), 0);
}

TEST(RealAlpi, LoaderFindsALibraryOnlyIfItIsAlpi) {
  EXPECT_EQ(path_by_loader("libc.so.6"), "");
  EXPECT_EQ(path_by_loader("libnothing-of-this-name.so"), "");
  EXPECT_NE(path_by_loader("libalpi_test.so"), "") << "which this program is linked to";
}

TEST(RealAlpi, HasTheFunctionsThatIoweaveCalls) {
  const RealAlpi found = find_real_alpi();
  if (found.path.empty()) {
    GTEST_SKIP() << found.reason;
  }
  void* const handle = dlopen(found.path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  ASSERT_NE(handle, nullptr) << dlerror();
  for (const char* name :
       {"alpi_error_string", "alpi_version_check", "alpi_task_self", "alpi_task_block",
        "alpi_task_unblock", "alpi_task_waitfor_ns", "alpi_task_events_increase",
        "alpi_task_events_decrease", "alpi_task_spawn"}) {
    EXPECT_NE(dlsym(handle, name), nullptr) << found.path << " lacks " << name;
  }
  auto* const check = reinterpret_cast<int (*)(int, int)>(dlsym(handle, "alpi_version_check"));
  ASSERT_NE(check, nullptr);
  EXPECT_EQ(check(1, 0), 0) << found.path << " is not compatible with ALPI 1.0";
}

}  // namespace
}  // namespace ioweave::test
