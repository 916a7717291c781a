#include "service/wait.hpp"

#include <cerrno>

#include "base/assert.hpp"
#include "service/service.hpp"

namespace ioweave::service {

/// A task that is paused until the wait ends.
class Wait::Pause final : public tasking::TaskPause {
 public:
  Pause(Service& service, Wait& wait) noexcept
      : TaskPause(*service.tasks_.host), service_(service), wait_(wait) {}

  void start() noexcept override {
    if (wait_.begin()) {
      end();  // else the pause may be gone
    }
  }
  int64_t help() noexcept override { return service_.help_reaper(); }

  void end() noexcept {
    service_.tasks_.counters.paused.fetch_sub(1, std::memory_order_relaxed);
    complete();
  }

 private:
  Service& service_;
  Wait& wait_;
};

void Wait::end() noexcept {
  if (pause_ != nullptr) {
    pause_->end();
  } else {
    event_.complete();
  }
}

int Service::wait_for(Wait& wait, int64_t timeout_ns) noexcept {
  const tasking::Task task = current_task();
  if (task != nullptr && tasks_.host->can_pause(task) && count_pause()) {
    static_cast<void>(look_after_own_lane());  // nobody does so meanwhile
    pause_until_ended(wait);
    tasks_.counters.held.fetch_sub(1, std::memory_order_relaxed);
    return 0;
  }
  const Deadline deadline(timeout_ns);
  static_cast<void>(wait.event_.prepare());
  if (wait.begin()) {
    return 0;
  }
  // Whom a task waits for may need this very worker.
  const bool lets_others_run = task == nullptr || tasks_.host->can_poll();
  if (!lets_others_run && wait.withdraw()) {
    return -EAGAIN;
  }
  bool is_late = false;  // but somebody is ending it
  while (!wait.event_.done()) {
    const int64_t patience_ns = patience_elsewhere(is_late ? -1 : deadline.left_ns());
    if (task != nullptr && lets_others_run) {
      tasking::sleep_briefly(*tasks_.host);
    } else {
      wait.event_.sleep(patience_ns);
    }
    if (!is_late && !wait.event_.done() && deadline.passed()) {
      if (wait.withdraw()) {
        return -ETIME;
      }
      is_late = true;
    }
  }
  return 0;
}

/// Not to be inlined: what the compiler knows of this thread must not outlive the pause.
__attribute__((noinline)) void Service::pause_until_ended(Wait& wait) noexcept {
  Wait::Pause pause(*this, wait);
  wait.pause_ = &pause;
  tasks_.host->pause(pause);
  IOW_ASSERT(pause.done());
}

}  // namespace ioweave::service
