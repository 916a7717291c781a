// The Task, the pool and the ways to wait that come with the awaitables.
#include "ioweave/coroutine_task.hpp"

#include <atomic>
#include <coroutine>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

namespace ioweave::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Task<int> number(int value) {
  co_return value;
}

Task<int> sum_to(int last) {
  if (last == 0) {
    co_return 0;
  }
  const int rest = co_await sum_to(last - 1);
  co_return rest + co_await number(last);
}

TEST(CoroutineTask, GivesTheValueOfNestedTasks) {
  EXPECT_EQ(sync_wait(sum_to(100)), 5050);
}

Task<std::unique_ptr<int>> owned_number(int value) {
  co_return std::make_unique<int>(value);
}

TEST(CoroutineTask, GivesWhatCanOnlyBeMoved) {
  EXPECT_EQ(*sync_wait(owned_number(7)), 7);
}

Task<int> throwing(ThreadPoolExecutor& pool, std::string text) {
  co_await pool.schedule();
  throw std::runtime_error(text);
}

Task<int> catching(ThreadPoolExecutor& pool) {
  try {
    co_return co_await throwing(pool, "inner");
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("inner"));
  }
  co_return co_await throwing(pool, "outer");
}

TEST(CoroutineTask, HandsExceptionsToWhoAwaits) {
  ThreadPoolExecutor pool(1);
  EXPECT_THROW(sync_wait(catching(pool)), std::runtime_error);
}

Task<> set(bool& started) {
  started = true;
  co_return;
}

TEST(CoroutineTask, DoesNothingUntilAwaited) {
  bool started = false;
  { const Task<> never = set(started); }
  EXPECT_FALSE(started);
  Task<> later = set(started);
  Task<> moved = std::move(later);
  later = std::move(moved);
  sync_wait(std::move(later));
  EXPECT_TRUE(started);
}

Task<> count_on(ThreadPoolExecutor& pool, std::atomic<int>& count) {
  for (int i = 0; i < 100; ++i) {
    co_await pool.schedule();
    ++count;
  }
}

TEST(CoroutineWhenAll, EndsWhenAllTasksHave) {
  std::atomic<int> count{0};
  ThreadPoolExecutor pool(4);
  for (int round = 1; round <= 20; ++round) {
    std::vector<Task<>> tasks;
    for (int i = 0; i < 50; ++i) {
      tasks.push_back(count_on(pool, count));
    }
    sync_wait(when_all(std::move(tasks)));
    EXPECT_EQ(count, round * 5000);
  }
  sync_wait(when_all({}));
}

Task<> fail_after(ThreadPoolExecutor& pool, std::atomic<int>& count, std::string text) {
  co_await count_on(pool, count);
  throw std::runtime_error(text);
}

TEST(CoroutineWhenAll, ThrowsTheFirstErrorAfterAllHaveEnded) {
  std::atomic<int> count{0};
  ThreadPoolExecutor pool(2);
  std::vector<Task<>> tasks;
  tasks.push_back(count_on(pool, count));
  tasks.push_back(fail_after(pool, count, "second"));
  tasks.push_back(fail_after(pool, count, "third"));
  try {
    sync_wait(when_all(std::move(tasks)));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "second");
  }
  EXPECT_EQ(count, 300);
}

TEST(CoroutinePool, RefusesToHaveNoThreads) {
  try {
    const ThreadPoolExecutor none(0);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("ask for 1 or more"));
  }
}

Task<> note_order(ThreadPoolExecutor& pool, std::vector<int>& order, int first) {
  co_await pool.schedule();
  order.push_back(first);
  co_await pool.schedule();
  order.push_back(first + 1);
}

Task<> start_two(ThreadPoolExecutor& pool, std::vector<int>& order) {
  co_await pool.schedule();  // the only thread: neither of the two can start before both are posted
  std::vector<Task<>> tasks;
  tasks.push_back(note_order(pool, order, 10));
  tasks.push_back(note_order(pool, order, 20));
  co_await when_all(std::move(tasks));
}

TEST(CoroutinePool, ResumesInTheOrderOfPosting) {
  ThreadPoolExecutor pool(1);
  std::vector<int> order;
  sync_wait(start_two(pool, order));
  EXPECT_THAT(order, ElementsAre(10, 20, 11, 21));
}

/// Posts the plain handle, as a library that knows nothing of Resumption does.
struct PostHandle {
  ThreadPoolExecutor& pool;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> awaiting) const noexcept { pool.post(awaiting); }
  void await_resume() const noexcept {}
};

Task<> post_handles(ThreadPoolExecutor& pool, std::atomic<int>& count) {
  const std::thread::id caller = std::this_thread::get_id();
  co_await PostHandle{pool};
  EXPECT_NE(std::this_thread::get_id(), caller);
  for (int i = 0; i < 100; ++i) {
    co_await PostHandle{pool};
    ++count;
  }
}

TEST(CoroutinePool, TakesPlainHandlesToo) {
  ThreadPoolExecutor pool(2);
  std::atomic<int> count{0};
  sync_wait(post_handles(pool, count));
  EXPECT_EQ(count, 100);
}

TEST(CoroutinePool, WakesAsManyThreadsAsThereIsWorkFor) {
  // Two coroutines that wait for each other inside their threads: one thread would never end.
  ThreadPoolExecutor pool(2);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> here{0};
    const auto meet = [](ThreadPoolExecutor& on, std::atomic<int>& met) -> Task<> {
      co_await on.schedule();
      ++met;
      while (met < 2) {
        std::this_thread::yield();
      }
    };
    std::vector<Task<>> tasks;
    tasks.push_back(meet(pool, here));
    tasks.push_back(meet(pool, here));
    sync_wait(when_all(std::move(tasks)));
    EXPECT_EQ(here, 2);
  }
}

}  // namespace
}  // namespace ioweave::test
