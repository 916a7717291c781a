#include "config/description.hpp"

#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/layers.hpp"

namespace ioweave::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

Layer parse(const std::string& text, const std::string& shown = "f.toml") {
  return toml_layer(LayerKind::user, text, shown, "/base");
}

Description described(const std::string& text) {
  const std::vector<Layer> layers{parse(text)};
  return describe(layers);
}

TEST(Devices, AreReadWithPathsBesideTheFile) {
  const Description found = described(
      "[[device]]\nname = \"ssd\"\npath = \"data\"\nbandwidth = 450\n"
      "[[device]]\nname = \"pfs\"\npath = \"/pfs\"\nscope = \"shared\"\nmax_in_flight = 8\n"
      "nodes = [\"bb*\"]\ncurve = [[1, 200.0], [8, 450]]\n");
  EXPECT_THAT(found.errors, IsEmpty());
  ASSERT_EQ(found.devices.size(), 2u);
  const Device& ssd = found.devices[0];
  EXPECT_EQ(ssd.path, "/base/data");
  EXPECT_EQ(ssd.mb_per_s, 450);
  EXPECT_FALSE(ssd.is_shared);
  EXPECT_FALSE(ssd.nodes.has_value());
  const Device& pfs = found.devices[1];
  EXPECT_EQ(pfs.path, "/pfs");
  EXPECT_EQ(pfs.mb_per_s, 0);
  EXPECT_TRUE(pfs.is_shared);
  EXPECT_EQ(pfs.max_in_flight, 8);
  EXPECT_THAT(pfs.nodes.value_or(std::vector<std::string>{}), ElementsAre("bb*"));
  EXPECT_THAT(pfs.curve, ElementsAre(Pair(1, 200), Pair(8, 450)));
}

TEST(Devices, AreReadAsTheyAreWritten) {
  Device measured;
  measured.name = "the \"fast\" one\\";
  measured.path = "/mnt/my data";
  measured.mb_per_s = 450.5;
  measured.is_shared = true;
  measured.curve = {{1, 0.25}, {2, 38.125}, {1024, 450.5}};
  const Description found = described(device_toml(measured));
  EXPECT_THAT(found.errors, IsEmpty());
  ASSERT_EQ(found.devices.size(), 1u);
  const Device& read = found.devices[0];
  EXPECT_EQ(read.name, measured.name);
  EXPECT_EQ(read.path, measured.path);
  EXPECT_EQ(read.mb_per_s, measured.mb_per_s);
  EXPECT_EQ(read.is_shared, measured.is_shared);
  EXPECT_EQ(read.curve, measured.curve);
}

TEST(Devices, MistakesNamePlaceAndSetting) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"bandwidth = -1", "device 'a': bandwidth must be MB/s above 0, or 0 for no budget, not -1"},
      {"bandwidth = \"450\"", "device 'a': bandwidth must be a number of MB/s, not '450'"},
      {"bandwidth = true", "device 'a': bandwidth must be a number of MB/s, not true"},
      {"bandwidth = nan", "device 'a': bandwidth must be a number of MB/s, not nan"},
      {"scope = \"rack\"", "device 'a': scope must be 'node' or 'shared', not 'rack'"},
      {"max_in_flight = 1.5", "max_in_flight must be a whole number, 0 for no bound, not 1.5"},
      {"max_in_flight = -1", "max_in_flight must be a whole number"},
      {"path = 3", "path must be a path, not 3"},
      {"nodes = \"bb*\"", "nodes must be a list of names or globs of nodes, not 'bb*'"},
      {"nodes = []", "nodes must be a list of names or globs of nodes, not []"},
      {"nodes = [\"a\", 3]", "names or globs of nodes, which are not empty, not ['a', 3]"},
      {"curve = 450", "device 'a': curve must be a list of [streams, MB/s], streams ascending"},
      {"curve = [[2, 380], [1, 200]]", "all numbers above 0, not [[2, 380], [1, 200]]"},
      {"curve = [[1, 200], [2]]", "curve must be a list"},
      {"curve = [[0, 200]]", "curve must be a list"},
      {"curve = [[1, nan]]", "curve must be a list"},
      {"curve = [[1, inf]]", "curve must be a list"},
      {"curve = [[1e7, 5]]", "curve must be a list"},
      {"bandwith = 3", "device 'a': unknown setting 'bandwith'; did you mean 'bandwidth'?"},
  };
  for (const auto& [text, words] : mistakes) {
    const Description found = described(std::string("\n[[device]]\nname = \"a\"\n") + text);
    EXPECT_THAT(found.devices, IsEmpty()) << text;
    EXPECT_THAT(found.errors, ElementsAre(HasSubstr(words))) << text;
    EXPECT_THAT(found.errors, ElementsAre(HasSubstr("f.toml:2: "))) << text;
  }
}

TEST(Devices, NeedANameThatCanBePrinted) {
  EXPECT_THAT(described("[[device]]\nbandwidth = 3").errors,
              ElementsAre("f.toml:1: a [[device]] has no name"));
  for (const char* const name : {"", "a\\nb", "a\\u007f", "a\\u0085", "a\\u202eb", "a\\u200b"}) {
    EXPECT_THAT(described("[[device]]\nname = \"" + std::string(name) + "\"").errors,
                ElementsAre(HasSubstr("a device needs a name, a text that can be printed, not '")))
        << name;
  }
  EXPECT_THAT(described("[[device]]\nname = \"Gr\\u00f6\\u00dfe \\u2013 1\"").errors, IsEmpty());
}

TEST(Devices, OfOneNameTheHighestLayersCounts) {
  const std::vector<Layer> layers{
      parse("[[device]]\nname = \"a\"\nbandwidth = 10\n", "near.toml"),
      parse("[[device]]\nname = \"a\"\n[[device]]\nname = \"b\"\nbandwidth = 2\n", "far.toml")};
  const Description found = describe(layers);
  ASSERT_EQ(found.devices.size(), 2u);
  EXPECT_EQ(found.devices[0].mb_per_s, 10);
  EXPECT_EQ(found.devices[1].name, "b");
  EXPECT_THAT(found.errors, IsEmpty());
}

TEST(Devices, OfOneNameInOneFileAreAMistake) {
  const Description found = described("[[device]]\nname = \"a\"\n[[device]]\nname = \"a\"\n");
  EXPECT_EQ(found.devices.size(), 1u);
  EXPECT_THAT(found.errors, ElementsAre("f.toml:3: device 'a' is described twice"));
}

TEST(Tables, AreWrittenAsSuch) {
  EXPECT_THAT(described("device = 3\nnode = [1]\n").errors,
              ElementsAre("f.toml:1: devices are written as [[device]] tables",
                          "f.toml:2: nodes are written as [[node]] tables"));
  EXPECT_THAT(described("device = []\n").errors, IsEmpty());
}

TEST(Tables, ThatNobodyReadsAreNamed) {
  EXPECT_THAT(described("policy = \"off\"\n[lock]\na = 1\n[[devices]]\nname = \"a\"\n").warnings,
              ElementsAre("f.toml:4: unknown setting 'devices' is ignored; did you mean "
                          "'device'?"));
}

TEST(Files, ThatAreIgnoredAreNamed) {
  std::vector<Layer> layers(3);
  layers[0].error = ENOENT;
  layers[1].error = EPERM;
  layers[1].warnings = {"x is ignored: it belongs to another user"};
  layers[2].error = ENOENT;
  EXPECT_THAT(describe(layers).warnings, ElementsAre(HasSubstr("x is ignored")));
}

TEST(Nodes, AreThoseOfTheHighestLayerThatHasAny) {
  const std::vector<Layer> layers{
      parse("[[device]]\nname = \"a\"\n"),
      parse("[[node]]\nname = \"bb\"\ncount = 2\ncores = 48\n[[node]]\nname = \"login\"\n"),
      parse("[[node]]\nname = \"cn\"\n")};
  const Description found = describe(layers);
  ASSERT_EQ(found.nodes.size(), 2u);
  EXPECT_EQ(found.nodes[0].count, 2);
  EXPECT_EQ(found.nodes[0].cores, 48);
  EXPECT_FALSE(found.nodes[1].count.has_value());
  EXPECT_EQ(found.nodes[1].cores, 1);
}

TEST(Nodes, MistakesNameNodeAndSetting) {
  EXPECT_THAT(described("[[node]]\nname = \"a\"\ncore = 3").errors,
              ElementsAre("f.toml:1: node 'a': unknown setting 'core'; did you mean 'cores'?"));
  EXPECT_THAT(described("[[node]]\nname = \"a\"\ncount = 0").errors,
              ElementsAre(HasSubstr("node 'a': count must be a whole number above 0, not 0")));
  EXPECT_THAT(described("[[node]]\nname = \"a\"\ncores = 1.5").errors,
              ElementsAre(HasSubstr("node 'a': cores must be a whole number above 0, not 1.5")));
  EXPECT_THAT(described("[[node]]\ncores = 3").errors,
              ElementsAre(HasSubstr("a [[node]] has no name")));
}

TEST(NodesOfADevice, AreMatchedWithOrWithoutDomain) {
  const std::vector<std::string> globs{"bb*", "login[12]"};
  EXPECT_TRUE(is_one_of("bb7", globs));
  EXPECT_TRUE(is_one_of("login1.site.org", globs));
  EXPECT_FALSE(is_one_of("login3", globs));
  EXPECT_TRUE(is_one_of("a.site.org", std::vector<std::string>{"*.site.org"}));
}

}  // namespace
}  // namespace ioweave::config
