#include "service/admissions.hpp"

#include <cerrno>
#include <new>
#include <utility>

#include <sched.h>

#include "base/assert.hpp"
#include "service/driving_here.hpp"
#include "service/service.hpp"

namespace ioweave::service {

int64_t Admissions::ask(uint32_t flow, uint64_t bytes, Admitted admitted, void* user,
                        bool& may_start) noexcept {
  std::shared_ptr<Operation> asked;
  int64_t number = 0;
  try {
    asked = std::make_shared<Operation>();
    const std::lock_guard guard(lock_);
    if (closing_.load(std::memory_order_relaxed)) {
      return -ECANCELED;
    }
    number = next_++;
    operations_.emplace(number, asked);  // first: it may be admitted, and end, before admit() ends
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
  asked->number = number;
  asked->admitted = admitted;
  asked->user = user;
  try {
    may_start = gate_.admit({*this, asked.get(), flow, bytes}, asked->id);
  } catch (const std::bad_alloc&) {
    const std::lock_guard guard(lock_);
    operations_.erase(number);
    return -ENOMEM;
  }
  if (may_start) {
    asked->is_admitted.store(true, std::memory_order_relaxed);
  }
  return number;
}

/// The gate lets it go. The operation may end, and be gone, as soon as somebody is told.
void Admissions::start(void* operation) noexcept {
  auto& asked = *static_cast<Operation*>(operation);
  const int64_t number = asked.number;
  const Admitted admitted = asked.admitted;
  void* const user = asked.user;
  asked.is_admitted.store(true, std::memory_order_release);  // pairs with finish() and close()
  if (!closing_.load(std::memory_order_relaxed) && born_ == fork_generation()) {
    const DrivingHere here;  // in whatever task: calls there must not pause it
    admitted(number, user);
  }
}

std::shared_ptr<Admissions::Operation> Admissions::find(int64_t number) const {
  const std::lock_guard guard(lock_);
  const auto found = operations_.find(number);
  return found == operations_.end() ? nullptr : found->second;
}

int Admissions::finish(int64_t number, int64_t result) noexcept {
  const std::shared_ptr<Operation> asked = find(number);
  if (asked == nullptr) {
    return -ENOENT;
  }
  if (!asked->is_admitted.load(std::memory_order_acquire)) {
    return -EBUSY;
  }
  {
    const std::lock_guard guard(lock_);
    if (operations_.erase(number) == 0) {
      return -ENOENT;  // another thread was first
    }
  }
  gate_.ended(asked->id, result);
  return 0;
}

int Admissions::withdraw(int64_t number) noexcept {
  const std::shared_ptr<Operation> asked = find(number);
  if (asked == nullptr || !gate_.withdraw(asked->id)) {
    return -EALREADY;
  }
  const std::lock_guard guard(lock_);
  operations_.erase(number);
  return 0;
}

void Admissions::close() noexcept {
  std::unordered_map<int64_t, std::shared_ptr<Operation>> forgotten;
  {
    const std::lock_guard guard(lock_);
    closing_.store(true, std::memory_order_relaxed);
    forgotten.swap(operations_);
  }
  for (const auto& [number, asked] : forgotten) {
    if (!gate_.withdraw(asked->id)) {
      // The end of a request, on another thread, may be about to start it.
      while (!asked->is_admitted.load(std::memory_order_acquire)) {
        sched_yield();
      }
      gate_.ended(asked->id, -ECANCELED);
    }
  }
}

// ---- The service's calls

/// A task that is paused until the gate admits its operation.
class Service::PausedAdmission final : public tasking::TaskPause {
 public:
  PausedAdmission(Service& service, uint32_t flow, uint64_t bytes) noexcept
      : TaskPause(*service.tasks_.host), service_(service), flow_(flow), bytes_(bytes) {}

  void start() noexcept override {
    bool may_start = false;
    const auto admitted = [](int64_t number, void* user) {
      static_cast<PausedAdmission*>(user)->end(number);
    };
    const int64_t number = service_.admissions_.ask(flow_, bytes_, admitted, this, may_start);
    if (may_start || number < 0) {
      end(number);  // else the pause may be gone
    }
  }
  int64_t help() noexcept override { return service_.help_reaper(); }
  [[nodiscard]] int64_t number() const noexcept { return number_; }

 private:
  void end(int64_t number) noexcept {
    number_ = number;
    service_.tasks_.counters.paused.fetch_sub(1, std::memory_order_relaxed);
    complete();
  }

  Service& service_;
  const uint32_t flow_;
  const uint64_t bytes_;
  int64_t number_ = 0;
};

int64_t Service::admit(uint32_t flow, uint64_t bytes) noexcept {
  if (is_inherited()) {
    return -ECANCELED;
  }
  if (!gate_.knows(flow)) {
    return -EINVAL;
  }
  const tasking::Task task = current_task();
  if (task != nullptr && tasks_.host->can_pause(task) && count_pause()) {
    const int64_t number = pause_until_admitted(flow, bytes);
    tasks_.counters.held.fetch_sub(1, std::memory_order_relaxed);
    return number;
  }
  tasking::ThreadEvent event{};
  static_cast<void>(event.prepare());
  bool may_start = false;
  const int64_t number = admissions_.ask(
      flow, bytes,
      [](int64_t, void* user) { static_cast<tasking::ThreadEvent*>(user)->complete(); }, &event,
      may_start);
  if (number < 0 || may_start) {
    return number;
  }
  // Whom a task waits for may need this very worker.
  const bool lets_others_run = task == nullptr || tasks_.host->can_poll();
  if (!lets_others_run && admissions_.withdraw(number) == 0) {
    return -EAGAIN;
  }
  while (!event.done()) {
    if (task != nullptr && lets_others_run) {
      tasking::sleep_briefly(*tasks_.host);
    } else {
      event.sleep(-1);
    }
  }
  return number;
}

/// Not to be inlined: what the compiler knows of this thread must not outlive the pause.
__attribute__((noinline)) int64_t Service::pause_until_admitted(uint32_t flow,
                                                                uint64_t bytes) noexcept {
  PausedAdmission pause(*this, flow, bytes);
  tasks_.host->pause(pause);
  IOW_ASSERT(pause.done());
  return pause.number();
}

int64_t Service::admit(uint32_t flow, uint64_t bytes, Admissions::Admitted admitted,
                       void* user) noexcept {
  if (is_inherited()) {
    return -ECANCELED;
  }
  if (admitted == nullptr || !gate_.knows(flow)) {
    return -EINVAL;
  }
  bool may_start = false;
  const int64_t operation = admissions_.ask(flow, bytes, admitted, user, may_start);
  if (may_start) {
    admitted(operation, user);
  }
  return operation;
}

int Service::finish(int64_t operation, int64_t result) noexcept {
  return is_inherited() ? -ECANCELED : admissions_.finish(operation, result);
}

int Service::withdraw(int64_t operation) noexcept {
  return is_inherited() ? -ECANCELED : admissions_.withdraw(operation);
}

}  // namespace ioweave::service
