#include "calls/preload/glob.hpp"

#include <gtest/gtest.h>

namespace ioweave::calls {
namespace {

TEST(Glob, MatchesTheWholePath) {
  EXPECT_TRUE(glob_matches("/data/a.bin", "/data/a.bin"));
  EXPECT_FALSE(glob_matches("/data/a", "/data/a.bin"));
  EXPECT_FALSE(glob_matches("a.bin", "/data/a.bin"));
  EXPECT_TRUE(glob_matches("", ""));
  EXPECT_FALSE(glob_matches("", "a"));
}

TEST(Glob, StarStaysWithinAFolder) {
  EXPECT_TRUE(glob_matches("/data/*.bin", "/data/a.bin"));
  EXPECT_TRUE(glob_matches("/data/*", "/data/"));
  EXPECT_FALSE(glob_matches("/data/*.bin", "/data/x/a.bin"));
  EXPECT_TRUE(glob_matches("/*/*/c", "/a/b/c"));
  EXPECT_FALSE(glob_matches("/*/c", "/a/b/c"));
}

TEST(Glob, DoubleStarCrossesFolders) {
  EXPECT_TRUE(glob_matches("/data/**.bin", "/data/x/y/a.bin"));
  EXPECT_TRUE(glob_matches("**", "/anything/at/all"));
  EXPECT_TRUE(glob_matches("/a/**/z*", "/a/b/c/zed"));
  EXPECT_FALSE(glob_matches("/a/**/z*", "/a/b/c/zed/x"));
  EXPECT_TRUE(glob_matches("/a/**x*y", "/a/b/xx/c/x1y"));
}

TEST(Glob, BacktracksOverSeveralStars) {
  EXPECT_TRUE(glob_matches("/*a*b*c", "/xxaaxbbxabxc"));
  EXPECT_FALSE(glob_matches("/*a*b*d", "/xxaaxbbxabxc"));
}

TEST(Glob, QuestionMarkIsOneCharacterButNoSlash) {
  EXPECT_TRUE(glob_matches("/a?c", "/abc"));
  EXPECT_FALSE(glob_matches("/a?c", "/a/c"));
  EXPECT_FALSE(glob_matches("/a?", "/a"));
}

TEST(Glob, SetsAndRanges) {
  EXPECT_TRUE(glob_matches("/part-[0-9][0-9]", "/part-07"));
  EXPECT_FALSE(glob_matches("/part-[0-9]", "/part-x"));
  EXPECT_TRUE(glob_matches("/[!x]", "/a"));
  EXPECT_FALSE(glob_matches("/[!x]", "/x"));
  EXPECT_FALSE(glob_matches("/a[!x]b", "/a/b"));
  EXPECT_TRUE(glob_matches("/[]]", "/]"));
  EXPECT_TRUE(glob_matches("/[abc", "/[abc"));
}

TEST(Glob, BackslashTakesTheNextLiterally) {
  EXPECT_TRUE(glob_matches("/a\\*b", "/a*b"));
  EXPECT_FALSE(glob_matches("/a\\*b", "/axb"));
}

}  // namespace
}  // namespace ioweave::calls
