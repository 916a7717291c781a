// `ioweave run` has files written early, from outside: by the built command with the real
// interposer, on programs that know nothing of it.

#include <filesystem>
#include <string>
#include <vector>

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/command_runner.hpp"
#include "stats/text_file.hpp"
#include "support/child.hpp"
#include "support/small_filesystem.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::cli::test {
namespace {

using ioweave::test::read_text;
using ioweave::test::SmallFilesystem;
using ioweave::test::TempDir;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Words = std::vector<std::string>;

constexpr uint64_t kMiB = 1u << 20;
/// The watcher may come late where the machine has other things to do.
constexpr int kTries = 10;

struct Watched {  // NOLINT(bugprone-exception-escape): assertions in moves of nlohmann::json
  Ran ran;
  nlohmann::json summary;
  std::string why;  ///< what `ioweave report --why` says of the file "0"

  [[nodiscard]] uint64_t early_bytes() const { return count("bytes"); }
  [[nodiscard]] uint64_t lost_bytes() const { return count("lost_bytes"); }

 private:
  [[nodiscard]] uint64_t count(const char* what) const {
    return summary["early_writeback"][what].get<uint64_t>();
  }
};

/// Runs a program with a setting for early writeback.
Watched watch(const std::string& early_writeback, const Words& program) {
  const TempDir directory;
  const std::string json = directory.file("report.json");
  const std::string run_file = directory.file("run.jsonl");
  Words words{"run", "--early-writeback", early_writeback, "--json=" + json, "-o", run_file, "--"};
  words.insert(words.end(), program.begin(), program.end());
  Surroundings how;
  how.variables = {{"IOWEAVE_PRELOAD_PATH", IOWEAVE_PRELOAD_LIBRARY}};
  Watched watched{run_ioweave(words, how), {}, {}};
  watched.why = run_ioweave({"report", run_file, "--why", "0"}).out;
  const auto report = nlohmann::json::parse(read_text(json), nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(report.is_object()) << watched.ran.err;
  watched.summary = report["summary"];
  return watched;
}

/// Writes so many files of 48 MiB and computes meanwhile (bench/drivers/checkpoint_writer.c).
Words checkpoint_writer(const std::string& folder, int files, const std::string& how) {
  return {IOWEAVE_CHECKPOINT_WRITER, folder, std::to_string(files), "48", "1024", "6", how};
}

class EarlyWriteback : public ::testing::Test {
 protected:
  void SetUp() override {
    struct statfs status {};
    ASSERT_EQ(statfs(folder.path().c_str(), &status), 0);
    if (status.f_type != EXT4_SUPER_MAGIC) GTEST_SKIP() << "the temporary folder is not on ext4";
  }

  /// Runs until something was written early, at most some times.
  Watched watch_until_early(const std::string& setting, const Words& program) {
    Watched watched;
    for (int i = 0; i < kTries; ++i) {
      watched = watch(setting, program);
      if (watched.ran.code != 0 || watched.early_bytes() != 0) break;
    }
    return watched;
  }

  /// Runs until the watcher was in time to see what that says, at most some times.
  void expect_said(const std::string& sentence, const Words& program) {
    std::string said;
    for (int i = 0; i < kTries && said.find(sentence) == std::string::npos; ++i) {
      said += watch("auto", program).why;
    }
    EXPECT_THAT(said, HasSubstr(sentence));
  }

  TempDir folder;
};

TEST_F(EarlyWriteback, BehindASyncedFileTheNextOnesAreWrittenEarly) {
  const Words program = checkpoint_writer(folder.path(), 5, "sync");
  const Ran plain = run_any(program);
  const std::string written = read_text(folder.file("4"));
  std::filesystem::remove(folder.file("4"));
  const Watched watched = watch_until_early("auto", program);
  EXPECT_EQ(watched.ran.code, 0) << watched.ran.err;
  EXPECT_EQ(watched.ran.out, plain.out);
  EXPECT_GT(watched.early_bytes(), 0u);
  EXPECT_LE(watched.early_bytes(), 4 * 48 * kMiB);
  EXPECT_EQ(read_text(folder.file("4")), written);
}

TEST_F(EarlyWriteback, WhatIsNeverSyncedIsNotWrittenEarly) {
  for (const char* const how : {"plain", "again", "remove"}) {
    const Watched watched = watch("auto", checkpoint_writer(folder.path(), 4, how));
    EXPECT_EQ(watched.ran.code, 0) << watched.ran.err;
    EXPECT_EQ(watched.early_bytes(), 0u) << how;
  }
}

TEST_F(EarlyWriteback, AlwaysIsFromTheFirstFileOn) {
  const Watched watched = watch_until_early("always", checkpoint_writer(folder.path(), 1, "plain"));
  EXPECT_GT(watched.early_bytes(), 0u);
  EXPECT_EQ(watched.lost_bytes(), watched.early_bytes());
}

TEST_F(EarlyWriteback, WhyNamesTheFirstFileOfAFolder) {
  expect_said(
      "  Nothing was written early: it was left alone as the first of its folder that is synced; "
      "behind it others are written early.\n",
      checkpoint_writer(folder.path(), 1, "sync"));
}

TEST_F(EarlyWriteback, WhySaysThatAFileWasNotSynced) {
  expect_said(
      "  Nothing was written early: it was left alone, since neither it nor a file of its folder "
      "before was seen to be synced.\n",
      checkpoint_writer(folder.path(), 1, "plain"));
}

TEST_F(EarlyWriteback, NeverIsNever) {
  EXPECT_EQ(watch("never", checkpoint_writer(folder.path(), 4, "sync")).early_bytes(), 0u);
}

// ---- What the program notices -------------------------------------------------------------------

/// A program in Python that writes 96 MiB slowly, and says what it hears of errors.
std::string slow_writer(const std::string& path) {
  return "import os, time\n"
         "heard = []\n"
         "def tell(call, *arguments):\n"
         "    try:\n"
         "        call(*arguments)\n"
         "        return True\n"
         "    except OSError as error:\n"
         "        heard.append(call.__name__ + ' ' + os.strerror(error.errno))\n"
         "        return False\n"
         "file = os.open('" +
         path +
         "', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)\n"
         "count = 0\n"
         "while count < 96 and tell(os.write, file, bytes(1 << 20)):\n"
         "    count += 1\n"
         "    time.sleep(0.005)\n"
         "tell(os.fsync, file)\n"
         "tell(os.fsync, file)\n"
         "tell(os.close, file)\n"
         "print(heard)\n";
}

Words python(const std::string& program) {
  return {"/usr/bin/env", "python3", "-c", program};
}

TEST_F(EarlyWriteback, AFullFileSystemIsToldOnceByTheWriteThatMeetsIt) {
  constexpr int kNone = 77;
  const int code = ioweave::test::run_in_child([] {
    const SmallFilesystem file_system(64 * kMiB);
    if (!file_system.problem().empty()) return kNone;
    const Words program = python(slow_writer(file_system.file("data.bin")));
    const Ran plain = run_any(program);
    EXPECT_THAT(plain.out, HasSubstr("write No space left on device"));
    EXPECT_EQ(watch("always", program).ran.out, plain.out);
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  if (code == kNone) GTEST_SKIP() << "no file system on a loop device here";
  EXPECT_EQ(code, 0);
}

/// A device that cannot be written: the file behind a loop device has no room. Without a journal,
/// whose errors would be others.
TEST_F(EarlyWriteback, AnErrorOfTheDeviceIsToldByTheSyncAsEver) {
  if (geteuid() != 0) GTEST_SKIP() << "only root mounts";
  const std::string place = folder.path();
  const std::string program = folder.file("program.py");
  ioweave::test::write_text(folder, "program.py", slow_writer(place + "/mounted/data.bin"));
  const std::string prepare = "mount -t tmpfs -o size=60m none " + place +
                              "/backing && "
                              "truncate -s 300M " +
                              place +
                              "/backing/image && "
                              "mkfs.ext4 -q -F -O ^has_journal " +
                              place +
                              "/backing/image && "
                              "mount -o loop " +
                              place + "/backing/image " + place + "/mounted || exit 77; ";
  for (const char* const name : {"backing", "mounted"}) {
    std::filesystem::create_directory(folder.file(name));
  }
  // The mounts are gone with the name space.
  const auto in_name_space = [&](const std::string& command) {
    return Words{"/usr/bin/env", "unshare", "-m", "sh", "-c", prepare + command};
  };
  const Ran plain = run_any(in_name_space("python3 " + program));
  if (plain.code == 77) GTEST_SKIP() << "no file system on a loop device here: " << plain.err;
  // The loop device's word for it; what the second sync tells is of the file system's own blocks.
  EXPECT_THAT(plain.out, StartsWith("['fsync No space left on device'")) << plain.err;
  for (int i = 0; i < 3; ++i) {
    const Ran woven =
        run_any(in_name_space("IOWEAVE_PRELOAD_PATH=" IOWEAVE_PRELOAD_LIBRARY " " IOWEAVE_COMMAND
                              " run -q --early-writeback always -- python3 " +
                              program));
    EXPECT_EQ(woven.out, plain.out) << woven.err;
  }
}

TEST_F(EarlyWriteback, TheFileSystemCanBeUnmountedWhenTheWriterHasEnded) {
  constexpr int kNone = 77;
  const int code = ioweave::test::run_in_child([] {
    const SmallFilesystem file_system(256 * kMiB);
    if (!file_system.problem().empty()) return kNone;
    const std::string mounted = std::filesystem::path(file_system.file("any")).parent_path();
    const std::string script = "'" IOWEAVE_CHECKPOINT_WRITER "' '" + mounted +
                               "' 1 96 1024 2 plain >/dev/null; umount '" + mounted +
                               "' && echo unmounted";
    EXPECT_EQ(watch("always", {"/bin/sh", "-c", script}).ran.out, "unmounted\n");
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  if (code == kNone) GTEST_SKIP() << "no file system on a loop device here";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace ioweave::cli::test
