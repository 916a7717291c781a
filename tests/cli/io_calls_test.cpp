// What is said about the I/O calls of programs: made up ones, and those of this machine.

#include "cli/io_calls.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/elf_file.hpp"

namespace ioweave::cli {
namespace {

using engine::Finding;
using engine::Usable;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::vector<std::string> kObserved{"read", "pread64", "write", "close"};

LoadedFile file_of(const std::string& name, std::vector<std::string> imports) {
  LoadedFile file;
  file.name = name;
  file.dynamic.imports = std::move(imports);
  return file;
}

Finding judged(const std::vector<LoadedFile>& scope) {
  return judge_calls("/app", scope, kObserved);
}

TEST(CallsOfAProgram, ThatAreObservedAreNamedWithTheirFiles) {
  const Finding finding =
      judged({file_of("app", {"write", "close", "read"}), file_of("/lib/libdata.so.1", {"pread64"}),
              file_of("libidle.so", {"malloc"}), file_of("libc.so.6", {"write"})});
  EXPECT_EQ(finding.usable, Usable::yes);
  EXPECT_EQ(finding.subject, "calls of /app");
  EXPECT_EQ(finding.detail, "observed: pread64, read, write, in app, libdata.so.1");
}

TEST(CallsOfAProgram, OfStreamsAreFollowedFromOutside) {
  const Finding finding = judged({file_of("app", {"fopen64", "fread"})});
  EXPECT_EQ(finding.usable, Usable::yes);
  EXPECT_EQ(finding.detail, "followed from outside: the C library's streams, in app");
}

TEST(CallsOfAProgram, ThatAreNotObservedAreNamed) {
  const Finding finding = judged({file_of("app", {"read", "aio_read64"}),
                                  file_of("libblock.so.2", {"io_uring_submit", "io_submit"})});
  EXPECT_EQ(finding.usable, Usable::degraded);
  EXPECT_THAT(finding.cause, AllOf(HasSubstr("not observed: POSIX aio, in app"),
                                   HasSubstr("io_uring, in libblock.so.2"),
                                   HasSubstr("native AIO, in libblock.so.2")));
  EXPECT_THAT(finding.remedy, HasSubstr("nothing to mend"));
}

TEST(CallsOfAProgram, ByItsOwnInstructionsAreNotObserved) {
  LoadedFile app = file_of("app", {"read"});
  app.raw_calls = {"pread64", "write"};
  LoadedFile c_library = file_of("libc.so.6", {});
  c_library.raw_calls = {"read"};
  const Finding finding = judged({app, c_library});
  EXPECT_EQ(finding.usable, Usable::degraded);
  EXPECT_EQ(finding.cause, "not observed: pread64, write, by instructions of its own, in app");
}

TEST(CallsOfAProgram, BySyscallCannotBeTold) {
  EXPECT_THAT(judged({file_of("app", {"syscall"})}).detail, HasSubstr("syscall(2)"));
  EXPECT_THAT(judged({file_of("app", {}), file_of("libstdc++.so.6", {"syscall"})}).detail,
              Not(HasSubstr("syscall(2)")));
}

TEST(CallsOfAProgram, WithoutAnySaySo) {
  EXPECT_EQ(judged({file_of("app", {"malloc"})}).detail, "no I/O on files was found");
  EXPECT_EQ(judged({}).detail, "no I/O on files was found");
}

TEST(CallsOfAProgram, ThatTheInterposerDoesNotReplaceAreNotCalledObserved) {
  EXPECT_EQ(judged({file_of("app", {"preadv2"})}).detail, "no I/O on files was found");
}

TEST(Exports, OfALibraryAreWhatItDefines) {
  EXPECT_THAT(read_elf_exports(IOWEAVE_FAKE_NOSV), Contains("nosv_init"));
  EXPECT_THAT(read_elf_exports("/etc/passwd"), IsEmpty());
  EXPECT_THAT(read_elf_exports("/nonexistent"), IsEmpty());
}

}  // namespace
}  // namespace ioweave::cli
