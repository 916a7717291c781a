#include "device/learned.hpp"

#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stats/text_file.hpp"

namespace ioweave::device {
namespace {

using test::read_text;
using test::TempDir;
using test::write_text;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(LearnedFile, IsReadAsItWasWritten) {
  const TempDir folder;
  const Learned learned{{{"write", "scratch"}, "climb 45:361.5 1:20"},
                        {{"a \"quoted\" t\u00e4sk", "ssd"}, "climb 2:10"}};
  ASSERT_EQ(write_learned(folder.file("l.json"), learned), 0);
  EXPECT_THAT(read_text(folder.file("l.json")), HasSubstr("\"kind\": \"ioweave-learned/1\""));
  Learned read{{{"write", "scratch"}, "old"}, {{"other", "ssd"}, "kept"}};
  std::string why;
  ASSERT_EQ(read_learned(folder.file("l.json"), read, why), 0) << why;
  Learned expected = learned;
  expected[{"other", "ssd"}] = "kept";
  EXPECT_EQ(read, expected);
}

TEST(LearnedFile, OfEarlierRunsIsRead) {
  const TempDir folder;
  const std::string path = write_text(
      folder, "l.json",
      "{\n \"kind\": \"ioweave-learned/1\",\n \"flows\": [\n  {\n   \"task\": \"m.write\",\n"
      "   \"device\": \"default\",\n   \"learned\": \"climb 8:100.5\"\n  }\n ]\n}\n");
  Learned read;
  std::string why;
  ASSERT_EQ(read_learned(path, read, why), 0) << why;
  EXPECT_EQ(read, (Learned{{{"m.write", "default"}, "climb 8:100.5"}}));
  ASSERT_EQ(write_learned(folder.file("again.json"), read), 0);
  EXPECT_EQ(read_text(folder.file("again.json")), read_text(path));
}

TEST(LearnedFile, MayNotExistYetButItsFolderMust) {
  const TempDir folder;
  Learned read;
  std::string why;
  EXPECT_EQ(read_learned(folder.file("absent"), read, why), 0);
  EXPECT_EQ(read_learned(folder.file("absent/l.json"), read, why), -ENOENT);
  EXPECT_THAT(read, IsEmpty());
}

TEST(LearnedFile, OfAnotherKindIsRefused) {
  const TempDir folder;
  for (const auto& [text, words] : {
           std::pair{"{", "it is not JSON"},
           {"[]", "it has no kind"},
           {"{\"kind\": \"x\"}", "its kind is 'x', not 'ioweave-learned/1'"},
           {"{\"kind\": \"ioweave-learned/1\"}", "it has no list of flows"},
           {"{\"kind\": \"ioweave-learned/1\", \"flows\": [{}]}", "a flow has no task"},
           {"{\"kind\": \"ioweave-learned/1\", \"flows\": [3]}", "a flow has no task"},
       }) {
    Learned read;
    std::string why;
    EXPECT_EQ(read_learned(write_text(folder, "l.json", text), read, why), -EBADMSG);
    EXPECT_THAT(why, HasSubstr(words));
    EXPECT_THAT(read, IsEmpty());
  }
}

}  // namespace
}  // namespace ioweave::device
