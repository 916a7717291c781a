#include "cli/task_program.hpp"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calls/libc/wrapped_calls.hpp"
#include "cli/doctor.hpp"

namespace ioweave::cli {
namespace {

using engine::Finding;
using engine::Usable;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Finding tasks_of(const std::string& program) {
  const auto scope = scope_of_program(program);
  return scope ? judge_tasks(program, *scope) : Finding{"nothing", Usable::no, 0, {}, {}, {}};
}

LoadedFile file(std::string name, std::vector<std::string> imports = {}) {
  LoadedFile file{name, "/lib/" + name, {}, 0};
  file.dynamic.imports = std::move(imports);
  return file;
}

TEST(TaskProgram, OfNosvWellLinkedIsFine) {
  const Finding found = tasks_of(IOWEAVE_TASK_NOSV);
  EXPECT_EQ(found.usable, Usable::yes) << found.cause;
  EXPECT_THAT(found.detail,
              AllOf(HasSubstr("nOS-V (libnosv.so.0)"), HasSubstr("stands before the C library"),
                    HasSubstr("the program calls nosv_init()"),
                    HasSubstr("libioweave_tasks.so would take over pread, fsync of the program")));
  EXPECT_EQ(verdict({found}), 0);
}

TEST(TaskProgram, WhereNosvStandsBehindLibcItIsToldHowToMendThat) {
  const Finding found = tasks_of(IOWEAVE_TASK_LATE);
  EXPECT_EQ(found.usable, Usable::degraded);
  EXPECT_THAT(found.cause, HasSubstr("libnosv.so.0 stands behind libc.so"));
  EXPECT_THAT(found.remedy, AllOf(HasSubstr("LD_PRELOAD=/"), HasSubstr("-Wl,--no-as-needed")));
  EXPECT_EQ(verdict({found}), 1);
  const auto preloaded = lookup_scope(IOWEAVE_TASK_LATE, {.preload = IOWEAVE_FAKE_NOSV});
  EXPECT_EQ(judge_tasks(IOWEAVE_TASK_LATE, preloaded).usable, Usable::yes);
}

TEST(TaskProgram, ThatNothingInitialisesNosvIsSaid) {
  const Finding found = tasks_of(IOWEAVE_TASK_UNINITIALISED);
  EXPECT_EQ(found.usable, Usable::degraded);
  EXPECT_THAT(found.cause, HasSubstr("nothing in it calls nosv_init()"));
  EXPECT_THAT(found.remedy, HasSubstr("nosv_shutdown()"));
}

TEST(TaskProgram, ThatPreloadsNosvMustLookTheInitialisationUp) {
  const auto scope = lookup_scope(IOWEAVE_STATIC_PROGRAM, {.preload = IOWEAVE_FAKE_NOSV});
  const Finding found = judge_tasks("program", scope);
  EXPECT_EQ(found.usable, Usable::yes);
  EXPECT_THAT(found.detail, HasSubstr("it must look it up with dlsym()"));
}

TEST(TaskProgram, OfNodesMissesNosvBeforeLibcAndNotItsInitialisation) {
  const Finding found = tasks_of(IOWEAVE_TASK_NODES);
  EXPECT_EQ(found.usable, Usable::degraded);
  EXPECT_THAT(found.detail, AllOf(HasSubstr("NODES (libnodes.so.0), nOS-V (libnosv.so.0)"),
                                  HasSubstr("libnodes.so.0 calls nosv_init()")));
  EXPECT_THAT(found.cause, HasSubstr("libnosv.so.0 stands behind libc.so"));
  EXPECT_THAT(found.remedy, HasSubstr("--as-needed drops it"));
}

TEST(TaskProgram, WithoutARuntimeIsNotHereAndDegradesNothing) {
  const Finding found = tasks_of("/bin/sh");
  EXPECT_THAT(found.cause, HasSubstr("no task runtime"));
  EXPECT_EQ(verdict({found}), 0);
  EXPECT_THAT(findings_text({found}), HasSubstr("not here  tasks of /bin/sh"));
}

TEST(TaskProgram, IntoWhichNothingCanBeBroughtIsNotJudged) {
  EXPECT_FALSE(scope_of_program(IOWEAVE_STATIC_PROGRAM).has_value());
  EXPECT_FALSE(scope_of_program(IOWEAVE_GO_LIKE_PROGRAM).has_value());
  EXPECT_FALSE(scope_of_program("/nonexistent/program").has_value());
}

TEST(TaskProgram, OfOnetbbMustBeAskedFor) {
  const Finding found =
      judge_tasks("app", {file("app", {"__pread64_chk"}), file("libtbb.so.12"), file("libc.so.6")});
  EXPECT_EQ(found.usable, Usable::yes);
  EXPECT_THAT(found.detail, AllOf(HasSubstr("oneTBB (libtbb.so.12)"),
                                  HasSubstr("with IOWEAVE_TASKS=tbb would take over "
                                            "__pread64_chk of the program"),
                                  Not(HasSubstr("nosv"))));
}

TEST(TaskProgram, OfOpenmpCannotBePaused) {
  for (const char* const library : {"libgomp.so.1", "libomp.so.5", "libiomp5.so"}) {
    const Finding found = judge_tasks("app", {file("app", {"pread"}), file(library)});
    EXPECT_EQ(found.usable, Usable::yes);
    EXPECT_THAT(found.detail, AllOf(HasSubstr("OpenMP"), HasSubstr("cannot be paused"),
                                    HasSubstr("iow_omp_begin()")));
  }
}

TEST(TaskProgram, CallsOfItsLibrariesAreNamedToo) {
  std::vector<LoadedFile> scope{file("app"), file("libnanos6.so.0", {"pread"}),
                                file("libformat.so.2", {"preadv64", "pwritev"}), file("libc.so.6")};
  EXPECT_THAT(judge_tasks("app", scope).detail,
              AllOf(HasSubstr("take over preadv64, pwritev of libformat.so.2"),
                    Not(HasSubstr("of libnanos6"))));
  scope[2].dynamic.imports = {"read"};
  EXPECT_THAT(judge_tasks("app", scope).detail, HasSubstr("would find nothing to take over"));
}

TEST(TaskProgram, WhoseRuntimeIsNotFoundIsTold) {
  LoadedFile missing = file("libnanos6.so.0");
  missing.path.clear();
  const Finding found = judge_tasks("app", {file("app"), missing});
  EXPECT_EQ(found.usable, Usable::degraded);
  EXPECT_THAT(found.cause, HasSubstr("the loader would not find libnanos6.so.0"));
  EXPECT_THAT(found.remedy, HasSubstr("LD_LIBRARY_PATH"));
}

TEST(TaskProgram, LinkedToOurLibraryBehindLibcIsTold) {
  std::vector<LoadedFile> scope{file("app", {"pread"}), file("libioweave_tasks.so"),
                                file("libnanos6.so"), file("libc.so.6")};
  EXPECT_THAT(judge_tasks("app", scope).cause, IsEmpty());
  std::swap(scope[1], scope[3]);
  EXPECT_THAT(judge_tasks("app", scope).cause, HasSubstr("it takes no call over"));
}

TEST(TaskProgram, TheCallsAreThoseThatTheLibraryExports) {
#define IOWEAVE_TEXT(name, ...) #name,
  const std::set<std::string> exported{
      IOWEAVE_TASK_CALLS(IOWEAVE_TEXT, IOWEAVE_TEXT, IOWEAVE_TEXT)};
  EXPECT_EQ(exported, std::set<std::string>(kTaskCalls.begin(), kTaskCalls.end()));
}

}  // namespace
}  // namespace ioweave::cli
