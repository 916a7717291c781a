#pragma once

// What tests of coroutines share: an executor and a coroutine type of somebody's own.

#include <coroutine>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <set>
#include <thread>

namespace ioweave::test {

/// A queue that the test itself works off; remembers who posted. Takes plain handles only, as the
/// executor of somebody's own library would.
class Queue {
 public:
  void post(std::coroutine_handle<> handle) noexcept {
    const std::lock_guard guard(lock_);
    posted_.push_back(handle);
    posters_.insert(std::this_thread::get_id());
    ++posts_;
  }
  /// Resumes what arrives until `wanted` coroutines have been resumed since the beginning.
  void run(size_t wanted) {
    while (resumed_ < wanted) {
      if (const std::coroutine_handle<> handle = take()) {
        ++resumed_;
        handle.resume();
      } else {
        std::this_thread::yield();
      }
    }
  }
  /// Those that wait to be resumed.
  [[nodiscard]] size_t size() {
    const std::lock_guard guard(lock_);
    return posted_.size();
  }
  [[nodiscard]] size_t posts() {
    const std::lock_guard guard(lock_);
    return posts_;
  }
  [[nodiscard]] std::set<std::thread::id> posters() {
    const std::lock_guard guard(lock_);
    return posters_;
  }

 private:
  std::coroutine_handle<> take() {
    const std::lock_guard guard(lock_);
    if (posted_.empty()) {
      return {};
    }
    const std::coroutine_handle<> handle = posted_.front();
    posted_.pop_front();
    return handle;
  }

  std::mutex lock_;
  std::deque<std::coroutine_handle<>> posted_;
  std::set<std::thread::id> posters_;
  size_t posts_ = 0;
  size_t resumed_ = 0;
};
/// A coroutine type that knows nothing of Ioweave: it starts at once and nobody waits for it.
struct Foreign {
  struct promise_type {
    Foreign get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

}  // namespace ioweave::test
