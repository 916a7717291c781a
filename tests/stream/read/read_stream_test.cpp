// Read streams over back ends and files that misbehave.
#include "stream/read/read_stream.hpp"

#include <atomic>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include <sys/stat.h>

#include "spread_fixture.hpp"

namespace ioweave::stream {
namespace {

class ReadStreamTest : public SpreadFixture, public ::testing::Test {
 protected:
  /// Items of 4096 * (1..3) + 100 bytes on three targets.
  void write_items(uint64_t items) {
    const auto service = open_service(engine::Kind::threads, {});
    const auto stream = open_stream(*service, 6);
    int error = 0;
    auto spread = Spread::create(*stream, manifest, make_targets(3), {}, error, why);
    ASSERT_NE(spread, nullptr) << why;
    for (uint64_t i = 0; i < items; ++i) {
      uint64_t number = 0;
      ASSERT_EQ(append(*stream, *spread, i, size_of(i), number), 0);
    }
    ASSERT_EQ(spread->end(false, why), 0) << why;
  }
  static uint64_t size_of(uint64_t item) { return 4096 * (1 + item % 3) + 100; }

  ReadStream::Owner open_files(service::Service& on, const std::vector<std::string>& paths,
                               uint64_t buffer_bytes, uint32_t buffers,
                               iow_write_path path = IOW_PATH_AUTO) {
    std::vector<std::unique_ptr<SourceTarget>> targets;
    std::vector<uint64_t> sizes;
    for (const std::string& one : paths) {
      auto& target = *targets.emplace_back(std::make_unique<SourceTarget>());
      EXPECT_EQ(target.file.open(one, path, why), 0) << why;
      sizes.push_back(target.file.bytes());
    }
    ReadStreamOptions options;
    options.buffer_bytes = buffer_bytes;
    options.buffers = buffers;
    return ReadStream::open(on, std::make_unique<FileList>(paths, sizes), std::move(targets),
                            options);
  }
  static void end(const iow_read_lease& lease) {
    ReadStream::end_lease(*static_cast<ReadStream::Buffer*>(lease.internal[0]));
  }
};

TEST_F(ReadStreamTest, ReadsPlainFilesBlockByBlock) {
  std::vector<std::string> paths;
  std::vector<std::vector<std::byte>> contents;
  std::mt19937_64 random(1);
  for (uint64_t i = 0; i < 12; ++i) {
    paths.push_back(dir.file("file" + std::to_string(i)));
    contents.push_back(content(i, i == 5 ? 0 : random() % 100'000));
    std::ofstream(paths.back(), std::ios::binary)
        .write(reinterpret_cast<const char*>(contents.back().data()),
               static_cast<std::streamsize>(contents.back().size()));
  }
  const auto service = open_service(engine::Kind::uring, {});
  for (const iow_write_path path : {IOW_PATH_AUTO, IOW_PATH_BUFFERED}) {
    for (const uint32_t buffers : {1u, 3u, 20u}) {
      const auto read = open_files(*service, paths, 8192, buffers, path);
      const auto found = read_all(*read);
      ASSERT_EQ(found.size(), paths.size());
      for (const auto& [item, what] : found) {
        EXPECT_EQ(what.bytes, contents[item]) << item;
      }
      EXPECT_LE(read->statistics().most_reading, buffers);
      read->close();
    }
  }
}

/// Who closes may free what a callback uses.
TEST_F(ReadStreamTest, CloseReturnsBehindTheLastCallback) {
  write_items(20);
  struct Told {
    std::atomic<int> begun{0};
    std::atomic<int> ended{0};
  };
  for (int i = 0; i < 20; ++i) {
    const auto service = open_service(engine::Kind::threads, {});
    const auto read = open_read(*service, manifest);
    Told told;
    const iow_read_done done = [](iow_read_lease lease, int, void* user) {
      Told& of = *static_cast<Told*>(user);
      ++of.begun;
      ::usleep(5000);
      if (lease.internal[0] != nullptr) {
        end(lease);
      }
      ++of.ended;
    };
    int asked = 0;
    while (asked < 8 && read->next_async(done, &told) == 0) {
      ++asked;
    }
    read->close();
    EXPECT_EQ(told.begun, told.ended);
  }
}

/// Each item of the target is tried, and each tells its error once; the others are there.
TEST_F(ReadStreamTest, AnErrorOfOneTargetIsToldAtItsItems) {
  write_items(40);
  for (uint64_t spared = 0; spared < 14; ++spared) {
    test::FaultOptions failing;
    failing.seed = 1;
    failing.io_error = 1;
    failing.only_below = std::filesystem::canonical(dir.file("2"));
    failing.spared = spared;
    failing.delay = 0.3;
    failing.reorder = true;
    const auto service = open_service(engine::Kind::threads, failing);
    const auto read = open_read(*service, manifest);
    uint64_t failed = 0;
    const auto found = read_all(*read);
    EXPECT_EQ(found.size(), 40u);
    for (const auto& [item, what] : found) {
      if (what.error == 0) {
        EXPECT_EQ(what.bytes, content(item, size_of(item)));
        continue;
      }
      ++failed;
      EXPECT_EQ(what.error, -EIO);
      EXPECT_EQ(item % 3, 2u);
      EXPECT_NE(what.why.find(dir.file("2")), std::string::npos) << what.why;
      EXPECT_NE(what.why.find("item " + std::to_string(item) + " "), std::string::npos);
    }
    EXPECT_EQ(failed, spared >= 13 ? 0 : 13 - spared);
    read->close();
  }
}

TEST_F(ReadStreamTest, FilesThatAreGoneOrTooShortAreErrorsOfTheirItems) {
  write_items(12);
  std::filesystem::remove(dir.file("0/manifest.0"));
  std::filesystem::resize_file(dir.file("1/manifest.1"), 12'000);
  const auto service = open_service(engine::Kind::threads, {});
  const auto read = open_read(*service, manifest);
  const auto found = read_all(*read);
  ASSERT_EQ(found.size(), 12u);
  for (const auto& [item, what] : found) {
    if (item % 3 == 0) {
      EXPECT_EQ(what.error, -ENOENT);
      EXPECT_NE(what.why.find(dir.file("0/manifest.0")), std::string::npos) << what.why;
    } else if (item % 3 == 1 && item != 1) {
      EXPECT_EQ(what.error, -ENODATA);
      EXPECT_NE(what.why.find(dir.file("1/manifest.1") + "' ends before item"), std::string::npos)
          << what.why;
    } else {
      EXPECT_EQ(what.error, 0) << what.why;
      EXPECT_EQ(what.bytes, content(item, size_of(item)));
    }
  }
  read->close();
}

TEST_F(ReadStreamTest, WhatBecameAnotherKindOfFileIsAnErrorOfItsItems) {
  write_items(3);
  for (const auto& [target, put_there] :
       std::map<std::string, std::function<void(const std::string&)>>{
           {"0/manifest.0",
            [](const std::string& path) { std::filesystem::create_directory(path); }},
           {"1/manifest.1", [](const std::string& path) { ::mkfifo(path.c_str(), 0600); }},
           {"2/manifest.2",
            [](const std::string& path) { std::filesystem::create_symlink("/dev/zero", path); }}}) {
    std::filesystem::remove(dir.file(target));
    put_there(dir.file(target));
  }
  const auto service = open_service(engine::Kind::threads, {});
  const auto read = open_read(*service, manifest);
  ASSERT_NE(read, nullptr) << why;
  const auto found = read_all(*read);
  EXPECT_EQ(found.size(), 3u);
  for (const auto& [item, what] : found) {
    EXPECT_EQ(what.error, -EINVAL);
    EXPECT_NE(what.why.find("not a regular file"), std::string::npos) << what.why;
  }
  read->close();
}

TEST_F(ReadStreamTest, PassingFaultsNeverShow) {
  write_items(60);
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::FaultOptions passing;
    passing.seed = seed;
    passing.short_transfer = 0.4;
    passing.interrupted = 0.1;
    passing.again = 0.1;
    passing.cancelled = 0.1;
    passing.delay = 0.2;
    passing.reorder = true;
    const auto service =
        open_service(seed % 2 == 0 ? engine::Kind::threads : engine::Kind::uring, passing);
    const auto read = open_read(*service, manifest);
    const auto found = read_all(*read);
    ASSERT_EQ(found.size(), 60u);
    for (const auto& [item, what] : found) {
      EXPECT_EQ(what.error, 0) << what.why;
      EXPECT_EQ(what.bytes, content(item, size_of(item)));
    }
    read->close();
  }
}

/// Of several threads each item goes to one of them, whether they wait, give up or leave a
/// callback.
TEST_F(ReadStreamTest, NobodyIsLeftWaitingAndNothingComesTwice) {
  write_items(300);
  test::FaultOptions slow;
  slow.seed = 3;
  slow.delay = 0.5;
  slow.reorder = true;
  slow.io_error = 0.02;
  const auto service = open_service(engine::Kind::threads, slow);
  const auto read = open_read(*service, manifest, kBuffer, 7);
  std::mutex lock;
  std::multiset<uint64_t> seen;
  const auto note = [&](const iow_read_lease& lease, int result) {
    if (result == 1) {
      const auto* const data = static_cast<const std::byte*>(lease.data);
      const std::vector<std::byte> wanted = content(lease.item, size_of(lease.item));
      EXPECT_TRUE(lease.bytes == wanted.size() && std::equal(wanted.begin(), wanted.end(), data));
      end(lease);
    } else {
      EXPECT_EQ(result, -EIO);
    }
    const std::lock_guard guard(lock);
    seen.insert(lease.item);
  };
  struct Callback {
    const decltype(note)& told;
    std::atomic<bool> has_run{false};
    std::atomic<bool> is_end{false};
  };
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937 random(thread);
      for (bool ended = false; !ended;) {
        if (random() % 4 == 0) {
          Callback callback{note};
          ASSERT_EQ(read->next_async(
                        [](iow_read_lease lease, int result, void* user) {
                          auto& called = *static_cast<Callback*>(user);
                          called.is_end = result == 0;
                          if (result != 0) {
                            called.told(lease, result);
                          }
                          called.has_run = true;
                          called.has_run.notify_one();
                        },
                        &callback),
                    0);
          callback.has_run.wait(false);
          ended = callback.is_end;
          continue;
        }
        iow_read_lease lease{};
        const int result = read->next(lease, random() % 3 == 0 ? 20'000 : -1);
        ended = result == 0;
        if (result != 0 && result != -ETIME) {
          note(lease, result);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(seen.size(), 300u);
  EXPECT_EQ(std::set<uint64_t>(seen.begin(), seen.end()).size(), 300u);
  read->close();
}

TEST_F(ReadStreamTest, CloseTellsCallbacksAndLeavesLeasesUsable) {
  write_items(5);
  const auto service = open_service(engine::Kind::threads, {});
  auto read = open_read(*service, manifest, kBuffer, 1);
  iow_read_lease lease{};
  ASSERT_EQ(read->next(lease, -1), 1);
  int told = 1;
  ASSERT_EQ(read->next_async(
                [](iow_read_lease none, int result, void* user) {
                  EXPECT_EQ(none.data, nullptr);
                  *static_cast<int*>(user) = result;
                },
                &told),
            0);
  EXPECT_EQ(told, 1);
  iow_read_lease other{};
  EXPECT_EQ(read->next(other, 0), -ETIME);
  read->close();
  EXPECT_EQ(told, -ECANCELED);
  read.reset();
  const auto* const data = static_cast<const std::byte*>(lease.data);
  EXPECT_TRUE(std::equal(data, data + lease.bytes, content(0, size_of(0)).begin()));
  end(lease);
}

TEST_F(ReadStreamTest, ManifestThatChangesMeanwhileIsTheLastError) {
  std::ofstream(dir.file("data")) << std::string(100, 'x');
  std::string text = R"({"ioweave_manifest":1,"page":1,"targets":["data"]})"
                     "\n";
  for (int i = 0; i < 10'000; ++i) {
    text += "[" + std::to_string(i) + ",0," + std::to_string(i % 90) + ",10]\n";
  }
  std::ofstream(manifest) << text << "{\"items\":10000,\"bytes\":100000,\"lost\":0}\n";
  const auto service = open_service(engine::Kind::threads, {});
  const auto read = open_read(*service, manifest);
  ASSERT_NE(read, nullptr) << why;
  std::filesystem::resize_file(manifest, text.size() - 100);
  const auto found = read_all(*read);
  const auto& [item, last] = *found.rbegin();
  EXPECT_EQ(last.error, -EINVAL);
  EXPECT_NE(last.why.find("cut off"), std::string::npos) << last.why;
  EXPECT_EQ(found.size(), item + 1);
  EXPECT_EQ(found.at(7).bytes, std::vector<std::byte>(10, std::byte{'x'}));
  read->close();
}

}  // namespace
}  // namespace ioweave::stream
