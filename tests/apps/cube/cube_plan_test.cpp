// What is computed: kinds, derived metrics, aggregation, tiling.
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cube_profile.hpp"
#include "error.hpp"

namespace {

using cube::Aggregate;
using cube::CubeError;
using cube::MetricKind;
using cube::StoreAs;
using cube_test::Bytes;
using cube_test::Profile;
using cube_test::remapped;
using cube_test::stored_in;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

const std::vector<uint64_t> kCounts = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

TEST(CubePlan, MakesInclusiveValuesOfExclusiveOnes) {
  const Bytes profile = Profile().add("n", "EXCLUSIVE", "UINT64", {}, kCounts).bytes();
  const auto stored = stored_in(remapped(profile), "n");
  EXPECT_EQ(stored.kind, MetricKind::kInclusive);
  EXPECT_EQ(stored.type, "UINT64");
  EXPECT_THAT(stored.values.at(0), ElementsAre(35, 40, 45));
  EXPECT_THAT(stored.values.at(1), ElementsAre(21, 24, 27));
  EXPECT_THAT(stored.values.at(3), ElementsAre(10, 11, 12));
}

TEST(CubePlan, MakesExclusiveValuesOfInclusiveOnes) {
  const Bytes profile = Profile().add("n", "EXCLUSIVE", "UINT64", {}, kCounts).bytes();
  const Bytes there = remapped(profile);
  const auto back = stored_in(remapped(there, {.as = StoreAs::kExclusive}), "n");
  EXPECT_EQ(back.kind, MetricKind::kExclusive);
  EXPECT_EQ(back.values, stored_in(profile, "n").values);
}

TEST(CubePlan, GivesTheSameWhereverTheWorkIsDivided) {
  Profile profile;
  profile.add("n", "EXCLUSIVE", "UINT64", {}, kCounts);
  profile.add<double>("c", "EXCLUSIVE", "COMPLEX", {4, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2});
  profile.derive("d", "POSTDERIVED", "metric::n() / 3");
  const cube::PlanOptions options{.locations = 1000};
  const Bytes whole = remapped(profile.bytes(), options, size_t{1} << 20);
  for (const size_t piece : {1u, 7u, 512u, 4096u, 10007u}) {
    EXPECT_EQ(remapped(profile.bytes(), options, piece), whole) << piece;
  }
}

TEST(CubePlan, GivesRowsToPathsWhoseChildrenHaveSome) {
  const Bytes profile = Profile().add<double>("t", "EXCLUSIVE", "DOUBLE", {3}, {1, 2, 3}).bytes();
  const auto stored = stored_in(remapped(profile), "t");
  EXPECT_EQ(stored.values.size(), 3u);
  EXPECT_THAT(stored.values.at(0), ElementsAre(1, 2, 3));
  EXPECT_THAT(stored.values.at(1), ElementsAre(1, 2, 3));
}

TEST(CubePlan, EndsDifferencesOfIntegersAtTheirRange) {
  Profile profile;
  // In the order of inclusive metrics: paths 0, 1 and 4.
  profile.add<uint8_t>("u", "INCLUSIVE", "UINT8", {0, 1, 2}, {9, 9, 9, 4, 9, 10, 5, 5, 5});
  profile.add<int8_t>("i", "INCLUSIVE", "INT8", {0, 1, 2}, {-9, 9, 9, 127, -128, 1, 0, 0, 0});
  const Bytes output = remapped(profile.bytes(), {.as = StoreAs::kExclusive});
  EXPECT_THAT(stored_in(output, "u").values.at(0), ElementsAre(0, 0, 0));
  EXPECT_THAT(stored_in(output, "i").values.at(0), ElementsAre(-128, 127, 8));
}

TEST(CubePlan, KeepsWhatDoesNotAddUp) {
  Profile profile;
  profile.add<double>("least", "EXCLUSIVE", "MINDOUBLE", {0, 1}, {1, 2, 3, 4, 5, 6});
  profile.add<double>("simple", "SIMPLE", "DOUBLE", {0}, {1, 2, 3});
  const Bytes output = remapped(profile.bytes());
  EXPECT_EQ(stored_in(output, "least").kind, MetricKind::kExclusive);
  EXPECT_EQ(stored_in(output, "least").values, stored_in(profile.bytes(), "least").values);
  EXPECT_EQ(stored_in(output, "simple").kind, MetricKind::kSimple);
  EXPECT_THAT(stored_in(output, "simple").values.at(0), ElementsAre(1, 2, 3));
}

TEST(CubePlan, CopiesTuplesByteForByteInTheirOrder) {
  for (const bool swapped : {false, true}) {
    std::vector<uint8_t> raw(2 * 3 * 36);
    for (size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<uint8_t>(i * 7);
    std::vector<uint8_t> histogram(3 * 32, 5);
    std::vector<uint8_t> function(3 * 848, 6);
    Profile profile;
    profile.add("tau", "EXCLUSIVE", "TAU_ATOMIC", {0, 2}, raw, {.swapped = swapped});
    profile.add("histogram", "EXCLUSIVE", "HISTOGRAM(2)", {1}, histogram, {.swapped = swapped});
    profile.add("function", "EXCLUSIVE", "SCALE_FUNC", {1}, function, {.swapped = swapped});
    const Bytes input = profile.bytes();
    const Bytes output = remapped(input);
    for (const char* name : {"0", "1", "2"}) {
      for (const char* end : {".index", ".data"}) {
        const auto before = cube_test::open_archive(input);
        const auto after = cube_test::open_archive(output);
        const cube::Member* a = before.find(std::string(name) + end);
        const cube::Member* b = after.find(std::string(name) + end);
        ASSERT_TRUE(a != nullptr && b != nullptr);
        Bytes left(a->bytes);
        Bytes right(b->bytes);
        before.read(*a, 0, left);
        after.read(*b, 0, right);
        EXPECT_EQ(left, right) << name << end;
      }
    }
  }
}

TEST(CubePlan, EvaluatesDerivedMetrics) {
  Profile profile;
  profile.add("n", "EXCLUSIVE", "UINT64", {}, kCounts);
  profile.derive("post", "POSTDERIVED", "metric::n() / 2");
  profile.derive("before", "PREDERIVED_EXCLUSIVE", "metric::n() ^ 2");
  profile.derive("whole", "PREDERIVED_INCLUSIVE", "metric::n() + 1");
  profile.derive("more", "POSTDERIVED", "metric::before(i) - metric::before(e)");
  const Bytes inclusive = remapped(profile.bytes());
  EXPECT_EQ(stored_in(inclusive, "post").kind, MetricKind::kInclusive);
  EXPECT_EQ(stored_in(inclusive, "post").values.at(1)[0], 21 / 2.0);
  EXPECT_EQ(stored_in(inclusive, "before").values.at(1)[0], 16 + 49 + 100);
  EXPECT_EQ(stored_in(inclusive, "whole").values.at(1)[0], 22);
  EXPECT_EQ(stored_in(inclusive, "more").values.at(1)[0], 49 + 100);
  const Bytes exclusive = remapped(profile.bytes(), {.as = StoreAs::kExclusive});
  EXPECT_EQ(stored_in(exclusive, "post").values.at(1)[0], 2);
  EXPECT_EQ(stored_in(exclusive, "before").values.at(1)[0], 16);
  EXPECT_EQ(stored_in(exclusive, "whole").values.at(1)[0], 22 - 8 - 11);
  const Bytes stored = remapped(profile.bytes(), {.as = StoreAs::kStored});
  EXPECT_EQ(stored_in(stored, "before").kind, MetricKind::kExclusive);
  EXPECT_EQ(stored_in(stored, "whole").kind, MetricKind::kInclusive);
}

TEST(CubePlan, LeavesNoFormulaInTheOutput) {
  Profile profile;
  profile.add("n", "EXCLUSIVE", "UINT64", {}, kCounts);
  profile.derive("post", "POSTDERIVED", "metric::n() / 2");
  const Bytes output = remapped(profile.bytes());
  const std::string text(reinterpret_cast<const char*>(output.data()), output.size());
  EXPECT_THAT(text, Not(HasSubstr("cubepl")));
  EXPECT_THAT(text, Not(HasSubstr("DERIVED")));
  EXPECT_THAT(text, HasSubstr("<attr key=\"Creator\" value=\"a test\"/>"));
}

TEST(CubePlan, NamesTheMetricItCannotEvaluate) {
  const auto plan = [](const std::string& formula, const std::string& kind = "POSTDERIVED") {
    Profile profile;
    profile.add("n", "EXCLUSIVE", "UINT64", {}, kCounts);
    profile.add<double>("z", "EXCLUSIVE", "COMPLEX", {0}, {1, 2, 3, 4, 5, 6});
    profile.derive("d", kind, formula);
    const Bytes bytes = profile.bytes();
    return [bytes] { remapped(bytes); };
  };
  EXPECT_THAT(plan("${x}"), ThrowsMessage<CubeError>(HasSubstr("metric 'd'")));
  EXPECT_THAT(plan("metric::none()"), ThrowsMessage<CubeError>(HasSubstr("no metric 'none'")));
  EXPECT_THAT(plan("metric::d()"), ThrowsMessage<CubeError>(HasSubstr("derived from itself")));
  EXPECT_THAT(plan("metric::z()"), ThrowsMessage<CubeError>(HasSubstr("COMPLEX ('z')")));
  EXPECT_THAT(plan("1</cubepl><cubeplinit>2</cubeplinit><cubepl>"),
              ThrowsMessage<CubeError>(HasSubstr("<cubeplinit>")));
}

TEST(CubePlan, BoundsWhatIsDerivedFromEachOther) {
  Profile chain;
  chain.add("n", "EXCLUSIVE", "UINT64", {}, kCounts);
  for (int i = 1; i < 100; ++i) {
    chain.derive("d" + std::to_string(i), "POSTDERIVED",
                 i == 99 ? "metric::n()" : "metric::d" + std::to_string(i + 1) + "()");
  }
  EXPECT_THAT([&] { remapped(chain.bytes()); },
              ThrowsMessage<CubeError>(HasSubstr("derived one from another")));
  Profile bomb;
  bomb.add("n", "EXCLUSIVE", "UINT64", {}, kCounts);
  bomb.derive("a0", "POSTDERIVED", "metric::n()").derive("b0", "POSTDERIVED", "metric::n()");
  for (int i = 1; i < 30; ++i) {
    const std::string before = std::to_string(i - 1);
    for (const std::string name : {"a", "b"}) {
      bomb.derive(name + std::to_string(i), "POSTDERIVED",
                  "metric::a" + before + "() + metric::b" + before + "()");
    }
  }
  EXPECT_THAT([&] { remapped(bomb.bytes()); },
              ThrowsMessage<CubeError>(HasSubstr("more than 1000 metrics")));
}

TEST(CubePlan, AddsThreadsUp) {
  Profile profile;
  profile.add("n", "EXCLUSIVE", "UINT64", {}, kCounts);
  profile.add<double>("least", "EXCLUSIVE", "MINDOUBLE", {0}, {5, 3, 4});
  profile.add<double>("most", "EXCLUSIVE", "MAXDOUBLE", {0}, {-5, -3, -4});
  profile.derive("post", "POSTDERIVED", "metric::n() ^ 2");
  profile.derive("before", "PREDERIVED_EXCLUSIVE", "metric::n() ^ 2");
  for (const Aggregate how : {Aggregate::kProcess, Aggregate::kNode}) {
    const Bytes output = remapped(profile.bytes(), {.as = StoreAs::kExclusive, .aggregate = how});
    EXPECT_THAT(stored_in(output, "n").values.at(0), ElementsAre(1 + 2, 3));
    EXPECT_THAT(stored_in(output, "least").values.at(0), ElementsAre(3, 4));
    EXPECT_THAT(stored_in(output, "most").values.at(0), ElementsAre(-3, -4));
    EXPECT_THAT(stored_in(output, "post").values.at(0), ElementsAre(9, 9));
    EXPECT_THAT(stored_in(output, "before").values.at(0), ElementsAre(5, 9));
  }
}

TEST(CubePlan, DoesNotAddUpTuples) {
  Profile profile;
  profile.add("tau", "EXCLUSIVE", "TAU_ATOMIC", {0}, std::vector<uint8_t>(3 * 36, 1));
  EXPECT_THAT([&] { remapped(profile.bytes(), {.aggregate = Aggregate::kNode}); },
              ThrowsMessage<CubeError>(HasSubstr("metric 'tau'")));
}

TEST(CubePlan, RepeatsThreadsUntilThereAreAsManyAsWanted) {
  Profile profile;
  profile.add("n", "EXCLUSIVE", "UINT64", {}, kCounts);
  for (const uint64_t threads : {4u, 6u, 8u, 3001u}) {
    const Bytes output =
        remapped(profile.bytes(), {.as = StoreAs::kExclusive, .locations = threads});
    const auto row = stored_in(output, "n").values.at(1);
    ASSERT_EQ(row.size(), threads);
    for (size_t i = 0; i < threads; ++i) ASSERT_EQ(row[i], static_cast<double>(4 + i % 3));
  }
}

TEST(CubePlan, RepeatsTheSystemTreeWithinOneRoot) {
  Profile profile;
  profile.add("n", "EXCLUSIVE", "UINT64", {}, kCounts);
  const Bytes output = remapped(profile.bytes(), {.locations = 7});
  const cube::Anchor anchor = cube::read_anchor(cube_test::open_archive(output));
  EXPECT_EQ(anchor.system.locations.size(), 7u);
  EXPECT_EQ(anchor.system.groups.size(), 5u);  // the last tile has one thread of one process
  EXPECT_EQ(anchor.system.nodes.size(), 1u + 5);
  size_t depth = 0;
  size_t roots = 0;
  for (const auto& step : anchor.system.steps) {
    if (step.what == cube::SystemTree::Step::What::kOpenNode && depth++ == 0) ++roots;
    if (step.what == cube::SystemTree::Step::What::kCloseNode) --depth;
  }
  EXPECT_EQ(roots, 1u);
  EXPECT_EQ(anchor.system.groups[2].rank, "2");
}

TEST(CubePlan, AddsUpRepeatedThreads) {
  Profile profile;
  profile.add("n", "EXCLUSIVE", "UINT64", {}, kCounts);
  for (const Aggregate how : {Aggregate::kProcess, Aggregate::kNode}) {
    const Bytes output =
        remapped(profile.bytes(), {.as = StoreAs::kExclusive, .aggregate = how, .locations = 8});
    EXPECT_THAT(stored_in(output, "n").values.at(0), ElementsAre(3, 3, 3, 3, 3));
    const Bytes less =
        remapped(profile.bytes(), {.as = StoreAs::kExclusive, .aggregate = how, .locations = 7});
    EXPECT_THAT(stored_in(less, "n").values.at(0), ElementsAre(3, 3, 3, 3, 1));
  }
}

TEST(CubePlan, ComputesTheMetricsAskedForOnly) {
  Profile profile;
  profile.add("a", "EXCLUSIVE", "UINT64", {}, kCounts);
  profile.add("b", "EXCLUSIVE", "UINT64", {}, kCounts);
  const Bytes output = remapped(profile.bytes(), {.metrics = {"b"}});
  EXPECT_TRUE(stored_in(output, "a").values.empty());
  EXPECT_EQ(stored_in(output, "b").values.size(), 5u);
  EXPECT_THAT([&] { remapped(profile.bytes(), {.metrics = {"c"}}); },
              ThrowsMessage<CubeError>(HasSubstr("no metric 'c'")));
}

TEST(CubePlan, HoldsNoMoreInputThanAllowed) {
  const Bytes profile = Profile().add("n", "EXCLUSIVE", "UINT64", {}, kCounts).bytes();
  EXPECT_NO_THROW(remapped(profile, {.input_limit = 120}));
  EXPECT_THAT([&] { remapped(profile, {.input_limit = 119}); },
              ThrowsMessage<CubeError>(HasSubstr("--input-limit")));
}

TEST(CubePlan, TakesOtherMembersOverButNoPaths) {
  Profile profile;
  profile.add("n", "EXCLUSIVE", "UINT64", {}, kCounts);
  profile.add_member("remapping.spec", cube_test::to_bytes("<metrics/>"));
  profile.add_member("../escape", cube_test::to_bytes("x"));
  profile.add_member("/etc/passwd", cube_test::to_bytes("x"));
  const Bytes output = remapped(profile.bytes());
  const auto archive = cube_test::open_archive(output);
  const cube::Member* spec = archive.find("remapping.spec");
  ASSERT_NE(spec, nullptr);
  Bytes content(spec->bytes);
  archive.read(*spec, 0, content);
  EXPECT_EQ(content, cube_test::to_bytes("<metrics/>"));
  EXPECT_EQ(archive.find("../escape"), nullptr);
  EXPECT_EQ(archive.find("/etc/passwd"), nullptr);
}

}  // namespace
