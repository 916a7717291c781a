// `ioweave run` prefetches from outside: on a device slow enough for it to matter (bench/slowfs),
// what a program reads next is in the page cache before it asks. By the built command with the real
// interposer, on programs that say how much they found there.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "calls/preload/run.hpp"
#include "cli/command_runner.hpp"
#include "cli/slow_device.hpp"
#include "config/mpiio_variables.hpp"
#include "stats/text_file.hpp"
#include "support/child.hpp"
#include "support/small_filesystem.hpp"

namespace ioweave::cli::test {
namespace {

using ioweave::test::read_text;
using ioweave::test::SmallFilesystem;
using ioweave::test::TempDir;
using ioweave::test::write_text;
using ioweave::testing::cached_share;
using ioweave::testing::drop_from_cache;
using ioweave::testing::TemporaryDirectory;
using ioweave::testing::write_pattern;

using Words = std::vector<std::string>;

constexpr uint64_t kMiB = 1u << 20;
constexpr const char* kSlowfs = IOWEAVE_SLOWFS;
/// The watcher may come late where the machine has other things to do, and a reader of so little is
/// helped only when it has been seen to wait: of so many tries so many must succeed.
constexpr int kTries = 5;
constexpr int kEnough = 2;
/// Of what can be there before it is read, what must be there in a try that succeeds.
constexpr double kMostOfIt = 0.8;
constexpr uint64_t kLargeRead = 16 * kMiB;  // more than the kernel reads ahead: its reader waits

/// What became of each try, in one line.
class Tries {
 public:
  [[nodiscard]] bool are_decided() const {
    return succeeded_ == kEnough || made_ - succeeded_ > kTries - kEnough;
  }
  void note(bool success, const std::string& what) {
    ++made_;
    succeeded_ += success ? 1 : 0;
    text_ += (made_ == 1 ? "" : "; ") + what;
  }
  void expect_enough() const {
    EXPECT_EQ(succeeded_, kEnough)
        << succeeded_ << " of " << made_ << " tries succeeded: " << text_;
  }

 private:
  int made_ = 0;
  int succeeded_ = 0;
  std::string text_;
};

/// The line that a reader prints.
struct Seen {
  std::string checksum;
  int chunks = 0;
  int resident = 0;
  int told = 0;
};

Seen of_chunk_reader(const std::string& text) {
  Seen seen;
  std::istringstream(text) >> seen.checksum >> seen.chunks >> seen.resident;
  return seen;
}

Seen of_prefetch_reader(const std::string& text) {
  Seen seen;
  std::istringstream(text) >> seen.chunks >> seen.resident >> seen.told;
  return seen;
}

/// A run with its report.
struct Followed {  // NOLINT(bugprone-exception-escape): assertions in moves of nlohmann::json
  Ran ran;
  nlohmann::json report;
  std::string why;  ///< what `ioweave report --why` says of data.bin

  [[nodiscard]] uint64_t operations() const {
    return report["summary"]["prefetch"]["operations"].get<uint64_t>();
  }
  [[nodiscard]] uint64_t bytes() const {
    return report["summary"]["prefetch"]["bytes"].get<uint64_t>();
  }
  /// What the report says of the file whose path ends so; null where it does not name it.
  [[nodiscard]] nlohmann::json file(const std::string& suffix) const {
    for (const auto& file : report["files"]) {
      if (file["path"].get<std::string>().ends_with(suffix)) return file;
    }
    return nullptr;
  }
};

/// `configuration`: of the folder in which it runs.
Followed follow(const Words& program, const Words& options = {},
                const std::string& configuration = "") {
  const TempDir folder;
  const std::string json = folder.file("report.json");
  const std::string run_file = folder.file("run.jsonl");
  Words words{"run", "-q", "--json=" + json, "-o", run_file};
  words.insert(words.end(), options.begin(), options.end());
  words.emplace_back("--");
  words.insert(words.end(), program.begin(), program.end());
  Surroundings how;
  how.variables = {{"IOWEAVE_PRELOAD_PATH", IOWEAVE_PRELOAD_LIBRARY}};
  if (!configuration.empty()) {
    how.directory = folder.path();
    write_text(folder, "ioweave.toml", configuration);
  }
  Followed followed{run_ioweave(words, how), {}, {}};
  EXPECT_EQ(followed.ran.code, 0) << followed.ran.err;
  followed.why = run_ioweave({"report", run_file, "--why", "slow/data.bin"}).out;
  followed.report = nlohmann::json::parse(read_text(json), nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(followed.report.is_object());
  return followed;
}

Words chunk_reader(const std::string& path, uint64_t chunk, uint64_t compute_us,
                   uint64_t stride = 0) {
  return {IOWEAVE_CHUNK_READER, path, std::to_string(chunk), std::to_string(compute_us),
          std::to_string(stride)};
}

Words prefetch_reader(const std::string& how, const std::string& path, uint64_t chunk,
                      uint64_t compute_us, uint64_t stride = 0) {
  Words words{IOWEAVE_PREFETCH_READER, how, path, std::to_string(chunk),
              std::to_string(compute_us)};
  if (stride != 0) words.push_back(std::to_string(stride));
  return words;
}

Words shell(const std::string& script) {
  return {"/bin/sh", "-c", script};
}

std::string as_script(const Words& words) {
  std::string script;
  for (const std::string& word : words) script += "'" + word + "' ";
  return script;
}

config::MpiioFile mpiio_file_at(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(stat(path.c_str(), &found), 0);
  return {found.st_dev, found.st_ino};
}

class Prefetching : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kSlowfs[0] == '\0') GTEST_SKIP() << "ioweave-slowfs is not built";
    if (access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "no access to /dev/fuse";
    if (!device.mount(400, 200, device_options())) GTEST_SKIP() << "slowfs cannot be mounted here";
  }
  [[nodiscard]] virtual std::string device_options() const { return {}; }

  /// Reads a cold file. Each chunk is computed on for about three times as long as it takes to
  /// read, so that those behind the first `unhidden` should be there; `kMostOfIt` leaves room for a
  /// scheduler that had other things to do. No more than `most_bytes` may be brought in.
  template <class Parse>
  void expect_most_resident(const std::string& path, const Words& program, int unhidden,
                            Parse parse, uint64_t most_bytes = UINT64_MAX) {
    Tries tries;
    while (!tries.are_decided()) {
      ASSERT_TRUE(drop_from_cache(path));
      followed = follow(program);
      seen = parse(followed.ran.out);
      if (seen.resident < 0) GTEST_SKIP() << "no cachestat(2) in this kernel";
      ASSERT_GT(seen.chunks, unhidden);
      const bool is_there = seen.resident >= kMostOfIt * (seen.chunks - unhidden);
      tries.note(is_there && followed.bytes() > 0 && followed.bytes() <= most_bytes,
                 std::to_string(seen.resident) + " of " + std::to_string(seen.chunks) +
                     " chunks were there, " + std::to_string(followed.bytes() / kMiB) +
                     " MiB brought in");
    }
    tries.expect_enough();
  }

  /// By a way that moves no position and is not observed.
  void expect_unseen_reader_followed(const std::string& how) {
    constexpr int kChunks = 96;
    // It takes some looks to find it, which are rare on a busy machine: 10 chunks must be there.
    // Without help none is.
    constexpr int kUnhidden = 84;
    const std::string path = device.file(kChunks * 2 * kMiB);
    const Words program = prefetch_reader(how, path, 2 * kMiB, 20'000);
    if (run_any(program).code == 77) GTEST_SKIP() << "the kernel does not allow it";
    expect_most_resident(path, program, kUnhidden, of_prefetch_reader);
    EXPECT_TRUE(IsSkipped() || seen.chunks == kChunks) << seen.chunks;
  }

  /// Runs until that is said, at most some times.
  template <class Prepare>
  void expect_said(const std::string& sentence, const Words& program, Prepare prepare,
                   const Words& options = {}) {
    std::string said;
    for (int i = 0; i < kTries; ++i) {
      prepare();
      followed = follow(program, options);
      said += followed.why;
      if (followed.why.find(sentence) != std::string::npos) return;
    }
    ADD_FAILURE() << "'" << sentence << "' is not in:\n" << said;
  }

  SlowDevice device{kSlowfs};
  Followed followed;
  Seen seen;
};

TEST(RunWithInterposer, AProgramWithAddressSanitizerStarts) {
  if (IOWEAVE_SANITIZED_PROGRAM[0] == '\0') GTEST_SKIP() << "the compiler has no AddressSanitizer";
  const TempDir folder;
  const std::string path = write_text(folder, "data.bin", std::string(100'000, 'x'));
  const Words program{IOWEAVE_SANITIZED_PROGRAM, path, "65536", "0"};
  const Ran plain = run_any(program);
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(follow(program).ran.out, plain.out);
}

// ---- What a reader finds ------------------------------------------------------------------------

TEST_F(Prefetching, TheNextChunkIsThereBeforeItIsRead) {
  const std::string path = device.file(128 * kMiB);
  const Seen plain = of_chunk_reader(run_any(chunk_reader(path, 8 * kMiB, 0)).out);
  expect_most_resident(path, chunk_reader(path, 8 * kMiB, 60'000), 1, of_chunk_reader);
  EXPECT_EQ(seen.checksum, plain.checksum);
}

TEST_F(Prefetching, TheReportSaysWhatWasBroughtIn) {
  const std::string path = device.file(48 * kMiB);
  expect_most_resident(path, chunk_reader(path, 2 * kMiB, 20'000), 4, of_chunk_reader);
  const nlohmann::json file = followed.file("slow/data.bin");
  ASSERT_TRUE(file.is_object());
  const auto bytes = file["prefetch"]["bytes"].get<uint64_t>();
  const auto used = file["prefetch"]["used_bytes"].get<uint64_t>();
  EXPECT_GT(used, 0u);
  EXPECT_LE(used, bytes);
  EXPECT_LE(bytes, 48 * kMiB);
  const nlohmann::json& summary = followed.report["summary"];
  EXPECT_EQ(summary["prefetch"]["bytes"].get<uint64_t>(), bytes);
  EXPECT_EQ(summary["prefetch"]["used_bytes"].get<uint64_t>(), used);
  EXPECT_TRUE(summary["hidden_s"].is_number());
  EXPECT_TRUE(summary["hidden_share"].is_number());
  EXPECT_FALSE(summary["hidden_known"].get<bool>()) << "the file is too short to compare paces";
}

TEST_F(Prefetching, NoMoreIsBroughtInThanTheBudgetOfTheDeviceAllows) {
  // Long enough to be helped on a busy machine, too: with 6 chunks, four tries of five were not.
  constexpr int kChunks = 16;
  const std::string path = device.file(kChunks * 8 * kMiB);
  const std::string described =
      "[[device]]\nname = \"slow\"\npath = \"" + device.mount_point() + "\"\nbandwidth = 8\n";
  Tries tries;
  while (!tries.are_decided()) {
    ASSERT_TRUE(drop_from_cache(path));
    const auto begin = std::chrono::steady_clock::now();
    followed = follow(chunk_reader(path, 8 * kMiB, 60'000), {}, described);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    constexpr double kRange = 2.0 * kMiB;  // more than slowfs's read-ahead window
    EXPECT_LE(static_cast<double>(followed.bytes()), 8e6 * (seconds.count() + 0.1) + kRange);
    EXPECT_EQ(of_chunk_reader(followed.ran.out).chunks, kChunks);
    const bool is_said =
        followed.why.find("and was held back by the bandwidth of its [[device]]") !=
        std::string::npos;
    tries.note(followed.bytes() > 0 && is_said,
               std::to_string(followed.bytes()) + " bytes; " + followed.why);
  }
  tries.expect_enough();
}

/// The shell does what libioweave_mpiio_*.so does, for a reader that is followed otherwise.
TEST_F(Prefetching, FilesOfMpiIoAreLeftToItsLibrary) {
  const std::string path = device.file(96 * kMiB);
  const config::MpiioFile file = mpiio_file_at(path);
  const TempDir folder;
  const std::string note =
      write_text(folder, "note", std::string(reinterpret_cast<const char*>(&file), sizeof file));
  ASSERT_TRUE(drop_from_cache(path));
  followed = follow(shell("cat " + note + " >> $IOWEAVE_RUN_DIR/" + config::kMpiioFilesName +
                          "; exec " + as_script(chunk_reader(path, 2 * kMiB, 20'000))));
  EXPECT_EQ(of_chunk_reader(followed.ran.out).chunks, 48);
  EXPECT_EQ(followed.operations(), 0u);
  EXPECT_THAT(followed.why,
              ::testing::HasSubstr("in ahead: it is left to the library for MPI-IO."));
}

TEST_F(Prefetching, SmallChunksToo) {
  // A wait is so short that in one run of four the watcher sees too few of them for a tenth of a
  // second, and seldom for half a second: the second half of the file is judged, which is read for
  // as long.
  constexpr uint64_t kChunk = 256 << 10;
  const std::string path = device.file(128 * kMiB);
  expect_most_resident(path, chunk_reader(path, kChunk, 2'000), 64 * kMiB / kChunk,
                       of_chunk_reader);
}

TEST_F(Prefetching, ChunkSizedHolesToo) {
  const std::string path = device.file(128 * kMiB);
  const Seen plain = of_chunk_reader(run_any(chunk_reader(path, 2 * kMiB, 0, 8 * kMiB)).out);
  // Of 96 MiB of holes none but, behind the first of the records, which show no pattern yet, three
  // times what was read.
  constexpr uint64_t kMost = (32 + 4 * 6) * kMiB;
  expect_most_resident(path, chunk_reader(path, 2 * kMiB, 20'000, 8 * kMiB), 4, of_chunk_reader,
                       kMost);
  EXPECT_EQ(seen.checksum, plain.checksum);
}

TEST_F(Prefetching, AStaticProgramToo) {
  const std::string path = device.file(96 * kMiB);
  Words program = chunk_reader(path, 2 * kMiB, 20'000);
  program[0] = IOWEAVE_STATIC_READER;
  expect_most_resident(path, program, 4, of_chunk_reader);
  const nlohmann::json file = followed.file("slow/data.bin");
  ASSERT_TRUE(file.is_object());
  EXPECT_GT(file["prefetch"]["used_bytes"].get<uint64_t>(), 0u);
}

TEST_F(Prefetching, AGoProgramToo) {
  if (IOWEAVE_GO_READER[0] == '\0') GTEST_SKIP() << "no Go compiler";
  const std::string path = device.file(96 * kMiB);
  Tries tries;
  while (!tries.are_decided()) {
    ASSERT_TRUE(drop_from_cache(path));
    followed = follow({IOWEAVE_GO_READER, path, std::to_string(kMiB)});
    EXPECT_EQ(followed.ran.out, std::to_string(96 * kMiB) + "\n");
    const nlohmann::json file = followed.file("slow/data.bin");
    const uint64_t used = file.is_object() ? file["prefetch"]["used_bytes"].get<uint64_t>() : 0;
    tries.note(used > 0, std::to_string(used) + " bytes brought in and read");
  }
  tries.expect_enough();
}

TEST_F(Prefetching, RedirectedStandardInputToo) {
  const std::string path = device.file(96 * kMiB);
  const std::string script =
      as_script(prefetch_reader("input", "-", 2 * kMiB, 20'000)) + "< '" + path + "'";
  expect_most_resident(path, shell(script), 4, of_prefetch_reader);
}

TEST_F(Prefetching, StandardStreamsOfCToo) {
  const std::string path = device.file(48 * kMiB);
  expect_most_resident(path, prefetch_reader("stdio", path, kMiB, 8'000), 4, of_prefetch_reader);
}

TEST_F(Prefetching, AMemoryMapToo) {
  const std::string path = device.file(96 * kMiB);
  expect_most_resident(path, prefetch_reader("mapped", path, 2 * kMiB, 20'000), 4,
                       of_prefetch_reader);
  const nlohmann::json file = followed.file("slow/data.bin");
  ASSERT_TRUE(file.is_object());
  EXPECT_GT(file["prefetch"]["used_bytes"].get<uint64_t>(), 0u);
}

TEST_F(Prefetching, AMemoryMapWithHolesBringsInNothing) {
  const std::string path = device.file(48 * kMiB);
  ASSERT_TRUE(drop_from_cache(path));
  followed = follow(prefetch_reader("mapped", path, 64 << 10, 2'000, 512 << 10));
  EXPECT_EQ(of_prefetch_reader(followed.ran.out).chunks, 96);
  EXPECT_EQ(followed.operations(), 0u);
}

TEST_F(Prefetching, ReadsAtOffsetsInOrderToo) {
  const std::string path = device.file(96 * kMiB);
  expect_most_resident(path, prefetch_reader("pread", path, 2 * kMiB, 20'000), 5,
                       of_prefetch_reader);
}

/// The kernel reads little at once for it, so help is needed later. Where the place is not known,
/// nothing or 11 chunks were there.
TEST_F(Prefetching, SendfileAtOffsetsToo) {
  const std::string path = device.file(96 * kMiB);
  expect_most_resident(path, prefetch_reader("sendfile", path, 2 * kMiB, 20'000), 30,
                       of_prefetch_reader);
}

TEST_F(Prefetching, ReadsAtOffsetsByTheProgramsOwnInstructionsToo) {
  expect_unseen_reader_followed("syscall");
}

/// A look for a reader that moves no position finds nothing, and forbids nothing.
TEST_F(Prefetching, AFileThatWasHeldForAWhileToo) {
  const std::string path = device.file(96 * kMiB);
  expect_most_resident(path, prefetch_reader("held", path, 2 * kMiB, 20'000), 6,
                       of_prefetch_reader);
}

TEST_F(Prefetching, ReadsThroughIoUringToo) {
  expect_unseen_reader_followed("uring");
}

TEST_F(Prefetching, ReadsThroughTheKernelsAsynchronousIoToo) {
  expect_unseen_reader_followed("aio");
}

TEST_F(Prefetching, ReadsThroughTheCLibrarysAsynchronousIoToo) {
  expect_unseen_reader_followed("posixaio");
}

TEST_F(Prefetching, ReadsAtOffsetsWithAStrideToo) {
  const std::string path = device.file(128 * kMiB);
  expect_most_resident(path, prefetch_reader("pread", path, kMiB, 15'000, 4 * kMiB), 5,
                       of_prefetch_reader);
  EXPECT_LE(followed.bytes(), 40 * kMiB) << "the holes are left out";
}

/// One byte near its end cannot be read: help is at work before the reader comes there.
class PrefetchingOfADamagedFile : public Prefetching {
 protected:
  [[nodiscard]] std::string device_options() const override { return "--bad-at 90000001"; }
};

TEST_F(PrefetchingOfADamagedFile, AReaderMeetsTheErrorWhereItDoesWithout) {
  const std::string path = device.file(96 * kMiB);
  const Words program = prefetch_reader("damaged", path, 2 * kMiB, 20'000);
  const auto run = [&](const auto& runner) {
    EXPECT_TRUE(drop_from_cache(path));
    const std::string text = runner();
    const size_t line = text.find('\n');
    seen = of_prefetch_reader(text.substr(std::min(line, text.size() - 1) + 1));
    return text.substr(0, line) + ", sum " + std::to_string(seen.told);
  };
  const std::string plain = run([&] { return run_any(program).out; });
  ASSERT_EQ(plain.find("EIO at 89997312, sum "), 0u) << plain;
  if (seen.resident < 0) GTEST_SKIP() << "no cachestat(2) in this kernel";
  for (const char* const policy : {"overlap", "auto"}) {
    Tries tries;
    while (!tries.are_decided()) {
      EXPECT_EQ(run([&] {
                  followed = follow(program, {"--policy", policy});
                  return followed.ran.out;
                }),
                plain);
      tries.note(seen.resident >= 5 && followed.bytes() > 0,
                 std::to_string(seen.resident) + " chunks were there, " +
                     std::to_string(followed.bytes()) + " bytes brought in");
    }
    tries.expect_enough();
  }
}

TEST_F(Prefetching, SeveralProcessesAtOnce) {
  constexpr int kChunks = 48;
  // A reader is helped early where it is seen that the device is idle for half of the time, which
  // what is brought in for the others may hide; in any case after 32 looks that found it idle for a
  // sixth.
  constexpr double kFewestEarly = kMostOfIt * (kChunks - 4);
  constexpr double kFewest = kMostOfIt * (kChunks - 33);
  std::string script;
  Words paths;
  for (const char* const name : {"one.bin", "two.bin", "three.bin"}) {
    paths.push_back(device.file(kChunks * 2 * kMiB, name));
    // Each waits for a ninth of the time, and together they have the device for a third of it.
    script += as_script(chunk_reader(paths.back(), 2 * kMiB, 40'000)) + " & ";
  }
  script += "wait";
  Tries tries;
  while (!tries.are_decided()) {
    for (const std::string& path : paths) ASSERT_TRUE(drop_from_cache(path));
    followed = follow(shell(script));
    std::istringstream lines(followed.ran.out);
    int readers_helped = 0;
    int helped_early = 0;
    std::string found;
    for (std::string line; std::getline(lines, line);) {
      seen = of_chunk_reader(line);
      if (seen.resident < 0) GTEST_SKIP() << "no cachestat(2) in this kernel";
      EXPECT_EQ(seen.chunks, kChunks);
      readers_helped += seen.resident >= kFewest ? 1 : 0;
      helped_early += seen.resident >= kFewestEarly ? 1 : 0;
      found += std::to_string(seen.resident) + " ";
    }
    int files_brought_in = 0;
    for (const char* const name : {"one.bin", "two.bin", "three.bin"}) {
      const nlohmann::json file = followed.file(name);
      ASSERT_TRUE(file.is_object()) << name;
      files_brought_in += file["prefetch"]["bytes"].get<uint64_t>() > 0 ? 1 : 0;
    }
    tries.note(readers_helped == 3 && helped_early >= 2 && files_brought_in == 3,
               found + "of 48 chunks were there, of " + std::to_string(files_brought_in) +
                   " files something was brought in");
  }
  tries.expect_enough();
}

// ---- Where nothing is to be brought in ----------------------------------------------------------

TEST_F(Prefetching, AFileThatIsCachedIsLeftAlone) {
  const std::string path = device.file(32 * kMiB);
  // A machine that reclaims memory of its own accord (DAMON does, on hosts of many guests) may
  // evict pages between the two runs: then they are brought in, and rightly.
  Tries tries;
  while (!tries.are_decided()) {
    (void)run_any(chunk_reader(path, kMiB, 0));
    const uint64_t brought_in = follow(chunk_reader(path, kMiB, 2'000)).bytes();
    tries.note(brought_in == 0, std::to_string(brought_in) + " bytes brought in");
  }
  tries.expect_enough();
}

TEST_F(Prefetching, WhyNamesThePageCacheOfAFileThatIsCached) {
  const std::string path = device.file(32 * kMiB);
  expect_said(
      "  Nothing was brought in ahead: what would be read next was found in the page cache.\n",
      chunk_reader(path, kMiB, 2'000), [&] { (void)run_any(chunk_reader(path, kMiB, 0)); });
  EXPECT_EQ(followed.file("slow/data.bin")["prefetch"]["why"], "cached");
}

TEST_F(Prefetching, WhyNamesReadsInNoOrder) {
  const std::string path = device.file(64 * kMiB);
  for (const char* const how : {"pread", "seek"}) {
    expect_said("  Nothing was brought in ahead: it was read in no order.\n",
                {IOWEAVE_SCATTERED_READER, path, how, "65536", "1500", "7"},
                [&] { ASSERT_TRUE(drop_from_cache(path)); });
    EXPECT_EQ(followed.file("slow/data.bin")["prefetch"]["why"], "no order") << how;
  }
}

TEST_F(Prefetching, WhyTellsSinceWhenAFileWasHelpedAndBothPaces) {
  const std::string path = device.sparse_file(640 * kMiB, "data.bin");
  expect_said("MB/s without it, computation included (", chunk_reader(path, 4 * kMiB, 4'000),
              [&] { ASSERT_TRUE(drop_from_cache(path)); }, {"--lookahead", "16m"});
  EXPECT_THAT(followed.why, ::testing::HasSubstr("  Help began when "));
  const nlohmann::json prefetch = followed.file("slow/data.bin")["prefetch"];
  EXPECT_GT(prefetch["since_bytes"], 0);
  EXPECT_LT(prefetch["since_bytes"], 64 * kMiB);
  EXPECT_GT(prefetch["alone_mb_per_s"], 0);
  EXPECT_GT(prefetch["helped_mb_per_s"], 0);
}

TEST_F(Prefetching, UnseenReadsWithHolesBringInNothing) {
  const std::string path = device.file(96 * kMiB);
  for (const char* const how : {"syscall", "uring", "aio"}) {
    const Words program = prefetch_reader(how, path, kMiB, 15'000, 8 * kMiB);
    if (run_any(program).code == 77) continue;  // the kernel does not allow it
    ASSERT_TRUE(drop_from_cache(path));
    followed = follow(program);
    EXPECT_EQ(of_prefetch_reader(followed.ran.out).chunks, 12) << how;
    EXPECT_EQ(followed.operations(), 0u) << how;
  }
}

TEST_F(Prefetching, PolicyOffBringsInNothing) {
  const std::string path = device.file(16 * kMiB);
  ASSERT_TRUE(drop_from_cache(path));
  followed = follow(chunk_reader(path, 2 * kMiB, 20'000), {"--policy", "off"});
  EXPECT_EQ(of_chunk_reader(followed.ran.out).chunks, 8);
  EXPECT_EQ(followed.operations(), 0u);
  EXPECT_TRUE(followed.report["summary"]["hidden_known"].get<bool>());
}

TEST_F(Prefetching, ARuleKeepsAFileFromIt) {
  const std::string path = device.file(16 * kMiB);
  ASSERT_TRUE(drop_from_cache(path));
  followed = follow(chunk_reader(path, 2 * kMiB, 20'000), {"--rule", "*.bin=off"});
  EXPECT_EQ(of_chunk_reader(followed.ran.out).chunks, 8);
  EXPECT_EQ(followed.operations(), 0u);
}

TEST_F(Prefetching, ARuleAllowsAFileToIt) {
  const std::string path = device.file(48 * kMiB);
  Tries tries;
  while (!tries.are_decided()) {
    ASSERT_TRUE(drop_from_cache(path));
    followed = follow(chunk_reader(path, 4 * kMiB, 30'000),
                      {"--policy", "off", "--rule", "*.bin=overlap"});
    tries.note(followed.bytes() > 0, std::to_string(followed.bytes()) + " bytes brought in");
  }
  tries.expect_enough();
}

// ---- What the program could notice --------------------------------------------------------------

TEST_F(Prefetching, WhyNamesListenersAndLeases) {
  const std::string path = device.file(32 * kMiB);
  for (const auto& [how, sentence] : {std::pair{"inotify", "a process of the run listens to opens"},
                                      std::pair{"lease", "the program has a lease on it"}}) {
    expect_said(sentence, prefetch_reader(how, path, kMiB, 5'000),
                [&] { ASSERT_TRUE(drop_from_cache(path)); });
  }
}

TEST_F(Prefetching, AFileWithAWatchOnItIsNotOpened) {
  const std::string path = device.file(16 * kMiB);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(drop_from_cache(path));
    followed = follow(prefetch_reader("inotify", path, kMiB, 10'000));
    seen = of_prefetch_reader(followed.ran.out);
    EXPECT_EQ(seen.chunks, 16);
    EXPECT_EQ(seen.told, 0);
    EXPECT_EQ(followed.operations(), 0u);
  }
}

TEST_F(Prefetching, NoFileIsOpenedWhileAnotherProcessOfTheRunHasAWatch) {
  const std::string watched = device.file(24 * kMiB, "watched.bin");
  const std::string path = device.file(16 * kMiB);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(drop_from_cache(path));
    followed = follow(shell(as_script(prefetch_reader("inotify", watched, kMiB, 50'000)) +
                            "> /dev/null & sleep 0.3; " +
                            as_script(chunk_reader(path, kMiB, 10'000)) + "; wait"));
    EXPECT_EQ(of_chunk_reader(followed.ran.out).chunks, 16);
    EXPECT_EQ(followed.operations(), 0u);
  }
}

/// Whether somebody had the file open half a second after a reader of it had stopped.
void expect_closed(const std::string& how) {
  const TemporaryDirectory directory;
  const std::string path = directory / "data.bin";
  write_pattern(path, 256 * kMiB);
  const Words program = prefetch_reader(how, path, kLargeRead, 1'000);
  if (of_prefetch_reader(run_any(program).out).told != 0) {
    GTEST_SKIP() << "no leases on this file system";
  }
  uint64_t operations = 0;
  for (int i = 0; i < kTries && operations == 0; ++i) {
    if (!drop_from_cache(path)) GTEST_SKIP() << "this file system does not drop pages";
    const Followed followed = follow(program);
    operations = followed.operations();
    EXPECT_EQ(of_prefetch_reader(followed.ran.out).told, 0);
  }
  EXPECT_GT(operations, 0u) << "in none of " << kTries << " tries was there a file to close";
}

TEST(PrefetchingOnDisk, AFileIsClosedWhenThereIsNothingMoreToAskFor) {
  expect_closed("after");
}

TEST(PrefetchingOnDisk, AFileIsClosedWhenItsReaderStandsStill) {
  expect_closed("pause");
}

TEST(PrefetchingOnDisk, ALeaseIsNotBroken) {
  const TemporaryDirectory directory;
  const std::string path = directory / "data.bin";
  write_pattern(path, 128 * kMiB);
  for (int i = 0; i < 3; ++i) {
    if (!drop_from_cache(path)) GTEST_SKIP() << "this file system does not drop pages";
    const Words program = prefetch_reader("lease", path, kLargeRead, 1'000);
    if (i == 0 && run_any(program).code == 77) GTEST_SKIP() << "no leases on this file system";
    ASSERT_TRUE(drop_from_cache(path));
    const Followed followed = follow(program);
    const Seen seen = of_prefetch_reader(followed.ran.out);
    EXPECT_EQ(seen.chunks, 8);
    EXPECT_EQ(seen.told, 0);
    EXPECT_EQ(followed.operations(), 0u);
  }
}

/// A reader that stops in the middle, with much ahead of it, makes a call at once that meets
/// whoever has the file open: it must end as it does without help. `prepare` gives the file anew.
template <class Prepare>
void expect_no_obstacle(const std::string& how, Prepare prepare, uint64_t chunk = kLargeRead) {
  uint64_t operations = 0;
  for (int i = 0; i < 4 * kTries && operations == 0; ++i) {
    const std::string path = prepare();
    if (path.empty()) GTEST_SKIP() << "not to be had here";
    if (!drop_from_cache(path)) GTEST_SKIP() << "this file system does not drop pages";
    const Followed followed = follow(prefetch_reader(how, path, chunk, 1'000));
    if (followed.ran.code == 77) GTEST_SKIP() << "the kernel does not allow it";
    operations = followed.operations();
    ASSERT_EQ(followed.ran.code, 0);
    EXPECT_EQ(of_prefetch_reader(followed.ran.out).told, 0);
  }
  EXPECT_GT(operations, 0u) << "in none of " << 4 * kTries << " tries was the file open";
}

TEST(PrefetchingOnDisk, ALeaseIsHadOfAFileThatIsBeingRead) {
  const TemporaryDirectory directory;
  expect_no_obstacle("own", [&] {
    const std::string path = directory / "data.bin";
    write_pattern(path, 256 * kMiB);
    const bool has_leases =
        of_prefetch_reader(run_any(prefetch_reader("own", path, kLargeRead, 0)).out).told == 0;
    return has_leases ? path : std::string();
  });
}

TEST(PrefetchingOnDisk, AWatchHearsNothingOfAFileThatIsBeingRead) {
  const TemporaryDirectory directory;
  expect_no_obstacle("listen", [&] {
    const std::string path = directory / "data.bin";
    write_pattern(path, 256 * kMiB);
    return path;
  });
}

TEST_F(Prefetching, TheFileSystemCanBeUnmountedBehindTheReaderItself) {
  if (geteuid() != 0) GTEST_SKIP() << "only root unmounts";
  expect_no_obstacle(
      "unmount",
      [&, mounted = true]() mutable {
        if (!mounted && !device.mount()) return std::string();
        mounted = false;
        return device.file(96 * kMiB);
      },
      kMiB);
  EXPECT_TRUE(device.mount());
}

TEST_F(Prefetching, AFolderCanBeRemovedBehindItsFileWhereRemovedFilesAreKept) {
  // bindfs keeps a removed file that is open under another name, as libfuse's high-level interface
  // and NFS do.
  const TemporaryDirectory directory;
  const std::string folder = device.mount_point() + "/folder";
  const std::string bound = directory / "bound";
  mkdir(bound.c_str(), 0700);
  const std::string mount =
      "bindfs -o kernel_cache '" + device.mount_point() + "' '" + bound + "' 2>&1";
  if (std::system(mount.c_str()) != 0) GTEST_SKIP() << "bindfs cannot be had here";
  const std::unique_ptr<const std::string, void (*)(const std::string*)> mounted(
      &bound, [](const std::string* where) {
        EXPECT_EQ(std::system(("fusermount3 -u '" + *where + "'").c_str()), 0);
      });
  expect_no_obstacle(
      "remove",
      [&] {
        mkdir(folder.c_str(), 0700);
        const std::string path = device.file(96 * kMiB, "folder/data.bin");
        return drop_from_cache(path) ? bound + "/folder/data.bin" : std::string();
      },
      kMiB);
}

/// Reads a file and unmounts its file system at once, again and again. Prints the unsuccessful
/// tries: the command may need a moment to hear that the reader has ended.
std::string unmounting_script(const Words& reader, const std::string& mount_point) {
  return as_script(reader) + "> /dev/null; n=0; while ! umount '" + mount_point +
         "' 2> /dev/null; do n=$((n + 1)); test $n -lt 50 || break; sleep 0.1; done; echo $n";
}

TEST_F(Prefetching, TheFileSystemCanBeUnmountedWhenTheReaderHasEnded) {
  if (geteuid() != 0) GTEST_SKIP() << "only root unmounts";
  const std::string path = device.file(48 * kMiB);
  ASSERT_TRUE(drop_from_cache(path));
  // It stops in the middle, with much ahead of it.
  const Words reader{"/usr/bin/head", "-c", "16M", path};
  followed = follow(shell(unmounting_script(reader, device.mount_point())));
  EXPECT_LT(std::stoi(followed.ran.out), 50);
  RecordProperty("unsuccessful_tries", followed.ran.out);
  EXPECT_TRUE(device.mount());
}

TEST(PrefetchingOnDisk, TheFileSystemCanBeUnmountedWhenTheReaderHasEnded) {
  constexpr int kNone = 77;
  constexpr int kNothingAsked = 78;
  constexpr int kMostRuns = 40;  // where the disk below is cached, one of five is long enough
  int tries = kNothingAsked;
  // In a child: the mount is in a name space that a process enters for good.
  for (int i = 0; i < kMostRuns && tries == kNothingAsked; ++i) {
    tries = ioweave::test::run_in_child([] {
      const SmallFilesystem file_system(256 * kMiB);
      if (!file_system.problem().empty()) return kNone;
      const std::string path = file_system.file("data.bin");
      write_pattern(path, 192 * kMiB);
      if (!drop_from_cache(path)) return kNone;
      const Words reader = chunk_reader(path, kLargeRead, 1'000);
      const Followed followed =
          follow(shell(unmounting_script(reader, std::filesystem::path(path).parent_path())));
      return followed.operations() == 0 ? kNothingAsked : std::stoi(followed.ran.out);
    });
  }
  if (tries == kNone) GTEST_SKIP() << "no file system on a loop device here";
  EXPECT_LT(tries, 50);
  RecordProperty("unsuccessful_tries", tries);
}

TEST_F(Prefetching, TheCommandEndsWithTheProgram) {
  // The command waits for its thread for a second at most: it should never come to that. The best
  // of a few tries, since a busy machine may take as long for other reasons.
  const std::string path = device.file(48 * kMiB);
  auto best = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < kTries && best >= std::chrono::milliseconds(900); ++i) {
    ASSERT_TRUE(drop_from_cache(path));
    const auto begin = std::chrono::steady_clock::now();
    followed = follow({"/usr/bin/head", "-c", "8M", path});
    best = std::min(best, std::chrono::steady_clock::now() - begin);
  }
  EXPECT_LT(best, std::chrono::milliseconds(900));
}

}  // namespace
}  // namespace ioweave::cli::test
