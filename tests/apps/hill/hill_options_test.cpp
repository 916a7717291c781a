#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "options.hpp"

namespace hill {
namespace {

using testing::HasSubstr;

Options parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "hill");
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

TEST(HillOptions, AreThoseOfThePaperByDefault) {
  const Options options = parse({"--encrypt", "in", "out"});
  EXPECT_EQ(options.direction, Cipher::Direction::kEncrypt);
  EXPECT_EQ(options.input, "in");
  EXPECT_EQ(options.output, "out");
  EXPECT_EQ(options.key_size, 100u);
  EXPECT_EQ(options.rounds, 1u);
}

TEST(HillOptions, TakeSizesWithAUnit) {
  EXPECT_EQ(parse_size("65536"), 65536u);
  EXPECT_EQ(parse_size("64K"), 65536u);
  EXPECT_EQ(parse_size("3m"), 3u << 20);
  EXPECT_EQ(parse_size("2G"), uint64_t{2} << 30);
  for (const char* text :
       {"", "K", "-1", "1.5M", "1MB", "1T", " 1", "99999999999999999999", "9999999999G"}) {
    EXPECT_EQ(parse_size(text), std::nullopt) << text;
  }
}

TEST(HillOptions, TakeChunksFrom64KTo2GInMultiplesOf64K) {
  EXPECT_EQ(parse({"-e", "-c", "64K", "a", "b"}).chunk_bytes, size_t{64} << 10);
  EXPECT_EQ(parse({"-e", "-c", "2G", "a", "b"}).chunk_bytes, size_t{2} << 30);
  for (const char* chunk : {"32K", "100000", "3G", "0", "fast"}) {
    EXPECT_THAT(error_of({"-e", "-c", chunk, "a", "b"}), HasSubstr("64K to 2G"));
  }
}

TEST(HillOptions, NameTheRangeOfANumber) {
  EXPECT_THAT(error_of({"-e", "-k", "0", "a", "b"}), HasSubstr("--key-size"));
  EXPECT_THAT(error_of({"-e", "-k", "1025", "a", "b"}), HasSubstr("1 to 1024"));
  EXPECT_THAT(error_of({"-e", "-r", "0", "a", "b"}), HasSubstr("--rounds"));
  EXPECT_THAT(error_of({"-e", "-s", "-3", "a", "b"}), HasSubstr("--seed"));
}

TEST(HillOptions, NeedOneDirection) {
  EXPECT_THAT(error_of({"a", "b"}), HasSubstr("--encrypt or --decrypt"));
  EXPECT_THAT(error_of({"-e", "-d", "a", "b"}), HasSubstr("one of --encrypt and --decrypt"));
}

TEST(HillOptions, NeedInputAndOutput) {
  EXPECT_THAT(error_of({"-e", "a"}), HasSubstr("got 1"));
}

TEST(HillOptions, AreAllInTheHelp) {
  for (const char* name : {"--encrypt", "--decrypt", "--key-size", "--seed", "--key-file",
                           "--rounds", "--chunk", "--fsync", "--stats-json", "--verbose"}) {
    EXPECT_THAT(help_text(), HasSubstr(name));
  }
}

}  // namespace
}  // namespace hill
