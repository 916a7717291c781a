#include "service/task_poller.hpp"

#include <algorithm>

#include <pthread.h>

#include "base/futex.hpp"
#include "base/signals_masked.hpp"

namespace ioweave::service {

bool TaskPoller::start(tasking::TaskHost& host, uint64_t min_ns, uint64_t max_ns) noexcept {
  min_ns_ = min_ns;
  max_ns_ = max_ns;
  polls_.store(true, std::memory_order_seq_cst);
  host_ = &host;
  if (!spawn()) {
    polls_.store(false, std::memory_order_seq_cst);
    host_ = nullptr;
  }
  return started();
}

bool TaskPoller::spawn() noexcept {
  running_.fetch_add(1, std::memory_order_relaxed);
  const bool spawned =
      host_->spawn([](void* self) { static_cast<TaskPoller*>(self)->run(); },
                   [](void* self) { static_cast<TaskPoller*>(self)->end_run(); }, this);
  if (!spawned) {
    running_.fetch_sub(1, std::memory_order_relaxed);
  }
  return spawned;
}

bool TaskPoller::start_thread() noexcept {
  running_.fetch_add(1, std::memory_order_relaxed);
  const SignalsMasked masked;
  pthread_t thread;
  const auto main = [](void* self) -> void* {
    static_cast<TaskPoller*>(self)->run();
    static_cast<TaskPoller*>(self)->end_run();
    return nullptr;
  };
  const bool created = pthread_create(&thread, nullptr, main, this) == 0;
  if (created) {
    pthread_detach(thread);
  } else {
    running_.fetch_sub(1, std::memory_order_relaxed);
  }
  return created;
}

void TaskPoller::end_run() noexcept {
  const std::atomic<uint32_t>& word = running_;
  running_.fetch_sub(1, std::memory_order_release);
  futex_wake(word);  // the poller may be gone: a wake needs its address only
}

void TaskPoller::run() noexcept {
  uint64_t period_ns = min_ns_;
  while (true) {
    const bool found = pump_.drive() != 0;
    if (pump_.has_work()) {
      period_ns = found ? min_ns_ : std::min(2 * period_ns, max_ns_);
      host_->yield_for(period_ns);
      continue;
    }
    polls_.store(false, std::memory_order_seq_cst);
    // seq_cst against wake(): either it sees that nobody polls, or we see what it was called for.
    if (!pump_.has_work() || polls_.exchange(true, std::memory_order_seq_cst)) {
      return;
    }
    period_ns = min_ns_;
  }
}

void TaskPoller::wake() noexcept {
  if (!started() || polls_.load(std::memory_order_seq_cst) ||
      polls_.exchange(true, std::memory_order_seq_cst)) {
    return;
  }
  if (!spawn() && !start_thread()) {
    polls_.store(false, std::memory_order_seq_cst);  // the next one tries again, or stop()
  }
}

void TaskPoller::stop() noexcept {
  while (unfinished_.load(std::memory_order_acquire) != 0) {
    if (pump_.drive() == 0) {
      tasking::sleep_briefly(*host_);
    }
  }
  tasking::await_zero(running_, *host_);
  host_ = nullptr;
}

}  // namespace ioweave::service
