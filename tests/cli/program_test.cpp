#include "cli/program.hpp"

#include <cerrno>

#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/elf_file.hpp"
#include "stats/text_file.hpp"
#include "support/child.hpp"

namespace ioweave::cli {
namespace {

using test::read_text;
using test::TempDir;
using test::write_text;
using ::testing::HasSubstr;

std::string executable(const TempDir& folder, const std::string& name, std::string_view text) {
  std::string path = write_text(folder, name, text);
  chmod(path.c_str(), 0755);
  return path;
}

/// A small program: dynamic, for this machine.
std::string own_bytes() {
  return read_text("/bin/true");
}

TEST(Program, ADynamicProgramIsFollowed) {
  const Program program = inspect_program("/proc/self/exe", "");
  EXPECT_EQ(program.followable, Followable::yes);
  EXPECT_EQ(explanation(program), "");
}

TEST(Program, IsFoundInThePath) {
  const TempDir folder;
  executable(folder, "tool", own_bytes());
  const Program program = inspect_program("tool", "/nonexistent:" + folder.path());
  EXPECT_EQ(program.path, folder.file("tool"));
  EXPECT_EQ(program.followable, Followable::yes);
}

TEST(Program, TheFirstExecutableInThePathWinsOverAnEarlierFile) {
  const TempDir first;
  const TempDir second;
  write_text(first, "tool", "not executable");
  chmod(first.file("tool").c_str(), 0644);
  executable(second, "tool", own_bytes());
  EXPECT_EQ(inspect_program("tool", first.path() + ":" + second.path()).path, second.file("tool"));
  const Program denied = inspect_program("tool", first.path());
  EXPECT_EQ(denied.followable, Followable::not_executable);
  EXPECT_EQ(denied.error, EACCES);
}

TEST(Program, AMissingOrEmptyNameIsMissing) {
  EXPECT_EQ(inspect_program("nonexistent-tool", "/bin").followable, Followable::missing);
  EXPECT_EQ(inspect_program("/nonexistent/tool", "").followable, Followable::missing);
  EXPECT_EQ(inspect_program("", "/bin").followable, Followable::missing);
}

TEST(Program, ADirectoryIsNotExecutable) {
  EXPECT_EQ(inspect_program("/tmp", "").followable, Followable::not_executable);
}

TEST(Program, AStaticProgramIsRecognised) {
  const Program program = inspect_program(IOWEAVE_STATIC_PROGRAM, "");
  EXPECT_EQ(program.followable, Followable::static_program);
  EXPECT_THAT(explanation(program), HasSubstr("statically linked"));
  EXPECT_FALSE(preload_would_disturb(program.followable));
}

TEST(Program, AGoProgramIsRecognised) {
  const Program program = inspect_program(IOWEAVE_GO_LIKE_PROGRAM, "");
  EXPECT_EQ(program.followable, Followable::go_program);
}

TEST(Program, AnotherWordSizeOrProcessorIsRecognised) {
  const TempDir folder;
  std::string bytes = own_bytes();
  bytes[4] = bytes[4] == 1 ? 2 : 1;  // EI_CLASS
  const Program narrow = inspect_program(executable(folder, "class", bytes), "");
  EXPECT_EQ(narrow.followable, Followable::other_class);
  EXPECT_TRUE(preload_would_disturb(narrow.followable));
  bytes = own_bytes();
  bytes[18] = static_cast<char>(bytes[18] ^ 0x55);  // e_machine
  EXPECT_EQ(inspect_program(executable(folder, "machine", bytes), "").followable,
            Followable::other_class);
}

TEST(Program, AnotherCLibraryIsRecognised) {
  const TempDir folder;
  std::string bytes = own_bytes();
  const size_t loader = bytes.find("ld-linux");
  ASSERT_NE(loader, std::string::npos);
  bytes.replace(loader, 8, "ld-musl-");
  const Program program = inspect_program(executable(folder, "musl", bytes), "");
  EXPECT_EQ(program.followable, Followable::other_c_library);
  EXPECT_TRUE(preload_would_disturb(program.followable));
}

TEST(Program, ASetuidProgramOfAnotherUserIsRecognised) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const TempDir folder;
  const std::string path = executable(folder, "setuid", own_bytes());
  ASSERT_EQ(chown(path.c_str(), 12345, 0), 0);
  ASSERT_EQ(chmod(path.c_str(), 04755), 0);
  EXPECT_EQ(inspect_program(path, "").followable, Followable::setuid);
  // The same rights that one has already change nothing.
  ASSERT_EQ(chown(path.c_str(), 0, 0), 0);
  ASSERT_EQ(chmod(path.c_str(), 04755), 0);
  EXPECT_EQ(inspect_program(path, "").followable, Followable::yes);
}

TEST(Program, FileCapabilitiesAreRecognisedExceptByRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give capabilities to a file";
  const TempDir folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  const std::string path = executable(folder, "capable", own_bytes());
  vfs_cap_data capabilities{};
  capabilities.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE;
  capabilities.data[0].permitted = 1u << CAP_NET_RAW;
  if (setxattr(path.c_str(), "security.capability", &capabilities, XATTR_CAPS_SZ_2, 0) != 0) {
    GTEST_SKIP() << "the file system of temporary files keeps no capabilities";
  }
  EXPECT_EQ(inspect_program(path, "").followable, Followable::yes);
  EXPECT_EQ(test::run_in_child([&path] {
              if (setresuid(65534, 65534, 65534) != 0) return 2;
              return inspect_program(path, "").followable == Followable::capabilities ? 0 : 1;
            }),
            0);
}

TEST(Program, AScriptIsItsInterpreter) {
  const TempDir folder;
  const std::string script = executable(folder, "script", "#! /bin/sh -e\ntrue\n");
  const Program program = inspect_program(script, "");
  EXPECT_EQ(program.interpreter, "/bin/sh");
  EXPECT_EQ(program.followable, Followable::yes);
  const std::string nested = executable(folder, "nested", "#!" + script + "\n");
  EXPECT_EQ(inspect_program(nested, "").interpreter, "/bin/sh");
}

TEST(Program, AScriptOfAStaticInterpreterSaysSo) {
  const TempDir folder;
  const std::string script =
      executable(folder, "script", "#!" IOWEAVE_STATIC_PROGRAM "\nwhatever\n");
  const Program program = inspect_program(script, "");
  EXPECT_EQ(program.followable, Followable::static_program);
  EXPECT_THAT(explanation(program), HasSubstr("which runs " + script));
}

TEST(Program, EnvInAScriptIsLookedThrough) {
  const TempDir folder;
  executable(folder, "interpreter", own_bytes());
  const std::string script =
      executable(folder, "script", "#!/usr/bin/env -S A=b interpreter --flag\n");
  EXPECT_EQ(inspect_program(script, folder.path()).interpreter, folder.file("interpreter"));
}

TEST(Program, OddFilesAreUnknownAndNeverACrash) {
  const TempDir folder;
  const std::string own = own_bytes();
  for (const std::string& bytes :
       {std::string(), std::string("#!"), std::string("#!\n"), std::string("text"),
        std::string("#!/nonexistent/interpreter\n"), std::string("#!   \t\n")}) {
    EXPECT_EQ(inspect_program(executable(folder, "odd", bytes), "").followable,
              Followable::unknown);
  }
  const std::string loop = executable(folder, "loop", "#!" + folder.file("loop") + "\n");
  EXPECT_EQ(inspect_program(loop, "").followable, Followable::unknown);
  // A header whose tables point anywhere.
  for (size_t length : {size_t{4}, size_t{20}, size_t{64}, size_t{100}}) {
    (void)inspect_program(executable(folder, "cut", own.substr(0, length)), "");
  }
  std::string wild = own.substr(0, 4096);
  for (size_t at = 24; at < 64; ++at) {
    wild[at] = '\xff';
    (void)inspect_program(executable(folder, "wild", wild), "");
  }
}

TEST(Library, OnlyASharedObjectOfThisMachineIsLoadable) {
  const TempDir folder;
  std::string why;
  EXPECT_FALSE(is_loadable_library(write_text(folder, "text.so", "hello"), why));
  EXPECT_EQ(why, "it is not a shared library");
  std::string bytes = own_bytes();
  bytes[18] = static_cast<char>(bytes[18] ^ 0x55);
  EXPECT_FALSE(is_loadable_library(write_text(folder, "other.so", bytes), why));
  EXPECT_THAT(why, HasSubstr("another processor"));
  EXPECT_TRUE(is_loadable_library(IOWEAVE_FAKE_PRELOAD, why));
}

}  // namespace
}  // namespace ioweave::cli
