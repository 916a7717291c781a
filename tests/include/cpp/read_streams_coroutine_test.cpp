// Items awaited by coroutines: when they wait, where they go on, and what ends the wait.
#include "ioweave/read_streams_coroutine.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "coroutine_support.hpp"
#include "ioweave/coroutine_task.hpp"
#include "ioweave/spread.hpp"
#include "ioweave/streams_coroutine.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::test {
namespace {

iow_read_stream_options one_page(uint32_t buffers) {
  iow_read_stream_options options{};
  options.buffer_bytes = 4096;
  options.budget_bytes = uint64_t{4096} * buffers;
  return options;
}

class AwaitedItems : public ::testing::Test {
 protected:
  /// So many files, each of which holds its number a hundred times.
  std::vector<std::filesystem::path> write_files(int count) {
    std::vector<std::filesystem::path> paths;
    for (int i = 0; i < count; ++i) {
      paths.push_back(folder_.file(std::to_string(i)));
      std::ofstream(paths.back()) << std::string(100, static_cast<char>(i));
    }
    return paths;
  }
  static void await_reads(const ReadStream& stream, uint64_t reads) {
    while (stream.stats().read_bytes != reads * 100) {
      std::this_thread::yield();
    }
  }

  Queue queue_;
  Service service_;
  TempDir folder_;
};

struct Taken {
  std::vector<ReadLease> leases;
  int ends = 0;
  std::string said;
};

Foreign take_next(ReadStream& stream, Queue& queue, Taken& taken) {
  try {
    if (ReadLease lease = co_await async_next(stream, queue)) {
      taken.leases.push_back(std::move(lease));
    } else {
      ++taken.ends;
    }
  } catch (const std::system_error& thrown) {
    taken.said = thrown.what();
  }
}

TEST_F(AwaitedItems, ComeWithoutASuspensionOnceTheyWereRead) {
  ReadStream stream(service_, write_files(2), one_page(2));
  await_reads(stream, 2);
  Taken taken;
  for (int i = 0; i < 3; ++i) {
    take_next(stream, queue_, taken);
  }
  ASSERT_EQ(taken.leases.size(), 2u);
  EXPECT_EQ(taken.leases[1].data()[0], std::byte{1});
  EXPECT_EQ(taken.ends, 1);
  EXPECT_EQ(queue_.posts(), 0u);
}

TEST_F(AwaitedItems, ArePostedWhenTheyWereReadAndNeverResumedThere) {
  ReadStream stream(service_, write_files(3), one_page(1));
  await_reads(stream, 1);
  Taken taken;
  for (int i = 0; i < 4; ++i) {
    take_next(stream, queue_, taken);
  }
  ASSERT_EQ(taken.leases.size(), 1u);
  EXPECT_EQ(queue_.size(), 0u) << "the only buffer is leased";
  for (size_t i = 1; i <= 2; ++i) {
    taken.leases.pop_back();  // its end lets the next item be read
    queue_.run(i);
    ASSERT_EQ(taken.leases.size(), 1u);
    EXPECT_EQ(taken.leases[0].item(), i);
    EXPECT_EQ(taken.leases[0].data()[0], static_cast<std::byte>(i));
  }
  taken.leases.clear();
  queue_.run(3);
  EXPECT_EQ(taken.ends, 1);
}

TEST_F(AwaitedItems, ThatCannotBeReadThrowAndTheNextOnesFollow) {
  std::ofstream(folder_.file("there")) << "data";
  std::ofstream(folder_.file("manifest"))
      << "{\"ioweave_manifest\":1,\"page\":1,\"targets\":[\"gone\",\"there\"]}\n"
      << "[0,0,0,4]\n[1,1,0,4]\n{\"items\":2,\"bytes\":8,\"lost\":0}\n";
  ReadStream stream(service_, folder_.file("manifest"), one_page(2));
  Taken taken;
  take_next(stream, queue_, taken);
  EXPECT_EQ(taken.said, "cannot read item 0: cannot open '" + folder_.file("gone") +
                            "': No such file or directory");
  take_next(stream, queue_, taken);
  if (taken.leases.empty()) {
    queue_.run(1);
  }
  EXPECT_EQ(taken.leases[0].item(), 1u);
}

TEST_F(AwaitedItems, ThatStillWaitAreCancelledByTheEndOfTheStream) {
  std::optional<ReadStream> stream(std::in_place, service_, write_files(2), one_page(1));
  await_reads(*stream, 1);
  Taken taken;
  take_next(*stream, queue_, taken);
  take_next(*stream, queue_, taken);
  stream.reset();
  ASSERT_EQ(queue_.size(), 1u);
  queue_.run(1);
  EXPECT_EQ(taken.leases.size(), 1u);
  EXPECT_EQ(taken.said, "async_next: Operation canceled");
}

Task<> append_items(WriteStream& stream, Spread& spread, ThreadPoolExecutor& pool, int items) {
  co_await pool.schedule();
  for (int i = 0; i < items; ++i) {
    Lease lease = co_await async_lease(stream, pool);
    std::fill(lease.data().begin(), lease.data().end(), static_cast<std::byte>(i));
    spread.append(std::move(lease), 1000);
  }
}

Task<> count_items(ReadStream& stream, ThreadPoolExecutor& pool, std::vector<int>& found,
                   std::mutex& lock) {
  co_await pool.schedule();
  while (const ReadLease lease = co_await async_next(stream, pool)) {
    const std::lock_guard guard(lock);
    ++found[static_cast<size_t>(lease.data()[999])];
  }
}

TEST_F(AwaitedItems, GoToManyCoroutinesAfterManyHaveWrittenThem) {
  ThreadPoolExecutor pool(2);
  iow_write_stream_options options{};
  options.buffer_bytes = 4096;
  options.budget_bytes = 2 * 4096;
  WriteStream stream(service_, options);
  Spread spread(stream, folder_.file("manifest"), {folder_.file("a"), folder_.file("b")});
  std::vector<Task<>> tasks;
  for (int i = 0; i < 10; ++i) {
    tasks.push_back(append_items(stream, spread, pool, 30));
  }
  sync_wait(when_all(std::move(tasks)));
  spread.end(false);
  ReadStream results(service_, folder_.file("manifest"), one_page(3));
  std::mutex lock;
  std::vector<int> found(256);
  std::vector<Task<>> readers;
  for (int i = 0; i < 10; ++i) {
    readers.push_back(count_items(results, pool, found, lock));
  }
  sync_wait(when_all(std::move(readers)));
  for (size_t value = 0; value < found.size(); ++value) {
    EXPECT_EQ(found[value], value < 30 ? 10 : 0) << value;
  }
}

}  // namespace
}  // namespace ioweave::test
