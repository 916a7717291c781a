#include "calls/mpiio/settings.hpp"

#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using ioweave::calls::MpiioSettings;
using testing::HasSubstr;

class MpiioSettingsTest : public testing::Test {
 protected:
  ~MpiioSettingsTest() override {
    for (const char* const name :
         {"SCHEDULE", "BUDGET", "DEPTH", "EAGER", "WRITE_BEHIND", "REPORT"}) {
      ::unsetenv((std::string("IOWEAVE_MPIIO_") + name).c_str());
    }
  }
  MpiioSettings settings_with(const std::string& name, const char* value) {
    ::setenv(("IOWEAVE_MPIIO_" + name).c_str(), value, 1);
    warnings.clear();
    return ioweave::calls::mpiio_settings(warnings);
  }
  std::string warnings;
};

TEST_F(MpiioSettingsTest, AreReadFromTheEnvironment) {
  EXPECT_EQ(settings_with("SCHEDULE", "ppis").schedule, IOW_PLAN_PPIS);
  EXPECT_EQ(settings_with("BUDGET", "64M").budget_bytes, 64u << 20);
  EXPECT_EQ(settings_with("DEPTH", "7").depth, 7u);
  EXPECT_TRUE(settings_with("EAGER", "1").is_eager);
  EXPECT_EQ(settings_with("WRITE_BEHIND", "64M").write_behind_bytes, 64u << 20);
  EXPECT_EQ(settings_with("REPORT", "/tmp/there").report, "/tmp/there");
  EXPECT_EQ(warnings, "");
}

TEST_F(MpiioSettingsTest, ThatAreWrongAreIgnoredWithAWord) {
  EXPECT_EQ(settings_with("SCHEDULE", "ppiss").schedule, IOW_PLAN_AUTO);
  EXPECT_THAT(warnings, HasSubstr("did you mean ppis?"));
  ::unsetenv("IOWEAVE_MPIIO_SCHEDULE");
  EXPECT_EQ(settings_with("BUDGET", "12").budget_bytes, 256u << 20);
  EXPECT_THAT(warnings, HasSubstr("IOWEAVE_MPIIO_BUDGET=12 is ignored"));
  ::unsetenv("IOWEAVE_MPIIO_BUDGET");
  EXPECT_EQ(settings_with("WRITE_BEHIND", "yes").write_behind_bytes, 0u);
  EXPECT_THAT(warnings, HasSubstr("IOWEAVE_MPIIO_WRITE_BEHIND=yes is ignored"));
}

}  // namespace
