// What is read of a profile: the archive, the anchor, and rows in all forms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cube_profile.hpp"
#include "error.hpp"

namespace {

using cube::CubeError;
using cube_test::Bytes;
using cube_test::Form;
using cube_test::Profile;
using cube_test::stored_in;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::vector<uint64_t> kCounts = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

class CubeForms : public testing::TestWithParam<std::tuple<bool, bool, bool>> {
 protected:
  [[nodiscard]] static Form form() {
    const auto [swapped, dense, compressed] = GetParam();
    return {swapped, dense, compressed};
  }
};

TEST_P(CubeForms, HoldTheSameValues) {
  const Bytes profile = Profile().add("n", "EXCLUSIVE", "UINT64", {}, kCounts, form()).bytes();
  const auto stored = stored_in(profile, "n");
  EXPECT_THAT(stored.values.at(0), ElementsAre(1, 2, 3));
  EXPECT_THAT(stored.values.at(4), ElementsAre(13, 14, 15));
}

INSTANTIATE_TEST_SUITE_P(All, CubeForms,
                         testing::Combine(testing::Bool(), testing::Bool(), testing::Bool()));

TEST(CubeReader, NumbersInclusiveRowsByTheOtherOrder) {
  // In the order of inclusive metrics the paths are 0, 1, 4, 2, 3.
  const Bytes profile = Profile().add("t", "INCLUSIVE", "UINT64", {}, kCounts).bytes();
  const auto stored = stored_in(profile, "t");
  EXPECT_THAT(stored.values.at(4), ElementsAre(7, 8, 9));
  EXPECT_THAT(stored.values.at(2), ElementsAre(10, 11, 12));
}

TEST(CubeReader, FindsRowsOfASparseIndexInAnyOrder) {
  const Bytes profile =
      Profile().add<double>("t", "EXCLUSIVE", "DOUBLE", {3, 1}, {1, 2, 3, 4, 5, 6}).bytes();
  const auto stored = stored_in(profile, "t");
  EXPECT_EQ(stored.values.size(), 2u);
  EXPECT_THAT(stored.values.at(3), ElementsAre(1, 2, 3));
  EXPECT_THAT(stored.values.at(1), ElementsAre(4, 5, 6));
}

template <typename T>
void expect_values(const std::string& type, const std::vector<T>& values) {
  for (const bool swapped : {false, true}) {
    const Bytes profile =
        Profile().add("v", "EXCLUSIVE", type, {2}, values, {.swapped = swapped}).bytes();
    const auto stored = stored_in(profile, "v").values;
    ASSERT_EQ(stored.count(2), 1u) << type;
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(stored.at(2)[i], static_cast<double>(values[i])) << type;
    }
  }
}

TEST(CubeReader, KnowsAllTypesOfNumbers) {
  expect_values<int8_t>("INT8", {-128, 0, 127});
  expect_values<uint8_t>("UINT8", {0, 1, 255});
  expect_values<uint8_t>("CHAR", {0, 1, 255});
  expect_values<int16_t>("INT16", {-32768, 0, 32767});
  expect_values<int16_t>("SHORT INT", {-32768, 0, 32767});
  expect_values<uint16_t>("UINT16", {0, 1, 65535});
  expect_values<int32_t>("INT32", {INT32_MIN, 0, INT32_MAX});
  expect_values<uint32_t>("UNSIGNED INT", {0, 1, UINT32_MAX});
  expect_values<int64_t>("INTEGER", {-5, 0, 5});
  expect_values<uint64_t>("UINT64", {0, 1, uint64_t{1} << 63});
  expect_values<double>("DOUBLE", {-1.5, 0, 1e300});
  expect_values<double>("MINDOUBLE", {-1.5, 0, 1e300});
  expect_values<double>("COMPLEX", {1, 2, 3, 4, 5, 6});
  expect_values<double>("NDOUBLES(2)", {1, 2, 3, 4, 5, 6});
}

TEST(CubeReader, ReadsAGzippedAnchor) {
  const Profile profile = Profile().add("n", "EXCLUSIVE", "UINT64", {}, kCounts);
  const auto stored = stored_in(profile.bytes_with(cube_test::gzipped(profile.anchor())), "n");
  EXPECT_THAT(stored.values.at(1), ElementsAre(4, 5, 6));
}

TEST(CubeReader, AcceptsTheAttributesThatCubeLibWritesWithoutQuotes) {
  Profile profile;
  profile.add("n", "EXCLUSIVE", "UINT64", {}, kCounts);
  profile.declare("d", "PREDERIVED_EXCLUSIVE", "DOUBLE",
                  "<cubepl rowwise=false>metric::n() &gt; 3</cubepl>");
  const auto stored = stored_in(cube_test::remapped(profile.bytes()), "d");
  EXPECT_THAT(stored.values.at(4), ElementsAre(1, 1, 1));
}

TEST(CubeReader, ReadsMetricsInEachOther) {
  Profile profile;
  profile.add("n", "EXCLUSIVE", "UINT64", {}, kCounts);
  std::string text = profile.anchor();
  const std::string inner =
      "<metric id=\"7\" "
      "type=\"EXCLUSIVE\"><uniq_name>inner</uniq_name><dtype>INT8</dtype></metric>";
  text.insert(text.find("</metric>"), inner);
  const cube::Anchor anchor = cube::parse_anchor(text, "test");
  ASSERT_EQ(anchor.metrics.size(), 2u);
  EXPECT_EQ(anchor.metrics[0].name, "n");
  EXPECT_EQ(anchor.metrics[1].name, "inner");
}

TEST(CubeReader, RefusesAnAnchorThatIsNone) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = Profile().add("n", "EXCLUSIVE", "UINT64", {}, kCounts).anchor();
    text.replace(text.find(from), from.size(), to);
    return [text] { cube::parse_anchor(text, "here"); };
  };
  EXPECT_THAT(with("</program>", ""), ThrowsMessage<CubeError>(HasSubstr("mismatched tag")));
  EXPECT_THAT(with("<cube ", "<box "),
              ThrowsMessage<CubeError>(HasSubstr("root element is 'box'")));
  EXPECT_THAT(with("UINT64", "UINT63"), ThrowsMessage<CubeError>(HasSubstr("metric 'n'")));
  EXPECT_THAT(with("\"EXCLUSIVE", "\"ODD"),
              ThrowsMessage<CubeError>(HasSubstr("unknown type 'ODD'")));
  EXPECT_THAT(with("<location Id=\"1\"", "<location Id=\"2\""),
              ThrowsMessage<CubeError>(HasSubstr("location 2 is there twice")));
  EXPECT_THAT(with("<location Id=\"1\"", "<location Id=\"9\""),
              ThrowsMessage<CubeError>(HasSubstr("location 9")));
  EXPECT_THAT(with("<cube ", "<!DOCTYPE cube [<!ENTITY a \"b\">]><cube "),
              ThrowsMessage<CubeError>(HasSubstr("document type")));
  EXPECT_THAT(with("<uniq_name>n</uniq_name>", ""),
              ThrowsMessage<CubeError>(HasSubstr("no unique name")));
  EXPECT_THAT(with("<?xml", "plain <?xml"), ThrowsMessage<CubeError>(HasSubstr("here")));
}

TEST(CubeReader, RefusesATreeThatIsTooDeep) {
  std::string text = Profile().add("n", "EXCLUSIVE", "UINT64", {}, kCounts).anchor();
  std::string deep;
  for (size_t i = 0; i <= cube::kMaxDepth; ++i) deep += "<cnode>";
  for (size_t i = 0; i <= cube::kMaxDepth; ++i) deep += "</cnode>";
  text.insert(text.find("</program>"), deep);
  EXPECT_THAT([&] { cube::parse_anchor(text, "here"); },
              ThrowsMessage<CubeError>(HasSubstr("below each other")));
}

TEST(CubeReader, NotesAWrongChecksumAndGoesOn) {
  Bytes bytes = Profile().add("n", "EXCLUSIVE", "UINT64", {}, kCounts).bytes();
  bytes[148] = std::byte{'7'};  // the first digit
  EXPECT_EQ(cube_test::open_archive(bytes).notes().size(), 1u);
  EXPECT_THAT(stored_in(bytes, "n").values.at(0), ElementsAre(1, 2, 3));
}

TEST(CubeReader, RefusesMembersThatAreNoFiles) {
  Bytes bytes = Profile().add("n", "EXCLUSIVE", "UINT64", {}, kCounts).bytes();
  for (const char type : {'1', '2', '3', 'x', 'g', 'L', 'S'}) {
    bytes[156] = static_cast<std::byte>(type);
    EXPECT_THAT([&] { cube_test::open_archive(bytes); },
                ThrowsMessage<CubeError>(HasSubstr("no regular file")));
  }
}

TEST(CubeReader, NamesAnArchiveThatIsCompressedAsAWhole) {
  const Bytes bytes = cube_test::gzipped(std::string(4096, 'x'));
  Bytes padded = bytes;
  padded.resize(1024);
  EXPECT_THAT([&] { cube_test::open_archive(padded); },
              ThrowsMessage<CubeError>(HasSubstr("gunzip it first")));
}

}  // namespace
