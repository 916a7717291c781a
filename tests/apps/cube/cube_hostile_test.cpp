// Archives that are cut off, damaged, or made to do harm: an error that says where, or an output;
// never anything else, and no memory beyond what the input has earned.
#include <cstdlib>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cube_profile.hpp"
#include "error.hpp"
#include "inflate.hpp"

namespace {

using cube::CubeError;
using cube_test::append;
using cube_test::Bytes;
using cube_test::number_bytes;
using cube_test::Profile;
using cube_test::remapped;
using cube_test::to_bytes;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::vector<uint64_t> kCounts = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

Profile small_profile() {
  Profile profile;
  profile.add("plain", "EXCLUSIVE", "UINT64", {}, kCounts);
  profile.add<double>("packed", "INCLUSIVE", "DOUBLE", {2, 0}, {1, 2, 3, 4, 5, 6},
                      {.swapped = true, .compressed = true});
  profile.add("tau", "EXCLUSIVE", "TAU_ATOMIC", {1}, std::vector<uint8_t>(3 * 36, 1));
  profile.derive("derived", "PREDERIVED_EXCLUSIVE", "metric::plain() / (metric::packed(i) + 1)");
  return profile;
}

/// A profile whose only metric has these members.
Bytes profile_of(const Bytes& index, const Bytes& data, const std::string& type = "UINT64") {
  Profile profile;
  profile.declare("n", "EXCLUSIVE", type, "");
  profile.add_member("0.index", index);
  profile.add_member("0.data", data);
  return profile.bytes();
}

Bytes index_of(const std::vector<uint32_t>& numbers) {
  return cube_test::index_bytes(numbers, {});
}

/// Compressed data whose table says what it likes.
Bytes packed_data(uint64_t count, const std::vector<uint64_t>& table, const Bytes& chunks) {
  Bytes data = to_bytes("ZCUBEX.DATA");
  append(data, number_bytes(count, false));
  for (const uint64_t word : table) append(data, number_bytes(word, false));
  append(data, chunks);
  return data;
}

TEST(CubeHostile, TruncationAtAnyByteIsAnErrorOrHarmless) {
  const Bytes whole = small_profile().bytes();
  const Bytes expected = remapped(whole);
  const auto archive = cube_test::open_archive(whole);
  const cube::Member& anchor = *archive.find("anchor.xml");
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
    if (bytes < anchor.offset + anchor.bytes) {
      EXPECT_THROW(remapped(part), CubeError) << bytes;
      continue;
    }
    // Only the zeros at the end are missing. A part of a block is no header.
    try {
      EXPECT_EQ(remapped(part), expected) << bytes;
    } catch (const CubeError& error) {
      EXPECT_THAT(error.what(), HasSubstr("within the header")) << bytes;
    }
  }
}

TEST(CubeHostile, FlippedBitsAreAnErrorOrAnotherProfile) {
  const char* given = std::getenv("CUBE_TEST_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("CUBE_TEST_SEED=" + std::to_string(seed));
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  const Bytes whole = small_profile().bytes();
  size_t refused = 0;
  for (int round = 0; round < 4000; ++round) {
    Bytes bytes = whole;
    for (uint64_t flips = 1 + random() % 4; flips > 0; --flips) {
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1U << random() % 8);
    }
    try {
      remapped(bytes, {.input_limit = uint64_t{1} << 24});
    } catch (const CubeError&) {
      ++refused;
    } catch (const std::exception& error) {
      FAIL() << "round " << round << ": " << error.what();
    }
  }
  EXPECT_GT(refused, 0u);
}

TEST(CubeHostile, RandomBytesInPlaceOfNumbersAreFound) {
  std::mt19937_64 random(7);
  const Bytes whole = small_profile().bytes();
  const auto archive = cube_test::open_archive(whole);
  const std::vector<cube::Member> members = archive.members();
  for (int round = 0; round < 4000; ++round) {
    Bytes bytes = whole;
    const cube::Member& member = members[random() % (members.size() - 1)];
    const uint64_t at = member.offset + random() % member.bytes;
    const uint64_t word = random() >> random() % 64;
    for (size_t i = 0; i < 8 && at + i < bytes.size(); ++i) {
      bytes[at + i] = static_cast<std::byte>(word >> 8 * i);
    }
    try {
      remapped(bytes, {.input_limit = uint64_t{1} << 24});
    } catch (const CubeError&) {
      continue;
    } catch (const std::exception& error) {
      FAIL() << "round " << round << ": " << error.what();
    }
  }
}

TEST(CubeHostile, AMemberLargerThanTheFileIsRefused) {
  Bytes bytes = Profile().add("n", "EXCLUSIVE", "UINT64", {}, kCounts).bytes();
  const Bytes size = to_bytes("77777777777");
  std::copy(size.begin(), size.end(), bytes.begin() + 124);
  EXPECT_THAT([&] { remapped(bytes); },
              ThrowsMessage<CubeError>(AllOf(HasSubstr("test.cubex"), HasSubstr("'0.index'"),
                                             HasSubstr("offset 0"), HasSubstr("8589934591"))));
}

TEST(CubeHostile, ASizeThatIsNoOctalNumberIsRefused) {
  Bytes bytes = Profile().add("n", "EXCLUSIVE", "UINT64", {}, kCounts).bytes();
  bytes[124] = std::byte{0x80};  // GNU's way to say larger sizes
  EXPECT_THAT([&] { remapped(bytes); }, ThrowsMessage<CubeError>(HasSubstr("no octal number")));
}

TEST(CubeHostile, AMemberThatIsThereTwiceIsRefused) {
  Profile profile;
  profile.add("n", "EXCLUSIVE", "UINT64", {}, kCounts);
  profile.add_member("0.data", to_bytes("other"));
  EXPECT_THAT([&] { remapped(profile.bytes()); },
              ThrowsMessage<CubeError>(HasSubstr("second member '0.data'")));
}

TEST(CubeHostile, AnIndexThatSaysMoreThanItHasIsRefused) {
  Bytes index = index_of({0, 1});
  const Bytes many = number_bytes(uint32_t{0xffffffff}, false);
  std::copy(many.begin(), many.end(), index.begin() + 18);
  EXPECT_THAT(
      [&] { remapped(profile_of(index, to_bytes("CUBEX.DATA"))); },
      ThrowsMessage<CubeError>(AllOf(HasSubstr("'0.index'"), HasSubstr("4294967295 rows"))));
}

TEST(CubeHostile, RowsOfUnknownOrRepeatedPathsAreRefused) {
  const Bytes data = cube_test::data_bytes({Bytes(24), Bytes(24)}, {});
  EXPECT_THAT(
      [&] {
        remapped(profile_of(index_of({0, 5}), data));
      },
      ThrowsMessage<CubeError>(AllOf(HasSubstr("offset 26"), HasSubstr("call path 5"))));
  EXPECT_THAT(
      [&] {
        remapped(profile_of(index_of({3, 3}), data));
      },
      ThrowsMessage<CubeError>(HasSubstr("call path 3")));
}

TEST(CubeHostile, DataThatDoNotFitTheIndexAreRefused) {
  for (const size_t bytes : {0u, 23u, 25u, 48u}) {
    const Bytes data = cube_test::data_bytes({Bytes(bytes)}, {});
    EXPECT_THAT([&] { remapped(profile_of(index_of({0}), data)); },
                ThrowsMessage<CubeError>(AllOf(HasSubstr("'0.data'"), HasSubstr("1 rows of 3"))));
  }
  EXPECT_THAT([&] { remapped(profile_of(index_of({0}), to_bytes("CUBEX.DAT"))); },
              ThrowsMessage<CubeError>(HasSubstr("begins neither with")));
}

TEST(CubeHostile, ATableOfCompressedRowsIsChecked) {
  const Bytes chunk = cube_test::deflated(Bytes(24));
  const uint64_t size = chunk.size();
  const auto remap = [&](uint64_t count, const std::vector<uint64_t>& table) {
    return [=] { remapped(profile_of(index_of({0, 1}), packed_data(count, table, chunk))); };
  };
  EXPECT_NO_THROW(remap(1, {24, 0, size})());
  EXPECT_THAT(remap(uint64_t{1} << 60, {}), ThrowsMessage<CubeError>(HasSubstr("compressed rows")));
  EXPECT_THAT(remap(2, {0, 0}), ThrowsMessage<CubeError>(HasSubstr("'0.data'")));
  EXPECT_THAT(remap(1, {7, 0, size}), ThrowsMessage<CubeError>(HasSubstr("no row begins at 7")));
  EXPECT_THAT(remap(1, {48, 0, size}), ThrowsMessage<CubeError>(HasSubstr("no row begins at 48")));
  EXPECT_THAT(remap(2, {0, 0, size, 0, 0, size}),
              ThrowsMessage<CubeError>(HasSubstr("there twice")));
  EXPECT_THAT(remap(1, {0, 1, size}), ThrowsMessage<CubeError>(HasSubstr("are not in the")));
  EXPECT_THAT(remap(1, {0, UINT64_MAX, size}),
              ThrowsMessage<CubeError>(HasSubstr("are not in the")));
  EXPECT_THAT(remap(1, {0, 0, size - 1}), ThrowsMessage<CubeError>(HasSubstr("too early")));
}

TEST(CubeHostile, ARowInflatesToItsSizeAndNotBeyond) {
  const auto remap = [](const Bytes& chunk) {
    const Bytes data = packed_data(1, {0, 0, chunk.size()}, chunk);
    return [data] { remapped(profile_of(index_of({0}), data)); };
  };
  EXPECT_THAT(remap(cube_test::deflated(Bytes(25))),
              ThrowsMessage<CubeError>(HasSubstr("inflates to more than 24 bytes")));
  EXPECT_THAT(remap(cube_test::deflated(Bytes(23))),
              ThrowsMessage<CubeError>(HasSubstr("inflates to 23 bytes instead of 24")));
  // A bomb: 64 MiB of zeros in 64 KiB, for a row of 24 bytes.
  EXPECT_THAT(remap(cube_test::deflated(Bytes(size_t{64} << 20))),
              ThrowsMessage<CubeError>(HasSubstr("for a row of 24")));
  EXPECT_THAT(remap(to_bytes("no zlib data at all")),
              ThrowsMessage<CubeError>(HasSubstr("broken zlib data")));
}

TEST(CubeHostile, AnAnchorInflatesToItsLimitAndNotBeyond) {
  std::string text;
  const Bytes bomb = cube_test::gzipped(std::string(size_t{64} << 20, 'x'));
  EXPECT_THAT(cube::gunzip(bomb, 1000, text), HasSubstr("more than 1000 bytes"));
  EXPECT_LE(text.size(), size_t{2} << 20);
}

TEST(CubeHostile, RowsTooManyForMemoryAreRefusedBeforeTheyAreRead) {
  // A dense index has no size of its own, and zeros deflate well: little input, many values.
  Profile profile;
  profile.add("n", "EXCLUSIVE", "UINT64", {}, std::vector<uint64_t>(15, 0), {.compressed = true});
  std::string text = profile.anchor();
  std::string locations;
  for (int i = 3; i < 200'000; ++i) {
    locations += "<location Id=\"" + std::to_string(i) + "\"></location>";
  }
  text.insert(text.find("</locationgroup>"), locations);
  EXPECT_THAT([&] { remapped(profile.bytes_with(to_bytes(text))); },
              ThrowsMessage<CubeError>(HasSubstr("'0.data'")));
  Profile small;
  small.add("n", "EXCLUSIVE", "UINT64", {}, kCounts, {.dense = true, .compressed = true});
  EXPECT_THAT([&] { remapped(small.bytes(), {.input_limit = 100}); },
              ThrowsMessage<CubeError>(HasSubstr("--input-limit")));
}

TEST(CubeHostile, TypesWithHugeArgumentsAreUnknown) {
  for (const char* type : {"NDOUBLES(4000000000)", "NDOUBLES(0)", "HISTOGRAM(-1)", "NDOUBLES(1",
                           "NDOUBLES(99999999999999999999)", "NDOUBLES()", ""}) {
    EXPECT_THAT([&] { remapped(profile_of(index_of({0}), to_bytes("CUBEX.DATA"), type)); },
                ThrowsMessage<CubeError>(HasSubstr("unknown type")));
  }
}

}  // namespace
