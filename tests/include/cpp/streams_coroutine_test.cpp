// Leases awaited by coroutines: when they wait, where they go on, and what ends the wait.
#include "ioweave/streams_coroutine.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/resource.h>

#include <gtest/gtest.h>

#include "coroutine_support.hpp"
#include "ioweave/coroutine_task.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::test {
namespace {

iow_write_stream_options one_page(uint32_t buffers, iow_overflow overflow = IOW_OVERFLOW_BLOCK) {
  iow_write_stream_options options{};
  options.buffer_bytes = 4096;
  options.budget_bytes = uint64_t{4096} * buffers;
  options.overflow = overflow;
  return options;
}

class AwaitedLeases : public ::testing::Test {
 protected:
  Queue queue_;
  Service service_;
  TempDir folder_;
};

Foreign take_lease(WriteStream& stream, Queue& queue, std::vector<Lease>& leases, int& error) {
  try {
    leases.push_back(co_await async_lease(stream, queue));
  } catch (const std::system_error& thrown) {
    error = thrown.code().value();
  }
}

TEST_F(AwaitedLeases, ComeWithoutASuspensionWhileThereIsAFreeBuffer) {
  WriteStream stream(service_, one_page(2));
  std::vector<Lease> leases;
  int error = 0;
  take_lease(stream, queue_, leases, error);
  take_lease(stream, queue_, leases, error);
  ASSERT_EQ(leases.size(), 2u);
  EXPECT_EQ(leases[0].data().size(), 4096u);
  EXPECT_NE(leases[0].data().data(), leases[1].data().data());
  EXPECT_EQ(queue_.size(), 0u);
}

TEST_F(AwaitedLeases, ArePostedWhenABufferIsGivenBackAndNeverResumedThere) {
  WriteStream stream(service_, one_page(1));
  std::vector<Lease> leases;
  int error = 0;
  take_lease(stream, queue_, leases, error);
  ASSERT_EQ(leases.size(), 1u);
  take_lease(stream, queue_, leases, error);
  EXPECT_EQ(queue_.size(), 0u);
  leases.clear();
  ASSERT_EQ(queue_.size(), 1u);
  EXPECT_TRUE(leases.empty());
  queue_.run(1);
  EXPECT_EQ(leases.size(), 1u);
  EXPECT_EQ(error, 0);
}

TEST_F(AwaitedLeases, ThrowWhereTheStreamFailsInsteadOfWaiting) {
  WriteStream stream(service_, one_page(1, IOW_OVERFLOW_FAIL));
  std::vector<Lease> leases;
  int error = 0;
  take_lease(stream, queue_, leases, error);
  take_lease(stream, queue_, leases, error);
  EXPECT_EQ(leases.size(), 1u);
  EXPECT_EQ(error, EAGAIN);
  EXPECT_EQ(queue_.size(), 0u);
}

TEST_F(AwaitedLeases, ThrowFileAndOffsetOfAWriteThatFailed) {
  WriteStream stream(service_, one_page(1));
  const int file = stream.create(folder_.file("limited"));
  ::signal(SIGXFSZ, SIG_IGN);
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit small {
    4096, before.rlim_max
  };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  stream.lease().write(file, 4096, 8192);
  std::vector<Lease> leases;
  int error = 0;
  take_lease(stream, queue_, leases, error);
  queue_.run(leases.empty() ? 1 : 0);  // it has the only buffer, so that write has ended
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_EQ(leases.size(), 1u);
  try {
    leases[0].append(file, 4096);
    ADD_FAILURE();
  } catch (const std::system_error& thrown) {
    EXPECT_EQ(thrown.code().value(), EFBIG);
    EXPECT_EQ(thrown.what(),
              "cannot write at offset 8192 of '" + folder_.file("limited") + "': File too large");
  }
}

TEST_F(AwaitedLeases, ThatStillWaitAreCancelledByTheEndOfTheStream) {
  WriteStream stream(service_, one_page(1));
  std::vector<Lease> leases;
  int error = 0;
  take_lease(stream, queue_, leases, error);
  take_lease(stream, queue_, leases, error);
  stream.close();
  ASSERT_EQ(queue_.size(), 1u);
  queue_.run(1);
  EXPECT_EQ(leases.size(), 1u);
  EXPECT_EQ(error, ECANCELED);
}

Foreign write_and_sync(WriteStream& stream, Queue& queue, int file, std::string& said) {
  try {
    stream.append(file, std::vector<std::byte>(100));
    co_await async_flush(stream, queue, file);
    co_await async_sync(stream, queue);
    said = "synced";
  } catch (const StreamError& thrown) {
    said = thrown.what();
  }
}

Foreign flush(WriteStream& stream, Queue& queue, int file, std::string& said) {
  try {
    co_await async_flush(stream, queue, file);
  } catch (const std::system_error& thrown) {
    said = thrown.what();
  }
}

TEST_F(AwaitedLeases, AreFlushedAndSyncedBesideOtherWork) {
  WriteStream stream(service_, one_page(2));
  std::string said;
  write_and_sync(stream, queue_, stream.create(folder_.path() + "/result"), said);
  queue_.run(1);
  EXPECT_EQ(said, "") << "it waits for the sync";
  queue_.run(2);
  EXPECT_EQ(said, "synced");
  EXPECT_GE(stream.stats().syncs, 1u);
}

TEST_F(AwaitedLeases, TellOfAFileThatDoesNotExist) {
  WriteStream stream(service_, one_page(2));
  std::string said;
  flush(stream, queue_, 3, said);
  EXPECT_EQ(said, "write stream: Bad file descriptor");
}

Task<> write_pages(WriteStream& stream, ThreadPoolExecutor& pool, int file, int first, int pages) {
  co_await pool.schedule();
  for (int page = first; page < first + pages; ++page) {
    Lease lease = co_await async_lease(stream, pool);
    std::fill(lease.data().begin(), lease.data().end(), static_cast<std::byte>(page));
    lease.write(file, 4096, off_t{4096} * page);
  }
}

TEST_F(AwaitedLeases, LetMoreCoroutinesWriteThanThereAreBuffers) {
  ThreadPoolExecutor pool(2);
  WriteStream stream(service_, one_page(2));
  const std::string path = folder_.path() + "/pages";
  const int file = stream.create(path);
  std::vector<Task<>> tasks;
  for (int i = 0; i < 10; ++i) {
    tasks.push_back(write_pages(stream, pool, file, i * 20, 20));
  }
  sync_wait(when_all(std::move(tasks)));
  EXPECT_LE(stream.stats().most_in_use, 2u);
  stream.close();
  std::ifstream opened(path, std::ios::binary);
  const std::vector<char> content{std::istreambuf_iterator<char>(opened), {}};
  ASSERT_EQ(content.size(), 200u * 4096);
  for (size_t i = 0; i < content.size(); i += 512) {
    ASSERT_EQ(static_cast<unsigned char>(content[i]), i / 4096) << i;
  }
}

}  // namespace
}  // namespace ioweave::test
