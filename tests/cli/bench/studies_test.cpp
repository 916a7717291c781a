// Which loads `ioweave bench` measures, and which of them stand beside each other.

#include "cli/bench/studies.hpp"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ioweave::cli {
namespace {

using device::IoWay;
using device::Load;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kGiB = uint64_t{1} << 30;

BenchOptions taken(const BenchWords& words, bool all = false) {
  BenchOptions options;
  options.all = all;
  EXPECT_THAT(take_studies(words, options), IsEmpty());
  return options;
}

std::string refused(const BenchWords& words) {
  BenchOptions options;
  return take_studies(words, options);
}

TEST(BenchLists, AreListsAndRangesTimesFour) {
  BenchWords words;
  words.blocks = "1m,4k-100k";
  words.depths = "3";
  words.read_percents = "0-100,50";
  const BenchOptions options = taken(words);
  EXPECT_THAT(options.blocks, ElementsAre(4096, 16384, 65536, 102400, 1u << 20));
  EXPECT_THAT(options.depths, ElementsAre(3));
  EXPECT_THAT(options.read_percents, ElementsAre(0, 50, 100));
}

TEST(BenchLists, NameTheMistake) {
  BenchWords words;
  for (const char* const wrong : {"", "4", "1000", "4k,", "8k-4k", "4k-", "x", "2g"}) {
    words.blocks = wrong;
    if (!words.blocks.empty()) {
      EXPECT_THAT(refused(words), HasSubstr("multiples of 512")) << wrong;
    }
  }
  words = {};
  words.depths = "0";
  EXPECT_THAT(refused(words), HasSubstr("depths '0'"));
  words = {};
  words.read_percents = "101";
  EXPECT_THAT(refused(words), HasSubstr("read shares '101'"));
  words = {};
  words.studies = "blok";
  EXPECT_THAT(refused(words), HasSubstr("did you mean 'block'?"));
  words = {};
  words.ways = "magic";
  EXPECT_THAT(refused(words), HasSubstr("known are psync, io_uring,"));
  words = {};
  words.size = "5";
  EXPECT_THAT(refused(words), HasSubstr("size '5'"));
  words = {};
  words.block = "100";
  EXPECT_THAT(refused(words), HasSubstr("block '100'"));
}

TEST(BenchPlan, HoldsEachLoadOnceAndOnlyWhatCanBe) {
  for (const bool all : {false, true}) {
    const std::vector<Load> plan = planned_loads(taken({}, all), kGiB, false);
    EXPECT_EQ(std::set<Load>(plan.begin(), plan.end()).size(), plan.size());
    for (const Load& load : plan) {
      EXPECT_TRUE(load.way != IoWay::psync || load.depth == 1);
      EXPECT_TRUE(load.way != IoWay::iopoll || load.direct);
      EXPECT_LE(load.block_bytes * load.depth, kGiB);
    }
  }
}

TEST(BenchPlan, OfAFileThatIsOnlyReadHoldsNoWrites) {
  const std::vector<Load> plan = planned_loads(taken({}), kGiB, true);
  EXPECT_FALSE(plan.empty());
  EXPECT_TRUE(std::ranges::all_of(plan, [](const Load& load) { return load.read_percent == 100; }));
}

TEST(BenchPlan, LeavesOutBlocksThatDoNotFitTheFile) {
  const std::vector<Load> plan = planned_loads(taken({}), 1u << 20, false);
  EXPECT_TRUE(
      std::ranges::all_of(plan, [](const Load& load) { return load.block_bytes <= 1u << 20; }));
}

TEST(BenchPlan, KeepsToTheListsThatWereGiven) {
  BenchWords words;
  words.studies = "depth";
  words.ways = "io_uring";
  words.cache = "direct";
  words.depths = "2,8";
  const std::vector<Load> plan = planned_loads(taken(words), kGiB, false);
  ASSERT_EQ(plan.size(), 3u * 2 * 2);  // blocks, depths, reads and writes
  for (const Load& load : plan) {
    EXPECT_TRUE(load.way == IoWay::uring && load.direct && load.random);
    EXPECT_TRUE(load.depth == 2 || load.depth == 8);
  }
}

TEST(BenchPlan, OfAllCombinationsIsTheirProduct) {
  BenchWords words;
  words.ways = "io_uring";
  words.cache = "buffered";
  words.blocks = "4k,64k";
  words.depths = "1,4";
  words.read_percents = "0,100";
  EXPECT_EQ(planned_loads(taken(words, true), kGiB, false).size(), 2u * 2 * 2 * 2);
}

device::Profile profile_of(const std::vector<Load>& plan) {
  device::Profile profile;
  profile.block_bytes = 256u << 10;
  for (const Load& load : plan) profile.results.push_back({load, {{1, 1, 1, 0}}, {}});
  return profile;
}

TEST(BenchViews, OfAllStudiesShowEachForBothCaches) {
  const std::vector<View> views = views_of(profile_of(planned_loads(taken({}), kGiB, false)));
  for (const bool direct : {true, false}) {
    for (const Study study : {Study::share, Study::block, Study::pattern, Study::depth}) {
      EXPECT_TRUE(std::ranges::any_of(
          views, [&](const View& view) { return view.study == study && view.direct == direct; }));
    }
  }
  for (const View& view : views) EXPECT_EQ(view.names.size(), view.rows.size()) << view.title;
}

TEST(BenchViews, OfOneStudyShowNoOther) {
  BenchWords words;
  words.studies = "depth";
  for (const View& view : views_of(profile_of(planned_loads(taken(words), kGiB, false)))) {
    EXPECT_EQ(view.study, Study::depth) << view.title;
  }
}

TEST(BenchViews, LeaveOutTheShareThatMovesNothing) {
  for (const View& view : views_of(profile_of(planned_loads(taken({}), kGiB, false)))) {
    if (view.title.starts_with("MB/s written")) {
      EXPECT_THAT(view.names, Each(::testing::StrNe("100 %")));
    }
    if (view.title.starts_with("MB/s read ")) {
      EXPECT_THAT(view.names, Contains("100 %"));
    }
  }
}

TEST(BenchWordsOf, ALoadSayWhatItIs) {
  EXPECT_EQ(load_text({IoWay::uring, true, true, 100, 4096, 16}),
            "random reads of 4 KiB, O_DIRECT, 16 at a time");
  EXPECT_EQ(load_text({IoWay::psync, false, false, 0, 1u << 20, 1}),
            "sequential writes of 1 MiB, through the page cache, one at a time");
  EXPECT_EQ(block_text(1536), "1536 B");
}

}  // namespace
}  // namespace ioweave::cli
