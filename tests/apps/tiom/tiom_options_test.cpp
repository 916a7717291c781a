#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "options.hpp"
#include "runtime.hpp"

namespace tiom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::vector<std::string>& words) {
  try {
    parse_options(words);
  } catch (const UsageError& error) {
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

TEST(TiomSweep, DoublesFromTheFirstToTheLast) {
  EXPECT_THAT(parse_sizes("-b", "4k..32k"), ElementsAre(4096, 8192, 16384, 32768));
  EXPECT_THAT(parse_durations("-c", "0.1ms..0.4ms"), ElementsAre(100'000, 200'000, 400'000));
  EXPECT_THAT(parse_sizes("-b", "3k..3k"), ElementsAre(3072));
}

TEST(TiomSweep, IsAscendingAndHasEachValueOnce) {
  EXPECT_THAT(parse_sizes("-b", "1m,4k..16k,8k,512"), ElementsAre(512, 4096, 8192, 16384, 1 << 20));
  EXPECT_THAT(parse_durations("-c", "1ms,0,1000us"), ElementsAre(0, 1'000'000));
}

TEST(TiomSweep, NamesWhatCannotBeMeantAndTheWayOut) {
  EXPECT_THAT(error_of({"-b", "4k..10k"}), HasSubstr("end it at 8k or 16k"));
  EXPECT_THAT(error_of({"-b", "8k..4k"}), HasSubstr("smaller value first"));
  EXPECT_THAT(error_of({"-c", "0..4ms"}), HasSubstr("list 0 apart"));
  for (const char* text : {"", "k", "4kb", "4k,", "4k...8k", "-4k", "4 k", "99999999999g", "x"}) {
    EXPECT_THAT(error_of({"-b", text}), HasSubstr("--block")) << text;
    EXPECT_THAT(error_of({"-b", text}), HasSubstr("4k..8m")) << text;
  }
  for (const char* text :
       {"", "1", "ms", "1ms..", "inf", "nan", "1e3ms", "-1ms", "1min", "90000s"}) {
    EXPECT_THAT(error_of({"-c", text}), HasSubstr("--compute")) << text;
  }
}

TEST(TiomSweep, WritesValuesAsTheyAreRead) {
  for (const char* text : {"512", "4k", "64k", "3m", "1g", "1000", "2t"}) {
    EXPECT_EQ(size_text(*parse_size(text)), text);
  }
  for (const char* text : {"0", "0.1ms", "1ms", "1.5ms", "128ms", "2s", "2.25s", "50us", "0.5us"}) {
    EXPECT_EQ(duration_text(*parse_duration(text)), text);
  }
}

TEST(TiomOptions, AreThoseOfAQuickRandomReadByDefault) {
  const Options options = parse_options({});
  EXPECT_THAT(options.modes, ElementsAre(Mode::mix));
  EXPECT_FALSE(options.write);
  EXPECT_TRUE(options.direct);
  EXPECT_EQ(options.pattern, Pattern::random);
  EXPECT_EQ(options.runtime, RuntimeKind::threads);
  EXPECT_EQ(options.series, 128u);
  EXPECT_EQ(options.cells().size(), 9u);
}

TEST(TiomOptions, MakeACellOfEachCombination) {
  const Options options = parse_options({"--mode=fjio,mix", "-b", "4k,8k", "-c", "1ms,2ms,4ms"});
  const std::vector<Cell> cells = options.cells();
  ASSERT_EQ(cells.size(), 12u);
  EXPECT_EQ(cells.front(), (Cell{Mode::mix, 4096, 1'000'000}));
  EXPECT_EQ(cells.back(), (Cell{Mode::fjio, 8192, 4'000'000}));
}

TEST(TiomOptions, TakeValuesWithASpaceOrAnEqualsSign) {
  EXPECT_EQ(parse_options({"--series=7"}).series, 7u);
  EXPECT_EQ(parse_options({"--series", "7"}).series, 7u);
  EXPECT_EQ(parse_options({"-s", "7"}).series, 7u);
  EXPECT_TRUE(parse_options({"--op", "write"}).write);
  EXPECT_FALSE(parse_options({"--direct=off"}).direct);
}

TEST(TiomOptions, NameTheNearestWord) {
  EXPECT_THAT(error_of({"--serie", "4"}), HasSubstr("'--series'"));
  EXPECT_THAT(error_of({"64k"}), HasSubstr("is not an option"));
  EXPECT_THAT(error_of({"--series"}), HasSubstr("needs a value"));
  EXPECT_THAT(error_of({"--list=yes"}), HasSubstr("takes no value"));
}

TEST(TiomOptions, NameTheChoicesOfAWord) {
  EXPECT_THAT(error_of({"--mode", "fork"}), HasSubstr("mix, 1to1, fjio, fjc"));
  EXPECT_THAT(error_of({"--op", "append"}), HasSubstr("read, write"));
  EXPECT_THAT(error_of({"--runtime", "cilk"}), HasSubstr("threads, openmp, tbb, alpi, coroutine"));
  EXPECT_THAT(error_of({"--variant", "async"}), HasSubstr("standalone, blocking, nonblocking"));
  EXPECT_THAT(error_of({"--direct", "maybe"}), HasSubstr("on, off"));
}

TEST(TiomOptions, NameTheRangeOfANumber) {
  for (const char* option : {"--series", "--repetitions", "--threads"}) {
    for (const char* value : {"0", "-1", "many", "1.5", "99999999999"}) {
      EXPECT_THAT(error_of({option, value}), HasSubstr(option));
      EXPECT_THAT(error_of({option, value}), HasSubstr("from 1 to"));
    }
  }
  EXPECT_THAT(error_of({"--bytes", "0"}), HasSubstr("--bytes"));
  EXPECT_THAT(error_of({"--time-limit", "0"}), HasSubstr("--time-limit"));
}

TEST(TiomOptions, RefuseBlocksThatCannotBe) {
  EXPECT_THAT(error_of({"-b", "1000"}), HasSubstr("--direct off"));
  EXPECT_EQ(parse_options({"-b", "1000", "--direct", "off"}).blocks[0], 1000u);
  EXPECT_THAT(error_of({"-b", "8m", "--bytes", "4m"}), HasSubstr("raise --bytes"));
  EXPECT_THAT(error_of({"-b", "0"}), HasSubstr("1 to 1g"));
}

TEST(TiomOptions, RefuseCombinationsThatMeanNothing) {
  EXPECT_THAT(error_of({"--alpi-library", "x.so"}), HasSubstr("--runtime alpi"));
  EXPECT_THAT(error_of({"--overwrite"}), HasSubstr("--file"));
  EXPECT_THAT(error_of({"--advise", "--png", "a.png"}), HasSubstr("--advise"));
  EXPECT_THAT(error_of({"--advise", "--list"}), HasSubstr("one of"));
}

TEST(TiomOptions, AlwaysRunStandalone) {
  const Options options = parse_options({"--variant", "nonblocking"});
  EXPECT_THAT(chosen_variants(options), ElementsAre(Variant::standalone, Variant::nonblocking));
}

TEST(TiomOptions, RefuseToPauseWhereNothingCanBePaused) {
  for (const char* runtime : {"openmp", "coroutine"}) {
    const Options options = parse_options({"--runtime", runtime, "--variant", "blocking"});
    try {
      static_cast<void>(chosen_variants(options));
      ADD_FAILURE() << "accepted";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(runtime));
      EXPECT_THAT(error.what(), HasSubstr("nonblocking"));
    }
    EXPECT_THAT(chosen_variants(parse_options({"--runtime", runtime})),
                ElementsAre(Variant::standalone, Variant::nonblocking));
  }
}

TEST(TiomOptions, AreAllInTheHelp) {
  const std::string help = help_text();
  for (const char* option :
       {"--mode",    "--block",        "--compute",    "--series",      "--op",      "--pattern",
        "--direct",  "--bytes",        "--time-limit", "--repetitions", "--runtime", "--variant",
        "--threads", "--alpi-library", "--file",       "--overwrite",   "--json",    "--html",
        "--png",     "--resume",       "--list",       "--advise",      "--help"}) {
    EXPECT_THAT(help, HasSubstr(option));
  }
}

}  // namespace
}  // namespace tiom
