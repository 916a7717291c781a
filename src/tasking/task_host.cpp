#include "tasking/task_host.hpp"

#include <ctime>

#include <sys/syscall.h>
#include <unistd.h>

namespace ioweave::tasking {

bool TaskPause::sleep_as_thread() noexcept {
  uint32_t expected = kPaused;
  if (!state_.compare_exchange_strong(expected, kWaited, std::memory_order_acq_rel)) {
    return false;
  }
  while (!done()) {
    futex_wait(state_, kWaited, help());  // returns at once if help() caused the end
  }
  return true;
}

void TaskPause::complete() noexcept {
  // Everything is read before the state changes, because the pause may be gone right after. Even if
  // the task sleeps, another unblock may let it see that the pause is done, or the runtime may have
  // refused to put it to sleep.
  TaskHost& host = host_;
  const std::atomic<uint32_t>& word = state_;
  Task task = nullptr;
  uint32_t seen = state_.load(std::memory_order_acquire);  // pairs with sleep_as(): takes task_
  do {
    task = seen == kPaused ? task_ : nullptr;
    // Release publishes the result.
  } while (!state_.compare_exchange_weak(seen, kDone, std::memory_order_acq_rel,
                                         std::memory_order_acquire));
  if (seen == kPaused) {
    host.resume(task);
  } else if (seen == kWaited) {
    futex_wake(word);  // a wake needs its address only
  }
}

void sleep_thread_for(uint64_t ns) noexcept {
  constexpr uint64_t kSecond = 1'000'000'000;
  const timespec time{static_cast<time_t>(ns / kSecond), static_cast<long>(ns % kSecond)};
  syscall(SYS_nanosleep, &time, nullptr);  // nanosleep(3) is a cancellation point
}

void sleep_briefly(TaskHost& host) noexcept {
  constexpr uint64_t kMomentNs = 100'000;
  if (host.current() != nullptr) {
    host.yield_for(kMomentNs);
  } else {
    sleep_thread_for(kMomentNs);
  }
}

void await_zero(const std::atomic<uint32_t>& word, TaskHost& host) noexcept {
  while (const uint32_t value = word.load(std::memory_order_acquire)) {
    if (host.current() != nullptr) {
      sleep_briefly(host);
    } else {
      futex_wait(word, value);
    }
  }
}

std::unique_ptr<TaskHost> open_task_host(HostKind kind, std::string& why) {
  switch (kind) {
    case HostKind::automatic:
    case HostKind::alpi:
      return open_alpi(why);
    case HostKind::tbb:
      return open_tbb(why);
    case HostKind::none:
      break;
  }
  return nullptr;
}

}  // namespace ioweave::tasking
