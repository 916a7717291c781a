// Storage I/O in tasks of oneTBB. A service with a single worker thread, which a read of a pipe
// keeps busy, holds all other I/O back until the test says so: what is pending then is no accident.
#include "ioweave/tbb.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include "support/request.hpp"
#include "support/temp_file.hpp"

namespace ioweave::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
namespace arena = ::tbb::this_task_arena;

class TbbTasks : public ::testing::Test {
 protected:
  void SetUp() override {
    iow_options options{};
    options.engine = IOW_ENGINE_THREADS;
    options.threads = 1;
    options.tasks = IOW_TASKS_TBB;
    options.required = 1;
    try {
      opened_.emplace(options);
    } catch (const std::system_error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  void TearDown() override {
    open_gate();
    if (opener_.joinable()) {
      opener_.join();
    }
    opened_.reset();  // before the gate, whose read may still be under way
  }

  Service& service() { return *opened_; }
  [[nodiscard]] iow_task_stats task_stats() {
    iow_task_stats stats{};
    stats.size = sizeof stats;
    EXPECT_EQ(iow_service_task_stats(service().raw(), &stats), 0);
    return stats;
  }

  /// From now on no I/O ends before open_gate().
  void close_gate() {
    held_ = gate_.wait_for_byte();
    held_.callback = [](iow_request*, void*) {};
    iow_request* const one = &held_;
    ASSERT_EQ(iow_submit(service().raw(), &one, 1), 1);
  }
  void open_gate() {
    if (!is_open_.exchange(true)) {
      gate_.open();
    }
  }
  /// Opens the gate from a thread of its own as soon as that holds.
  void open_gate_when(std::function<bool()> holds) {
    opener_ = std::thread([this, holds = std::move(holds)] {
      while (!holds()) {
        std::this_thread::yield();
      }
      open_gate();
    });
  }
  void open_gate_when_bound(uint64_t transfers) {
    open_gate_when([this, transfers] { return task_stats().bound_pending >= transfers; });
  }

  /// A body that starts what is never done at once.
  [[nodiscard]] auto sync_into(ssize_t& result) {
    return
        [this, &result] { EXPECT_EQ(iow_ta_fdatasync(service().raw(), file_.fd(), &result), 0); };
  }

  TempFile file_{4096};
  std::optional<Service> opened_;

 private:
  Gate gate_;
  iow_request held_{};
  std::atomic<bool> is_open_{false};
  std::thread opener_;
};

TEST_F(TbbTasks, RunNextWhenTheirTransfersHaveEnded) {
  const std::vector<std::byte> bytes = pattern(5, 100);
  std::array<ssize_t, 2> results{};
  bool next_ran = false;
  tbb::TaskGroup group;
  close_gate();
  tbb::run_io(
      service(), group,
      [&] {
        sync_into(results[0])();
        EXPECT_EQ(results[0], -EINPROGRESS);
        EXPECT_EQ(iow_ta_pwrite(service().raw(), file_.fd(), bytes.data(), 100, 0, &results[1]), 0);
      },
      [&] {
        EXPECT_EQ(results[0], 0);
        EXPECT_EQ(results[1], 100);
        next_ran = true;
      });
  EXPECT_FALSE(next_ran);
  EXPECT_EQ(results[0], -EINPROGRESS);
  open_gate_when_bound(1);
  group.wait();
  EXPECT_TRUE(next_ran);
}

TEST_F(TbbTasks, RunNextInTheArenaTheyCameFrom) {
  const ::tbb::global_control four(::tbb::global_control::max_allowed_parallelism, 4);
  ::tbb::task_arena three(3);
  ::tbb::task_arena two(2);
  const std::array<::tbb::task_arena*, 2> arenas{&three, &two};
  std::array<std::unique_ptr<tbb::TaskGroup>, 2> groups;
  std::array<std::array<ssize_t, 50>, 2> results{};
  std::atomic<int> right{0};
  close_gate();
  for (size_t i = 0; i < arenas.size(); ++i) {
    arenas[i]->execute([&, i] {
      groups[i] = std::make_unique<tbb::TaskGroup>();
      for (ssize_t& result : results[i]) {
        tbb::run_io(service(), *groups[i], sync_into(result), [&, i] {
          EXPECT_GE(arena::current_thread_index(), 0);
          right += arena::max_concurrency() == (i == 0 ? 3 : 2) ? 1 : 0;
        });
      }
    });
  }
  open_gate_when_bound(100);
  for (size_t i = 0; i < arenas.size(); ++i) {
    arenas[i]->execute([&, i] { groups[i]->wait(); });
  }
  EXPECT_EQ(right, 100);
}

TEST_F(TbbTasks, RunNextAtOnceWhereThePageCacheHasIt) {
  std::vector<std::byte> buffer(1000);
  ssize_t result = 0;
  bool next_ran = false;
  close_gate();
  tbb::TaskGroup group;
  tbb::run_io(
      service(), group,
      [&] { iow_ta_pread(service().raw(), file_.fd(), buffer.data(), 1000, 0, &result); },
      [&] { next_ran = true; });
  if (result == -EINPROGRESS) {
    open_gate();
    group.wait();
    GTEST_SKIP() << "no RWF_NOWAIT on the file system of " << file_.path();
  }
  group.wait();
  EXPECT_TRUE(next_ran);
  EXPECT_EQ(result, 1000);
  EXPECT_EQ(buffer, pattern(0, 1000));
}

TEST_F(TbbTasks, NeedNoTransferAtAll) {
  int ran = 0;
  tbb::TaskGroup group;
  tbb::run_io(
      service(), group, [&] { ++ran; }, [&] { ++ran; });
  group.wait();
  EXPECT_EQ(ran, 2);
}

TEST_F(TbbTasks, MayBePendingByTheTenThousands) {
  constexpr size_t kCount = 10'000;
  std::vector<ssize_t> results(kCount, 1);
  std::atomic<size_t> nexts{0};
  tbb::TaskGroup group;
  close_gate();
  for (ssize_t& result : results) {
    group.run([&] {
      tbb::run_io(service(), group, sync_into(result), [&] {
        EXPECT_EQ(result, 0);
        ++nexts;
      });
    });
  }
  open_gate_when_bound(kCount);
  group.wait();
  EXPECT_EQ(nexts, kCount);
  EXPECT_THAT(results, Each(0));
}

/// Each task waits inside itself for a group of its own.
void run_nested(Service& service, int fd, int count, bool isolated, std::atomic<int>& nexts) {
  ::tbb::task_group outer;
  std::vector<std::array<ssize_t, 3>> results(static_cast<size_t>(count));
  for (auto& own : results) {
    outer.run([&] {
      const auto inner = [&] {
        tbb::TaskGroup group;
        for (ssize_t& result : own) {
          tbb::run_io(
              service, group, [&] { iow_ta_fdatasync(service.raw(), fd, &result); },
              [&] { ++nexts; });
        }
        group.wait();
        EXPECT_THAT(own, Each(0));
      };
      isolated ? arena::isolate(inner) : inner();
    });
  }
  outer.wait();
}

TEST_F(TbbTasks, EndAlsoWhereAllThreadsWaitInsideTasks) {
  const ::tbb::global_control two(::tbb::global_control::max_allowed_parallelism, 2);
  std::atomic<int> nexts{0};
  close_gate();
  open_gate_when_bound(3 * 64);  // every thread took more tasks while it waited in one
  run_nested(service(), file_.fd(), 64, false, nexts);
  EXPECT_EQ(nexts, 3 * 64);
}

TEST_F(TbbTasks, EndAlsoWhereAllThreadsWaitInIsolation) {
  const ::tbb::global_control two(::tbb::global_control::max_allowed_parallelism, 2);
  std::atomic<int> nexts{0};
  close_gate();
  open_gate_when_bound(3);  // what one thread starts before it waits
  run_nested(service(), file_.fd(), 64, true, nexts);
  EXPECT_EQ(nexts, 3 * 64);
}

TEST_F(TbbTasks, EndWithASingleThread) {
  const ::tbb::global_control one(::tbb::global_control::max_allowed_parallelism, 1);
  for (const bool isolated : {false, true}) {
    std::atomic<int> nexts{0};
    run_nested(service(), file_.fd(), 100, isolated, nexts);
    EXPECT_EQ(nexts, 300);
  }
  ::tbb::task_arena alone(1);
  alone.execute([&] {
    std::atomic<int> nexts{0};
    run_nested(service(), file_.fd(), 100, false, nexts);
    EXPECT_EQ(nexts, 300);
  });
}

/// A task whose successor is the next link.
void run_chain(Service& service, tbb::TaskGroup& group, int fd, std::vector<ssize_t>& results,
               size_t at) {
  if (at == results.size()) {
    return;
  }
  tbb::run_io(
      service, group, [&, at] { iow_ta_fdatasync(service.raw(), fd, &results[at]); },
      [&, fd, at] { run_chain(service, group, fd, results, at + 1); });
}

TEST_F(TbbTasks, MayStartFurtherOnesInNext) {
  std::vector<std::vector<ssize_t>> results(8, std::vector<ssize_t>(500, 1));
  tbb::TaskGroup group;
  for (auto& chain : results) {
    run_chain(service(), group, file_.fd(), chain, 0);
  }
  group.wait();
  EXPECT_THAT(results, Each(Each(0)));
}

TEST_F(TbbTasks, MayBeTheBodyOfAParallelLoop) {
  std::vector<ssize_t> results(2000, 1);
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> nexts{0};
    tbb::TaskGroup group;
    ::tbb::parallel_for(size_t{0}, results.size(), [&](size_t i) {
      tbb::run_io(service(), group, sync_into(results[i]), [&] { ++nexts; });
    });
    group.wait();
    EXPECT_EQ(nexts, 2000);
  }
}

TEST_F(TbbTasks, FeedAFlowGraph) {
  constexpr int kCount = 200;
  using Syncs = ::tbb::flow::async_node<int, int>;
  std::vector<ssize_t> results(kCount, 1);
  int ended = 0;
  ::tbb::flow::graph graph;
  tbb::TaskGroup group;
  Syncs syncs(graph, ::tbb::flow::unlimited, [&](int i, Syncs::gateway_type& gateway) {
    gateway.reserve_wait();
    tbb::run_io(service(), group, sync_into(results[static_cast<size_t>(i)]), [i, &gateway] {
      gateway.try_put(i);
      gateway.release_wait();
    });
  });
  ::tbb::flow::function_node<int> counts(graph, ::tbb::flow::serial, [&](int i) {
    EXPECT_EQ(results[static_cast<size_t>(i)], 0);
    ++ended;
  });
  ::tbb::flow::make_edge(syncs, counts);
  for (int i = 0; i < kCount; ++i) {
    syncs.try_put(i);
  }
  graph.wait_for_all();
  group.wait();
  EXPECT_EQ(ended, kCount);
}

// ---- What goes wrong

TEST_F(TbbTasks, EndTheirTransfersWhereTheBodyThrows) {
  ssize_t result = 1;
  bool next_ran = false;
  tbb::TaskGroup group;
  close_gate();
  const auto throwing = [&] {
    sync_into(result)();
    throw std::runtime_error("body");
  };
  EXPECT_THROW(tbb::run_io(service(), group, throwing, [&] { next_ran = true; }),
               std::runtime_error);
  EXPECT_EQ(result, -EINPROGRESS) << "what was thrown did not wait";
  open_gate_when_bound(1);
  group.wait();
  EXPECT_EQ(result, 0) << "but the group did";
  EXPECT_FALSE(next_ran);
}

TEST_F(TbbTasks, EndTheirTransfersWhereATaskThatThrowsCancelsTheGroup) {
  std::array<ssize_t, 20> results{};
  std::atomic<int> nexts{0};
  tbb::TaskGroup group;
  close_gate();
  for (ssize_t& result : results) {
    tbb::run_io(service(), group, sync_into(result), [&] { ++nexts; });
  }
  group.run([] { throw std::runtime_error("task"); });
  open_gate_when_bound(results.size());
  EXPECT_THROW(group.wait(), std::runtime_error);
  EXPECT_THAT(results, Each(0));
  bool ran = false;
  tbb::run_io(service(), group, sync_into(results[0]), [&] { ran = true; });
  group.wait();
  EXPECT_TRUE(ran) << "the group can be used again";
}

TEST_F(TbbTasks, EndTheirTransfersWhereTheGroupIsCancelled) {
  std::array<ssize_t, 20> results{};
  std::atomic<int> nexts{0};
  tbb::TaskGroup group;
  close_gate();
  for (ssize_t& result : results) {
    tbb::run_io(service(), group, sync_into(result), [&] { ++nexts; });
  }
  group.cancel();
  open_gate_when_bound(results.size());
  EXPECT_EQ(group.wait(), ::tbb::canceled);
  EXPECT_THAT(results, Each(0));
  EXPECT_EQ(nexts, 0);
}

TEST_F(TbbTasks, AreCancelledWithTheTaskThatWaitsForThem) {
  ssize_t result = 1;
  bool next_ran = false;
  ::tbb::task_group outer;
  close_gate();
  outer.run([&] {
    tbb::TaskGroup inner;
    tbb::run_io(service(), inner, sync_into(result), [&] { next_ran = true; });
    outer.cancel();
    open_gate_when_bound(1);
    EXPECT_EQ(inner.wait(), ::tbb::canceled);
    EXPECT_EQ(result, 0);
  });
  EXPECT_EQ(outer.wait(), ::tbb::canceled);
  EXPECT_EQ(result, 0);
  EXPECT_FALSE(next_ran);
}

TEST_F(TbbTasks, HandWhatNextThrowsToTheWait) {
  ssize_t result = 1;
  tbb::TaskGroup group;
  tbb::run_io(service(), group, sync_into(result), [] { throw std::runtime_error("next"); });
  EXPECT_THROW(group.wait(), std::runtime_error);
  EXPECT_EQ(result, 0);
}

TEST_F(TbbTasks, EndTheirTransfersWhereNobodyWaitedForTheGroup) {
  ssize_t result = 1;
  close_gate();
  const auto forget_to_wait = [&] {
    tbb::TaskGroup group;
    tbb::run_io(service(), group, sync_into(result), [] {});
    open_gate_when_bound(1);
  };
  EXPECT_THROW(forget_to_wait(), ::tbb::missing_wait);
  EXPECT_EQ(result, 0);
}

TEST_F(TbbTasks, RefuseABodyThatEndsTheTaskItself) {
  bool next_ran = false;
  tbb::TaskGroup group;
  try {
    tbb::run_io(
        service(), group, [&] { EXPECT_EQ(iow_task_end(service().raw()), 0); },
        [&] { next_ran = true; });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::logic_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("let it start transfers only"));
  }
  group.wait();
  EXPECT_FALSE(next_ran);
}

// ---- The blocking form

TEST_F(TbbTasks, PauseInBlockingCallsAndLeaveTheThreadToOthers) {
  const ::tbb::global_control one(::tbb::global_control::max_allowed_parallelism, 1);
  constexpr uint32_t kCount = 200;
  std::atomic<uint32_t> ended{0};
  close_gate();
  open_gate_when([this] { return task_stats().paused == kCount; });  // on one thread
  ::tbb::task_group group;
  for (uint32_t i = 0; i < kCount; ++i) {
    group.run([&] {
      EXPECT_EQ(iow_fdatasync(service().raw(), file_.fd()), 0);
      ++ended;
    });
  }
  group.wait();
  EXPECT_EQ(ended, kCount);
  EXPECT_EQ(task_stats().paused, 0u);
  EXPECT_EQ(task_stats().most_paused, kCount);
}

}  // namespace
}  // namespace ioweave::test
