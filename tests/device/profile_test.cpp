// The profile of a device: its medians, and its text, which is read without trust.

#include "device/profile.hpp"

#include <cerrno>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/atomic_file.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::device {
namespace {

using ioweave::test::TempDir;
using ::testing::HasSubstr;

LoadResult result_with(std::vector<double> mb_per_s) {
  LoadResult result;
  result.load.block_bytes = 1'000'000;
  for (const double rate : mb_per_s) {
    result.samples.push_back({0, static_cast<uint64_t>(rate * 1e6), 1, rate / 1e3});
  }
  return result;
}

TEST(LoadResult, TellsMedians) {
  const LoadResult odd = result_with({30, 10, 20});
  EXPECT_DOUBLE_EQ(odd.mb_per_s(), 20);
  EXPECT_DOUBLE_EQ(odd.write_mb_per_s(), 20);
  EXPECT_DOUBLE_EQ(odd.read_mb_per_s(), 0);
  EXPECT_DOUBLE_EQ(odd.cpu_us_per_transfer(), 1000);
  EXPECT_DOUBLE_EQ(odd.spread(), 1);
  EXPECT_DOUBLE_EQ(result_with({10, 20}).mb_per_s(), 15);
}

TEST(LoadResult, WithoutSamplesIsZero) {
  EXPECT_DOUBLE_EQ(result_with({}).mb_per_s(), 0);
  EXPECT_DOUBLE_EQ(result_with({}).spread(), 0);
}

Profile random_profile(uint64_t seed) {
  std::mt19937_64 random(seed);
  Profile profile;
  profile.date = "2026-01-31T12:00:00.000Z";
  profile.host = "node \"7\"";
  profile.kernel = "6.18.0";
  profile.cpus = static_cast<uint32_t>(random() % 100);
  profile.path = "/scratch/\n\x7f";
  profile.mount_path = "/scratch";
  profile.file_system = "ext4";
  profile.by = "fio-3.33";
  profile.file_bytes = 1 + random() % (1u << 30);
  profile.block_bytes = 1 + random() % (1u << 20);
  profile.seconds = 0.5;
  profile.unusable.push_back({IoWay::iopoll, random() % 2 == 0, "its queues are not polled"});
  for (size_t i = 0; i < random() % 9; ++i) {
    LoadResult result;
    result.load = {kIoWays[random() % 4],     random() % 2 == 0,
                   random() % 2 == 0,         static_cast<unsigned>(random() % 101),
                   1 + random() % (1u << 26), static_cast<unsigned>(1 + random() % 64)};
    if (random() % 3 == 0) result.failure = "Input/output error";
    for (size_t j = 0; j < random() % 4; ++j) {
      result.samples.push_back({random() % (1u << 30), random() % (1u << 30),
                                static_cast<double>(1 + random() % 1000) / 256,
                                static_cast<double>(random() % 1000) / 256});
    }
    profile.results.push_back(std::move(result));
  }
  return profile;
}

TEST(Profile, IsReadAsItWasWritten) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Profile written = random_profile(seed);
    std::string why;
    const auto read = parse_profile(profile_json(written), why);
    ASSERT_TRUE(read.has_value()) << why << ", seed " << seed;
    EXPECT_EQ(profile_json(*read), profile_json(written)) << "seed " << seed;
    EXPECT_EQ(read->path, written.path);
    ASSERT_EQ(read->results.size(), written.results.size());
    for (size_t i = 0; i < read->results.size(); ++i) {
      EXPECT_EQ(read->results[i].load, written.results[i].load);
      EXPECT_EQ(read->results[i].samples.size(), written.results[i].samples.size());
    }
  }
}

TEST(Profile, NamesTheMistakeInAText) {
  const std::string good = profile_json(random_profile(3));
  const auto mistake_in = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    std::string why;
    EXPECT_FALSE(parse_profile(text, why).has_value()) << text;
    return why;
  };
  EXPECT_THAT(mistake_in("{", "["), HasSubstr("not JSON"));
  EXPECT_THAT(mistake_in("profile/1", "profile/2"), HasSubstr("ioweave-device-profile/2"));
  EXPECT_THAT(mistake_in("\"file_bytes\": ", "\"file_bytes\": -"), HasSubstr("file_bytes"));
  EXPECT_THAT(mistake_in("\"cpus\"", "\"cups\""), HasSubstr("cpus"));
  EXPECT_THAT(mistake_in("io_uring+iopoll", "io_uring+magic"), HasSubstr("magic"));
  EXPECT_THAT(mistake_in("\"unusable\": [", "\"unusable\": 7, \"other\": ["),
              HasSubstr("not a list"));
}

/// Any text is refused or read; nothing else happens. Sanitizers watch.
TEST(Profile, OfABrokenTextIsRefusedOrRead) {
  std::mt19937_64 random(1);
  for (uint64_t round = 0; round < 2000; ++round) {
    std::string text = profile_json(random_profile(round));
    for (int changes = 0; changes < 3; ++changes) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) text.resize(random() % text.size());
    std::string why;
    if (!parse_profile(text, why)) {
      EXPECT_FALSE(why.empty());
    }
  }
}

TEST(Profile, FileIsReadOrItsErrorTold) {
  const TempDir folder;
  Profile profile;
  std::string why;
  EXPECT_EQ(read_profile(folder.file("none"), profile, why), -ENOENT);
  ASSERT_EQ(write_atomically(folder.file("bad"), "{}"), 0);
  EXPECT_EQ(read_profile(folder.file("bad"), profile, why), -EBADMSG);
  EXPECT_THAT(why, HasSubstr("schema"));
  ASSERT_EQ(write_atomically(folder.file("good"), profile_json(random_profile(5))), 0);
  EXPECT_EQ(read_profile(folder.file("good"), profile, why), 0);
  EXPECT_EQ(profile.by, "fio-3.33");
}

TEST(Profile, ResultIsFoundByItsLoad) {
  Profile profile;
  profile.results.push_back(result_with({10}));
  Load load = profile.results.front().load;
  EXPECT_EQ(result_of(profile, load), &profile.results.front());
  load.depth = 2;
  EXPECT_EQ(result_of(profile, load), nullptr);
}

}  // namespace
}  // namespace ioweave::device
