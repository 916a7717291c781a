#include "cli/doctor.hpp"

#include <filesystem>

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stats/text_file.hpp"

namespace ioweave::cli {
namespace {

using engine::Finding;
using engine::Usable;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Finding finding(std::string subject, Usable usable) {
  return {std::move(subject), usable, 0, {}, {}, {}};
}

TEST(Verdict, IsTheWorstThatMatters) {
  EXPECT_EQ(verdict({}), 0);
  EXPECT_EQ(verdict({finding("io_uring", Usable::yes)}), 0);
  EXPECT_EQ(verdict({finding("O_DIRECT on /x", Usable::degraded)}), 1);
  EXPECT_EQ(verdict({finding("interposer", Usable::no), finding("x", Usable::degraded)}), 2);
}

TEST(Verdict, WhatHasASubstituteOnlyDegrades) {
  EXPECT_EQ(verdict({finding("io_uring", Usable::no), finding("threads", Usable::yes)}), 1);
  EXPECT_EQ(verdict({finding("O_DIRECT on /aio", Usable::no)}), 1);
}

TEST(Verdict, ModesThatOnlySomeMachinesHaveDoNotDegradeIt) {
  EXPECT_EQ(verdict({finding("io_uring+iopoll on /x", Usable::no),
                     finding("io_uring+sqpoll", Usable::degraded), finding("aio", Usable::no)}),
            0);
}

TEST(ProgramFinding, AStaticProgramIsDegradedWithCauseAndRemedy) {
  const Finding found = examine_program(IOWEAVE_STATIC_PROGRAM);
  EXPECT_EQ(found.usable, Usable::degraded);
  EXPECT_THAT(found.cause, HasSubstr("statically linked"));
  EXPECT_FALSE(found.remedy.empty());
}

TEST(ProgramFinding, ADynamicProgramIsFine) {
  EXPECT_EQ(examine_program("/bin/sh").usable, Usable::yes);
}

/// The libraries are beside the command, which this test is not.
TEST(MpiioFinding, LibrariesThatAreNotBuiltAreNothingAmiss) {
  const Finding found = examine_mpiio();
  EXPECT_EQ(found.detail, "Open MPI: not built; MPICH: not built");
  EXPECT_EQ(verdict({found}), 0);
  EXPECT_THAT(findings_text({found}), HasSubstr("not here  MPI-IO"));
}

TEST(IsProgram, AScriptAndAnElfFileAreAndDataIsNot) {
  const test::TempDir folder;
  const std::string data = test::write_text(folder, "data", "bytes");
  EXPECT_FALSE(is_program(data));
  chmod(data.c_str(), 0755);
  EXPECT_FALSE(is_program(data));
  EXPECT_FALSE(is_program(folder.path()));
  EXPECT_FALSE(is_program("/nonexistent"));
  const std::string script = test::write_text(folder, "script", "#!/bin/sh\n");
  EXPECT_FALSE(is_program(script));
  chmod(script.c_str(), 0755);
  EXPECT_TRUE(is_program(script));
  EXPECT_TRUE(is_program("/bin/sh"));
}

TEST(ExaminePath, AnElfProgramWithoutPermissionToRunIsAFinding) {
  const test::TempDir folder;
  for (const char* const program : {"/bin/sh", IOWEAVE_STATIC_PROGRAM}) {
    const std::string path = folder.file("program");
    std::filesystem::copy_file(program, path, std::filesystem::copy_options::overwrite_existing);
    chmod(path.c_str(), 0644);
    const std::vector<Finding> findings = examine_path(path);
    EXPECT_THAT(findings_text(findings), AllOf(HasSubstr("an ELF program that is not executable"),
                                               HasSubstr("chmod +x " + path)));
    EXPECT_EQ(verdict(findings), 2);
  }
}

TEST(ExaminePath, AStaticProgramIsToldWhichCallsItMakes) {
#if !defined(__x86_64__) && !defined(__aarch64__)
  GTEST_SKIP() << "the system calls in code for this processor are not known";
#endif
  // Those of the C library, which is a part of it.
  EXPECT_THAT(findings_text(examine_path(IOWEAVE_STATIC_PROGRAM)),
              AllOf(HasSubstr("calls of " IOWEAVE_STATIC_PROGRAM), HasSubstr("write, writev"),
                    HasSubstr("by instructions of its own")));
}

TEST(ExaminePath, ALibraryIsNoProgram) {
  const test::TempDir folder;
  const std::string path = folder.file("library.so");
  std::filesystem::copy_file(IOWEAVE_OTHER_PRELOAD, path);
  chmod(path.c_str(), 0644);
  EXPECT_THAT(findings_text(examine_path(path)), Not(HasSubstr("program " + path)));
}

TEST(FindingsText, MarksWhatHasASubstituteAsDegraded) {
  EXPECT_THAT(findings_text({finding("io_uring", Usable::no)}), HasSubstr("degraded  io_uring"));
  EXPECT_THAT(findings_text({finding("aio", Usable::no)}), HasSubstr("not here  aio"));
}

TEST(FindingsText, NamesCauseAndRemedy) {
  Finding found = finding("interposer", Usable::no);
  found.cause = "a seccomp filter refuses it";
  found.remedy = "the container's administrator";
  EXPECT_THAT(findings_text({found}),
              AllOf(HasSubstr("unusable  interposer"), HasSubstr("cause   a seccomp filter"),
                    HasSubstr("remedy  the container's")));
}

}  // namespace
}  // namespace ioweave::cli
