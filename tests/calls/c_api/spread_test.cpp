// Spreads in C and C++: every error of spread.h, and what a program sees where nothing fails.
#include "ioweave/spread.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>

#include <gmock/gmock.h>

#include "ioweave/read_streams.hpp"
#include "spread_fixture.hpp"
#include "support/child.hpp"
#include "support/small_filesystem.hpp"

namespace ioweave::test {
namespace {

using ::testing::HasSubstr;

class SpreadInC : public SpreadOnEveryEngine {
 protected:
  /// Items of 100 bytes go to the first of two targets and full buffers to the second, which is
  /// told to be too large after 16 of them. Returns the results of the calls that failed.
  std::vector<int> append_until_one_is_too_large() {
    std::vector<int> failed;
    for (uint64_t i = 0; i < 48; ++i) {
      if (const int error = append(i, i % 2 == 0 ? 100 : kBuffer); error != 0) {
        failed.push_back(error);
      }
    }
    return failed;
  }
};
INSTANTIATE_TEST_SUITE_P(, SpreadInC, every_engine(), name_of);

// ---- What is written

TEST_P(SpreadInC, ItemsComeBackInTheOrderOfTheCalls) {
  ASSERT_EQ(create(folders(3)), 0) << why;
  const std::vector<uint64_t> sizes{kBuffer, 0, 1, 4096, 5000, kBuffer - 1, 100, kBuffer, 4095, 7};
  for (uint64_t i = 0; i < sizes.size(); ++i) {
    uint64_t item = 99;
    if (i % 3 == 2) {
      const std::vector<std::byte> content = pattern(i, sizes[i]);
      ASSERT_EQ(iow_spread_copy(spread, content.data(), sizes[i], &item), 0);
    } else {
      ASSERT_EQ(append(i, sizes[i], &item), 0);
    }
    EXPECT_EQ(item, i);
  }
  ASSERT_EQ(iow_spread_copy(spread, nullptr, 0, nullptr), 0);
  const iow_spread_stats stats = spread_stats();
  EXPECT_EQ(stats.targets, 3u);
  EXPECT_EQ(stats.failed_targets, 0u);
  EXPECT_EQ(stats.items, sizes.size() + 1);
  EXPECT_FALSE(std::filesystem::exists(manifest));
  ASSERT_EQ(end(true), 0) << why;
  EXPECT_TRUE(std::filesystem::exists(manifest));
  for (int target = 0; target < 3; ++target) {
    EXPECT_TRUE(std::filesystem::exists(
        dir.file(std::to_string(target) + "/run.manifest." + std::to_string(target))));
  }
  ASSERT_EQ(open_read(), 0) << why;
  std::vector<std::byte> found;
  uint64_t item = 0;
  for (uint64_t i = 0; i < sizes.size(); ++i) {
    ASSERT_EQ(next(found, item), 1) << why;
    EXPECT_EQ(item, i);
    EXPECT_EQ(found, pattern(i, sizes[i]));
  }
  EXPECT_EQ(next(found, item), 1);
  EXPECT_EQ(next(found, item), 0);
  EXPECT_EQ(next(found, item), 0);
  close_read();
}

TEST_P(SpreadInC, OptionsReachTheFiles) {
  iow_spread_options options{};
  options.size = sizeof options;
  options.mode = 0640;
  options.placement = IOW_PLACE_BY_LOAD;
  options.expected_bytes = 64 * kBuffer + 1;
  const std::vector<std::string> targets = folders(2);
  ASSERT_EQ(create(targets, &options), 0) << why;
  struct stat found {};
  ASSERT_EQ(::stat((targets[1] + "/run.manifest.1").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777u, 0640u);
  if (found.st_size != 0) {  // not every file system can allocate
    EXPECT_GE(static_cast<uint64_t>(found.st_size), 32 * kBuffer);
  }
  ASSERT_EQ(append(0, 100), 0);
  ASSERT_EQ(end(), 0) << why;
  ASSERT_EQ(::stat(manifest.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777u, 0640u);
  EXPECT_EQ(std::filesystem::file_size(targets[0] + "/run.manifest.0"), 100u);
  EXPECT_EQ(std::filesystem::file_size(targets[1] + "/run.manifest.1"), 0u);
}

TEST_P(SpreadInC, AbandonedLeavesNoManifestAndTakesAwayTheOldOne) {
  ASSERT_EQ(create(folders(2)), 0) << why;
  ASSERT_EQ(end(), 0) << why;
  EXPECT_TRUE(std::filesystem::exists(manifest));
  ASSERT_EQ(create(folders(2)), 0) << why;
  EXPECT_FALSE(std::filesystem::exists(manifest));
  ASSERT_EQ(append(0, 100), 0);
  iow_spread_abandon(std::exchange(spread, nullptr));
  iow_spread_abandon(nullptr);
  EXPECT_FALSE(std::filesystem::exists(manifest));
  EXPECT_FALSE(std::filesystem::exists(manifest + ".part"));
}

// ---- Errors of the creation

TEST_P(SpreadInC, OptionsOutOfRangeAreNamed) {
  const auto refuse = [&](const auto& change, const std::string& words) {
    iow_spread_options options{};
    change(options);
    EXPECT_EQ(create(folders(2), &options), -EINVAL);
    EXPECT_THAT(why, HasSubstr(words));
  };
  static constexpr uint32_t kNone = 9;
  using Options = iow_spread_options;
  refuse([](Options& o) { o.size = 3; }, "options.size");
  refuse([](Options& o) { std::memcpy(&o.placement, &kNone, sizeof o.placement); },
         "placement must be 0..1, not 9");
  refuse([](Options& o) { std::memcpy(&o.on_failure, &kNone, sizeof o.on_failure); },
         "on_failure must be 0..1, not 9");
}

TEST_P(SpreadInC, BadPathsAndTargetsAreNamed) {
  const auto refuse = [&](const std::vector<std::string>& targets, int error,
                          const std::string& words) {
    EXPECT_EQ(create(targets), error);
    EXPECT_THAT(why, HasSubstr(words));
  };
  refuse({}, -EINVAL, "1..1024 targets, not 0");
  refuse(std::vector<std::string>(1025, "x"), -EINVAL, "1..1024 targets, not 1025");
  refuse({dir.file("a"), dir.file("a")}, -EINVAL, "two files of the spread");
  refuse({dir.file("missing/a")}, -ENOENT, dir.file("missing/a"));
  refuse({"/dev/null"}, -EINVAL, "not a regular file");
  ErrorText text;
  const char* target = nullptr;
  EXPECT_EQ(iow_spread_create(stream, &spread, manifest.c_str(), &target, 1, nullptr, text.out()),
            -EINVAL);
  EXPECT_EQ(text.str(), "target 0 must not be NULL");
  EXPECT_EQ(iow_spread_create(stream, &spread, manifest.c_str(), nullptr, 1, nullptr, text.out()),
            -EINVAL);
  target = "x";
  EXPECT_EQ(iow_spread_create(stream, &spread, nullptr, &target, 1, nullptr, text.out()), -EINVAL);
  EXPECT_EQ(text.str(), "manifest must not be NULL");
  EXPECT_EQ(iow_spread_create(stream, &spread, (dir.path() + "/").c_str(), &target, 1, nullptr,
                              text.out()),
            -EINVAL);
  EXPECT_THAT(text.str(), HasSubstr("does not name a file"));
  EXPECT_EQ(iow_spread_create(stream, nullptr, "x", &target, 1, nullptr, text.out()), -EINVAL);
  EXPECT_EQ(iow_spread_create(nullptr, &spread, "x", &target, 1, nullptr, text.out()), -EINVAL);
  EXPECT_EQ(text.str(), "stream and spread must not be NULL");
  std::filesystem::create_directory(manifest);
  refuse(folders(1), -EINVAL, "not a regular file: a manifest cannot take its place");
}

TEST_P(SpreadInC, AsManyTargetsAsThereMayBeAreWrittenAndReadBack) {
  constexpr uint64_t kTargets = 1024;
  constexpr uint64_t kBytes = 100;
  constexpr rlim_t kFiles = 4096;  // two for each target, and some of others
  struct rlimit files {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  if (files.rlim_max < kFiles) {
    GTEST_SKIP() << "this process may not have 4096 open files";
  }
  const struct rlimit more {
    std::max(files.rlim_cur, kFiles), files.rlim_max
  };
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &more), 0);
  std::vector<std::string> targets(kTargets, dir.path());
  ASSERT_EQ(create(targets), 0) << why;
  for (uint64_t i = 0; i < kTargets; ++i) {
    ASSERT_EQ(append(i, kBytes), 0);
  }
  EXPECT_EQ(spread_stats().targets, kTargets);
  ASSERT_EQ(end(), 0) << why;
  EXPECT_EQ(content_of(manifest + ".1023"), pattern(kTargets - 1, kBytes));
  ASSERT_EQ(open_read(), 0) << why;
  std::vector<std::byte> bytes;
  uint64_t item = 0;
  for (uint64_t i = 0; i < kTargets; ++i) {
    ASSERT_EQ(next(bytes, item), 1) << why;
    EXPECT_EQ(item, i);
    EXPECT_EQ(bytes, pattern(i, kBytes));
  }
  EXPECT_EQ(next(bytes, item), 0);
  close_read();
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
}

TEST_P(SpreadInC, WhatExistsIsAnErrorIfItIsToBeNew) {
  iow_spread_options exclusive{};
  exclusive.exclusive = 1;
  const std::vector<std::string> targets = folders(2);
  std::ofstream(manifest) << "old";
  EXPECT_EQ(create(targets, &exclusive), -EEXIST);
  EXPECT_EQ(why, "'" + std::filesystem::canonical(manifest).string() + "' exists");
  std::filesystem::remove(manifest);
  std::ofstream(targets[1] + "/run.manifest.1") << "old data";
  EXPECT_EQ(create(targets, &exclusive), -EEXIST);
  EXPECT_THAT(why, HasSubstr("1/run.manifest.1"));
  EXPECT_EQ(std::filesystem::file_size(targets[1] + "/run.manifest.1"), 8u);
}

TEST_P(SpreadInC, AManifestHasOneWriterAtATime) {
  ASSERT_EQ(create(folders(2)), 0) << why;
  iow_spread* const first = std::exchange(spread, nullptr);
  EXPECT_EQ(create({dir.file("other")}), -EBUSY);
  EXPECT_THAT(why, HasSubstr("run.manifest' is being written by another spread"));
  spread = first;
  EXPECT_EQ(end(), 0) << why;
}

TEST_P(SpreadInC, RoomThatATargetLacksIsMissedAtTheCreation) {
  const SmallFilesystem disk(16 << 20);
  if (!disk.problem().empty()) {
    GTEST_SKIP() << disk.problem();
  }
  iow_spread_options options{};
  options.expected_bytes = 64 << 20;
  EXPECT_EQ(create({dir.file("here"), disk.file("there")}, &options), -ENOSPC);
  EXPECT_THAT(why, HasSubstr("expected size of '" + disk.file("there")));
}

// ---- Errors of items

TEST_P(SpreadInC, MalformedAppendsAreRefusedAndEndTheLease) {
  ASSERT_EQ(create(folders(2)), 0) << why;
  iow_write_stream* other = nullptr;
  const iow_write_stream_options options = small_stream();
  ASSERT_EQ(iow_write_stream_open(service, &other, &options, nullptr), 0);
  for (uint64_t i = 0; i < 2 * kBuffers; ++i) {  // more leases than buffers: each one came back
    iow_lease lease = lease_of(stream);
    EXPECT_EQ(iow_spread_append(&lease, spread, kBuffer + 1, nullptr), -EINVAL);
    EXPECT_EQ(iow_spread_append(&lease, spread, 1, nullptr), -EINVAL) << "no lease";
    lease = lease_of(other);
    EXPECT_EQ(iow_spread_append(&lease, spread, 1, nullptr), -EINVAL);
    EXPECT_EQ(lease.data, nullptr);
  }
  EXPECT_EQ(iow_spread_append(nullptr, spread, 1, nullptr), -EINVAL);
  EXPECT_EQ(iow_write_stream_close(other, 0, nullptr), 0);
  EXPECT_EQ(iow_spread_copy(spread, nullptr, 1, nullptr), -EINVAL);
  EXPECT_EQ(iow_spread_copy(spread, "x", kBuffer + 1, nullptr), -EINVAL);
  iow_spread_stats stats{};
  stats.size = 3;
  EXPECT_EQ(iow_spread_get_stats(spread, &stats), -EINVAL);
  EXPECT_EQ(spread_stats().items, 0u);
  EXPECT_EQ(end(), 0) << why;
}

TEST_P(SpreadInC, ACopyMayBeRefusedInsteadOfWaitedFor) {
  iow_write_stream_options options = small_stream();
  options.overflow = IOW_OVERFLOW_FAIL;
  open_stream(options);
  ASSERT_EQ(create(folders(2)), 0) << why;
  std::array<iow_lease, kBuffers> leases{};
  for (iow_lease& one : leases) {
    one = lease_of(stream);
  }
  EXPECT_EQ(iow_spread_copy(spread, "x", 1, nullptr), -EAGAIN);
  for (iow_lease& one : leases) {
    iow_lease_end(&one);
  }
  EXPECT_EQ(iow_spread_copy(spread, "x", 1, nullptr), 0);
  EXPECT_EQ(end(), 0) << why;
}

TEST_P(SpreadInC, AFailureIsReturnedOnceAndTheManifestListsWhatIsThere) {
  const std::vector<std::string> targets = folders(2);
  ASSERT_EQ(create(targets), 0) << why;
  std::vector<int> errors;
  {
    const SmallFilesOnly limited;
    errors = append_until_one_is_too_large();
    EXPECT_EQ(iow_write_stream_flush(stream, IOW_ALL_FILES), errors.empty() ? -EFBIG : -ECANCELED);
  }
  const iow_spread_stats stats = spread_stats();
  EXPECT_GE(stats.lost_items, 1u);
  EXPECT_EQ(stats.failed_targets, 1u);
  EXPECT_EQ(stats.items, 48 - errors.size());
  EXPECT_EQ(append(0, 1), -ECANCELED);
  EXPECT_EQ(std::count(errors.begin(), errors.end(), -EFBIG), errors.empty() ? 0 : 1);
  EXPECT_EQ(end(true), -ECANCELED) << "it was returned before";
  EXPECT_THAT(why, ::testing::HasSubstr("cannot write at offset ")) << "but said again";
  ASSERT_EQ(open_read(), 0) << why;
  std::vector<std::byte> found;
  uint64_t lost = 0;
  uint64_t item = 0;
  for (uint64_t i = 0; i < stats.items; ++i) {
    const int result = next(found, item);
    EXPECT_EQ(item, i);
    if (result == -ENODATA) {
      EXPECT_EQ(i % 2, 1u);
      EXPECT_EQ(why,
                "item " + std::to_string(i) + " was lost when it was written: its target failed");
      ++lost;
    } else {
      EXPECT_EQ(found, pattern(i, i % 2 == 0 ? 100 : kBuffer));
    }
  }
  EXPECT_EQ(next(found, item), 0);
  EXPECT_EQ(lost, stats.lost_items);
  close_read();
}

TEST_P(SpreadInC, FailuresThatNobodyWasToldAreToldByTheEndWithTheirFiles) {
  const HeldFlow held(service);
  iow_write_stream_options slow = small_stream();
  slow.flow = held.flow();
  open_stream(slow);
  const std::vector<std::string> targets = folders(3);
  ASSERT_EQ(create(targets), 0) << why;
  const SmallFilesOnly limited(4096);
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(append(i, i == 1 ? 100 : 8192), 0);
  }
  held.let_go();
  EXPECT_EQ(end(), -EFBIG);
  EXPECT_THAT(why, HasSubstr("cannot write at offset 4096 of '" +
                             std::filesystem::canonical(targets[0]).string()));
  EXPECT_THAT(why, HasSubstr("; cannot write at offset 4096 of '" +
                             std::filesystem::canonical(targets[2]).string()));
  ASSERT_EQ(open_read(), 0) << why;
  iow_read_stream_stats stats{};
  stats.size = sizeof stats;
  ASSERT_EQ(iow_read_stream_get_stats(read, &stats), 0);
  EXPECT_EQ(stats.items, 3u);
  EXPECT_EQ(stats.lost_items, 2u);
  close_read();
}

TEST_P(SpreadInC, ItemsOfATargetThatFailsMoveToAnother) {
  iow_spread_options options{};
  options.on_failure = IOW_FAILURE_MOVE;
  ASSERT_EQ(create(folders(2), &options), 0) << why;
  {
    const SmallFilesOnly limited;
    EXPECT_EQ(append_until_one_is_too_large(), std::vector<int>{});
    EXPECT_EQ(end(true), 0) << why;
  }
  ASSERT_EQ(open_read(), 0) << why;
  std::vector<std::byte> found;
  uint64_t item = 0;
  for (uint64_t i = 0; i < 48; ++i) {
    ASSERT_EQ(next(found, item), 1) << why;
    EXPECT_EQ(found, pattern(i, i % 2 == 0 ? 100 : kBuffer)) << i;
  }
  close_read();
}

TEST_P(SpreadInC, AManifestThatCannotBeWrittenIsAnError) {
  std::filesystem::create_directory(dir.file("gone"));
  ErrorText text;
  const std::string path = dir.file("gone/manifest");
  const std::string target = dir.file("data");
  const char* const paths[] = {target.c_str()};
  ASSERT_EQ(iow_spread_create(stream, &spread, path.c_str(), paths, 1, nullptr, text.out()), 0)
      << text.str();
  ASSERT_EQ(append(0, 100), 0);
  std::filesystem::remove_all(dir.file("gone"));
  EXPECT_EQ(end(), -ENOENT);
  EXPECT_THAT(why, HasSubstr("cannot write the manifest '"));
  EXPECT_THAT(why, HasSubstr("gone/manifest"));
}

/// What is long of it is written while items are appended.
TEST_P(SpreadInC, AManifestThatHasNoRoomIsToldOnceAndNothingMoreIsTaken) {
  const SmallFilesystem disk(16 << 20);
  if (!disk.problem().empty()) {
    GTEST_SKIP() << disk.problem();
  }
  const std::string path = disk.file("manifest");
  const std::string target = dir.file("data");
  const char* const paths[] = {target.c_str()};
  ASSERT_EQ(iow_spread_create(stream, &spread, path.c_str(), paths, 1, nullptr, nullptr), 0);
  {
    std::ofstream fill(disk.file("fill"));
    const std::string block(4096, 'x');
    while (fill.write(block.data(), 4096) && fill.flush()) {
    }
  }
  std::vector<int> errors;
  for (uint64_t i = 0; i < 8000; ++i) {
    // Items that differ, so that each is a line.
    const int error = iow_spread_copy(spread, "ab", 1 + i % 2, nullptr);
    if (error != 0) {
      errors.push_back(error);
    }
  }
  ASSERT_FALSE(errors.empty());
  EXPECT_EQ(errors.front(), -ENOSPC);
  EXPECT_EQ(std::count(errors.begin(), errors.end(), -ECANCELED),
            static_cast<int64_t>(errors.size()) - 1);
  EXPECT_EQ(end(), -ECANCELED);
  EXPECT_THAT(why, HasSubstr("cannot write the manifest '" + path + "': No space left"));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

TEST_P(SpreadInC, AfterTheEndOfItsFilesNothingIsTaken) {
  ASSERT_EQ(create(folders(2)), 0) << why;
  ASSERT_EQ(append(0, 100), 0);
  ASSERT_EQ(iow_write_stream_end(stream, IOW_ALL_FILES, 0, nullptr), 0);
  EXPECT_EQ(append(0, 100), -EBADF);
  EXPECT_EQ(end(), -EBADF);
  EXPECT_THAT(why, HasSubstr("run.manifest"));
  EXPECT_FALSE(std::filesystem::exists(manifest));
}

TEST_P(SpreadInC, InAForkedChildNothingHappens) {
  ASSERT_EQ(create(folders(2)), 0) << why;
  iow_lease lease = lease_of(stream);
  fill(lease, 0, 100);
  const int status = run_in_child([&] {
    iow_spread* fresh = nullptr;
    const char* const target = "x";
    iow_spread_stats stats{};
    const bool refused =
        iow_spread_create(stream, &fresh, "y", &target, 1, nullptr, nullptr) == -ECANCELED &&
        iow_spread_append(&lease, spread, 10, nullptr) == -ECANCELED &&
        iow_spread_copy(spread, "x", 1, nullptr) == -ECANCELED &&
        iow_spread_get_stats(spread, &stats) == -ECANCELED &&
        iow_spread_end(spread, 1, nullptr) == -ECANCELED;
    iow_spread_abandon(spread);
    return refused ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(iow_spread_append(&lease, spread, 100, nullptr), 0);
  EXPECT_EQ(end(true), 0) << why;
  ASSERT_EQ(open_read(), 0) << why;
  std::vector<std::byte> found;
  uint64_t item = 0;
  EXPECT_EQ(next(found, item), 1);
  EXPECT_EQ(found, pattern(0, 100));
  close_read();
}

// ---- C++

TEST(CppSpread, WritesItemsAndThrowsWhatFailed) {
  const TempDir dir;
  Service service;
  WriteStream stream(service, small_stream());
  const std::vector<std::filesystem::path> targets{dir.file("a"), dir.file("b")};
  Spread results(stream, dir.file("manifest"), targets);
  for (uint64_t i = 0; i < 10; ++i) {
    const std::vector<std::byte> content = pattern(i, 1000 * i);
    if (i % 2 == 0) {
      EXPECT_EQ(results.append(content), i);
    } else {
      Lease lease = stream.lease();
      std::copy(content.begin(), content.end(), lease.data().begin());
      EXPECT_EQ(results.append(std::move(lease), content.size()), i);
      EXPECT_FALSE(lease);  // NOLINT(bugprone-use-after-move): what is left of it is told
    }
  }
  EXPECT_EQ(results.stats().items, 10u);
  EXPECT_EQ(results.stats().bytes, 45'000u);
  results.end();
  ReadStream read(service, dir.file("manifest"));
  for (uint64_t i = 0; i < 10; ++i) {
    const ReadLease lease = read.next();
    ASSERT_TRUE(lease);
    EXPECT_TRUE(std::ranges::equal(lease.data(), pattern(i, 1000 * i)));
  }
  EXPECT_FALSE(read.next());
  try {
    const Spread none(stream, dir.file("no/where"), targets);
    ADD_FAILURE();
  } catch (const StreamError& error) {
    EXPECT_EQ(error.code().value(), ENOENT);
    EXPECT_THAT(error.what(), HasSubstr("no/where"));
  }
  Spread failing(stream, dir.file("failing"), targets);
  const SmallFilesOnly limited;
  const std::vector<std::byte> content = pattern(0, kBuffer);
  try {
    for (int i = 0; i < 100; ++i) {
      failing.append(content);
    }
    ADD_FAILURE();
  } catch (const StreamError& error) {
    EXPECT_EQ(error.code().value(), EFBIG);
    EXPECT_THAT(error.what(), HasSubstr("cannot write at offset 1048576"));
  }
  EXPECT_THROW(failing.append(stream.lease(), 1), std::system_error);
  EXPECT_THROW(failing.end(), std::system_error);
}

TEST(CppSpread, ThatIsDestroyedWithoutAnEndHasNoManifest) {
  const TempDir dir;
  Service service;
  WriteStream stream(service, small_stream());
  const std::vector<std::filesystem::path> targets{dir.file("a")};
  { Spread(stream, dir.file("manifest"), targets).append(pattern(0, 100)); }
  EXPECT_FALSE(std::filesystem::exists(dir.file("manifest")));
  EXPECT_FALSE(std::filesystem::exists(dir.file("manifest.part")));
}

}  // namespace
}  // namespace ioweave::test
