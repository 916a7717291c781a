// Calls of streams, spreads, plans and tasks by a thread that somebody has cancelled.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <pthread.h>

#include <gmock/gmock.h>

#include "fixture.hpp"
#include "ioweave/plans.h"
#include "ioweave/read_streams.h"
#include "ioweave/spread.h"
#include "ioweave/streams.h"
#include "ioweave/tasks.h"
#include "support/temp_dir.hpp"

namespace ioweave::test {
namespace {

using ::testing::IsEmpty;

/// A body is run by a thread that was cancelled before. A call that asked whether it was would end
/// that thread there, or the program: calls are noexcept. So what the body does besides must not
/// ask either: it looks into no file.
class CancelledCalls : public OnEveryEngine {
 protected:
  void TearDown() override { EXPECT_THAT(surprises_, IsEmpty()); }

  template <typename Body>
  void run_cancelled(Body body) {
    const auto main = [](void* user) -> void* {
      ::pthread_cancel(::pthread_self());
      (*static_cast<Body*>(user))();
      ::pthread_testcancel();
      return nullptr;
    };
    pthread_t thread{};
    void* result = nullptr;
    has_ended_ = false;
    ASSERT_EQ(::pthread_create(&thread, nullptr, main, &body), 0);
    ASSERT_EQ(::pthread_join(thread, &result), 0);
    EXPECT_EQ(result, PTHREAD_CANCELED) << "somebody has taken the cancellation";
    EXPECT_TRUE(has_ended_);
  }
  /// The last of a body.
  void end() { has_ended_ = true; }
  /// What a call returned, which is told by the test's own thread.
  void note(const char* call, int64_t result, int64_t wanted = 0) {
    if (result != wanted) {
      surprises_.push_back(std::string(call) + ": " + std::to_string(result));
    }
  }

  iow_write_stream* open_stream(iow_overflow overflow = IOW_OVERFLOW_BLOCK) {
    iow_write_stream_options options{};
    options.buffer_bytes = kPage;
    options.budget_bytes = 4 * kPage;
    options.overflow = overflow;
    iow_write_stream* stream = nullptr;
    note("iow_write_stream_open", iow_write_stream_open(service, &stream, &options, nullptr));
    return stream;
  }
  iow_lease lease_of(iow_write_stream* stream) {
    iow_lease lease{};
    note("iow_lease_begin", iow_lease_begin(stream, &lease, kForEver));
    std::memset(lease.data, 'x', lease.bytes);
    return lease;
  }
  void end_stream(iow_write_stream* stream) {
    note("iow_write_stream_close", iow_write_stream_close(stream, 1, nullptr));
  }
  /// A spread of so many items of different sizes.
  void write_items(unsigned items) {
    iow_write_stream* const stream = open_stream();
    const std::string second = dir_.file("second");
    const std::array<const char*, 2> targets{dir_.path().c_str(), second.c_str()};
    iow_spread* spread = nullptr;
    note("iow_spread_create", iow_spread_create(stream, &spread, manifest_.c_str(), targets.data(),
                                                2, nullptr, nullptr));
    for (unsigned i = 0; i < items; ++i) {
      iow_lease lease = lease_of(stream);
      note("iow_spread_append", iow_spread_append(&lease, spread, i % 100, nullptr));
    }
    note("iow_spread_copy", iow_spread_copy(spread, "12345", 5, nullptr));
    iow_spread_stats stats{};
    stats.size = sizeof stats;
    note("iow_spread_get_stats", iow_spread_get_stats(spread, &stats));
    note("iow_spread_end", iow_spread_end(spread, 1, nullptr));
    end_stream(stream);
  }
  void read_item(iow_read_stream* stream, int wanted) {
    iow_read_lease lease{};
    note("iow_read_stream_next", iow_read_stream_next(stream, &lease, kForEver), wanted);
    iow_read_lease_end(&lease);
  }
  void end_read(iow_read_stream* stream) {
    iow_read_stream_stats stats{};
    stats.size = sizeof stats;
    note("iow_read_stream_get_stats", iow_read_stream_get_stats(stream, &stats));
    note("iow_read_stream_close", iow_read_stream_close(stream));
  }

  static constexpr uint64_t kPage = 4096;
  /// Their lines are more than a spread keeps in memory, and than a reader of it reads at once.
  static constexpr unsigned kManyItems = 8000;
  TempDir dir_;
  const std::string manifest_ = dir_.file("run.manifest");

 private:
  std::vector<std::string> surprises_;
  bool has_ended_ = false;
};
INSTANTIATE_TEST_SUITE_P(, CancelledCalls, every_engine(), name_of);

TEST_P(CancelledCalls, OfWriteStreamsAreNotEndedThere) {
  run_cancelled([&] {
    for (const iow_overflow overflow : {IOW_OVERFLOW_BLOCK, IOW_OVERFLOW_SYNCHRONOUS}) {
      iow_write_stream* const stream = open_stream(overflow);
      iow_write_file_options options{};
      options.expected_bytes = 100 * kPage;
      const int file =
          iow_write_stream_create(stream, dir_.file("result").c_str(), &options, nullptr);
      note("iow_write_stream_create", file);
      note("of no folder",
           iow_write_stream_create(stream, dir_.file("no/result").c_str(), nullptr, nullptr),
           -ENOENT);
      std::array<iow_lease, 4> leases{};
      for (iow_lease& lease : leases) {
        lease = lease_of(stream);
      }
      iow_lease late{};
      note("iow_lease_begin", iow_lease_begin(stream, &late, 1'000'000), -ETIME);
      std::atomic<int> called{0};
      const auto leased = [](iow_lease lease, void* user) {
        iow_lease_end(&lease);
        ++*static_cast<std::atomic<int>*>(user);
      };
      const auto reached = [](int error, void* user) {
        *static_cast<std::atomic<int>*>(user) += error == 0 ? 1 : 100;
      };
      note("iow_lease_begin_async", iow_lease_begin_async(stream, leased, &called));
      note("iow_lease_append", iow_lease_append(&leases[0], file, kPage));
      note("iow_lease_write", iow_lease_write(&leases[1], file, 100, 50 * kPage));
      iow_lease_end(&leases[2]);
      iow_lease_end(&leases[3]);
      const std::vector<std::byte> content = pattern(0, 10 * kPage + 5);
      note("iow_write_stream_copy",
           iow_write_stream_copy(stream, file, content.data(), content.size(), -1));
      note("iow_write_stream_flush_async",
           iow_write_stream_flush_async(stream, file, reached, &called));
      note("iow_write_stream_sync_async",
           iow_write_stream_sync_async(stream, IOW_ALL_FILES, reached, &called));
      await(called, 3);
      note("callbacks", called, 3);
      note("iow_write_stream_flush", iow_write_stream_flush(stream, file));
      note("iow_write_stream_sync", iow_write_stream_sync(stream, file));
      note("iow_write_stream_error", iow_write_stream_error(stream, IOW_ALL_FILES, nullptr));
      iow_write_stream_stats stats{};
      stats.size = sizeof stats;
      note("iow_write_stream_get_stats", iow_write_stream_get_stats(stream, &stats));
      note("iow_write_stream_end", iow_write_stream_end(stream, file, 1, nullptr));
      note("iow_write_stream_create",
           iow_write_stream_create(stream, dir_.file("last").c_str(), nullptr, nullptr), file);
      end_stream(stream);
    }
    end();
  });
}

TEST_P(CancelledCalls, OfSpreadsAreNotEndedThere) {
  run_cancelled([&] {
    write_items(kManyItems);
    iow_write_stream* const stream = open_stream();
    const char* const target = dir_.path().c_str();
    iow_spread* spread = nullptr;
    note("over the old one",
         iow_spread_create(stream, &spread, manifest_.c_str(), &target, 1, nullptr, nullptr));
    iow_spread_abandon(spread);
    end_stream(stream);
    end();
  });
}

TEST_P(CancelledCalls, OfReadStreamsAreNotEndedThere) {
  write_items(kManyItems);
  const std::string missing = dir_.file("missing");
  run_cancelled([&] {
    iow_read_stream_options options{};
    options.relative_only = 1;
    iow_read_stream* stream = nullptr;
    note("iow_read_stream_open",
         iow_read_stream_open(service, &stream, manifest_.c_str(), &options, nullptr));
    std::atomic<int> called{0};
    const auto done = [](iow_read_lease lease, int, void* user) {
      iow_read_lease_end(&lease);
      ++*static_cast<std::atomic<int>*>(user);
    };
    note("iow_read_stream_next_async", iow_read_stream_next_async(stream, done, &called));
    await(called, 1);
    for (unsigned i = 0; i < kManyItems; ++i) {
      read_item(stream, 1);
    }
    read_item(stream, 0);
    const iow_read_lease none{};
    char* text = nullptr;
    note("iow_read_stream_explain", iow_read_stream_explain(stream, &none, -EIO, &text));
    std::free(text);
    end_read(stream);
    const char* path = manifest_.c_str();
    note("iow_read_stream_open_files",
         iow_read_stream_open_files(service, &stream, &path, 1, nullptr, nullptr));
    read_item(stream, 1);
    end_read(stream);
    path = missing.c_str();
    note("of no file", iow_read_stream_open_files(service, &stream, &path, 1, nullptr, nullptr),
         -ENOENT);
    end();
  });
}

TEST_P(CancelledCalls, OfPlansAreNotEndedThere) {
  const TempFile file(100 * kPage);
  make_old(file.fd());
  const int fd = file.fd();
  run_cancelled([&] {
    for (const iow_plan_schedule schedule : {IOW_PLAN_AUTO, IOW_PLAN_NORMAL, IOW_PLAN_PP}) {
      iow_plan_options options{};
      options.schedule = schedule;
      iow_plan* plan = nullptr;
      note("iow_plan_open", iow_plan_open(service, &plan, &options, nullptr));
      note("iow_plan_add", iow_plan_add(plan, fd, 0, kPage));
      note("iow_plan_add_strided", iow_plan_add_strided(plan, fd, kPage, kPage, kPage, 50));
      const auto next = [](iow_planned_read*, void*) { return 0; };
      note("iow_plan_generate", iow_plan_generate(plan, next, nullptr));
      std::array<std::byte, kPage> bytes{};
      for (int i = 0; i < 40; ++i) {
        note("iow_plan_read", iow_plan_read(plan, fd, bytes.data(), kPage, i * off_t{kPage}),
             kPage);
      }
      iow_plan_lease lease{};
      note("iow_plan_lease_read", iow_plan_lease_read(plan, &lease, fd, kPage, 40 * off_t{kPage}),
           kPage);
      iow_plan_lease_end(plan, &lease);
      note("iow_plan_write", iow_plan_write(plan, fd, bytes.data(), kPage, 60 * off_t{kPage}),
           kPage);
      note("iow_plan_invalidate", iow_plan_invalidate(plan, fd, 0, 0));
      note("iow_plan_forget", iow_plan_forget(plan, fd));
      iow_plan_stats stats{};
      stats.size = sizeof stats;
      note("iow_plan_get_stats", iow_plan_get_stats(plan, &stats));
      iow_plan_close(plan);
    }
    end();
  });
}

TEST_P(CancelledCalls, OfTasksAreNotEndedThere) {
  const TempFile file(100);
  const int fd = file.fd();
  run_cancelled([&] {
    static_cast<void>(iow_service_tasks(service, nullptr));
    std::atomic<int> called{0};
    const auto done = [](void* user) { ++*static_cast<std::atomic<int>*>(user); };
    std::array<std::byte, 16> bytes{};
    const iovec vector{bytes.data(), bytes.size()};
    std::array<ssize_t, 6> results{};
    note("iow_task_begin", iow_task_begin(service, done, &called));
    note("iow_ta_pread", iow_ta_pread(service, fd, bytes.data(), 16, 0, &results[0]));
    note("iow_ta_pwrite", iow_ta_pwrite(service, fd, bytes.data(), 16, 32, &results[1]));
    note("iow_ta_preadv", iow_ta_preadv(service, fd, &vector, 1, 0, &results[2]));
    note("iow_ta_pwritev", iow_ta_pwritev(service, fd, &vector, 1, 64, &results[3]));
    note("iow_ta_fsync", iow_ta_fsync(service, fd, &results[4]));
    note("iow_ta_fdatasync", iow_ta_fdatasync(service, fd, &results[5]));
    note("iow_task_end", iow_task_end(service));
    await(called, 1);
    iow_task_stats stats{};
    stats.size = sizeof stats;
    note("iow_service_task_stats", iow_service_task_stats(service, &stats));
    end();
  });
}

}  // namespace
}  // namespace ioweave::test
