// Spreads over back ends that misbehave: every item is where the manifest says, an error is told
// once, and what could be written is written.
#include "stream/spread/spread.hpp"

#include <fstream>
#include <thread>
#include <tuple>

#include <sys/syscall.h>
#include <sys/wait.h>

#include "spread_fixture.hpp"
#include "support/watched_calls.hpp"

namespace ioweave::stream {
namespace {

class SpreadTest : public SpreadFixture, public ::testing::Test {
 protected:
  std::unique_ptr<Spread> create(WriteStream& stream, const std::vector<std::string>& targets,
                                 const iow_spread_options& options = {}) {
    int error = 0;
    auto spread = Spread::create(stream, manifest, targets, options, error, why);
    last_error = error;
    return spread;
  }
  int last_error = 0;
};

class SpreadOnEngines : public SpreadTest, public ::testing::WithParamInterface<engine::Kind> {};
INSTANTIATE_TEST_SUITE_P(, SpreadOnEngines,
                         ::testing::Values(engine::Kind::threads, engine::Kind::uring));

TEST_P(SpreadOnEngines, RoundTripsItemsOfAnySizeOverAnyNumberOfTargets) {
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    test::FaultOptions passing;
    passing.seed = seed;
    passing.short_transfer = 0.2;
    passing.interrupted = 0.1;
    passing.again = 0.1;
    passing.delay = 0.2;
    passing.reorder = true;
    const auto service = open_service(GetParam(), passing);
    const auto path = random() % 3 == 0 ? IOW_PATH_BUFFERED : IOW_PATH_AUTO;
    const auto overflow = random() % 4 == 0 ? IOW_OVERFLOW_SYNCHRONOUS : IOW_OVERFLOW_BLOCK;
    const auto stream =
        open_stream(*service, 2 + static_cast<uint32_t>(random() % 8), path, overflow);
    const std::vector<std::string> targets = make_targets(1 + seed % 5);
    iow_spread_options options{};
    options.placement = random() % 2 == 0 ? IOW_PLACE_BY_LOAD : IOW_PLACE_ROUND_ROBIN;
    options.expected_bytes = random() % 2 == 0 ? random() % 1'000'000 : 0;
    auto spread = create(*stream, targets, options);
    ASSERT_NE(spread, nullptr) << why;
    std::vector<uint64_t> sizes(random() % 150);
    uint64_t same = random() % kBuffer;
    for (uint64_t i = 0; i < sizes.size(); ++i) {
      const uint64_t kind = random() % 6;
      sizes[i] = kind == 0 ? random() % (kBuffer + 1) : kind == 1 ? 0 : same;
      uint64_t number = 0;
      ASSERT_EQ(append(*stream, *spread, i, sizes[i], number), 0);
      ASSERT_EQ(number, i);
    }
    EXPECT_EQ(spread->statistics().items, sizes.size());
    ASSERT_EQ(spread->end(random() % 2 == 0, why), 0) << why;
    for (const uint64_t buffer_bytes : {kBuffer, uint64_t{4096}}) {
      const auto read = open_read(*service, manifest, buffer_bytes,
                                  1 + static_cast<uint32_t>(random() % 6), path);
      ASSERT_NE(read, nullptr) << why;
      const auto found = read_all(*read);
      ASSERT_EQ(found.size(), sizes.size());
      for (const auto& [item, what] : found) {
        ASSERT_EQ(what.error, 0) << what.why;
        ASSERT_EQ(what.bytes, content(item, sizes[item])) << "item " << item;
      }
      read->close();
    }
    ASSERT_EQ(stream->close(true, why), 0) << why;
  }
}

/// Of three targets one fails, with EIO or ENOSPC, after so many operations on it.
class OneOfThreeFails : public SpreadTest,
                        public ::testing::WithParamInterface<std::tuple<uint64_t, int>> {
 protected:
  static constexpr uint64_t kItems = 30;
  static constexpr size_t kFailing = 1;

  [[nodiscard]] static uint64_t spared() { return std::get<0>(GetParam()); }
  [[nodiscard]] static int failure() { return -std::get<1>(GetParam()); }

  void begin(iow_target_failure on_failure) {
    targets = make_targets(3);
    test::FaultOptions failing;
    failing.seed = 1;
    failing.io_error = failure() == -EIO ? 1 : 0;
    failing.no_space = failure() == -ENOSPC ? 1 : 0;
    failing.only_below = std::filesystem::canonical(targets[kFailing]);
    failing.spared = spared();
    failing.delay = 0.3;
    failing.reorder = true;
    service = open_service(engine::Kind::threads, failing);
    stream = open_stream(*service, 6);
    iow_spread_options options{};
    options.on_failure = on_failure;
    options.placement = spared() % 2 == 0 ? IOW_PLACE_ROUND_ROBIN : IOW_PLACE_BY_LOAD;
    spread = create(*stream, targets, options);
    ASSERT_NE(spread, nullptr) << why;
  }
  static uint64_t size_of(uint64_t item) { return item % 7 == 3 ? 0 : 5000 + item % 3 * 4096; }
  void append_all() {
    for (uint64_t i = 0; i < kItems; ++i) {
      uint64_t number = 0;
      ASSERT_EQ(append(*stream, *spread, i, size_of(i), number), 0) << i;
    }
  }
  /// Reads the manifest without faults: what is there must be right. Returns how many items are.
  uint64_t count_intact(uint64_t items) {
    const auto clean = open_service(engine::Kind::threads, {});
    const auto read = open_read(*clean, manifest);
    if (read == nullptr) {
      ADD_FAILURE() << why;
      return 0;
    }
    const auto found = read_all(*read);
    EXPECT_EQ(found.size(), items);
    uint64_t lost = 0;
    for (const auto& [item, what] : found) {
      if (what.error == 0) {
        EXPECT_EQ(what.bytes, content(item, size_of(item))) << item;
        continue;
      }
      ++lost;
      EXPECT_EQ(what.error, -ENODATA);
      EXPECT_NE(what.why.find("item " + std::to_string(item)), std::string::npos) << what.why;
    }
    EXPECT_EQ(read->statistics().lost_items, lost);
    read->close();
    return found.size() - lost;
  }

  std::vector<std::string> targets;
  service::Service::Owner service;
  WriteStream::Owner stream;
  std::unique_ptr<Spread> spread;
};
INSTANTIATE_TEST_SUITE_P(At, OneOfThreeFails,
                         ::testing::Combine(::testing::Range<uint64_t>(0, 26),
                                            ::testing::Values(EIO, ENOSPC)));

TEST_P(OneOfThreeFails, AndTheErrorIsToldOnceAndAllOthersAreThere) {
  begin(IOW_FAILURE_STOP);
  std::vector<int> told;
  uint64_t accepted = 0;
  for (uint64_t i = 0; i < kItems; ++i) {
    uint64_t number = 0;
    const int error = append(*stream, *spread, accepted, size_of(accepted), number);
    if (error == 0) {
      EXPECT_EQ(number, accepted++);
    } else {
      told.push_back(error);
    }
  }
  const uint64_t lost_before_end = spread->statistics().lost_items;
  const int ended = spread->end(false, why);
  if (ended != 0) {
    told.push_back(ended);
  }
  EXPECT_EQ(std::count(told.begin(), told.end(), failure()), told.empty() ? 0 : 1);
  EXPECT_TRUE(told.empty() || told.front() == failure());
  EXPECT_TRUE(std::all_of(told.begin(), told.end(),
                          [](int error) { return error == failure() || error == -ECANCELED; }));
  if (ended == failure()) {
    EXPECT_NE(why.find(targets[kFailing]), std::string::npos) << why;
  }
  const uint64_t intact = count_intact(accepted);
  EXPECT_LE(intact, accepted - lost_before_end);
  EXPECT_EQ(intact != accepted, !told.empty());
  EXPECT_EQ(stream->close(true, why), 0) << why;  // nothing is told again
}

TEST_P(OneOfThreeFails, AndTheOthersTakeItsItems) {
  begin(IOW_FAILURE_MOVE);
  append_all();
  ASSERT_EQ(stream->flush(IOW_ALL_FILES), 0);
  ASSERT_EQ(spread->end(false, why), 0) << why;
  EXPECT_EQ(count_intact(kItems), kItems);
  const iow_spread_stats stats = spread->statistics();
  EXPECT_EQ(stats.failed_targets != 0, stats.moved_items != 0);
  EXPECT_TRUE(spared() != 0 || stats.failed_targets == 1);
  spread.reset();
  EXPECT_EQ(stream->close(true, why), 0) << why;
}

/// A target that fails to sync may hold none of its items, and then there is no manifest; but one
/// without items is not missed.
TEST_P(OneOfThreeFails, AndItsItemsMustBeDurableNonetheless) {
  begin(IOW_FAILURE_MOVE);
  append_all();
  const int ended = spread->end(true, why);
  if (ended == 0) {
    EXPECT_EQ(count_intact(kItems), kItems);
  } else {
    EXPECT_EQ(ended, -EIO);
    EXPECT_EQ(failure(), -EIO) << "where only room is missing a sync works";
    EXPECT_NE(spared(), 0u) << "nothing was written there";
    EXPECT_NE(why.find(targets[kFailing]), std::string::npos) << why;
    EXPECT_FALSE(std::filesystem::exists(manifest));
    EXPECT_FALSE(std::filesystem::exists(manifest + ".part"));
  }
  EXPECT_EQ(stream->close(true, why), 0) << why;
}

TEST_F(SpreadTest, WhoseTargetsAllFailTellsAllItemsAsLost) {
  for (const iow_target_failure on_failure : {IOW_FAILURE_STOP, IOW_FAILURE_MOVE}) {
    test::FaultOptions failing;
    failing.io_error = 1;
    const auto service = open_service(engine::Kind::threads, failing);
    const auto stream = open_stream(*service, 4);
    iow_spread_options options{};
    options.on_failure = on_failure;
    auto spread = create(*stream, make_targets(on_failure == IOW_FAILURE_MOVE ? 3 : 2), options);
    ASSERT_NE(spread, nullptr) << why;
    int told = 0;
    uint64_t accepted = 0;
    for (uint64_t i = 0; i < 12; ++i) {
      uint64_t number = 0;
      const int error = append(*stream, *spread, i, 6000, number);
      accepted += error == 0 ? 1 : 0;
      told += error == -EIO ? 1 : 0;
    }
    told += spread->end(false, why) == -EIO ? 1 : 0;
    EXPECT_GE(told, 1);
    const auto clean = open_service(engine::Kind::threads, {});
    const auto read = open_read(*clean, manifest);
    ASSERT_NE(read, nullptr) << why;
    EXPECT_EQ(read->statistics().lost_items, accepted);
    EXPECT_EQ(read_all(*read).size(), accepted);
    read->close();
    static_cast<void>(stream->close(false, why));
  }
}

/// The error of a sync leaves in doubt which items are there.
TEST_F(SpreadTest, ThatCannotBeMadeDurableHasNoManifest) {
  const std::vector<std::string> targets = make_targets(2);
  test::FaultOptions failing;
  failing.io_error = 1;
  failing.only_below = std::filesystem::canonical(targets[1]);
  failing.spared = 2;  // the write, and the request to begin writing it back
  const auto service = open_service(engine::Kind::threads, failing);
  const auto stream = open_stream(*service, 4, IOW_PATH_BUFFERED);
  auto spread = create(*stream, targets);
  uint64_t number = 0;
  ASSERT_EQ(append(*stream, *spread, 0, 8192, number), 0);
  ASSERT_EQ(append(*stream, *spread, 1, 8192, number), 0);
  ASSERT_EQ(stream->flush(IOW_ALL_FILES), 0);
  EXPECT_EQ(spread->end(true, why), -EIO);
  EXPECT_NE(why.find(targets[1]), std::string::npos) << why;
  EXPECT_FALSE(std::filesystem::exists(manifest));
  EXPECT_FALSE(std::filesystem::exists(manifest + ".part"));
}

TEST_F(SpreadTest, WhoseTargetWasNotSyncedSaysSoThoughTheOthersGoOn) {
  const std::vector<std::string> targets = make_targets(2);
  test::FaultOptions failing;
  failing.io_error = 1;
  failing.only_below = std::filesystem::canonical(targets[1]);
  failing.spared = 2;  // the write, and the request to begin writing it back
  const auto service = open_service(engine::Kind::threads, failing);
  const auto stream = open_stream(*service, 4, IOW_PATH_BUFFERED);
  iow_spread_options options{};
  options.on_failure = IOW_FAILURE_MOVE;
  auto spread = create(*stream, targets, options);
  uint64_t number = 0;
  ASSERT_EQ(append(*stream, *spread, 0, 8192, number), 0);
  ASSERT_EQ(append(*stream, *spread, 1, 8192, number), 0);
  ASSERT_EQ(stream->flush(IOW_ALL_FILES), 0);
  EXPECT_EQ(stream->sync(IOW_ALL_FILES), -EIO);
  ASSERT_EQ(append(*stream, *spread, 2, 8192, number), 0);
  ASSERT_EQ(append(*stream, *spread, 3, 8192, number), 0);
  EXPECT_EQ(stream->sync(IOW_ALL_FILES), -ECANCELED);
  EXPECT_EQ(spread->end(false, why), -ECANCELED);
  EXPECT_FALSE(std::filesystem::exists(manifest));
}

TEST_F(SpreadTest, OfSeveralThreadsGivesEachItemOneNumber) {
  const auto service = open_service(engine::Kind::uring, {});
  const auto stream = open_stream(*service, 6);
  iow_spread_options options{};
  options.placement = IOW_PLACE_BY_LOAD;
  auto spread = create(*stream, make_targets(3), options);
  constexpr uint64_t kEach = 2000;
  std::vector<std::vector<uint64_t>> numbers(4);
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t i = 0; i < kEach; ++i) {
        uint64_t number = 0;
        EXPECT_EQ(append(*stream, *spread, thread * kEach + i, 100 + thread, number), 0);
        numbers[thread].push_back(number);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  ASSERT_EQ(spread->end(false, why), 0) << why;
  EXPECT_GT(std::filesystem::file_size(manifest), 64u << 10);  // so some of it was written before
  std::map<uint64_t, uint64_t> ids;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    EXPECT_TRUE(std::is_sorted(numbers[thread].begin(), numbers[thread].end()));
    for (uint64_t i = 0; i < kEach; ++i) {
      ids[numbers[thread][i]] = thread * kEach + i;
    }
  }
  ASSERT_EQ(ids.size(), 4 * kEach);
  const auto read = open_read(*service, manifest);
  ASSERT_NE(read, nullptr) << why;
  for (const auto& [item, what] : read_all(*read)) {
    const uint64_t id = ids.at(item);
    ASSERT_EQ(what.bytes, content(id, 100 + id / kEach));
  }
  read->close();
}

TEST_F(SpreadTest, IsOnTheDevicesBeforeItsManifestHasItsName) {
#ifdef SYS_rename
  constexpr long kRename = SYS_rename;
#else
  constexpr long kRename = SYS_renameat;
#endif
  const std::vector<std::string> targets = make_targets(2);
  const std::filesystem::path folder = std::filesystem::canonical(dir.path());
  for (const bool durable : {true, false}) {
    SCOPED_TRACE(durable);
    std::filesystem::remove(manifest);
    std::vector<std::string> calls;
    const auto look = [&](const test::WatchedCall& call) {
      if (call.number == kRename) {
        calls.emplace_back("rename");
        return;
      }
      const std::filesystem::path link = "/proc/self/fd/" + std::to_string(call.arguments[0]);
      const auto synced = std::filesystem::read_symlink(link).lexically_relative(folder);
      calls.push_back("sync " + synced.string());
    };
    const auto write = [&] {
      const auto service = open_service(engine::Kind::threads, {});
      const auto stream = open_stream(*service, 4);
      auto spread = create(*stream, targets);
      ASSERT_NE(spread, nullptr) << why;
      uint64_t number = 0;
      ASSERT_EQ(append(*stream, *spread, 0, 8192, number), 0);
      ASSERT_EQ(append(*stream, *spread, 1, 8192, number), 0);
      EXPECT_EQ(spread->end(durable, why), 0) << why;
    };
    if (!test::run_watched({SYS_fsync, SYS_fdatasync, kRename}, look, write)) {
      GTEST_SKIP() << "no notifications of seccomp";
    }
    if (durable) {
      ASSERT_EQ(calls.size(), 8u) << ::testing::PrintToString(calls);
      std::sort(calls.begin(), calls.begin() + 2);      // side by side
      std::sort(calls.begin() + 3, calls.begin() + 6);  // in any order
      EXPECT_EQ(calls, (std::vector<std::string>{"sync 0/manifest.0", "sync 1/manifest.1",
                                                 "sync manifest.part", "sync .", "sync 0", "sync 1",
                                                 "rename", "sync ."}));
    } else {
      EXPECT_EQ(calls, std::vector<std::string>{"rename"});
    }
    EXPECT_TRUE(std::filesystem::exists(manifest));
  }
}

TEST_F(SpreadTest, ThatIsKilledLeavesNoManifest) {
  const std::vector<std::string> targets = make_targets(2);
  const auto write = [&](bool ends) {
    const auto service = open_service(engine::Kind::threads, {});
    const auto stream = open_stream(*service, 4);
    auto spread = create(*stream, targets);
    if (spread == nullptr) {
      return false;
    }
    uint64_t number = 0;
    static_cast<void>(append(*stream, *spread, 0, 9000, number));
    return ends ? spread->end(true, why) == 0 : (::_exit(7), false);
  };
  ASSERT_TRUE(write(true)) << why;
  EXPECT_TRUE(std::filesystem::exists(manifest));
  const pid_t child = ::fork();
  if (child == 0) {
    write(false);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(WEXITSTATUS(status), 7);
  EXPECT_FALSE(std::filesystem::exists(manifest));
  EXPECT_TRUE(std::filesystem::exists(manifest + ".part"));
  ASSERT_TRUE(write(true)) << why;  // what was left over hinders nobody
  EXPECT_TRUE(std::filesystem::exists(manifest));
  EXPECT_FALSE(std::filesystem::exists(manifest + ".part"));
}

TEST_F(SpreadTest, IsEndedBeforeItsStreamOrHasNoManifest) {
  const auto service = open_service(engine::Kind::threads, {});
  const std::vector<std::string> targets = make_targets(2);
  for (const bool closes : {true, false}) {
    const auto stream = open_stream(*service, 4);
    auto spread = create(*stream, targets);
    ASSERT_NE(spread, nullptr) << why;
    uint64_t number = 0;
    ASSERT_EQ(append(*stream, *spread, 0, 9000, number), 0);
    WriteStream::Buffer* buffer = nullptr;
    ASSERT_EQ(stream->lease(buffer, -1), 0);
    if (closes) {
      ASSERT_EQ(stream->close(false, why), 0);
    } else {
      ASSERT_EQ(stream->end(IOW_ALL_FILES, false, why), 0);
      std::string ignored;
      ASSERT_EQ(stream->create(dir.file("other"), {}, ignored),
                0);  // with a number of the spread's
    }
    EXPECT_EQ(spread->append(*buffer, 100, number), -EBADF);
    EXPECT_EQ(spread->end(false, why), -EBADF);
    EXPECT_NE(why.find(manifest), std::string::npos) << why;
    spread.reset();
    EXPECT_FALSE(std::filesystem::exists(manifest));
    EXPECT_FALSE(std::filesystem::exists(manifest + ".part"));
    if (!closes) {
      EXPECT_EQ(stream->flush(0), 0);
      EXPECT_EQ(stream->close(false, why), 0);
    }
  }
}

TEST_F(SpreadTest, RefusesBadTargetsAndManifestsByName) {
  const auto service = open_service(engine::Kind::threads, {});
  const auto stream = open_stream(*service, 4);
  const std::vector<std::string> targets = make_targets(2);
  const auto refuse = [&](const std::vector<std::string>& wanted, int error,
                          const std::string& words, const iow_spread_options& options = {}) {
    EXPECT_EQ(create(*stream, wanted, options), nullptr);
    EXPECT_EQ(last_error, error) << why;
    EXPECT_NE(why.find(words), std::string::npos) << why;
  };
  refuse({dir.file("missing/file")}, -ENOENT, dir.file("missing/file"));
  refuse({dir.file("a"), dir.file("0/../a")}, -EINVAL, "two files");
  refuse({manifest}, -EINVAL, "two files");
  refuse({dir.file("\xFF")}, -EINVAL, "UTF-8");
  const std::ofstream real(dir.file("real"));
  std::filesystem::create_symlink(dir.file("real"), dir.file("link"));
  refuse({dir.file("real"), dir.file("link")}, -EINVAL, "link");
  refuse({"/dev/null"}, -EINVAL, "not a regular file");
  std::ofstream(manifest) << "old";
  iow_spread_options exclusive{};
  exclusive.exclusive = 1;
  refuse(targets, -EEXIST, manifest, exclusive);
  EXPECT_EQ(std::filesystem::file_size(manifest), 3u);
  auto spread = create(*stream, targets);
  ASSERT_NE(spread, nullptr) << why;
  refuse({dir.file("other")}, -EBUSY, manifest);
  const auto another = open_stream(*service, 4);
  WriteStream::Buffer* buffer = nullptr;
  uint64_t number = 0;
  ASSERT_EQ(another->lease(buffer, -1), 0);
  EXPECT_EQ(spread->append(*buffer, 10, number), -EINVAL);
  ASSERT_EQ(stream->lease(buffer, -1), 0);
  EXPECT_EQ(spread->append(*buffer, kBuffer + 1, number), -EINVAL);
  EXPECT_EQ(spread->statistics().items, 0u);
}

/// A manifest that lies with its data names them relative to its folder, and can move with it.
TEST_F(SpreadTest, MovesWithItsFolder) {
  const auto service = open_service(engine::Kind::threads, {});
  std::filesystem::create_directories(dir.file("run/data"));
  const test::TempDir far;
  {
    const auto stream = open_stream(*service, 4);
    int error = 0;
    auto spread =
        Spread::create(*stream, dir.file("run/manifest"),
                       {dir.file("run/data"), far.path(), dir.file("run/single")}, {}, error, why);
    ASSERT_NE(spread, nullptr) << why;
    for (uint64_t i = 0; i < 6; ++i) {
      uint64_t number = 0;
      ASSERT_EQ(append(*stream, *spread, i, 5000, number), 0);
    }
    ASSERT_EQ(spread->end(false, why), 0) << why;
  }
  std::filesystem::rename(dir.file("run"), dir.file("moved"));
  const auto read = open_read(*service, dir.file("moved/manifest"));
  ASSERT_NE(read, nullptr) << why;
  for (const auto& [item, what] : read_all(*read)) {
    EXPECT_EQ(what.error, 0) << what.why;
    EXPECT_EQ(what.bytes, content(item, 5000));
  }
  read->close();
}

}  // namespace
}  // namespace ioweave::stream
