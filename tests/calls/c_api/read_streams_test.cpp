// Read streams in C and C++: every error of read_streams.h, who waits, and who is called.
#include "ioweave/read_streams.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>

#include <gmock/gmock.h>

#include "spread_fixture.hpp"
#include "support/child.hpp"

namespace ioweave::test {
namespace {

using ::testing::HasSubstr;

class ReadStreamInC : public SpreadOnEveryEngine {
 protected:
  static constexpr uint64_t kItem = 5000;

  /// Items of kItem bytes of the pattern from their number on, on two targets.
  void write_items(uint64_t items) {
    ASSERT_EQ(create(folders(2)), 0) << why;
    for (uint64_t i = 0; i < items; ++i) {
      ASSERT_EQ(append(i, kItem), 0);
    }
    ASSERT_EQ(end(), 0) << why;
  }
  /// Two pages in each of so many buffers, as an item needs.
  static iow_read_stream_options buffers(uint64_t count) {
    iow_read_stream_options options{};
    options.size = sizeof options;
    options.buffer_bytes = 8192;
    options.budget_bytes = count * 8192;
    return options;
  }
  [[nodiscard]] iow_read_stream_stats read_stats() const {
    iow_read_stream_stats stats{};
    stats.size = sizeof stats;
    EXPECT_EQ(iow_read_stream_get_stats(read, &stats), 0);
    return stats;
  }
  int open_files(const std::vector<std::string>& files,
                 const iow_read_stream_options* options = nullptr) {
    std::vector<const char*> paths;
    std::transform(files.begin(), files.end(), std::back_inserter(paths),
                   [](const std::string& one) { return one.c_str(); });
    ErrorText text;
    const int error = iow_read_stream_open_files(
        service, &read, paths.data(), static_cast<unsigned>(paths.size()), options, text.out());
    why = text.str();
    EXPECT_EQ(error == 0, read != nullptr);
    return error;
  }
  static bool is_item(const iow_read_lease& lease) {
    const auto* const data = static_cast<const std::byte*>(lease.data);
    const std::vector<std::byte> wanted = pattern(lease.item, kItem);
    return lease.bytes == kItem && std::equal(wanted.begin(), wanted.end(), data);
  }
};
INSTANTIATE_TEST_SUITE_P(, ReadStreamInC, every_engine(), name_of);

// ---- What comes

TEST_P(ReadStreamInC, LeasesSayWhatTheyHold) {
  write_items(3);
  iow_read_stream_options options = buffers(4);
  options.buffer_bytes = 4096;
  ASSERT_EQ(open_read(&options), 0) << why;
  for (uint64_t item = 0; item < 3; ++item) {
    for (const uint64_t offset : {uint64_t{0}, uint64_t{4096}}) {
      iow_read_lease lease{};
      ASSERT_EQ(iow_read_stream_next(read, &lease, kForEver), 1);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(lease.data) % 4096, 0u);
      EXPECT_EQ(lease.item, item);
      EXPECT_EQ(lease.offset, offset);
      EXPECT_EQ(lease.bytes, offset == 0 ? 4096 : kItem - 4096);
      EXPECT_EQ(lease.item_bytes, kItem);
      EXPECT_EQ(static_cast<const std::byte*>(lease.data)[0], pattern(item + offset, 1)[0]);
      std::memset(lease.data, 7, lease.bytes);  // the memory is the program's
      iow_read_lease_end(&lease);
    }
  }
  iow_read_lease none{};
  EXPECT_EQ(iow_read_stream_next(read, &none, kForEver), 0);
  iow_read_lease_end(&none);
  iow_read_lease_end(nullptr);
  const iow_read_stream_stats stats = read_stats();
  EXPECT_EQ(stats.buffers, 8u);
  EXPECT_EQ(stats.buffer_bytes, 4096u);
  EXPECT_EQ(stats.items, 3u);
  EXPECT_EQ(stats.bytes, 3 * kItem);
  EXPECT_EQ(stats.read_bytes, 3 * kItem);
  EXPECT_EQ(stats.largest_item, kItem);
  EXPECT_EQ(stats.reads, 6u);
  close_read();
}

TEST_P(ReadStreamInC, ReadsAheadIntoAllBuffersAndNoFurther) {
  write_items(20);
  const iow_read_stream_options options = buffers(3);
  ASSERT_EQ(open_read(&options), 0) << why;
  while (read_stats().read_bytes != 3 * kItem) {
    std::this_thread::yield();
  }
  EXPECT_EQ(read_stats().reads, 3u);
  iow_read_lease lease{};
  ASSERT_EQ(iow_read_stream_next(read, &lease, 0), 1) << "it is there already";
  EXPECT_TRUE(is_item(lease));
  EXPECT_EQ(read_stats().reads, 3u);
  iow_read_lease_end(&lease);
  EXPECT_EQ(read_stats().reads, 4u);
  close_read();
}

TEST_P(ReadStreamInC, ReadsPastThePageCacheWhereTheFileSystemAllowsIt) {
  const TempFile probe(4096, O_RDWR | O_DIRECT);
  if (probe.fd() < 0) {
    GTEST_SKIP() << "the file system of the temporary directory has no O_DIRECT";
  }
  write_items(4);
  for (const iow_write_path path : {IOW_PATH_AUTO, IOW_PATH_DIRECT, IOW_PATH_BUFFERED}) {
    iow_read_stream_options options = buffers(4);
    options.path = path;
    ASSERT_EQ(open_read(&options), 0) << why;
    std::vector<std::byte> found;
    uint64_t item = 0;
    while (next(found, item) == 1) {
      EXPECT_EQ(found, pattern(item, kItem));
    }
    EXPECT_EQ(read_stats().direct_bytes, path == IOW_PATH_BUFFERED ? 0 : 4 * kItem);
    close_read();
  }
}

TEST_P(ReadStreamInC, DirectRefusesFilesThatHaveNoOtherWay) {
  iow_read_stream_options options{};
  options.path = IOW_PATH_DIRECT;
  EXPECT_EQ(open_files({"/proc/version"}, &options), -EINVAL);
  EXPECT_THAT(why, HasSubstr("use IOW_PATH_AUTO"));
}

// ---- Who waits

TEST_P(ReadStreamInC, AWaitGivesUpInTimeAndNothingIsSkipped) {
  write_items(2);
  const HeldFlow held(service);
  iow_read_stream_options options = buffers(2);
  options.flow = held.flow();
  ASSERT_EQ(open_read(&options), 0) << why;
  iow_read_lease lease{};
  lease.bytes = 7;
  EXPECT_EQ(iow_read_stream_next(read, &lease, 0), -ETIME);
  EXPECT_EQ(lease.bytes, 0u);
  EXPECT_EQ(iow_read_stream_next(read, &lease, kMomentNs), -ETIME);
  EXPECT_EQ(lease.data, nullptr);
  EXPECT_EQ(read_stats().waits, 1u);
  held.let_go();
  for (uint64_t i = 0; i < 2; ++i) {
    ASSERT_EQ(iow_read_stream_next(read, &lease, kForEver), 1);
    EXPECT_EQ(lease.item, i);
    EXPECT_TRUE(is_item(lease));
    iow_read_lease_end(&lease);
  }
  close_read();
}

struct Told {
  std::atomic<int> count{0};
  iow_read_lease lease{};
  int result = 99;
  static void note(iow_read_lease lease, int result, void* user) {
    auto& told = *static_cast<Told*>(user);
    told.lease = lease;
    told.result = result;
    ++told.count;
  }
};

TEST_P(ReadStreamInC, ACallbackIsToldAtOnceOrWhenItIsThere) {
  write_items(2);
  const HeldFlow held(service);
  iow_read_stream_options options = buffers(2);
  options.flow = held.flow();
  ASSERT_EQ(open_read(&options), 0) << why;
  std::array<Told, 3> told;
  for (Told& one : told) {
    ASSERT_EQ(iow_read_stream_next_async(read, &Told::note, &one), 0);
    EXPECT_EQ(one.count, 0);
  }
  EXPECT_EQ(iow_read_stream_next_async(read, nullptr, nullptr), -EINVAL);
  held.let_go();
  for (uint64_t i = 0; i < 2; ++i) {
    await(told[i].count, 1);
    EXPECT_EQ(told[i].result, 1);
    EXPECT_EQ(told[i].lease.item, i);
    EXPECT_TRUE(is_item(told[i].lease));
  }
  await(told[2].count, 1);
  EXPECT_EQ(told[2].result, 0) << "the end";
  EXPECT_EQ(told[2].lease.data, nullptr);
  Told at_once;
  ASSERT_EQ(iow_read_stream_next_async(read, &Told::note, &at_once), 0);
  EXPECT_EQ(at_once.count, 1);
  EXPECT_EQ(at_once.result, 0);
  for (Told& one : told) {
    iow_read_lease_end(&one.lease);
  }
  close_read();
}

/// Nobody calls for the next item once all wait, so the end of a lease must see to it.
TEST_P(ReadStreamInC, MoreMayWaitThanThereAreBuffers) {
  constexpr uint64_t kItems = 100;
  write_items(kItems);
  const iow_read_stream_options options = buffers(1);
  ASSERT_EQ(open_read(&options), 0) << why;
  struct Ended {
    std::atomic<int> count{0};
    std::atomic<int> good{0};
  } ended;
  const auto end_it = [](iow_read_lease lease, int result, void* user) {
    auto& all = *static_cast<Ended*>(user);
    all.good += result == 1 && is_item(lease) ? 1 : 0;
    iow_read_lease_end(&lease);
    ++all.count;
  };
  for (uint64_t i = 0; i <= kItems; ++i) {
    ASSERT_EQ(iow_read_stream_next_async(read, end_it, &ended), 0);
  }
  await(ended.count, kItems + 1);
  EXPECT_EQ(ended.good, static_cast<int>(kItems));
  close_read();
}

TEST_P(ReadStreamInC, CloseCancelsCallbacksAndLeasesOutliveIt) {
  write_items(3);
  const iow_read_stream_options options = buffers(1);
  ASSERT_EQ(open_read(&options), 0) << why;
  iow_read_lease lease{};
  ASSERT_EQ(iow_read_stream_next(read, &lease, kForEver), 1);
  std::array<Told, 2> told;
  for (Told& one : told) {
    ASSERT_EQ(iow_read_stream_next_async(read, &Told::note, &one), 0);
  }
  close_read();
  for (const Told& one : told) {
    EXPECT_EQ(one.count, 1);
    EXPECT_EQ(one.result, -ECANCELED);
    EXPECT_EQ(one.lease.data, nullptr);
  }
  EXPECT_TRUE(is_item(lease));
  iow_read_lease_end(&lease);
  EXPECT_EQ(iow_read_stream_close(nullptr), 0);
}

// ---- Errors

TEST_P(ReadStreamInC, OptionsOutOfRangeAreNamed) {
  write_items(1);
  const auto refuse = [&](const auto& change, const std::string& words) {
    iow_read_stream_options options{};
    change(options);
    EXPECT_EQ(open_read(&options), -EINVAL);
    EXPECT_THAT(why, HasSubstr(words));
    EXPECT_EQ(open_files({manifest}, &options), -EINVAL);
    EXPECT_THAT(why, HasSubstr(words));
  };
  using Options = iow_read_stream_options;
  static constexpr uint32_t kNoPath = 9;
  refuse([](Options& o) { o.size = 2; }, "options.size");
  refuse([](Options& o) { std::memcpy(&o.path, &kNoPath, sizeof o.path); },
         "path must be 0..2, not 9");
  refuse([](Options& o) { o.buffer_bytes = 100; }, "buffer_bytes");
  refuse([](Options& o) { o.buffer_bytes = uint64_t{1} << 40; }, "buffer_bytes");
  refuse([](Options& o) { o.budget_bytes = 100; }, "has no room for a buffer");
  refuse([](Options& o) { o.flow = 7; }, "flow 7");
  ErrorText text;
  EXPECT_EQ(iow_read_stream_open(service, nullptr, "x", nullptr, text.out()), -EINVAL);
  EXPECT_EQ(iow_read_stream_open(nullptr, &read, "x", nullptr, text.out()), -EINVAL);
  EXPECT_EQ(text.str(), "service and stream must not be NULL");
  EXPECT_EQ(iow_read_stream_open(service, &read, nullptr, nullptr, text.out()), -EINVAL);
  EXPECT_EQ(text.str(), "manifest must not be NULL");
}

TEST_P(ReadStreamInC, WhatIsNoCompleteManifestIsRefused) {
  EXPECT_EQ(open_read(), -ENOENT);
  EXPECT_THAT(why, HasSubstr(manifest));
  std::ofstream(manifest) << "{\"ioweave_manifest\":1,\"page\":4096,\"targets\":[\"a\"]}\n";
  EXPECT_EQ(open_read(), -EINVAL);
  EXPECT_THAT(why, HasSubstr("not a complete manifest: line 2 is cut off"));
  std::filesystem::remove(manifest);
  std::filesystem::create_directory(manifest);
  EXPECT_EQ(open_read(), -EINVAL);
  EXPECT_THAT(why, HasSubstr("not a regular file"));
}

TEST_P(ReadStreamInC, FilesAreCheckedWhenTheyAreOpened) {
  EXPECT_EQ(open_files({}), -EINVAL);
  EXPECT_THAT(why, HasSubstr("1..65536 files, not 0"));
  EXPECT_EQ(open_files(std::vector<std::string>(65537, "x")), -EINVAL);
  EXPECT_EQ(open_files({dir.file("missing")}), -ENOENT);
  EXPECT_THAT(why, HasSubstr(dir.file("missing")));
  EXPECT_EQ(open_files({dir.path()}), -EINVAL);
  EXPECT_THAT(why, HasSubstr("not a regular file"));
  ErrorText text;
  const char* none = nullptr;
  EXPECT_EQ(iow_read_stream_open_files(service, &read, &none, 1, nullptr, text.out()), -EINVAL);
  EXPECT_EQ(text.str(), "path 0 must not be NULL");
  EXPECT_EQ(iow_read_stream_open_files(service, &read, nullptr, 1, nullptr, text.out()), -EINVAL);
  std::ofstream(dir.file("one")) << "first";
  std::ofstream(dir.file("two")) << "";
  ASSERT_EQ(open_files({dir.file("one"), dir.file("two"), dir.file("one")}), 0) << why;
  std::vector<std::byte> found;
  uint64_t item = 0;
  for (const size_t bytes : {5u, 0u, 5u}) {
    ASSERT_EQ(next(found, item), 1);
    EXPECT_EQ(found.size(), bytes);
  }
  EXPECT_EQ(next(found, item), 0);
  close_read();
}

TEST_P(ReadStreamInC, WhatIsGoneOrCutOffIsToldAtItsItems) {
  write_items(6);
  std::filesystem::remove(dir.file("0/run.manifest.0"));
  std::filesystem::resize_file(dir.file("1/run.manifest.1"), 2 * 8192 + kItem - 1);
  ASSERT_EQ(open_read(), 0) << why;
  std::vector<std::byte> found;
  uint64_t item = 0;
  for (uint64_t i = 0; i < 6; ++i) {
    const int result = next(found, item);
    EXPECT_EQ(item, i);
    const std::string number = std::to_string(i);
    if (i % 2 == 0) {
      EXPECT_EQ(result, -ENOENT);
      EXPECT_THAT(why, HasSubstr("cannot read item " + number + ": cannot open '"));
      EXPECT_THAT(why, HasSubstr("0/run.manifest.0"));
    } else if (i == 5) {
      EXPECT_EQ(result, -ENODATA);
      EXPECT_THAT(why,
                  HasSubstr("1/run.manifest.1' ends before item 5 does: it wants 5000 bytes at "
                            "offset 16384"));
    } else {
      EXPECT_EQ(result, 1) << why;
      EXPECT_EQ(found, pattern(i, kItem));
    }
  }
  EXPECT_EQ(next(found, item), 0);
  close_read();
}

/// An item that claims more than its file has is one error, however many buffers it would fill.
TEST_P(ReadStreamInC, AnItemOfALyingManifestIsOneError) {
  std::ofstream(dir.file("a")) << "data";
  std::ofstream(manifest) << "{\"ioweave_manifest\":1,\"page\":4096,\"targets\":[\"a\"]}\n"
                          << "[0,0,0,4]\n[1,0,0,9000000000000000000]\n"
                          << "{\"items\":2,\"bytes\":9000000000000000004,\"lost\":0}\n";
  ASSERT_EQ(open_read(), 0) << why;
  EXPECT_LE(read_stats().buffers * read_stats().buffer_bytes, uint64_t{1} << 30);
  std::vector<std::byte> found;
  uint64_t item = 0;
  EXPECT_EQ(next(found, item), 1);
  EXPECT_EQ(next(found, item), -ENODATA);
  EXPECT_EQ(next(found, item), 0);
  close_read();
}

/// Nothing of the memory is touched: the data file is not there.
TEST_P(ReadStreamInC, BuffersThatAreLeftOutFitTheLargestItemAndAGibibyte) {
  constexpr uint64_t kMiB = 1 << 20;
  struct Case {
    uint64_t largest;
    uint64_t given;  ///< buffer_bytes
    uint64_t buffers;
    uint64_t buffer_bytes;
  };
  for (const Case& one : {Case{1024, 0, 8, 4096}, Case{64 * kMiB, 0, 8, 64 * kMiB},
                          Case{200 * kMiB, 0, 5, 200 * kMiB}, Case{600 * kMiB, 0, 2, 512 * kMiB},
                          Case{1024, 300 * kMiB, 3, 300 * kMiB},
                          Case{1024, 768 * kMiB, 2, 768 * kMiB}, Case{1024, 8192, 8, 8192}}) {
    const std::string largest = std::to_string(one.largest);
    SCOPED_TRACE(largest + ", given " + std::to_string(one.given));
    std::ofstream(manifest) << "{\"ioweave_manifest\":1,\"page\":4096,\"targets\":[\"none\"]}\n"
                            << "[0,0,0,1]\n[1,0,4096," << largest << "]\n"
                            << "{\"items\":2,\"bytes\":" << one.largest + 1 << ",\"lost\":0}\n";
    iow_read_stream_options options{};
    options.buffer_bytes = one.given;
    ASSERT_EQ(open_read(&options), 0) << why;
    EXPECT_EQ(read_stats().buffers, one.buffers);
    EXPECT_EQ(read_stats().buffer_bytes, one.buffer_bytes);
    close_read();
  }
}

TEST_P(ReadStreamInC, PathsCanBeKeptToTheFolderOfTheManifest) {
  iow_read_stream_options options{};
  options.relative_only = 1;
  write_items(4);
  ASSERT_EQ(open_read(&options), 0) << why;
  std::vector<std::byte> found;
  uint64_t item = 0;
  EXPECT_EQ(next(found, item), 1) << why;
  EXPECT_EQ(found, pattern(0, kItem));
  close_read();
  // A link within the folder may be followed, none out of it.
  const TempDir far;
  std::filesystem::rename(dir.file("0/run.manifest.0"), dir.file("0/moved"));
  std::filesystem::create_symlink("moved", dir.file("0/run.manifest.0"));
  std::filesystem::rename(dir.file("1/run.manifest.1"), far.file("far"));
  std::filesystem::create_symlink(far.file("far"), dir.file("1/run.manifest.1"));
  ASSERT_EQ(open_read(&options), 0) << why;
  EXPECT_EQ(next(found, item), 1) << why;
  EXPECT_EQ(next(found, item), -EXDEV);
  EXPECT_THAT(why, HasSubstr("which relative_only forbids"));
  close_read();
  ASSERT_EQ(open_read(), 0) << why;
  EXPECT_EQ(next(found, item), 1) << why;
  EXPECT_EQ(next(found, item), 1) << why;
  close_read();
  std::ofstream(manifest)
      << "{\"ioweave_manifest\":1,\"page\":4096,\"targets\":[\"/etc/passwd\"]}\n"
      << "{\"items\":0,\"bytes\":0,\"lost\":0}\n";
  EXPECT_EQ(open_read(&options), -EINVAL);
  EXPECT_THAT(why, HasSubstr("relative_only"));
}

TEST_P(ReadStreamInC, AManifestThatChangesMeanwhileIsTheLastError) {
  std::ofstream(dir.file("a")) << "data";
  std::string text = "{\"ioweave_manifest\":1,\"page\":4096,\"targets\":[\"a\"]}\n";
  for (int i = 0; i < 10'000; ++i) {
    text += "[" + std::to_string(i) + ",0," + std::to_string(i % 3) + ",1]\n";
  }
  std::ofstream(manifest) << text << "{\"items\":10000,\"bytes\":10000,\"lost\":0}\n";
  ASSERT_EQ(open_read(), 0) << why;
  std::filesystem::resize_file(manifest, text.size());
  std::vector<std::byte> found;
  uint64_t item = 0;
  uint64_t items = 0;
  int result = 0;
  while ((result = next(found, item)) == 1) {
    ++items;
  }
  EXPECT_EQ(result, -EINVAL);
  EXPECT_EQ(items, 10'000u);
  EXPECT_THAT(why, HasSubstr("cut off"));
  EXPECT_EQ(next(found, item), 0);
  close_read();
}

TEST_P(ReadStreamInC, ExplainAndStatisticsRefuseWhatTheyCannotFill) {
  write_items(1);
  ASSERT_EQ(open_read(), 0) << why;
  const iow_read_lease lease{};
  ErrorText text;
  EXPECT_EQ(iow_read_stream_explain(read, &lease, -EIO, nullptr), -EINVAL);
  EXPECT_EQ(iow_read_stream_explain(read, nullptr, -EIO, text.out()), -EINVAL);
  EXPECT_EQ(iow_read_stream_explain(read, &lease, -ETIME, text.out()), 0);
  EXPECT_THAT(text.str(), HasSubstr(std::strerror(ETIME)));
  iow_read_stream_stats stats{};
  stats.size = 3;
  EXPECT_EQ(iow_read_stream_get_stats(read, &stats), -EINVAL);
  close_read();
}

TEST_P(ReadStreamInC, InAForkedChildNothingHappens) {
  write_items(2);
  ASSERT_EQ(open_read(), 0) << why;
  iow_read_lease lease{};
  ASSERT_EQ(iow_read_stream_next(read, &lease, kForEver), 1);
  const int status = run_in_child([&] {
    iow_read_lease other{};
    iow_read_stream_stats stats{};
    iow_read_stream* fresh = nullptr;
    ErrorText text;
    const bool refused =
        iow_read_stream_open(service, &fresh, manifest.c_str(), nullptr, nullptr) == -ECANCELED &&
        iow_read_stream_next(read, &other, 0) == -ECANCELED &&
        iow_read_stream_next_async(read, &Told::note, nullptr) == -ECANCELED &&
        iow_read_stream_explain(read, &other, -EIO, text.out()) == -ECANCELED &&
        iow_read_stream_get_stats(read, &stats) == -ECANCELED;
    iow_read_lease_end(&lease);
    return refused && iow_read_stream_close(read) == -ECANCELED ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(is_item(lease));
  iow_read_lease_end(&lease);
  ASSERT_EQ(iow_read_stream_next(read, &lease, kForEver), 1);
  EXPECT_TRUE(is_item(lease));
  iow_read_lease_end(&lease);
  close_read();
}

// ---- C++

TEST(CppReadStream, ReadsFilesAndThrowsWhatFailed) {
  const TempDir dir;
  Service service;
  std::vector<std::filesystem::path> paths{dir.file("a"), dir.file("b")};
  std::ofstream(paths[0]) << "first";
  std::ofstream(paths[1]) << std::string(10'000, 'x');
  ReadStream read(service, paths);
  ReadLease lease = read.next();
  EXPECT_EQ(lease.data().size(), 5u);
  EXPECT_EQ(lease.as<char>()[0], 'f');
  EXPECT_EQ(lease.item(), 0u);
  lease = *read.next_within(std::chrono::seconds(20));
  EXPECT_EQ(lease.item(), 1u);
  EXPECT_EQ(lease.item_bytes(), 10'000u);
  EXPECT_EQ(lease.offset(), 0u);
  EXPECT_FALSE(read.next());
  EXPECT_EQ(read.stats().items, 2u);

  std::ofstream(dir.file("manifest"))
      << "{\"ioweave_manifest\":1,\"page\":1,\"targets\":[\"a\",\"gone\"]}\n"
      << "[0,1,0,5]\n[1,0,0,5]\n{\"items\":2,\"bytes\":10,\"lost\":0}\n";
  ReadStream partly(service, dir.file("manifest"));
  try {
    static_cast<void>(partly.next());
    ADD_FAILURE();
  } catch (const StreamError& error) {
    EXPECT_EQ(error.code().value(), ENOENT);
    EXPECT_THAT(error.what(), HasSubstr("cannot read item 0"));
  }
  EXPECT_EQ(partly.next().data().size(), 5u);
  EXPECT_THROW(ReadStream(service, dir.file("missing")), StreamError);
  EXPECT_THROW(ReadStream(service, std::vector<std::filesystem::path>{}), StreamError);
}

TEST(CppReadStream, AWaitEndsInTime) {
  const TempDir dir;
  Service service;
  const HeldFlow held(service.raw());
  const std::vector<std::filesystem::path> paths{dir.file("a")};
  std::ofstream(paths[0]) << "first";
  iow_read_stream_options options{};
  options.flow = held.flow();
  ReadStream read(service, paths, options);
  EXPECT_FALSE(read.next_within(std::chrono::nanoseconds(0)).has_value());
  held.let_go();
  EXPECT_TRUE(read.next());
}

}  // namespace
}  // namespace ioweave::test
