#include "config/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ioweave::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Layer layer_of(LayerKind kind, const std::vector<std::pair<std::string, std::string>>& values) {
  Layer layer;
  layer.kind = kind;
  for (const auto& [name, value] : values) {
    layer.entries.push_back({name, value, {kind, "place of " + name}});
  }
  return layer;
}

RuleEntry rule_of(LayerKind kind, std::string glob, std::string policy,
                  std::string directory = "") {
  return {std::move(glob), std::move(policy), {kind, "place"}, std::move(directory)};
}

TEST(Size, HasOptionalBinaryUnits) {
  EXPECT_EQ(parse_size("1000"), 1000u);
  EXPECT_EQ(parse_size("64k"), 65536u);
  EXPECT_EQ(parse_size("1M"), 1048576u);
  EXPECT_EQ(parse_size("2GiB"), 2147483648u);
  EXPECT_EQ(parse_size("3Ti"), 3298534883328u);
  EXPECT_EQ(parse_size("0"), 0u);
}

TEST(Size, OddTextIsNoSize) {
  for (const char* const text : {"", "k", "-1", "+1", "1.5m", "1 m", "1mm", "1x", "m1", "0x10",
                                 "99999999999999999999", "99999999999t", "1Bi", " 1"}) {
    EXPECT_EQ(parse_size(text), std::nullopt) << text;
  }
}

TEST(Size, ItsTextIsReadBack) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1000}, uint64_t{1536} << 10, uint64_t{1} << 30,
                               uint64_t{16} << 40, UINT64_MAX}) {
    EXPECT_EQ(parse_size(size_text(bytes)), bytes);
  }
  EXPECT_EQ(size_text(uint64_t{1536} << 10), "1536k");
}

TEST(Settings, EveryDefaultIsAValueItselfAccepts) {
  for (const Setting& each : settings()) {
    std::string why;
    EXPECT_EQ(canonical(each, each.otherwise, why), std::string(each.otherwise)) << why;
  }
}

TEST(Settings, DefaultsAreThoseOfTheSegmentsLayout) {
  const RunConfig config = run_config(resolve({}));
  const RunConfig expected;
  EXPECT_EQ(config.policy, expected.policy);
  EXPECT_EQ(config.engine, expected.engine);
  EXPECT_EQ(config.engine_mode, expected.engine_mode);
  EXPECT_EQ(config.lookahead_bytes, expected.lookahead_bytes);
  EXPECT_EQ(config.max_lookahead_bytes, expected.max_lookahead_bytes);
  EXPECT_EQ(config.early_writeback, expected.early_writeback);
}

TEST(Settings, AWrongValueIsAnsweredWithTheNearestOrTheList) {
  std::string why;
  EXPECT_EQ(canonical(setting(Key::policy), "overlp", why), std::nullopt);
  EXPECT_THAT(why, HasSubstr("did you mean 'overlap'?"));
  EXPECT_EQ(canonical(setting(Key::policy), "fast please", why), std::nullopt);
  EXPECT_THAT(why, HasSubstr("off, sync, writes, overlap"));
  EXPECT_EQ(canonical(setting(Key::lookahead), "1", why), std::nullopt);
  EXPECT_THAT(why, HasSubstr("4k to 1t"));
}

TEST(Resolve, TheHighestLayerWins) {
  const std::vector<Layer> layers{
      layer_of(LayerKind::environment, {{"policy", "sync"}}),
      layer_of(LayerKind::user, {{"policy", "off"}, {"lookahead", "2m"}})};
  const Resolved resolved = resolve(layers);
  EXPECT_EQ(resolved[Key::policy].text, "sync");
  EXPECT_EQ(resolved[Key::policy].origin.layer, LayerKind::environment);
  EXPECT_EQ(resolved[Key::lookahead].text, "2m");
  EXPECT_EQ(resolved[Key::engine].origin.layer, LayerKind::builtin);
  EXPECT_THAT(resolved.warnings, IsEmpty());
}

TEST(Resolve, ABadValueIsAWarningAndTheNextLayerCounts) {
  const std::vector<Layer> layers{layer_of(LayerKind::environment, {{"policy", "snc"}}),
                                  layer_of(LayerKind::user, {{"policy", "writes"}})};
  const Resolved resolved = resolve(layers);
  EXPECT_EQ(resolved[Key::policy].text, "writes");
  EXPECT_THAT(resolved.warnings,
              ElementsAre("place of policy: policy 'snc' is not known; did you mean 'sync'?"));
}

TEST(Resolve, AnUnknownNameIsAWarningWithTheNearest) {
  const std::vector<Layer> layers{layer_of(LayerKind::user, {{"lookahed", "1m"}})};
  EXPECT_THAT(resolve(layers).warnings,
              ElementsAre("place of lookahed: unknown setting 'lookahed' is ignored; did you mean "
                          "'lookahead'?"));
}

TEST(Resolve, ASettingOfAnEarlierVersionIsAWarningThatSaysWhyItWent) {
  std::vector<Layer> layers{layer_of(LayerKind::user, {{"slice", "1m"}, {"schedule", "none"}})};
  layers[0].locks.push_back({"slice", "", {LayerKind::site, "/etc/x:1"}});
  EXPECT_THAT(
      resolve(layers).warnings,
      ElementsAre("place of slice: 'slice' is no longer a setting: requests have the size of the "
                  "device's read-ahead window",
                  HasSubstr("place of schedule: 'schedule' is no longer a setting: the kernel"),
                  HasSubstr("/etc/x:1: 'slice' is no longer a setting")));
}

TEST(Resolve, ALockedSettingIsTheSites) {
  std::vector<Layer> layers{layer_of(LayerKind::command_line, {{"policy", "sync"}}),
                            layer_of(LayerKind::site, {{"policy", "off"}})};
  layers[1].locks.push_back({"policy", "", {LayerKind::site, "/etc/x:1"}});
  const Resolved resolved = resolve(layers);
  EXPECT_EQ(resolved[Key::policy].text, "off");
  EXPECT_TRUE(resolved[Key::policy].locked);
  EXPECT_THAT(resolved.warnings, ElementsAre(HasSubstr("the site locks it (/etc/x:1)")));
}

TEST(Resolve, ALockWithoutAValueLocksTheDefault) {
  std::vector<Layer> layers{layer_of(LayerKind::command_line, {{"policy", "sync"}}),
                            layer_of(LayerKind::site, {})};
  layers[1].locks.push_back({"policy", "", {LayerKind::site, "/etc/x:1"}});
  EXPECT_EQ(resolve(layers)[Key::policy].text, "auto");
}

TEST(Resolve, LockedRulesAreTheSitesOnly) {
  std::vector<Layer> layers(2);
  layers[0].rules = {rule_of(LayerKind::command_line, "/a", "sync")};
  layers[1].kind = LayerKind::site;
  layers[1].rules = {rule_of(LayerKind::site, "/b", "off")};
  layers[1].locks.push_back({"rule", "", {LayerKind::site, "/etc/x:1"}});
  const Resolved resolved = resolve(layers);
  ASSERT_EQ(resolved.rules.size(), 1u);
  EXPECT_EQ(resolved.rules[0].glob, "/b");
  EXPECT_THAT(resolved.warnings, ElementsAre(HasSubstr("the site locks rules")));
}

TEST(Resolve, GlobsBecomeAbsolute) {
  std::vector<Layer> layers(1);
  const auto kind = LayerKind::directory;
  layers[0].rules = {rule_of(kind, "/abs/*", "off"),
                     rule_of(kind, "*.h5", "off", "/work"),
                     rule_of(kind, "data/*.h5", "off", "/we[ird"),
                     rule_of(kind, "./x", "off", "/"),
                     rule_of(kind, "**/x", "off", ""),
                     rule_of(kind, "a/b", "off", "")};
  std::vector<std::string> globs;
  for (const ResolvedRule& rule : resolve(layers).rules) globs.push_back(rule.glob);
  EXPECT_THAT(globs,
              ElementsAre("/abs/*", "/**/*.h5", "/we\\[ird/data/*.h5", "/x", "/**/x", "/**/a/b"));
}

TEST(Resolve, ABadRuleIsAWarning) {
  std::vector<Layer> layers(1);
  layers[0].rules = {rule_of(LayerKind::user, "/a", "of"),
                     rule_of(LayerKind::user, "/" + std::string(300, 'x'), "off")};
  const Resolved resolved = resolve(layers);
  EXPECT_THAT(resolved.rules, IsEmpty());
  EXPECT_THAT(resolved.warnings,
              ElementsAre(HasSubstr("did you mean 'off'?"), HasSubstr("1 to 239 characters")));
}

TEST(Resolve, RulesBeyondTheTableAreDroppedWithAWarning) {
  std::vector<Layer> layers(1);
  layers[0].rules.assign(70, rule_of(LayerKind::user, "/a", "off"));
  const Resolved resolved = resolve(layers);
  EXPECT_EQ(run_config(resolved).rules, RunConfig::kMaxRules);
  EXPECT_THAT(resolved.warnings, ElementsAre(HasSubstr("only the first 64 rules")));
}

TEST(Resolve, TheRunMayBeAsFarAheadAsOneReader) {
  const std::vector<Layer> layers{
      layer_of(LayerKind::user, {{"lookahead", "128m"}, {"max_lookahead", "1m"}})};
  const Resolved resolved = resolve(layers);
  EXPECT_EQ(resolved.size(Key::max_lookahead), 128u << 20);
  EXPECT_THAT(resolved.warnings,
              ElementsAre(HasSubstr("max_lookahead 1m is below lookahead 128m")));
  const std::vector<Layer> large{layer_of(LayerKind::user, {{"lookahead", "2g"}})};
  EXPECT_EQ(resolve(large).size(Key::max_lookahead), 2u << 30);
  EXPECT_THAT(resolve(large).warnings, IsEmpty());
}

TEST(Resolve, AModeOfAnotherEngineIsIgnoredWithAWarning) {
  const std::vector<Layer> layers{
      layer_of(LayerKind::environment, {{"engine", "aio"}, {"policy", "sync"}}),
      layer_of(LayerKind::user, {{"mode", "iopoll"}})};
  const Resolved resolved = resolve(layers);
  EXPECT_EQ(resolved[Key::mode].text, "plain");
  EXPECT_THAT(resolved.warnings,
              ElementsAre("place of mode: mode 'iopoll' is ignored: it belongs to engine 'uring', "
                          "and engine is 'aio' (place of engine)"));
}

TEST(Resolve, AnEngineOptionThatChangesNothingIsAWarning) {
  std::vector<Layer> layers{layer_of(
      LayerKind::command_line, {{"engine", "threads"}, {"mode", "plain"}, {"policy", "overlap"}})};
  EXPECT_THAT(resolve(layers).warnings,
              ElementsAre("--engine and --mode have no effect: policy 'overlap' uses no engine, "
                          "only 'auto', 'sync' and 'writes' do"));
  layers[0].rules = {rule_of(LayerKind::command_line, "/a", "writes")};
  EXPECT_THAT(resolve(layers).warnings, IsEmpty());
  for (const char* const policy : {"sync", "auto"}) {
    layers[0] = layer_of(LayerKind::command_line, {{"engine", "threads"}, {"policy", policy}});
    EXPECT_THAT(resolve(layers).warnings, IsEmpty()) << policy;
  }
  layers[0] = layer_of(LayerKind::environment, {{"engine", "threads"}});
  EXPECT_THAT(resolve(layers).warnings, IsEmpty()) << "a variable may be meant for other runs";
}

TEST(Rule, IsSplitAtTheLastEqualsSign) {
  const RuleEntry rule = split_rule("/a=b/*.x=off").value_or(RuleEntry{});
  EXPECT_EQ(rule.glob, "/a=b/*.x");
  EXPECT_EQ(rule.policy, "off");
  EXPECT_FALSE(split_rule("/a").has_value());
  EXPECT_FALSE(split_rule("=off").has_value());
}

}  // namespace
}  // namespace ioweave::config
