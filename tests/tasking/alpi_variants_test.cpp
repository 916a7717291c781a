// The libraries that the test provider comes in: which symbols each has, and what it says.
#include <array>
#include <string>
#include <vector>

#include <dlfcn.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/alpi_provider/alpi.h"
#include "support/alpi_provider/alpi_test.h"

namespace ioweave::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::array kFunctions{
    "alpi_error_string", "alpi_version_check", "alpi_version_get", "alpi_task_self",
    "alpi_task_block", "alpi_task_unblock", "alpi_task_waitfor_ns", "alpi_task_events_increase",
    "alpi_task_events_decrease", "alpi_attr_create", "alpi_attr_destroy", "alpi_attr_init",
    "alpi_attr_size", "alpi_task_spawn", "alpi_cpu_count", "alpi_cpu_logical_id",
    "alpi_cpu_system_id",
    // 1.1
    "alpi_task_events_test", "alpi_task_suspend_mode_set", "alpi_task_suspend",
    // 1.2
    "alpi_info_get", "alpi_feature_check",
    // the provider's own
    "alpi_test_start", "alpi_test_wait_idle", "alpi_test_stop", "alpi_test_set_mode",
    "alpi_test_stats_get"};

/// A library of its own, beside the one that this program is linked to.
class Library {
 public:
  explicit Library(const char* path) : handle_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(handle_, nullptr) << dlerror();
  }
  ~Library() { dlclose(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <typename Function>
  [[nodiscard]] Function* function(Function* /*of this type*/, const char* name) const {
    return reinterpret_cast<Function*>(dlsym(handle_, name));
  }
  [[nodiscard]] std::vector<std::string> missing() const {
    std::vector<std::string> names;
    for (const char* name : kFunctions) {
      if (dlsym(handle_, name) == nullptr) {
        names.emplace_back(name);
      }
    }
    return names;
  }
  [[nodiscard]] std::array<int, 2> version() const {
    std::array<int, 2> version{};
    EXPECT_EQ(function(&alpi_version_get, "alpi_version_get")(version.data(), &version[1]), 0);
    return version;
  }

 private:
  void* handle_;
};

TEST(AlpiVariants, Version10LacksWhatCameLater) {
  const Library library(ALPI_TEST_1_0);
  EXPECT_THAT(library.version(), ElementsAre(1, 0));
  EXPECT_THAT(library.missing(),
              ElementsAre("alpi_task_events_test", "alpi_task_suspend_mode_set",
                          "alpi_task_suspend", "alpi_info_get", "alpi_feature_check"));
  EXPECT_EQ(library.function(&alpi_version_check, "alpi_version_check")(1, 1), ALPI_ERR_VERSION);
}

TEST(AlpiVariants, Version11LacksWhatCameLater) {
  const Library library(ALPI_TEST_1_1);
  EXPECT_THAT(library.version(), ElementsAre(1, 1));
  EXPECT_THAT(library.missing(), ElementsAre("alpi_info_get", "alpi_feature_check"));
}

TEST(AlpiVariants, Major2IsIncompatible) {
  const Library library(ALPI_TEST_MAJOR2);
  EXPECT_THAT(library.version(), ElementsAre(2, 0));
  EXPECT_THAT(library.missing(), IsEmpty());
  EXPECT_EQ(library.function(&alpi_version_check, "alpi_version_check")(1, 0), ALPI_ERR_VERSION);
}

TEST(AlpiVariants, OneLacksUnblock) {
  const Library library(ALPI_TEST_NO_UNBLOCK);
  EXPECT_THAT(library.version(), ElementsAre(1, 2));
  EXPECT_THAT(library.missing(), ElementsAre("alpi_task_unblock"));
}

TEST(AlpiVariants, ErrorOfMissingFeaturesIsOlderBefore12) {
  const Library library(ALPI_TEST_1_0);
  library.function(&alpi_test_set_mode, "alpi_test_set_mode")("no_events");
  EXPECT_EQ(library.function(&alpi_task_events_decrease, "alpi_task_events_decrease")(nullptr, 1),
            ALPI_ERR_UNKNOWN);
  EXPECT_EQ(alpi_task_events_decrease(nullptr, 1), ALPI_ERR_PARAMETER)
      << "modes are each one's own";
}

TEST(AlpiVariants, EachIsARuntimeOfItsOwn) {
  for (const char* path : {ALPI_TEST_1_0, ALPI_TEST_1_1, ALPI_TEST_MAJOR2}) {
    const Library library(path);
    ASSERT_EQ(library.function(&alpi_test_start, "alpi_test_start")(2), ALPI_SUCCESS);
    ASSERT_EQ(alpi_test_start(1), ALPI_SUCCESS);
    int spawned = 0;
    const auto spawn = library.function(&alpi_task_spawn, "alpi_task_spawn");
    EXPECT_EQ(spawn([](void*) {}, nullptr, [](void* user) { ++*static_cast<int*>(user); }, &spawned,
                    "elsewhere", nullptr),
              ALPI_SUCCESS);
    library.function(&alpi_test_stop, "alpi_test_stop")();
    EXPECT_EQ(spawned, 1);
    alpi_test_stats stats{};
    library.function(&alpi_test_stats_get, "alpi_test_stats_get")(&stats);
    EXPECT_EQ(stats.tasks, 1U);
    alpi_test_stop();
    alpi_test_stats_get(&stats);
    EXPECT_EQ(stats.tasks, 0U);
  }
}

}  // namespace
}  // namespace ioweave::test
