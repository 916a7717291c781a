#include "calls/task_preload/settings.hpp"

#include <cstdlib>
#include <initializer_list>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ioweave::calls {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class TaskSettingsOfTheEnvironment : public ::testing::Test {
 protected:
  ~TaskSettingsOfTheEnvironment() override { ::unsetenv("IOWEAVE_TASKS"); }

  tasking::HostKind tasks(const char* value) {
    ::setenv("IOWEAVE_TASKS", value, 1);
    warnings_.clear();
    return task_settings(warnings_).service.tasks;
  }

  std::string warnings_;
};

TEST_F(TaskSettingsOfTheEnvironment, NameTheEngine) {
  for (const auto& [name, kind] : {std::pair{"uring", engine::Kind::uring},
                                   {"aio", engine::Kind::aio},
                                   {"threads", engine::Kind::threads}}) {
    ::setenv("IOWEAVE_TASK_ENGINE", name, 1);
    EXPECT_EQ(task_settings(warnings_).service.engine, kind) << name;
  }
  EXPECT_THAT(warnings_, IsEmpty());
  ::setenv("IOWEAVE_TASK_ENGINE", "thread", 1);
  EXPECT_EQ(task_settings(warnings_).service.engine, engine::Kind::uring);
  EXPECT_THAT(warnings_, HasSubstr("did you mean threads?"));
  ::unsetenv("IOWEAVE_TASK_ENGINE");
}

TEST_F(TaskSettingsOfTheEnvironment, EveryRuntimeWithAlpiMayBeCalledByItsName) {
  for (const char* const name : {"alpi", "nosv", "nodes", "nanos6", "ompss2"}) {
    EXPECT_EQ(tasks(name), tasking::HostKind::alpi) << name;
    EXPECT_THAT(warnings_, IsEmpty());
  }
  EXPECT_EQ(tasks("tbb"), tasking::HostKind::tbb);
  EXPECT_EQ(tasks("none"), tasking::HostKind::none);
  EXPECT_EQ(tasks("auto"), tasking::HostKind::automatic);
  EXPECT_EQ(tasks(""), tasking::HostKind::automatic);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(TaskSettingsOfTheEnvironment, ATypoChangesNothingAndIsToldTheNearest) {
  EXPECT_EQ(tasks("nosc"), tasking::HostKind::automatic);
  EXPECT_THAT(warnings_, HasSubstr("IOWEAVE_TASKS=nosc is ignored: did you mean nosv?"));
  EXPECT_EQ(tasks("nanos"), tasking::HostKind::automatic);
  EXPECT_THAT(warnings_, HasSubstr("did you mean nanos6?"));
}

TEST_F(TaskSettingsOfTheEnvironment, NoTypoIsToldToTurnTheFeatureOff) {
  for (const char* const typo : {"nose", "nono", "nane", "non", "no", "off", "true", "nOS-V"}) {
    EXPECT_EQ(tasks(typo), tasking::HostKind::automatic) << typo;
    EXPECT_THAT(warnings_, Not(HasSubstr("mean none"))) << typo;
    EXPECT_THAT(warnings_, HasSubstr("is ignored")) << typo;
  }
  EXPECT_THAT(warnings_, HasSubstr("it is one of auto none alpi tbb nosv nodes nanos6 ompss2"));
}

}  // namespace
}  // namespace ioweave::calls
