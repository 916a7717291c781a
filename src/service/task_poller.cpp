#include "service/task_poller.hpp"

#include <algorithm>
#include <utility>

#include "base/futex.hpp"

namespace ioweave::service {

/// Nothing is in flight: the polling task waits for wake().
class TaskPoller::Park final : public tasking::TaskPause {
 public:
  explicit Park(TaskPoller& poller) noexcept : TaskPause(*poller.host_), poller_(poller) {}
  void start() noexcept override {
    // seq_cst against wake(): either it sees us parked, or we see what it was called for.
    poller_.parked_.store(this, std::memory_order_seq_cst);
    if (poller_.unfinished_.load(std::memory_order_seq_cst) != 0 ||
        poller_.stop_.load(std::memory_order_seq_cst)) {
      poller_.wake();
    }
  }
  // Not with the worker: the tasks that run on it are to be polled for.
  int64_t help() noexcept override {
    poller_.wake();
    return -1;
  }

 private:
  TaskPoller& poller_;
};

bool TaskPoller::start(tasking::TaskHost& host, uint64_t min_ns, uint64_t max_ns) noexcept {
  host_ = &host;
  min_ns_ = min_ns;
  max_ns_ = max_ns;
  running_.store(1, std::memory_order_relaxed);
  const bool spawned =
      host.spawn([](void* self) { static_cast<TaskPoller*>(self)->run(); },
                 [](void* self) {
                   const std::atomic<uint32_t>& word = static_cast<TaskPoller*>(self)->running_;
                   static_cast<TaskPoller*>(self)->running_.store(0, std::memory_order_release);
                   futex_wake(word);  // the poller may be gone: a wake needs its address only
                 },
                 this);
  if (!spawned) {
    host_ = nullptr;
  }
  return spawned;
}

void TaskPoller::run() noexcept {
  uint64_t period_ns = min_ns_;
  while (!stop_.load(std::memory_order_acquire)) {
    const bool found = pump_.drive() != 0;
    period_ns = found ? min_ns_ : std::min(2 * period_ns, max_ns_);
    if (unfinished_.load(std::memory_order_seq_cst) == 0 && host_->can_pause()) {
      park();
      period_ns = min_ns_;
    } else {
      host_->yield_for(period_ns);
    }
  }
}

void TaskPoller::park() noexcept {
  Park pause(*this);
  host_->pause(pause);
}

void TaskPoller::wake() noexcept {
  if (parked_.load(std::memory_order_seq_cst) != nullptr) {
    if (Park* const parked = parked_.exchange(nullptr, std::memory_order_seq_cst)) {
      parked->complete();
    }
  }
}

void TaskPoller::stop() noexcept {
  while (unfinished_.load(std::memory_order_acquire) != 0) {
    if (pump_.drive() == 0) {
      tasking::sleep_briefly(*host_);
    }
  }
  stop_.store(true, std::memory_order_seq_cst);
  wake();
  tasking::await_zero(running_, *host_);
  host_ = nullptr;
}

}  // namespace ioweave::service
