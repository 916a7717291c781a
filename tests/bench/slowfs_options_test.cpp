#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "options.hpp"

namespace slowfs {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Options parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "ioweave-slowfs");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return parse_options(static_cast<int>(arguments.size()), argv.data());
}

std::string error_of(const std::vector<std::string>& arguments) {
  try {
    parse(arguments);
  } catch (const UsageError& error) {
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

TEST(SlowfsOptions, AreUnlimitedWriteThroughAndSharedByDefault) {
  const Options options = parse({"source", "mount"});
  EXPECT_EQ(options.source, "source");
  EXPECT_EQ(options.mountpoint, "mount");
  EXPECT_EQ(options.read_mb_s, 0);
  EXPECT_EQ(options.write_mb_s, 0);
  EXPECT_FALSE(options.per_file);
  EXPECT_FALSE(options.write_back);
  EXPECT_FALSE(options.full_duplex);
  EXPECT_EQ(options.max_readahead_kb, 128u);
}

TEST(SlowfsOptions, TakeSpeedsAndModes) {
  const Options options = parse({"--read-mb-s", "400.5", "--write-mb-s=80", "--latency-us", "250",
                                 "--per-file", "--full-duplex", "--write-back", "source", "mount"});
  EXPECT_DOUBLE_EQ(options.read_mb_s, 400.5);
  EXPECT_DOUBLE_EQ(options.write_mb_s, 80);
  EXPECT_EQ(options.latency_us, 250u);
  EXPECT_TRUE(options.per_file);
  EXPECT_TRUE(options.full_duplex);
  EXPECT_TRUE(options.write_back);
}

TEST(SlowfsOptions, TakeABadByte) {
  EXPECT_EQ(parse({"source", "mount"}).bad_at, -1);
  EXPECT_EQ(parse({"--bad-at", "5000000000", "source", "mount"}).bad_at, 5'000'000'000);
  EXPECT_THAT(error_of({"--bad-at=-1", "source", "mount"}), HasSubstr("--bad-at"));
  EXPECT_EQ(parse({"source", "mount"}).bad_write_at, -1);
  EXPECT_EQ(parse({"--bad-write-at", "7", "source", "mount"}).bad_write_at, 7);
  EXPECT_THAT(error_of({"--bad-write-at=x", "source", "mount"}), HasSubstr("--bad-write-at"));
}

TEST(SlowfsOptions, TakeTheEfficiencyOfStreams) {
  const Options options = parse({"--efficiency", "1:0.45,6:1,96:0.3", "source", "mount"});
  ASSERT_EQ(options.efficiency.size(), 3u);
  EXPECT_DOUBLE_EQ(options.efficiency[1].streams, 6);
  EXPECT_DOUBLE_EQ(options.efficiency[2].part, 0.3);
  for (const char* wrong :
       {"", "1", "1:", "1:2", "1:0", "0:1", "2:1,1:1", "1:1,", "1:1;2:1", "a:b"}) {
    EXPECT_THAT(error_of({"--efficiency", wrong, "source", "mount"}), HasSubstr("--efficiency"));
  }
}

TEST(SlowfsOptions, NameTheOptionOfARateThatIsNone) {
  for (const char* rate : {"fast", "0", "-5", "nan", "inf", "12MB", ""}) {
    EXPECT_THAT(error_of({"--read-mb-s", rate, "source", "mount"}),
                AllOf(HasSubstr("--read-mb-s"), HasSubstr("no limit")));
  }
}

TEST(SlowfsOptions, NameTheRangeOfACount) {
  EXPECT_THAT(error_of({"--latency-us", "-1", "source", "mount"}), HasSubstr("0 to 60000000"));
  EXPECT_THAT(error_of({"--slack-us", "1001", "source", "mount"}), HasSubstr("0 to 1000"));
  EXPECT_THAT(error_of({"--max-background", "0", "source", "mount"}), HasSubstr("1 to 1024"));
  EXPECT_THAT(error_of({"--max-readahead-kb", "x", "source", "mount"}), HasSubstr("'x'"));
}

TEST(SlowfsOptions, NeedBothDirectories) {
  EXPECT_THAT(error_of({"source"}), HasSubstr("source directory and a mount point"));
  EXPECT_THAT(error_of({"a", "b", "c"}), HasSubstr("got 3"));
}

TEST(SlowfsOptions, RefuseAnUnknownOption) {
  EXPECT_THROW(parse({"--red-mb-s", "4", "source", "mount"}), UsageError);
}

TEST(SlowfsOptions, TakeTheMountPointOnlyToUnmount) {
  EXPECT_EQ(parse({"--unmount", "mount"}).action, Options::Action::kUnmount);
  EXPECT_THAT(error_of({"--unmount", "mount", "other"}), HasSubstr("mount point only"));
}

TEST(SlowfsOptions, AreAllInTheHelp) {
  for (const char* name :
       {"--read-mb-s", "--write-mb-s", "--latency-us", "--metadata-latency-us", "--slack-us",
        "--shared", "--per-file", "--full-duplex", "--write-through", "--write-back",
        "--max-background", "--max-readahead-kb", "--foreground", "--ready-fd", "--unmount"}) {
    EXPECT_THAT(help_text(), HasSubstr(name));
  }
}

}  // namespace
}  // namespace slowfs
