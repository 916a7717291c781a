#include "service/admissions.hpp"

#include <cerrno>
#include <new>
#include <utility>

#include <sched.h>

#include "service/driving_here.hpp"

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
  may_start = gate_.admit({*this, asked.get(), flow, bytes}, asked->id);
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

}  // namespace ioweave::service
