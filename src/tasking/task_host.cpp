#include "tasking/task_host.hpp"

#include <ctime>

namespace ioweave::tasking {

bool TaskPause::sleep_as_thread() noexcept {
  uint32_t expected = kPaused;
  if (!state_.compare_exchange_strong(expected, kWaited, std::memory_order_acq_rel)) {
    return false;
  }
  while (!done()) {
    futex_wait(state_, kWaited);
  }
  return true;
}

void TaskPause::complete() noexcept {
  TaskHost& host = host_;  // read first: the pause may be gone right after the exchange
  const std::atomic<uint32_t>& word = state_;
  // Release publishes the result; acquire takes task_ where the task sleeps.
  switch (state_.exchange(kDone, std::memory_order_acq_rel)) {
    case kPaused:
      host.resume(task_);  // the task sleeps until this call: the pause is still there
      break;
    case kWaited:
      futex_wake(word);  // may be gone: a wake needs its address only
      break;
    default:
      break;
  }
}

void sleep_briefly(TaskHost& host) noexcept {
  constexpr uint64_t kMomentNs = 100'000;
  if (host.current() != nullptr) {
    host.yield_for(kMomentNs);
  } else {
    const timespec moment{0, kMomentNs};
    ::nanosleep(&moment, nullptr);
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
