// Programs under the interposer behave as without it, and their calls are seen.

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include <sys/syscall.h>
#include <sys/wait.h>

#include <gtest/gtest.h>

#include "calls/preload/run.hpp"
#include "engine/probe.hpp"
#include "support/child.hpp"
#include "support/seccomp.hpp"
#include "support/small_filesystem.hpp"

namespace ioweave {
namespace {

using config::RunPolicy;
using stats::CallClass;
using stats::Degrade;
using namespace ioweave::testing;

constexpr uint64_t kMiB = 1u << 20;
/// The engine matters where it carries calls out: policies `sync` and `writes`.
struct Setting {
  RunPolicy policy;
  engine::Kind engine = engine::Kind::uring;

  [[nodiscard]] bool uses_engine() const {
    return policy == RunPolicy::sync || policy == RunPolicy::writes;
  }
};

constexpr Setting kSettings[] = {{RunPolicy::off},
                                 {RunPolicy::sync, engine::Kind::uring},
                                 {RunPolicy::sync, engine::Kind::aio},
                                 {RunPolicy::sync, engine::Kind::threads},
                                 {RunPolicy::writes, engine::Kind::uring},
                                 {RunPolicy::writes, engine::Kind::aio},
                                 {RunPolicy::writes, engine::Kind::threads},
                                 {RunPolicy::overlap},
                                 {RunPolicy::automatic}};

/// For what takes seconds.
constexpr Setting kFewSettings[] = {{RunPolicy::off},
                                    {RunPolicy::sync},
                                    {RunPolicy::writes},
                                    {RunPolicy::overlap},
                                    {RunPolicy::automatic}};

std::string text_of(const Setting& setting) {
  std::string text(config::kRunPolicyNames[static_cast<unsigned>(setting.policy)]);
  if (setting.uses_engine()) {
    text += "_" + std::string(backend_name(setting.engine, engine::UringMode::plain));
  }
  return text;
}
std::string name_of(const ::testing::TestParamInfo<Setting>& info) {
  return text_of(info.param);
}
void PrintTo(const Setting& setting, std::ostream* to) {
  *to << text_of(setting);
}

/// What a report calls the engine that such a run gets on this machine.
std::string_view engine_here(engine::Kind wanted) {
  std::string why;
  engine::BackendOptions options;
  options.kind = wanted == engine::Kind::aio ? engine::Kind::threads : wanted;  // engine_calls.hpp
  return backend_name(engine::best_backend(options, why).kind, engine::UringMode::plain);
}

uint64_t engine_operations(const Finished& finished) {
  uint64_t sum = 0;
  for (const Image& image : finished.images) {
    sum += image->engine_operations.load();
  }
  return sum;
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

Degrade degrade_of(const stats::FileRecord& record) {
  return static_cast<Degrade>(record.degrade.load());
}

Finished play(const RunOptions& options, const std::string& scene, const std::string& path,
              const std::string& second = "") {
  std::vector<std::string> command{IOWEAVE_SCENARIO, scene, path};
  if (!second.empty()) {
    command.push_back(second);
  }
  return run(options, command);
}
Finished play(RunPolicy policy, const std::string& scene, const std::string& path,
              const std::string& second = "") {
  return play(with_policy(policy), scene, path, second);
}

class Interposer : public ::testing::TestWithParam<Setting> {
 protected:
  [[nodiscard]] static RunOptions options() {
    return with_policy(GetParam().policy, GetParam().engine);
  }
  /// A scene that must end well whatever the policy.
  Finished expect_scene(const std::string& scene, uint64_t file_bytes = 16 * kMiB) {
    write_pattern(path, file_bytes);
    Finished finished = play(options(), scene, path, directory / "second");
    EXPECT_TRUE(finished.exited_with(0)) << "status " << finished.status << ": " << finished.err;
    EXPECT_EQ(finished.err, "");
    expect_engine(finished);
    return finished;
  }

  /// Whatever went through an engine went through the one that was asked for.
  static void expect_engine(const Finished& finished) {
    for (const Image& image : finished.images) {
      if (image->engine_operations.load() != 0) {
        EXPECT_TRUE(GetParam().uses_engine());
        EXPECT_EQ(std::string_view(image->engine), engine_here(GetParam().engine));
      }
    }
  }

  /// A scene that tells what its calls answered, which must be what they answer plainly.
  void expect_same_answers(const std::string& scene) {
    RunOptions plain;
    plain.interposed = false;
    const Finished expected = play(plain, scene, path);
    if (expected.exited_with(77)) {
      GTEST_SKIP() << "no O_DIRECT on the file system of the build folder";
    }
    ASSERT_TRUE(expected.exited_with(0)) << expected.status << expected.err;
    const std::string expected_content = content(path);
    const Finished finished = play(options(), scene, path);
    EXPECT_TRUE(finished.exited_with(0)) << finished.status << finished.err;
    EXPECT_EQ(finished.out, expected.out);
    EXPECT_TRUE(content(path) == expected_content);
    EXPECT_EQ(engine_operations(finished) != 0, GetParam().uses_engine());
    expect_engine(finished);
  }

  TemporaryDirectory directory;
  const std::string path = directory / "data.bin";
};
INSTANTIATE_TEST_SUITE_P(Policies, Interposer, ::testing::ValuesIn(kSettings), name_of);

class InterposerPrograms : public Interposer {};
INSTANTIATE_TEST_SUITE_P(Policies, InterposerPrograms, ::testing::ValuesIn(kFewSettings), name_of);

TEST_P(Interposer, SeesEveryKindOfRead) {
  const Finished finished = expect_scene("all_reads");
  const auto* record = record_of(finished, "data.bin");
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(calls(*record, CallClass::read), 12u);
  EXPECT_GE(bytes(*record, CallClass::read), 1100u);
  EXPECT_EQ(bytes(*record, CallClass::write), 0u);
}

TEST_P(Interposer, SeesEveryKindOfWrite) {
  write_pattern(path, 4096);
  const Finished finished = expect_scene("all_writes");
  const auto* record = record_of(finished, "data.bin");
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(calls(*record, CallClass::write), 8u);
  EXPECT_EQ(bytes(*record, CallClass::write), 800u);
  EXPECT_EQ(calls(*record, CallClass::sync), 3u);
}

TEST_P(Interposer, SeesEveryKindOfOpen) {
  const Finished finished = expect_scene("all_opens");
  const auto* record = record_of(finished, "data.bin");
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->opens, 9u);
  EXPECT_EQ(calls(*record, CallClass::read), 9u);
}

TEST_P(Interposer, SeesFilesThatTheCLibraryNames) {
  const Finished finished = expect_scene("all_temporary");
  std::istringstream names(finished.out);
  int files = 0;
  for (std::string name; std::getline(names, name); ++files) {
    const auto* record = record_of(finished, name);
    ASSERT_NE(record, nullptr) << name;
    EXPECT_EQ(record->opens, 1u);
    EXPECT_EQ(bytes(*record, CallClass::write), 10u);
  }
  EXPECT_EQ(files, 8);
}

TEST_P(Interposer, CountsTransfersBetweenDescriptors) {
  const Finished finished = expect_scene("transfers");
  const auto* record = record_of(finished, "data.bin");
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(bytes(*record, CallClass::read), 6000u);
  EXPECT_EQ(calls(*record, CallClass::read), 6u);
}

TEST_P(Interposer, KeepsErrnoAndTheErrorsOfTheRealCalls) {
  expect_scene("errors");
}
TEST_P(Interposer, KeepsOutOfTheProgramsDescriptorNumbers) {
  expect_scene("numbers");
}
TEST_P(Interposer, LetsDuplicatesShareTheirPosition) {
  expect_scene("duplicates");
}
TEST_P(Interposer, IsHarmlessWhereADescriptorIsReusedBehindItsBack) {
  expect_scene("reuse");
}
TEST_P(Interposer, LeavesMappingsCoherent) {
  expect_scene("mapped");
}
TEST_P(Interposer, FollowsForkedChildren) {
  expect_scene("forks");
}
TEST_P(Interposer, IsNotConfusedByVforkAndSpawn) {
  expect_scene("vforks");
}
TEST_P(Interposer, DoesNotKeepAProcessAliveWhoseMainThreadEnded) {
  expect_scene("main_thread_ends");
}
TEST_P(Interposer, DoesNotHangSetuid) {
  expect_scene("setuid_beside");
}
TEST_P(Interposer, MayBeCalledFromSignalHandlers) {
  expect_scene("signals");
}
TEST_P(Interposer, LetsThreadsBeCancelled) {
  expect_scene("cancels");
}
TEST_P(Interposer, KeepsRecordLocks) {
  expect_scene("locks");
}
TEST_P(Interposer, LeavesNothingOpenAfterClose) {
  expect_scene("close_frees", 40 * kMiB);
}
TEST_P(Interposer, SurvivesTruncationUnderneath) {
  expect_scene("truncates");
}
TEST_P(Interposer, SurvivesManyThreadsThatOpenAndCloseAndFork) {
  expect_scene("chaos");
}
/// Of eight reads: what a program does when it has confined itself is not counted.
void expect_four_counted(const Finished& finished) {
  const auto* record = record_of(finished, "data.bin");
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(calls(*record, CallClass::read), 4u);
  EXPECT_EQ(bytes(*record, CallClass::read), 4 * kMiB);
}
TEST_P(Interposer, LetsAProgramConfineItself) {
  expect_four_counted(expect_scene("confined"));
}
TEST_P(Interposer, LetsAProgramConfineItselfByARawCall) {
  const Finished finished = expect_scene("confined_raw");
#if defined(__x86_64__)
  expect_four_counted(finished);
#endif
}
TEST_P(Interposer, LetsAProgramForbidTheCycleCounter) {
  expect_scene("without_counter");
}
TEST_P(Interposer, LetsAProgramForbidTheCycleCounterByARawCall) {
  expect_scene("without_counter_raw");
}
TEST_P(Interposer, LosesNoWriteOfThreadsThatShareAPosition) {
  expect_scene("threads_share_a_position");
}
TEST_P(Interposer, LosesNoWriteOfProcessesThatShareAPosition) {
  expect_scene("processes_share_a_position");
}
TEST_P(Interposer, ReadsNothingTwiceForThreadsThatShareAPosition) {
  expect_scene("readers_share_a_position", 4 * kMiB);
}
TEST_P(Interposer, LosesNothingThatManyAppend) {
  expect_scene("appenders");
}
TEST_P(Interposer, WritesVectorsInOne) {
  expect_scene("whole_vectors");
}
TEST_P(Interposer, SignalsTheWriterWhereASizeLimitComesLater) {
  expect_scene("size_limited_later");
}
TEST_P(Interposer, LeavesAllDescriptorsToTheProgram) {
  expect_scene("fills_the_table");
}
TEST_P(Interposer, OutlivesDuplicatesOnEveryNumber) {
  expect_scene("dups_everywhere");
}
TEST_P(Interposer, OutlivesARawCloseOfAllDescriptors) {
  expect_scene("closes_all_raw");
}
TEST_P(Interposer, DoesNotWaitForAPipeThatLiesInPlaceOfAFile) {
  expect_scene("pipe_in_place_of_a_file");
}

TEST_P(Interposer, AnswersAlignedDirectTransfersAsAlways) {
  expect_same_answers("direct_aligned");
}
TEST_P(Interposer, AnswersMisalignedDirectTransfersAsAlways) {
  expect_same_answers("direct_misaligned");
}

TEST_P(Interposer, TellsOfAFullFileSystemAtTheSameByte) {
  const test::SmallFilesystem disk(8 * kMiB);
  if (!disk.problem().empty()) {
    GTEST_SKIP() << disk.problem();
  }
  const Finished finished = play(options(), "fills", disk.file("data.bin"));
  EXPECT_TRUE(finished.exited_with(0)) << finished.status << finished.err;
}

TEST_P(Interposer, AppendsAsAlways) {
  const Finished finished = play(options(), "append", path);
  EXPECT_TRUE(finished.exited_with(0)) << finished.err;
  EXPECT_EQ(content(path), "Abcdefghi");
}

TEST_P(Interposer, PassesFdopenThrough) {
  const Finished finished = expect_scene("stream");
  const auto* record = record_of(finished, "data.bin");
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(degrade_of(*record), Degrade::stream);
}

TEST_P(Interposer, MarksHowAnImageEnded) {
  write_pattern(path, kMiB);
  const Finished exited = play(options(), "exits_at_once", path);
  EXPECT_TRUE(exited.exited_with(42));
  ASSERT_EQ(exited.images.size(), 1u);
  EXPECT_EQ(exited.images[0]->state.load(), stats::Segment::State::exited);
  EXPECT_NE(exited.images[0]->end_ns.load(), 0u);

  const Finished quick = play(options(), "exits_quickly", path);
  EXPECT_TRUE(quick.exited_with(43));
  EXPECT_EQ(quick.images.at(0)->state.load(), stats::Segment::State::exited);

  const Finished killed = play(options(), "killed", path);
  EXPECT_TRUE(WIFSIGNALED(killed.status) && WTERMSIG(killed.status) == SIGKILL);
  ASSERT_EQ(killed.images.size(), 1u);
  EXPECT_EQ(killed.images[0]->state.load(), stats::Segment::State::running);
  const auto* record = record_of(killed, "data.bin");
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(bytes(*record, CallClass::read), 1000u);
}

TEST_P(Interposer, AnExecBeginsANewImage) {
  write_pattern(path, kMiB);
  const Finished finished = play(options(), "execs", path, IOWEAVE_SCENARIO);
  EXPECT_TRUE(finished.exited_with(0)) << finished.status << finished.err;
  ASSERT_EQ(finished.images.size(), 2u);
  unsigned replaced = 0;
  for (const Image& image : finished.images) {
    replaced += image->state.load() == stats::Segment::State::replaced ? 1 : 0;
    EXPECT_EQ(image->pid, finished.images[0]->pid);
  }
  EXPECT_EQ(replaced, 1u);
}

TEST_P(Interposer, AnExecInAThreadBeginsANewImage) {
  write_pattern(path, kMiB);
  const Finished finished = play(options(), "exec_thread", path);
  EXPECT_TRUE(finished.exited_with(0)) << finished.status << finished.err;
  EXPECT_EQ(finished.images.size(), 2u);
}

TEST_P(InterposerPrograms, DoExactlyTheSame) {
  write_pattern(path, 5 * kMiB + 123);
  const std::string script =
      "set -e; export LC_ALL=C; "
      "cp data.bin out1; cat data.bin > out2; dd if=data.bin of=out3 bs=7777 2>/dev/null; "
      "gzip -1 -c data.bin > out4; gzip -dc out4 > out5; "
      "tar cf out6 --mtime=@0 --owner=0 --group=0 data.bin; tar xOf out6 > out7; "
      "head -c 1000000 data.bin | od -An -tx1 -v > out8; sort out8 > out9; "
      "split -b 1000000 -d data.bin part.; cat part.* > out10; "
      "if command -v python3 >/dev/null; then python3 -c \"d=open('data.bin','rb').read();"
      "import os;fd=os.open('out11',os.O_WRONLY|os.O_CREAT);os.write(fd,d[::-1]);os.close(fd)\"; "
      "fi; "
      "if command -v sqlite3 >/dev/null; then sqlite3 out12.db 'create table t(a,b); with "
      "recursive "
      "n(i) as (select 1 union all select i+1 from n where i<3000) insert into t select i, "
      "hex(i) from n; create index x on t(b);'; sqlite3 out12.db 'select count(*), sum(a), "
      "max(b) from t'; fi; "
      "if command -v git >/dev/null; then git init -q repo; cp out8 repo/; cd repo; git add .; "
      "git status --short; git write-tree; cd ..; rm -rf repo; fi; "
      "md5sum out* part.*; rm -f out* part.*";
  RunOptions plain;
  plain.interposed = false;
  plain.work_directory = directory.path();
  RunOptions interposed = options();
  interposed.work_directory = directory.path();
  const Finished expected = run_shell(plain, script);
  const Finished finished = run_shell(interposed, script);
  ASSERT_TRUE(expected.exited_with(0)) << expected.err;
  EXPECT_EQ(finished.status, expected.status);
  EXPECT_EQ(finished.out, expected.out);
  EXPECT_EQ(finished.err, expected.err);
  EXPECT_GT(finished.images.size(), 10u);
  EXPECT_EQ(engine_operations(finished), 0u) << "of transfers through the page cache";
}

// ---- Not of each policy ------------------------------------------------------------------------

TEST(InterposerRules, TheFirstMatchingRuleWins) {
  const TemporaryDirectory directory;
  write_pattern(directory / "a.bin", kMiB);
  RunOptions options = with_policy(RunPolicy::off);
  add_rule(options, directory.path() + "/*.bin", RunPolicy::sync);
  add_rule(options, "**", RunPolicy::overlap);
  const Finished finished = run(options, {IOWEAVE_SCENARIO, "all_reads", directory / "a.bin"});
  EXPECT_TRUE(finished.exited_with(0)) << finished.err;
  const auto* record = record_of(finished, "a.bin");
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->policy, RunPolicy::sync);
}

TEST(InterposerPolicies, SyncCarriesDirectTransfersAtAnOffsetAndWritesOnlyWrites) {
  if (engine_here(engine::Kind::uring) != "io_uring") GTEST_SKIP() << "no io_uring here";
  const TemporaryDirectory directory;
  write_pattern(directory / "a.bin", kMiB);
  const auto operations = [&](RunPolicy policy, const std::string& scene) {
    const Finished finished = play(with_policy(policy), scene, directory / "a.bin");
    if (finished.exited_with(77)) return uint64_t{77};
    EXPECT_TRUE(finished.exited_with(0)) << finished.err;
    return finished.images.at(0)->engine_operations.load();
  };
  if (operations(RunPolicy::off, "direct_reads") == 77) GTEST_SKIP() << "no O_DIRECT here";
  EXPECT_EQ(operations(RunPolicy::sync, "direct_reads"), 16u);
  EXPECT_EQ(operations(RunPolicy::writes, "direct_reads"), 0u);
  EXPECT_EQ(operations(RunPolicy::off, "direct_reads"), 0u);
  EXPECT_EQ(operations(RunPolicy::sync, "direct_writes"), 16u);
  EXPECT_EQ(operations(RunPolicy::writes, "direct_writes"), 16u);
  for (const char* const buffered : {"all_reads", "all_writes"}) {
    EXPECT_EQ(operations(RunPolicy::sync, buffered), 0u) << buffered;
  }
}

TEST(InterposerPolicies, TheModeSqpollIsPlain) {
  if (engine_here(engine::Kind::uring) != "io_uring") GTEST_SKIP() << "no io_uring here";
  const TemporaryDirectory directory;
  RunOptions options = with_policy(RunPolicy::sync);
  options.config.engine_mode = static_cast<uint32_t>(engine::UringMode::sqpoll);
  const Finished finished = play(options, "direct_reads", directory / "a.bin");
  if (finished.exited_with(77)) GTEST_SKIP() << "no O_DIRECT here";
  EXPECT_EQ(engine_operations(finished), 16u);
  EXPECT_EQ(std::string_view(finished.images.at(0)->engine), "io_uring");
  EXPECT_NE(std::string_view(finished.images.at(0)->why).find("polls"), std::string_view::npos);
}

/// A machine or container that refuses io_uring, by the error it refuses it with.
class InterposerWithoutIoUring : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Errors, InterposerWithoutIoUring, ::testing::Values(EPERM, ENOSYS),
                         [](const auto& error) {
                           return std::string(error.param == EPERM ? "EPERM" : "ENOSYS");
                         });

TEST_P(InterposerWithoutIoUring, ThreadsCarryTheCallsAndTheSegmentSaysSo) {
  const auto refuse = [] { return test::refuse_syscall(SYS_io_uring_setup, GetParam()); };
  if (test::run_in_child([&] { return refuse() ? 0 : 1; }) != 0) {
    GTEST_SKIP() << "no seccomp filters here";
  }
  const TemporaryDirectory directory;
  const std::string path = directory / "data.bin";
  for (const RunPolicy policy : {RunPolicy::sync, RunPolicy::writes}) {
    for (const char* const scene : {"all_reads", "all_writes", "errors", "forks", "duplicates",
                                    "main_thread_ends", "cancels", "direct_writes"}) {
      SCOPED_TRACE(std::string(scene) + " " + text_of({policy}));
      write_pattern(path, kMiB);
      RunOptions options = with_policy(policy);
      options.prepare = refuse;
      const Finished finished = play(options, scene, path);
      if (finished.exited_with(77)) GTEST_SKIP() << "no O_DIRECT here";
      EXPECT_TRUE(finished.exited_with(0)) << finished.status << finished.err;
      EXPECT_EQ(finished.err, "");
      for (const Image& image : finished.images) {
        if (image->engine_operations.load() != 0) {
          EXPECT_EQ(std::string_view(image->engine), "threads");
          EXPECT_NE(std::string_view(image->why).find("io_uring"), std::string_view::npos)
              << image->why;
        }
      }
      const bool direct = std::string_view(scene) == "direct_writes";
      EXPECT_EQ(engine_operations(finished) != 0, direct);
    }
  }
}

TEST(InterposerDegrades, NamesTheReason) {
  const TemporaryDirectory disk;
  const TemporaryDirectory memory(true);
  write_pattern(disk / "a.bin", 4 * kMiB);
  write_pattern(memory / "a.bin", 4 * kMiB);
  const auto reason = [&](RunPolicy policy, const std::string& scene, const std::string& path) {
    const Finished finished = play(policy, scene, path);
    const auto* record = record_of(finished, ".bin");
    return record == nullptr ? Degrade::none : degrade_of(*record);
  };
  EXPECT_EQ(reason(RunPolicy::overlap, "all_opens", memory / "a.bin"), Degrade::memory_file);
  EXPECT_EQ(reason(RunPolicy::overlap, "mapped", disk / "a.bin"), Degrade::mapped);
  EXPECT_EQ(reason(RunPolicy::writes, "append", disk / "new.bin"), Degrade::append);
}

TEST(InterposerPlaces, AreThoseThatNoPositionTells) {
  const TemporaryDirectory directory;
  const auto played = [&](RunPolicy policy, const std::string& scene) {
    write_pattern(directory / "a.bin", kMiB);
    return play(policy, scene, directory / "a.bin", directory / "b.bin");
  };
  const Finished reads = played(RunPolicy::overlap, "all_reads");
  const auto* record = record_of(reads, "a.bin");
  ASSERT_NE(record, nullptr);
  EXPECT_GE(record->places.load(), 7u);  // one more where RWF_HIPRI is taken
  EXPECT_LE(record->places.load(), 8u);
  EXPECT_EQ(record->place[6].offset.load(), 0u);
  EXPECT_EQ(record->place[6].bytes.load(), 100u);

  const Finished writes = played(RunPolicy::overlap, "all_writes");
  record = record_of(writes, "a.bin");
  ASSERT_NE(record, nullptr);
  ASSERT_EQ(record->places.load(), 2u);  // its two seeks
  EXPECT_EQ(record->place[0].offset.load(), 300u);
  EXPECT_EQ(record->place[1].offset.load(), 60u);
  EXPECT_EQ(record->place[1].bytes.load(), 0u);

  const Finished moves = played(RunPolicy::overlap, "transfers");
  record = record_of(moves, "a.bin");
  ASSERT_NE(record, nullptr);
  ASSERT_EQ(record->places.load(), 3u);  // sendfile, copy_file_range and splice at an offset
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(record->place[i].offset.load(), 3000 + i * 1000u);
    EXPECT_EQ(record->place[i].bytes.load(), 1000u);
  }

  const Finished off = played(RunPolicy::off, "all_reads");
  record = record_of(off, "a.bin");
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->places.load(), 0u);
}

TEST(InterposerEnvironment, ItsChildrenAreObservedUntilAProgramClearsIt) {
  const auto programs = [](const std::string& script) {
    const Finished finished = run_shell(RunOptions{}, script);
    EXPECT_TRUE(finished.exited_with(3)) << finished.status << finished.err;
    EXPECT_EQ(finished.err, "");
    return std::pair(finished.image("/env") != nullptr, finished.image("/true") != nullptr);
  };
  EXPECT_EQ(programs("env /bin/sh -c '/bin/true; exit 3'"), std::pair(true, true));
  EXPECT_EQ(programs("env -i /bin/sh -c '/bin/true; exit 3'"), std::pair(true, false));
}

TEST(InterposerStepsAside, WithoutARun) {
  RunOptions options;
  options.environment = {std::string(config::kRunDirVariable) + "=/nonexistent"};
  const Finished finished = run(options, {"/bin/echo", "hello"});
  EXPECT_EQ(finished.out, "hello\n");
  EXPECT_EQ(finished.err, "");
  EXPECT_TRUE(finished.images.empty());
}

TEST(InterposerStepsAside, FromAConfigurationOfAnotherVersion) {
  RunOptions options;
  options.config.version = 999;
  const Finished finished = run(options, {"/bin/echo", "hello"});
  EXPECT_EQ(finished.out, "hello\n");
  EXPECT_TRUE(finished.images.empty());
}

TEST(InterposerStepsAside, WhereFilesMayNotBeLarge) {
  const Finished finished = run_shell(RunOptions{}, "ulimit -f 1; echo hello");
  EXPECT_EQ(finished.out, "hello\n");
  const Finished child = run_shell(RunOptions{}, "ulimit -f 1; /bin/echo hello");
  EXPECT_EQ(child.out, "hello\n");
}

TEST(InterposerLibrary, LoadsNoCxxRuntimeIntoAPlainProgram) {
  const Finished finished = run(RunOptions{}, {"/bin/cat", "/proc/self/maps"});
  EXPECT_NE(finished.out.find("libioweave_preload"), std::string::npos);
  EXPECT_EQ(finished.out.find("libstdc++"), std::string::npos);
  EXPECT_EQ(finished.out.find("libgcc_s"), std::string::npos);
}

/// What a file of /proc/self says of a program that has read another file, in KiB.
long kib_of_reader(const RunOptions& options, const std::string& path, const std::string& says,
                   const std::string& name) {
  const Finished finished = run(options, {"/bin/cat", path, "/proc/self/" + says});
  EXPECT_TRUE(finished.exited_with(0)) << finished.err;
  const size_t at = finished.out.find("\n" + name + ":");
  EXPECT_NE(at, std::string::npos);
  return at == std::string::npos ? 0 : std::atol(finished.out.c_str() + at + name.size() + 2);
}

/// The most address space that it had.
long peak_kib(const RunOptions& options, const std::string& path) {
  return kib_of_reader(options, path, "status", "VmPeak");
}

/// Its memory. What it shares with others counts in part.
long memory_kib(const RunOptions& options, const std::string& path) {
  return kib_of_reader(options, path, "smaps_rollup", "Pss");
}

TEST(InterposerLibrary, TakesLittleOfTheProgramsAddressSpace) {
  const TemporaryDirectory directory;
  std::ofstream(directory / "data.txt") << std::string(4 * kMiB, 'x');
  RunOptions plain;
  plain.interposed = false;
  const long before = peak_kib(plain, directory / "data.txt");
  const long after = peak_kib(with_policy(RunPolicy::overlap), directory / "data.txt");
  EXPECT_GT(after, before);
  EXPECT_LE(after - before, 4'000'000 / 1024);
}

/// 0.4 MB more under `auto` where this was written.
TEST(InterposerLibrary, TakesLittleMemory) {
  const TemporaryDirectory directory;
  std::ofstream(directory / "data.txt") << std::string(4 * kMiB, 'x') << "\n";
  RunOptions plain;
  plain.interposed = false;
  const long before = memory_kib(plain, directory / "data.txt");
  for (const RunPolicy policy : {RunPolicy::off, RunPolicy::overlap, RunPolicy::automatic}) {
    const long after = memory_kib(with_policy(policy), directory / "data.txt");
    EXPECT_GT(after, before);
    EXPECT_LE(after - before, 2'000'000 / 1024) << text_of({policy});
  }
}

TEST(InterposerLibrary, LeavesNoDescriptorOpen) {
  const std::string script = "ls -1 /proc/self/fd | wc -l";
  RunOptions plain;
  plain.interposed = false;
  EXPECT_EQ(run_shell(RunOptions{}, script).out, run_shell(plain, script).out);
}

}  // namespace
}  // namespace ioweave
