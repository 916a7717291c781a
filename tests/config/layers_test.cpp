#include "config/layers.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stats/text_file.hpp"

namespace ioweave::config {
namespace {

using test::TempDir;
using test::write_text;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Layer parse(std::string_view text, LayerKind kind = LayerKind::user) {
  return toml_layer(kind, text, "f.toml", "/base");
}

TEST(TomlLayer, KeepsValuesWithTheirLines) {
  const Layer layer = parse("lookahead = 1048576\n\npolicy = \"off\"\nquiet = true\n");
  ASSERT_EQ(layer.entries.size(), 3u);  // by name
  EXPECT_EQ(layer.entries[0].value, "1048576");
  EXPECT_EQ(layer.entries[1].name, "policy");
  EXPECT_EQ(layer.entries[1].origin.place, "f.toml:3");
  EXPECT_EQ(layer.entries[2].value, "true");
  EXPECT_THAT(layer.warnings, IsEmpty());
}

TEST(TomlLayer, RulesKeepTheirOrder) {
  const Layer layer = parse(
      "[[rule]]\nglob = \"b\"\npolicy = \"off\"\n[[rule]]\nglob = \"a\"\npolicy = \"sync\"\n");
  ASSERT_EQ(layer.rules.size(), 2u);
  EXPECT_EQ(layer.rules[0].glob, "b");
  EXPECT_EQ(layer.rules[1].policy, "sync");
  EXPECT_EQ(layer.rules[1].directory, "/base");
  EXPECT_THAT(layer.rules[1].origin.place, HasSubstr("f.toml:4"));
}

TEST(TomlLayer, ASyntaxErrorIsAWarningWithItsLine) {
  const Layer layer = parse("policy = \"off\"\nquiet = = 3\n");
  EXPECT_THAT(layer.entries, IsEmpty());
  EXPECT_THAT(layer.warnings, ElementsAre(HasSubstr("f.toml:2: ")));
}

TEST(TomlLayer, WrongTypesAreWarningsAndTheRestCounts) {
  const Layer layer = parse(
      "policy = [\"off\"]\nlookahead = 1.5\nengine = \"aio\"\nrule = 3\nlock = [\"policy\"]\n");
  ASSERT_EQ(layer.entries.size(), 1u);
  EXPECT_EQ(layer.entries[0].name, "engine");
  EXPECT_THAT(layer.warnings, ::testing::UnorderedElementsAre(
                                  "f.toml:1: policy takes one value",
                                  HasSubstr("f.toml:2: lookahead is neither text, a whole number"),
                                  "f.toml:4: rules are written as [[rule]]",
                                  HasSubstr("'lock' only counts in the site's file")));
}

TEST(TomlLayer, AnIncompleteRuleIsAWarning) {
  const Layer layer = parse("[[rule]]\nglob = \"x\"\npolcy = \"off\"\n");
  EXPECT_THAT(layer.rules, IsEmpty());
  EXPECT_THAT(layer.warnings, ElementsAre(HasSubstr("not 'polcy'"), HasSubstr("needs both")));
}

TEST(TomlLayer, AnUnknownTableIsLeftToResolve) {
  const Layer layer = parse("[prefetch]\nlookahead = 3\n");
  const std::vector<Layer> layers{layer};
  EXPECT_THAT(resolve(layers).warnings, ElementsAre(HasSubstr("unknown setting 'prefetch'")));
}

TEST(TomlLayer, DevicesAndNodesAreNoSettings) {
  const Layer layer = parse(
      "[[device]]\nname = \"ssd\"\nbandwidth = 450\nnodes = [\"bb*\"]\n"
      "[[node]]\nname = \"bb\"\ncount = 2\ncores = 48\n");
  EXPECT_EQ(layer.devices.size(), 1u);
  EXPECT_EQ(layer.nodes.size(), 1u);
  const std::vector<Layer> layers{layer};
  EXPECT_THAT(resolve(layers).warnings, IsEmpty());
}

TEST(TomlLayer, ADeviceThatIsDescribedWronglyIsAWarningToARun) {
  const std::vector<Layer> layers{parse("\n[[device]]\nname = \"ssd\"\nbandwith = 450\n")};
  EXPECT_THAT(resolve(layers).warnings,
              ElementsAre("f.toml:2: device 'ssd': unknown setting 'bandwith'; did you mean "
                          "'bandwidth'?"));
}

TEST(TomlLayer, TheSiteMayLock) {
  const Layer layer = parse("lock = [\"policy\", \"rule\"]\n", LayerKind::site);
  ASSERT_EQ(layer.locks.size(), 2u);
  EXPECT_EQ(layer.locks[1].name, "rule");
}

TEST(EnvironmentLayer, TakesSettingsAndRules) {
  const char* const variables[] = {"HOME=/x", "IOWEAVE_POLICY=off",
                                   "IOWEAVE_RULES=*.a=off;;/b/**=sync;bad", "IOWEAVE_RUN_DIR=/y",
                                   nullptr};
  const Layer layer = environment_layer(variables, "/work");
  ASSERT_EQ(layer.entries.size(), 1u);
  EXPECT_EQ(layer.entries[0].origin.place, "IOWEAVE_POLICY");
  ASSERT_EQ(layer.rules.size(), 2u);
  EXPECT_EQ(layer.rules[1].glob, "/b/**");
  EXPECT_EQ(layer.rules[0].directory, "/work");
  EXPECT_THAT(layer.warnings,
              ElementsAre("IOWEAVE_RULES: 'bad' is ignored: a rule is GLOB=policy"));
}

TEST(EnvironmentLayer, WarnsOfMisspeltVariablesOnly) {
  const char* const variables[] = {"IOWEAVE_POLCY=off", "IOWEAVE_SITE_MIRROR=x", nullptr};
  EXPECT_THAT(environment_layer(variables, "/").warnings,
              ElementsAre("environment: IOWEAVE_POLCY is ignored; did you mean IOWEAVE_POLICY?"));
}

TEST(EnvironmentLayer, KnowsTheVariablesOfLibrariesInPrograms) {
  const char* const variables[] = {"IOWEAVE_MPIIO_DEPTH=4", "IOWEAVE_TASKS=none",
                                   "IOWEAVE_MPIIO_SCHEDUL=pp", nullptr};
  EXPECT_THAT(environment_layer(variables, "/").warnings,
              ElementsAre("environment: IOWEAVE_MPIIO_SCHEDUL is ignored; did you mean "
                          "IOWEAVE_MPIIO_SCHEDULE?"));
}

TEST(EnvironmentLayer, PassesOnASettingOfAnEarlierVersion) {
  const char* const variables[] = {"IOWEAVE_SLICE=1m", nullptr};
  const std::vector<Layer> layers{environment_layer(variables, "/")};
  EXPECT_THAT(resolve(layers).warnings,
              ElementsAre(HasSubstr("IOWEAVE_SLICE: 'slice' is no longer a setting")));
}

TEST(FileLayer, AnAbsentFileSaysNothing) {
  const Layer layer = file_layer(LayerKind::user, "/nonexistent/x.toml", "x", "");
  EXPECT_THAT(layer.entries, IsEmpty());
  EXPECT_THAT(layer.warnings, IsEmpty());
}

TEST(FileLayer, WhatIsNoFileIsIgnoredWithAWarning) {
  const TempDir folder;
  EXPECT_THAT(file_layer(LayerKind::user, folder.path(), "x", "").warnings,
              ElementsAre("x is ignored: it is not a regular file"));
  ASSERT_EQ(mkfifo(folder.file("fifo").c_str(), 0600), 0);
  EXPECT_THAT(file_layer(LayerKind::user, folder.file("fifo"), "x", "").warnings,
              ElementsAre("x is ignored: it is not a regular file"));
}

TEST(FileLayer, AFolderOfAnotherUserIsNotObeyed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const TempDir folder;
  const std::string path = write_text(folder, "ioweave.toml", "policy = \"off\"\n");
  ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
  const Layer layer = file_layer(LayerKind::directory, path, "./ioweave.toml", "");
  EXPECT_THAT(layer.entries, IsEmpty());
  EXPECT_THAT(layer.warnings, ElementsAre(HasSubstr("it belongs to another user (uid 12345)")));
  EXPECT_EQ(file_layer(LayerKind::user, path, "x", "").entries.size(), 1u);
}

TEST(AllLayers, AreInOrderOfPrecedence) {
  const TempDir folder;
  write_text(folder, "ioweave.toml", "engine = \"aio\"\nlookahead = \"2m\"\nmode = \"sqpoll\"\n");
  write_text(folder, "user.toml", "lookahead = \"4m\"\npolicy = \"off\"\nmode = \"iopoll\"\n");
  write_text(folder, "site.toml", "policy = \"sync\"\nmax_lookahead = \"32m\"\n");
  Layer command_line;
  command_line.kind = LayerKind::command_line;
  command_line.entries.push_back({"mode", "plain", {LayerKind::command_line, "--mode"}});
  const char* const variables[] = {"IOWEAVE_ENGINE=threads", nullptr};
  const ConfigPlaces places{folder.path(), folder.file("user.toml"), folder.file("site.toml")};
  const Resolved resolved = resolve(all_layers(command_line, variables, places));
  EXPECT_EQ(resolved[Key::mode].origin.place, "--mode");
  EXPECT_EQ(resolved[Key::engine].origin.place, "IOWEAVE_ENGINE");
  EXPECT_EQ(resolved[Key::lookahead].origin.place, "./ioweave.toml:2");
  EXPECT_EQ(resolved[Key::policy].text, "off");
  EXPECT_EQ(resolved[Key::max_lookahead].origin.layer, LayerKind::site);
  EXPECT_EQ(resolved[Key::quiet].origin.layer, LayerKind::builtin);
}

}  // namespace
}  // namespace ioweave::config
