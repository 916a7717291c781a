// Policy `auto` on calls past the page cache, by the built command with the real interposer. What a
// profile of the device promises makes it hold writes back from the first one on.

#include <csignal>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/command_runner.hpp"
#include "device/profile.hpp"
#include "engine/backends.hpp"
#include "engine/probe.hpp"
#include "engine/system_facts.hpp"
#include "stats/text_file.hpp"
#include "support/small_filesystem.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::cli::test {
namespace {

using ioweave::test::read_text;
using ioweave::test::SmallFilesystem;
using ioweave::test::TempDir;
using ioweave::test::write_text;
using ::testing::HasSubstr;

using Words = std::vector<std::string>;

constexpr int kBlocks = 64;
constexpr uint64_t kBlockBytes = 4096;

std::string blocks(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes.append(kBlockBytes, static_cast<char>(i & 255));
  return bytes;
}

/// A device that writes 1 MiB a hundred times as fast as 4 KiB, and pieces of 256 KiB at once a
/// hundred times as fast as 4 MiB.
std::string promising_profile() {
  device::Profile profile;
  profile.by = "test";
  profile.cpus = 1;
  profile.file_bytes = profile.block_bytes = 1 << 20;
  profile.seconds = 1;
  const auto add = [&profile](const device::Load& load, uint64_t mb_per_s) {
    const uint64_t bytes = mb_per_s * 1'000'000;
    const bool reads = load.read_percent != 0;
    profile.results.push_back({load, {{reads ? bytes : 0, reads ? 0 : bytes, 1, 0.1}}, {}});
  };
  for (const unsigned read_percent : {0u, 100u}) {
    add({device::IoWay::psync, true, false, read_percent, 4096, 1}, 10);
    add({device::IoWay::psync, true, false, read_percent, 1 << 20, 1}, 1000);
    add({device::IoWay::psync, true, false, read_percent, 4 << 20, 1}, 10);
    add({device::IoWay::uring, true, true, read_percent, 256 << 10, 4}, 1000);
  }
  return profile_json(profile);
}

class FastestWay : public ::testing::Test {
 protected:
  void SetUp() override {
    const Ran plain = run_any(writer(folder_.file("try"), "close"));
    if (plain.code == 77) GTEST_SKIP() << "no O_DIRECT here";
    ASSERT_EQ(plain.code, 0) << plain.err;
  }
  static Words writer(const std::string& path, const std::string& how, int count = kBlocks) {
    return {IOWEAVE_DIRECT_WRITER, path, std::to_string(count), how};
  }
  /// In a folder whose ioweave.toml tells the profile of the device that holds `path`.
  Ran run(const Words& program, const std::string& path,
          const Words& options = {"--hold-direct-writes"}) const {
    write_text(folder_, "profile.json", promising_profile());
    write_text(
        folder_, "ioweave.toml",
        "[[device]]\nname = \"disk\"\npath = \"" + path + "\"\nprofile = \"profile.json\"\n");
    Words words{"run", "--json=" + report_, "-o", run_file_};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), program.begin(), program.end());
    Surroundings how;
    how.variables = {{"IOWEAVE_PRELOAD_PATH", preload_}};
    how.directory = folder_.path();
    return run_ioweave(words, how);
  }
  Ran run(const std::string& how) const { return run(writer(out_, how), folder_.path()); }
  [[nodiscard]] uint64_t held() const {
    const auto report = nlohmann::json::parse(read_text(report_));
    const nlohmann::json& summary = report["summary"];
    return summary.contains("behind") ? summary["behind"]["calls"].get<uint64_t>() : 0;
  }
  [[nodiscard]] std::string why() const {
    return run_ioweave({"report", run_file_, "--why", "out"}).out;
  }

  TempDir folder_;
  std::string preload_ = IOWEAVE_PRELOAD_LIBRARY;
  std::string out_ = folder_.file("out");
  std::string report_ = folder_.file("report.json");
  std::string run_file_ = folder_.file("run.jsonl");
};

TEST_F(FastestWay, AProfileDecidesTheFirstCalls) {
  const Ran ran = run("close");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(read_text(out_), blocks(kBlocks));
  EXPECT_EQ(held(), kBlocks) << ran.err;
  EXPECT_THAT(why(), HasSubstr("Its writes of up to 4.0 KiB are held back"));
  EXPECT_THAT(why(), HasSubstr("expected to be 56 times as fast as plain calls"));
}

TEST_F(FastestWay, LargeTransfersAreMadeInPieces) {
  std::string reason;
  const engine::BackendOptions found = engine::best_backend({}, reason);
  if (found.kind != engine::Kind::uring) GTEST_SKIP() << "no io_uring here: " << reason;
  for (const char* const how : {"large", "hole"}) {
    const std::string other = folder_.file(std::string("plain-") + how);
    const Ran plain = run_any(writer(other, how, 4));
    ASSERT_EQ(plain.code, 0) << plain.err;
    std::remove(out_.c_str());
    const Ran ran = run(writer(out_, how, 4), folder_.path());
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.out, plain.out) << how;
    EXPECT_TRUE(read_text(out_) == read_text(other)) << how << ": the files differ";
    EXPECT_GT(nlohmann::json::parse(read_text(report_))["summary"]["engine_operations"], 0) << how;
  }
  EXPECT_THAT(why(), HasSubstr("go through the engine in pieces of 256.0 KiB, 4 at once"));
}

/// By an interposer that goes every unusual way in turn, and need not find out whether it pays.
TEST_F(FastestWay, LargePagesServeBuffersAndReadsInTheSameProgram) {
  if (engine::large_page_bytes() != 2 << 20) GTEST_SKIP() << "no huge pages of 2 MiB here";
  const std::string other = folder_.file("plain");
  const Ran plain = run_any(writer(other, "large", 8));
  ASSERT_EQ(plain.code, 0) << plain.err;
  preload_ = IOWEAVE_CARRYING_LIBRARY;
  const Ran ran = run(writer(out_, "large", 8), folder_.path());
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, plain.out);
  EXPECT_TRUE(read_text(out_) == read_text(other)) << "the files differ";
  EXPECT_THAT(why(), HasSubstr("  bounce "));
  if (!engine::kernel_at_least(6, 1)) GTEST_SKIP() << "no MADV_COLLAPSE before Linux 6.1";
  const auto report = nlohmann::json::parse(read_text(report_));
  EXPECT_GE(report["summary"]["large_pages"]["bytes"], 2 << 20);
  EXPECT_THAT(ran.err, HasSubstr("of buffers, laid there in "));
  EXPECT_THAT(why(), HasSubstr("Buffers of the run were laid in large pages"));
}

TEST_F(FastestWay, PolicyOverlapLeavesBuffersAlone) {
  preload_ = IOWEAVE_CARRYING_LIBRARY;
  ASSERT_EQ(run(writer(out_, "large", 8), folder_.path(), {"--policy", "overlap"}).code, 0);
  EXPECT_FALSE(nlohmann::json::parse(read_text(report_))["summary"].contains("large_pages"));
}

TEST_F(FastestWay, WritesAreHeldBackOnlyWhereTheUserAgrees) {
  ASSERT_EQ(run(writer(out_, "close"), folder_.path(), {}).code, 0);
  EXPECT_EQ(held(), 0u);
  EXPECT_EQ(read_text(out_), blocks(kBlocks));
}

TEST_F(FastestWay, WithoutAProfileTheFirstCallsArePlain) {
  const TempDir other;
  const Ran ran = run(writer(out_, "close"), other.file("nothing"));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(read_text(out_), blocks(kBlocks));
  EXPECT_EQ(held(), 0u);
  EXPECT_THAT(why(), HasSubstr("nothing else was tried"));
}

TEST_F(FastestWay, PolicyOverlapLeavesCallsAlone) {
  ASSERT_EQ(
      run(writer(out_, "close"), folder_.path(), {"--hold-direct-writes", "--policy", "overlap"})
          .code,
      0);
  EXPECT_EQ(held(), 0u);
  EXPECT_THAT(why(), HasSubstr("Its calls are the program's own"));
}

TEST_F(FastestWay, WritesThatAreToBeDurableAreMadeAtOnce) {
  ASSERT_EQ(run("sync").code, 0);
  EXPECT_EQ(held(), 0u);
}

TEST_F(FastestWay, NothingIsHeldBackWhereMemoryIsShared) {
  ASSERT_EQ(run("shared").code, 0);
  EXPECT_EQ(held(), 0u);
  ASSERT_EQ(run("halfway").code, 0) << "the other process saw an old file";
  EXPECT_EQ(held(), kBlocks / 2);
  EXPECT_EQ(read_text(out_), blocks(kBlocks));
}

TEST_F(FastestWay, AChildSeesWhatWasWritten) {
  ASSERT_EQ(run("fork").code, 0);
  EXPECT_EQ(held(), kBlocks);
}

TEST_F(FastestWay, AFileThatIsReadOtherwiseIsWrittenPlainly) {
  for (const char* const how : {"stream", "mapped"}) {
    ASSERT_EQ(run(how).code, 0) << how;
    EXPECT_EQ(held(), 0u) << how;
    EXPECT_EQ(read_text(out_), blocks(kBlocks));
  }
}

TEST_F(FastestWay, NothingIsHeldBackWhereLittleRoomIsLeft) {
  const SmallFilesystem small(16 << 20);
  if (!small.problem().empty()) GTEST_SKIP() << small.problem();
  const Ran ran = run(writer(small.file("out"), "close"), small.file(""));
  if (ran.code == 77) GTEST_SKIP() << "no O_DIRECT there";
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(held(), 0u);
}

TEST_F(FastestWay, AProgramThatFaultsLosesNothing) {
  EXPECT_EQ(run("fault").code, 128 + SIGSEGV);
  EXPECT_EQ(read_text(out_), blocks(kBlocks));
}

TEST_F(FastestWay, WhoHearsOfAKilledChildSeesWhatItWrote) {
  ASSERT_EQ(run("killed").code, 0) << "the parent saw an old file";
  EXPECT_GT(held(), 0u);
}

TEST_F(FastestWay, ABadProfileIsAWarningThatNamesIt) {
  write_text(folder_, "ioweave.toml",
             "[[device]]\nname = \"disk\"\npath = \"/\"\nprofile = \"none.json\"\n");
  Surroundings how;
  how.directory = folder_.path();
  const Ran ran = run_ioweave({"run", "--", "/bin/true"}, how);
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.err, HasSubstr("warning: device 'disk': '" + folder_.path() +
                                 "/none.json' "
                                 "cannot be read"));
}

TEST_F(FastestWay, WhyNamesTheFilesThatThereAre) {
  ASSERT_EQ(run("close").code, 0);
  const Ran ran = run_ioweave({"report", run_file_, "--why", "ouy"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("the run touched no file 'ouy'"));
}

}  // namespace
}  // namespace ioweave::cli::test
