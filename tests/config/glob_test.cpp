#include "config/glob.hpp"

#include <cstring>
#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace ioweave::config {
namespace {

TEST(Glob, StarStaysWithinOneComponent) {
  EXPECT_TRUE(glob_matches("/data/*.h5", "/data/run.h5"));
  EXPECT_FALSE(glob_matches("/data/*.h5", "/data/deep/run.h5"));
  EXPECT_TRUE(glob_matches("/data/*", "/data/"));
  EXPECT_FALSE(glob_matches("/data/?", "/data//"));
}

TEST(Glob, DoubleStarCrossesComponents) {
  EXPECT_TRUE(glob_matches("/data/**", "/data/a/b/c"));
  EXPECT_TRUE(glob_matches("**", ""));
  EXPECT_TRUE(glob_matches("**.tmp", "/a/b/c.tmp"));
  EXPECT_FALSE(glob_matches("/data/**", "/other/a"));
}

TEST(Glob, DoubleStarBetweenSlashesMatchesNoComponentToo) {
  EXPECT_TRUE(glob_matches("/a/**/b", "/a/b"));
  EXPECT_TRUE(glob_matches("/a/**/b", "/a/x/y/b"));
  EXPECT_FALSE(glob_matches("/a/**/b", "/a/xb"));
  EXPECT_TRUE(glob_matches("/**/*.h5", "/run.h5"));
}

TEST(Glob, BacktracksThroughSeveralWildcards) {
  EXPECT_TRUE(glob_matches("/**/a*b/*c", "/x/aab/ab/cc"));
  EXPECT_TRUE(glob_matches("*a*b", "aXbYaZb"));
  EXPECT_FALSE(glob_matches("*a*b", "aXbYaZc"));
  EXPECT_TRUE(glob_matches("/**/x/**/y", "/x/q/x/z/y"));
}

TEST(Glob, SetsRangesAndNegation) {
  EXPECT_TRUE(glob_matches("/r[0-9].bin", "/r7.bin"));
  EXPECT_FALSE(glob_matches("/r[!0-9].bin", "/r7.bin"));
  EXPECT_TRUE(glob_matches("/r[]x].bin", "/r].bin"));
  EXPECT_FALSE(glob_matches("/a[!x]b", "/a/b"));
  EXPECT_TRUE(glob_matches("/a[b", "/a[b"));
}

TEST(Glob, BackslashTakesAwayTheMeaning) {
  EXPECT_TRUE(glob_matches("/a\\*b", "/a*b"));
  EXPECT_FALSE(glob_matches("/a\\*b", "/aXb"));
  EXPECT_TRUE(glob_matches("/a\\", "/a\\"));
}

TEST(Glob, ManyStarsOnALongPathStayCheap) {
  std::string pattern;
  for (int i = 0; i < 60; ++i) pattern += "*a";
  pattern += "b";
  const std::string path(4000, 'a');
  EXPECT_FALSE(glob_matches(pattern, path));
  EXPECT_FALSE(glob_matches("/**/" + pattern + "/**/c", "/" + path));
}

TEST(Glob, TheFirstMatchingRuleDecides) {
  auto config = std::make_unique<RunConfig>();
  config->rules = 2;
  std::strcpy(config->rule[0].glob, "/data/*.log");
  config->rule[0].policy = RunPolicy::off;
  std::strcpy(config->rule[1].glob, "/data/**");
  config->rule[1].policy = RunPolicy::sync;
  EXPECT_EQ(policy_of(*config, "/data/x.log"), RunPolicy::off);
  EXPECT_EQ(policy_of(*config, "/data/x.bin"), RunPolicy::sync);
  EXPECT_EQ(policy_of(*config, "/else"), RunPolicy::automatic);
}

}  // namespace
}  // namespace ioweave::config
